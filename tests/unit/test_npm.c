/* SPDX-License-Identifier: Apache-2.0 */
/* Names, versions and ranges of npm packages, what a resolver says of them, and rules about them. */
#include "packages/npm.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/policy.h"
#include "unit_main.h"

START_TEST(names)
{
	static const char *const good[] = { "a", "lodash", "JSONStream", "@types/node", "a.b-c_d", "@a-b/c.d", "7zip" };
	static const char *const bad[] = { "",	      "@",   "@a",	     "@a/",	    "@/a",   "a/b",
					   "@a/b/c",  ".a",  "_a",	     "../a",	    "@../a", "@a/..",
					   "a b",     "a\n", "node_modules", "favicon.ico", "a@b",   "a:b",
					   "\xc3\xa4" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		ck_assert_msg(cbx_npm_name(good[i], strlen(good[i])), "%s", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!cbx_npm_name(bad[i], strlen(bad[i])), "%s", bad[i]);
}
END_TEST

static int compare(const char *a, const char *b)
{
	struct cbx_semver v, w;
	int r;

	ck_assert_msg(cbx_semver_parse(a, strlen(a), &v), "%s", a);
	ck_assert_msg(cbx_semver_parse(b, strlen(b), &w), "%s", b);
	r = cbx_semver_compare(&v, &w);
	return (r > 0) - (r < 0);
}

START_TEST(order)
{
	static const char *const sorted[] = { "0.0.0-0",      "0.0.0",	       "1.0.0-2",	"1.0.0-10",
					      "1.0.0-alpha",  "1.0.0-alpha.1", "1.0.0-alpha.b", "1.0.0-beta",
					      "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc",	"1.0.0",
					      "1.0.10",	      "1.2.0",	       "10.0.0" };
	static const char *const bad[] = { "",	     "1",      "1.2",	   "1.2.3.4",
					   "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3-a..b",
					   "v1.2.3", "1.2.x",  "1.2.3 ",   "1234567890123456.0.0",
					   "1.-2.3" };
	struct cbx_semver v;
	char text[406];

	for (size_t i = 0; i < ARRAY_SIZE(sorted); i++)
		for (size_t k = 0; k < ARRAY_SIZE(sorted); k++)
			ck_assert_msg(compare(sorted[i], sorted[k]) == (i > k) - (i < k), "%s, %s", sorted[i],
				      sorted[k]);
	ck_assert_int_eq(compare("1.2.3+build.5", "1.2.3"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!cbx_semver_parse(bad[i], strlen(bad[i]), &v), "%s", bad[i]);
	/* What is dropped of a version is bounded, too. */
	memset(text, 'a', sizeof(text));
	memcpy(text, "1.2.3+", 6);
	ck_assert(cbx_semver_parse(text, CBX_SEMVER_MAX - 1, &v));
	ck_assert(!cbx_semver_parse(text, CBX_SEMVER_MAX, &v));
	ck_assert(!cbx_semver_parse(text, sizeof(text), &v));
}
END_TEST

START_TEST(ranges)
{
	/* What is in a range, and what is not: what `semver` of npm says. */
	static const struct {
		const char *range, *in[4], *out[5];
	} rows[] = {
		{ "", { "0.0.0", "7.1.2" }, { "1.0.0-beta" } },
		{ "*", { "7.1.2" }, { "1.0.0-beta" } },
		{ "1.2.3", { "1.2.3" }, { "1.2.4", "1.2.3-a" } },
		{ "=1.2.3", { "1.2.3" }, { "1.2.2" } },
		{ "v1.2.3", { "1.2.3" }, { "1.2.2" } },
		{ "^1.2.3", { "1.2.3", "1.9.0" }, { "1.2.2", "2.0.0", "2.0.0-a", "1.3.0-a" } },
		{ "^0.2.3", { "0.2.3", "0.2.9" }, { "0.2.2", "0.3.0" } },
		{ "^0.0.3", { "0.0.3" }, { "0.0.4", "0.1.0" } },
		{ "^0.0", { "0.0.9" }, { "0.1.0" } },
		{ "^0.x", { "0.9.9" }, { "1.0.0" } },
		{ "^1.x", { "1.0.0", "1.9.9" }, { "2.0.0" } },
		{ "^1.2.3-beta.2", { "1.2.3-beta.4", "1.9.0" }, { "1.2.3-beta.1", "1.2.4-beta.2", "2.0.0" } },
		{ "~1.2.3", { "1.2.3", "1.2.9" }, { "1.3.0", "1.2.2" } },
		{ "~1.2", { "1.2.0" }, { "1.3.0" } },
		{ "~>1", { "1.9.0" }, { "2.0.0" } },
		{ "1.x", { "1.0.0", "1.9.9" }, { "2.0.0", "0.9.9" } },
		{ "1.2.*", { "1.2.9" }, { "1.3.0" } },
		{ "1", { "1.5.0" }, { "2.0.0" } },
		{ ">1.2", { "1.3.0" }, { "1.2.9" } },
		{ ">1", { "2.0.0" }, { "1.9.9" } },
		{ ">=1.2", { "1.2.0", "3.0.0" }, { "1.1.9" } },
		{ "<1.2", { "1.1.9" }, { "1.2.0", "1.2.0-a" } },
		{ "<=1.2", { "1.2.9" }, { "1.3.0" } },
		{ "<*", { NULL }, { "0.0.0", "1.0.0" } },
		{ ">= 1.2.3 < 2", { "1.5.0" }, { "2.0.0", "1.2.2" } },
		{ "1.2.3 - 2.3.4", { "1.2.3", "2.3.4" }, { "1.2.2", "2.3.5" } },
		{ "1.2 - 2", { "1.2.0", "2.9.9" }, { "3.0.0", "1.1.9" } },
		{ "^1 || >=3.1 <4", { "1.5.0", "3.1.0" }, { "2.0.0", "3.0.9", "4.0.0" } },
		{ " ^1.0.0 ||  ", { "9.0.0" }, { "1.0.0-a" } },
	};
	static const char *const bad[] = { "a",	  "latest",  "1.2.3.4", ">",   "^",	    ">>1",    "1 -", "- 1",
					   "1,2", "^1 | ^2", "1.2.3a",	"=>1", "1 - 2 - 3", "^1 - 2", "\n" };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ck_assert_msg(cbx_semver_range_valid(rows[i].range), "%s", rows[i].range);
		for (size_t k = 0; k < ARRAY_SIZE(rows[i].in) && rows[i].in[k]; k++)
			ck_assert_msg(cbx_semver_holds(rows[i].range, rows[i].in[k], false), "%s: %s", rows[i].range,
				      rows[i].in[k]);
		for (size_t k = 0; k < ARRAY_SIZE(rows[i].out) && rows[i].out[k]; k++)
			ck_assert_msg(!cbx_semver_holds(rows[i].range, rows[i].out[k], false), "%s: %s", rows[i].range,
				      rows[i].out[k]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!cbx_semver_range_valid(bad[i]), "%s", bad[i]);
	ck_assert(cbx_semver_holds("<2", "1.5.0-beta", true));
	ck_assert(!cbx_semver_holds("<2", "2.0.0", true));
}
END_TEST

START_TEST(requirements)
{
	static const struct {
		const char *text, *name, *specifiers, *kind;
	} cases[] = {
		{ "npm:lodash", "npm:lodash", "", NULL },
		{ "npm:lodash@^4 || 5", "npm:lodash", "@^4 || 5", NULL },
		{ "npm:@types/node@20", "npm:@types/node", "@20", NULL },
		{ "npm:lodash@next", "npm:lodash", "@next", NULL },
		{ "npm:-g", NULL, NULL, "package_refused" },
		{ "npm:https://h/x", NULL, NULL, "package_refused" },
		{ "npm:a@git+ssh://h/x", NULL, NULL, "package_refused" },
		{ "npm:a@npm:b", NULL, NULL, "package_refused" },
		{ "npm:user/repository", NULL, NULL, "package_refused" },
		{ "npm:../a", NULL, NULL, "package_refused" },
		{ "npm:a.tgz", NULL, NULL, "package_refused" },
		{ "npm:a.tgz@", NULL, NULL, "package_refused" },
		{ "npm:a@user/repository", NULL, NULL, "package_refused" },
		{ "npm:", NULL, NULL, "invalid_argument" },
		{ "npm:@a", NULL, NULL, "invalid_argument" },
		{ "npm:a b", NULL, NULL, "invalid_argument" },
		{ "npm:a@=>1", NULL, NULL, "invalid_argument" },
		{ "npm:a@1,@2", NULL, NULL, "invalid_argument" },
	};
	struct cbx_requirement q;
	struct cbx_err err;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r;

		memset(&q, 0xff, sizeof(q)); /* all of it is set */
		r = cbx_requirement_parse(cases[i].text, &q, &err);
		ck_assert_msg(r < 0 || !q.address, "%s is not an address", cases[i].text);
		ck_assert_msg((r < 0) == (cases[i].kind != NULL), "%s", cases[i].text);
		ck_assert_str_eq(r < 0 ? err.kind : q.name, r < 0 ? cases[i].kind : cases[i].name);
		ck_assert_msg(r < 0 || strcmp(q.specifiers, cases[i].specifiers) == 0, "%s: %s", cases[i].text,
			      q.specifiers);
	}
	ck_assert_int_lt(cbx_requirement_rule("npm:a@next", &q, &err), 0);
	ck_assert_int_eq(cbx_requirement_rule("npm:a@^1,@<1.5", &q, &err), 0);
	ck_assert(cbx_npm_holds(q.specifiers, "1.4.0", false) && !cbx_npm_holds(q.specifiers, "1.5.0", false));
}
END_TEST

/* ---- answers of a resolver, and what is judged ---- */

#define SUM16 "0123456789abcdef"
#define SUM64 SUM16 SUM16 SUM16 SUM16
#define SUM   SUM64 SUM64
#define ENTRY(name, version, place, sum, via)                                                                          \
	"{\"name\":\"npm:" name "\",\"version\":\"" version "\",\"place\":\"" place                                    \
	"\",\"url\":\"https://host/x\",\"sha512\":\"" sum "\",\"size\":1000,\"via\":[" via "]}"
#define WHEEL                                                                                                          \
	"{\"name\":\"w\",\"version\":\"1\",\"file\":\"w-1-py3-none-any.whl\",\"url\":\"https://host/"                  \
	"x\",\"sha256\":\"" SUM64 "\"}"

static int read_lock(const char *packages, struct cbx_lock *lock, struct cbx_err *err)
{
	_cleanup_free_ char *text = cbx_xasprintf("{\"packages\":[%s]}", packages);
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };

	ck_assert_int_eq(cbx_json_parse(text, strlen(text), &doc, err), 0);
	return cbx_lock_read(doc.root, lock, err);
}

