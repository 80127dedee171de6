/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/plan.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/limits.h"

static const char *const profiles[CBX_PROFILES] = {
	[CBX_PROFILE_STRICT] = "strict",
	[CBX_PROFILE_DEFAULT] = "default",
	[CBX_PROFILE_NET] = "net",
	[CBX_PROFILE_DEV] = "dev",
};

const char *cbx_profile_name(unsigned profile)
{
	return profile < CBX_PROFILES ? profiles[profile] : NULL;
}

static bool terminated(const char *s, size_t cap)
{
	return memchr(s, '\0', cap) != NULL;
}

/* An absolute path without "." and "..", empty or repeated parts; "/" alone is fine. */
static bool clean_target(const char *s)
{
	if (s[0] != '/')
		return false;
	for (const char *p = s + 1; *p;) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
		if (*p == '/' && !*++p)
			return false;
	}
	return true;
}

static int refuse(struct cbx_err *err, const char *field)
{
	return cbx_refuse(err, "invalid_plan", EINVAL, "the sandbox's plan has a bad %s", field);
}

int cbx_plan_check(const struct cbx_plan *plan, struct cbx_err *err)
{
	if (plan->version != CBX_PLAN_VERSION)
		return refuse(err, "version");
	if (!terminated(plan->image, sizeof(plan->image)) || !cbx_name_valid(plan->image))
		return refuse(err, "image");
	if (!terminated(plan->hostname, sizeof(plan->hostname)) || !cbx_name_valid(plan->hostname))
		return refuse(err, "hostname");
	if (plan->nlayers < 1 || plan->nlayers > CBX_PLAN_LAYERS_MAX)
		return refuse(err, "number of layers");
	for (uint32_t i = 0; i < plan->nlayers; i++) {
		const struct cbx_plan_layer *l = &plan->layers[i];

		if (!terminated(l->source, sizeof(l->source)) || !terminated(l->target, sizeof(l->target)))
			return refuse(err, "layer");
		/* The only tree of the machine that is ever offered. */
		if (strcmp(l->source, "host:/usr") != 0 && !cbx_name_valid(l->source))
			return refuse(err, "layer source");
		if (!clean_target(l->target) || (i == 0) != (strcmp(l->target, "/") == 0))
			return refuse(err, "layer target");
	}
	if (plan->memory_bytes < CBX_MEMORY_MIN || plan->memory_bytes > CBX_MEMORY_MAX)
		return refuse(err, "memory limit");
	if (plan->disk_bytes < CBX_DISK_MIN || plan->disk_bytes > CBX_DISK_MAX)
		return refuse(err, "disk limit");
	if (plan->disk_inodes < 64 || plan->disk_inodes > CBX_DISK_MAX / 4096)
		return refuse(err, "inode limit");
	if (plan->processes < 1 || plan->processes > CBX_PROCESSES_MAX + CBX_PROCESSES_SLACK)
		return refuse(err, "process limit");
	if (!cbx_profile_name(plan->profile))
		return refuse(err, "profile");
	if (plan->cpus_milli > CBX_CPUS_MILLI_MAX)
		return refuse(err, "processor limit");
	return 0;
}
