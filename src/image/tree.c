/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: every look-up is one openat2() that the kernel confines to the tree; what is found is then
 * worked on by the *at() calls with a single component, which never follow a link there. So there is no moment at which
 * a path could mean something outside, whoever changes the tree meanwhile.
 */
#include "image/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/remove.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "image/image-limits.h"

int cbx_tree_openat(int root, const char *path, int flags, mode_t mode)
{
	int fd;

	do {
		fd = cbx_openat2(root, path, (uint64_t)flags | O_CLOEXEC, mode, CBX_RESOLVE_SAFE);
	} while (fd < 0 && (errno == EAGAIN || errno == EINTR));
	return fd < 0 ? -errno : fd;
}

static int lookup_error(struct cbx_err *err, int code, const char *path)
{
	if (code == ELOOP)
		return cbx_refuse(err, "unsafe_path", ELOOP, "%s: leads through a symbolic link", path);
	if (code == ENOTDIR)
		return cbx_refuse(err, "unsafe_path", ENOTDIR, "%s: leads through something that is not a directory",
				  path);
	if (code == EXDEV)
		return cbx_refuse(err, "unsafe_path", EXDEV, "%s: leads out of the tree", path);
	return cbx_fail(err, code, "%s", path);
}

/* Open one existing directory beneath dir, making it first where that is asked for: then it is counted. */
static int step(int dir, const char *name, uint64_t *made, bool replace)
{
	int fd = cbx_tree_openat(dir, name, O_PATH | O_DIRECTORY, 0);

	if (fd == -ENOENT && made) {
		if (mkdirat(dir, name, 0755) == 0)
			++*made;
		else if (errno != EEXIST)
			return -errno;
		return cbx_tree_openat(dir, name, O_PATH | O_DIRECTORY, 0);
	}
	if ((fd == -ELOOP || fd == -ENOTDIR) && replace) {
		if (unlinkat(dir, name, 0) < 0 || mkdirat(dir, name, 0755) < 0)
			return -errno;
		return cbx_tree_openat(dir, name, O_PATH | O_DIRECTORY, 0);
	}
	return fd;
}

/* Walk `len` bytes of path from root, component by component. */
static int walk(int root, const char *path, size_t len, uint64_t *made, bool replace, struct cbx_err *err)
{
	_cleanup_fd_ int dir = cbx_tree_openat(root, ".", O_PATH | O_DIRECTORY, 0);
	char name[CBX_UNPACK_NAME_MAX + 1];

	if (dir < 0)
		return lookup_error(err, -dir, path);
	for (size_t at = 0; at < len;) {
		size_t n = 0;
		int next;

		while (at + n < len && path[at + n] != '/')
			n++;
		if (n == 0 || n >= sizeof(name))
			return cbx_fail(err, n ? ENAMETOOLONG : EINVAL, "%s", path);
		memcpy(name, path + at, n);
		name[n] = '\0';
		next = step(dir, name, made, replace);
		if (next < 0)
			return lookup_error(err, -next, path);
		close(dir);
		dir = next;
		at += n + 1;
	}
	return take_fd(&dir);
}

int cbx_tree_parent(int root, const char *path, uint64_t *made, int *ret_fd, const char **ret_name, struct cbx_err *err)
{
	const char *slash = strrchr(path, '/');
	char dir[CBX_UNPACK_PATH_MAX];
	size_t len = slash ? (size_t)(slash - path) : 0;
	int fd;

	if (len >= sizeof(dir))
		return cbx_fail(err, ENAMETOOLONG, "%s", path);
	memcpy(dir, path, len);
	dir[len] = '\0';
	fd = cbx_tree_openat(root, len ? dir : ".", O_PATH | O_DIRECTORY, 0);
	if (fd == -ENOENT && made)
		fd = walk(root, dir, len, made, false, err);
	else if (fd < 0)
		return lookup_error(err, -fd, path);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	*ret_name = slash ? slash + 1 : path;
	return 0;
}

