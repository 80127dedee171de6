/* SPDX-License-Identifier: Apache-2.0 */
/* Policy files: where their faults are, what is laid over what, and the lower of two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "policy/policy.h"
#include "unit_main.h"

/* Files that can be included. */
static const char *const library[][2] = {
	{ "a.json", "{\"limits\": {\"memory\": \"1G\", \"disk\": \"128M\"}, \"environment\": {\"A\": \"a\", \"B\": \"a\"}}" },
	{ "b.json", "// b\n{\"limits\": {\"memory\": {\"max\": \"3G\"}}, \"environment\": {\"B\": \"b\"}}" },
	{ "deep.json", "{\"include\": [\"a.json\"]}" },
	{ "bad.json", "{\n\"limits\": {\n\t\"disk\": 1}}" },
};

static int read_library(void *arg, const char *name, struct cbx_buf *text, char **ret_label, struct cbx_err *err)
{
	for (size_t i = 0; i < sizeof(library) / sizeof(library[0]); i++) {
		if (strcmp(library[i][0], name) == 0) {
			cbx_buf_adds(text, library[i][1]);
			*ret_label = cbx_xstrdup(name);
			return 0;
		}
	}
	return cbx_refuse(err, "system", 2, "open policy %s: No such file or directory", name);
}

static struct cbx_policy *good(const char *text)
{
	struct cbx_policy *p = NULL;
	struct cbx_err err = { 0 };
	int r = cbx_policy_parse(text, strlen(text), "t", "t.json", read_library, NULL, &p, &err);

	ck_assert_msg(r == 0, "%s: %s", text, err.msg);
	return p;
}

