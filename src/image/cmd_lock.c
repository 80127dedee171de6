/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: `codebox image lock` has codeboxd find out which wheels a recipe needs, once for each Python and
 * machine: in a sandbox, and judged by the policy, as for a session that installs them. Everything happens as whoever
 * started it; the store is not touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "client/client.h"
#include "image/front.h"
#include "image/image-limits.h"
#include "image/progress.h"
#include "image/wheellock.h"

static const char *const machines[] = { "x86_64", "aarch64" };

struct options {
	const char *image; /* NULL: the default one */
	cJSON *targets;	   /* that were given */
};

static void add_targets(cJSON *targets, const char *python)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
		_cleanup_free_ char *one = cbx_xasprintf("%s-%s", python, machines[i]);

		cbx_json_push_str(targets, one);
	}
}

/* Those of the lock that is there, where none were given. */
static int find_targets(const char *path, struct options *o, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct cbx_wheellock old = { 0 };
	int r;

	if (o->targets->child)
		return 0;
	if (fd < 0 && errno == ENOENT)
		return cbx_refuse(err, "invalid_argument", ENOENT,
				  "there is no %s yet that names versions of Python; give them: --python 3.11", path);
	if (fd < 0)
		return cbx_fail(err, errno, "open the lock %s", path);
	r = cbx_wheellock_read(fd, path, NULL, &old, err);
	if (r < 0)
		return r;
	cJSON_Delete(o->targets);
	o->targets = cJSON_Duplicate(old.targets, 1);
	cbx_wheellock_release(&old);
	return 0;
}

static int resolve(struct cbx_client *client, const char *session, const struct cbx_recipe *recipe, const char *target,
		   cJSON **ret, struct cbx_err *err)
{
	_cleanup_json_ cJSON *params = cbx_json_new_obj();
	_cleanup_free_ char *python = cbx_xasprintf("%.*s", (int)strcspn(target, "-"), target);
	const char *machine = strchr(target, '-');
	cJSON *packages = cbx_json_new_arr(), *parameters = cbx_json_new_arr();
	int r;

	for (const char **w = recipe->wheels; *w; w++)
		cbx_json_push_str(packages, *w);
	cbx_json_push_str(parameters, python);
	cbx_json_push_str(parameters, machine ? machine + 1 : "");
	cbx_json_set_str(params, "session_id", session);
	cbx_json_set(params, "packages", packages);
	cbx_json_set(params, "parameters", parameters);
	cbx_progress_step("Resolving %zu requirements for Python %s", (size_t)cJSON_GetArraySize(packages), target);
	r = cbx_client_call(client, "packages.lock", take_ptr(&params), ret, err);
	return r < 0 ? cbx_wrap(err, "Python %s", target) : 0;
}

static int resolve_all(struct cbx_client *client, const char *session, const struct cbx_recipe *recipe,
		       const cJSON *targets, cJSON *wheels, struct cbx_err *err)
{
	const cJSON *v;
	int n = 0;

	cJSON_ArrayForEach(v, targets) {
		_cleanup_json_ cJSON *found = NULL;

		if (resolve(client, session, recipe, v->valuestring, &found, err) < 0)
			return -err->code;
		cbx_wheellock_add(wheels, cbx_json_member(found, "packages"), n++);
	}
	return 0;
}

static int ask(const struct cbx_dirs *dirs, const struct options *o, const struct cbx_recipe *recipe, cJSON *wheels,
	       struct cbx_err *err)
{
	cJSON *params = cbx_json_new_obj(), *ended = NULL;
	_cleanup_json_ cJSON *session = NULL;
	struct cbx_client client;
	struct cbx_err ignored;
	const char *id;
	int r;

	cbx_json_set_str(params, "image", o->image);
	r = cbx_client_open(dirs, true, NULL, &client, err);
	if (r < 0) {
		cJSON_Delete(params);
		return r;
	}
	r = cbx_client_call(&client, "session.create", params, &session, err);
	id = r < 0 ? NULL : cbx_json_text(session, "session_id");
	if (r == 0 && !id)
		r = cbx_refuse(err, "daemon", EPROTO, "codeboxd answered without a session's id");
	if (r == 0) {
		r = resolve_all(&client, id, recipe, o->targets, wheels, err);
		params = cbx_json_new_obj();
		cbx_json_set_str(params, "session_id", id);
		if (cbx_client_call(&client, "session.close", params, &ended, &ignored) == 0)
			cJSON_Delete(ended);
	}
	cbx_client_close(&client);
	return r;
}

static int lock(const struct cbx_dirs *dirs, const char *what, struct options *o, struct cbx_err *err)
{
	_cleanup_free_ char *path = NULL, *lock_path = NULL;
	_cleanup_fd_ int fd = cbx_image_open_recipe(dirs, what, &path, err);
	_cleanup_json_ cJSON *wheels = cbx_json_new_arr();
	struct cbx_recipe recipe;
	int r = fd < 0 ? fd : cbx_recipe_read(fd, path, &recipe, err);

	if (r < 0)
		return r;
	lock_path = cbx_wheellock_path(path);
	if (!recipe.wheels[0])
		r = cbx_refuse(err, "invalid_argument", EINVAL,
			       "the recipe %s has no \"wheels\", so it needs no lock; build it as it is", path);
	if (r == 0)
		r = find_targets(lock_path, o, err);
	if (r == 0)
		r = ask(dirs, o, &recipe, wheels, err);
	if (r == 0)
		r = cbx_wheellock_write(lock_path, &recipe, o->targets, wheels, err);
	cbx_recipe_release(&recipe);
	cbx_progress_end();
	if (r == 0)
		printf("%s: %d wheels\n", lock_path, cJSON_GetArraySize(wheels));
	return r;
}

int cbx_image_main_lock(const struct cbx_dirs *dirs, int argc, char **argv)
{
	static const struct option options[] = { { "image", required_argument, NULL, 'i' },
						 { "python", required_argument, NULL, 'p' },
						 { 0 } };
	struct options o = { .targets = cbx_json_new_arr() };
	struct cbx_err err;
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'i')
			o.image = optarg;
		else if (c == 'p')
			add_targets(o.targets, optarg);
		else
			r = cbx_image_bad_usage("lock: unknown option");
	}
	if (r == 0 && argc - optind != 1)
		r = cbx_image_bad_usage("lock: give a recipe");
	if (r == 0 && cJSON_GetArraySize(o.targets) > CBX_TARGETS_MAX)
		r = cbx_image_bad_usage("lock: too many versions of Python");
	if (r == 0 && lock(dirs, argv[optind], &o, &err) < 0)
		r = cbx_image_fail(&err);
	cJSON_Delete(o.targets);
	return r;
}
