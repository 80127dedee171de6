/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: what a session is to be becomes three things: the plan of its sandbox for the supervisor, the
 * SPAWN request of its interpreters for init, and what a zygote must have loaded to serve it. The pool compares all
 * three with what it has. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "image/store.h"
#include "session/asked.h"

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

static void add_environment(struct cbx_buf *b, const struct cbx_environment *env)
{
	for (size_t i = 0; i < env->n; i++)
		add_item(b, "%s=%s", env->all[i].name, env->all[i].value);
	add_item(b, "CODEBOX_FD=3,4");
}

#define HOME_BIN CBX_INSIDE_HOME "/.local/bin"
#define PIP_BIN CBX_INSIDE_RUNTIMES "/python/bin" /* by which pip asks codebox */
#define NPM_BIN	    CBX_INSIDE_RUNTIMES "/javascript/bin" /* likewise npm */
#define MODULES_BIN CBX_INSIDE_MODULES "/.bin"		  /* programs of packages of npm */

static bool has_node(const struct cbx_session *s)
{
	return cbx_json_member(s->interpreters, "javascript") != NULL;
}

/* First, also ahead of a pip that a package brings. */
static void add_programs(struct cbx_environment *all, const char *dir)
{
	const char *path = cbx_environment_get(all, "PATH");
	_cleanup_free_ char *longer = path ? cbx_xasprintf("%s:%s", dir, path) : NULL;

	if (longer)
		cbx_environment_set(all, "PATH", longer);
}

/* An image's own PATH need not know where the session's user installs programs. */
static void set_of_image(struct cbx_environment *all, const cJSON *v)
{
	_cleanup_free_ char *path = NULL;

	if (strcmp(v->string, "PATH") == 0 && !strstr(v->valuestring, HOME_BIN))
		path = cbx_xasprintf(HOME_BIN ":%s", v->valuestring);
	cbx_environment_set(all, v->string, path ? path : v->valuestring);
}

/* Its own language: the first, by rank, that the image has. NULL: there is none, and it runs commands only. */
static int find_runtime(struct cbx_session *s, const struct cbx_image *image, const struct cbx_runtime **ret,
			const cJSON **ret_argv, struct cbx_err *err)
{
	const struct cbx_runtimes *all = &s->engine->runtimes;
	const cJSON *interpreters = NULL;

	if (cbx_json_get_obj(image->manifest, "interpreters", &interpreters, err) < 0)
		return cbx_wrap(err, "image %s", image->name);
	cJSON_Delete(s->interpreters);
	s->interpreters = interpreters ? cJSON_Duplicate(interpreters, 1) : cbx_json_new_obj();
	*ret = cbx_runtime_of_image(all, s->interpreters);
	return *ret ? cbx_image_interpreter(image, (*ret)->language, ret_argv, err) : 0;
}

/* The SPAWN request of this session's first interpreter: arguments from the image, an environment made from nothing. The
 * environment is that of commands, too, also where there is no interpreter. */
