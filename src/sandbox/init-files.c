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
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/remove.h"
#include "sandbox/init-place.h"

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

static void read_link(const char *path, struct cbx_init_header *a, char *out)
{
	ssize_t n = readlink(path, out, OUT_MAX);

	a->value = n < 0 ? -errno : n;
	a->len = n > 0 ? (uint32_t)n : 0;
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

/* The path of a request as it is here: one that is relative is so to the workspace. */
static int whole_path(const char *p, size_t room, char out[static 4096])
{
	size_t n = strnlen(p, room);

	if (n == room || n == 0)
		return -EINVAL;
	if (n > 4096 - 16)
		return -ENAMETOOLONG;
	snprintf(out, 4096, "%s%s", p[0] == '/' ? "" : "/workspace/", p);
	return (int)n;
}

/* renameat2, which musl does not have. */
static int rename_new(const char *from, const char *to)
{
	unsigned no_replace = 1; /* RENAME_NOREPLACE */

	return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, no_replace) < 0 ? -errno : 0;
}

static void rename_file(const char *from, const char *data, size_t n, struct cbx_init_header *a)
{
	char to[4096];
	int r = whole_path(data, n, to);

	a->value = r < 0 ? r : rename_new(from, to);
}

void cbx_init_file(const struct cbx_init_header *h, const char *data, struct cbx_init_header *a, char *out)
{
	char path[4096];
	int n = whole_path(data, h->len, path);

	if (n < 0) {
		a->value = n;
		return;
	}
	switch (h->type) {
	case CBX_INIT_READ:
		read_file(h, path, a, out);
		break;
	case CBX_INIT_WRITE:
		write_file(h, path, data + n + 1, h->len - (size_t)n - 1, a);
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
		a->value = cbx_remove_tree(AT_FDCWD, path, CBX_REMOVE_ENTRIES);
		break;
	case CBX_INIT_RENAME:
		rename_file(path, data + n + 1, h->len - (size_t)n - 1, a);
		break;
	case CBX_INIT_READLINK:
		read_link(path, a, out);
		break;
	case CBX_INIT_PLACE:
		cbx_init_place(h, path, data + n + 1, h->len - (size_t)n - 1, a);
		break;
	case CBX_INIT_SCAN:
		cbx_init_scan(h, path, a, out);
		break;
	default:
		a->value = -EINVAL;
		break;
	}
}
