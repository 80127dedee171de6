/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the values are checked here, where they were typed, by the functions that the daemon uses too.
 * They are handed over as they were typed: what is in force is settled there.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli.h"
#include "image/store.h"
#include "policy/environment.h"
#include "policy/keys.h"
#include "sandbox/plan.h"

/* KEY=VALUE */
static int add_setting(const char *command, struct cbx_cli_spec *spec, const char *arg)
{
	const char *eq = strchr(arg, '=');
	_cleanup_free_ char *name = eq ? cbx_xasprintf("%.*s", (int)(eq - arg), arg) : NULL;
	_cleanup_json_ cJSON *v = NULL;
	struct cbx_err err;
	enum cbx_key k = 0;
	uint64_t value;

	if (!eq)
		return cbx_cli_usage(command, "--set: give KEY=VALUE, as in processes=32");
	while (k < CBX_KEYS && (strcmp(cbx_keys[k].name, name) != 0 || cbx_keys[k].server_only))
		k++;
	if (k == CBX_KEYS)
		return cbx_cli_usage(command,
				     "--set: \"%s\" is not a setting of a session; codebox policy explain lists them",
				     name);
	v = cbx_key_from_text(k, eq + 1);
	if (cbx_key_parse(k, v, &value, &err) < 0)
		return cbx_cli_usage(command, "--set: %s", err.msg);
	if (!spec->set)
		spec->set = cbx_json_new_obj();
	cJSON_DeleteItemFromObjectCaseSensitive(spec->set, name);
	cbx_json_set(spec->set, name, take_ptr(&v));
	return 0;
}

/* Takes over `source`; target NULL: the daemon chooses it. */
static void push_mount(struct cbx_cli_spec *spec, char *source, const char *target, bool writable)
{
	cJSON *m = cbx_json_new_obj();

	cbx_json_set_str(m, "source", source);
	cbx_json_set_str(m, "target", target);
	if (writable)
		cbx_json_set_bool(m, "writable", true);
	if (!spec->mounts)
		spec->mounts = cbx_json_new_arr();
	cbx_json_push(spec->mounts, m);
	free(source);
}

/* A shell leaves "~" as it is behind "=" and within quotes. */
static char *real_name(const char *path)
{
	_cleanup_free_ char *there = NULL;

	if (path[0] == '~' && (!path[1] || path[1] == '/') && getenv("HOME"))
		there = cbx_xasprintf("%s%s", getenv("HOME"), path + 1);
	return realpath(there ? there : path, NULL);
}

static int add_workspace(const char *command, struct cbx_cli_spec *spec, const char *arg)
{
	char *absolute = real_name(arg);

	if (!absolute)
		return cbx_cli_usage(command, "--workspace: %s: %s; make it first", arg, strerror(errno));
	push_mount(spec, absolute, CBX_INSIDE_WORKSPACE, true);
	return 0;
}

/* SOURCE[:TARGET][:rw] */
static int add_mount(const char *command, struct cbx_cli_spec *spec, const char *arg)
{
	_cleanup_free_ char *source = cbx_xstrdup(arg), *absolute = NULL;
	char *target = strchr(source, ':'), *mode = NULL;

	if (target) {
		*target++ = '\0';
		mode = target[0] == '/' ? strchr(target, ':') : target;
		if (mode == target)
			target = NULL;
		else if (mode)
			*mode++ = '\0';
	}
	if (mode && strcmp(mode, "rw") != 0 && strcmp(mode, "ro") != 0)
		return cbx_cli_usage(command, "--mount: give SOURCE, SOURCE:TARGET, SOURCE:rw or SOURCE:TARGET:rw");
	absolute = real_name(source);
	if (!absolute)
		return cbx_cli_usage(command, "--mount: %s: %s", source, strerror(errno));
	push_mount(spec, take_ptr(&absolute), target, mode && strcmp(mode, "rw") == 0);
	return 0;
}

/* NAME=VALUE, or NAME for the value that it has in this process */
static int add_variable(const char *command, struct cbx_cli_spec *spec, const char *arg)
{
	const char *eq = strchr(arg, '='), *value = eq ? eq + 1 : getenv(arg);
	_cleanup_free_ char *name = eq ? cbx_xasprintf("%.*s", (int)(eq - arg), arg) : cbx_xstrdup(arg);
	struct cbx_err err;

	if (!value)
		return cbx_cli_usage(command, "--env: %s is not set here; give NAME=VALUE", arg);
	if (!cbx_utf8_valid(value, strlen(value)))
		return cbx_cli_usage(command, "--env: the value of %s is not valid UTF-8", name);
	if (!spec->environment)
		spec->environment = cbx_json_new_obj();
	cJSON_DeleteItemFromObjectCaseSensitive(spec->environment, name);
	cbx_json_set_str(spec->environment, name, value);
	if (cbx_environment_check(spec->environment, NULL, &err) < 0)
		return cbx_cli_usage(command, "--env: %s", err.msg);
	return 0;
}

void cbx_cli_spec_package(struct cbx_cli_spec *spec, const char *requirement)
{
	if (!spec->packages)
		spec->packages = cbx_json_new_arr();
	cbx_json_push_str(spec->packages, requirement);
}

