/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a request can say what it wants of a session in three ways: by the keys that all front ends
 * have, by "execution_options", and by headers. Each is made a member of one object, which is read as everywhere else,
 * so that what is nonsense is refused, and what is too much is lowered, by the code that does so for all. Headers come
 * first, and give way to the body.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "rest/internal.h"

/* Try a member by itself, so that an error can name it as the request does. */
static int check(const char *said_as, const char *key, const cJSON *value, struct cbx_session_spec *ret,
		 struct cbx_err *err)
{
	_cleanup_json_ cJSON *o = cbx_json_new_obj();

	cbx_json_set(o, key, cJSON_Duplicate(value, 1));
	cbx_session_spec_init(ret);
	return cbx_session_spec_parse(o, ret, err) < 0 ? cbx_wrap(err, "%s", said_as) : 0;
}

static int put(cJSON *o, const char *said_as, const char *key, cJSON *value, struct cbx_err *err)
{
	struct cbx_session_spec ignored;
	int r = check(said_as, key, value, &ignored, err);

	if (r < 0) {
		cJSON_Delete(value);
		return r;
	}
	cJSON_DeleteItemFromObjectCaseSensitive(o, key);
	cbx_json_set(o, key, value);
	return 0;
}

/* ---- headers ---- */

#define EXEC_TIMEOUT "X-Exec-Timeout"

static const struct {
	const char *header, *key;
	uint64_t max; /* more is as much */
} headers[] = {
	{ "X-Session-TTL", "ttl", CBX_TTL_MAX_S },
	{ "X-Idle-Timeout", "idle_timeout", CBX_TTL_MAX_S },
	{ EXEC_TIMEOUT, "timeout", CBX_TIMEOUT_MAX_MS / 1000 },
};

/* A whole number. 1; 0: it is not there. */
static int header_number(struct cbx_rest_call *call, const char *name, uint64_t max, uint64_t *ret, struct cbx_err *err)
{
	const char *text = cbx_http_header(call->conn, name);
	int r = text ? cbx_parse_u64(text, name, 1, UINT32_MAX, ret, err) : 0;

	if (text && r >= 0 && *ret > max)
		*ret = max;
	return r < 0 ? r : text != NULL;
}

static int take_headers(struct cbx_rest_call *call, cJSON *o, struct cbx_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		uint64_t seconds;
		int r = header_number(call, headers[i].header, headers[i].max, &seconds, err);

		if (r > 0)
			r = put(o, headers[i].header, headers[i].key, cJSON_CreateNumber((double)seconds), err);
		if (r < 0)
			return r;
	}
	return 0;
}

int cbx_rest_cell_timeout(struct cbx_rest_call *call, uint64_t *ret_ms, struct cbx_err *err)
{
	const cJSON *v = cbx_json_member(call->doc.root, "timeout");
	struct cbx_session_spec spec;
	uint64_t seconds = 0;
	int r = header_number(call, EXEC_TIMEOUT, CBX_TIMEOUT_MAX_MS / 1000, &seconds, err);

	*ret_ms = seconds * 1000;
	if (r < 0 || !v || cJSON_IsNull(v))
		return r;
	r = check("timeout", "timeout", v, &spec, err);
	*ret_ms = spec.timeout_ms;
	return r;
}

int cbx_rest_link_seconds(struct cbx_rest_call *call, uint32_t *ret, struct cbx_err *err)
{
	uint64_t hours = 0;
	int r = header_number(call, CBX_LINK_HEADER, CBX_LINK_EXPIRY_MAX_S / 3600, &hours, err);

	*ret = (uint32_t)hours * 3600;
	return r;
}

/* ---- execution_options ---- */

static int take_timeout(cJSON *o, const cJSON *options, struct cbx_err *err)
{
	uint64_t seconds = 0;
	int r = cbx_json_get_u64(options, "timeout", 1, 600, &seconds, err);

	if (r < 0)
		return cbx_wrap(err, "execution_options");
	return r ? put(o, "execution_options.timeout", "timeout", cJSON_CreateNumber((double)seconds), err) : 0;
}

/* "2g" is what Docker takes. */
static int take_memory(cJSON *o, const cJSON *options, struct cbx_err *err)
{
	const char *text = NULL;
	uint64_t bytes;
	char upper[32];
	size_t n;
	int r = cbx_json_get_str(options, "memory_limit", &text, err);

	if (r < 0)
		return cbx_wrap(err, "execution_options");
	if (!r)
		return 0;
	n = (size_t)snprintf(upper, sizeof(upper), "%s", text);
	if (n && n < sizeof(upper) && strchr("kmgt", upper[n - 1]))
		upper[n - 1] = (char)(upper[n - 1] - 'a' + 'A');
	r = cbx_parse_size(upper, "execution_options.memory_limit", 1, 1ull << 50, &bytes, err);
	if (r < 0)
		return r;
	return put(o, "execution_options.memory_limit", "memory",
		   cJSON_CreateNumber((double)(bytes < CBX_MEMORY_MAX ? bytes : CBX_MEMORY_MAX)), err);
}

