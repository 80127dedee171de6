/* SPDX-License-Identifier: Apache-2.0 */
/* What a layer that was not made by the unpacker can do to an image, and files that cannot be linked. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "image/compose.h"
#include "image/image-limits.h"
#include "image/link.h"
#include "image/tree.h"
#include "image/unpack.h"
#include "unit_main.h"

static int refuse_links; /* the error that linkat() gives, instead of a link */
static char top[] = "/tmp/cbxlayersXXXXXX";
static int layer, lower, base;

int linkat(int from, const char *name, int to, const char *new, int flags)
{
	if (refuse_links) {
		errno = refuse_links;
		return -1;
	}
	return (int)syscall(SYS_linkat, from, name, to, new, flags);
}

static int make(const char *name)
{
	int fd;

	ck_assert_int_eq(mkdirat(base, name, 0755), 0);
	fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static void setup(void)
{
	umask(022);
	strcpy(top + strlen(top) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	base = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(base, 0);
	layer = make("layer");
	lower = make("lower");
	refuse_links = 0;
}

static void teardown(void)
{
	struct cbx_err err;

	close(layer);
	close(lower);
	close(base);
	ck_assert_int_eq(cbx_tree_remove(AT_FDCWD, top, &err), 0);
}

static void put(int dir, const char *path, const char *text, mode_t mode)
{
	struct cbx_err err;

	ck_assert_int_eq(cbx_tree_write(dir, path, text, strlen(text), mode, &err), 0);
}

static const char *get(int dir, const char *path)
{
	static char text[64];
	struct cbx_buf out = { 0 };
	struct cbx_err err;

	snprintf(text, sizeof(text), "%s", cbx_tree_read(dir, path, 60, &out, &err) < 0 ? "-" : cbx_buf_str(&out));
	cbx_buf_release(&out);
	return text;
}

static void refused(const char *says)
{
	struct cbx_err err = { 0 };

	ck_assert_int_lt(cbx_compose_layer(layer, lower, &err), 0);
	ck_assert_msg(strstr(err.msg, says), "\"%s\" is not in: %s", says, err.msg);
}

static void composed(void)
{
	struct cbx_err err = { 0 };

	ck_assert_msg(cbx_compose_layer(layer, lower, &err) == 0, "%s", err.msg);
}

static struct stat look(int dir, const char *path)
{
	struct stat st = { 0 };

	(void)fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW);
	return st;
}

START_TEST(files_are_links)
{
	put(lower, "a/same", "below", 0644);
	put(layer, "a/same", "above", 0644);
	put(layer, "a/new", "new", 0755);
	ck_assert_int_eq(symlinkat("new", layer, "a/link"), 0);
	put(lower, "plain", "below", 0644);
	put(layer, "plain/now/a/directory", "x", 0644);
	refused("plain: it leads through something of a lower layer that is not a directory");
	ck_assert_int_eq(fchmodat(layer, "plain", CBX_UNPACK_NAMED_DIR, 0), 0);
	composed();
	ck_assert_str_eq(get(lower, "a/same"), "above");
	ck_assert_str_eq(get(lower, "plain/now/a/directory"), "x");
	ck_assert_uint_eq(look(lower, "a/new").st_ino, look(layer, "a/new").st_ino);
	ck_assert(S_ISLNK(look(lower, "a/link").st_mode));
	ck_assert_uint_eq(look(lower, "plain").st_mode & 07777, 0755);
	/* What replaces a file of the image leaves the layer's as it is. */
	put(lower, "a/new", "other", 0644);
	ck_assert_str_eq(get(layer, "a/new"), "new");
}
END_TEST

START_TEST(what_is_hidden)
{
	put(lower, "gone", "1", 0644);
	put(lower, "d/gone", "1", 0644);
	put(lower, "d/stays", "1", 0644);
	put(lower, "old/a/b", "1", 0644);
	put(layer, ".wh.gone", "", 0644);
	put(layer, "d/.wh.gone", "", 0644);
	put(layer, "old/" CBX_WHITEOUT_ALL, "", 0644);
	put(layer, "old/new", "2", 0644);
	put(layer, "never/.wh.there", "", 0644);
	put(layer, "d/.wh.again", "", 0644);
	put(layer, "d/again", "2", 0644);
	composed();
	ck_assert_str_eq(get(lower, "gone"), "-");
	ck_assert_str_eq(get(lower, "d/gone"), "-");
	ck_assert_str_eq(get(lower, "d/stays"), "1");
	ck_assert_str_eq(get(lower, "d/again"), "2");
	ck_assert_str_eq(get(lower, "old/a/b"), "-");
	ck_assert_str_eq(get(lower, "old/new"), "2");
	ck_assert_uint_eq(look(lower, "never").st_mode, 0);
	ck_assert_uint_eq(look(lower, "d/.wh.gone").st_mode, 0);
	ck_assert_str_eq(get(layer, "d/.wh.gone"), "");
}
END_TEST

START_TEST(layers_that_the_unpacker_does_not_make)
{
	put(base, "victim", "v", 0644);
	ck_assert_int_eq(symlinkat("..", lower, "out"), 0);
	put(layer, "out/victim", "evil", 0644);
	refused("out: it leads through a symbolic link of a lower layer");
	put(layer, "out/.wh.victim", "", 0644);
	refused("symbolic link");
	ck_assert_int_eq(unlinkat(lower, "out", 0), 0);
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = { ".wh.", ".wh..", ".wh..." };

		put(layer, names[i], "", 0644);
		refused("it hides nothing that could be hidden");
		ck_assert_int_eq(unlinkat(layer, names[i], 0), 0);
	}
	ck_assert_int_eq(mkfifoat(layer, "fifo", 0644), 0);
	refused("fifo: it is neither a file, a directory nor a link");
	ck_assert_int_eq(unlinkat(layer, "fifo", 0), 0);
	put(layer, "out/mode", "", 0644);
	ck_assert_int_eq(fchmodat(layer, "out/mode", 04755, 0), 0);
	refused("its mode is not one that a file of an image has");
	ck_assert_int_eq(unlinkat(layer, "out/mode", 0), 0);
	put(layer, "bell\a", "", 0644);
	refused("its name has a control character");
	ck_assert_int_eq(unlinkat(layer, "bell\a", 0), 0);
	composed();
	ck_assert_str_eq(get(base, "victim"), "v");
}
END_TEST

