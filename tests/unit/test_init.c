/* SPDX-License-Identifier: Apache-2.0 */
/* codebox-init's file requests, without a sandbox around them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "sandbox/init.h"
#include "sandbox/landlock.h"
#include "unit_main.h"

static char top[64];
static ino_t others; /* a directory that is not ours to chmod */

/* In place of the C library's. */
int fchmod(int fd, mode_t mode)
{
	struct stat st;

	if (others && fstat(fd, &st) == 0 && st.st_ino == others) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_fchmod, fd, mode);
}

int fchmodat(int dir, const char *path, mode_t mode, int flags)
{
	struct stat st;

	if (others && fstatat(dir, path, &st, 0) == 0 && st.st_ino == others) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_fchmodat, dir, path, mode);
}

static void make_top(void)
{
	snprintf(top, sizeof(top), "/tmp/cbxinit-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	ck_assert_int_eq(chdir(top), 0);
	others = 0;
}

static void remove_top(void)
{
	_cleanup_free_ char *command = cbx_xasprintf("chmod -R u+rwx %s; rm -rf %s", top, top);

	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_eq(system(command), 0);
}

static void ask(struct cbx_init_header h, const char *name, struct cbx_init_header *a, char *out)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s%s%s", top, name[0] ? "/" : "", name);
	h.len = (uint32_t)strlen(path) + 1;
	*a = (struct cbx_init_header){ 0 };
	cbx_init_file(&h, path, a, out);
}

static int remove_tree(const char *name)
{
	struct cbx_init_header a;
	char out[CBX_INIT_MAX];

	ask((struct cbx_init_header){ .type = CBX_INIT_REMOVE }, name, &a, out);
	return (int)a.value;
}

static void touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	close(fd);
}

/* ---- rename ---- */

/* data: what follows the old path, n bytes of it. */
static int rename_to(const char *from, const char *data, size_t n)
{
	struct cbx_init_header a = { 0 }, h = { .type = CBX_INIT_RENAME };
	char payload[CBX_INIT_MAX], out[CBX_INIT_MAX];
	int len = snprintf(payload, sizeof(payload), "%s/%s", top, from) + 1;

	memcpy(payload + len, data, n);
	h.len = (uint32_t)len + (uint32_t)n;
	cbx_init_file(&h, payload, &a, out);
	return (int)a.value;
}

START_TEST(a_rename_replaces_nothing)
{
	_cleanup_free_ char *b = cbx_xasprintf("%s/b", top), *c = cbx_xasprintf("%s/c", top);
	_cleanup_free_ char *none = cbx_xasprintf("%s/none/c", top), *large = calloc(1, 4200);

	touch("a");
	touch("b");
	ck_assert_int_eq(rename_to("a", b, strlen(b) + 1), -EEXIST);
	ck_assert_int_eq(rename_to("a", none, strlen(none) + 1), -ENOENT);
	ck_assert_int_eq(rename_to("a", c, strlen(c) + 1), 0);
	ck_assert_int_eq(access("a", F_OK), -1);
	ck_assert_int_eq(access("c", F_OK), 0);
	/* Without a path, without its end, with one that is too long. */
	ck_assert_int_eq(rename_to("c", "", 0), -EINVAL);
	ck_assert_int_eq(rename_to("c", "", 1), -EINVAL);
	ck_assert_int_eq(rename_to("c", c, strlen(c)), -EINVAL);
	memset(large, 'x', 4199);
	ck_assert_int_eq(rename_to("c", large, 4200), -ENAMETOOLONG);
	ck_assert_int_eq(access("c", F_OK), 0);
}
END_TEST

/* ---- entries of archives ---- */

static int place(int64_t mode, const char *path, const char *text)
{
	struct cbx_init_header a = { 0 }, h = { .type = CBX_INIT_PLACE, .value = mode, .arg = 1000000000500000000 };
	char payload[CBX_INIT_MAX], out[CBX_INIT_MAX];

	h.len = (uint32_t)snprintf(payload, sizeof(payload), "%s%c%s%c%s", top, 0, path, 0, text) + 1;
	cbx_init_file(&h, payload, &a, out);
	return (int)a.value;
}

