/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the new text goes to a temporary file in the same directory, which is then renamed over the old
 * one. A symbolic link is followed first, since renaming over it would replace the link and leave the file that is kept
 * elsewhere (dotfiles in a repository) as it was. Just before the rename the file is looked at again: clients rewrite
 * their configuration while they run.
 */
#include "cli/confile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

void cbx_confile_release(struct cbx_confile *f)
{
	free(f->path);
	cbx_buf_release(&f->text);
	memset(f, 0, sizeof(*f));
}

char *cbx_confile_backup_path(const struct cbx_confile *f)
{
	return cbx_xasprintf("%s.codebox-backup", f->path);
}

int cbx_confile_read(struct cbx_confile *f, const char *path, struct cbx_err *err)
{
	_cleanup_fd_ int fd = -1;
	struct stat st;
	ssize_t n;

	memset(f, 0, sizeof(*f));
	f->path = realpath(path, NULL);
	if (!f->path) {
		if (errno != ENOENT)
			return cbx_fail(err, errno, "%s", path);
		if (lstat(path, &st) == 0)
			return cbx_refuse(
				err, "dangling_link", ENOENT,
				"%s is a symbolic link to a file that is not there; make that file, or remove the link",
				path);
		f->path = cbx_xstrdup(path);
		return 0;
	}
	/* Not O_RDONLY on whatever is there: opening a FIFO would wait for its writer. */
	fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return cbx_fail(err, errno, "%s", f->path);
	if (fstat(fd, &f->st) < 0)
		return cbx_fail(err, errno, "%s", f->path);
	if (!S_ISREG(f->st.st_mode))
		return cbx_refuse(err, "wrong_type", EINVAL, "%s is not a regular file; move it away", f->path);
	if ((uint64_t)f->st.st_size > CBX_CONFILE_MAX)
		return cbx_refuse(err, "too_long", EFBIG,
				  "%s is longer than %u MiB; use --print, and add the entry yourself", f->path,
				  CBX_CONFILE_MAX >> 20);
	n = cbx_read_full(fd, cbx_buf_reserve(&f->text, (size_t)f->st.st_size + 1), (size_t)f->st.st_size + 1);
	if (n < 0)
		return cbx_fail(err, (int)-n, "%s", f->path);
	if (n != f->st.st_size)
		return cbx_refuse(err, "changed", EAGAIN, "another program is writing %s; try again", f->path);
	f->text.len = (size_t)n;
	f->text.data[n] = '\0';
	f->exists = true;
	return 0;
}

static bool unchanged(const struct cbx_confile *f)
{
	struct stat st;

	if (lstat(f->path, &st) < 0)
		return !f->exists && errno == ENOENT;
	return f->exists && st.st_dev == f->st.st_dev && st.st_ino == f->st.st_ino && st.st_size == f->st.st_size &&
	       st.st_mtim.tv_sec == f->st.st_mtim.tv_sec && st.st_mtim.tv_nsec == f->st.st_mtim.tv_nsec;
}

/* Write a temporary file beside `path`; *ret_tmp is its name. */
static int write_beside(const struct cbx_confile *f, const char *path, const char *text, size_t len, char **ret_tmp,
			struct cbx_err *err)
{
	_cleanup_free_ char *tmp = NULL;
	_cleanup_fd_ int fd = -1;
	char name[17];
	int r = 0;

	cbx_random_name(name, sizeof(name) - 1);
	tmp = cbx_xasprintf("%s.%s.tmp", path, name);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return cbx_fail(err, errno, "make %s", tmp);
	/* The owner first: chown takes mode bits away. */
	if (f->exists && (f->st.st_uid != geteuid() || f->st.st_gid != getegid()) &&
	    fchown(fd, f->st.st_uid, f->st.st_gid) < 0)
		r = cbx_fail(err, errno, "give %s the owner of %s", tmp, f->path);
	if (r == 0 && f->exists && fchmod(fd, f->st.st_mode & 07777) < 0)
		r = cbx_fail(err, errno, "give %s the mode of %s", tmp, f->path);
	if (r == 0) {
		r = cbx_write_all(fd, text, len);
		if (r == 0 && fsync(fd) < 0)
			r = -errno;
		if (r < 0)
			cbx_fail(err, -r, "write %s", tmp);
	}
	if (r < 0)
		unlink(tmp);
	else
		*ret_tmp = take_ptr(&tmp);
	return r;
}

static int put(const struct cbx_confile *f, const char *path, const char *text, size_t len, bool watch,
	       struct cbx_err *err)
{
	_cleanup_free_ char *tmp = NULL;
	int r = write_beside(f, path, text, len, &tmp, err);

	if (r < 0)
		return r;
	if (watch && !unchanged(f))
		r = cbx_refuse(err, "changed", EAGAIN, "another program changed %s just now; try again", f->path);
	else if (rename(tmp, path) < 0)
		r = cbx_fail(err, errno, "rename %s to %s", tmp, path);
	if (r < 0)
		unlink(tmp);
	return r;
}

int cbx_confile_replace(struct cbx_confile *f, const char *text, size_t len, struct cbx_err *err)
{
	_cleanup_free_ char *backup = cbx_confile_backup_path(f), *dir = cbx_xstrdup(f->path);
	_cleanup_fd_ int fd = -1;
	int r;

	/* A rename needs no permission on the file itself; one that its owner made read-only is to stay as it is. */
	if (f->exists && (!(f->st.st_mode & 0222) || access(f->path, W_OK) < 0))
		return cbx_refuse(err, "read_only", EACCES, "%s is read-only; make it writable, or use --print",
				  f->path);
	if (f->exists) {
		r = put(f, backup, f->text.data, f->text.len, false, err);
		if (r < 0)
			return r;
	}
	r = put(f, f->path, text, len, true, err);
	if (r < 0)
		return r;
	strrchr(dir, '/')[1] = '\0';
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		(void)fsync(fd);
	return 0;
}
