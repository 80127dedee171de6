/* SPDX-License-Identifier: Apache-2.0 */
/* What a client may ask of a session, and what a display may hold. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "policy/keys.h"
#include "sandbox/plan.h"
#include "interp/bundle.h"
#include "session/session.h"
#include "unit_main.h"

static int parse(const char *text, struct cbx_session_spec *spec, struct cbx_err *err)
{
	cJSON *o = cJSON_Parse(text);
	int r;

	ck_assert_ptr_nonnull(o);
	cbx_session_spec_init(spec);
	memset(err, 0, sizeof(*err));
	r = cbx_session_spec_parse(o, spec, err);
	cJSON_Delete(o);
	return r;
}

START_TEST(values)
{
	struct cbx_session_spec spec;
	struct cbx_err err;

	ck_assert_int_eq(parse("{}", &spec, &err), 0);
	ck_assert_uint_eq(spec.memory_bytes, CBX_MEMORY_DEFAULT);
	ck_assert_uint_eq(spec.timeout_ms, CBX_TIMEOUT_DEFAULT_MS);
	ck_assert_uint_eq(spec.cpus_milli, 0);
	ck_assert_uint_eq(spec.cpu_weight, 100);
	ck_assert_uint_eq(spec.cgroup, CBX_CGROUP_AUTO);
	ck_assert_int_eq(parse("{\"cpus\":0.25,\"cgroup\":\"required\"}", &spec, &err), 0);
	ck_assert_uint_eq(spec.cpus_milli, 250);
	ck_assert_uint_eq(spec.cgroup, CBX_CGROUP_REQUIRED);
	ck_assert_int_eq(parse("{\"cpu_weight\":25}", &spec, &err), 0);
	ck_assert_uint_eq(spec.cpu_weight, 25);
	ck_assert_int_eq(parse("{\"cpus\":\"1.5\"}", &spec, &err), 0);
	ck_assert_uint_eq(spec.cpus_milli, 1500);
	ck_assert_int_eq(parse("{\"io\":\"8M\",\"io_operations\":0}", &spec, &err), 0);
	ck_assert_uint_eq(spec.io_bytes, 8 << 20);
	ck_assert_uint_eq(spec.io_operations, 0);
	ck_assert_int_eq(parse("{\"session_id\":\"a.b-c_1\",\"image\":\"host\",\"memory\":\"512M\",\"disk\":1048576,"
			       "\"processes\":16,\"timeout\":0.5,\"ttl\":\"2h\",\"idle_timeout\":90,\"other\":[]}",
			       &spec, &err),
			 0);
	ck_assert_str_eq(spec.id, "a.b-c_1");
	ck_assert_str_eq(spec.image, "host");
	ck_assert_uint_eq(spec.memory_bytes, MIB(512));
	ck_assert_uint_eq(spec.disk_bytes, MIB(1));
	ck_assert_uint_eq(spec.processes, 16);
	ck_assert_uint_eq(spec.timeout_ms, 500);
	ck_assert_uint_eq(spec.ttl_s, 7200);
	ck_assert_uint_eq(spec.idle_s, 90);
	/* Kept in whole seconds, and never in more of them than were allowed. */
	ck_assert_int_eq(parse("{\"ttl\":1.9,\"idle_timeout\":\"2999ms\"}", &spec, &err), 0);
	ck_assert_uint_eq(spec.ttl_s, 1);
	ck_assert_uint_eq(spec.idle_s, 2);
	ck_assert_int_eq(parse("{\"memory\":null}", &spec, &err), 0);
	ck_assert_uint_eq(spec.memory_bytes, CBX_MEMORY_DEFAULT);
}
END_TEST

