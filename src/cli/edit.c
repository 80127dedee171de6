/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/edit.h"

#include <ctype.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"

size_t cbx_edit_before(const struct cbx_edit *e, size_t at)
{
	if (at)
		at--;
	while (at && ((unsigned char)e->text.data[at] & 0xc0) == 0x80)
		at--;
	return at;
}

size_t cbx_edit_behind(const struct cbx_edit *e, size_t at)
{
	if (at < e->text.len)
		at++;
	while (at < e->text.len && ((unsigned char)e->text.data[at] & 0xc0) == 0x80)
		at++;
	return at;
}

size_t cbx_edit_line_begin(const struct cbx_edit *e, size_t at)
{
	while (at && e->text.data[at - 1] != '\n')
		at--;
	return at;
}

size_t cbx_edit_line_end(const struct cbx_edit *e, size_t at)
{
	while (at < e->text.len && e->text.data[at] != '\n')
		at++;
	return at;
}

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

size_t cbx_edit_word_left(const struct cbx_edit *e, size_t at)
{
	while (at && !in_word(e->text.data[at - 1]))
		at--;
	while (at && in_word(e->text.data[at - 1]))
		at--;
	return at;
}

size_t cbx_edit_word_right(const struct cbx_edit *e, size_t at)
{
	while (at < e->text.len && !in_word(e->text.data[at]))
		at++;
	while (at < e->text.len && in_word(e->text.data[at]))
		at++;
	return at;
}

bool cbx_edit_blank(const struct cbx_edit *e, size_t from, size_t to)
{
	while (from < to && strchr(" \t\n", e->text.data[from]))
		from++;
	return from == to;
}

void cbx_edit_insert(struct cbx_edit *e, const char *p, size_t n)
{
	if (n > CBX_CODE_MAX || e->text.len > CBX_CODE_MAX - n) {
		e->too_long = true;
		return;
	}
	cbx_buf_reserve(&e->text, n + 1);
	memmove(e->text.data + e->at + n, e->text.data + e->at, e->text.len - e->at);
	memcpy(e->text.data + e->at, p, n);
	e->text.len += n;
	e->text.data[e->text.len] = '\0';
	e->at += n;
}

void cbx_edit_cut(struct cbx_edit *e, size_t from, size_t to)
{
	if (from >= to)
		return;
	memmove(e->text.data + from, e->text.data + to, e->text.len - to + 1);
	e->text.len -= to - from;
	if (e->at > from)
		e->at = e->at < to ? from : e->at - (to - from);
}

void cbx_edit_replace(struct cbx_edit *e, const char *text, size_t n)
{
	e->text.len = e->at = 0;
	cbx_edit_insert(e, text, n);
}

void cbx_edit_backspace(struct cbx_edit *e)
{
	size_t begin = cbx_edit_line_begin(e, e->at), n = e->at - begin, spaces = 0;

	while (spaces < n && e->text.data[begin + spaces] == ' ')
		spaces++;
	cbx_edit_cut(e, n && spaces == n ? e->at - (n - 1) % CBX_EDIT_INDENT - 1 : cbx_edit_before(e, e->at), e->at);
}

void cbx_edit_swap(struct cbx_edit *e)
{
	size_t end = e->at == cbx_edit_line_end(e, e->at) ? e->at : cbx_edit_behind(e, e->at), mid = cbx_edit_before(e, end),
	       from = cbx_edit_before(e, mid);
	char c[8];

	if (from >= mid || from < cbx_edit_line_begin(e, e->at) || e->text.data[from] == '\n')
		return;
	memcpy(c, e->text.data + from, mid - from);
	memmove(e->text.data + from, e->text.data + mid, end - mid);
	memcpy(e->text.data + from + (end - mid), c, mid - from);
	e->at = end;
}

void cbx_edit_vertically(struct cbx_edit *e, bool up)
{
	size_t begin = cbx_edit_line_begin(e, e->at), column = cbx_utf8_count(e->text.data + begin, e->at - begin), end;

	e->at = up ? cbx_edit_line_begin(e, begin - 1) : cbx_edit_line_end(e, e->at) + 1;
	for (end = cbx_edit_line_end(e, e->at); column && e->at < end; column--)
		e->at = cbx_edit_behind(e, e->at);
}
