/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes, names in archives, and comparing lists of files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "image/image-limits.h"
#include "image/recipe.h"
#include "image/scan.h"
#include "image/unpack.h"
#include "unit_main.h"

static int read_text(const char *text, struct cbx_recipe *recipe, struct cbx_err *err)
{
	FILE *f = tmpfile();
	int r;

	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fflush(f), 0);
	rewind(f);
	ck_assert_int_eq((int)lseek(fileno(f), 0, SEEK_SET), 0);
	r = cbx_recipe_read(fileno(f), "test", recipe, err);
	fclose(f);
	return r;
}

START_TEST(good_recipes)
{
	struct cbx_recipe r;
	struct cbx_err err;

	ck_assert_int_eq(
		read_text("{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"g++\",\"libc6\"],\"omit\":[\"perl\"],"
			  "\"links\":{\"usr/lib/$MULTIARCH/x\":\"y\"},\"compile\":[\"usr/lib/python3*\"],"
			  "\"interpreters\":{\"python\":{\"argv\":[\"/usr/bin/python3\"]}},"
			  "\"warm\":[{\"module\":\"m\",\"variable\":\"V\",\"into\":\"usr/share/codebox/cache/m\"}]}",
			  &r, &err),
		0);
	ck_assert_str_eq(r.name, "a");
	ck_assert(!r.host);
	ck_assert_str_eq(r.packages[0], "g++");
	ck_assert_str_eq(r.packages[1], "libc6");
	ck_assert_ptr_null(r.packages[2]);
	ck_assert_ptr_null(r.exclude[0]);
	cbx_recipe_release(&r);
	ck_assert_int_eq(read_text("{\"name\":\"h\",\"kind\":\"host\",\"copy\":[\"etc/x\"],"
				   "\"interpreters\":{\"python\":{\"find\":[\"/usr/bin/python3\"]}}}",
				   &r, &err),
			 0);
	ck_assert(r.host);
	cbx_recipe_release(&r);
}
END_TEST

START_TEST(bad_recipes)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{}",
		"{\"name\":\"a\"}",
		"{\"name\":\"a\",\"kind\":\"debian\"}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[]}",
		"{\"name\":\"../a\",\"kind\":\"debian\",\"packages\":[\"ab\"]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"-o\"]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"--allow-unauthenticated\"]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"perl-\"]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"/tmp/x.deb\"]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"a b\"]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"Ab\"]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[7]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"omit\":[\"x\\ny\"]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"packges\":[]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"packages\":[\"cd\"]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"copy\":[\"etc/x\"]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"links\":{\"../x\":\"y\"}}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"links\":{\"/x\":\"y\"}}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"links\":{\"x\":7}}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"files\":{\"a//b\":\"y\"}}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"compile\":[\"/usr\"]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"interpreters\":{\"python\":{}}}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"interpreters\":{\"python\":{\"argv\":["
		"\"py\"]}}}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"interpreters\":{\"python\":{\"find\":[\"/"
		"x\"]}}}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],\"warm\":[{\"module\":\"m\"}]}",
		"{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"],"
		"\"warm\":[{\"module\":\"m\",\"variable\":\"V\",\"into\":\"usr/bin\"}]}",
		"{\"name\":\"a\",\"kind\":\"host\",\"packages\":[\"ab\"]}",
		"{\"name\":\"a\",\"kind\":\"host\",\"copy\":[\"../etc\"]}",
		"{\"name\":\"a\",\"kind\":\"docker\"}",
	};
	struct cbx_recipe r;
	struct cbx_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(read_text(bad[i], &r, &err) < 0, "accepted: %s", bad[i]);
		ck_assert_ptr_nonnull(strstr(err.msg, "the recipe test"));
	}
}
END_TEST

START_TEST(long_recipes)
{
	static const char start[] = "{\"name\":\"a\",\"kind\":\"debian\",\"packages\":[\"ab\"";
	_cleanup_buf_ struct cbx_buf many = { 0 }, blank = { 0 };
	struct cbx_recipe r;
	struct cbx_err err;

	cbx_buf_adds(&many, start);
	for (int i = 0; i < CBX_RECIPE_ITEMS_MAX; i++)
		cbx_buf_adds(&many, ",\"ab\"");
	cbx_buf_adds(&many, "]}");
	ck_assert_int_lt(read_text(cbx_buf_str(&many), &r, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "the limit is 1000"));
	cbx_buf_addf(&blank, "%s]}%*s", start, (int)CBX_RECIPE_MAX, "");
	ck_assert_int_lt(read_text(cbx_buf_str(&blank), &r, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "longer than 262144 bytes"));
}
END_TEST

