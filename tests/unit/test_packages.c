/* SPDX-License-Identifier: Apache-2.0 */
/* Names, versions and specifiers of Python packages, and rules about them. */
#include "packages/rules.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "policy/policy.h"
#include "unit_main.h"

static int sign(int v)
{
	return v < 0 ? -1 : v > 0;
}

static int compare(const char *a, const char *b)
{
	struct cbx_version v, w;

	ck_assert_msg(cbx_version_parse(a, strlen(a), &v), "%s", a);
	ck_assert_msg(cbx_version_parse(b, strlen(b), &w), "%s", b);
	return sign(cbx_version_compare(&v, &w));
}

START_TEST(names)
{
	char out[CBX_PROJECT_MAX];

	ck_assert(cbx_project_name("Foo._-Bar", 9, out));
	ck_assert_str_eq(out, "foo-bar");
	ck_assert(cbx_project_name("a", 1, out));
	for (const char *const *p = (const char *const[]){ "", "-a", "a-", "a b", "../a", "a/b", "\xc3\xa4", NULL }; *p; p++)
		ck_assert_msg(!cbx_project_name(*p, strlen(*p), out), "%s", *p);
}
END_TEST

START_TEST(order)
{
	/* Each is before the next. */
	static const char *const sorted[] = { "0",	   "1.0.dev1",	 "1.0a1.dev2", "1.0a1", "1.0a2", "1.0b1",
					      "1.0rc1",	   "1.0rc2",	 "1.0",	       "1.0+abc", "1.0+abc.2", "1.0+5",
					      "1.0.post1.dev3", "1.0.post1", "1.0.1",  "1.9",	"1.10",	 "20230101.1",
					      "1!0.1" };
	static const char *const same[][2] = { { "1.0", "1" },	  { "1.0", "v1.0.0" }, { "1.0-1", "1.0.post1" },
					       { "1.0alpha", "1.0a0" }, { "1.0RC1", "1.0-c.1" }, { "1.0.DEV", "1.0dev0" },
					       { "1+a-b", "1+A.B" } };

	for (size_t i = 0; i < ARRAY_SIZE(sorted); i++)
		for (size_t k = 0; k < ARRAY_SIZE(sorted); k++)
			ck_assert_msg(compare(sorted[i], sorted[k]) == sign((int)i - (int)k), "%s, %s", sorted[i], sorted[k]);
	for (size_t i = 0; i < ARRAY_SIZE(same); i++)
		ck_assert_msg(compare(same[i][0], same[i][1]) == 0, "%s, %s", same[i][0], same[i][1]);
}
END_TEST

START_TEST(no_versions)
{
	static const char *const bad[] = { "", "a", "1.", "1..2", "1.0x", "1.0+", "1.0+a..b", "1!", "1 .0", "-1",
					   "99999999999999999999999", "1.0.post1.post2", "1.2.3.4.5.6.7.8.9.0.1.2.3.4.5.6.7" };
	struct cbx_version v;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!cbx_version_parse(bad[i], strlen(bad[i]), &v), "%s", bad[i]);
}
END_TEST

START_TEST(specifiers)
{
	static const struct {
		const char *text, *version;
		bool holds;
	} cases[] = {
		{ "", "1", true },
		{ ">=1.2", "1.2", true },
		{ ">=1.2", "1.2rc1", false },
		{ ">= 1.2 , != 1.3.*", "1.3.7", false },
		{ ">=1.2,!=1.3.*", "1.4", true },
		{ "==1.0", "1.0.0", true },
		{ "==1.0", "1.0+local", true },
		{ "==1.0+local", "1.0", false },
		{ "==1.1.*", "1.10", false },
		{ "==1.1.*", "1.1.post1", true },
		{ "!=1.0", "1.0", false },
		{ "<2", "2.0rc1", false },
		{ "<2.0rc1", "2.0b1", true },
		{ "<2", "1.99", true },
		{ ">1.0", "1.0.post1", false },
		{ ">1.0", "1.0+local", false },
		{ ">1.0.post1", "1.0.post2", true },
		{ "~=1.4.2", "1.4.9", true },
		{ "~=1.4.2", "1.5", false },
		{ "~=2.2", "2.9", true },
		{ "<=1.0", "1.0+x", true },
		{ "===weird", "weird", true },
		{ "==1.0", "weird", false },
	};
	static const char *const bad[] = { "1.0", "=1", ">1.*", "~=1", ">=1+x", "==1..2", ">=", ">=1;2", ">=1 2" };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ck_assert_msg(cbx_specifiers_hold(cases[i].text, cases[i].version) == cases[i].holds, "%s, %s", cases[i].text,
			      cases[i].version);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!cbx_specifiers_valid(bad[i]), "%s", bad[i]);
}
END_TEST

