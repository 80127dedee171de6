/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-init's file requests. Every path is resolved here, inside the sandbox, by a process with
 * the session's user and nothing more: links, mounts and races of a session can only lead to what the session could
 * open itself. What is left to guard against is waiting: opens are non-blocking, and only regular files are read or
 * written.
 */
#include "sandbox/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/limits.h"

#define OUT_MAX (CBX_INIT_MAX - sizeof(struct cbx_init_header))

/* A regular file, or -errno. Those of /proc only look like one: reading some of them waits for another process. */
static int open_regular(const char *path, int flags, mode_t mode, struct stat *st)
{
	int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode), code;
	struct statfs fs;

	if (fd < 0)
		return -errno;
	if (fstat(fd, st) < 0)
		code = errno;
	else if (S_ISREG(st->st_mode) && (fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC))
		return fd;
	else
		code = S_ISDIR(st->st_mode) ? EISDIR : EINVAL;
	close(fd);
	return -code;
}

static void read_file(const struct cbx_init_header *h, const char *path, struct cbx_init_header *a, char *out)
{
	size_t want = h->value < 0 || (uint64_t)h->value > OUT_MAX ? OUT_MAX : (size_t)h->value;
	struct stat st;
	int fd = open_regular(path, O_RDONLY, 0, &st);
	ssize_t n;

	if (fd < 0) {
		a->value = fd;
		return;
	}
	n = h->arg > INT64_MAX ? 0 : pread(fd, out, want, (off_t)h->arg);
	a->value = n < 0 ? -errno : n;
	a->len = n > 0 ? (uint32_t)n : 0;
	a->arg = (uint64_t)st.st_size;
	close(fd);
}

/* Directories above the last part. Returns 0, or why the last one that is missing could not be made. */
static int make_parents(const char *path)
{
	char part[4096];
	int r = 0;

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			r = -errno;
	}
	return r;
}

static void write_file(const struct cbx_init_header *h, const char *path, const char *data, size_t n,
		       struct cbx_init_header *a)
{
	mode_t mode = h->value & CBX_INIT_WRITE_EXECUTABLE ? 0755 : 0644;
	struct stat st;
	size_t done = 0;
	int parents = make_parents(path), fd = open_regular(path, O_WRONLY | O_CREAT, mode, &st);

	if (fd < 0) {
		a->value = fd == -ENOENT && parents < 0 ? parents : fd;
		return;
	}
	if ((h->value & CBX_INIT_WRITE_TRUNCATE) && ftruncate(fd, 0) < 0)
		a->value = -errno;
	if ((h->value & CBX_INIT_WRITE_EXECUTABLE) && fchmod(fd, mode) < 0)
		a->value = -errno;
	while (a->value == 0 && done < n) {
		off_t at = h->arg == UINT64_MAX ? lseek(fd, 0, SEEK_END) : (off_t)(h->arg + done);
		ssize_t w = at < 0 ? -1 : pwrite(fd, data + done, n - done, at);

		if (w < 0)
			a->value = -errno;
		else
			done += (size_t)w;
	}
	if (a->value == 0)
		a->value = (int64_t)done;
	close(fd);
}

static void fill_stat(const struct stat *st, struct cbx_init_stat *out)
{
	memset(out, 0, sizeof(*out));
	out->mode = st->st_mode;
	out->size = (uint64_t)st->st_size;
	out->mtime_ns = st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec;
}

static void stat_file(const char *path, struct cbx_init_header *a, char *out)
{
	struct cbx_init_stat s;
	struct stat st;

	if (lstat(path, &st) < 0) {
		a->value = -errno;
		return;
	}
	fill_stat(&st, &s);
	memcpy(out, &s, sizeof(s));
	a->len = sizeof(s);
}

static void list_dir(const struct cbx_init_header *h, const char *path, struct cbx_init_header *a, char *out)
{
	DIR *d = opendir(path);
	uint64_t seen = 0;
	struct dirent *e;

	if (!d) {
		a->value = -errno;
		return;
	}
	while ((e = readdir(d))) {
		size_t name = strlen(e->d_name), len = (sizeof(struct cbx_init_entry) + name + 1 + 7) & ~(size_t)7;
		struct cbx_init_entry entry = { 0 };
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || seen++ < h->arg)
			continue;
		if (a->len + len > OUT_MAX) {
			a->arg = 1;
			break;
		}
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue; /* gone in the meantime */
		fill_stat(&st, &entry.st);
		entry.name_len = (uint32_t)name;
		entry.entry_len = (uint32_t)len;
		memset(out + a->len, 0, len);
		memcpy(out + a->len, &entry, sizeof(entry));
		memcpy(out + a->len + sizeof(entry), e->d_name, name);
		a->len += (uint32_t)len;
		a->value++;
	}
	closedir(d);
}