/* Every fault, and its place. */
static const struct {
	const char *text, *begin, *part;
} faults[] = {
	{ "", "t.json:1:1: ", "a value is expected" },
	{ "[]", "t.json:1:1: ", "object" },
	{ "{\"limits\": {}", "t.json:1:14: ", "expected" },
	{ "{} x", "t.json:1:4: ", "bytes follow" },
	{ "{,}", "t.json:1:2: ", "name is expected" },
	{ "{\"limits\": {},}", "t.json:1:15: ", "name is expected" },
	{ "// only\n/* a\n comment */", "t.json:3:12: ", "a value is expected" },
	{ "{\n  /* never\n closed }", "t.json:2:3: ", "comment is not closed" },
	{ "{\"limits\": /", "t.json:1:12: ", "a value is expected" },
	{ "{\"memroy\": 1}",
	  "t.json:1:2: ", "accepted are: $schema, include, network, images, mounts, environment, packages, sql, artifacts, limits" },
	{ "{\n\t\"limits\": {\"memroy\": 1}}",
	  "t.json:2:13: ", "\"memroy\" in \"limits\"; accepted are: memory, disk" },
	{ "{\"limits\": 5}", "t.json:1:2: ", "limits: wrong type" },
	{ "{\"limits\": {\"memory\": \"1G\",\n \"memory\": 2}}", "t.json:2:2: ", "stands twice" },
	{ "{\"environment\": {\"A\": \"1\", \"\\u0041\": \"2\"}}", "t.json:1:28: ", "stands twice" },
	{ "{\"limits\": {\"history\": \"65M\"}}", "t.json:1:13: ", "history: " },
	{ "{\"limits\": {\"results\": \"65M\"}}", "t.json:1:13: ", "results: " },
	{ "{\"limits\": {\"results_count\": 1001}}", "t.json:1:13: ", "results_count: " },
	{ "{\"limits\": {\"results_ttl\": \"10ms\"}}", "t.json:1:13: ", "results_ttl: " },
	{ "{\"limits\": {\"io\": \"50%\"}}", "t.json:1:13: ", "io: " },
	{ "{/* \xc3\xa4\xc3\xb6 */ \"limits\": {\"disk\": 1}}", "t.json:1:22: ", "disk: " },
	{ "{\"limits\": {\"memory\": true}}", "t.json:1:13: ", "memory: wrong type" },
	{ "{\"limits\": {\"memory\": null}}", "t.json:1:13: ", "memory: wrong type" },
	{ "{\"limits\": {\"memory\": {}}}", "t.json:1:13: ", "memory: wrong type" },
	{ "{\"limits\": {\"memory\": \"9999999999999999T\"}}", "t.json:1:13: ", "memory: " },
	{ "{\"limits\": {\"memory\": \"18446744073709551616\"}}", "t.json:1:13: ", "memory: " },
	{ "{\"limits\": {\"memory\": 1e300}}", "t.json:1:13: ", "memory: the value is not between" },
	{ "{\"limits\": {\"memory\": -1}}", "t.json:1:13: ", "memory: the value is not between" },
	{ "{\"limits\": {\"processes\": 9.5}}", "t.json:1:13: ", "whole number" },
	{ "{\"limits\": {\"timeout\": \"5 m\"}}", "t.json:1:13: ", "timeout: " },
	{ "{\"limits\": {\"timeout\": {\"min\": 1}}}", "t.json:1:25: ", "accepted are: default, max" },
	{ "{\"limits\": {\"timeout\": {\"max\": \"1m\", \"default\": \"2m\"}}}", "t.json:1:38: ", "above" },
	{ "{\"limits\": {\"sessions\": {\"max\": 2}}}", "t.json:1:13: ", "sessions: wrong type" },
	{ "{\"limits\": {\"sessions\": 0}}", "t.json:1:13: ", "sessions: " },
	{ "{\"limits\": {\"sessions\": 4097}}", "t.json:1:13: ", "sessions: " },
	{ "{\"network\": \"all\"}", "t.json:1:2: ", "network: give \"none\", \"open\"," },
	{ "{\"images\": []}", "t.json:1:2: ", "images: " },
	{ "{\"images\": [\"a\",\n\"../b\"]}", "t.json:2:1: ", "images: " },
	{ "{\"mounts\": []}", "t.json:1:2: ", "mounts: wrong type" },
	{ "{\"mounts\": {\"deny\": []}}", "t.json:1:13: ", "accepted are: roots, allow" },
	{ "{\"mounts\": {\"allow\": [{}]}}", "t.json:1:23: ", "path: give an absolute path" },
	{ "{\"mounts\": {\"allow\": [{\"path\": \"/a/../b\"}]}}", "t.json:1:24: ", "path: give an absolute path" },
	{ "{\"mounts\": {\"allow\": [{\"path\": \"a\"}]}}", "t.json:1:24: ", "path: give an absolute path" },
	{ "{\"mounts\": {\"allow\": [{\"path\": \"/\"}]}}", "t.json:1:24: ", "is, holds or is in /proc" },
	{ "{\"mounts\": {\"allow\": [{\"path\": \"/etc/ssl\"}]}}", "t.json:1:24: ", "in /etc" },
	{ "{\"mounts\": {\"allow\": [{\"path\": \"/var\"}]}}", "t.json:1:24: ", "in /var/run" },
	{ "{\"mounts\": {\"allow\": [{\"path\": \"/srv\", \"rw\": 1}]}}",
	  "t.json:1:40: ", "accepted are: path, writable" },
	{ "{\"mounts\": {\"allow\": [{\"path\": \"/srv\", \"writable\": 1}]}}", "t.json:1:40: ", "true or false" },
	{ "{\"environment\": []}", "t.json:1:2: ", "environment: wrong type" },
	{ "{\"environment\": {\"A\": 1}}", "t.json:1:18: ", "environment: A: wrong type" },
	{ "{\"environment\": {\"1A\": \"\"}}", "t.json:1:18: ", "is not a name" },
	{ "{\"environment\": {\"CODEBOX_X\": \"\"}}", "t.json:1:18: ", "codebox's own" },
	{ "{\"environment\": {\"A\": \"\\u0000\"}}", "t.json:1:24: ", "U+0000" },
	{ "{\"environment\": {\"A\": \"\xff\"}}", "t.json:1:24: ", "UTF-8" },
	{ "{\"code\": []}", "t.json:1:2: ", "code: wrong type" },
	{ "{\"code\": {\"rules\": []}}", "t.json:1:11: ",
	  "accepted are: code_rules, commands, magics, builtins, imports, names" },
	{ "{\"code\": {\"imports\": \"os\"}}", "t.json:1:11: ", "imports: give a list" },
	{ "{\"code\": {\"imports\": [\"os\",\n\"a b\"]}}", "t.json:2:1: ", "imports: give names" },
	{ "{\"code\": {\"code_rules\": 1}}", "t.json:1:11: ", "code_rules: wrong type" },
	{ "{\"$schema\": 1}", "t.json:1:2: ", "$schema: wrong type" },
	{ "{\"include\": \"a.json\"}", "t.json:1:2: ", "include: give a list" },
	{ "{\"include\": [1]}", "t.json:1:14: ", "include: " },
	{ "{\"include\": [\"a.json\", \"none.json\"]}", "t.json:1:24: ", "none.json: No such file" },
	{ "{\"include\": [\"bad.json\"]}", "bad.json:3:2: ", "disk: " },
	{ "{\"include\": [\"deep.json\"]}", "deep.json:1:2: ", "may not include others" },
};

