/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about control groups, as any bytes: the texts are not terminated, so each is given in a buffer of
 * just its size. Paths that come out are absolute and fit. */
#include <string.h>

#include "cgroup/parse.h"
#include "fuzz.h"

static void path_is_sound(const char *path, bool empty_allowed)
{
	size_t n = strnlen(path, CBX_CGROUP_PATH_MAX);

	must(n < CBX_CGROUP_PATH_MAX);
	must(n ? path[0] == '/' : empty_allowed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const groups[] = { "/", "/a", "/user.slice/user-1000.slice/session-3.scope" };
	struct cbx_cgroup_self self = { 0 };
	char where[CBX_CGROUP_PATH_MAX] = "";
	struct cbx_err err = { 0 };
	uint64_t a = 0, b = 0;
	char *text;
	int r;

	text = malloc(size ? size : 1);
	must(text);
	if (size)
		memcpy(text, data, size);
	r = cbx_cgroup_parse_self(text, size, &self, &err);
	must(r >= 0 || err.code);
	if (r >= 0)
		path_is_sound(self.path, true);
	for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
		r = cbx_cgroup_parse_mounts(text, size, groups[i], where, &err);
		if (r >= 0)
			path_is_sound(where, false);
	}
	must(cbx_cgroup_parse_controllers(text, size) < 16);
	(void)cbx_cgroup_parse_value(text, size, "usage_usec", &a);
	(void)cbx_cgroup_parse_value(text, size, "oom_kill", &a);
	(void)cbx_cgroup_parse_number(text, size, &a);
	cbx_cgroup_parse_io(text, size, &a, &b);
	free(text);
	return 0;
}
