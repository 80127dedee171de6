/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonscan.h"

#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/str.h"

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

const char *cbx_jsonscan_space(const char *p, const char *end)
{
	while (p < end && is_space(*p))
		p++;
	return p;
}

/* From quote to quote; those behind an escape are not the end. Each byte is looked at twice at most. */
const char *cbx_jsonscan_string(const char *p, const char *end)
{
	for (p++; p < end;) {
		const char *quote = memchr(p, '"', (size_t)(end - p)), *escape;

		if (!quote)
			return end;
		while ((escape = memchr(p, '\\', (size_t)(quote - p))) && escape + 1 < quote)
			p = escape + 2;
		if (!escape)
			return quote + 1;
		p = quote + 1;
	}
	return end;
}

const char *cbx_jsonscan_value(const char *p, const char *end)
{
	size_t depth = 0;

	while (p < end) {
		if (*p == '"') {
			p = cbx_jsonscan_string(p, end);
		} else if (*p == '{' || *p == '[') {
			depth++;
			p++;
		} else if (*p == '}' || *p == ']') {
			if (depth == 0)
				return p;
			depth--;
			p++;
		} else if (depth == 0 && (*p == ',' || is_space(*p))) {
			return p;
		} else {
			p++;
			continue;
		}
		if (depth == 0)
			return p;
	}
	return p;
}

const char *cbx_jsonscan_object(const char *p, const char *end)
{
	p = cbx_jsonscan_space(p, end);
	return p < end && *p == '{' ? cbx_jsonscan_space(p + 1, end) : NULL;
}

bool cbx_jsonscan_member(const char **p, const char *end, struct cbx_jsonscan_member *ret)
{
	if (*p >= end || **p != '"')
		return false;
	ret->name = *p;
	ret->name_end = cbx_jsonscan_string(ret->name, end);
	ret->value = cbx_jsonscan_space(ret->name_end, end);
	if (ret->value < end) /* the colon */
		ret->value = cbx_jsonscan_space(ret->value + 1, end);
	ret->end = cbx_jsonscan_value(ret->value, end);
	*p = cbx_jsonscan_space(ret->end, end);
	if (*p < end && **p == ',')
		*p = cbx_jsonscan_space(*p + 1, end);
	return true;
}

struct cbx_raw cbx_raw_member(struct cbx_raw in, const char *key)
{
	const char *end = in.p ? in.p + in.n : NULL, *p = in.p ? cbx_jsonscan_object(in.p, end) : NULL;
	struct cbx_jsonscan_member m;
	size_t n = strlen(key);

	while (p && cbx_jsonscan_member(&p, end, &m))
		if ((size_t)(m.name_end - m.name) == n + 2 && memcmp(m.name + 1, key, n) == 0)
			return (struct cbx_raw){ m.value, (size_t)(m.end - m.value) };
	return (struct cbx_raw){ 0 };
}

struct cbx_raw cbx_raw_element(struct cbx_raw in, size_t *pos)
{
	const char *end, *p, *from;

	if (!in.p)
		return (struct cbx_raw){ 0 };
	end = in.p + in.n;
	p = cbx_jsonscan_space(in.p + *pos, end);
	if (*pos == 0) {
		if (p >= end || *p != '[')
			return (struct cbx_raw){ 0 };
		p = cbx_jsonscan_space(p + 1, end);
	} else if (p < end && *p == ',') {
		p = cbx_jsonscan_space(p + 1, end);
	}
	if (p >= end || *p == ']')
		return (struct cbx_raw){ 0 };
	from = p;
	p = cbx_jsonscan_value(p, end);
	*pos = (size_t)(p - in.p);
	return (struct cbx_raw){ from, (size_t)(p - from) };
}

bool cbx_raw_is_token(struct cbx_raw v)
{
	size_t i;

	if (!v.p || !v.n || v.n > CBX_RPC_ID_MAX)
		return false;
	if (v.p[0] == '"')
		return cbx_utf8_valid(v.p, v.n);
	i = v.p[0] == '-' ? 1 : 0;
	if (i == v.n)
		return false;
	for (; i < v.n; i++)
		if (v.p[i] < '0' || v.p[i] > '9')
			return false;
	return true;
}

char *cbx_raw_copy(struct cbx_raw v)
{
	char *copy;

	if (!v.p)
		return NULL;
	copy = cbx_xrealloc(NULL, v.n + 1);
	memcpy(copy, v.p, v.n);
	copy[v.n] = '\0';
	return copy;
}
