/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one function says what must not pass. A model is to read words: whole control sequences are
 * removed for it. A person gets colours (ESC [ digits m), but nothing that writes over what is there: movements of the
 * cursor and erasing, which progress bars use, are omitted, or handed to who knows how far they may go. What else was
 * tried is shown, with its escape as ^[. For that a small machine collects a sequence in `pending` and lets it pass or
 * shows it when its last byte has come; a character of UTF-8 that is split over two pieces waits there, too.
 */
#include "base/clean.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define ESC 0x1b

/* Beyond ASCII, what passes is what is seen: letters, marks, numbers, punctuation, symbols and spaces. These are not:
 * controls and formats (Unicode's Default_Ignorable_Code_Point, and of Cf the rest that shows nothing), separators of
 * lines, surrogates, private use, and code points that are not characters. */
static const struct {
	uint32_t first, last;
} unseen[] = {
	{ 0x0080, 0x009f },   { 0x00ad, 0x00ad },   { 0x034f, 0x034f },	  { 0x061c, 0x061c },	{ 0x070f, 0x070f },
	{ 0x115f, 0x1160 },   { 0x17b4, 0x17b5 },   { 0x180b, 0x180f },	  { 0x200b, 0x200b },	{ 0x200e, 0x200f },
	{ 0x2028, 0x202e },   { 0x2060, 0x206f },   { 0x3164, 0x3164 },	  { 0xd800, 0xf8ff },	{ 0xfdd0, 0xfdef },
	{ 0xfe00, 0xfe0d },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },	  { 0xfff0, 0xfffb },	{ 0xfffe, 0xffff },
	{ 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a }, { 0x1fffe, 0x1ffff }, { 0x2fffe, 0x2ffff }, { 0x3fffe, 0x10ffff },
};

static bool is_unseen(uint32_t code)
{
	for (size_t i = 0; i < ARRAY_SIZE(unseen) && code >= unseen[i].first; i++)
		if (code <= unseen[i].last)
			return true;
	return false;
}

size_t cbx_clean_unsafe(const char *p, size_t n, uint32_t *ret)
{
	const unsigned char *u = (const unsigned char *)p;
	size_t k;

	*ret = u[0];
	if (u[0] >= ' ' && u[0] < 0x7f)
		return 0;
	if (u[0] < 0x80)
		return 1;
	k = cbx_utf8_len(p, n);
	if (!k)
		return 1;
	if (k == 2)
		*ret = (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
	else if (k == 3)
		*ret = (u[0] & 0x0fu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
	else
		*ret = (u[0] & 0x07u) << 18 | (u[1] & 0x3fu) << 12 | (u[2] & 0x3fu) << 6 | (u[3] & 0x3fu);
	return is_unseen(*ret) ? k : 0;
}

static void show(struct cbx_buf *out, uint32_t code)
{
	cbx_buf_addf(out, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
}

static size_t safe_len(const char *p, size_t n)
{
	return (unsigned char)*p < 0x80 ? 1 : cbx_utf8_len(p, n);
}

void cbx_escape(struct cbx_buf *out, const char *s)
{
	size_t n = strlen(s);

	while (n) {
		uint32_t code;
		size_t k = cbx_clean_unsafe(s, n, &code);

		if (k)
			show(out, code);
		else
			cbx_buf_add(out, s, k = safe_len(s, n));
		s += k;
		n -= k;
	}
}

static bool is_space(char c)
{
	return c == '\t' || c == '\n' || c == '\r';
}

bool cbx_is_clean(const char *s)
{
	size_t n = strlen(s);

	while (n) {
		uint32_t code;
		size_t k = (*s >= ' ' && *s < 0x7f) || is_space(*s) ? 1 : 0;

		if (!k && cbx_clean_unsafe(s, n, &code))
			return false;
		if (!k)
			k = safe_len(s, n);
		s += k;
		n -= k;
	}
	return true;
}

/* What follows the sequence whose ESC is before p. An unfinished one ends with its line. */
static const char *skip_sequence(const char *p)
{
	if (*p == '[') {
		p++;
		while (*p >= 0x20 && *p < 0x40)
			p++;
		return *p >= 0x40 && *p < 0x7f ? p + 1 : p;
	}
	if (*p && strchr("]PX^_", *p)) { /* up to BEL or ESC \ */
		while (*p && *p != '\a' && *p != ESC && *p != '\n')
			p++;
		if (p[0] == ESC && p[1] == '\\')
			return p + 2;
		return *p == '\a' ? p + 1 : p;
	}
	while (*p >= 0x20 && *p < 0x30)
		p++;
	return *p >= 0x30 && *p < 0x7f ? p + 1 : p;
}

void cbx_clean(struct cbx_buf *out, const char *s)
{
	const char *end = s + strlen(s);

	while (s < end) {
		uint32_t code;
		size_t k = is_space(*s) ? 0 : cbx_clean_unsafe(s, (size_t)(end - s), &code);

		if (*s == ESC) {
			s = skip_sequence(s + 1);
			continue;
		}
		if (k)
			show(out, code);
		else
			cbx_buf_add(out, s, k = safe_len(s, (size_t)(end - s)));
		s += k;
	}
}

/* ---- for a terminal ---- */

/* ESC [ digits, and one of these letters. */
static bool is_sequence(const char *seq, size_t n, const char *letters)
{
	if (n < 3 || seq[1] != '[' || !strchr(letters, seq[n - 1]))
		return false;
	for (size_t i = 2; i < n - 1; i++)
		if (!((seq[i] >= '0' && seq[i] <= '9') || seq[i] == ';' || seq[i] == ':'))
			return false;
	return true;
}

#define MOVE_MAX 10000u

static void move(struct cbx_cleaner *c, struct cbx_buf *out)
{
	unsigned n = 0;
	size_t i = 2;

	for (; i < c->npending - 1 && c->pending[i] >= '0' && c->pending[i] <= '9'; i++)
		n = n < MOVE_MAX ? n * 10 + (unsigned)(c->pending[i] - '0') : n;
	if (c->move && i == c->npending - 1)
		c->move(c->arg, out, c->pending[i], n);
}

/* Whether the cursor is seen: of no use here, and no harm. */
static bool is_cursor(const char *seq, size_t n)
{
	return n == 6 && (memcmp(seq + 1, "[?25l", 5) == 0 || memcmp(seq + 1, "[?25h", 5) == 0);
}

static void end_sequence(struct cbx_cleaner *c, struct cbx_buf *out)
{
	if (is_sequence(c->pending, c->npending, "m")) {
		cbx_buf_add(out, c->pending, c->npending);
	} else if (is_sequence(c->pending, c->npending, "ABCDEFGHJK")) {
		move(c, out);
	} else if (!is_cursor(c->pending, c->npending)) {
		cbx_buf_adds(out, "^[");
		cbx_buf_add(out, c->pending + 1, c->npending - 1);
	}
	c->npending = 0;
}

/* A byte of a sequence that has begun. False: it is not part of it, and is looked at anew. */
static bool collect(struct cbx_cleaner *c, struct cbx_buf *out, unsigned char b)
{
	if (c->npending == sizeof(c->pending) || (c->npending == 1 && b != '[') || b < 0x20 || b >= 0x7f) {
		end_sequence(c, out);
		return false;
	}
	c->pending[c->npending++] = (char)b;
	if (c->npending > 2 && b >= 0x40)
		end_sequence(c, out);
	return true;
}

/* One whole character. */
static void put(struct cbx_buf *out, const char *p, size_t n)
{
	uint32_t code;

	if (is_space(*p) || *p == '\b' || !cbx_clean_unsafe(p, n, &code))
		cbx_buf_add(out, p, n);
	else if (code < 0x20 || code == 0x7f)
		cbx_buf_addf(out, "^%c", (int)(code ^ 0x40));
	else
		show(out, code);
}

/* How long the character that begins with this byte is to be; 1 for what begins none. */
static size_t announced(unsigned char b)
{
	return b >= 0xf0 && b < 0xf5 ? 4 : b >= 0xe0 && b < 0xf0 ? 3 : b >= 0xc2 && b < 0xe0 ? 2 : 1;
}

static bool goes_on(unsigned char b)
{
	return (b & 0xc0) == 0x80;
}

static void feed_one(struct cbx_cleaner *c, struct cbx_buf *out, char b)
{
	size_t n = c->npending;

	if (n && c->pending[0] == ESC) {
		if (collect(c, out, (unsigned char)b))
			return;
	} else if (n && goes_on((unsigned char)b)) {
		c->pending[c->npending++] = b;
		if (c->npending == announced((unsigned char)c->pending[0])) {
			if (cbx_utf8_len(c->pending, c->npending)) {
				put(out, c->pending, c->npending);
				c->npending = 0;
			} else {
				cbx_cleaner_end(c, out);
			}
		}
		return;
	} else if (n) {
		cbx_cleaner_end(c, out);
	}
	if (b == ESC || announced((unsigned char)b) > 1)
		c->pending[c->npending++] = b;
	else
		put(out, &b, 1);
}

void cbx_cleaner_feed(struct cbx_cleaner *c, struct cbx_buf *out, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		feed_one(c, out, p[i]);
}

void cbx_cleaner_end(struct cbx_cleaner *c, struct cbx_buf *out)
{
	if (c->npending && c->pending[0] == ESC)
		end_sequence(c, out);
	for (size_t i = 0; i < c->npending; i++)
		show(out, (unsigned char)c->pending[i]);
	c->npending = 0;
}