/* Directories are made on the way, and no link is gone through; what stands there gives way, but for directories. */
START_TEST(entries_are_put_in_their_places)
{
	struct cbx_init_header a = { 0 }, h = { .type = CBX_INIT_PLACE, .value = S_IFDIR };
	char long_name[300], out[CBX_INIT_MAX];
	struct stat st;

	ck_assert_int_eq(place(S_IFDIR | 0710, "d/e", ""), 0);
	ck_assert(stat("d/e", &st) == 0 && (st.st_mode & 07777) == 0710);
	touch("d/e/beside");
	ck_assert_int_eq(place(S_IFREG | 0444, "d/e/f", "beside"), 0);
	ck_assert(stat("d/e/f", &st) == 0 && (st.st_mode & 07777) == 0444 && st.st_mtime == 1000000000);
	ck_assert_int_eq(access("d/e/beside", F_OK), -1);
	ck_assert_int_eq(place(S_IFLNK, "d/l", "e"), 0);
	ck_assert(lstat("d/l", &st) == 0 && S_ISLNK(st.st_mode) && st.st_mtime == 1000000000);
	ck_assert_int_eq(place(S_IFREG | CBX_INIT_PLACE_NAME, "d/g", "d/e/f"), 0);
	ck_assert_int_eq(place(S_IFREG | CBX_INIT_PLACE_NAME, "d/g", "d/e/f"), 0);
	ck_assert(stat("d/g", &st) == 0 && st.st_nlink == 2);
	ck_assert_int_eq(place(0, "new/er/x", ""), 0);
	ck_assert(stat("new/er", &st) == 0 && S_ISDIR(st.st_mode) && access("new/er/x", F_OK) < 0);
	/* Through links; where something else stands; down alone. */
	ck_assert_int_eq(place(0, "d/l/x", ""), -ENOTDIR);
	ck_assert_int_eq(place(S_IFDIR, "d/l", ""), -EEXIST);
	ck_assert_int_eq(place(S_IFREG | CBX_INIT_PLACE_NAME, "h", "d/l/f"), -ENOTDIR);
	ck_assert_int_eq(place(S_IFDIR, "d/g", ""), -EEXIST);
	ck_assert_int_eq(place(S_IFLNK, "d/e", "x"), -EISDIR);
	touch("d/beside");
	ck_assert_int_eq(place(S_IFREG | 0644, "d/e", "beside"), -EISDIR);
	ck_assert_int_eq(place(S_IFREG | 06755, "d/l", "beside"), 0);
	ck_assert(lstat("d/l", &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 07777) == 0755);
	ck_assert_int_eq(place(S_IFREG | 0644, "x", "../beside"), -EINVAL);
	ck_assert_int_eq(place(S_IFREG | 0644, "x", "none"), -ENOENT);
	for (size_t i = 0; i < 6; i++)
		ck_assert_int_eq(place(S_IFDIR, (const char *[]){ "", "/x", "../x", "d/../x", "d//x", "d/." }[i], ""), -EINVAL);
	memset(long_name, 'x', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	ck_assert_int_eq(place(S_IFDIR, long_name, ""), -ENAMETOOLONG);
	/* Without the texts. */
	h.len = (uint32_t)strlen(top) + 1;
	cbx_init_file(&h, top, &a, out);
	ck_assert_int_eq(a.value, -EINVAL);
}
END_TEST

/* ---- scan ---- */

#define FILES 450

/* Each page begins where the one before it ended, also where a long name did not fit and a shorter one would. */
START_TEST(pages_of_a_scan)
{
	unsigned seen[FILES] = { 0 };
	struct cbx_init_header a;
	char out[CBX_INIT_MAX], name[256];
	uint64_t skip = 0;
	int pages = 0;

	srandom((unsigned)_i);
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "%03d%0*d", i, (int)(random() % 240) + 1, 0);
		touch(name);
	}
	do {
		ask((struct cbx_init_header){ .type = CBX_INIT_SCAN, .value = (int64_t)skip }, "", &a, out);
		ck_assert_int_gt(a.value, 0);
		ck_assert_uint_eq(a.arg, FILES);
		for (size_t at = 0; at < a.len;) {
			struct cbx_init_entry e;

			memcpy(&e, out + at, sizeof(e));
			memcpy(name, out + at + sizeof(e), 3);
			name[3] = '\0';
			seen[atoi(name)]++;
			at += e.entry_len;
		}
		skip += (uint64_t)a.value;
		pages++;
	} while (skip < a.arg);
	ck_assert_int_gt(pages, 1);
	for (int i = 0; i < FILES; i++)
		ck_assert_msg(seen[i] == 1, "file %d is in %u pages", i, seen[i]);
}
END_TEST

/* ---- remove ---- */

