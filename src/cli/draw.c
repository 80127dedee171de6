/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the whole text is laid out as rows with newlines between them, so that no terminal wraps by
 * itself. If the new rows begin with those that are drawn, and the cursor stays at the end, only the rest is written,
 * as while a line is typed. Else the cursor goes up to the first row on the screen, and all are written anew.
 */
#include "cli/draw.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"

#define CONTINUED "... "
#define TAB	  8

static void ask_size(struct cbx_draw *d)
{
	struct winsize ws = { 0 };

	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws);
	d->height = ws.ws_row ? ws.ws_row : 24;
	d->columns = ws.ws_col ? ws.ws_col : 80;
}

/* A character: its bytes, and the columns that it takes; what must not reach a terminal has *ret_shown false. */
static size_t glyph(const char *p, size_t n, size_t *ret_width, bool *ret_shown)
{
	size_t len = cbx_utf8_len(p, n);
	mbstate_t state = { 0 };
	uint32_t code;
	wchar_t wide = 0;
	int width;

	*ret_width = 1;
	*ret_shown = len && !cbx_clean_unsafe(p, n, &code) && mbrtowc(&wide, p, len, &state) == len;
	width = *ret_shown ? wcwidth(wide) : 1;
	*ret_shown = *ret_shown && width >= 0;
	if (width >= 0)
		*ret_width = (size_t)width;
	return len ? len : 1;
}

struct layout {
	struct cbx_buf rows;
	size_t row, col; /* of the end */
	size_t at_row, at_col;
};

static void lay_out(struct layout *y, const char *prompt, const struct cbx_buf *text, size_t cursor, size_t columns)
{
	size_t limit = columns > 12 ? columns : 12, begin, len, width;
	bool shown;

	for (const char *p = prompt; *p; p += len) {
		len = glyph(p, strlen(p), &width, &shown);
		cbx_buf_add(&y->rows, shown ? p : "?", shown ? len : 1);
		y->col += width;
	}
	begin = y->col;
	for (size_t i = 0; i <= text->len; i += len) {
		const char *p = text->data + i;

		if (i == cursor) {
			y->at_row = y->row;
			y->at_col = y->col;
		}
		if (i == text->len)
			break;
		if (*p == '\n') {
			cbx_buf_adds(&y->rows, "\n" CONTINUED);
			y->row++;
			begin = y->col = strlen(CONTINUED);
			len = 1;
			continue;
		}
		len = glyph(p, text->len - i, &width, &shown);
		if (*p == '\t')
			width = TAB - (y->col - (y->col < begin ? y->col : begin)) % TAB;
		if (y->col + width > limit) {
			cbx_buf_addc(&y->rows, '\n');
			y->row++;
			y->col = 0;
			if (i == cursor) {
				y->at_row = y->row;
				y->at_col = 0;
			}
		}
		y->col += width;
		if (*p == '\t')
			while (width--)
				cbx_buf_addc(&y->rows, ' ');
		else if (shown)
			cbx_buf_add(&y->rows, p, len);
		else
			cbx_buf_addc(&y->rows, '?');
	}
}

static void move_up(struct cbx_buf *out, size_t n)
{
	if (n)
		cbx_buf_addf(out, "\033[%zuA", n);
}

static void to_top(const struct cbx_draw *d, struct cbx_buf *out)
{
	size_t up = d->row - d->from;

	if (!d->any)
		return;
	cbx_buf_addc(out, '\r');
	move_up(out, up < d->height ? up : d->height - 1);
}

static void draw_all(struct cbx_draw *d, const struct layout *y, struct cbx_buf *out)
{
	const char *p = y->rows.data;
	size_t last;

	to_top(d, out);
	if (y->at_row < d->from || y->row < d->height)
		d->from = y->row < d->height ? 0 : y->at_row;
	if (y->at_row >= d->from + d->height)
		d->from = y->at_row - d->height + 1;
	last = y->row - d->from < d->height ? y->row : d->from + d->height - 1;
	for (size_t row = 0; row <= last; row++) {
		size_t n = strcspn(p, "\n");

		if (row >= d->from) {
			cbx_buf_adds(out,
				     row == last ? "\033[J" : "\033[K"); /* behind a full row it would take a column */
			cbx_buf_add(out, p, n);
			if (row < last)
				cbx_buf_addc(out, '\n');
		}
		p += n + (p[n] == '\n');
	}
	if (last == y->row && y->at_row == y->row && y->at_col == y->col)
		return;
	move_up(out, last - y->at_row);
	cbx_buf_addc(out, '\r');
	if (y->at_col)
		cbx_buf_addf(out, "\033[%zuC", y->at_col);
}

void cbx_draw(struct cbx_draw *d, const char *prompt, const struct cbx_buf *text, size_t cursor)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	struct layout y = { 0 };

	if (!d->any) {
		ask_size(d);
		d->from = d->row = d->col = 0;
		cbx_buf_drop(&d->rows, d->rows.len);
		d->at_end = true;
	}
	lay_out(&y, prompt, text, cursor, d->columns);
	if (d->at_end && cursor == text->len && y.rows.len >= d->rows.len &&
	    (!d->rows.len || memcmp(y.rows.data, d->rows.data, d->rows.len) == 0))
		cbx_buf_add(&out, y.rows.data + d->rows.len, y.rows.len - d->rows.len);
	else
		draw_all(d, &y, &out);
	(void)cbx_cli_out(out.data, out.len);
	cbx_buf_release(&d->rows);
	d->rows = y.rows;
	d->row = y.at_row;
	d->col = y.at_col;
	d->at_end = cursor == text->len;
	d->any = true;
}

/* Terminals wrap what is now too long for a row, and the rows above the cursor are more than they were. */
void cbx_draw_resized(struct cbx_draw *d)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	const char *p = cbx_buf_str(&d->rows);
	size_t up = 0, width = 0, w, col = d->col < d->columns ? d->col : d->columns - 1;
	bool shown;

	if (!d->any)
		return;
	ask_size(d);
	for (size_t row = 0, n = 0; row < d->row && *p; p += n) {
		n = *p == '\n' ? 1 : glyph(p, strlen(p), &w, &shown);
		width += *p == '\n' ? 0 : w;
		if (*p != '\n')
			continue;
		if (row++ >= d->from)
			up += width ? (width - 1) / d->columns + 1 : 1;
		width = 0;
	}
	up += col / d->columns;
	cbx_buf_addc(&out, '\r');
	move_up(&out, up < d->height ? up : d->height - 1);
	cbx_buf_adds(&out, "\033[J");
	(void)cbx_cli_out(out.data, out.len);
	d->any = false;
}

void cbx_draw_end(struct cbx_draw *d)
{
	if (d->any)
		(void)cbx_cli_out("\n", 1);
	d->any = false;
}

void cbx_draw_release(struct cbx_draw *d)
{
	cbx_buf_release(&d->rows);
}
