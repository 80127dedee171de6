/* SPDX-License-Identifier: Apache-2.0 */
/* Names, versions and channels of conda, what a resolver says of its packages, and rules about them. */
#include "packages/conda.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "packages/kind.h"
#include "policy/policy.h"
#include "unit_main.h"

START_TEST(names)
{
	static const char *const good[] = { "a",   "numpy", "_libgcc_mutex", "r-base", "libstdcxx-ng", "zope.interface",
					    "7zip" };
	static const char *const bad[] = { "", ".a", "-a", "A", "a b", "a/b", "a\n", "a:b", "\xc3\xa4", "a=b", "__g*" };
	char text[200];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		ck_assert_msg(cbx_conda_name(good[i], strlen(good[i])), "%s", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!cbx_conda_name(bad[i], strlen(bad[i])), "%s", bad[i]);
	memset(text, 'a', sizeof(text));
	ck_assert(!cbx_conda_name(text, sizeof(text)));
	ck_assert_int_eq(cbx_kind_of("conda:a"), CBX_KIND_CONDA);
	ck_assert_int_eq(cbx_kind_of("npm:a"), CBX_KIND_NPM);
	ck_assert_int_eq(cbx_kind_of("conda"), CBX_KIND_PYTHON);
	ck_assert_str_eq(cbx_kind_bare("conda:a"), "a");
	ck_assert_str_eq(cbx_kind_bare("npm:@a/b"), "@a/b");
	ck_assert_str_eq(cbx_kind_bare("conda"), "conda");
}
END_TEST

static int compare(const char *a, const char *b)
{
	struct cbx_conda_version v, w;
	int r;

	ck_assert_msg(cbx_conda_version_parse(a, strlen(a), &v), "%s", a);
	ck_assert_msg(cbx_conda_version_parse(b, strlen(b), &w), "%s", b);
	r = cbx_conda_version_compare(&v, &w);
	return (r > 0) - (r < 0);
}

START_TEST(order)
{
	static const char *const sorted[] = { "0.4",	 "0.4.1.rc",  "0.4.1",	   "0.5a1", "0.5b3",	  "0.5c1",
					      "0.5",	 "0.9.6",     "0.960923",  "1.0",   "1.1dev1",	  "1.1_",
					      "1.1a1",	 "1.1.0dev1", "1.1.0.rc1", "1.1.0", "1.1.0post1", "1996.07.12",
					      "1!0.4.1", "1!3.1.1.6", "2!0.4.1" };
	static const char *const same[][2] = { { "0.4", "0.4.0" },	    { "0.4.1.rc", "0.4.1.RC" },
					       { "1.1.0dev1", "1.1.dev1" }, { "1.1.0post1", "1.1.post1" },
					       { "1.1-1", "1.1_1" },	    { "0!1", "1" } };
	static const char *const bad[] = { "",	       "1 2", "1..2",  ".1",  "1.",
					   "1_x-2",    "a!1", "1!2!3", "!1",  "1+",
					   "1++2",     "*",   "1.*",   "1/2", "1234567890123456789",
					   "\xc3\xa4", "1\n" };
	struct cbx_conda_version v;
	char text[300];

	for (size_t i = 0; i < ARRAY_SIZE(sorted); i++)
		for (size_t k = 0; k < ARRAY_SIZE(sorted); k++)
			ck_assert_msg(compare(sorted[i], sorted[k]) == (i > k) - (i < k), "%s, %s", sorted[i],
				      sorted[k]);
	for (size_t i = 0; i < ARRAY_SIZE(same); i++)
		ck_assert_msg(compare(same[i][0], same[i][1]) == 0, "%s, %s", same[i][0], same[i][1]);
	ck_assert_int_eq(compare("1.0", "1.0+1"), -1);
	ck_assert_int_eq(compare("1.0", "1.0+a"), 1); /* letters come before what is missing */
	ck_assert_int_eq(compare("1.0+a.2", "1.0+a.10"), -1);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!cbx_conda_version_parse(bad[i], strlen(bad[i]), &v), "%s", bad[i]);
	for (size_t i = 0; i + 1 < sizeof(text); i++)
		text[i] = i % 2 ? '.' : '1';
	text[sizeof(text) - 1] = '\0';
	ck_assert(!cbx_conda_version_parse(text, strlen(text), &v));
	ck_assert(!cbx_conda_version_parse(text, CBX_VERSION_MAX, &v));
	ck_assert(!cbx_conda_version_parse("1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a", 68,
					   &v));
}
END_TEST