static void make_file_in(const char *dir, mode_t mode)
{
	char file[256];
	struct stat st;

	ck_assert_int_eq(mkdir(dir, 0700), 0);
	snprintf(file, sizeof(file), "%s/file", dir);
	touch(file);
	ck_assert_int_eq(chmod(dir, mode), 0);
	ck_assert_int_eq(stat(dir, &st), 0);
	others = st.st_ino;
}

START_TEST(trees_are_removed)
{
	make_file_in("one", 0700);
	ck_assert_int_eq(mkdir("one/two", 0700), 0);
	make_file_in("one/two/three", 0);
	make_file_in("one/closed", 0);
	others = 0;
	ck_assert_int_eq(remove_tree("one"), 0);
	ck_assert_int_lt(access("one", F_OK), 0);
	ck_assert_int_eq(remove_tree("one"), -ENOENT);
}
END_TEST

/* What another owner's directory allows is done, and what it does not allow is refused at once. */
START_TEST(directories_of_another_owner)
{
	static const char *const trees[] = { "a", "a/b", "a/b/c", "a/b/c/d" };

	for (size_t i = 1; i < ARRAY_SIZE(trees); i++) {
		for (size_t k = 0; k < i; k++)
			ck_assert_int_eq(mkdir(trees[k], 0700), 0);
		make_file_in(trees[i], 0777);
		ck_assert_int_eq(remove_tree("a"), 0);
	}
	if (geteuid() == 0)
		return; /* may write anywhere */
	for (size_t i = 1; i < ARRAY_SIZE(trees); i++) {
		for (size_t k = 0; k < i; k++)
			ck_assert_int_eq(mkdir(trees[k], 0700), 0);
		make_file_in(trees[i], 0555);
		ck_assert_int_eq(remove_tree("a"), -EACCES);
		others = 0;
		ck_assert_int_eq(remove_tree("a"), 0);
	}
}
END_TEST

/* A chain of directories, with a file and another directory in each. */
static void make_deep(int depth)
{
	int dir, below;

	ck_assert_int_eq(mkdir("deep", 0700), 0);
	dir = open("deep", O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < depth; i++, dir = below) {
		close(openat(dir, "file", O_WRONLY | O_CREAT, 0600));
		ck_assert_int_eq(mkdirat(dir, "beside", 0700), 0);
		close(openat(dir, "beside/file", O_WRONLY | O_CREAT, 0600));
		ck_assert_int_eq(mkdirat(dir, "below", 0700), 0);
		below = openat(dir, "below", O_RDONLY | O_DIRECTORY);
		ck_assert_int_ge(below, 0);
		close(dir);
	}
	close(dir);
}

/* Under the rules of a sandbox whose kernel has this version of Landlock. Returns what the removal did. */
static int remove_under_landlock(uint32_t abi, const char *name)
{
	struct cbx_landlock l;
	struct cbx_err err;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int dir = open("/", O_PATH | O_DIRECTORY);

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || cbx_landlock_new(abi, 0, &l, &err) < 0 ||
		    cbx_landlock_allow(&l, dir, CBX_LANDLOCK_READ | CBX_LANDLOCK_CHANGE, "/", &err) < 0 ||
		    cbx_landlock_restrict_self(&l, 0, &err) < 0)
			_exit(255);
		_exit(-remove_tree(name));
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_ne(WEXITSTATUS(status), 255);
	return -WEXITSTATUS(status);
}

/* Landlock's first version lets no directory change its parent; later ones do as they are asked. */
START_TEST(trees_are_removed_under_landlock)
{
	static const uint32_t versions[] = { 1, 2 };
	uint32_t here = cbx_landlock_abi();

	for (size_t i = 0; i < ARRAY_SIZE(versions) && versions[i] <= here; i++) {
		make_deep(CBX_REMOVE_DEPTH - 10);
		ck_assert_int_eq(remove_under_landlock(versions[i], "deep"), 0);
		ck_assert_int_lt(access("deep", F_OK), 0);
	}
	if (here) {
		make_deep(CBX_REMOVE_DEPTH + 10);
		ck_assert_int_eq(remove_under_landlock(1, "deep"), -EXDEV);
		ck_assert_int_eq(remove_tree("deep"), 0);
	}
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_checked_fixture(t, make_top, remove_top);
	tcase_add_loop_test(t, pages_of_a_scan, 0, 8);
	tcase_add_test(t, trees_are_removed);
	tcase_add_test(t, trees_are_removed_under_landlock);
	tcase_add_test(t, directories_of_another_owner);
	tcase_add_test(t, a_rename_replaces_nothing);
	tcase_add_test(t, entries_are_put_in_their_places);
}

TEST_MAIN("init", add_tests)
