/* SPDX-License-Identifier: Apache-2.0 */
/* Advisories in the OSV format, and names that are like others. */
#include "packages/osv.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "packages/similar.h"
#include "unit_main.h"

static void note(void *arg, const struct cbx_osv_hit *hit)
{
	struct cbx_buf *said = arg;

	cbx_buf_addf(said, "%s%s %s %s", said->len ? "|" : "", hit->id, hit->wheel->name, hit->range);
}

/* What is found, or the error; until the next call. */
static const char *search(const char *text, const char *version)
{
	static struct cbx_buf said;
	static struct cbx_err err;
	struct cbx_wheel wheels[] = { { .name = "other" }, { .name = "some-name" } };
	const struct cbx_lock lock = { wheels, 2 };

	strcpy(wheels[0].version, "1");
	strcpy(wheels[1].version, version);
	cbx_buf_release(&said);
	if (cbx_osv_search(text, strlen(text), &lock, note, &said, &err) < 0)
		return err.msg;
	return cbx_buf_str(&said);
}

static const char *in_events(const char *events, const char *version)
{
	static char text[2000];

	snprintf(text, sizeof(text),
		 "{\"id\":\"X-1\",\"affected\":[{\"package\":{\"ecosystem\":\"PyPI\",\"name\":\"Some_Name\"},"
		 "\"ranges\":[{\"type\":\"ECOSYSTEM\",\"events\":[%s]}]}]}",
		 events);
	return search(text, version);
}

START_TEST(ranges)
{
#define I(v) "{\"introduced\":\"" v "\"}"
#define F(v) "{\"fixed\":\"" v "\"}"
#define L(v) "{\"last_affected\":\"" v "\"}"
#define M(v) "{\"limit\":\"" v "\"}"
	static const struct {
		const char *events, *version, *range; /* NULL: not affected */
	} rows[] = {
		{ I("0") "," F("2.0"), "1.9.9", "<2.0" },
		{ I("0") "," F("2.0"), "0.0.dev0", "<2.0" },
		{ I("0") "," F("2.0"), "2.0rc1", "<2.0" },
		{ I("0") "," F("2.0"), "2.0", NULL },
		{ I("0") "," F("2.0"), "2.0.post1", NULL },
		{ F("2.0") "," I("1.5"), "1.10", ">=1.5,<2.0" }, /* not in order, and 1.10 is above 1.5 */
		{ I("1.5") "," F("2.0"), "1.5rc1", NULL },
		{ I("1") "," L("1.4"), "1.4.0", ">=1,<=1.4" },
		{ I("1") "," L("1.4"), "1.4.0+cu118", ">=1,<=1.4" },
		{ I("1") "," L("1.4"), "1.4.1", NULL },
		{ I("1") "," F("2") "," I("3") "," F("4"), "2.5", NULL },
		{ I("1") "," F("2") "," I("3") "," F("4"), "3.0", ">=3,<4" },
		{ I("1") "," F("2") "," I("2"), "2", ">=2" },
		{ I("0"), "77", "all versions" },
		{ I("1!0"), "77", NULL },
		{ I("0") "," F("nonsense"), "5", "all versions" }, /* what cannot be read ends nothing */
		{ I("nonsense") "," F("3"), "2", "<3" },
		{ I("0") "," M("3"), "2", "all versions" },
		{ I("0") "," M("3"), "3", NULL },
		{ I("0") "," M("*"), "3", "all versions" },
		{ "", "1", NULL },
		{ F("2"), "1", NULL },
		{ "7,null,{\"introduced\":0},[]", "1", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *said = in_events(rows[i].events, rows[i].version);
		_cleanup_free_ char *want =
			rows[i].range ? cbx_xasprintf("X-1 some-name %s", rows[i].range) : cbx_xstrdup("");

		ck_assert_msg(strcmp(said, want) == 0, "%s, %s: %s", rows[i].events, rows[i].version, said);
	}
}
END_TEST

START_TEST(advisories)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
#define P "\"package\":{\"ecosystem\":\"PyPI\",\"name\":\"some.name\"}"
		{ "{\"id\":\"A\",\"affected\":[{" P ",\"versions\":[\"0.9\",\"1.0.0\"]}]}", "A some-name ==1.0" },
		{ "{\"id\":\"A\",\"affected\":[{" P ",\"versions\":[\"0.9\",7,\"legacy!\"]}]}", "" },
		{ "{\"id\":\"A\",\"withdrawn\":\"2026-01-01T00:00:00Z\",\"affected\":[{" P ",\"versions\":[\"1.0\"]}]}",
		  "" },
		{ "{\"id\":\"A\",\"withdrawn\":null,\"affected\":[{" P ",\"versions\":[\"1.0\"]}]}",
		  "A some-name ==1.0" },
		{ "{\"id\":\"A\",\"affected\":[{\"package\":{\"ecosystem\":\"npm\",\"name\":\"some-name\"},"
		  "\"versions\":[\"1.0\"]}]}",
		  "" },
		{ "{\"id\":\"A\",\"affected\":[{\"package\":{\"ecosystem\":\"PyPI\",\"n\\u0061me\":\"some\\u002dname\"}"
		  ","
		  "\"versions\":[\"1.0\"]}]}",
		  "A some-name ==1.0" },
		{ " [ {\"id\":\"A\",\"affected\":[{" P
		  ",\"versions\":[\"1.0\"]}]} , {\"x\":1},\n{\"id\":\"B\",\"affected\":[{" P
		  ",\"ranges\":[{\"type\":\"GIT\",\"events\":[{\"introduced\":\"0\"}]},{\"type\":\"SEMVER\",\"events\":"
		  "[{\"introduced\":\"0\"}]}]}]}] ",
		  "A some-name ==1.0|B some-name all versions" },
		{ "[]", "" },
		{ "{}", "" },
		{ "", "neither an object nor a list" },
		{ "7", "neither an object nor a list" },
		{ "[", "not an object" },
		{ "[{}", "does not end" },
		{ "[{},", "not an object" },
		{ "[{},7]", "not an object" },
		{ "[{}] x", "something follows" },
		{ "{} {}", "something follows" },
		{ "{\"id\":\"A\"", "cut off" },
		{ "{\"name\":\"some-name\"}", "no id" },
		{ "{\"id\":\"a b\",\"name\":\"some-name\"}", "no id" },
		{ "{\"id\":\"A\",\"name\":\"some-name\",\"affected\":{}}", "affected is a list" },
		{ "{\"id\":\"A\",\"name\":\"some-name\",\"withdrawn\":true}", "withdrawn is a time" },
		{ "{\"id\":\"A\",\"name\":\"some-name\",,}", "cannot be read" },
		{ "{\"id\":\"A\",\"id\":\"B\",\"name\":\"some-name\"}", "cannot be read" },
		{ "{\"id\":\"A\",\"affected\":[{" P ",\"versions\":{}}]}", "are lists" },
		{ "{\"id\":\"A\",\"affected\":[{" P ",\"ranges\":[{\"type\":\"ECOSYSTEM\"}]}]}",
		  "no type, or no events" },
		{ "{\"id\":\"A\",\"affected\":[{\"package\":{\"name\":\"some-name\"}}]}", "no ecosystem" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *said = search(rows[i].text, "1.0");

		ck_assert_msg(rows[i].says[0] ? strstr(said, rows[i].says) != NULL : !said[0], "%s: %s", rows[i].text,
			      said);
	}
}
END_TEST

