/* SPDX-License-Identifier: Apache-2.0 */
#include "image/link.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "image/image-limits.h"

static int copy_symlink(int from, int to, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target));

	if (n < 0 || n == (ssize_t)sizeof(target))
		return n < 0 ? -errno : -ENAMETOOLONG;
	target[n] = '\0';
	return symlinkat(target, to, name) < 0 ? -errno : 0;
}

static int copy_bytes(int in, int out, uint64_t most)
{
	char chunk[65536];
	ssize_t n;
	int r = ioctl(out, FICLONE, in) == 0 ? 1 : 0;

	while (r == 0 && (n = cbx_read_full(in, chunk, sizeof(chunk))) != 0) {
		r = n < 0 ? (int)n : (uint64_t)n > most ? -EFBIG : cbx_write_all(out, chunk, (size_t)n);
		most -= r < 0 ? 0 : (uint64_t)n;
	}
	return r < 0 ? r : 0;
}

int cbx_copy_privately(int from, int dir, int *ret)
{
	_cleanup_fd_ int out = openat(dir, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	struct stat st;
	int r;

	if (fstat(from, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > CBX_UNPACK_BYTES_MAX) /* before a hole is read */
		return -EFBIG;
	if (out < 0) { /* not every file system has nameless files */
		out = openat(dir, "copy", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (out < 0)
			return -errno;
		(void)unlinkat(dir, "copy", 0);
	}
	r = copy_bytes(from, out, CBX_UNPACK_BYTES_MAX);
	if (r == 0 && lseek(out, 0, SEEK_SET) < 0)
		r = -errno;
	if (r == 0)
		*ret = take_fd(&out);
	return r;
}

static int copy_file(int from, int to, const char *name, const struct stat *st)
{
	/* Python compares a source's time with that of what was compiled from it. */
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	_cleanup_fd_ int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	_cleanup_fd_ int out =
		in < 0 ? -1 : openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = out < 0 ? -errno : copy_bytes(in, out, CBX_UNPACK_FILE_MAX);

	if (r == 0 && (fchmod(out, st->st_mode & 0111 ? 0755 : 0644) < 0 || futimens(out, times) < 0))
		r = -errno;
	return r;
}

static bool cannot_link(int code)
{
	return code == EXDEV || code == EMLINK || code == EPERM || code == EOPNOTSUPP || code == ENOSYS;
}

int cbx_link_file(int from, int to, const char *name, const struct stat *st)
{
	/* Without AT_SYMLINK_FOLLOW: a link to a link is the link itself. */
	if (linkat(from, name, to, name, 0) == 0)
		return 0;
	if (!cannot_link(errno))
		return -errno;
	return S_ISLNK(st->st_mode) ? copy_symlink(from, to, name) : copy_file(from, to, name, st);
}
