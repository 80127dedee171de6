/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the values are checked here, where they were typed, by the functions that the daemon uses too. They
 * are handed over as they were typed: what is in force is settled there.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli.h"
#include "policy/environment.h"
#include "policy/keys.h"

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
		return cbx_cli_usage(command, "--set: KEY=VALUE is expected, as in processes=32");
	while (k < CBX_KEYS && (strcmp(cbx_keys[k].name, name) != 0 || cbx_keys[k].server_only))
		k++;
	if (k == CBX_KEYS)
		return cbx_cli_usage(
			command, "--set: \"%s\" is no setting of a session; codebox policy explain lists them", name);
	v = cbx_key_from_text(k, eq + 1);
	if (cbx_key_parse(k, v, &value, &err) < 0)
		return cbx_cli_usage(command, "--set: %s", err.msg);
	if (!spec->set)
		spec->set = cbx_json_new_obj();
	cJSON_DeleteItemFromObjectCaseSensitive(spec->set, name);
	cbx_json_set(spec->set, name, take_ptr(&v));
	return 0;
}

/* SOURCE[:TARGET][:rw] */
static int add_mount(const char *command, struct cbx_cli_spec *spec, const char *arg)
{
	_cleanup_free_ char *source = cbx_xstrdup(arg), *absolute = NULL;
	char *target = strchr(source, ':'), *mode = NULL;
	cJSON *m;

	if (target) {
		*target++ = '\0';
		mode = target[0] == '/' ? strchr(target, ':') : target;
		if (mode == target)
			target = NULL;
		else if (mode)
			*mode++ = '\0';
	}
	if (mode && strcmp(mode, "rw") != 0 && strcmp(mode, "ro") != 0)
		return cbx_cli_usage(command,
				     "--mount: SOURCE, SOURCE:TARGET, SOURCE:rw or SOURCE:TARGET:rw is expected");
	absolute = realpath(source, NULL);
	if (!absolute)
		return cbx_cli_usage(command, "--mount: %s: %s", source, strerror(errno));
	m = cbx_json_new_obj();
	cbx_json_set_str(m, "source", absolute);
	cbx_json_set_str(m, "target", target);
	if (mode && strcmp(mode, "rw") == 0)
		cbx_json_set_bool(m, "writable", true);
	if (!spec->mounts)
		spec->mounts = cbx_json_new_arr();
	cbx_json_push(spec->mounts, m);
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
		return add_mount(command, spec, optarg);
	default:
		return cbx_cli_bad_option(command, c, argv);
	}
}

int cbx_cli_spec_check(const char *command, const struct cbx_cli_spec *spec)
{
	struct cbx_err err;
	uint64_t v;

	if (spec->session && !cbx_name_valid(spec->session))
		return cbx_cli_usage(command,
				     "--session: \"%s\" is no name; use up to %d letters, digits, '-', '_' and "
				     "'.', starting with a letter or a digit",
				     spec->session, CBX_NAME_MAX);
	if (spec->image && !cbx_name_valid(spec->image))
		return cbx_cli_usage(command, "--image: \"%s\" is no name of an image; see codebox image ls",
				     spec->image);
	if (spec->memory && cbx_parse_size(spec->memory, "--memory", CBX_MEMORY_MIN, CBX_MEMORY_MAX, &v, &err) < 0)
		return cbx_cli_usage(command, "%s", err.msg);
	if (spec->policy && !cbx_name_valid(spec->policy))
		return cbx_cli_usage(command,
				     "--policy: \"%s\" is no name of a shipped policy: default, strict, net, dev",
				     spec->policy);
	if (spec->disk && cbx_parse_size(spec->disk, "--disk", CBX_DISK_MIN, CBX_DISK_MAX, &v, &err) < 0)
		return cbx_cli_usage(command, "%s", err.msg);
	if (spec->timeout && cbx_parse_duration_ms(spec->timeout, "--timeout", 1, CBX_TIMEOUT_MAX_MS, &v, &err) < 0)
		return cbx_cli_usage(command, "%s", err.msg);
	if (spec->out && !spec->out[0])
		return cbx_cli_usage(command, "--out: the name of a directory is expected");
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
	cJSON_ArrayForEach (v, spec->set)
		cbx_json_set(params, v->string, cJSON_Duplicate(v, 1));
}

void cbx_cli_spec_release(struct cbx_cli_spec *spec)
{
	cJSON_Delete(spec->set);
	cJSON_Delete(spec->environment);
	cJSON_Delete(spec->mounts);
	spec->set = spec->environment = spec->mounts = NULL;
}