static int make_spawn(struct cbx_session *s, const struct cbx_image *image, struct cbx_err *err)
{
	static const char *const standard[][2] = {
		{ "PATH", HOME_BIN ":/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin" },
		{ "HOME", CBX_INSIDE_HOME },
		{ "USER", "user" },
		{ "LOGNAME", "user" },
		{ "SHELL", "/bin/bash" },
		{ "LANG", "C.UTF-8" },
		{ "TERM", "dumb" },
		{ "TMPDIR", "/tmp" },
	};
	/* At its end a program that looks for leaks traces itself, which is refused, and then fails. */
	static const char *const no_leaks[][2] = { { "ASAN_OPTIONS", "detect_leaks=0" },
						   { "LSAN_OPTIONS", "detect_leaks=0" } };
	_cleanup_(cbx_environment_release) struct cbx_environment all = { 0 };
	const cJSON *argv = NULL, *env = NULL, *v;
	const struct cbx_runtime *rt = NULL;
	int r = find_runtime(s, image, &rt, &argv, err);

	if (r < 0)
		return r;
	s->cells.first.runtime = rt;
	if (cbx_json_get_obj(image->manifest, "environment", &env, err) < 0)
		return cbx_wrap(err, "image %s", image->name);
	/* Each name once: the standard ones, then those of the language, of the image, of the policy and of the
	 * request. */
	for (size_t i = 0; i < ARRAY_SIZE(standard); i++)
		cbx_environment_set(&all, standard[i][0], standard[i][1]);
	for (size_t i = 0; s->spec.profile != CBX_PROFILE_DEV && i < ARRAY_SIZE(no_leaks); i++)
		cbx_environment_set(&all, no_leaks[i][0], no_leaks[i][1]);
	cJSON_ArrayForEach (v, (rt ? rt->environment : NULL))
		cbx_environment_set(&all, v->string, v->valuestring);
	cJSON_ArrayForEach (v, env)
		if (cJSON_IsString(v) && v->string && cbx_variable_name_valid(v->string))
			set_of_image(&all, v);
	if (s->has_packages && has_node(s))
		add_programs(&all, NPM_BIN ":" MODULES_BIN);
	if (cbx_json_member(s->interpreters, "python"))
		add_programs(&all, PIP_BIN);
	cbx_session_add_words(&s->base, argv, rt);
	add_environment(&s->base, &all);
	for (size_t i = 0; cbx_session_goes_out(s) && cbx_egress_variables[i][0]; i++)
		cbx_environment_set(&all, cbx_egress_variables[i][0], cbx_egress_variables[i][1]);
	for (size_t i = 0; cbx_session_goes_out(s) && cbx_network_adds(&s->policy->network) && cbx_egress_trust[i][0];
	     i++)
		cbx_environment_set(&all, cbx_egress_trust[i][0], cbx_egress_trust[i][1]);
	for (size_t i = 0; i < s->environment.n; i++)
		cbx_environment_set(&all, s->environment.all[i].name, s->environment.all[i].value);
	cbx_session_add_words(&s->spawn, argv, rt);
	add_environment(&s->spawn, &all);
	if (s->spawn.len > CBX_INIT_MESSAGE_MAX - sizeof(struct cbx_init_header))
		return cbx_refuse(err, "image_damaged", E2BIG, "image %s: its arguments and environment are too long",
				  image->name);
	return 0;
}

/* What an imported image says of itself. Builders write the directory "/" where nobody named one. */
static void find_program(struct cbx_session *s, const struct cbx_image *image)
{
	const cJSON *said = cbx_json_member(image->manifest, "config"), *v;
	const char *directory = said ? cbx_json_text(said, "working_dir") : NULL;

	free(take_ptr(&s->directory));
	cJSON_Delete(take_ptr(&s->program));
	if (directory && strspn(directory, "/") < strlen(directory) && strlen(directory) < CBX_PATH_MAX - 1)
		s->directory = cbx_xasprintf("%s%s", directory[0] == '/' ? "" : "/", directory);
	s->commands.directory = s->directory;
	for (size_t i = 0; i < 2; i++) {
		const char *key = i ? "command" : "entrypoint";

		cJSON_ArrayForEach(v, cbx_json_member(said, key)) {
			if (!s->program)
				s->program = cbx_json_new_arr();
			cbx_json_push(s->program, cJSON_Duplicate(v, 0));
		}
	}
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
	if (s->spec.zygote == CBX_ZYGOTE_OFF || !s->cells.first.runtime || !s->cells.first.runtime->fork ||
	    (s->spec.profile != CBX_PROFILE_DEFAULT && s->spec.profile != CBX_PROFILE_NET))
		return 0;
	for (size_t i = 0; i < s->environment.n; i++)
		if (read_at_start(s->environment.all[i].name))
			return 0;
	return cbx_image_preload(image, &s->preload, err);
}

