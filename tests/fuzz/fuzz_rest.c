/* SPDX-License-Identifier: Apache-2.0 */
/* What a client of the REST interface writes into a path, a query and a header: nothing of it leads out of where it
 * may, and what is decoded has no NUL. */
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "rest/internal.h"

static void judge_path(const char *line)
{
	static const enum cbx_http_method methods[] = { CBX_HTTP_GET, CBX_HTTP_HEAD,   CBX_HTTP_POST,
							CBX_HTTP_PUT, CBX_HTTP_DELETE, CBX_HTTP_OTHER };
	struct cbx_rest_target target;
	char allowed[64];

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		const struct cbx_rest_route *r =
			cbx_rest_route_find(cbx_rest_routes, methods[i], line, &target, allowed);

		if (!r)
			continue;
		must(methods[i] != CBX_HTTP_OTHER && line[0] == '/');
		must(strstr(r->path, "_id}") ? cbx_name_valid(target.session_id) : !target.session_id[0]);
		must(!strstr(r->path, "{request_id}") || target.execution_id > 0);
		must(strlen(target.path) <= CBX_REST_PATH_MAX);
	}
	if (cbx_rest_path_valid(line))
		must(line[0] != '/' && !strstr(line, "//") && strcmp(line, "..") != 0 && strncmp(line, "../", 3) != 0 &&
		     !strstr(line, "/../"));
}

static void judge_query(const char *line)
{
	struct cbx_err err = { 0 };
	char value[64];
	int r = cbx_rest_query(line, "wait", value, sizeof(value), &err), known;

	must(r >= 0 || err.code);
	must(r <= 0 || strlen(value) < sizeof(value));
	known = cbx_rest_query_check(line, "wait path", &err);
	must(known >= 0 || err.code);
	if (known >= 0 && strstr(line, "wait=") == line)
		must(r != 0);
}

static void judge_range(const char *line)
{
	static const uint64_t sizes[] = { 0, 1, 5, 1000, 1ull << 40 };
	uint64_t from, n;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int r = cbx_rest_range(line, sizes[i], &from, &n);

		must(r == 0 || strncmp(line, "bytes=", 6) == 0);
		must(r <= 0 || (n > 0 && from < sizes[i] && n <= sizes[i] - from));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = malloc(size + 1);

	must(line);
	memcpy(line, data, size);
	line[size] = '\0';
	judge_path(line);
	judge_query(line);
	judge_range(line);
	free(line);
	return 0;
}
