/* SPDX-License-Identifier: Apache-2.0 */
/* The read side of the image store: what is an image, what is a damaged one, and what the errors say. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "image/image-limits.h"
#include "image/store.h"
#include "unit_main.h"

static char dir[] = "/tmp/cbxstoreXXXXXX";

#define GOOD                                                                                                           \
	"{\"format\":1,\"name\":\"%s\",\"kind\":\"host\",\"created\":\"2026-01-02T03:04:05Z\",\"digest\":\"sha256:"    \
	"00\","                                                                                                        \
	"\"files\":3,\"bytes\":4,\"architecture\":\"amd64\",\"layers\":[{\"source\":\"rootfs\",\"target\":\"/\"},"     \
	"{\"source\":\"host:/usr\",\"target\":\"/usr\"}],"                                                             \
	"\"interpreters\":{\"python\":{\"argv\":[\"/usr/bin/"                                                          \
	"python3\",\"-s\"]}},\"environment\":{\"LANG\":\"C.UTF-8\"},"                                                  \
	"\"packages\":[{\"name\":\"x\",\"version\":\"1\",\"bytes\":2}],\"note\":\"n\"}"

/* Run a shell command with $D, the store, and $N, a name. */
static void run(const char *text, const char *name)
{
	char *command = cbx_xasprintf("D='%s'; N='%s'; %s", dir, name, text);

	ck_assert_int_eq(system(command), 0);
	free(command);
}

static void write_manifest(const char *name, const char *text)
{
	char *path = cbx_xasprintf("%s/%s/manifest.json", dir, name);
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
	free(path);
}

static void make_image(const char *name)
{
	char *text = cbx_xasprintf(GOOD, name);

	run("mkdir -p $D/$N/rootfs", name);
	write_manifest(name, text);
	free(text);
}

/* The good manifest with one piece replaced, which must make the image a damaged one. */
static void check_damaged(const char *what, const char *instead, const char *says)
{
	char *good = cbx_xasprintf(GOOD, "img"), *at = strstr(good, what), *text;
	struct cbx_image image = { 0 };
	struct cbx_err err;

	ck_assert_ptr_nonnull(at);
	text = cbx_xasprintf("%.*s%s%s", (int)(at - good), good, instead, at + strlen(what));
	write_manifest("img", text);
	ck_assert_msg(cbx_image_open(dir, "img", &image, &err) < 0, "accepted: %s", text);
	ck_assert_str_eq(err.kind, "image_damaged");
	ck_assert_msg(strstr(err.msg, says) != NULL, "\"%s\" is not in: %s", says, err.msg);
	ck_assert_ptr_nonnull(strstr(err.msg, "codebox image build img --force"));
	free(text);
	free(good);
}

static void set_up(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void)
{
	run("rm -rf $D", "");
}

START_TEST(good_image)
{
	struct cbx_plan plan = { .version = CBX_PLAN_VERSION, .memory_bytes = 77 };
	const cJSON *argv = NULL;
	struct cbx_image image = { 0 };
	struct cbx_err err;

	make_image("img");
	ck_assert_int_eq(cbx_image_open(dir, "img", &image, &err), 0);
	ck_assert_str_eq(image.name, "img");
	ck_assert_int_eq(cbx_image_to_plan(&image, &plan, &err), 0);
	ck_assert_str_eq(plan.image, "img");
	ck_assert_uint_eq(plan.nlayers, 2);
	ck_assert_str_eq(plan.layers[0].source, "rootfs");
	ck_assert_str_eq(plan.layers[0].target, "/");
	ck_assert_str_eq(plan.layers[1].source, "host:/usr");
	ck_assert_str_eq(plan.layers[1].target, "/usr");
	ck_assert_uint_eq(plan.memory_bytes, 77);
	ck_assert_int_eq(cbx_image_interpreter(&image, "python", &argv, &err), 0);
	ck_assert_str_eq(cJSON_GetArrayItem(argv, 0)->valuestring, "/usr/bin/python3");
	ck_assert_int_lt(cbx_image_interpreter(&image, "cobol", &argv, &err), 0);
	ck_assert_str_eq(err.kind, "no_interpreter");
	ck_assert_ptr_nonnull(strstr(err.msg, "it has: python"));
	cbx_image_release(&image);
}
END_TEST

