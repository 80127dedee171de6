/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the session is hostile, and so are the names in its directories. A name from it is used only as
 * one component, below a directory descriptor, with openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS); a name that is not
 * a single component is refused. A file is written under a temporary name of ours, made with O_EXCL, and then renamed,
 * so an existing symbolic link is replaced and never followed. Symbolic links and special files of the session are not
 * copied at all.
 *
 * A sparse file of 16 GiB costs a session nothing: blocks of zeros stay holes here. A file that grows while it is read
 * ends where it ended when the copy began.
 *
 * The path that the user typed as destination is the user's own: it is followed like any other.
 */
#include "cli/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "cli/cli.h"
#include "client/protocol.h"

#define BENEATH	     (0x08 /* RESOLVE_BENEATH */ | 0x04 /* RESOLVE_NO_SYMLINKS */ | 0x02 /* RESOLVE_NO_MAGICLINKS */)
#define SIZELESS_MAX MIB(64) /* what is read of a file that says it is empty, as those of /proc do */

void cbx_copy_complain(struct cbx_copy *c, const char *name, const char *what)
{
	cbx_cli_say("%s: %s", name, what);
	c->errors++;
}

char *cbx_copy_basename(const char *path)
{
	size_t end = strlen(path), start;
	char *name;

	while (end && path[end - 1] == '/')
		end--;
	start = end;
	while (start && path[start - 1] != '/')
		start--;
	name = cbx_xasprintf("%.*s", (int)(end - start), path + start);
	if (name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
		return name;
	free(name);
	return NULL;
}

static bool component(const char *name)
{
	return name[0] && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strchr(name, '/') &&
	       strlen(name) <= 255;
}

static bool all_zero(const char *p, size_t n)
{
	return n && p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* The file's bytes into fd; seekable: with holes. */
static int fetch(struct cbx_copy *c, const char *path, uint64_t size, int fd, bool seekable, struct cbx_err *err)
{
	uint64_t limit = size ? size : SIZELESS_MAX, at = 0;
	bool eof = false;
	int r = 0;

	while (!eof && at < limit) {
		_cleanup_buf_ struct cbx_buf chunk = { 0 };
		size_t n;

		r = cbx_remote_read(&c->remote, path, at, &chunk, &eof, err);
		if (r < 0)
			return r;
		n = chunk.len < limit - at ? chunk.len : (size_t)(limit - at);
		if (seekable && all_zero(chunk.data, n))
			r = lseek(fd, (off_t)n, SEEK_CUR) < 0 ? -errno : 0;
		else
			r = cbx_write_all(fd, cbx_buf_str(&chunk), n);
		if (r < 0)
			return cbx_fail(err, -r, "write");
		at += n;
	}
	if (seekable && ftruncate(fd, (off_t)at) < 0)
		return cbx_fail(err, errno, "write");
	return 0;
}

static int give_name(int fd, int dirfd, const char *temp, const char *name, bool *named, struct cbx_err *err)
{
	char self[40];

	if (!*named) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
		if (linkat(AT_FDCWD, self, dirfd, temp, AT_SYMLINK_FOLLOW) < 0)
			return cbx_fail(err, errno, "make the file");
		*named = true;
	}
	return renameat(dirfd, temp, dirfd, name) < 0 ? cbx_fail(err, errno, "make the file") : 0;
}

/* A regular file `name` in dirfd, complete or not at all. */
static int get_file(struct cbx_copy *c, const char *path, const struct cbx_remote_stat *st, int dirfd, const char *name,
		    struct cbx_err *err)
{
	mode_t mode = (st->mode & 0777) | 0600;
	char temp[32] = ".codebox-";
	_cleanup_fd_ int fd = -1;
	struct stat there = { 0 };
	bool named = false;
	int r;

	if (fstatat(dirfd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(there.st_mode))
		return cbx_refuse(err, "is_directory", EISDIR,
				  "a directory is in its place; remove it, or copy to another place");
	cbx_random_name(temp + strlen(temp), 16);
	/* Without a name until it is complete, where the file system can: then a killed copy leaves nothing. */
	fd = openat(dirfd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
	if (fd < 0) {
		fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		named = true;
	}
	if (fd < 0)
		return cbx_fail(err, errno, "make a file");
	r = fetch(c, path, st->size, fd, true, err);
	if (r >= 0 && S_ISREG(there.st_mode) && fchmod(fd, there.st_mode & 0777) < 0)
		r = cbx_fail(err, errno, "keep the file's mode");
	if (r >= 0)
		r = give_name(fd, dirfd, temp, name, &named, err);
	if (r < 0 && named)
		(void)unlinkat(dirfd, temp, 0);
	return r;
}

static int get_dir(struct cbx_copy *c, const char *path, int dirfd, unsigned depth, struct cbx_err *err);

/* One entry of a session's directory; only errors of the connection end the whole copy. */
static int get_entry(struct cbx_copy *c, const char *dir, const cJSON *entry, int dirfd, unsigned depth)
{
	const char *name = cbx_json_str(entry, "name");
	_cleanup_free_ char *path = cbx_xasprintf("%s/%s", dir, name);
	struct cbx_remote_stat st;
	_cleanup_fd_ int sub = -1;
	struct cbx_err err;
	int r = 0;

	if (!component(name)) {
		cbx_copy_complain(c, path, "skipped: not the name of a file");
		return 0;
	}
	if (++c->entries > CBX_COPY_ENTRIES_MAX) {
		cbx_copy_complain(c, path, "too many files: the copy ends here");
		return -E2BIG;
	}
	cbx_remote_parse_stat(entry, &st);
	if (st.type == CBX_REMOTE_FILE) {
		r = get_file(c, path, &st, dirfd, name, &err);
	} else if (st.type == CBX_REMOTE_DIRECTORY) {
		if (mkdirat(dirfd, name, 0777) < 0 && errno != EEXIST)
			r = cbx_fail(&err, errno, "make a directory");
		if (r >= 0) {
			sub = cbx_openat2(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, BENEATH);
			r = sub < 0 ? cbx_fail(&err, errno, "open the directory")
				    : get_dir(c, path, sub, depth + 1, &err);
		}
	} else {
		cbx_copy_complain(c, path,
				  st.type == CBX_REMOTE_SYMLINK ? "skipped: a symbolic link"
								: "skipped: not a file or directory");
	}
	if (r < 0 && r != -E2BIG)
		cbx_copy_complain(c, path, err.msg);
	return r == -E2BIG || (r < 0 && strcmp(err.kind, "daemon_gone") == 0) ? r : 0;
}

/* The contents of a session's directory into dirfd. */
static int get_dir(struct cbx_copy *c, const char *path, int dirfd, unsigned depth, struct cbx_err *err)
{
	uint64_t skip = 0;
	bool more = true;

	if (depth > CBX_COPY_DEPTH_MAX)
		return cbx_refuse(err, "too_deep", ELOOP, "directories are nested more than %d deep; copy an inner one",
				  CBX_COPY_DEPTH_MAX);
	while (more) {
		_cleanup_json_ cJSON *entries = NULL;
		const cJSON *entry;
		int r = cbx_remote_list(&c->remote, path, skip, &entries, &more, err);

		if (r < 0)
			return r;
		if (cJSON_GetArraySize(entries) == 0)
			break;
		cJSON_ArrayForEach(entry, entries) {
			r = get_entry(c, path, entry, dirfd, depth);
			if (r < 0)
				return r == -E2BIG ? r : cbx_refuse(err, "daemon_gone", -r, "the copy is not complete");
		}
		skip += (uint64_t)cJSON_GetArraySize(entries);
	}
	return 0;
}

static int get_top_dir(struct cbx_copy *c, const char *path, const char *target, struct cbx_err *err)
{
	_cleanup_fd_ int fd = -1;
	int r;

	if (!c->recursive)
		return cbx_refuse(err, "is_directory", EISDIR, "%s is a directory; use -r to copy it", path);
	if (mkdir(target, 0777) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make directory %s", target);
	fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return cbx_fail(err, errno, "open directory %s", target);
	r = get_dir(c, path, fd, 0, err);
	return r == -E2BIG ? 0 : r;
}

static int get_top_file(struct cbx_copy *c, const char *path, const struct cbx_remote_stat *st, const char *target,
			struct cbx_err *err)
{
	_cleanup_free_ char *real = NULL, *dir = NULL, *name = NULL;
	_cleanup_fd_ int fd = -1;
	struct stat there, out;
	char *slash;
	int r;

	if (stat(target, &there) == 0) {
		/* /dev/stdout. A file that it was redirected to is written where it is, and not replaced. */
		if (fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == there.st_dev && out.st_ino == there.st_ino)
			return fetch(c, path, st->size, STDOUT_FILENO, false, err);
		if (!S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)) {
			/* A pipe or device. */
			fd = open(target, O_WRONLY | O_CLOEXEC);
			return fd < 0 ? cbx_fail(err, errno, "open %s", target)
				      : fetch(c, path, st->size, fd, false, err);
		}
		real = realpath(target, NULL); /* a link that the user named is followed */
		if (!real)
			return cbx_fail(err, errno, "%s", target);
	}
	dir = cbx_xstrdup(real ? real : target);
	name = cbx_copy_basename(dir);
	if (!name || cbx_ends_with(target, "/"))
		return cbx_refuse(err, "not_found", ENOENT, "%s: there is no such directory; make it first", target);
	slash = strrchr(dir, '/');
	if (slash)
		slash[slash == dir] = '\0';
	fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return cbx_fail(err, errno, "open directory %s", slash ? dir : ".");
	r = get_file(c, path, st, fd, name, err);
	return r < 0 ? cbx_wrap(err, "%s", target) : 0;
}

int cbx_copy_get(struct cbx_copy *c, const char *path, const char *dst, bool into, struct cbx_err *err)
{
	_cleanup_free_ char *name = cbx_copy_basename(path), *target = NULL;
	struct cbx_remote_stat st;
	int r = cbx_remote_stat(&c->remote, path, &st, err);

	if (r < 0)
		return r;
	target = into && name ? cbx_xasprintf("%s/%s", dst, name) : cbx_xstrdup(dst);
	switch (st.type) {
	case CBX_REMOTE_FILE:
		return get_top_file(c, path, &st, target, err);
	case CBX_REMOTE_DIRECTORY:
		return get_top_dir(c, path, target, err);
	case CBX_REMOTE_SYMLINK:
	case CBX_REMOTE_OTHER:
		break;
	}
	return cbx_refuse(err, "not_a_file", EINVAL, "%s is neither a file nor a directory; name one that is", path);
}
