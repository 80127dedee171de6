/* SPDX-License-Identifier: Apache-2.0 */
#include "objects/answer.h"

#include <stdio.h>
#include <string.h>

#include "base/transfer.h"

static bool take(const char *p, size_t n, char *out, size_t size)
{
	out[0] = '\0';
	if (n >= size)
		return false;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)p[i] < ' ' || p[i] == 0x7f || strchr("&<>", p[i]))
			return false;
	memcpy(out, p, n);
	out[n] = '\0';
	return true;
}

bool cbx_answer_element(const char *body, const char *name, char *out, size_t size)
{
	char open[64], end[64];
	const char *p, *q;

	out[0] = '\0';
	if (snprintf(open, sizeof(open), "<%s>", name) >= (int)sizeof(open))
		return false;
	snprintf(end, sizeof(end), "</%s>", name);
	p = strstr(body, open);
	if (!p)
		return false;
	p += strlen(open);
	q = strchr(p, '<');
	return q && strncmp(q, end, strlen(end)) == 0 && take(p, (size_t)(q - p), out, size);
}

bool cbx_answer_header(const char *line, size_t n, const char *name, char *out, size_t size)
{
	const char *value;
	size_t len;

	out[0] = '\0';
	return cbx_transfer_header(line, n, name, &value, &len) && take(value, len, out, size);
}
