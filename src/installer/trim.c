/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: all that is in the store is counted, and what was used longest ago goes until the rest fits. A
 * wheel that a session has would give no room back, so it stays: its files have other links. What goes loses its name
 * first, so that what has one is whole.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/remove.h"
#include "base/str.h"
#include "installer/installer.h"

#define DEPTH_MAX 64
#define BLOCK	  4096u

struct kept {
	char path[160]; /* below the store */
	uint64_t bytes;
	time_t used;
	bool wanted; /* by a session */
};

struct kept_list {
	struct kept *all;
	size_t n, room;
	uint64_t bytes;
};

static void measure(int dir, const char *name, unsigned depth, struct kept *k)
{
	_cleanup_closedir_ DIR *d = NULL;
	const struct dirent *e;
	struct stat st;
	int fd;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	k->bytes += ((uint64_t)st.st_size / BLOCK + 1) * BLOCK; /* what is empty takes room, too */
	k->wanted |= S_ISREG(st.st_mode) && st.st_nlink > 1;
	if (!S_ISDIR(st.st_mode) || depth > DEPTH_MAX)
		return;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			measure(fd, e->d_name, depth + 1, k);
}

static int list(int all, const char *what, struct kept_list *l, struct cbx_err *err)
{
	int fd = openat(all, what, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d)
		return cbx_fail(err, errno, "count what is in the store of packages");
	while ((e = readdir(d))) {
		struct kept k = { 0 };
		struct stat st;

		if (e->d_name[0] == '.' || strlen(e->d_name) >= sizeof(k.path) - 2 ||
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		snprintf(k.path, sizeof(k.path), "%s/%.*s", what, (int)sizeof(k.path) - 3, e->d_name);
		k.used = st.st_mtime;
		measure(fd, e->d_name, 0, &k);
		if (l->n == l->room) {
			l->room = l->room ? 2 * l->room : 256;
			l->all = cbx_xrealloc(l->all, l->room * sizeof(*l->all));
		}
		l->all[l->n++] = k;
		l->bytes += k.bytes;
	}
	return 0;
}

static int by_use(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return x->used < y->used ? -1 : x->used > y->used;
}

bool cbx_store_drop(const struct cbx_store_dirs *store, const char *path)
{
	char random[13], temporary[40], noted[160];

	cbx_random_name(random, 12);
	snprintf(temporary, sizeof(temporary), "t/%s", random);
	if (renameat(store->all, path, store->own, temporary) < 0)
		return errno == ENOENT; /* another process trims, too */
	snprintf(noted, sizeof(noted), "m/%.150s", path + 2);
	(void)unlinkat(store->all, noted, 0);
	return cbx_remove_tree(store->own, temporary, CBX_REMOVE_MAX) >= 0;
}

static int trim(const struct cbx_store_dirs *store, bool wheels, uint64_t max, struct cbx_err *err)
{
	struct kept_list l = { 0 };
	int r = wheels ? list(store->all, "w", &l, err) : 0;

	if (r >= 0)
		r = list(store->all, "c", &l, err);
	if (r >= 0 && l.n)
		qsort(l.all, l.n, sizeof(*l.all), by_use);
	for (size_t i = 0; r >= 0 && i < l.n && l.bytes > max; i++)
		if (!l.all[i].wanted && cbx_store_drop(store, l.all[i].path))
			l.bytes -= l.all[i].bytes;
	free(l.all);
	return r;
}

int cbx_store_trim(const struct cbx_store_dirs *store, uint64_t max, struct cbx_err *err)
{
	return trim(store, true, max, err);
}

int cbx_cache_trim(const struct cbx_store_dirs *store, uint64_t max, struct cbx_err *err)
{
	return trim(store, false, max, err);
}