void cbx_session_plan_mounts(const struct cbx_session *s, struct cbx_plan *plan)
{
	plan->nmounts = s->mounts.n;
	memcpy(plan->mounts, s->mounts.all, sizeof(plan->mounts));
}

bool cbx_session_is_local(const struct cbx_session *s)
{
	static const struct cbx_principal local = CBX_PRINCIPAL_LOCAL;

	return !s->tenant[0] || strcmp(s->tenant, local.tenant) == 0;
}

/* Where images are is not for tenants to know, nor which others there are. */
static int open_image(struct cbx_session *s, struct cbx_image *ret, struct cbx_err *err)
{
	int r = cbx_image_open(s->engine->config.images_dir, s->spec.image, ret, err);

	if (r >= 0 || cbx_session_is_local(s))
		return r;
	cbx_warn("session %s of %s: %s", s->spec.id, s->tenant, err->msg);
	if (strcmp(err->kind, "image_not_found") == 0)
		return cbx_image_not_there(s->spec.image, err);
	return cbx_refuse(err, "image_damaged", err->code, "the image \"%.80s\" cannot be used", s->spec.image);
}

int cbx_session_plan(struct cbx_session *s, struct cbx_plan *plan, struct cbx_err *err)
{
	struct cbx_image *image = &s->engine->image;
	int r;

	memset(plan, 0, sizeof(*plan));
	r = open_image(s, image, err);
	if (r < 0)
		return r;
	plan->version = CBX_PLAN_VERSION;
	s->image_mark = image->mark;
	s->has_packages = s->engine->jobs && s->policy->values[CBX_KEY_INSTALL].ceiling;
	r = cbx_image_to_plan(image, plan, err);
	if (r >= 0)
		r = make_spawn(s, image, err);
	if (r >= 0)
		r = find_preload(s, image, err);
	if (r < 0)
		return r;
	find_program(s, image);
	snprintf(plan->hostname, sizeof(plan->hostname), "codebox");
	plan->memory_bytes = s->spec.memory_bytes;
	plan->data_bytes = cbx_group_data_rlimit(&s->engine->boxes, s->spec.memory_bytes, s->spec.profile);
	plan->disk_bytes = s->spec.disk_bytes;
	plan->disk_inodes = cbx_box_inodes(s->spec.disk_bytes);
	plan->processes = cbx_group_process_rlimit(&s->engine->boxes, s->spec.processes);
	plan->profile = s->spec.profile;
	plan->landlock = s->spec.landlock;
	plan->noexec_workspace = s->spec.noexec_workspace;
	plan->flags = (s->spec.write_xor_execute ? CBX_PLAN_MDWE : 0) | (s->spec.own_cores ? CBX_PLAN_CORE_SCHED : 0) |
		      (s->spec.no_speculation ? CBX_PLAN_SPECULATION : 0) |
		      (cbx_session_goes_out(s) ? CBX_PLAN_PROXY : 0);
	if (cbx_session_is_open(s)) {
		plan->flags |= CBX_PLAN_OPEN;
		snprintf(plan->resolver, sizeof(plan->resolver), "%s", cbx_egress_resolver(&s->engine->boxes));
	}
	if (s->has_packages)
		plan->flags |= CBX_PLAN_PACKAGES | (has_node(s) ? CBX_PLAN_NODE : 0);
	plan->cpus_milli = s->spec.cpus_milli;
	cbx_session_plan_mounts(s, plan);
	s->box.limits = (struct cbx_cgroup_limits){ .memory_bytes = s->spec.memory_bytes,
						    .disk_bytes = s->spec.disk_bytes,
						    .processes = s->spec.processes,
						    .cpus_milli = s->spec.cpus_milli,
						    .cpu_weight = s->spec.cpu_weight,
						    .io_bytes = s->spec.io_bytes,
						    .io_operations = s->spec.io_operations };
	return cbx_plan_check(plan, err);
}