int cbx_cli_spec_option(const char *command, struct cbx_cli_spec *spec, int c, char *const *argv)
{
	const char **const values[] = { &spec->session, &spec->image,	&spec->memory, &spec->disk,
					&spec->policy,	&spec->timeout, &spec->out };

	if (c >= CBX_OPT_SESSION && c <= CBX_OPT_OUT) {
		*values[c - CBX_OPT_SESSION] = optarg;
		return 0;
	}
	switch (c) {
	case CBX_OPT_SET:
		return add_setting(command, spec, optarg);
	case CBX_OPT_ENV:
		return add_variable(command, spec, optarg);
	case CBX_OPT_MOUNT:
	case 'v':
		return add_mount(command, spec, optarg);
	case CBX_OPT_WORKSPACE:
		return add_workspace(command, spec, optarg);
	case CBX_OPT_PACKAGE:
		cbx_cli_spec_package(spec, optarg);
		return 0;
	default:
		return cbx_cli_bad_option(command, c, argv);
	}
}

/* "python:3.12" and "example.org/a/b": an image by the name that it has in a registry. */
static int find_image(struct cbx_cli_spec *spec, struct cbx_err *err)
{
	struct cbx_dirs dirs;
	int r = cbx_dirs_init(&dirs, err);

	if (r < 0)
		return r;
	r = cbx_image_find(dirs.images, spec->image, spec->found, err);
	if (r == 0)
		spec->image = spec->found;
	cbx_dirs_release(&dirs);
	return r;
}

int cbx_cli_spec_check(const char *command, struct cbx_cli_spec *spec)
{
	struct cbx_err err;
	uint64_t v;

	if (spec->session && !cbx_name_valid(spec->session))
		return cbx_cli_usage(command,
				     "--session: \"%s\" is not a name; use up to %d letters, digits, '-', '_' and "
				     "'.', starting with a letter or a digit",
				     spec->session, CBX_NAME_MAX);
	if (spec->image && !cbx_name_valid(spec->image) && find_image(spec, &err) < 0)
		return cbx_cli_usage(command, "--image: %s", err.msg);
	if (spec->memory && cbx_parse_size(spec->memory, "--memory", CBX_MEMORY_MIN, CBX_MEMORY_MAX, &v, &err) < 0)
		return cbx_cli_usage(command, "%s", err.msg);
	if (spec->policy && !cbx_name_valid(spec->policy))
		return cbx_cli_usage(command,
				     "--policy: \"%s\" is not a shipped policy; use default, strict, net or dev",
				     spec->policy);
	if (spec->disk && cbx_parse_size(spec->disk, "--disk", CBX_DISK_MIN, CBX_DISK_MAX, &v, &err) < 0)
		return cbx_cli_usage(command, "%s", err.msg);
	if (spec->timeout && cbx_parse_duration_ms(spec->timeout, "--timeout", 1, CBX_TIMEOUT_MAX_MS, &v, &err) < 0)
		return cbx_cli_usage(command, "%s", err.msg);
	if (spec->out && !spec->out[0])
		return cbx_cli_usage(command, "--out: give the name of a directory");
	return 0;
}

void cbx_cli_spec_json(const struct cbx_cli_spec *spec, cJSON *params)
{
	const cJSON *v;

	cbx_json_set_str(params, "session_id", spec->session);
	cbx_json_set_str(params, "image", spec->image);
	cbx_json_set_str(params, "memory", spec->memory);
	cbx_json_set_str(params, "disk", spec->disk);
	cbx_json_set_str(params, "policy", spec->policy);
	if (spec->environment)
		cbx_json_set(params, "environment", cJSON_Duplicate(spec->environment, 1));
	if (spec->mounts)
		cbx_json_set(params, "mounts", cJSON_Duplicate(spec->mounts, 1));
	if (spec->packages)
		cbx_json_set(params, "packages", cJSON_Duplicate(spec->packages, 1));
	cJSON_ArrayForEach(v, spec->set)
		cbx_json_set(params, v->string, cJSON_Duplicate(v, 1));
}

int cbx_cli_spec_outfit(struct cbx_cli_spec *spec, struct cbx_client *client, struct cbx_err *err)
{
	_cleanup_json_ cJSON *created = NULL, *installed = NULL;
	cJSON *params = cbx_json_new_obj();
	int r;

	cbx_cli_spec_json(spec, params);
	r = cbx_client_call(client, "session.create", params, &created, err);
	if (r < 0 && strcmp(err->kind, "session_exists") == 0) {
		params = cbx_json_new_obj();
		cbx_json_set_str(params, "session_id", spec->session);
		cbx_json_set(params, "packages", cJSON_Duplicate(spec->packages, 1));
		r = cbx_client_call(client, "packages.install", params, &installed, err);
	}
	if (r >= 0)
		cJSON_Delete(take_ptr(&spec->packages));
	return r;
}

void cbx_cli_spec_release(struct cbx_cli_spec *spec)
{
	cJSON_Delete(spec->set);
	cJSON_Delete(spec->environment);
	cJSON_Delete(spec->mounts);
	cJSON_Delete(spec->packages);
	spec->set = spec->environment = spec->mounts = spec->packages = NULL;
}
