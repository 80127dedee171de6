/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: two trees are walked side by side by descriptors; each step has a single component and never
 * follows a link. The layer was made by the process that reads archives, so it is looked at as if that process had been
 * taken over: kinds, modes, names, depth and number are checked here.
 *
 * A directory that the layer's archive names takes the place of whatever a lower layer has. One that is only on the way
 * to something must be a directory below as well, and is not made when all that it leads to is hidden.
 */
#include "image/compose.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "image/link.h"
#include "image/tree.h"
#include "image/unpack.h"

struct compose {
	struct cbx_err *err;
	uint64_t entries;
	int depth;
	char path[CBX_UNPACK_PATH_MAX];
	size_t len;
};

static int unsafe(struct compose *c, const char *why)
{
	cbx_refuse(c->err, "unsafe_archive", EINVAL, "%s: %s", c->path, why);
	cbx_err_sanitize(c->err);
	return -EINVAL;
}

static int empty_directory(struct compose *c, int dir)
{
	char **names;
	size_t n;
	int r = cbx_tree_names(dir, &names, &n, c->err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++)
		r = cbx_tree_remove(dir, names[i], c->err);
	cbx_tree_names_free(names, n);
	return r;
}

static bool whiteout(const char *name, const struct stat *st)
{
	return cbx_starts_with(name, CBX_WHITEOUT) && S_ISREG(st->st_mode);
}

static int hide(struct compose *c, int root, const char *name)
{
	const char *hidden = name + strlen(CBX_WHITEOUT);

	if (strcmp(name, CBX_WHITEOUT_ALL) == 0)
		return empty_directory(c, root);
	if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
		return unsafe(c, "it hides nothing that could be hidden");
	return cbx_tree_remove(root, hidden, c->err);
}

static int put_file(struct compose *c, int layer, int root, const char *name, const struct stat *st)
{
	int r;

	if (S_ISREG(st->st_mode) && (st->st_mode & 07777) != 0755 && (st->st_mode & 07777) != 0644)
		return unsafe(c, "its mode is not one that a file of an image has");
	r = cbx_link_file(layer, root, name, st);
	if (r == -EEXIST) {
		r = cbx_tree_remove(root, name, c->err);
		if (r < 0)
			return r;
		r = cbx_link_file(layer, root, name, st);
	}
	return r < 0 ? cbx_fail(c->err, -r, "link %s", c->path) : 0;
}

/* Open root/name, which is made where it is missing; replace: and where something else is. */
static int open_dir(struct compose *c, int root, const char *name, bool replace, bool *made)
{
	int fd;

	*made = mkdirat(root, name, 0755) == 0;
	if (!*made && errno != EEXIST)
		return cbx_fail(c->err, errno, "make the directory %s", c->path);
	fd = cbx_tree_openat(root, name, O_RDONLY | O_DIRECTORY, 0);
	if ((fd == -ELOOP || fd == -ENOTDIR) && replace) {
		if (unlinkat(root, name, 0) < 0 || mkdirat(root, name, 0755) < 0)
			return cbx_fail(c->err, errno, "make the directory %s", c->path);
		fd = cbx_tree_openat(root, name, O_RDONLY | O_DIRECTORY, 0);
	}
	if (fd == -ELOOP)
		return unsafe(c, "it leads through a symbolic link of a lower layer");
	if (fd == -ENOTDIR)
		return unsafe(c, "it leads through something of a lower layer that is not a directory");
	return fd < 0 ? cbx_fail(c->err, -fd, "open the directory %s", c->path) : fd;
}

static int put_all(struct compose *c, int layer, int root);

static int put_dir(struct compose *c, int layer, int root, const char *name, const struct stat *st)
{
	bool named = (st->st_mode & 07777) == CBX_UNPACK_NAMED_DIR, made;
	_cleanup_fd_ int from = cbx_tree_openat(layer, name, O_RDONLY | O_DIRECTORY, 0), to = -1;
	int r;

	if (from < 0)
		return cbx_fail(c->err, -from, "open the directory %s of the layer", c->path);
	to = open_dir(c, root, name, named, &made);
	if (to < 0)
		return to;
	r = put_all(c, from, to);
	if (r == 0 && made && !named)
		(void)unlinkat(root, name, AT_REMOVEDIR); /* it goes only if it is empty */
	return r;
}

static int put_entry(struct compose *c, int layer, int root, const char *name, bool hiding)
{
	struct stat st;

	if (fstatat(layer, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cbx_fail(c->err, errno, "look at %s of the layer", c->path);
	if (!cbx_plain(name))
		return unsafe(c, "its name has a control character");
	if (whiteout(name, &st) || hiding)
		return whiteout(name, &st) && hiding ? hide(c, root, name) : 0;
	if (++c->entries > CBX_UNPACK_ENTRIES_MAX)
		return cbx_refuse(c->err, "archive_too_large", EFBIG, "the layer has more than %d entries",
				  CBX_UNPACK_ENTRIES_MAX);
	if (S_ISDIR(st.st_mode))
		return put_dir(c, layer, root, name, &st);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return unsafe(c, "it is neither a file, a directory nor a link");
	return put_file(c, layer, root, name, &st);
}

/* One directory: in a first pass what is hidden, in a second what is there. */
static int put_all(struct compose *c, int layer, int root)
{
	size_t len = c->len, n;
	char **names;
	int r = cbx_tree_names(layer, &names, &n, c->err);

	if (r < 0)
		return cbx_wrap(c->err, "%s", c->path);
	if (++c->depth > CBX_UNPACK_DEPTH_MAX)
		r = unsafe(c, "it is nested too deeply");
	for (size_t i = 0; i < 2 * n && r == 0; i++) {
		const char *name = names[i % n];
		int add = snprintf(c->path + len, sizeof(c->path) - len, "%s%s", len ? "/" : "", name);

		if (i < n && !cbx_starts_with(name, CBX_WHITEOUT))
			continue;
		if (add < 0 || (size_t)add >= sizeof(c->path) - len) {
			r = cbx_fail(c->err, ENAMETOOLONG, "a path in the layer");
			break;
		}
		c->len = len + (size_t)add;
		r = put_entry(c, layer, root, name, i < n);
	}
	c->depth--;
	c->len = len;
	c->path[len] = '\0';
	cbx_tree_names_free(names, n);
	return r;
}

int cbx_compose_layer(int layer, int root, struct cbx_err *err)
{
	struct compose c = { .err = err };

	return put_all(&c, layer, root);
}