START_TEST(every_fault)
{
	struct cbx_policy *p = NULL;
	struct cbx_err err = { 0 };
	int r = cbx_policy_parse(faults[_i].text, strlen(faults[_i].text), "t", "t.json", read_library, NULL, &p, &err);

	ck_assert_msg(r < 0 && !p, "accepted: %s", faults[_i].text);
	ck_assert_str_eq(err.kind, "invalid_policy");
	ck_assert_msg(strncmp(err.msg, faults[_i].begin, strlen(faults[_i].begin)) == 0, "%s: %s", faults[_i].text, err.msg);
	ck_assert_msg(strstr(err.msg, faults[_i].part) != NULL, "%s: %s", faults[_i].text, err.msg);
}
END_TEST

START_TEST(deep_nesting_is_refused)
{
	char text[400] = "";
	struct cbx_policy *p = NULL;
	struct cbx_err err;

	memset(text, '[', 300);
	ck_assert_int_lt(cbx_policy_parse(text, 300, "t", "t.json", NULL, NULL, &p, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "too many levels"));
}
END_TEST

/* The bound on variables holds for all files of a policy together. */
START_TEST(variables_of_all_files)
{
	for (int n = CBX_VARIABLES_MAX - 2; n < CBX_VARIABLES_MAX; n++) {
		_cleanup_buf_ struct cbx_buf text = { 0 };
		struct cbx_policy *p = NULL;
		struct cbx_err err;
		int r;

		cbx_buf_adds(&text, "{\"include\": [\"a.json\"], \"environment\": {");
		for (int i = 0; i < n; i++)
			cbx_buf_addf(&text, "%s\"V%d\": \"\"", i ? "," : "", i);
		cbx_buf_adds(&text, "}}");
		r = cbx_policy_parse(text.data, text.len, "t", "t.json", read_library, NULL, &p, &err);
		ck_assert_int_eq(r < 0, n + 2 > CBX_VARIABLES_MAX);
		if (r < 0)
			ck_assert_msg(strncmp(err.msg, "t.json:1:25: environment: more than", 35) == 0, "%s", err.msg);
		cbx_policy_free(p);
	}
}
END_TEST