static void make_dir(const char *path, struct cbx_init_header *a)
{
	struct stat st;

	make_parents(path);
	if (mkdir(path, 0755) < 0)
		a->value = errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : -errno;
}

/* ---- removing a tree ---- */

/*
 * A tree may be deeper than descriptors or the stack reach. So nothing recurses: a directory that is not empty is moved
 * up into the top one under a number, and the top one is gone through until nothing is left in it.
 *
 * Where the kernel lets no directory change its parent (EXDEV: the first version of Landlock, and some file systems),
 * directories are emptied where they are, and only so deep.
 */
struct removal {
	int top;
	bool in_place;
	unsigned long count, number;
};

/* Returns 1 for a directory that is to be emptied where it is. */
static int remove_entry(struct removal *r, int dir, const char *name)
{
	char moved[40];
	int code;

	if (++r->count > CBX_REMOVE_ENTRIES)
		return -EBUSY;
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	/* It must be writable to be emptied, and to be moved, which changes its "..". One of another owner stays as it
	 * is: where that is not enough, what needs it says so. */
	(void)!fchmodat(dir, name, 0700, 0);
	if (dir == r->top || r->in_place)
		return 1;
	do {
		snprintf(moved, sizeof(moved), ".codebox-remove-%lu", r->number++);
		code = syscall(SYS_renameat2, dir, name, r->top, moved, 1 /* RENAME_NOREPLACE */) < 0 ? errno : 0;
	} while (code == EEXIST);
	r->in_place = code == EXDEV;
	return r->in_place ? 1 : -code;
}

static int empty_dir(struct removal *r, int dir, unsigned depth, unsigned long *ret_left);

static int empty_below(struct removal *r, int dir, const char *name, unsigned depth)
{
	unsigned long ignored;
	int sub, result;

	if (depth > CBX_REMOVE_DEPTH)
		return -EXDEV;
	sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sub < 0)
		return -errno;
	result = empty_dir(r, sub, depth, &ignored);
	close(sub);
	if (result == 0)
		unlinkat(dir, name, AT_REMOVEDIR); /* if something is in it again, the top one is gone through again */
	return result;
}

/* Remove what is in a directory; *ret_left counts what had to be emptied first. */
static int empty_dir(struct removal *r, int dir, unsigned depth, unsigned long *ret_left)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	*ret_left = 0;
	if (!d) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	while (result >= 0 && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		result = remove_entry(r, dir, e->d_name);
		if (result == 1) {
			result = empty_below(r, dir, e->d_name, depth + 1);
			(*ret_left)++;
		}
	}
	closedir(d);
	return result < 0 ? result : 0;
}

static int remove_tree(const char *path)
{
	struct removal r = { 0 };
	unsigned long left;
	int result;

	if (unlink(path) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (rmdir(path) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	r.top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r.top < 0)
		return -errno;
	(void)!fchmod(r.top, 0700);
	for (result = 0; result == 0;) {
		result = empty_dir(&r, r.top, 0, &left);
		if (!left)
			break;
	}
	close(r.top);
	if (result < 0)
		return result;
	return rmdir(path) < 0 ? -errno : 0;
}

void cbx_init_file(const struct cbx_init_header *h, const char *data, struct cbx_init_header *a, char *out)
{
	char path[4096];
	size_t n = strnlen(data, h->len);

	if (n == h->len || n == 0 || n > sizeof(path) - 16) {
		a->value = n > sizeof(path) - 16 ? -ENAMETOOLONG : -EINVAL;
		return;
	}
	snprintf(path, sizeof(path), "%s%s", data[0] == '/' ? "" : "/workspace/", data);
	switch (h->type) {
	case CBX_INIT_READ:
		read_file(h, path, a, out);
		break;
	case CBX_INIT_WRITE:
		write_file(h, path, data + n + 1, h->len - n - 1, a);
		break;
	case CBX_INIT_STAT:
		stat_file(path, a, out);
		break;
	case CBX_INIT_LIST:
		list_dir(h, path, a, out);
		break;
	case CBX_INIT_MKDIR:
		make_dir(path, a);
		break;
	case CBX_INIT_REMOVE:
		a->value = remove_tree(path);
		break;
	case CBX_INIT_SCAN:
		cbx_init_scan(h, path, a, out);
		break;
	default:
		a->value = -EINVAL;
		break;
	}
}