#define SUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

START_TEST(requirements)
{
	static const struct {
		const char *text, *name, *specifiers, *kind;
	} cases[] = {
		{ "Polars", "polars", "", NULL },
		{ " httpx[http2, socks] >=0.27,<1", "httpx", ">=0.27,<1", NULL },
		{ "a_b (>=1)", "a-b", ">=1", NULL },
		{ "x; python_version < '3.12'", "x", "", NULL },
		{ "https://host/a.whl", NULL, NULL, "package_refused" },
		{ "a @ https://host/a.whl", NULL, NULL, "package_refused" },
		{ "A [b] @ https://host:8443/p/a-1-py3-none-any.whl#sha256=" SUM, "a", "", NULL },
		{ "a@https://host/a.whl#sha256=" SUM, "a", "", NULL },
		{ "a @ http://host/a.whl#sha256=" SUM, NULL, NULL, "package_refused" },
		{ "a @ https://me:word@host/a.whl#sha256=" SUM, NULL, NULL, "package_refused" },
		{ "a @ https://host/a.tar.gz#sha256=" SUM, NULL, NULL, "package_refused" },
		{ "a @ https://host/a.whl?x#sha256=" SUM, NULL, NULL, "package_refused" },
		{ "a @ https://host/a.whl#sha256=" SUM " ; x", NULL, NULL, "package_refused" },
		{ "a @ https://host/a.whl#sha256=" SUM "0", NULL, NULL, "package_refused" },
		{ "a @ https:///a.whl#sha256=" SUM, NULL, NULL, "package_refused" },
		{ "git+https://host/a", NULL, NULL, "package_refused" },
		{ "./a", NULL, NULL, "package_refused" },
		{ "/tmp/a.whl", NULL, NULL, "package_refused" },
		{ "a-1-py3-none-any.whl", NULL, NULL, "package_refused" },
		{ "--index-url=x", NULL, NULL, "package_refused" },
		{ "-r", NULL, NULL, "package_refused" },
		{ "", NULL, NULL, "invalid_argument" },
		{ "a b", NULL, NULL, "invalid_argument" },
		{ "a\nb", NULL, NULL, "invalid_argument" },
		{ "a[b", NULL, NULL, "invalid_argument" },
		{ "a=1", NULL, NULL, "invalid_argument" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cbx_requirement q;
		struct cbx_err err = { 0 };
		int r = cbx_requirement_parse(cases[i].text, &q, &err);

		if (cases[i].kind) {
			ck_assert_msg(r < 0, "%s", cases[i].text);
			ck_assert_str_eq(err.kind, cases[i].kind);
			continue;
		}
		ck_assert_msg(r == 0, "%s: %s", cases[i].text, err.msg);
		ck_assert_str_eq(q.name, cases[i].name);
		ck_assert_str_eq(q.specifiers, cases[i].specifiers);
	}
}
END_TEST

/* ---- answers of a resolver ---- */

#define SUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ENTRY(name, version, via)                                                                                  \
	"{\"name\":\"" name "\",\"version\":\"" version "\",\"file\":\"" name "-" version                             \
	"-py3-none-any.whl\",\"url\":\"https://host/x\",\"sha256\":\"" SUM "\",\"size\":1000,\"via\":[" via "]}"

static int read_lock(const char *packages, struct cbx_lock *lock, struct cbx_err *err)
{
	_cleanup_free_ char *text = cbx_xasprintf("{\"packages\":[%s]}", packages);
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };

	ck_assert_int_eq(cbx_json_parse(text, strlen(text), &doc, err), 0);
	return cbx_lock_read(doc.root, lock, err);
}