START_TEST(values_and_origins)
{
	struct cbx_policy *p = good("{ // a comment with \"quotes\" and /* more\n"
				    "\"limits\": {\"memory\": \"1G\", /* { */ \"timeout\":\n"
				    "  {\"default\": 1.5,\n   \"max\": \"2m\"}, \"disk\": {\"max\": \"64M\"}},\n"
				    "\"environment\": {\"URL\": \"http://x//y /* z */\"}}");
	const struct cbx_policy_value *v = &p->values[CBX_KEY_MEMORY];

	ck_assert_uint_eq(v->standard, GIB(1));
	ck_assert_uint_eq(v->ceiling, GIB(1));
	ck_assert_uint_eq(v->standard_from.line, 2);
	v = &p->values[CBX_KEY_TIMEOUT];
	ck_assert_uint_eq(v->standard, 1500);
	ck_assert_uint_eq(v->ceiling, 120000);
	ck_assert_uint_eq(v->standard_from.line, 3);
	ck_assert_uint_eq(v->ceiling_from.line, 4);
	v = &p->values[CBX_KEY_DISK]; /* the ceiling takes the default with it */
	ck_assert_uint_eq(v->standard, MIB(64));
	ck_assert_uint_eq(v->ceiling, MIB(64));
	v = &p->values[CBX_KEY_TTL];
	ck_assert_uint_eq(v->standard, CBX_TTL_DEFAULT_S * 1000ull);
	ck_assert_uint_eq(v->ceiling_from.file, 0);
	ck_assert_str_eq(cbx_environment_get(&p->environment, "URL"), "http://x//y /* z */");
	cbx_policy_free(p);
}
END_TEST

START_TEST(parts_of_the_machine)
{
	uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct cbx_policy *p = good("{\"limits\":{\"memory\":{\"default\":\"64G\",\"max\":\"25%\"},"
				    "\"memory_together\":\"50%\",\"disk\":\"1%\"}}");
	const struct cbx_policy_value *memory = &p->values[CBX_KEY_MEMORY];
	cJSON *json = cbx_policy_to_json(p);
	char *text = cJSON_PrintUnformatted(json);
	struct cbx_policy *q = good(text);

	/* A quarter, to a MiB; the default gives way. */
	ck_assert_uint_le(memory->ceiling, machine / 4 < CBX_MEMORY_MIN ? CBX_MEMORY_MIN : machine / 4);
	ck_assert_uint_ge(memory->ceiling, machine / 5 < CBX_MEMORY_MAX ? machine / 5 : CBX_MEMORY_MAX);
	ck_assert_uint_eq(memory->standard, memory->ceiling);
	ck_assert_uint_ge(p->values[CBX_KEY_MEMORY_TOGETHER].standard, memory->ceiling);
	ck_assert_uint_le(p->values[CBX_KEY_DISK].standard, machine / 100 + MIB(1));
	/* What is in force is shown in bytes. */
	ck_assert_ptr_null(strchr(text, '%'));
	ck_assert_str_eq(p->digest, q->digest);
	free(text);
	cJSON_Delete(json);
	cbx_policy_free(p);
	cbx_policy_free(q);
}
END_TEST

START_TEST(includes)
{
	/* The order is that of the list, whatever the order of members. */
	struct cbx_policy *p = good("{\"limits\": {\"processes\": 9}, \"include\": [\"a.json\", \"b.json\"]}");

	ck_assert_uint_eq(p->values[CBX_KEY_MEMORY].standard, GIB(1));
	ck_assert_uint_eq(p->values[CBX_KEY_MEMORY].ceiling, GIB(3));
	ck_assert_str_eq(p->files[p->values[CBX_KEY_MEMORY].standard_from.file], "a.json");
	ck_assert_str_eq(p->files[p->values[CBX_KEY_MEMORY].ceiling_from.file], "b.json");
	ck_assert_uint_eq(p->values[CBX_KEY_MEMORY].ceiling_from.line, 2);
	ck_assert_uint_eq(p->values[CBX_KEY_PROCESSES].standard, 9);
	ck_assert_uint_eq(p->environment.n, 2);
	ck_assert_str_eq(cbx_environment_get(&p->environment, "B"), "b");
	cbx_policy_free(p);
}
END_TEST

