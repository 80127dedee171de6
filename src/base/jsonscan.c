/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonscan.h"

#include <stdbool.h>
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