START_TEST(what_is_said_of_versions)
{
	static const struct {
		const char *spec, *in[5], *out[5];
	} rows[] = {
		{ "", { "1", "0.1dev" }, { NULL } },
		{ "*", { "1" }, { NULL } },
		{ "==1.2", { "1.2", "1.2.0" }, { "1.2.1", "1.2rc1" } },
		{ "1.2", { "1.2" }, { "1.2.1" } },
		{ "=1.2", { "1.2", "1.2.3", "1.2rc1" }, { "1.20", "1.3", "1" } },
		{ "1.2.*", { "1.2", "1.2.3" }, { "1.20" } },
		{ "1.2*", { "1.2", "1.2.3" }, { "1.3" } },
		{ "=1.2.*", { "1.2.9" }, { "1.3" } },
		{ "==1.2.*", { "1.2.9" }, { "1.3" } },
		{ "!=1.2", { "1.2.1" }, { "1.2", "1.2.0" } },
		{ "!=1.2.*", { "1.3" }, { "1.2", "1.2.9" } },
		{ ">=1.2,<2", { "1.2", "1.99" }, { "1.1", "2", "2.0.1" } },
		{ ">1.2 , <=2.0", { "1.2.1", "2" }, { "1.2", "2.0.1" } },
		{ ">=2.0.*", { "2.0" }, { "1.9" } },
		{ "~=1.2.3", { "1.2.3", "1.2.9" }, { "1.2.2", "1.3", "2" } },
		{ "~=1.2", { "1.2", "1.9" }, { "2.0", "1.1" } },
		{ "1.2.*|>=3,<4", { "1.2.1", "3.5" }, { "2", "4" } },
		{ "=1!2", { "1!2.1" }, { "2.1" } },
		{ "=1.2+cuda", { "1.2+cuda", "1.2+cuda12" }, { "1.2", "1.2+cpu" } },
		{ "<3.0", { "3.0a1", "3.0dev" }, { "3.0.0" } },
		{ "=2023b", { "2023b" }, { "2023c", "2023" } },
	};
	static const char *const bad[] = { "x y",  ">=",    "=>1",     "1.2,", ",1",  "|",
					   "1||2", "^1.0$", "~=1.2.*", "(1)",  "1;2", ">=*" };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ck_assert_msg(cbx_conda_spec_valid(rows[i].spec), "%s", rows[i].spec);
		for (size_t k = 0; k < ARRAY_SIZE(rows[i].in) && rows[i].in[k]; k++)
			ck_assert_msg(cbx_conda_spec_holds(rows[i].spec, rows[i].in[k]), "%s %s", rows[i].spec,
				      rows[i].in[k]);
		for (size_t k = 0; k < ARRAY_SIZE(rows[i].out) && rows[i].out[k]; k++)
			ck_assert_msg(!cbx_conda_spec_holds(rows[i].spec, rows[i].out[k]), "%s %s", rows[i].spec,
				      rows[i].out[k]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ck_assert_msg(!cbx_conda_spec_valid(bad[i]), "%s", bad[i]);
		ck_assert_msg(!cbx_conda_spec_holds(bad[i], "1.2"), "%s", bad[i]);
	}
	ck_assert(!cbx_conda_spec_holds(">=1", "not a version"));
}
END_TEST