START_TEST(canonical_form)
{
	struct cbx_policy *a = good("{\"limits\":{\"memory\":\"1G\",\"timeout\":{\"max\":\"10m\"}},\"images\":[\"b\",\"a\"],"
				    "\"environment\":{\"Z\":\"1\",\"A\":\"2\"}}");
	struct cbx_policy *b = good("{\"environment\":{\"A\":\"2\",\"Z\":\"1\"},\"images\":[\"b\",\"a\"], // same\n"
				    "\"limits\":{\"timeout\":{\"max\":600},\"memory\":1073741824}}"),
			  *c, *d = good("{\"limits\":{\"memory\":\"1G\"}}");
	_cleanup_json_ cJSON *tree = cbx_policy_to_json(a);
	_cleanup_buf_ struct cbx_buf text = { 0 };

	ck_assert_str_eq(a->digest, b->digest);
	ck_assert_uint_eq(strlen(a->digest), 64);
	ck_assert_str_ne(a->digest, d->digest);
	/* It is a policy itself, and says the same. */
	cbx_json_print(&text, tree);
	c = good(text.data);
	ck_assert_str_eq(a->digest, c->digest);
	cbx_policy_free(a);
	cbx_policy_free(b);
	cbx_policy_free(c);
	cbx_policy_free(d);
}
END_TEST

START_TEST(settling)
{
	struct cbx_policy *p = good("{\"limits\":{\"memory\":{\"default\":\"1G\",\"max\":\"2G\"}},\"images\":[\"one\"]}");
	uint64_t v;

	ck_assert(!cbx_policy_settle(p, CBX_KEY_MEMORY, false, GIB(9), &v));
	ck_assert_uint_eq(v, GIB(1));
	ck_assert(!cbx_policy_settle(p, CBX_KEY_MEMORY, true, GIB(2), &v));
	ck_assert_uint_eq(v, GIB(2));
	ck_assert(cbx_policy_settle(p, CBX_KEY_MEMORY, true, GIB(2) + 1, &v));
	ck_assert_uint_eq(v, GIB(2));
	ck_assert(cbx_policy_image_allowed(p, "one"));
	ck_assert(!cbx_policy_image_allowed(p, "on"));
	cbx_policy_free(p);
}
END_TEST

START_TEST(images_in_the_making)
{
	struct cbx_policy *p = good("{\"images\":[\"one\"]}"), *all = good("{}");

	ck_assert(cbx_policy_image_allowed(p, "one-unfinished"));
	ck_assert(!cbx_policy_image_allowed(p, "two-unfinished"));
	ck_assert(!cbx_policy_image_allowed(p, "on-unfinished"));
	ck_assert(!cbx_policy_image_allowed(p, "one-unfinishe"));
	ck_assert(!cbx_policy_image_allowed(p, "one-unfinished-unfinished"));
	ck_assert(!cbx_policy_image_allowed(p, "one-unfinished-two"));
	ck_assert(!cbx_policy_image_allowed(p, "-unfinished"));
	ck_assert(cbx_policy_image_allowed(all, "one-unfinished"));
	cbx_policy_free(p);
	cbx_policy_free(all);
}
END_TEST

START_TEST(narrowing)
{
	struct cbx_policy *wide = good("{\"limits\":{\"memory\":{\"default\":\"1G\",\"max\":\"2G\"},\"disk\":\"1G\","
				       "\"sessions\":9},\"images\":[\"a\",\"b\"],\"environment\":{\"X\":\"w\",\"Y\":\"w\"}}");
	struct cbx_policy *tight = good("{\"limits\":{\"memory\":\"4G\",\"disk\":\"64M\"},\"images\":[\"b\",\"c\"],"
					"\"environment\":{\"X\":\"t\",\"Z\":\"t\"}}");
	struct cbx_policy *p = cbx_policy_narrow(wide, tight);

	ck_assert_uint_eq(p->values[CBX_KEY_MEMORY].standard, GIB(2));
	ck_assert_uint_eq(p->values[CBX_KEY_MEMORY].ceiling, GIB(2));
	ck_assert_uint_eq(p->values[CBX_KEY_DISK].ceiling, MIB(64));
	ck_assert_uint_eq(p->values[CBX_KEY_SESSIONS].ceiling, 9);
	ck_assert_uint_eq(p->nimages, 1);
	ck_assert(cbx_policy_image_allowed(p, "b"));
	ck_assert(!cbx_policy_image_allowed(p, "a"));
	ck_assert(!cbx_policy_image_allowed(p, "c"));
	ck_assert_str_eq(cbx_environment_get(&p->environment, "X"), "w");
	ck_assert_str_eq(cbx_environment_get(&p->environment, "Z"), "t");
	ck_assert_str_eq(p->name, "t+t");
	cbx_policy_free(p);
	cbx_policy_free(wide);
	cbx_policy_free(tight);
	wide = good("{\"mounts\":{\"allow\":[{\"path\":\"/srv\",\"writable\":true},{\"path\":\"/home/a/b\"}]}}");
	tight = good("{\"mounts\":{\"allow\":[{\"path\":\"/srv/x\",\"writable\":true},{\"path\":\"/home/a\",\"writable\":true},"
		     "{\"path\":\"/srvother\"}]}}");
	p = cbx_policy_narrow(wide, tight);
	ck_assert_uint_eq(p->nmounts, 2);
	ck_assert_str_eq(p->mounts[0].path, "/srv/x");
	ck_assert(p->mounts[0].writable);
	ck_assert_str_eq(p->mounts[1].path, "/home/a/b");
	ck_assert(!p->mounts[1].writable);
	cbx_policy_free(p);
	cbx_policy_free(wide);
	wide = good("{\"images\":[\"a\",\"b\"]}");
	/* Nothing in common: no image at all, not all of them. */
	cbx_policy_free(tight);
	tight = good("{\"images\":[\"c\"]}");
	p = cbx_policy_narrow(wide, tight);
	ck_assert(!cbx_policy_image_allowed(p, "a") && !cbx_policy_image_allowed(p, "c"));
	cbx_policy_free(p);
	cbx_policy_free(wide);
	cbx_policy_free(tight);
}
END_TEST

