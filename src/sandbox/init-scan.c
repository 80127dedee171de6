/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-init's search for files that have changed. Directories wait in a queue of paths and are
 * read one after another, so neither depth nor the number of descriptors can grow; what does not fit the queue, and
 * what comes after CBX_SCAN_ENTRIES entries, is not looked at, and the answer says so.
 *
 * A file counts by its ctime, which no program can set: it is the time of the last write, rename or link. A directory
 * that was renamed has a newer ctime and its old mtime; files keep theirs then, but their paths are new, so all of them
 * count.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "sandbox/init.h"

#define OUT_MAX (CBX_INIT_MAX - sizeof(struct cbx_init_header))

struct scan {
	int64_t since_ns;
	uint64_t skip, matches;
	unsigned entries;
	bool full; /* the answer; what comes now is for the next page, which begins behind what this one holds */
	bool cut;
	dev_t dev;
	size_t head, tail; /* of the queue */
	struct cbx_init_header *a;
	char *out;
};

/* One byte that says whether all in it counts, the path, a NUL; one after another. */
static char queue[CBX_SCAN_QUEUE];

static void push(struct scan *s, bool all, const char *path, size_t n)
{
	if (s->tail + n + 2 > sizeof(queue) && s->head) {
		memmove(queue, queue + s->head, s->tail - s->head);
		s->tail -= s->head;
		s->head = 0;
	}
	if (s->tail + n + 2 > sizeof(queue)) {
		s->cut = true;
		return;
	}
	queue[s->tail] = (char)all;
	memcpy(queue + s->tail + 1, path, n);
	queue[s->tail + 1 + n] = '\0';
	s->tail += n + 2;
}

static int64_t ns(const struct timespec *t)
{
	return (int64_t)((uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec);
}

static void match(struct scan *s, const struct stat *st, const char *path, size_t n)
{
	size_t len = (sizeof(struct cbx_init_entry) + n + 1 + 7) & ~(size_t)7;
	struct cbx_init_entry entry = { .name_len = (uint32_t)n, .entry_len = (uint32_t)len };

	if (s->matches++ < s->skip || s->full)
		return;
	s->full = s->a->len + len > OUT_MAX;
	if (s->full)
		return;
	entry.st.mode = st->st_mode;
	entry.st.size = (uint64_t)st->st_size;
	entry.st.mtime_ns = ns(&st->st_mtim);
	memset(s->out + s->a->len, 0, len);
	memcpy(s->out + s->a->len, &entry, sizeof(entry));
	memcpy(s->out + s->a->len + sizeof(entry), path, n);
	s->a->len += (uint32_t)len;
	s->a->value++;
}

static void look(struct scan *s, int dir, bool all, const char *name, const char *path, size_t n)
{
	struct stat st;
	bool new;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* gone in the meantime */
	new = all || ns(&st.st_ctim) >= s->since_ns;
	if (S_ISREG(st.st_mode) && new)
		match(s, &st, path, n);
	else if (S_ISDIR(st.st_mode) && st.st_dev == s->dev)
		push(s, all || (new && ns(&st.st_mtim) < s->since_ns), path, n);
}

/* The directory at `path`, which is at most CBX_SCAN_PATH long; "" is the top one. */
static void read_dir(struct scan *s, int top, bool all, const char *path)
{
	int fd = openat(top, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char below[CBX_SCAN_PATH + 1];
	size_t n = strlen(path);
	struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	memcpy(below, path, n);
	if (n)
		below[n++] = '/';
	while ((e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    (!*path && strcmp(e->d_name, ".codebox") == 0))
			continue;
		if (s->entries++ >= CBX_SCAN_ENTRIES) {
			s->cut = true;
			break;
		}
		if (e->d_type != DT_REG && e->d_type != DT_DIR && e->d_type != DT_UNKNOWN)
			continue;
		if (n + len >= CBX_SCAN_PATH) {
			s->cut = true;
			continue;
		}
		memcpy(below + n, e->d_name, len + 1);
		look(s, dirfd(d), all, e->d_name, below, n + len);
	}
	closedir(d);
}

void cbx_init_scan(const struct cbx_init_header *h, const char *path, struct cbx_init_header *a, char *out)
{
	struct scan s = { .since_ns = (int64_t)h->arg, .skip = h->value < 0 ? 0 : (uint64_t)h->value, .a = a,
			  .out = out };
	int top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (top < 0 || fstat(top, &st) < 0) {
		a->value = -errno;
		if (top >= 0)
			close(top);
		return;
	}
	s.dev = st.st_dev;
	push(&s, false, "", 0);
	while (s.head < s.tail && s.entries <= CBX_SCAN_ENTRIES) {
		char dir[CBX_SCAN_PATH + 1];
		bool all = queue[s.head];
		size_t n = strlen(queue + s.head + 1);

		memcpy(dir, queue + s.head + 1, n + 1);
		s.head += n + 2;
		read_dir(&s, top, all, dir);
	}
	close(top);
	a->arg = s.matches | (s.cut ? CBX_INIT_SCAN_CUT : 0);
}
