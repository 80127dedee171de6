/* SPDX-License-Identifier: Apache-2.0 */
/* A Content-Type, a line's end, and a body of files: what is accepted lies in the body, part behind part, and has names that
 * lead nowhere. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "fuzz.h"
#include "rest/multipart.h"

#define PARTS 8

static void judge(const char *boundary, const char *body, size_t len)
{
	struct cbx_rest_part parts[PARTS];
	char mark[CBX_REST_BOUNDARY_MAX + 8];
	struct cbx_err err = { 0 };
	const char *end = body;
	size_t n;
	int r = cbx_rest_multipart_read(boundary, body, len, parts, PARTS, &n, &err);

	snprintf(mark, sizeof(mark), "\r\n--%s", boundary);
	must(r < 0 ? err.code != 0 : n > 0 && n <= PARTS);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		const char *name = parts[i].name;

		must(strlen(name) > 0 && strlen(name) <= CBX_REST_FILE_NAME_MAX && !strpbrk(name, "/\\"));
		must(strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && cbx_plain(name));
		must(parts[i].data > end && parts[i].len < len);
		end = parts[i].data + parts[i].len;
		must(end < body + len && !memmem(parts[i].data, parts[i].len, mark, strlen(mark)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *line = memchr(data, '\n', size);
	size_t n = line ? (size_t)(line - data) : size, rest = line ? size - n - 1 : 0;
	char boundary[CBX_REST_BOUNDARY_MAX + 1], *type = malloc(n + 1), *body = malloc(rest ? rest : 1);
	struct cbx_err err = { 0 };

	must(type && body);
	memcpy(type, data, n);
	type[n] = '\0';
	memcpy(body, data + size - rest, rest);
	if (cbx_rest_multipart_boundary(type, boundary, &err) >= 0) {
		must(boundary[0] && strlen(boundary) <= CBX_REST_BOUNDARY_MAX && cbx_plain(boundary));
		judge(boundary, body, rest);
	} else {
		must(err.code);
	}
	free(type);
	free(body);
	return 0;
}