static void same_list(const struct cbx_policy *p, const char *name, const char *want)
{
	_cleanup_json_ cJSON *lists = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_code_rules_to_json(p, lists);
	cbx_json_print(&text, cbx_json_member(lists, name));
	ck_assert_str_eq(cbx_buf_str(&text), want);
}

START_TEST(rules_for_code)
{
	struct cbx_policy *wide = good("{\"code\":{\"code_rules\":true,\"imports\":[\"a\",\"b\"],\"magics\":[\"x\",\"y\"],"
				       "\"builtins\":[\"d\"]}}");
	struct cbx_policy *tight = good("{\"code\":{\"imports\":[\"b\",\"c\"],\"magics\":[\"z\",\"y\"],\"names\":[]}}");
	struct cbx_policy *p = cbx_policy_narrow(wide, tight);
	_cleanup_json_ cJSON *without = cJSON_Parse("[\"all\"]");
	cJSON *frame;

	ck_assert_uint_eq(p->values[CBX_KEY_CODE_RULES].ceiling, 1);
	same_list(p, "imports", "[\"a\",\"b\",\"c\"]");
	same_list(p, "magics", "[\"y\"]");
	same_list(p, "builtins", "[\"d\"]");
	same_list(p, "names", "[]"); /* what is built in is longer */
	frame = cbx_code_rules_frame(p, without);
	ck_assert_ptr_nonnull(frame); /* a request has no say */
	ck_assert_int_eq(cJSON_GetArraySize(frame), 5);
	cJSON_Delete(frame);
	cbx_policy_free(p);
	cbx_policy_free(wide);
	cbx_policy_free(tight);
	wide = good("{\"code\":{\"code_rules\":{\"default\":true,\"max\":false},\"imports\":[\"a\"]}}");
	ck_assert_ptr_null(cbx_code_rules_frame(wide, without));
	cJSON_Delete(take_ptr(&without));
	without = cJSON_Parse("[\"dangerous_imports\"]");
	frame = cbx_code_rules_frame(wide, without);
	ck_assert_int_eq(cJSON_GetArraySize(frame), 4);
	cJSON_Delete(frame);
	cbx_policy_free(wide);
}
END_TEST

/* A value that is at most as loose as the limit. */
static bool within(enum cbx_key k, uint64_t value, uint64_t limit)
{
	return cbx_key_lower(k, value, limit) == value;
}

