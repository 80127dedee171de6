/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one line at a time is kept as an array of cells, each a character of the text; a column says
 * where the next one goes. Carriage return and backspace move the column, so that a progress bar that was redrawn a
 * thousand times is one line. Every character is looked at once, whatever the text is. Colours and other escape
 * sequences are omitted; of them only "erase to the end of the line" has an effect, since it goes with carriage return.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "render/render.h"

struct cell {
	const char *p;
	size_t n;
};

struct row {
	struct cell *cells;
	size_t len, cap, col;
};

static void put(struct row *row, const char *p, size_t n)
{
	if (row->col == row->cap) {
		row->cap = row->cap ? row->cap * 2 : 256;
		row->cells = cbx_xrealloc(row->cells, row->cap * sizeof(*row->cells));
	}
	row->cells[row->col++] = (struct cell){ p, n };
	if (row->len < row->col)
		row->len = row->col;
}

static void flush(struct row *row, struct cbx_buf *out)
{
	for (size_t i = 0; i < row->len; i++)
		cbx_buf_add(out, row->cells[i].p, row->cells[i].n);
	row->len = row->col = 0;
}

/* p is behind the escape character; returns what follows the sequence. */
static const char *skip_escape(struct row *row, const char *p)
{
	if (*p == '[') {
		const char *from = ++p;

		while (*p >= 0x20 && *p < 0x40)
			p++;
		if (*p == 'K' && (p == from || (p == from + 1 && *from == '0')))
			row->len = row->col;
		return *p >= 0x40 && *p < 0x7f ? p + 1 : p;
	}
	if (*p == ']') { /* up to BEL or ESC \ */
		while (*p && *p != '\a' && *p != '\033' && *p != '\n')
			p++;
		if (p[0] == '\033' && p[1] == '\\')
			return p + 2;
		return *p == '\a' ? p + 1 : p;
	}
	return *p > 0x20 && *p < 0x7f ? p + 1 : p;
}

void cbx_render_screen(struct cbx_buf *out, const char *text)
{
	const char *end = text + strlen(text), *p = text;
	struct row row = { 0 };

	if (!text[strcspn(text, "\r\b\033\a")]) {
		cbx_buf_add(out, text, (size_t)(end - text));
		return;
	}
	while (p < end) {
		size_t k = cbx_utf8_len(p, (size_t)(end - p));

		if (!k)
			k = 1;
		if (*p == '\n') {
			flush(&row, out);
			cbx_buf_addc(out, '\n');
		} else if (*p == '\r') {
			row.col = 0;
		} else if (*p == '\b') {
			row.col -= row.col > 0;
		} else if (*p == '\033') {
			p = skip_escape(&row, p + 1);
			continue;
		} else if (*p != '\a') {
			put(&row, p, k);
		}
		p += k;
	}
	flush(&row, out);
	free(row.cells);
}

/* Bytes of the first n characters. */
static size_t bytes_of(const char *p, size_t n)
{
	const char *from = p;

	for (; *p; p++)
		if (((unsigned char)*p & 0xc0) != 0x80 && n-- == 0)
			break;
	return (size_t)(p - from);
}

struct cbx_render_cut cbx_render_cut_plan(const char *text, size_t max)
{
	size_t len = strlen(text), chars = len <= max ? len : cbx_utf8_count(text, len);

	if (chars <= max)
		return (struct cbx_render_cut){ len, len };
	return (struct cbx_render_cut){ bytes_of(text, max / 2), bytes_of(text, chars - (max - max / 2)) };
}

void cbx_render_cut_part(struct cbx_buf *out, const char *text, const struct cbx_render_cut *cut, size_t from, size_t to,
		      uint64_t before, const char *where)
{
	size_t head = to < cut->head ? to : cut->head, tail = from > cut->tail ? from : cut->tail;

	if (from < head)
		cbx_buf_add(out, text + from, head - from);
	/* The gap is shown once, in the part in which it begins. */
	if (cut->head < cut->tail && from <= cut->head && cut->head < to) {
		cbx_buf_addf(out, "\n[... %llu bytes omitted here; ",
			     (unsigned long long)(cut->tail - cut->head + before));
		if (where)
			cbx_buf_addf(out, "%s ...]\n", where);
		else
			cbx_buf_adds(out, "print less, or write it to a file ...]\n");
	}
	if (tail < to)
		cbx_buf_add(out, text + tail, to - tail);
}

size_t cbx_render_cut(struct cbx_buf *out, const char *text, size_t max, uint64_t before, const char *where)
{
	struct cbx_render_cut cut = cbx_render_cut_plan(text, max);

	cbx_render_cut_part(out, text, &cut, 0, strlen(text), before, where);
	return cut.tail - cut.head;
}
