/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/copies.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static int copy_file(int in_dir, int out_dir, const char *name, mode_t mode, struct cbx_err *err)
{
	_cleanup_fd_ int in = openat(in_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), out = -1;
	char chunk[16384];
	ssize_t n;

	if (in < 0)
		return cbx_fail(err, errno, "open %s", name);
	out = openat(out_dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode & 0111 ? 0755 : 0644);
	if (out < 0)
		return cbx_fail(err, errno, "make %s", name);
	while ((n = cbx_read_full(in, chunk, sizeof(chunk))) > 0) {
		int r = cbx_write_all(out, chunk, (size_t)n);

		if (r < 0)
			return cbx_fail(err, -r, "write %s", name);
	}
	return n < 0 ? cbx_fail(err, (int)-n, "read %s", name) : 0;
}

int cbx_copy_tree(int in_dir, const char *name, int out_dir, struct cbx_err *err)
{
	_cleanup_fd_ int to = openat(out_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = openat(in_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
	__attribute__((cleanup(close_dir))) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir || to < 0)
		return cbx_fail(err, errno, "open %s", name);
	while (r == 0 && (errno = 0, d = readdir(dir))) {
		_cleanup_fd_ int below = -1;
		struct stat st;

		if (d->d_name[0] == '.')
			continue;
		if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return cbx_fail(err, errno, "look at %s", d->d_name);
		if (S_ISREG(st.st_mode)) {
			r = copy_file(fd, to, d->d_name, st.st_mode, err);
		} else if (S_ISDIR(st.st_mode)) {
			if (mkdirat(to, d->d_name, 0755) < 0 ||
			    (below = openat(to, d->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
				return cbx_fail(err, errno, "make %s", d->d_name);
			r = cbx_copy_tree(fd, d->d_name, below, err);
		}
	}
	return r < 0 ? r : errno ? cbx_fail(err, errno, "read %s", name) : 0;
}
