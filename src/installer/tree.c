/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: for each tree of the store there is a file of two sums, which are written when the tree is
 * unpacked: one of the files' contents, and one of what stat(2) says of them. A tree whose second sum is the same was
 * not changed by any program that writes to files as programs do, and to find that out takes as long as to list it.
 * Else, and once a day in any case, the contents decide. The time of a file's last change of status is not part of it:
 * each session that gets a link to the file, or ends, changes it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "installer/installer.h"

#define DEPTH_MAX 64

struct sums {
	uint8_t stats[SHA256_DIGEST_SIZE], contents[SHA256_DIGEST_SIZE];
};

struct walk {
	struct sha256_ctx stats, contents;
	bool read;	  /* the contents, too */
	uint64_t entries; /* so far */
};

static void add(struct sha256_ctx *c, const void *p, size_t n)
{
	sha256_update(c, n, p);
}

static int add_file(struct walk *w, int dir, const char *name, const struct stat *st)
{
	const uint64_t is[] = { st->st_ino, (uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec,
				(uint64_t)st->st_mtim.tv_nsec, st->st_mode };
	const uint64_t holds[] = { (uint64_t)st->st_size, st->st_mode };
	uint8_t chunk[65536];
	_cleanup_fd_ int fd = -1;
	ssize_t n;

	add(&w->stats, is, sizeof(is));
	if (!w->read)
		return 0;
	add(&w->contents, holds, sizeof(holds));
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while ((n = cbx_read_full(fd, chunk, sizeof(chunk))) > 0)
		add(&w->contents, chunk, (size_t)n);
	return (int)n;
}

static int add_link(struct walk *w, int dir, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));

	if (n < 0)
		return -errno;
	add(&w->stats, target, (size_t)n);
	add(&w->contents, target, (size_t)n);
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct names {
	char **all;
	size_t n, room;
};

static void names_release(struct names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->all[i]);
	free(l->all);
}

static int list(int dir, struct names *l)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (l->n == l->room) {
			l->room = l->room ? 2 * l->room : 16;
			l->all = cbx_xrealloc(l->all, l->room * sizeof(*l->all));
		}
		l->all[l->n++] = cbx_xstrdup(e->d_name);
	}
	if (l->n)
		qsort(l->all, l->n, sizeof(*l->all), by_bytes);
	return 0;
}

static int walk(struct walk *w, int dir, unsigned depth)
{
	_cleanup_(names_release) struct names names = { 0 };
	int r = depth > DEPTH_MAX ? -ELOOP : list(dir, &names);

	for (size_t i = 0; r == 0 && i < names.n; i++) {
		const char *name = names.all[i];
		_cleanup_fd_ int below = -1;
		struct stat st;

		w->entries++;
		add(&w->stats, name, strlen(name) + 1);
		add(&w->contents, name, strlen(name) + 1);
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (S_ISREG(st.st_mode)) {
			r = add_file(w, dir, name, &st);
			continue;
		}
		if (S_ISLNK(st.st_mode)) {
			r = add_link(w, dir, name);
			continue;
		}
		below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = below < 0 ? -errno : walk(w, below, depth + 1);
	}
	add(&w->stats, "/", 2); /* no name: the directory ends here */
	add(&w->contents, "/", 2);
	return r;
}

static int sum_up(int tree, bool read, struct sums *ret, uint64_t *ret_entries)
{
	struct walk w = { .read = read };
	int r;

	sha256_init(&w.stats);
	sha256_init(&w.contents);
	r = walk(&w, tree, 0);
	sha256_digest(&w.stats, sizeof(ret->stats), ret->stats);
	sha256_digest(&w.contents, sizeof(ret->contents), ret->contents);
	*ret_entries = w.entries;
	return r;
}

static int keep(const struct cbx_store_dirs *store, const char *sum, const struct sums *sums)
{
	_cleanup_free_ char *path = cbx_xasprintf("m/%s", sum);
	char random[13], temporary[40];
	_cleanup_fd_ int fd = -1;
	int r;

	cbx_random_name(random, 12);
	snprintf(temporary, sizeof(temporary), "t/%s", random);
	fd = openat(store->own, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : cbx_write_all(fd, sums, sizeof(*sums));
	if (r == 0 && renameat(store->own, temporary, store->all, path) < 0)
		r = -errno;
	if (r < 0 && fd >= 0)
		(void)unlinkat(store->own, temporary, 0);
	return r;
}

int cbx_tree_keep(const struct cbx_store_dirs *store, int tree, const char *sum)
{
	struct sums sums;
	uint64_t entries;
	int r = sum_up(tree, true, &sums, &entries);

	return r < 0 ? r : keep(store, sum, &sums);
}

bool cbx_tree_unchanged(const struct cbx_store_dirs *store, int tree, const char *sum, uint64_t *ret_entries)
{
	_cleanup_free_ char *path = cbx_xasprintf("m/%s", sum);
	_cleanup_fd_ int fd = openat(store->all, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct sums had, has;
	struct stat st;
	time_t age;

	if (fd < 0 || fstat(fd, &st) < 0 || cbx_read_full(fd, &had, sizeof(had)) != (ssize_t)sizeof(had))
		return false;
	age = time(NULL) - st.st_mtime;
	if (age >= 0 && age < CBX_TREE_TRUSTED_S && sum_up(tree, false, &has, ret_entries) == 0 &&
	    memcmp(had.stats, has.stats, sizeof(had.stats)) == 0)
		return true;
	if (sum_up(tree, true, &has, ret_entries) < 0 || memcmp(had.contents, has.contents, sizeof(had.contents)) != 0)
		return false;
	(void)keep(store, sum, &has); /* else they are compared again */
	return true;
}