START_TEST(opened_again)
{
	struct cbx_image image = { 0 };
	struct cbx_err err;
	const cJSON *first;

	make_image("img");
	make_image("two");
	ck_assert_int_eq(cbx_image_open(dir, "img", &image, &err), 0);
	first = image.manifest;
	ck_assert_int_eq(cbx_image_open(dir, "img", &image, &err), 0);
	ck_assert_ptr_eq(image.manifest, first);
	run("rm -r $D/$N/rootfs", "img");
	ck_assert_int_lt(cbx_image_open(dir, "img", &image, &err), 0);
	ck_assert_str_eq(err.kind, "image_damaged");
	run("mkdir $D/$N/rootfs; sed 's/python3/python4/' $D/$N/manifest.json >$D/new; mv $D/new $D/$N/manifest.json",
	    "img");
	ck_assert_int_eq(cbx_image_open(dir, "img", &image, &err), 0);
	ck_assert_int_eq(cbx_image_interpreter(&image, "python", &first, &err), 0);
	ck_assert_str_eq(cJSON_GetArrayItem(first, 0)->valuestring, "/usr/bin/python4");
	ck_assert_int_eq(cbx_image_open(dir, "two", &image, &err), 0);
	ck_assert_str_eq(image.name, "two");
	ck_assert_int_eq(cbx_image_interpreter(&image, "python", &first, &err), 0);
	ck_assert_str_eq(cJSON_GetArrayItem(first, 0)->valuestring, "/usr/bin/python3");
	cbx_image_release(&image);
}
END_TEST

START_TEST(missing_image)
{
	struct cbx_image image = { 0 };
	struct cbx_err err;

	ck_assert_int_eq(cbx_image_open(dir, "img", &image, &err), -ENOENT);
	ck_assert_str_eq(err.kind, "image_not_found");
	ck_assert_ptr_nonnull(strstr(err.msg, "there are none"));
	make_image("one");
	make_image("two");
	ck_assert_int_eq(cbx_image_open(dir, "img", &image, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "there are: one, two"));
	ck_assert_ptr_nonnull(strstr(err.msg, "codebox image build img"));
	ck_assert_int_lt(cbx_image_open("/nonexistent/images", "img", &image, &err), 0);
	ck_assert_str_eq(err.kind, "image_not_found");
}
END_TEST

START_TEST(names_are_no_paths)
{
	static const char *const names[] = {
		"", ".", "..", "../img", "img/", "/", "img/../img", ".img", "-img", "i\nm"
	};
	struct cbx_image image = { 0 };
	struct cbx_err err;

	make_image("img");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ck_assert_int_lt(cbx_image_open(dir, names[i], &image, &err), 0);
		ck_assert_str_eq(err.kind, "image_not_found");
	}
}
END_TEST

START_TEST(damaged_manifests)
{
	_cleanup_buf_ struct cbx_buf preload = { 0 };

	make_image("img");
	check_damaged("{\"format\":1", "{\"format\":2", "format");
	check_damaged("\"format\":1,", "", "format");
	check_damaged("\"format\":1", "\"format\":1,\"format\":1", "format");
	check_damaged("\"name\":\"img\"", "\"name\":\"other\"", "that of \"other\"");
	check_damaged("\"name\":\"img\",", "", "that of");
	check_damaged("\"n\"}", "\"n\"", "its manifest");
	check_damaged("\"n\"}", "\"n\"} x", "its manifest");
	check_damaged("\"n\"}", "\"\\u0000\"}", "its manifest");
	check_damaged("\"note\":\"n\"", "\"note\":7", "note");
	check_damaged("\"files\":3", "\"files\":-3", "files");
	check_damaged("[\"/usr/bin/python3\",\"-s\"]", "[]", "argv");
	check_damaged("[\"/usr/bin/python3\",\"-s\"]", "[1]", "argv");
	check_damaged("\"/usr/bin/python3\"", "\"python3\"", "absolute");
	check_damaged("{\"python\":{\"argv\"", "{\"python\":{\"x\"", "argv");
	check_damaged("\"C.UTF-8\"", "[]", "environment");
	for (int i = 0; i <= CBX_PRELOAD_MAX; i++)
		cbx_buf_addf(&preload, "%s\"m\"", i ? "," : "\"preload\":[");
	cbx_buf_adds(&preload, "],\"note\":");
	check_damaged("\"note\":", cbx_buf_str(&preload), "more than 64 modules");
}
END_TEST

START_TEST(damaged_layers)
{
	make_image("img");
	check_damaged("\"target\":\"/\"", "\"target\":\"/usr\"", "target");
	check_damaged("\"target\":\"/usr\"", "\"target\":\"/\"", "target");
	check_damaged("\"target\":\"/usr\"", "\"target\":\"usr\"", "target");
	check_damaged("\"target\":\"/usr\"", "\"target\":\"/usr/../etc\"", "target");
	check_damaged("\"target\":\"/usr\"", "\"target\":\"/usr/\"", "target");
	check_damaged("\"target\":\"/usr\"", "\"target\":\"//usr\"", "target");
	check_damaged("host:/usr", "host:/etc", "source");
	check_damaged("host:/usr", "../other/rootfs", "source");
	check_damaged("\"source\":\"rootfs\"", "\"source\":\"host:/usr\"", "source");
	check_damaged(",\"target\":\"/usr\"", "", "target");
	check_damaged("\"target\":\"/usr\"", "\"target\":\"/usr\",\"extra\":1", "extra");
	check_damaged("\"source\":\"rootfs\"", "\"source\":[]", "source");
	check_damaged("\"layers\":[", "\"layers\":[],\"other\":[", "layers");
	check_damaged("\"layers\":[",
		      "\"layers\":[{\"source\":\"rootfs\",\"target\":\"/\"},{\"source\":\"rootfs\",\"target\":\"/a\"},"
		      "{\"source\":\"rootfs\",\"target\":\"/b\"},",
		      "layers");
}
END_TEST