START_TEST(answers)
{
	static const char *const bad[] = {
		ENTRY("../a", "1.0.0", "node_modules/a", SUM, ""),
		ENTRY("a", "1.0", "node_modules/a", SUM, ""),
		ENTRY("a", "1.0.0", "a", SUM, ""),
		ENTRY("a", "1.0.0", "", SUM, ""),
		ENTRY("a", "1.0.0", "node_modules/", SUM, ""),
		ENTRY("a", "1.0.0", "node_modules/..", SUM, ""),
		ENTRY("a", "1.0.0", "/node_modules/a", SUM, ""),
		ENTRY("a", "1.0.0", "node_modules/a/b", SUM, ""),
		ENTRY("a", "1.0.0", "node_modules/a/node_modules", SUM, ""),
		ENTRY("a", "1.0.0", "node_modules/.bin/x", SUM, ""),
		ENTRY("a", "1.0.0", "node_modules/@a", SUM, ""),
		ENTRY("a", "1.0.0", "node_modules/@a/../node_modules/b", SUM, ""),
		ENTRY("a", "1.0.0", "node_modules/a", SUM64, ""),
		ENTRY("a", "1.0.0", "node_modules/a", SUM, "\"../b\""),
		ENTRY("a", "1.0.0", "node_modules/a", SUM, "") "," ENTRY("b", "1.0.0", "node_modules/a", SUM, ""),
		ENTRY("a", "1.0.0", "node_modules/a", SUM, "") "," WHEEL,
	};
	struct cbx_lock lock;
	struct cbx_err err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ck_assert_msg(read_lock(bad[i], &lock, &err) < 0, "%s", bad[i]);
		ck_assert_str_eq(err.kind, "invalid_lock");
	}
	ck_assert_int_eq(read_lock(ENTRY("@a/b", "1.0.0", "node_modules/x/node_modules/@a/b", SUM, ""), &lock, &err),
			 0);
	ck_assert_str_eq(lock.wheels[0].file, "b-1.0.0.tgz");
	ck_assert_str_eq(lock.wheels[0].sum, SUM);
	cbx_lock_release(&lock);
}
END_TEST

