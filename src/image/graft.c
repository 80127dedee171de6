/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a walk by descriptors with sorted names. Patterns are compared with the path that a file has in
 * the image. A directory of packages of which nothing was taken is not made.
 */
#include "image/graft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "image/link.h"
#include "image/tree.h"
#include "image/unpack.h"

static int graft_tree(struct cbx_graft *g, int from, int to, unsigned depth);

static int graft_file(struct cbx_graft *g, int from, int to, const char *name, const struct stat *st)
{
	int r = cbx_link_file(from, to, name, st);

	if (r == -EEXIST && !g->packages) /* /opt is a link in the image: ours is a directory */
		r = 0;
	return r < 0 ? cbx_fail(g->err, -r, "link %s", g->path) : 0;
}

static int graft_dir(struct cbx_graft *g, int from, int to, const char *name, unsigned depth)
{
	_cleanup_fd_ int below = -1, at = -1;
	bool made;
	int r;

	if (g->packages && strcmp(name, "__pycache__") == 0)
		return 0;
	made = mkdirat(to, name, 0755) == 0;
	if (!made && (!g->onto || errno != EEXIST))
		return cbx_fail(g->err, errno, "make %s", g->path);
	below = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	at = below < 0 ? -1 : openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = at < 0 ? cbx_fail(g->err, errno, "open %s", g->path) : graft_tree(g, below, at, depth + 1);
	if (r == 0 && made && g->exclude && unlinkat(to, name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY &&
	    errno != EEXIST)
		r = cbx_fail(g->err, errno, "omit %s", g->path);
	return r;
}

static int graft_entry(struct cbx_graft *g, int from, int to, const char *name, unsigned depth)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cbx_fail(g->err, errno, "look at a file");
	if (!cbx_plain(name) || depth >= CBX_UNPACK_DEPTH_MAX)
		return cbx_refuse(g->err, "unsafe_path", EINVAL, "a name has control characters, or is too deep");
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && (g->packages || !S_ISLNK(st.st_mode)))
		return cbx_refuse(g->err, "unsafe_path", EINVAL, "%s is neither a regular file nor a directory",
				  g->path);
	if (cbx_unpack_matches(g->exclude, g->path) && !cbx_unpack_matches(g->include, g->path))
		return 0;
	if (++g->entries > CBX_UNPACK_ENTRIES_MAX)
		return cbx_refuse(g->err, "too_long", E2BIG,
				  "the image would have more than %d files and directories; omit packages",
				  CBX_UNPACK_ENTRIES_MAX);
	if (S_ISDIR(st.st_mode))
		return graft_dir(g, from, to, name, depth);
	if ((uint64_t)st.st_size > CBX_UNPACK_BYTES_MAX - g->bytes)
		return cbx_refuse(g->err, "too_long", EFBIG,
				  "the files of the image would hold more than %llu bytes; omit packages",
				  (unsigned long long)CBX_UNPACK_BYTES_MAX);
	g->bytes += (uint64_t)st.st_size;
	return graft_file(g, from, to, name, &st);
}

static int graft_tree(struct cbx_graft *g, int from, int to, unsigned depth)
{
	size_t len = strlen(g->path), n;
	char **names;
	int r = cbx_tree_names(from, &names, &n, g->err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++) {
		int add = snprintf(g->path + len, sizeof(g->path) - len, "%s%s", len ? "/" : "", names[i]);

		r = add < 0 || (size_t)add >= sizeof(g->path) - len
			    ? cbx_fail(g->err, ENAMETOOLONG, "a path of the image")
			    : graft_entry(g, from, to, names[i], depth);
	}
	g->path[len] = '\0';
	cbx_tree_names_free(names, n);
	return r;
}

int cbx_graft_tree(struct cbx_graft *g, int from, int to)
{
	return graft_tree(g, from, to, 0);
}

int cbx_graft_at(struct cbx_graft *g, int from, int root, const char *place)
{
	_cleanup_fd_ int to = -1;
	int r = cbx_tree_make_dir(root, place, g->err);

	if (r < 0)
		return r;
	to = cbx_tree_openat(root, place, O_RDONLY | O_DIRECTORY, 0);
	if (to < 0)
		return cbx_fail(g->err, -to, "open %s of the image", place);
	snprintf(g->path, sizeof(g->path), "%s", place);
	return cbx_graft_tree(g, from, to);
}