START_TEST(too_deep)
{
	char path[3 * CBX_UNPACK_DEPTH_MAX] = "";

	for (int i = 0; i < CBX_UNPACK_DEPTH_MAX; i++)
		strcat(path, "d/");
	strcat(path, "x");
	put(layer, path, "", 0644);
	refused("it is nested too deeply");
}
END_TEST

START_TEST(files_that_cannot_be_linked)
{
	static const int codes[] = { EXDEV, EMLINK, EPERM, EOPNOTSUPP };
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = 1700000000 } };
	struct stat st;

	put(layer, "file", "bytes", 0755);
	ck_assert_int_eq(utimensat(layer, "file", times, 0), 0);
	ck_assert_int_eq(symlinkat("file", layer, "link"), 0);
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		refuse_links = codes[i];
		composed();
		st = look(lower, "file");
		ck_assert_uint_ne(st.st_ino, look(layer, "file").st_ino);
		ck_assert_uint_eq(st.st_mode, S_IFREG | 0755);
		ck_assert_int_eq(st.st_mtim.tv_sec, 1700000000);
		ck_assert_str_eq(get(lower, "file"), "bytes");
		ck_assert(S_ISLNK(look(lower, "link").st_mode));
		ck_assert_int_eq(unlinkat(lower, "file", 0), 0);
		ck_assert_int_eq(unlinkat(lower, "link", 0), 0);
	}
	refuse_links = ENOSPC;
	refused("No space left on device");
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, files_are_links);
	tcase_add_test(t, what_is_hidden);
	tcase_add_test(t, layers_that_the_unpacker_does_not_make);
	tcase_add_test(t, too_deep);
	tcase_add_test(t, files_that_cannot_be_linked);
}

TEST_MAIN("layers", add)
