/* SPDX-License-Identifier: Apache-2.0 */
/* What goes from a store of packages that has grown too large. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/remove.h"
#include "installer/installer.h"
#include "unit_main.h"

#define BYTES (100 * 1024)

static struct cbx_store_dirs store;
static char place[] = "/tmp/cbx-trim-XXXXXX";

static void set_used(const char *path, time_t used)
{
	struct timespec times[2] = { { .tv_sec = used }, { .tv_sec = used } };

	ck_assert_int_eq(utimensat(store.all, path, times, 0), 0);
}

static void make_file(const char *path, time_t used)
{
	_cleanup_fd_ int fd = openat(store.all, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, BYTES), 0);
	set_used(path, used);
}

static void make_wheel(const char *name, time_t used)
{
	char path[60];

	ck_assert_int_eq(mkdirat(store.all, name, 0700), 0);
	snprintf(path, sizeof(path), "%s/sub", name);
	ck_assert_int_eq(mkdirat(store.all, path, 0700), 0);
	snprintf(path, sizeof(path), "%s/sub/file", name);
	make_file(path, 1);
	set_used(name, used);
}

static bool there(const char *path)
{
	return faccessat(store.all, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void set_up(void)
{
	ck_assert_ptr_nonnull(mkdtemp(place));
	store.all = store.own = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(store.all, 0);
	for (const char *const *p = (const char *const[]){ "w", "c", "t", NULL }; *p; p++)
		ck_assert_int_eq(mkdirat(store.all, *p, 0700), 0);
	make_wheel("w/linked", 100);
	ck_assert_int_eq(linkat(store.all, "w/linked/sub/file", store.all, "session", 0), 0);
	make_wheel("w/old", 200);
	make_file("c/p-old", 300);
	make_wheel("w/new", 400);
	make_file("c/f-new", 500);
}

static void tear_down(void)
{
	close(store.all);
	ck_assert_int_eq(cbx_remove_tree(AT_FDCWD, place, 1000), 0);
}

START_TEST(what_was_used_longest_ago_goes)
{
	struct cbx_err err;

	ck_assert_int_ge(cbx_store_trim(&store, CBX_PACKAGES_KEPT_DEFAULT, &err), 0);
	ck_assert(there("w/linked") && there("w/old") && there("c/p-old") && there("w/new") && there("c/f-new"));
	/* They have a little more than five times BYTES together, and with one of them gone four times. */
	ck_assert_int_ge(cbx_store_trim(&store, 5 * BYTES - 1, &err), 0);
	ck_assert(there("w/linked/sub/file") && !there("w/old") && there("c/p-old") && there("w/new") && there("c/f-new"));
	ck_assert_int_ge(cbx_store_trim(&store, 4 * BYTES - 1, &err), 0);
	ck_assert(there("w/linked") && !there("c/p-old") && there("w/new/sub/file") && there("c/f-new"));
}
END_TEST

START_TEST(what_a_session_has_stays)
{
	struct cbx_err err;

	ck_assert_int_ge(cbx_store_trim(&store, 0, &err), 0);
	ck_assert(there("w/linked/sub/file") && !there("w/old") && !there("c/p-old") && !there("w/new") && !there("c/f-new"));
	ck_assert_int_eq(unlinkat(store.all, "session", 0), 0);
	ck_assert_int_ge(cbx_store_trim(&store, 0, &err), 0);
	ck_assert(!there("w/linked"));
	ck_assert_int_eq(unlinkat(store.all, "t", AT_REMOVEDIR), 0); /* nothing is left in it */
}
END_TEST

START_TEST(answers_have_a_ceiling)
{
	struct cbx_err err;

	make_file("c/p-newest", 600);
	ck_assert_int_ge(cbx_cache_trim(&store, CBX_INDEX_KEPT_MAX, &err), 0);
	ck_assert(there("c/p-old") && there("c/f-new") && there("c/p-newest"));
	ck_assert_int_ge(cbx_cache_trim(&store, 2 * (BYTES + 4096), &err), 0);
	ck_assert(!there("c/p-old") && there("c/f-new") && there("c/p-newest"));
	ck_assert_int_ge(cbx_cache_trim(&store, 0, &err), 0);
	ck_assert(!there("c/f-new") && !there("c/p-newest"));
	ck_assert(there("w/old/sub/file") && there("w/new/sub/file"));
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, what_was_used_longest_ago_goes);
	tcase_add_test(t, what_a_session_has_stays);
	tcase_add_test(t, answers_have_a_ceiling);
}

TEST_MAIN("trim", add)