START_TEST(judged)
{
	static const struct {
		const char *rules, *says; /* NULL: it may be installed */
	} cases[] = {
		{ "{}", NULL },
		{ "{\"block\":[\"d\",\"npm:e\"]}", NULL },
		{ "{\"block\":[\"npm:d\"]}",
		  "npm:d 2.0.0-rc.1 is blocked by the policy (block: \"npm:d\"); it is needed by @s/a → d" },
		{ "{\"block\":[\"npm:d@<3\"]}", "block: \"npm:d@<3\"" },
		{ "{\"block\":[\"npm:d@<2.0.0-beta\"]}", NULL },
		{ "{\"allow\":[\"npm:@s/a\",\"npm:d@2.0.0-rc.1\"]}", NULL },
		{ "{\"allow\":[\"npm:@s/a\",\"npm:d@>=1\"]}",
		  "not a version that the policy allows (allow: \"npm:d@>=1\")" },
		{ "{\"allow\":[\"d\"]}", "npm:@s/a 1.0.0 is not among the packages" },
		{ "{\"versions\":[\"npm:@s/a@^1\",\"d==7\"]}", NULL },
		{ "{\"versions\":[\"npm:@s/a@^2\"]}", "npm:@s/a 1.0.0 is not a version that the policy allows" },
	};
	struct cbx_lock lock;
	struct cbx_err err;

	ck_assert_int_eq(read_lock(ENTRY("@s/a", "1.0.0", "node_modules/@s/a", SUM,
					 "") "," ENTRY("d", "2.0.0-rc.1", "node_modules/d", SUM, "\"@s/a\""),
				   &lock, &err),
			 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *text = cbx_xasprintf("{\"packages\":%s}", cases[i].rules);
		struct cbx_policy *p = NULL;
		int r = cbx_policy_parse(text, strlen(text), "p", "p", NULL, NULL, &p, &err);

		ck_assert_msg(r == 0, "%s: %s", cases[i].rules, err.msg);
		r = cbx_lock_judge(&lock, &p->packages, 0, &err);
		ck_assert_msg((r == 0) == !cases[i].says, "%s: %s", cases[i].rules, r ? err.msg : "");
		ck_assert_msg(!r || strstr(err.msg, cases[i].says), "%s: %s", cases[i].rules, err.msg);
		cbx_policy_free(p);
	}
	cbx_lock_release(&lock);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, names);
	tcase_add_test(t, order);
	tcase_add_test(t, ranges);
	tcase_add_test(t, requirements);
	tcase_add_test(t, answers);
	tcase_add_test(t, judged);
}

TEST_MAIN("npm", add_tests)
