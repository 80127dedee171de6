/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonscan.h"

#include <stddef.h>

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

const char *cbx_jsonscan_string(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\')
			p++;
	return p < end ? p + 1 : end;
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