static void combine(enum cbx_key k, struct cbx_policy *wide, struct cbx_policy *tight, uint64_t wanted)
{
	const struct cbx_policy_value *a = &wide->values[k], *b = &tight->values[k], *v;
	struct cbx_policy *p = cbx_policy_narrow(wide, tight);
	uint64_t asked, standard;
	bool lowered = cbx_policy_settle(p, k, true, wanted, &asked);

	v = &p->values[k];
	cbx_policy_settle(p, k, false, 0, &standard);
	ck_assert_msg(within(k, v->ceiling, a->ceiling) && within(k, v->ceiling, b->ceiling) &&
			      within(k, v->standard, v->ceiling) && within(k, asked, v->ceiling) &&
			      within(k, asked, wanted) && within(k, standard, v->ceiling) && lowered == (asked != wanted),
		      "%s: %llu of %llu and %llu", cbx_keys[k].name, (unsigned long long)wanted,
		      (unsigned long long)a->ceiling, (unsigned long long)b->ceiling);
	cbx_policy_free(p);
}

/* Whatever two policies and a request say of a key: nobody gets more than any of the three, and the answer says so. */
START_TEST(nothing_widens)
{
	struct cbx_policy *wide = cbx_policy_new("w"), *tight = cbx_policy_new("t");

	for (enum cbx_key k = 0; k < CBX_KEYS; k++) {
		const struct cbx_key_info *i = &cbx_keys[k];
		const uint64_t values[] = { i->zero_is_none ? 0 : i->min, i->min, i->min + (i->max - i->min) / 3, i->max };

		for (size_t n = 0; n < 4 * 4 * 4 * 4 * 4; n++) {
			uint64_t a = values[n % 4], b = values[n / 16 % 4];

			wide->values[k].ceiling = a;
			wide->values[k].standard = cbx_key_lower(k, a, values[n / 4 % 4]);
			tight->values[k].ceiling = b;
			tight->values[k].standard = cbx_key_lower(k, b, values[n / 64 % 4]);
			combine(k, wide, tight, values[n / 256]);
		}
	}
	cbx_policy_free(wide);
	cbx_policy_free(tight);
}
END_TEST

/* Of each key: the schema is there, and what the formatter and the canonical form write is read again. */
START_TEST(keys)
{
	for (enum cbx_key k = 0; k < CBX_KEYS; k++) {
		const struct cbx_key_info *i = &cbx_keys[k];
		_cleanup_json_ cJSON *v = cbx_key_to_json(k, i->standard), *schema = cbx_key_schema_strict(k);
		_cleanup_buf_ struct cbx_buf text = { 0 };
		struct cbx_err err = { 0 };
		cJSON *again;
		uint64_t back;

		cbx_json_print(&text, v);
		again = cJSON_Parse(cbx_buf_str(&text));
		ck_assert_msg(cbx_key_parse(k, again, &back, &err) == 0, "%s: %s", i->name, err.msg);
		ck_assert_uint_eq(back, i->standard);
		cJSON_Delete(again);
		ck_assert_uint_eq(cbx_key_lower(k, i->standard, i->ceiling), i->standard);
		ck_assert(!k || !strcmp(i->group, cbx_keys[k - 1].group) || strcmp(i->group, cbx_keys[0].group));
		ck_assert_msg(strlen(i->text) > 5 && cJSON_IsObject(schema), "%s", i->name);
		for (enum cbx_key j = 0; j < k; j++)
			ck_assert_str_ne(i->name, cbx_keys[j].name);
	}
}
END_TEST

static void add(TCase *t)
{
	tcase_add_loop_test(t, every_fault, 0, sizeof(faults) / sizeof(faults[0]));
	tcase_add_test(t, deep_nesting_is_refused);
	tcase_add_test(t, variables_of_all_files);
	tcase_add_test(t, values_and_origins);
	tcase_add_test(t, parts_of_the_machine);
	tcase_add_test(t, includes);
	tcase_add_test(t, canonical_form);
	tcase_add_test(t, settling);
	tcase_add_test(t, images_in_the_making);
	tcase_add_test(t, narrowing);
	tcase_add_test(t, rules_for_code);
	tcase_add_test(t, nothing_widens);
	tcase_add_test(t, keys);
}

TEST_MAIN("policy", add)