/* Both ends of a range have to fit where it is shown: what is too long is not a version. */
START_TEST(versions_without_end)
{
	struct cbx_wheel wheels[] = { { .name = "npm:some-name", .version = "1.5.0" } };
	const struct cbx_lock lock = { wheels, 1 };
	static const struct {
		int introduced, fixed; /* characters of their build parts */
		bool both;
	} rows[] = { { 120, 120, true }, { 400, 1, false }, { 1, 400, false }, { 400, 400, false } };
	char build[401];

	memset(build, 'a', sizeof(build) - 1);
	build[sizeof(build) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct cbx_buf said = { 0 };
		_cleanup_free_ char *text = cbx_xasprintf(
			"{\"id\":\"A\",\"affected\":[{\"package\":{\"ecosystem\":\"npm\",\"name\":\"some-name\"},"
			"\"ranges\":[{\"type\":\"SEMVER\",\"events\":[{\"introduced\":\"1.0.0+%.*s\"},"
			"{\"fixed\":\"2.0.0+%.*s\"}]}]}]}",
			rows[i].introduced, build, rows[i].fixed, build);
		struct cbx_err err;

		ck_assert_int_ge(cbx_osv_search(text, strlen(text), &lock, note, &said, &err), 0);
		ck_assert_msg(strstr(cbx_buf_str(&said), "A npm:some-name "), "%s", cbx_buf_str(&said));
		ck_assert_int_eq(strstr(cbx_buf_str(&said), ">=1.0.0+a") && strstr(cbx_buf_str(&said), ",<2.0.0+a"),
				 rows[i].both);
	}
}
END_TEST

START_TEST(similar)
{
	static const char list[] = "# names\nrequests\npandas # x\npython-dateutil\nsix\nruamel-yaml\nrequest-x\n";
	static const struct {
		const char *name, *like;
	} rows[] = { { "requests", NULL },
		     { "request", "requests" },
		     { "requestss", "requests" },
		     { "reqeusts", "requests" },
		     { "rewuests", "requests" },
		     { "pandsa", "pandas" },
		     { "panda", "pandas" },
		     { "pandass", "pandas" },
		     { "apndas", "pandas" },
		     { "pan-das", "pandas" },
		     { "python-dateutils", "python-dateutil" },
		     { "pythondateutil", "python-dateutil" },
		     { "dateutil-python", "python-dateutil" },
		     { "yaml-ruamel", "ruamel-yaml" },
		     { "ruamelyaml", "ruamel-yaml" },
		     { "sax", NULL },
		     { "request-x", NULL },
		     { "numpy", NULL },
		     { "names", NULL },
		     { "adnpas", NULL },
		     { "x", NULL },
		     { "pandas-x", NULL } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t n = 0;
		const char *like = cbx_similar_find(list, rows[i].name, &n);

		ck_assert_msg(!like == !rows[i].like, "%s: %s", rows[i].name, like ? like : "none");
		if (like)
			ck_assert_msg(n == strlen(rows[i].like) && memcmp(like, rows[i].like, n) == 0, "%s: %s",
				      rows[i].name, like);
	}
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, ranges);
	tcase_add_test(t, advisories);
	tcase_add_test(t, versions_without_end);
	tcase_add_test(t, similar);
}

TEST_MAIN("osv", add)