int cbx_tree_make_dir(int root, const char *path, struct cbx_err *err)
{
	uint64_t made = 0;
	int fd = walk(root, path, strlen(path), &made, true, err);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* Open a new file in the place of whatever non-directory has the name. */
static int create(int parent, const char *name)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(parent, name, flags, 0600);

	if (fd < 0 && errno == EEXIST) {
		if (unlinkat(parent, name, 0) < 0)
			return -errno;
		fd = openat(parent, name, flags, 0600);
	}
	return fd < 0 ? -errno : fd;
}

int cbx_tree_write(int root, const char *path, const void *p, size_t n, mode_t mode, struct cbx_err *err)
{
	_cleanup_fd_ int parent = -1, fd = -1;
	const char *name;
	uint64_t made = 0;
	int r = cbx_tree_parent(root, path, &made, &parent, &name, err);

	if (r < 0)
		return r;
	fd = create(parent, name);
	if (fd < 0)
		return cbx_fail(err, -fd, "make %s", path);
	r = cbx_write_all(fd, p, n);
	if (r < 0)
		return cbx_fail(err, -r, "write %s", path);
	if (fchmod(fd, mode) < 0)
		return cbx_fail(err, errno, "set the mode of %s", path);
	return 0;
}

int cbx_tree_symlink(int root, const char *path, const char *target, struct cbx_err *err)
{
	_cleanup_fd_ int parent = -1;
	const char *name;
	uint64_t made = 0;
	int r = cbx_tree_parent(root, path, &made, &parent, &name, err);

	if (r < 0)
		return r;
	if (unlinkat(parent, name, 0) < 0 && errno != ENOENT)
		return cbx_fail(err, errno, "replace %s", path);
	if (symlinkat(target, parent, name) < 0)
		return cbx_fail(err, errno, "make the link %s", path);
	return 0;
}

int cbx_tree_read(int root, const char *path, size_t max, struct cbx_buf *out, struct cbx_err *err)
{
	_cleanup_fd_ int fd = cbx_tree_openat(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	struct stat st;
	ssize_t got;

	if (fd < 0)
		return lookup_error(err, -fd, path);
	if (fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "look at %s", path);
	if (!S_ISREG(st.st_mode))
		return cbx_refuse(err, "unsafe_path", EINVAL, "%s is not a regular file", path);
	if (st.st_size < 0 || (uint64_t)st.st_size > max)
		return cbx_refuse(err, "too_long", EFBIG, "%s is larger than %zu bytes", path, max);
	got = cbx_read_full(fd, cbx_buf_reserve(out, (size_t)st.st_size + 1), (size_t)st.st_size);
	if (got < 0)
		return cbx_fail(err, (int)-got, "read %s", path);
	out->len += (size_t)got;
	out->data[out->len] = '\0';
	return 0;
}

int cbx_tree_names(int dir, char ***ret, size_t *ret_n, struct cbx_err *err)
{
	_cleanup_closedir_ DIR *d = NULL;
	_cleanup_fd_ int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char **names = NULL;
	size_t n = 0, cap = 0;
	struct dirent *e;

	if (fd < 0)
		return cbx_fail(err, errno, "read a directory");
	d = fdopendir(fd);
	if (!d)
		return cbx_fail(err, errno, "read a directory");
	take_fd(&fd);
	for (errno = 0; (e = readdir(d)); errno = 0) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (n == cap) {
			cap = cap ? cap * 2 : 32;
			names = cbx_xrealloc(names, cap * sizeof(*names));
		}
		names[n++] = cbx_xstrdup(e->d_name);
	}
	if (errno) {
		int code = errno;

		cbx_tree_names_free(names, n);
		return cbx_fail(err, code, "read a directory");
	}
	if (n)
		qsort(names, n, sizeof(*names), cbx_by_name);
	*ret = names;
	*ret_n = n;
	return 0;
}

int cbx_tree_open_dir(int dir, const char *path)
{
	return cbx_tree_openat(dir, path, O_RDONLY | O_DIRECTORY, 0);
}

void cbx_tree_names_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

int cbx_tree_remove(int parent, const char *name, struct cbx_err *err)
{
	int r = cbx_remove_tree(parent, name, ULONG_MAX);

	return r < 0 && r != -ENOENT ? cbx_fail(err, -r, "remove %s", name) : 0;
}