static int take_cpus(cJSON *o, const cJSON *options, struct cbx_err *err)
{
	const char *text = NULL;
	double cpus;
	char *end;
	int r = cbx_json_get_str(options, "cpu_limit", &text, err);

	if (r < 0)
		return cbx_wrap(err, "execution_options");
	if (!r)
		return 0;
	cpus = strtod(text, &end);
	if (end == text || *end || strspn(text, "0123456789.") != strlen(text) || cpus <= 0)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "execution_options.cpu_limit: \"%.40s\" is not a number of processors; write one "
				  "such as \"1.5\"",
				  text);
	if (cpus > CBX_CPUS_MILLI_MAX / 1000)
		cpus = CBX_CPUS_MILLI_MAX / 1000;
	return put(o, "execution_options.cpu_limit", "cpus", cJSON_CreateNumber(cpus), err);
}

static int mount_of(const cJSON *m, cJSON **ret, struct cbx_err *err)
{
	static const char *const keys[] = { "host_path", "container_path", "read_only", NULL };
	const char *from = NULL, *to = NULL;
	bool read_only = true;
	cJSON *o;

	if (!cJSON_IsObject(m))
		return cbx_refuse(err, "invalid_argument", EINVAL, "give objects with host_path and container_path");
	if (cbx_json_only(m, keys, err) < 0 || cbx_json_get_str(m, "host_path", &from, err) < 0 ||
	    cbx_json_get_str(m, "container_path", &to, err) < 0 ||
	    cbx_json_get_bool(m, "read_only", &read_only, err) < 0)
		return -err->code;
	if (!from || !to)
		return cbx_refuse(err, "invalid_argument", EINVAL, "missing field: %s",
				  from ? "container_path" : "host_path");
	*ret = o = cbx_json_new_obj();
	cbx_json_set_str(o, "source", from);
	cbx_json_set_str(o, "target", to);
	cbx_json_set_bool(o, "writable", !read_only);
	return 0;
}

static int take_mounts(cJSON *o, const cJSON *options, struct cbx_err *err)
{
	_cleanup_json_ cJSON *mounts = cbx_json_new_arr();
	const cJSON *list = NULL, *m;
	cJSON *one = NULL;

	if (cbx_json_get_arr(options, "mount_points", &list, err) < 0)
		return cbx_wrap(err, "execution_options");
	cJSON_ArrayForEach(m, list) {
		if (mount_of(m, &one, err) < 0)
			return cbx_wrap(err, "execution_options.mount_points");
		cbx_json_push(mounts, one);
	}
	return mounts->child ? put(o, "execution_options.mount_points", "mounts", take_ptr(&mounts), err) : 0;
}

static int take_options(cJSON *o, const cJSON *options, struct cbx_err *err)
{
	static const char *const keys[] = { "timeout",	    "memory_limit",
					    "cpu_limit",    "environment_variables",
					    "mount_points", NULL };
	const cJSON *environment = NULL;
	int r = cbx_json_only(options, keys, err);

	if (r >= 0)
		r = cbx_json_get_obj(options, "environment_variables", &environment, err);
	if (r < 0)
		return cbx_wrap(err, "execution_options");
	r = take_timeout(o, options, err);
	if (r >= 0)
		r = take_memory(o, options, err);
	if (r >= 0)
		r = take_cpus(o, options, err);
	if (r >= 0 && environment)
		r = put(o, "execution_options.environment_variables", "environment", cJSON_Duplicate(environment, 1),
			err);
	return r < 0 ? r : take_mounts(o, options, err);
}

/* ---- all together ---- */

static int only_known(const cJSON *body, struct cbx_err *err)
{
	const char *keys[CBX_SPEC_KEYS_MAX + 3];
	size_t n = cbx_session_spec_keys(keys);

	keys[n++] = "dependencies";
	keys[n++] = "execution_options";
	keys[n] = NULL;
	return cbx_json_only(body, keys, err);
}

int cbx_rest_session_spec(struct cbx_rest_call *call, struct cbx_session_spec *spec, cJSON **ret_doc,
			  struct cbx_err *err)
{
	const cJSON *body = call->doc.root, *options = NULL, *dependencies = NULL, *v;
	_cleanup_json_ cJSON *o = cbx_json_new_obj();
	int r = only_known(body, err);

	if (r >= 0)
		r = cbx_json_get_obj(body, "execution_options", &options, err);
	if (r >= 0)
		r = cbx_json_get_arr(body, "dependencies", &dependencies, err);
	if (r >= 0)
		r = take_headers(call, o, err);
	if (r >= 0 && options)
		r = take_options(o, options, err);
	if (r < 0)
		return r;
	cJSON_ArrayForEach(v, body) {
		if (strcmp(v->string, "dependencies") == 0 || strcmp(v->string, "execution_options") == 0)
			continue;
		cJSON_DeleteItemFromObjectCaseSensitive(o, v->string);
		cbx_json_set(o, v->string, cJSON_Duplicate(v, 1));
	}
	if (dependencies) {
		cJSON_DeleteItemFromObjectCaseSensitive(o, "packages");
		cbx_json_set(o, "packages", cJSON_Duplicate(dependencies, 1));
		call->dependencies = true;
	}
	cbx_session_spec_init(spec);
	r = cbx_session_spec_parse(o, spec, err);
	if (r >= 0)
		*ret_doc = take_ptr(&o);
	return r;
}