START_TEST(hostile_answers)
{
	static const char *const bad[] = {
		"1",
		"{}",
		ENTRY("a", "1", "") "," ENTRY("a", "1", ""),
		ENTRY("../a", "1", ""),
		ENTRY("a", "1", "\"../b\""),
		ENTRY("a", "1", "7"),
		"{\"name\":\"a\",\"version\":\"1\",\"file\":\"b-1-py3-none-any.whl\",\"url\":\"https://h/x\",\"sha256\":\"" SUM "\"}",
		"{\"name\":\"a\",\"version\":\"1\",\"file\":\"a-2-py3-none-any.whl\",\"url\":\"https://h/x\",\"sha256\":\"" SUM "\"}",
		"{\"name\":\"a\",\"version\":\"1\",\"file\":\"a-1.tar.gz\",\"url\":\"https://h/x\",\"sha256\":\"" SUM "\"}",
		"{\"name\":\"a\",\"version\":\"1\",\"file\":\"a-1-py3-none-/../x.whl\",\"url\":\"https://h/x\",\"sha256\":\"" SUM "\"}",
		"{\"name\":\"a\",\"version\":\"1\",\"file\":\"a-1-py3-none-any.whl\",\"url\":\"ftp://h/x\",\"sha256\":\"" SUM "\"}",
		"{\"name\":\"a\",\"version\":\"1\",\"file\":\"a-1-py3-none-any.whl\",\"url\":\"https://h/x\",\"sha256\":\"../x\"}",
		"{\"name\":\"a\",\"version\":\"1\",\"file\":\"a-1-py3-none-any.whl\",\"url\":\"https://h/x\"}",
	};
	struct cbx_lock lock;
	struct cbx_err err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ck_assert_msg(read_lock(bad[i], &lock, &err) < 0, "%s", bad[i]);
		ck_assert_str_eq(err.kind, "invalid_lock");
	}
}
END_TEST

static struct cbx_policy *policy(const char *packages)
{
	_cleanup_free_ char *text = cbx_xasprintf("{\"packages\":%s}", packages);
	struct cbx_policy *p = NULL;
	struct cbx_err err;

	ck_assert_msg(cbx_policy_parse(text, strlen(text), "p", "p", NULL, NULL, &p, &err) == 0, "%s: %s", packages, err.msg);
	return p;
}

START_TEST(judged)
{
	static const struct {
		const char *rules, *says; /* NULL: it may be installed */
	} cases[] = {
		{ "{}", NULL },
		{ "{\"block\":[\"d\"]}", "d 2.0 is blocked by the policy (block: \"d\"); it is needed by a → b → c → d" },
		{ "{\"block\":[\"D<2\"]}", NULL },
		{ "{\"block\":[\"d==2\"]}", "block: \"d==2\"" },
		{ "{\"allow\":[\"a\",\"d>=2\"]}", NULL },
		{ "{\"allow\":[\"a\"]}", "d 2.0 is not among the packages that the policy allows (allow)" },
		{ "{\"allow\":[]}", "a 1.0 is not among" },
		{ "{\"allow\":[\"a\",\"d<2\",\"d>=3\"]}", "not a version that the policy allows (allow: \"d<2\", \"d>=3\")" },
		{ "{\"versions\":[\"a>=1\",\"other==7\"]}", NULL },
		{ "{\"versions\":[\"a>1\"]}", "a 1.0 is not a version that the policy allows (versions: \"a>1\"); ask" },
	};
	struct cbx_lock lock;
	struct cbx_err err;

	ck_assert_int_eq(read_lock(ENTRY("a", "1.0", "") "," ENTRY("d", "2.0", "\"a\",\"b\",\"c\""), &lock, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cbx_policy *p = policy(cases[i].rules);
		int r = cbx_lock_judge(&lock, &p->packages, 0, &err);

		ck_assert_msg((r == 0) == !cases[i].says, "%s: %s", cases[i].rules, r ? err.msg : "");
		ck_assert_msg(!r || strstr(err.msg, cases[i].says), "%s: %s", cases[i].rules, err.msg);
		cbx_policy_free(p);
	}
	ck_assert_int_eq(cbx_lock_judge(&lock, &(struct cbx_package_rules){ 0 }, 2000, &err), 0);
	ck_assert_int_lt(cbx_lock_judge(&lock, &(struct cbx_package_rules){ 0 }, 1999, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "install_size"));
	cbx_lock_release(&lock);
}
END_TEST

START_TEST(policies)
{
	static const char *const bad[] = {
		"[]",
		"{\"allow\":\"a\"}",
		"{\"allow\":[\"a @ https://h/x\"]}",
		"{\"block\":[\"a[b]\"]}",
		"{\"versions\":[\"a;x\"]}",
		"{\"index\":\"ftp://x\"}",
		"{\"index\":\"https://user:secret@host/simple\"}",
		"{\"index\":\"relative\"}",
		"{\"install\":1}",
		"{\"install\":{\"default\":true}}",
		"{\"install_size\":\"1K\"}",
		"{\"install_size\":\"65G\"}",
		"{\"urls\":\"yes\"}",
		"{\"cache\":\"1K\"}",
		"{\"cache\":\"1025G\"}",
		"{\"advisories\":\"/a\"}",
		"{\"advisories\":[\"a\"]}",
		"{\"advisories\":[\"/a/../b\"]}",
		"{\"advisories\":[\"/1\",\"/2\",\"/3\",\"/4\",\"/5\",\"/6\",\"/7\",\"/8\",\"/9\"]}",
		"{\"on_advisory\":\"ignore\"}",
		"{\"unknown\":1}"
	};
	struct cbx_policy *p, *q;
	struct cbx_err err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_free_ char *text = cbx_xasprintf("{\"packages\":%s}", bad[i]);

		ck_assert_msg(cbx_policy_parse(text, strlen(text), "p", "p", NULL, NULL, &p, &err) < 0, "%s", bad[i]);
	}
	p = policy("{\"index\":\"https://host/simple\",\"allow\":[\"A.b >= 1\"],\"install\":false,"
		   "\"advisories\":[\"/a/b\",\"/c\"],\"on_advisory\":\"warn\"}");
	ck_assert_uint_eq(p->nadvisories, 2);
	ck_assert_uint_eq(p->values[CBX_KEY_ON_ADVISORY].ceiling, CBX_ADVISORY_WARN);
	ck_assert_str_eq(p->index, "https://host/simple/");
	ck_assert_str_eq(p->packages.allow.all[0].name, "a-b");
	ck_assert_uint_eq(p->values[CBX_KEY_INSTALL].ceiling, 0);
	{ /* the canonical form says the same */
		_cleanup_json_ cJSON *o = cbx_policy_to_json(p);
		_cleanup_buf_ struct cbx_buf text = { 0 };

		cbx_json_print(&text, o);
		ck_assert_int_eq(cbx_policy_parse(text.data, text.len, "q", "q", NULL, NULL, &q, &err), 0);
		ck_assert_str_eq(p->digest, q->digest);
		cbx_policy_free(q);
	}
	cbx_policy_free(p);
}
END_TEST

