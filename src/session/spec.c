/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a request has the keys of policy/keys.h, and this file says in which field of the spec each of
 * them is kept. So a request, a policy file and a tool's schema cannot disagree about a setting. Which keys a request
 * gave is remembered: all others are the policy's to fill in.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/asked.h"

#define FIELD(member, unit) \
	{ offsetof(struct cbx_session_spec, member), sizeof(((struct cbx_session_spec *)0)->member), unit }

static const struct field {
	size_t at, size; /* size 0: not kept in a spec */
	uint64_t unit;   /* of the field, in units of the key; rounded down: no more than was allowed */
} fields[CBX_KEYS] = {
	[CBX_KEY_MEMORY] = FIELD(memory_bytes, 1),
	[CBX_KEY_DISK] = FIELD(disk_bytes, 1),
	[CBX_KEY_PROCESSES] = FIELD(processes, 1),
	[CBX_KEY_TIMEOUT] = FIELD(timeout_ms, 1),
	[CBX_KEY_TTL] = FIELD(ttl_s, 1000),
	[CBX_KEY_IDLE_TIMEOUT] = FIELD(idle_s, 1000),
	[CBX_KEY_PROFILE] = FIELD(profile, 1),
	[CBX_KEY_CPUS] = FIELD(cpus_milli, 1),
	[CBX_KEY_CPU_WEIGHT] = FIELD(cpu_weight, 1),
	[CBX_KEY_IO] = FIELD(io_bytes, 1),
	[CBX_KEY_IO_OPERATIONS] = FIELD(io_operations, 1),
	[CBX_KEY_CGROUP] = FIELD(cgroup, 1),
	[CBX_KEY_LANDLOCK] = FIELD(landlock, 1),
	[CBX_KEY_NOEXEC_WORKSPACE] = FIELD(noexec_workspace, 1),
	[CBX_KEY_WRITE_XOR_EXECUTE] = FIELD(write_xor_execute, 1),
	[CBX_KEY_OWN_CORES] = FIELD(own_cores, 1),
	[CBX_KEY_NO_SPECULATION] = FIELD(no_speculation, 1),
	[CBX_KEY_ZYGOTE] = FIELD(zygote, 1),
	[CBX_KEY_CODE_RULES] = FIELD(code_rules, 1),
};

static void set_field(struct cbx_session_spec *spec, enum cbx_key key, uint64_t value)
{
	const struct field *f = &fields[key];
	char *at = (char *)spec + f->at;
	uint64_t v = value / f->unit;
	uint32_t narrow = (uint32_t)v;
	uint8_t flag = (uint8_t)v;

	if (f->size == sizeof(v))
		memcpy(at, &v, sizeof(v));
	else if (f->size == sizeof(narrow))
		memcpy(at, &narrow, sizeof(narrow));
	else if (f->size == sizeof(flag))
		memcpy(at, &flag, sizeof(flag));
}

static uint64_t get_field(const struct cbx_session_spec *spec, enum cbx_key key)
{
	const struct field *f = &fields[key];
	const char *at = (const char *)spec + f->at;
	uint64_t v = 0;
	uint32_t narrow;
	uint8_t flag;

	if (f->size == sizeof(v)) {
		memcpy(&v, at, sizeof(v));
	} else if (f->size == sizeof(narrow)) {
		memcpy(&narrow, at, sizeof(narrow));
		v = narrow;
	} else if (f->size == sizeof(flag)) {
		memcpy(&flag, at, sizeof(flag));
		v = flag;
	}
	return v * f->unit;
}

void cbx_session_spec_init(struct cbx_session_spec *spec)
{
	memset(spec, 0, sizeof(*spec));
	for (enum cbx_key k = 0; k < CBX_KEYS; k++)
		if (fields[k].size)
			set_field(spec, k, cbx_keys[k].standard);
}

static int parse_name(const cJSON *obj, const char *key, char out[CBX_NAME_MAX + 1], struct cbx_err *err)
{
	const char *name = NULL;
	int r = cbx_json_get_str(obj, key, &name, err);

	if (r <= 0)
		return r;
	if (!cbx_name_valid(name))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "%s: \"%.80s\" is not a name; use 1 to %d letters, digits, \"_\", \".\" and \"-\", "
				  "starting with a letter or digit",
				  key, name, CBX_NAME_MAX);
	snprintf(out, CBX_NAME_MAX + 1, "%s", name);
	return 1;
}

