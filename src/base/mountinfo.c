/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mountinfo.h"

#include <string.h>

/* Take the next field off the front of what is left. */
static bool next(const char **p, const char *end, const char **ret, size_t *ret_len)
{
	const char *blank;

	if (*p >= end)
		return false;
	blank = memchr(*p, ' ', (size_t)(end - *p));
	*ret = *p;
	*ret_len = (size_t)((blank ? blank : end) - *p);
	*p = blank ? blank + 1 : end;
	return *ret_len > 0;
}

static bool octal(char c, char most)
{
	return c >= '0' && c <= most;
}

/* Blanks, backslashes and ends of lines are written as \040 and the like. */
static bool unescape(const char *p, size_t len, char *out, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = p[i];

		if (c == '\\') {
			if (len - i < 4 || !octal(p[i + 1], '3') || !octal(p[i + 2], '7') || !octal(p[i + 3], '7'))
				return false;
			c = (char)((p[i + 1] - '0') * 64 + (p[i + 2] - '0') * 8 + (p[i + 3] - '0'));
			i += 3;
		}
		if (!c || n + 1 >= cap)
			return false;
		out[n++] = c;
	}
	out[n] = '\0';
	return true;
}

/* "36 35 98:0 ROOT POINT options optional... - TYPE source options" */
bool cbx_mountinfo_parse(const char *line, size_t len, struct cbx_mountinfo *ret)
{
	const char *p = line, *end = line + len, *field, *newline = memchr(line, '\n', len);
	size_t n;

	if (newline)
		end = newline;
	for (int i = 0; i < 6; i++) {
		if (!next(&p, end, &field, &n) ||
		    (i == 3 && !unescape(field, n, ret->root, sizeof(ret->root))) ||
		    (i == 4 && !unescape(field, n, ret->point, sizeof(ret->point))))
			return false;
	}
	do {
		if (!next(&p, end, &field, &n))
			return false;
	} while (n != 1 || *field != '-');
	if (!next(&p, end, &field, &n))
		return false;
	if (!unescape(field, n, ret->type, sizeof(ret->type)))
		ret->type[0] = '\0';
	return ret->point[0] == '/';
}