START_TEST(refusals)
{
	static const char *const bad[][2] = {
		{ "{\"memory\":1}", "memory" },
		{ "{\"cpus\":0.001}", "cpus" },
		{ "{\"io\":1000}", "io" },
		{ "{\"io\":\"2T\"}", "io" },
		{ "{\"io_operations\":9}", "io_operations" },
		{ "{\"io_operations\":1000000001}", "io_operations" },
		{ "{\"cpus\":2000}", "cpus" },
		{ "{\"cpu_weight\":0}", "cpu_weight" },
		{ "{\"cpu_weight\":10001}", "cpu_weight" },
		{ "{\"cpus\":\"many\"}", "cpus" },
		{ "{\"cgroup\":\"maybe\"}", "cgroup" },
		{ "{\"cgroup\":true}", "cgroup" },
		{ "{\"memory\":\"1T\"}", "memory" },
		{ "{\"memory\":\"x\"}", "memory" },
		{ "{\"memory\":1e300}", "memory" },
		{ "{\"memory\":-1}", "memory" },
		{ "{\"disk\":[]}", "disk" },
		{ "{\"processes\":2.5}", "processes" },
		{ "{\"processes\":100000}", "processes" },
		{ "{\"timeout\":0}", "timeout" },
		{ "{\"timeout\":\"2h\"}", "timeout" },
		{ "{\"ttl\":\"30d\"}", "ttl" },
		{ "{\"idle_timeout\":0}", "idle_timeout" },
		{ "{\"session_id\":\"-x\"}", "session_id" },
		{ "{\"image\":\"a/b\"}", "image" },
		{ "{\"image\":7}", "image" },
		{ "{\"profile\":\"loose\"}", "profile" },
		{ "{\"profile\":1}", "profile" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct cbx_session_spec spec;
		struct cbx_err err;

		ck_assert_msg(parse(bad[i][0], &spec, &err) < 0, "%s was accepted", bad[i][0]);
		ck_assert_str_eq(err.kind, "invalid_argument");
		ck_assert_msg(strncmp(err.msg, bad[i][1], strlen(bad[i][1])) == 0, "%s: %s", bad[i][0], err.msg);
	}
}
END_TEST

/* The table of keys stands below the sandbox's header and has the names for itself. */
START_TEST(profiles_have_one_order)
{
	const char *const *words = cbx_keys[CBX_KEY_PROFILE].words;

	for (unsigned i = 0; i < CBX_PROFILES; i++)
		ck_assert_str_eq(words[i], cbx_profile_name(i));
	ck_assert_ptr_null(words[CBX_PROFILES]);
	ck_assert_ptr_null(cbx_profile_name(CBX_PROFILES));
	ck_assert_uint_eq(cbx_keys[CBX_KEY_PROFILE].standard, CBX_PROFILE_DEFAULT);
}
END_TEST

/* A frame's bundle: how many members are left, how many were refused. */
static void bundle(const char *text, int members, size_t invalid)
{
	cJSON *frame = cJSON_Parse(text), *b;
	size_t bytes, bad;

	ck_assert_ptr_nonnull(frame);
	b = cbx_bundle_from_frame(frame, &bytes, &bad);
	ck_assert_uint_eq(bad, invalid);
	if (members)
		ck_assert_int_eq(cJSON_GetArraySize(cbx_json_member(b, "data")), members);
	else
		ck_assert_ptr_null(b);
	cJSON_Delete(b);
	cJSON_Delete(frame);
}

START_TEST(bundles)
{
	bundle("{}", 0, 0);
	bundle("{\"data\":[]}", 0, 0);
	bundle("{\"data\":{\"text/plain\":\"x\",\"text/html\":\"y\"},\"metadata\":5}", 2, 0);
	bundle("{\"data\":{\"text/plain\":5}}", 0, 1);
	bundle("{\"data\":{\"application/json\":{\"a\":[1]},\"application/vnd.x.v1+json\":1}}", 2, 0);
	bundle("{\"data\":{\"text\":\"x\",\"text/\":\"x\",\"/x\":\"x\",\"text/pl ain\":\"x\",\"TEXT/X\":\"x\"}}", 0, 5);
	bundle("{\"data\":{\"text/plain\":\"x\",\"text/plain\":\"y\"}}", 1, 1);
	bundle("{\"data\":{\"image/png\":\"iVBORw0KGgo=\"}}", 0, 1); /* only a signature */
	bundle("{\"data\":{\"image/jpeg\":\"/9j/4AAQ\\nSkZJRg==\\n\"}}", 1, 0);
	bundle("{\"data\":{\"image/gif\":\"AAAA\",\"image/svg+xml\":\"<svg/>\"}}", 1, 1);
	bundle("{\"data\":{\"audio/wav\":\"not base64\",\"application/pdf\":\"\"}}", 0, 2);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, values);
	tcase_add_test(t, refusals);
	tcase_add_test(t, profiles_have_one_order);
	tcase_add_test(t, bundles);
}

TEST_MAIN("session", add)