int cbx_session_spec_parse(const cJSON *obj, struct cbx_session_spec *spec, struct cbx_err *err)
{
	_Static_assert(CBX_KEYS <= 64, "each key has a bit in `given`");
	uint64_t values[CBX_KEYS], given = 0;
	const cJSON *environment, *mounts, *packages = NULL;
	int r = parse_name(obj, "id", spec->id, err);

	if (r >= 0)
		r = parse_name(obj, "session_id", spec->id, err);
	if (r >= 0)
		r = parse_name(obj, "image", spec->image, err);
	if (r >= 0)
		r = parse_name(obj, "policy", spec->policy, err);
	environment = cbx_json_member(obj, "environment");
	mounts = cbx_json_member(obj, "mounts");
	r = r < 0 ? r : cbx_json_get_arr(obj, "packages", &packages, err);
	if (cJSON_IsNull(environment))
		environment = NULL;
	if (cJSON_IsNull(mounts))
		mounts = NULL;
	if (r >= 0 && environment)
		r = cbx_environment_check(environment, NULL, err);
	if (r >= 0 && mounts)
		r = cbx_mounts_check(mounts, err);
	for (enum cbx_key k = 0; r >= 0 && k < CBX_KEYS; k++) {
		const cJSON *v = cbx_json_member(obj, cbx_keys[k].name);

		if (!v || cJSON_IsNull(v) || !fields[k].size)
			continue;
		r = cbx_key_parse(k, v, &values[k], err);
		given |= 1ull << k;
	}
	if (r < 0)
		return r;
	for (enum cbx_key k = 0; k < CBX_KEYS; k++)
		if (given & 1ull << k)
			set_field(spec, k, values[k]);
	spec->given |= given;
	spec->environment = environment;
	spec->mounts = mounts;
	spec->packages = packages && packages->child ? packages : NULL;
	return 0;
}

void cbx_session_spec_settle(struct cbx_session_spec *spec, const struct cbx_policy *policy, cJSON *lowered)
{
	for (enum cbx_key k = 0; k < CBX_KEYS; k++) {
		uint64_t wanted = get_field(spec, k), value;
		bool given = spec->given & 1ull << k && !(k == CBX_KEY_TIMEOUT && !wanted);

		if (!fields[k].size)
			continue;
		if (cbx_policy_settle(policy, k, given, wanted, &value))
			cbx_json_push_str(lowered, cbx_keys[k].name);
		set_field(spec, k, value);
	}
}

const char *cbx_session_spec_differs(const struct cbx_session_spec *want, const struct cbx_session_spec *have)
{
	for (enum cbx_key k = 0; k < CBX_KEYS; k++)
		if (fields[k].size && want->given & 1ull << k && get_field(want, k) != get_field(have, k))
			return cbx_keys[k].name;
	return NULL;
}

char *cbx_session_spec_asked(const struct cbx_session_spec *spec)
{
	struct cbx_buf text = { 0 };

	if ((!spec->environment || !spec->environment->child) && (!spec->mounts || !spec->mounts->child))
		return NULL;
	if (spec->environment)
		cbx_json_print(&text, spec->environment);
	if (spec->mounts)
		cbx_json_print(&text, spec->mounts);
	return cbx_buf_steal(&text);
}

size_t cbx_session_spec_keys(const char *ret[CBX_SPEC_KEYS_MAX])
{
	size_t n = 0;

	_Static_assert(6 + CBX_KEYS < CBX_SPEC_KEYS_MAX, "there is room for all keys");
	ret[n++] = "session_id";
	ret[n++] = "image";
	ret[n++] = "policy";
	ret[n++] = "environment";
	ret[n++] = "mounts";
	ret[n++] = "packages";
	for (enum cbx_key k = 0; k < CBX_KEYS; k++)
		if (fields[k].size)
			ret[n++] = cbx_keys[k].name;
	return n;
}