START_TEST(damaged_directories)
{
	struct cbx_image image = { 0 };
	struct cbx_err err;

	make_image("img");
	run("rmdir $D/$N/rootfs", "img");
	ck_assert_int_lt(cbx_image_open(dir, "img", &image, &err), 0);
	ck_assert_str_eq(err.kind, "image_damaged");
	run("ln -s / $D/$N/rootfs", "img"); /* a link is not a root */
	ck_assert_int_lt(cbx_image_open(dir, "img", &image, &err), 0);
	ck_assert_str_eq(err.kind, "image_damaged");

	make_image("other");
	run("cd $D/$N && mv manifest.json m && ln -s m manifest.json", "other");
	ck_assert_int_lt(cbx_image_open(dir, "other", &image, &err), 0);
	ck_assert_str_eq(err.kind, "image_damaged");
	run("cd $D/$N && rm manifest.json && mkfifo manifest.json", "other"); /* must not wait for a writer */
	ck_assert_int_lt(cbx_image_open(dir, "other", &image, &err), 0);
	ck_assert_str_eq(err.kind, "image_damaged");
	run("cd $D/$N && rm manifest.json && truncate -s 5M manifest.json", "other");
	ck_assert_int_lt(cbx_image_open(dir, "other", &image, &err), 0);
	ck_assert_str_eq(err.kind, "image_damaged");
	run("cd $D && rm -r $N && ln -s img $N", "other");
	ck_assert_int_lt(cbx_image_open(dir, "other", &image, &err), 0);
	ck_assert_str_eq(err.kind, "image_damaged");
}
END_TEST

START_TEST(lists)
{
	struct cbx_err err;
	cJSON *list = NULL;

	ck_assert_int_eq(cbx_image_list("/nonexistent/images", &list, &err), 0);
	ck_assert_int_eq(cJSON_GetArraySize(list), 0);
	cJSON_Delete(list);
	make_image("zeta");
	make_image("alpha");
	make_image("broken");
	write_manifest("broken", "nonsense");
	make_image("alpha-unfinished");
	run("mkdir -p $D/$N/rootfs", ".alpha.abcdef");
	run("touch $D/$N", "file");
	ck_assert_int_eq(cbx_image_list(dir, &list, &err), 0);
	ck_assert_int_eq(cJSON_GetArraySize(list), 3);
	ck_assert_str_eq(cbx_json_member(cJSON_GetArrayItem(list, 0), "name")->valuestring, "alpha");
	ck_assert_ptr_null(cbx_json_member(cJSON_GetArrayItem(list, 0), "packages"));
	ck_assert_ptr_null(cbx_json_member(cJSON_GetArrayItem(list, 0), "damaged"));
	ck_assert_str_eq(cbx_json_member(cJSON_GetArrayItem(list, 1), "name")->valuestring, "broken");
	ck_assert_ptr_nonnull(cbx_json_member(cJSON_GetArrayItem(list, 1), "damaged"));
	ck_assert_str_eq(cbx_json_member(cJSON_GetArrayItem(list, 2), "name")->valuestring, "zeta");
	cJSON_Delete(list);
}
END_TEST

START_TEST(too_many_are_not_listed)
{
	struct cbx_err err;
	cJSON *list = NULL;

	run("for i in $(seq 1100); do echo \"$D/$N$i\"; done | xargs mkdir", "image");
	ck_assert_int_eq(cbx_image_list(dir, &list, &err), 0);
	ck_assert_int_eq(cJSON_GetArraySize(list), CBX_IMAGES_MAX);
	cJSON_Delete(list);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, good_image);
	tcase_add_test(t, missing_image);
	tcase_add_test(t, names_are_no_paths);
	tcase_add_test(t, damaged_manifests);
	tcase_add_test(t, opened_again);
	tcase_add_test(t, damaged_layers);
	tcase_add_test(t, damaged_directories);
	tcase_add_test(t, lists);
	tcase_add_test(t, too_many_are_not_listed);
}

TEST_MAIN("image store", add)