START_TEST(requirements)
{
	static const struct {
		const char *text, *name, *specifiers;
		bool rule;
	} good[] = {
		{ "conda:numpy", "conda:numpy", "", true },
		{ "conda:NumPy>=1.26", "conda:numpy", ">=1.26", true },
		{ "conda:numpy =1.26", "conda:numpy", "=1.26", true },
		{ "conda:numpy 1.26.*", "conda:numpy", "=1.26.*", true },
		{ "conda:numpy 1.26", "conda:numpy", "==1.26", true },
		{ "conda:_openmp_mutex>=4,<5", "conda:_openmp_mutex", ">=4,<5", true },
		{ "conda:blas=*=openblas", "conda:blas", "=*=openblas", false },
		{ "conda:numpy==1.26.4=py311h64a7726_0", "conda:numpy", "==1.26.4=py311h64a7726_0", false },
		{ "conda:numpy=1.26|2", "conda:numpy", "=1.26|2", false },
	};
	static const char *const bad[] = { "conda:",
					   "conda:-c",
					   "conda:a b c",
					   "conda:conda-forge::a",
					   "conda:https://h/a",
					   "conda:/tmp/a.conda",
					   "conda:a-1-0.tar.bz2",
					   "conda:a[build=0]",
					   "conda:a>=1;x",
					   "conda:a\n",
					   "conda:a@1",
					   "conda:a=1=b=c",
					   "conda:a=1=$(x)",
					   "conda:*" };
	struct cbx_requirement q;
	struct cbx_err err;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		ck_assert_msg(cbx_requirement_parse(good[i].text, &q, &err) == 0, "%s: %s", good[i].text, err.msg);
		ck_assert_str_eq(q.name, good[i].name);
		ck_assert_str_eq(q.specifiers, good[i].specifiers);
		ck_assert_msg((cbx_requirement_rule(good[i].text, &q, &err) == 0) == good[i].rule, "%s", good[i].text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(cbx_requirement_parse(bad[i], &q, &err) < 0, "%s", bad[i]);
}
END_TEST

#define SUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PACKAGE_JSON(name, version, more)                                                                              \
	"{\"name\":\"conda:" name "\",\"version\":\"" version "\",\"build\":\"h1_0\",\"subdir\":\"linux-64\","         \
	"\"file\":\"" name "-" version "-h1_0.conda\",\"url\":\"https://c/x/linux-64/" name "-" version                \
	"-h1_0.conda\",\"sha256\":\"" SUM "\",\"size\":10" more "}"

static int read_lock(const char *packages, struct cbx_lock *lock, struct cbx_err *err)
{
	_cleanup_free_ char *text = cbx_xasprintf("{\"packages\":[%s]}", packages);
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };

	ck_assert_msg(cbx_json_parse(text, strlen(text), &doc, err) == 0, "%s", text);
	return cbx_lock_read(doc.root, lock, err);
}

START_TEST(what_a_resolver_says)
{
	static const char *const bad[][2] = {
		{ PACKAGE_JSON("a", "1 0", ""), "no version" },
		{ PACKAGE_JSON("A", "1.0", ""), "no name" },
		{ PACKAGE_JSON("a", "1.0", ",\"via\":[\"B\"]"), "a way is not one of names" },
		{ PACKAGE_JSON("a", "1.0", "") "," PACKAGE_JSON("a", "2.0", ""), "twice" },
		{ PACKAGE_JSON(
			  "a", "1.0",
			  "") ",{\"name\":\"b\",\"version\":\"1.0\",\"file\":\"b-1.0-py3-none-any.whl\",\"sha256\":"
			      "\"" SUM "\"}",
		  "several kinds are mixed" },
		{ "{\"name\":\"conda:a\",\"version\":\"1\",\"build\":\"0\",\"subdir\":\"noarch\",\"file\":\"a-1-0."
		  "conda\",\"url\":"
		  "\"https://c/noarch/b-1-0.conda\",\"sha256\":\"" SUM "\"}",
		  "the address of something else" },
		{ "{\"name\":\"conda:a\",\"version\":\"1\",\"build\":\"0\",\"subdir\":\"win-64\",\"file\":\"a-1-0."
		  "conda\",\"url\":"
		  "\"https://c/win-64/a-1-0.conda\",\"sha256\":\"" SUM "\"}",
		  "no address" },
		{ "{\"name\":\"conda:a\",\"version\":\"1\",\"build\":\"0\",\"subdir\":\"noarch\",\"file\":\"a-1-0."
		  "zip\",\"url\":"
		  "\"https://c/noarch/a-1-0.zip\",\"sha256\":\"" SUM "\"}",
		  "not one of its package" },
		{ "{\"name\":\"conda:a\",\"version\":\"1\",\"build\":\"../0\",\"subdir\":\"noarch\",\"file\":\"a-1-../"
		  "0.conda\","
		  "\"url\":\"https://c/noarch/a-1-../0.conda\",\"sha256\":\"" SUM "\"}",
		  "no build" },
		{ "{\"name\":\"conda:a\",\"version\":\"1\",\"build\":\"0\",\"subdir\":\"noarch\",\"file\":\"a-1-0."
		  "conda\",\"url\":"
		  "\"https://c/noarch/a-1-0.conda\",\"sha256\":\"" SUM "0\"}",
		  "no SHA-256" },
	};
	struct cbx_lock lock;
	struct cbx_err err;

	ck_assert_int_eq(read_lock(PACKAGE_JSON("a", "1.0", ",\"via\":[\"b\",\"_c\"]") "," PACKAGE_JSON("b", "1!2", ""),
				   &lock, &err),
			 0);
	ck_assert_str_eq(lock.wheels[0].path, "b → _c → a");
	ck_assert_str_eq(lock.wheels[0].build, "h1_0");
	ck_assert(!lock.wheels[0].direct && lock.wheels[1].direct);
	cbx_lock_release(&lock);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ck_assert_msg(read_lock(bad[i][0], &lock, &err) < 0, "%s", bad[i][0]);
		ck_assert_msg(strstr(err.msg, bad[i][1]), "%s: %s", bad[i][0], err.msg);
	}
}
END_TEST

