/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: any text as a runtime's manifest. What is accepted is found by each of its names and endings, and
 * nothing in it could be an option, a path that leaves its directory, or a variable without a name.
 */
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "runtimes/runtime.h"

static void found_by(const struct cbx_runtimes *all, const cJSON *names)
{
	const char *dialect;
	const cJSON *v;

	cJSON_ArrayForEach(v, names)
		must(cbx_runtime_named(all, v->valuestring, strlen(v->valuestring), &dialect) == &all->all[0]);
}

static void check(const struct cbx_runtime *rt)
{
	_cleanup_free_ struct cbx_runtimes *all = cbx_xcalloc(1, sizeof(*all));
	const char *dialect;
	const cJSON *v;

	all->all[0] = *rt;
	all->n = 1;
	must(!strchr(rt->driver, '/') && rt->driver[0] != '.' && rt->interrupt > 0);
	must(cbx_runtime_named(all, rt->language, strlen(rt->language), &dialect) == &all->all[0] && !dialect);
	found_by(all, rt->aliases);
	cJSON_ArrayForEach(v, rt->dialects)
		found_by(all, cbx_json_member(v, "aliases"));
	cJSON_ArrayForEach(v, rt->extensions)
		must(v->valuestring[0] == '.' && cbx_runtime_of_file(all, v->valuestring));
	cJSON_ArrayForEach(v, rt->programs)
		must(v->valuestring[0] == '/');
	cJSON_ArrayForEach(v, rt->environment)
		must(v->string[0] && !strchr(v->string, '='));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cbx_runtime rt;
	struct cbx_err err = { 0 };
	int r = cbx_runtime_parse((const char *)data, size, "python", &rt, &err);

	must(r < 0 ? err.code && err.msg[0] : rt.manifest != NULL);
	if (r >= 0)
		check(&rt);
	cbx_runtime_release(&rt);
	return 0;
}
