/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a small machine that collects a control sequence (ESC [ digits ; letter) in `pending` and, when
 * its last byte has come, lets it pass or writes it with a visible escape. A sequence may be split over two writes.
 */
#include "cli/term.h"

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

#define ESC 0x1b

void cbx_term_init(struct cbx_term *t, int fd)
{
	memset(t, 0, sizeof(*t));
	t->fd = fd;
	t->filter = isatty(fd) == 1;
	t->last = '\n';
}

static void emit(struct cbx_term *t, const char *p, size_t n)
{
	if (!n || t->failed)
		return;
	t->failed = cbx_write_all(t->fd, p, n) < 0;
	t->last = p[n - 1];
}

/* m: colours. A B C D G: cursor. J K: erase. No private parameters, no reports. */
static bool harmless(const char *seq, size_t n)
{
	if (n < 3 || seq[1] != '[' || !strchr("mABCDGJK", seq[n - 1]))
		return false;
	for (size_t i = 2; i < n - 1; i++)
		if (!((seq[i] >= '0' && seq[i] <= '9') || seq[i] == ';' || seq[i] == ':'))
			return false;
	return true;
}

static void end_sequence(struct cbx_term *t, struct cbx_buf *out)
{
	if (harmless(t->pending, t->npending)) {
		cbx_buf_add(out, t->pending, t->npending);
	} else {
		cbx_buf_adds(out, "^[");
		cbx_buf_add(out, t->pending + 1, t->npending - 1);
	}
	t->npending = 0;
}

/* A byte of a sequence that has begun. False: it is not part of it, and is looked at anew. */
static bool collect(struct cbx_term *t, struct cbx_buf *out, unsigned char c)
{
	if (t->npending == sizeof(t->pending) || (t->npending == 1 && c != '[') || c < 0x20 || c >= 0x7f) {
		end_sequence(t, out);
		return false;
	}
	t->pending[t->npending++] = (char)c;
	if (t->npending > 2 && c >= 0x40)
		end_sequence(t, out);
	return true;
}

static size_t filter_one(struct cbx_term *t, struct cbx_buf *out, const char *p, size_t n)
{
	unsigned char c = (unsigned char)*p;
	size_t k;

	if (t->npending && collect(t, out, c))
		return 1;
	if (c == ESC) {
		t->pending[0] = *p;
		t->npending = 1;
		return 1;
	}
	if (c == '\n' || c == '\t' || c == '\r' || c == '\b' || (c >= 0x20 && c < 0x7f)) {
		cbx_buf_addc(out, *p);
		return 1;
	}
	if (c < 0x20 || c == 0x7f) {
		cbx_buf_addf(out, "^%c", c ^ 0x40);
		return 1;
	}
	k = cbx_utf8_len(p, n);
	/* The C1 controls are escape sequences of two bytes in UTF-8; some terminals take them raw, too. */
	if (!k || (k == 2 && c == 0xc2 && (unsigned char)p[1] < 0xa0)) {
		cbx_buf_adds(out, "\xef\xbf\xbd");
		return k ? k : 1;
	}
	cbx_buf_add(out, p, k);
	return k;
}

void cbx_term_write(struct cbx_term *t, const char *p, size_t n)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	if (!t->filter) {
		emit(t, p, n);
		return;
	}
	while (n) {
		size_t k = filter_one(t, &out, p, n);

		p += k;
		n -= k;
	}
	emit(t, out.data, out.len);
}

void cbx_term_puts(struct cbx_term *t, const char *s)
{
	cbx_term_write(t, s, strlen(s));
}

void cbx_term_flush(struct cbx_term *t)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	if (t->npending)
		end_sequence(t, &out);
	emit(t, out.data, out.len);
}

void cbx_term_fresh_line(struct cbx_term *t)
{
	cbx_term_flush(t);
	if (t->last != '\n')
		emit(t, "\n", 1);
}
