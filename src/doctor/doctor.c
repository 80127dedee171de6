/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a list of checks, in the order in which they should be read. Some of them must hold before any
 * sandbox can be made; the first of those that fails is the diagnosis that a daemon gives to its clients.
 */
#include "doctor/doctor.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "doctor/check.h"

static const struct check {
	const char *name, *title;
	bool required; /* without it there is no sandbox */
	void (*run)(struct cbx_doctor *d, struct cbx_result *r);
} checks[] = {
	{ "kernel", "Linux kernel", true, cbx_check_kernel },
	{ "syscalls", "System calls", true, cbx_check_syscalls },
	{ "namespaces", "User namespaces", true, cbx_check_namespaces },
	{ "seccomp", "System call filter", true, cbx_check_seccomp },
	{ "helpers", "Helper programs", true, cbx_check_helpers },
	{ "runtime_dir", "Run-time directory", true, cbx_check_runtime },
	{ "images", "Images", false, cbx_check_images },
	{ "overlay", "Overlay file system", false, cbx_check_overlay },
	{ "landlock", "Landlock", false, cbx_check_landlock },
	{ "cgroup", "Control groups", false, cbx_check_cgroup },
	{ "subids", "Subordinate ids", false, cbx_check_subids },
	{ "service", "Runs as", false, cbx_check_service },
	{ "disk", "Disk space", false, cbx_check_disk },
	{ "memory", "Memory", false, cbx_check_memory },
	{ "open_network", "Open network", false, cbx_check_open_network },
	{ "apt", "apt", false, cbx_check_apt },
};

static const char *state_name(enum cbx_check_state state)
{
	switch (state) {
	case CBX_CHECK_OK:
		return "ok";
	case CBX_CHECK_DEGRADED:
		return "degraded";
	case CBX_CHECK_FAILED:
		break;
	}
	return "failed";
}

static cJSON *to_json(const struct check *check, const struct cbx_result *r)
{
	cJSON *obj = cbx_json_new_obj();

	cbx_json_set_str(obj, "name", check->name);
	cbx_json_set_str(obj, "title", check->title);
	cbx_json_set_str(obj, "state", state_name(r->state));
	cbx_json_set_str(obj, "found", r->found);
	cbx_json_set_str(obj, "means", r->means);
	if (r->state != CBX_CHECK_OK)
		cbx_json_set_str(obj, "remedy", r->remedy);
	return obj;
}

cJSON *cbx_doctor_run(const struct cbx_dirs *dirs)
{
	struct cbx_doctor d = { .dirs = dirs };
	cJSON *list = cbx_json_new_arr();
	struct cbx_err err;

	if (cbx_service_init(&d.service, &err) < 0) {
		static const struct check start = { "start", "Start", true, NULL };
		bool no_id = strcmp(err.kind, "no_service_id") == 0;
		struct cbx_result r;

		cbx_result_set(&r, CBX_CHECK_FAILED, err.msg,
			       no_id ? "Sandboxes are never made by root." : "codebox needs no special rights.",
			       no_id ? "Make an account that root can give itself up for: useradd --system --user-group "
				       "codebox" :
				       "Remove the setuid and setgid bits of codebox's programs: sudo chmod ug-s FILE");
		cbx_json_push(list, to_json(&start, &r));
		return list;
	}
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct cbx_result r = { 0 };

		checks[i].run(&d, &r);
		cbx_json_push(list, to_json(&checks[i], &r));
	}
	return list;
}

int cbx_doctor_diagnosis(const struct cbx_dirs *dirs, struct cbx_err *err)
{
	struct cbx_doctor d = { .dirs = dirs };
	int r = cbx_service_init(&d.service, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct cbx_result result = { 0 };

		if (!checks[i].required)
			continue;
		checks[i].run(&d, &result);
		if (result.state == CBX_CHECK_FAILED)
			return cbx_refuse(err, "no_sandbox", ENOTSUP, "%s. Remedy: %s", result.found,
					  result.remedy);
	}
	return 0;
}