START_TEST(the_lower_of_two)
{
	struct cbx_policy *a = policy("{\"allow\":[\"x>=1\",\"y\"],\"block\":[\"b\"],\"advisories\":[\"/"
				      "a\"],\"on_advisory\":\"warn\"}"),
			  *b = policy("{\"allow\":[\"x<2\",\"z\"],\"versions\":[\"v==1\"],\"install\":false,"
				      "\"advisories\":[\"/b\",\"/a\"]}"),
			  *c = policy("{}"), *both = cbx_policy_narrow(a, b), *one = cbx_policy_narrow(c, b);

	ck_assert(both->packages.only);
	ck_assert_uint_eq(both->packages.allow.n, 1);
	ck_assert_str_eq(both->packages.allow.all[0].specifiers, ">=1,<2");
	ck_assert_uint_eq(both->packages.block.n, 1);
	ck_assert_uint_eq(both->packages.versions.n, 1);
	ck_assert_uint_eq(both->nadvisories, 2);
	ck_assert_uint_eq(both->values[CBX_KEY_ON_ADVISORY].ceiling, CBX_ADVISORY_REFUSE);
	ck_assert_uint_eq(both->values[CBX_KEY_INSTALL].ceiling, 0);
	ck_assert(one->packages.only);
	ck_assert_uint_eq(one->packages.allow.n, 2);
	for (struct cbx_policy **p = (struct cbx_policy *[]){ a, b, c, both, one, NULL }; *p; p++)
		cbx_policy_free(*p);
}
END_TEST

START_TEST(too_many_rules)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_policy *p;
	struct cbx_err err;

	cbx_buf_adds(&text, "{\"packages\":{\"block\":[");
	for (int i = 0; i <= CBX_POLICY_PACKAGES_MAX; i++)
		cbx_buf_addf(&text, "%s\"p%d\"", i ? "," : "", i);
	cbx_buf_adds(&text, "]}}");
	ck_assert_int_lt(cbx_policy_parse(text.data, text.len, "p", "p", NULL, NULL, &p, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "too many"));
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, names);
	tcase_add_test(t, order);
	tcase_add_test(t, no_versions);
	tcase_add_test(t, specifiers);
	tcase_add_test(t, requirements);
	tcase_add_test(t, hostile_answers);
	tcase_add_test(t, judged);
	tcase_add_test(t, policies);
	tcase_add_test(t, the_lower_of_two);
	tcase_add_test(t, too_many_rules);
}

TEST_MAIN("packages", add)
