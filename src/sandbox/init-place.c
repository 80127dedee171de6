/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-init puts one entry of an archive into a directory. The way from there to the entry
 * leads through directories alone, opened one in another, so that no link of the archive, and none that was there
 * before, leads it elsewhere. A file was written beside its place, under a name of its own, and gets place, mode and
 * time here, at once: nobody sees half of it.
 */
#include "sandbox/init-place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define MODE 01777

/* Where an entry is to be. */
struct place {
	int dir;	/* owned */
	char name[256]; /* in it */
};

/* The directory `name` in `dir`, which is made if that is said; or -errno. */
static int step_into(int dir, const char *name, bool make)
{
	int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, fd = openat(dir, name, flags);

	if (fd < 0 && errno == ENOENT && make && (mkdirat(dir, name, 0755) == 0 || errno == EEXIST))
		fd = openat(dir, name, flags);
	return fd < 0 ? -errno : fd;
}

/* Down from a directory to what is above the last part of a path. 0 or -errno; ret->dir is to be closed in any case. */
static int walk(const char *top, const char *path, bool make, struct place *ret)
{
	ret->dir = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir < 0)
		return -errno;
	for (;;) {
		size_t n = strcspn(path, "/");
		int next;

		if (n >= sizeof(ret->name))
			return -ENAMETOOLONG;
		snprintf(ret->name, sizeof(ret->name), "%.*s", (int)n, path);
		if (!n || strcmp(ret->name, ".") == 0 || strcmp(ret->name, "..") == 0)
			return -EINVAL;
		if (!path[n])
			return 0;
		next = step_into(ret->dir, ret->name, make);
		if (next < 0)
			return next;
		close(ret->dir);
		ret->dir = next;
		path += n + 1;
	}
}

static int set_time(const struct place *at, const char *name, int64_t ns)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { ns / 1000000000, ns % 1000000000 } };

	return utimensat(at->dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* One that is there stays, with what it has. */
static int place_directory(const struct place *at, mode_t mode)
{
	struct stat st;

	if (mkdirat(at->dir, at->name, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -EEXIST;
	if ((st.st_mode & 07777) == mode)
		return 0;
	return fchmodat(at->dir, at->name, mode, 0) < 0 ? -errno : 0;
}

/* `from` stands beside it. */
static int place_file(const struct place *at, const char *from, mode_t mode, int64_t ns)
{
	int r;

	if (strchr(from, '/'))
		return -EINVAL;
	if (fchmodat(at->dir, from, mode, 0) < 0)
		return -errno;
	r = set_time(at, from, ns);
	return r < 0 ? r : renameat(at->dir, from, at->dir, at->name) < 0 ? -errno : 0;
}

/* What stands there and is not a directory gives way. */
static int make_way(const struct place *at)
{
	return unlinkat(at->dir, at->name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static int place_symlink(const struct place *at, const char *target, int64_t ns)
{
	int r = make_way(at);

	if (r == 0 && symlinkat(target, at->dir, at->name) < 0)
		r = -errno;
	return r < 0 ? r : set_time(at, at->name, ns);
}

/* Another name of what is at a path in the same directory. */
static int place_name(const char *top, const struct place *at, const char *path)
{
	struct place old = { .dir = -1 };
	struct stat st, other;
	int r = walk(top, path, false, &old);

	if (r == 0 && fstatat(old.dir, old.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0 && fstatat(at->dir, at->name, &other, AT_SYMLINK_NOFOLLOW) == 0 && other.st_ino == st.st_ino &&
	    other.st_dev == st.st_dev) {
		close(old.dir);
		return 0; /* it has that name */
	}
	if (r == 0)
		r = make_way(at);
	if (r == 0 && linkat(old.dir, old.name, at->dir, at->name, 0) < 0)
		r = -errno;
	cbx_close_p(&old.dir);
	return r;
}

void cbx_init_place(const struct cbx_init_header *h, const char *top, const char *data, size_t n,
		    struct cbx_init_header *a)
{
	const char *nul = memchr(data, '\0', n), *other = nul ? nul + 1 : NULL;
	mode_t mode = (mode_t)h->value & MODE;
	int64_t ns = (int64_t)h->arg;
	struct place at = { .dir = -1 };

	if (!nul || !memchr(other, '\0', n - (size_t)(other - data)) || ns < 0) {
		a->value = -EINVAL;
		return;
	}
	a->value = walk(top, data, true, &at);
	if (a->value == 0 && (h->value & CBX_INIT_PLACE_NAME))
		a->value = place_name(top, &at, other);
	else if (a->value == 0 && S_ISDIR(h->value))
		a->value = place_directory(&at, mode);
	else if (a->value == 0 && S_ISREG(h->value))
		a->value = place_file(&at, other, mode, ns);
	else if (a->value == 0 && S_ISLNK(h->value))
		a->value = place_symlink(&at, other, ns);
	cbx_close_p(&at.dir);
}
