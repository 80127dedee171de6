/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/plan.h"

#include <arpa/inet.h>
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

static int refuse(struct cbx_err *err, const char *field)
{
	return cbx_refuse(err, "invalid_plan", EINVAL, "the sandbox's plan has a bad %s", field);
}

const char *cbx_plan_target_refused(const char *target)
{
	static const struct {
		const char *path;
		bool below; /* nothing below it either */
	} places[] = {
		{ "/proc", true }, { "/dev", true },   { "/sys", true },   { "/run", true },    { "/etc", true },
		{ "/usr", true },  { "/bin", true },   { "/sbin", true },  { "/lib", true },    { "/lib32", true },
		{ "/lib64", true },{ "/libx32", true },{ "/tmp", true },   { CBX_INSIDE_HOME, true },
		{ CBX_INSIDE_WORKSPACE, false },
	};

	if (strcmp(target, CBX_INSIDE_WORKSPACE) == 0)
		return NULL; /* a directory in place of the session's own */
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (cbx_path_within(places[i].path, target) ||
		    (places[i].below && cbx_path_within(target, places[i].path)))
			return places[i].path;
	return NULL;
}

static int check_mounts(const struct cbx_plan *plan, struct cbx_err *err)
{
	if (plan->nmounts > CBX_PLAN_MOUNTS_MAX)
		return refuse(err, "number of mounts");
	for (uint32_t i = 0; i < plan->nmounts; i++) {
		const struct cbx_plan_mount *m = &plan->mounts[i];

		if (!terminated(m->source, sizeof(m->source)) || !terminated(m->target, sizeof(m->target)) ||
		    !cbx_path_clean(m->source) || !cbx_path_clean(m->target) || cbx_plan_target_refused(m->target) ||
		    (strcmp(m->target, CBX_INSIDE_WORKSPACE) == 0 && !(m->directory && m->writable)))
			return refuse(err, "mount");
		for (uint32_t k = 0; k < i; k++)
			if (cbx_path_within(m->target, plan->mounts[k].target) ||
			    cbx_path_within(plan->mounts[k].target, m->target))
				return cbx_refuse(err, "invalid_argument", EINVAL,
						  "mounts: %s and %s are not beside each other; choose other targets",
						  plan->mounts[k].target, m->target);
		for (uint32_t k = 1; k < plan->nlayers; k++)
			if (cbx_path_within(m->target, plan->layers[k].target) ||
			    cbx_path_within(plan->layers[k].target, m->target))
				return cbx_refuse(err, "invalid_argument", EINVAL,
						  "mounts: %s is a place of the image's own; choose another target",
						  m->target);
	}
	return 0;
}

static bool resolver_valid(const struct cbx_plan *plan)
{
	unsigned char address[16];

	return terminated(plan->resolver, sizeof(plan->resolver)) &&
	       (inet_pton(AF_INET, plan->resolver, address) == 1 || inet_pton(AF_INET6, plan->resolver, address) == 1);
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
		if (!cbx_path_clean(l->target) || (i == 0) != (strcmp(l->target, "/") == 0))
			return refuse(err, "layer target");
	}
	if (plan->memory_bytes < CBX_MEMORY_MIN || plan->memory_bytes > CBX_MEMORY_MAX)
		return refuse(err, "memory limit");
	if (plan->data_bytes && plan->data_bytes < CBX_MEMORY_MIN)
		return refuse(err, "data limit");
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
	if (plan->flags & ~(uint32_t)CBX_PLAN_FLAGS)
		return refuse(err, "flag");
	if (plan->flags & CBX_PLAN_OPEN ? !resolver_valid(plan) || plan->profile == CBX_PROFILE_STRICT :
					  plan->resolver[0] != '\0')
		return refuse(err, "resolver");
	if (plan->landlock >= CBX_LANDLOCK_MODES)
		return refuse(err, "Landlock mode");
	return check_mounts(plan, err);
}