static struct cbx_policy *policy(const char *packages)
{
	_cleanup_free_ char *text = cbx_xasprintf("{\"packages\":%s}", packages);
	struct cbx_policy *p;
	struct cbx_err err;

	ck_assert_msg(cbx_policy_parse(text, strlen(text), "p", "p", NULL, NULL, &p, &err) == 0, "%s: %s", packages,
		      err.msg);
	return p;
}

START_TEST(judged)
{
	static const char *const rules[][2] = {
		{ "{\"block\":[\"conda:a<2\"]}",
		  "conda:a 1.0 is blocked by the policy (block: \"conda:a<2\"); it is needed by b → a" },
		{ "{\"allow\":[\"conda:b\",\"a\"]}", "conda:a 1.0 is not among the packages that the policy allows" },
		{ "{\"versions\":[\"conda:a=2\"]}",
		  "is not a version that the policy allows (versions: \"conda:a=2\")" },
		{ "{\"block\":[\"a\",\"npm:a\",\"conda:a>1.0\"]}", NULL },
		{ "{\"allow\":[\"conda:b\",\"conda:a 1.*\"]}", NULL },
	};
	struct cbx_lock lock;
	struct cbx_err err;

	ck_assert_int_eq(
		read_lock(PACKAGE_JSON("a", "1.0", ",\"via\":[\"b\"]") "," PACKAGE_JSON("b", "2", ""), &lock, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct cbx_policy *p = policy(rules[i][0]);
		int r = cbx_lock_judge(&lock, &p->packages, 0, &err);

		ck_assert_msg((r < 0) == (rules[i][1] != NULL), "%s", rules[i][0]);
		if (r < 0)
			ck_assert_msg(strstr(err.msg, rules[i][1]), "%s: %s", rules[i][0], err.msg);
		cbx_policy_free(p);
	}
	cbx_lock_release(&lock);
}
END_TEST

START_TEST(channels)
{
	static const char *const bad[] = { "",
					   "/",
					   "../x",
					   "a b",
					   "a//b",
					   "https://",
					   "https://u@h/x",
					   "https://h/x?y",
					   "ftp://h/x",
					   "https://h/../x",
					   "file:///srv",
					   "-x",
					   "https://h:1:2/x" };
	static const char *const outside[] = { "https://h/cx/noarch/a",	 "https://h/c/noarch/../a",
					       "https://h/c/noarch/x/a", "https://h/c/win-64/a",
					       "https://h/c/noarch/",	 "https://h/c/noarch/a?b",
					       "https://h/c/noarch/%2e", "https://g/c/noarch/a",
					       "https://h/c/a",		 "https://h/c/noarch/.a" };
	_cleanup_free_ char *named = cbx_conda_channel("conda-forge"), *at = cbx_conda_channel("http://h:81/c/x");

	ck_assert_str_eq(named, "https://conda.anaconda.org/conda-forge/");
	ck_assert_str_eq(at, "http://h:81/c/x/");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!cbx_conda_channel(bad[i]), "%s", bad[i]);
	ck_assert_str_eq(cbx_conda_within("https://h/c/", "https://h/c/noarch/a-1!2-0.conda"), "noarch/a-1!2-0.conda");
	for (size_t i = 0; i < ARRAY_SIZE(outside); i++)
		ck_assert_msg(!cbx_conda_within("https://h/c/", outside[i]), "%s", outside[i]);
	ck_assert(cbx_conda_is_list("noarch/repodata.json") && cbx_conda_is_list("linux-64/repodata.json.zst"));
	ck_assert(!cbx_conda_is_list("noarch/a.conda") && !cbx_conda_is_list("repodata.json"));
}
END_TEST

