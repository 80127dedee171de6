/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the user names is followed; below it, symbolic links and special files are not copied, so
 * a tree cannot bring along what is outside of it. Paths are resolved inside the session, by the session.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/copy.h"
#include "client/protocol.h"

static int put_file(struct cbx_copy *c, int fd, const char *path, bool executable, struct cbx_err *err)
{
	static char chunk[CBX_CONTROL_CHUNK];
	uint64_t at = 0;

	for (;;) {
		ssize_t n = cbx_read_full(fd, chunk, sizeof(chunk));
		int r;

		if (n < 0)
			return cbx_fail(err, (int)-n, "read");
		if (n == 0 && at)
			return 0;
		r = cbx_remote_write(&c->remote, path, at, chunk, (size_t)n, executable, err);
		if (r < 0)
			return r;
		if ((size_t)n < sizeof(chunk))
			return 0;
		at += (uint64_t)n;
	}
}

static int put_dir(struct cbx_copy *c, int fd, const char *local, const char *path, unsigned depth,
		   struct cbx_err *err);

static int put_entry(struct cbx_copy *c, int dirfd, const char *dir, const char *name, const char *remote_dir,
		     unsigned depth)
{
	_cleanup_free_ char *local = cbx_xasprintf("%s/%s", dir, name);
	_cleanup_free_ char *path = cbx_xasprintf("%s/%s", remote_dir, name);
	_cleanup_fd_ int fd = -1;
	struct cbx_err err;
	struct stat st;
	int r = 0;

	if (++c->entries > CBX_COPY_ENTRIES_MAX) {
		cbx_copy_complain(c, local, "too many files: the copy ends here");
		return -E2BIG;
	}
	if (!cbx_utf8_valid(name, strlen(name))) {
		cbx_copy_complain(c, local, "skipped: the name is not UTF-8");
		return 0;
	}
	fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && errno == ELOOP) {
		cbx_copy_complain(c, local, "skipped: a symbolic link");
		return 0;
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		r = cbx_fail(&err, errno, "open");
	else if (S_ISREG(st.st_mode))
		r = put_file(c, fd, path, st.st_mode & 0100, &err);
	else if (S_ISDIR(st.st_mode))
		r = put_dir(c, fd, local, path, depth + 1, &err);
	else
		cbx_copy_complain(c, local, "skipped: not a file or directory");
	if (r < 0 && r != -E2BIG)
		cbx_copy_complain(c, local, err.msg);
	return r == -E2BIG || (r < 0 && strcmp(err.kind, "daemon_gone") == 0) ? r : 0;
}

/* A directory's contents; fd stays the caller's. */
static int put_dir(struct cbx_copy *c, int fd, const char *local, const char *path, unsigned depth, struct cbx_err *err)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *e;
	int own, r;

	if (depth > CBX_COPY_DEPTH_MAX)
		return cbx_refuse(err, "too_deep", ELOOP, "directories are nested more than %d deep; copy an inner one",
				  CBX_COPY_DEPTH_MAX);
	r = cbx_remote_mkdir(&c->remote, path, err);
	if (r < 0)
		return r;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	dir = own < 0 ? NULL : fdopendir(own);
	if (!dir) {
		r = cbx_fail(err, errno, "list");
		cbx_close_p(&own);
		return r;
	}
	while ((e = readdir(dir))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		r = put_entry(c, fd, local, e->d_name, path, depth);
		if (r < 0)
			return r == -E2BIG ? r : cbx_refuse(err, "daemon_gone", -r, "the copy is not complete");
	}
	return 0;
}

int cbx_copy_put(struct cbx_copy *c, const char *src, const char *path, bool into, struct cbx_err *err)
{
	_cleanup_free_ char *name = cbx_copy_basename(src), *target = NULL;
	_cleanup_fd_ int fd = -1;
	struct stat st;
	int r;

	fd = open(src, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "%s", src);
	target = into && name ? cbx_xasprintf("%s/%s", path, name) : cbx_xstrdup(path);
	if (S_ISDIR(st.st_mode)) {
		if (!c->recursive)
			return cbx_refuse(err, "is_directory", EISDIR, "%s is a directory; use -r to copy it", src);
		r = put_dir(c, fd, src, target, 0, err);
	} else {
		r = put_file(c, fd, target, st.st_mode & 0100, err);
	}
	if (r == -E2BIG)
		return 0;
	return r < 0 ? cbx_wrap(err, "%s", src) : 0;
}
