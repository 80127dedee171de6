/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: programs find their libraries by paths such as /lib64, and some by links in /etc/alternatives,
 * so these are made to look as they do on the machine. Only what everybody on the machine may read is copied, since
 * everybody in a sandbox will be able to; a file that is missing here or there is normal.
 *
 * Where /bin and /lib are still directories of their own, there is nothing that could be mounted for them (a sandbox
 * mounts the machine's /usr and nothing else), so they are copied, without kernel modules and firmware.
 */
#include "image/host.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "image/tree.h"

struct copy {
	int root;
	uint64_t bytes;
	int depth;
	struct cbx_err *err;
};

static int copy_link(struct copy *c, int dir, const char *name, const char *to)
{
	char target[CBX_UNPACK_PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));

	if (n <= 0 || n == (ssize_t)sizeof(target))
		return 0;
	target[n] = '\0';
	return cbx_plain(target) ? cbx_tree_symlink(c->root, to, target, c->err) : 0;
}

static int copy_file(struct copy *c, int dir, const char *name, const char *to)
{
	_cleanup_fd_ int in = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), out = -1;
	_cleanup_fd_ int parent = -1;
	const char *out_name;
	char chunk[16384];
	struct stat st;
	int r;

	if (in < 0 || fstat(in, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0004))
		return 0;
	r = cbx_tree_write(c->root, to, "", 0, st.st_mode & 0111 ? 0755 : 0644, c->err);
	if (r == 0)
		r = cbx_tree_parent(c->root, to, NULL, &parent, &out_name, c->err);
	if (r < 0)
		return r;
	out = cbx_tree_openat(parent, out_name, O_WRONLY, 0);
	if (out < 0)
		return cbx_fail(c->err, -out, "open %s of the image", to);
	for (;;) {
		ssize_t n = cbx_read_full(in, chunk, sizeof(chunk));

		if (n < 0)
			return cbx_fail(c->err, (int)-n, "read /%s", to);
		if (n == 0)
			return 0;
		c->bytes += (uint64_t)n;
		if (c->bytes > CBX_COPY_BYTES_MAX)
			return cbx_refuse(c->err, "too_long", EFBIG,
					  "the files to copy for the image hold more than %zu bytes; copy fewer",
					  CBX_COPY_BYTES_MAX);
		r = cbx_write_all(out, chunk, (size_t)n);
		if (r < 0)
			return cbx_fail(c->err, -r, "write %s of the image", to);
	}
}

static int copy_any(struct copy *c, int dir, const char *name, const char *to);

static int copy_dir(struct copy *c, int dir, const char *name, const char *to)
{
	_cleanup_fd_ int sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char **names;
	size_t n;
	int r;

	if (sub < 0 || c->depth >= CBX_UNPACK_DEPTH_MAX / 2)
		return 0;
	r = cbx_tree_make_dir(c->root, to, c->err);
	if (r == 0)
		r = cbx_tree_names(sub, &names, &n, c->err);
	if (r < 0)
		return r;
	c->depth++;
	for (size_t i = 0; i < n && r == 0; i++) {
		_cleanup_free_ char *below = cbx_xasprintf("%s/%s", to, names[i]);

		if (cbx_plain(names[i]) && strlen(below) < CBX_UNPACK_PATH_MAX && strcmp(below, "lib/modules") != 0 &&
		    strcmp(below, "lib/firmware") != 0)
			r = copy_any(c, sub, names[i], below);
	}
	c->depth--;
	cbx_tree_names_free(names, n);
	return r;
}

static int copy_any(struct copy *c, int dir, const char *name, const char *to)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISLNK(st.st_mode))
		return copy_link(c, dir, name, to);
	if (S_ISDIR(st.st_mode))
		return (st.st_mode & 0005) == 0005 ? copy_dir(c, dir, name, to) : 0;
	return S_ISREG(st.st_mode) ? copy_file(c, dir, name, to) : 0;
}

static int copy_top(struct copy *c, struct cbx_buf *note)
{
	static const char *const names[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = cbx_xasprintf("/%s", names[i]);
		struct stat st;
		int r;

		if (lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			cbx_buf_addf(note, " The machine's %s is a directory outside /usr and was copied.", path);
		r = copy_any(c, AT_FDCWD, path, names[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

/* What a path beneath / names, whose last part may be a pattern. */
static int copy_matching(struct copy *c, const char *path)
{
	const char *slash = strrchr(path, '/');
	int n = slash ? (int)(slash - path) : 0;
	_cleanup_free_ char *dir = cbx_xasprintf("/%.*s", n, path);
	_cleanup_fd_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char **names;
	size_t count;
	int r;

	if (fd < 0)
		return 0;
	r = cbx_tree_names(fd, &names, &count, c->err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++) {
		_cleanup_free_ char *to = cbx_xasprintf("%.*s%s%s", n, path, n ? "/" : "", names[i]);

		if (cbx_plain(names[i]) && fnmatch(path, to, FNM_PATHNAME | FNM_PERIOD) == 0)
			r = copy_any(c, fd, names[i], to);
	}
	cbx_tree_names_free(names, count);
	return r;
}

/* A program that a sandbox will find at the same path: it is beneath /usr when all links are followed. */
static bool usable(const char *path)
{
	char real[PATH_MAX];
	struct stat st;

	return realpath(path, real) && strncmp(real, "/usr/", 5) == 0 && stat(real, &st) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_mode & 0005) == 0005;
}

static int find_interpreters(const cJSON *wanted, cJSON **ret, struct cbx_err *err)
{
	_cleanup_json_ cJSON *found = cbx_json_new_obj();
	const cJSON *one, *path;

	cJSON_ArrayForEach(one, wanted) {
		const cJSON *find = cbx_json_member(one, "find");

		if (!find) {
			cbx_json_set(found, one->string, cJSON_Duplicate(one, 1));
			continue;
		}
		cJSON_ArrayForEach(path, find) {
			cJSON *argv, *entry;

			if (!usable(path->valuestring))
				continue;
			argv = cbx_json_new_arr();
			entry = cbx_json_new_obj();
			cbx_json_push_str(argv, path->valuestring);
			cbx_json_set(entry, "argv", argv);
			cbx_json_set(found, one->string, entry);
			break;
		}
	}
	if (wanted && wanted->child && !cbx_json_member(found, wanted->child->string))
		return cbx_refuse(
			err, "no_interpreter", ENOENT,
			"this machine has no %s beneath /usr that everybody may run; install it with the machine's "
			"package manager (Debian, Ubuntu: apt install python3)",
			wanted->child->string);
	*ret = take_ptr(&found);
	return 0;
}

int cbx_host_fill(int root, const struct cbx_recipe *recipe, cJSON **ret_interpreters, struct cbx_buf *note,
		  struct cbx_err *err)
{
	struct copy c = { .root = root, .err = err };
	int r = cbx_tree_make_dir(root, "usr", err);

	if (r == 0)
		r = copy_top(&c, note);
	for (const char **path = recipe->copy; *path && r == 0; path++)
		r = copy_matching(&c, *path);
	return r < 0 ? cbx_wrap(err, "copy from the machine")
		     : find_interpreters(recipe->interpreters, ret_interpreters, err);
}