START_TEST(policies)
{
	static const char *const bad[] = { "{\"channels\":\"a\"}", "{\"channels\":[1]}", "{\"channels\":[\"a b\"]}",
					   "{\"channels\":[\"https://me:secret@h/c\"]}",
					   "{\"channels\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]}" };
	struct cbx_policy *a = policy("{\"channels\":[\"conda-forge\",\"https://h/c\"]}"),
			  *b = policy("{\"channels\":[\"https://h/c/\",\"other\"]}"), *c = policy("{}"), *d = policy("{\"channels\":[]}"),
			  *both = cbx_policy_narrow(a, b), *one = cbx_policy_narrow(a, c),
			  *none = cbx_policy_narrow(c, a), *emptied = cbx_policy_narrow(a, d),
			  *still = cbx_policy_narrow(emptied, c), *q, *r;
	_cleanup_json_ cJSON *o = cbx_policy_to_json(a), *empty = cbx_policy_to_json(d);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_err err;

	ck_assert_uint_eq(a->nchannels, 2);
	ck_assert_str_eq(a->channels[0], "https://conda.anaconda.org/conda-forge/");
	ck_assert_uint_eq(both->nchannels, 1);
	ck_assert_str_eq(both->channels[0], "https://h/c/");
	ck_assert_uint_eq(one->nchannels, 2);
	ck_assert_uint_eq(none->nchannels, 0); /* the server's are what there is */
	cbx_json_print(&text, o);
	ck_assert_int_eq(cbx_policy_parse(text.data, text.len, "q", "q", NULL, NULL, &q, &err), 0);
	ck_assert_str_eq(a->digest, q->digest);
	/* An empty list takes all of them away, also as the text that it is passed on as. */
	ck_assert_uint_eq(emptied->nchannels, 0);
	ck_assert_uint_eq(still->nchannels, 0);
	ck_assert_str_ne(d->digest, c->digest);
	cbx_buf_release(&text);
	cbx_json_print(&text, empty);
	ck_assert_int_eq(cbx_policy_parse(text.data, text.len, "r", "r", NULL, NULL, &r, &err), 0);
	ck_assert_str_eq(d->digest, r->digest);
	for (struct cbx_policy **p =
		     (struct cbx_policy *[]){ a, b, c, d, both, one, none, emptied, still, q, r, NULL };
	     *p; p++)
		cbx_policy_free(*p);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_free_ char *wrong = cbx_xasprintf("{\"packages\":%s}", bad[i]);

		ck_assert_msg(cbx_policy_parse(wrong, strlen(wrong), "p", "p", NULL, NULL, &q, &err) < 0, "%s", bad[i]);
	}
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, names);
	tcase_add_test(tc, order);
	tcase_add_test(tc, what_is_said_of_versions);
	tcase_add_test(tc, requirements);
	tcase_add_test(tc, what_a_resolver_says);
	tcase_add_test(tc, judged);
	tcase_add_test(tc, channels);
	tcase_add_test(tc, policies);
}

TEST_MAIN("conda", add)