static const char *cleaned(const char *name, bool merge)
{
	static char out[CBX_UNPACK_PATH_MAX];
	struct cbx_err err;
	int r = cbx_unpack_path(name, merge, out, &err);

	return r < 0 ? "refused" : r > 0 ? "root" : out;
}

START_TEST(names_in_archives)
{
	static const char *const refused[] = { "/",	 "/etc", "//a",	 "..",	 "../a",  "a/..",  "a/../b",
					       "a/b/..", "./..", "a\nb", "\x01", "a\x7f", "a/\t/b" };

	ck_assert_str_eq(cleaned("a", false), "a");
	ck_assert_str_eq(cleaned("./a/b/", false), "a/b");
	ck_assert_str_eq(cleaned("a//b/./c", false), "a/b/c");
	ck_assert_str_eq(cleaned("...", false), "...");
	ck_assert_str_eq(cleaned("a..b/..c", false), "a..b/..c");
	ck_assert_str_eq(cleaned(".", false), "root");
	ck_assert_str_eq(cleaned("./", false), "root");
	ck_assert_str_eq(cleaned("bin/x", false), "bin/x");
	ck_assert_str_eq(cleaned("./bin/x", true), "usr/bin/x");
	ck_assert_str_eq(cleaned("lib64", true), "usr/lib64");
	ck_assert_str_eq(cleaned("binary", true), "binary");
	ck_assert_str_eq(cleaned("usr/bin", true), "usr/bin");
	ck_assert_str_eq(cleaned("opt/bin", true), "opt/bin");
	ck_assert_str_eq(cleaned("\xc3\xa4", false), "\xc3\xa4");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		ck_assert_str_eq(cleaned(refused[i], i % 2), "refused");
}
END_TEST

START_TEST(long_names_in_archives)
{
	char name[3000];

	memset(name, 'a', sizeof(name));
	name[256] = '\0';
	ck_assert_str_eq(cleaned(name, false), "refused");
	name[255] = '\0';
	ck_assert_str_eq(cleaned(name, false), name);
	memset(name, 'a', sizeof(name));
	for (size_t i = 100; i < sizeof(name); i += 100)
		name[i] = '/';
	name[sizeof(name) - 1] = '\0';
	ck_assert_str_eq(cleaned(name, true), "refused");
	for (size_t i = 0; i < 200; i++)
		memcpy(name + 2 * i, "d/", 3);
	ck_assert_str_eq(cleaned(name, false), "refused");
}
END_TEST

static void note(void *arg, const char *what, const char *path)
{
	char *out = arg;

	snprintf(out + strlen(out), 400 - strlen(out), "%s %s;", what, path);
}

START_TEST(comparing)
{
	static const char then[] =
		"d\t0755\t-\t-\ta\t\nf\t0644\t1\tx\ta/b\t\nf\t0644\t1\tx\ta-c\t\nl\t-\t-\t-\tz\tto\n";
	static const char now[] =
		"d\t0755\t-\t-\ta\t\nf\t0644\t1\ty\ta/b\t\nf\t0644\t1\tx\ta/n\t\nf\t0644\t1\tx\ta-c\t\n";
	char out[400] = "";

	ck_assert_uint_eq(cbx_scan_compare(then, now, note, out), 3);
	ck_assert_str_eq(out, "changed a/b;added a/n;missing z;");
	out[0] = '\0';
	ck_assert_uint_eq(cbx_scan_compare(then, then, note, out), 0);
	ck_assert_uint_eq(cbx_scan_compare("", "", note, out), 0);
	ck_assert_uint_eq(cbx_scan_compare("nonsense", "\n\n\t", note, out), 3);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, good_recipes);
	tcase_add_test(t, bad_recipes);
	tcase_add_test(t, long_recipes);
	tcase_add_test(t, names_in_archives);
	tcase_add_test(t, long_names_in_archives);
	tcase_add_test(t, comparing);
}

TEST_MAIN("recipes", add)
