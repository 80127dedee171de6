/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: what a session is to be becomes three things: the plan of its sandbox for the supervisor, the
 * SPAWN request of its interpreters for init, and what a zygote must have loaded to serve it. The pool compares all
 * three with what it has. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/store.h"
#include "session/internal.h"

static void add_item(struct cbx_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_item(struct cbx_buf *b, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) >= 0)
		cbx_buf_add(b, text, strlen(text) + 1);
	va_end(ap);
	free(text);
}

static void add_words(struct cbx_buf *b, const cJSON *argv, const struct cbx_environment *env)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, argv)
		if (cJSON_IsString(v) && v->valuestring[0])
			add_item(b, "%s", v->valuestring);
	add_item(b, "%s/python/driver.py", CBX_INSIDE_RUNTIMES);
	cbx_buf_addc(b, '\0');
	for (size_t i = 0; i < env->n; i++)
		add_item(b, "%s=%s", env->all[i].name, env->all[i].value);
	add_item(b, "CODEBOX_FD=3");
}

/* The SPAWN request of this session's interpreters: arguments from the image, an environment made from nothing. */
static int make_spawn(struct cbx_session *s, const struct cbx_image *image, struct cbx_err *err)
{
	static const char *const standard[][2] = {
		{ "PATH", CBX_INSIDE_HOME "/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin" },
		{ "HOME", CBX_INSIDE_HOME },
		{ "USER", "user" },
		{ "LOGNAME", "user" },
		{ "SHELL", "/bin/bash" },
		{ "LANG", "C.UTF-8" },
		{ "TERM", "dumb" },
		{ "TMPDIR", "/tmp" },
		{ "PYTHONDONTWRITEBYTECODE", "1" },
		{ "PIP_RETRIES", "1" }, /* there is no network: five of them are ten seconds and as many long lines */
	};
	_cleanup_(cbx_environment_release) struct cbx_environment all = { 0 };
	const cJSON *argv, *env = NULL, *v;
	int r = cbx_image_interpreter(image, "python", &argv, err);

	if (r < 0)
		return r;
	if (cbx_json_get_obj(image->manifest, "environment", &env, err) < 0)
		return cbx_wrap(err, "image %s", image->name);
	/* Each name once: the standard ones, then those of the image, of the policy and of the request. */
	for (size_t i = 0; i < ARRAY_SIZE(standard); i++)
		cbx_environment_set(&all, standard[i][0], standard[i][1]);
	cJSON_ArrayForEach (v, env)
		if (cJSON_IsString(v) && v->string && cbx_variable_name_valid(v->string))
			cbx_environment_set(&all, v->string, v->valuestring);
	add_words(&s->base, argv, &all);
	for (size_t i = 0; i < s->environment.n; i++)
		cbx_environment_set(&all, s->environment.all[i].name, s->environment.all[i].value);
	add_words(&s->spawn, argv, &all);
	if (s->spawn.len > CBX_INIT_MESSAGE_MAX - sizeof(struct cbx_init_header))
		return cbx_refuse(err, "image_damaged", E2BIG, "image %s: its arguments and environment are too long",
				  image->name);
	return 0;
}

/* Is it read when a program or a library starts? Then setting it in one that runs is not the same. */
static bool read_at_start(const char *variable)
{
	static const char *const prefixes[] = { "PYTHON",   "LD_",	 "GLIBC_", "MALLOC_",  "OMP_",
						"GOMP_",    "OPENBLAS_", "MKL_",   "NUMEXPR_", "BLIS_",
						"NPY_",	    "LC_",	 "LANG",   "MPL",      "IPYTHON",
						"OPENSSL_", "HOME",	 "TMP",	   "TEMP",     "XDG_" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

/* May its interpreter be a fork of one that serves others too? Not where the policy says no, nor in the strict profile,
 * nor for programs that this filter would stop: an interpreter keeps its zygote's (policies/syscalls/zygote) beneath
 * its own. */
static int find_preload(struct cbx_session *s, const struct cbx_image *image, struct cbx_err *err)
{
	if (s->spec.zygote == CBX_ZYGOTE_OFF ||
	    (s->spec.profile != CBX_PROFILE_DEFAULT && s->spec.profile != CBX_PROFILE_NET))
		return 0;
	for (size_t i = 0; i < s->environment.n; i++)
		if (read_at_start(s->environment.all[i].name))
			return 0;
	return cbx_image_preload(image, &s->preload, err);
}

int cbx_session_plan(struct cbx_session *s, struct cbx_plan *plan, struct cbx_err *err)
{
	struct cbx_image *image = &s->engine->image;
	int r;

	memset(plan, 0, sizeof(*plan));
	r = cbx_image_open(s->engine->config.images_dir, s->spec.image, image, err);
	if (r < 0)
		return r;
	plan->version = CBX_PLAN_VERSION;
	s->image_mark = image->mark;
	r = cbx_image_to_plan(image, plan, err);
	if (r >= 0)
		r = make_spawn(s, image, err);
	if (r >= 0)
		r = find_preload(s, image, err);
	if (r < 0)
		return r;
	snprintf(plan->hostname, sizeof(plan->hostname), "codebox");
	plan->memory_bytes = s->spec.memory_bytes;
	plan->disk_bytes = s->spec.disk_bytes;
	plan->disk_inodes = cbx_hints_inodes(&s->spec);
	plan->processes = cbx_group_process_rlimit(s->engine, &s->spec);
	plan->profile = s->spec.profile;
	plan->landlock = s->spec.landlock;
	plan->noexec_workspace = s->spec.noexec_workspace;
	plan->flags = (s->spec.write_xor_execute ? CBX_PLAN_MDWE : 0) | (s->spec.own_cores ? CBX_PLAN_CORE_SCHED : 0) |
		      (s->spec.no_speculation ? CBX_PLAN_SPECULATION : 0);
	plan->cpus_milli = s->spec.cpus_milli;
	plan->nmounts = s->nmounts;
	memcpy(plan->mounts, s->mounts, sizeof(plan->mounts));
	return cbx_plan_check(plan, err);
}
