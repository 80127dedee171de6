/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rows.h"

#include <locale.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define ESC	  0x1b
#define TAB_WIDTH 8

void cbx_rows_init(struct cbx_rows *r, int fd)
{
	const char *locale;

	memset(r, 0, sizeof(*r));
	r->fd = isatty(fd) == 1 ? fd : -1;
	if (r->fd < 0)
		return;
	locale = setlocale(LC_CTYPE, "");
	if (!locale || strcmp(locale, "C") == 0 || strcmp(locale, "POSIX") == 0)
		setlocale(LC_CTYPE, "C.UTF-8");
	cbx_rows_begin(r);
}

static struct winsize size_of(const struct cbx_rows *r)
{
	struct winsize ws = { 0 };

	(void)ioctl(r->fd, TIOCGWINSZ, &ws);
	if (!ws.ws_col)
		ws.ws_col = 80;
	if (!ws.ws_row)
		ws.ws_row = 24;
	return ws;
}

void cbx_rows_begin(struct cbx_rows *r)
{
	if (r->fd < 0)
		return;
	r->width = size_of(r).ws_col;
	r->rows = r->most = 0;
	r->start = r->column;
}

static void advance(struct cbx_rows *r, uint32_t code)
{
	int wide = wcwidth((wchar_t)code);
	unsigned n = wide < 0 ? 1 : (unsigned)wide;

	if (n && r->column + n > r->width) {
		r->rows++;
		r->column = 0;
	}
	r->column += n;
}

static void one(struct cbx_rows *r, unsigned char c)
{
	if (r->escape) {
		r->escape = c == '[' || c == ';' || c == ':' || (c >= '0' && c <= '9');
	} else if (r->continues && (c & 0xc0) == 0x80) {
		r->code = r->code << 6 | (c & 0x3f);
		if (--r->continues == 0)
			advance(r, r->code);
	} else if (c >= 0xc0) {
		r->continues = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
		r->code = c & (0x3f >> r->continues);
	} else if (c == '\n') {
		r->rows++;
		r->column = 0;
	} else if (c == '\t') {
		r->column = (r->column / TAB_WIDTH + 1) * TAB_WIDTH;
		if (r->column >= r->width)
			r->column = r->width - 1;
	} else if (c == '\r') {
		r->column = 0;
	} else if (c == '\b') {
		r->column -= r->column > 0;
	} else if (c == ESC) {
		r->escape = true;
	} else {
		advance(r, c);
	}
}

void cbx_rows_write(struct cbx_rows *r, const char *p, size_t n)
{
	for (size_t i = 0; r->fd >= 0 && i < n; i++) {
		one(r, (unsigned char)p[i]);
		r->most = r->rows > r->most ? r->rows : r->most;
	}
}

/* Rows above the cursor that were written, and are on the screen still. */
static unsigned above(const struct cbx_rows *r)
{
	unsigned below = r->most - r->rows, height = size_of(r).ws_row,
		 most = height > below + 1 ? height - 1 - below : 0;

	return r->rows < most ? r->rows : most;
}

static void go_down(struct cbx_rows *r, struct cbx_buf *out, unsigned n)
{
	n = n < r->most - r->rows ? n : r->most - r->rows;
	if (n)
		cbx_buf_addf(out, "\033[%uB", n);
	r->rows += n;
}

static void go_up(struct cbx_rows *r, struct cbx_buf *out, unsigned n)
{
	n = n < above(r) ? n : above(r);
	if (n)
		cbx_buf_addf(out, "\033[%uA", n);
	r->rows -= n;
}

static void go_to_column(struct cbx_rows *r, struct cbx_buf *out, unsigned column)
{
	r->column = column < r->width ? column : r->width - 1;
	cbx_buf_addf(out, "\033[%uG", r->column + 1);
}

static void erase(const struct cbx_rows *r, struct cbx_buf *out, char letter, unsigned n)
{
	bool whole = letter == 'K' && (n == 1 || n == 2); /* what is left of the cursor, too */

	if (n == 0 || (whole && (r->rows || !r->start)))
		cbx_buf_addf(out, "\033[%u%c", n, letter);
}

void cbx_rows_move(struct cbx_rows *r, struct cbx_buf *out, char letter, unsigned n)
{
	unsigned steps = n ? n : 1, column = r->column < r->width ? r->column : r->width - 1;

	if (r->fd < 0 || letter == 'H')
		return;
	if (letter == 'J' || letter == 'K') {
		erase(r, out, letter, n);
		return;
	}
	if (letter == 'A' || letter == 'F')
		go_up(r, out, steps);
	else if (letter == 'B' || letter == 'E')
		go_down(r, out, steps);
	if (letter == 'C')
		go_to_column(r, out, column + steps);
	else if (letter == 'D')
		go_to_column(r, out, column > steps ? column - steps : 0);
	else if (letter == 'G')
		go_to_column(r, out, steps - 1);
	else if (letter == 'E' || letter == 'F')
		go_to_column(r, out, 0);
	else
		r->column = column;
}

void cbx_rows_leave(struct cbx_rows *r, struct cbx_buf *out)
{
	if (r->fd >= 0)
		go_down(r, out, r->most);
}

void cbx_rows_moved(struct cbx_rows *r, unsigned rows)
{
	r->rows += rows;
	r->most = r->rows > r->most ? r->rows : r->most;
	r->column = 0;
}

void cbx_rows_erase(struct cbx_rows *r, struct cbx_buf *out)
{
	unsigned up;

	if (r->fd < 0)
		return;
	up = above(r);
	cbx_buf_addc(out, '\r');
	if (up)
		cbx_buf_addf(out, "\033[%uA", up);
	cbx_buf_adds(out, "\033[J");
	r->column = 0;
	cbx_rows_begin(r);
}
