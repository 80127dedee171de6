/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/syscalls.h"

#define PAGE_MIN 4096

/* File of a process, as much of it as there is room for; the length, or -1. */
static ssize_t read_proc(pid_t pid, const char *name, char *out, size_t cap)
{
	char path[64];
	_cleanup_fd_ int fd = -1;
	size_t len = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* A read gives a page at most, as many whole lines or numbers as there is room for. */
	do {
		n = fd < 0 ? -1 : read(fd, out + len, cap - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	} while (n > PAGE_MIN / 2 && len < cap - 1);
	out[len] = '\0';
	return n < 0 ? -1 : (ssize_t)len;
}

struct numbers {
	unsigned threads;
	uint64_t started, pages; /* resident */
	uint64_t faults;	 /* with children that it has waited for */
	uint64_t cpu_ns;	 /* with children that it has waited for */
};

static bool read_numbers(pid_t pid, struct numbers *ret)
{
	char text[1024], *p;
	unsigned long long started;
	unsigned long long faults, child_faults;
	long long pages, user, system;
	struct timespec used;
	clockid_t clock;

	if (read_proc(pid, "stat", text, sizeof(text)) <= 0 || !(p = strrchr(text, ')')) ||
	    sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %llu %*u %*u %*u %*u %lld %lld %*d %*d %u %*d %llu %*u %lld",
		   &faults, &child_faults, &user, &system, &ret->threads, &started, &pages) != 7)
		return false;
	/* Its own time is told in ticks there, too, of which a cell takes a part of one. */
	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
		used = (struct timespec){ 0 };
	ret->cpu_ns = (uint64_t)(user + system) * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK)) +
		      (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
	ret->started = started;
	ret->faults = faults + child_faults;
	ret->pages = pages > 0 ? (uint64_t)pages : 0;
	return true;
}

static void add_children(struct cbx_look *l, pid_t pid, pid_t thread)
{
	char text[CBX_PROCESSES_MAX * 8], name[32], *p = text, *end;

	snprintf(name, sizeof(name), "task/%d/children", (int)thread);
	if (read_proc(pid, name, text, sizeof(text)) <= 0)
		return;
	for (long child; l->n < ARRAY_SIZE(l->all) && (child = strtol(p, &end, 10)) > 0 && end != p; p = end)
		l->all[l->n++] = (struct cbx_process){ .pid = (pid_t)child, .as = (pid_t)child };
}

/* A child belongs to the thread that forked it. The first thread may have ended before the others: then it stands for
 * no memory any more, and another does. */
static void look_at_threads(struct cbx_look *l, struct cbx_process *p, struct numbers *n)
{
	char path[32];
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)p->pid);
	dir = opendir(path);
	while (dir && (d = readdir(dir))) {
		pid_t thread = (pid_t)strtol(d->d_name, NULL, 10);
		struct numbers t;

		if (thread <= 0)
			continue;
		add_children(l, p->pid, thread);
		if (n->pages == 0 && thread != p->pid && read_numbers(thread, &t) && t.pages) {
			n->pages = t.pages;
			p->as = thread;
		}
	}
}

/* Its numbers, and behind those that are listed already its children. */
static void look_at(struct cbx_look *l, struct cbx_process *p)
{
	struct numbers n;

	if (!read_numbers(p->pid, &n))
		return;
	if (n.threads > 1)
		look_at_threads(l, p, &n);
	else
		add_children(l, p->pid, p->pid);
	p->started = n.started;
	p->threads = n.threads;
	l->cpu_ns += n.cpu_ns;
	l->faults += n.faults;
	p->bytes = n.pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void cbx_watch_look(pid_t init, pid_t other, struct cbx_look *ret)
{
	struct cbx_process first = { .pid = init, .as = init };

	ret->n = 0;
	ret->cpu_ns = 0;
	ret->faults = 0;
	look_at(ret, &first);
	if (other && ret->n < ARRAY_SIZE(ret->all))
		ret->all[ret->n++] = (struct cbx_process){ .pid = other, .as = other };
	for (size_t i = 0; i < ret->n; i++)
		look_at(ret, &ret->all[i]);
}

static uint64_t proportional(const struct cbx_process *p)
{
	char text[4096], *line;
	unsigned long long kib;

	if (read_proc(p->as, "smaps_rollup", text, sizeof(text)) <= 0)
		return p->bytes;
	line = strstr(text, "\nPss:");
	if (!line || sscanf(line + 5, "%llu", &kib) != 1)
		return p->bytes;
	return (uint64_t)kib * 1024;
}

static void sum(const struct cbx_look *l, size_t n, struct cbx_usage *ret)
{
	*ret = (struct cbx_usage){ 0 };
	for (size_t i = 0; i < n; i++) {
		ret->bytes += l->all[i].bytes;
		if (l->all[i].bytes > ret->largest.bytes)
			ret->largest = l->all[i];
	}
}

/* A page is added by a fault; with a huge one, many are, and the resident set tells of those. */
static bool still_below(const struct cbx_known *k, const struct cbx_look *l, uint64_t resident, uint64_t limit)
{
	uint64_t grown = resident > k->resident ? resident - k->resident : 0;

	return k->at_ms && cbx_now_ms() - k->at_ms < CBX_WATCH_PAGES_MS && l->faults >= k->faults &&
	       k->bytes + grown + (l->faults - k->faults) * (uint64_t)sysconf(_SC_PAGESIZE) <= limit;
}

/* Who has many small mappings makes this take long: 20 ms a process. Whether all have been counted. */
static bool count(struct cbx_look *l, size_t *done)
{
	uint64_t begin = cbx_used_ms();

	while (*done < l->n && cbx_used_ms() - begin < CBX_WATCH_COUNT_MS) {
		l->all[*done].bytes = proportional(&l->all[*done]);
		(*done)++;
	}
	return *done == l->n;
}

static bool is_there(const struct cbx_process *p)
{
	struct numbers n;

	return read_numbers(p->pid, &n) && n.started == p->started;
}

void cbx_watch_forget(struct cbx_known *known)
{
	free(take_ptr(&known->count));
	known->done = 0;
}

void cbx_watch_measure(struct cbx_look *l, uint64_t limit, struct cbx_known *known, struct cbx_usage *ret)
{
	bool goes_on, whole;
	struct cbx_look *c;

	sum(l, l->n, ret);
	if (ret->bytes <= limit) {
		if (known)
			cbx_watch_forget(known);
		return;
	}
	if (!known) {
		count(l, &(size_t){ 0 });
		sum(l, l->n, ret);
		return;
	}
	goes_on = known->count;
	if (!goes_on) {
		if (still_below(known, l, ret->bytes, limit)) {
			ret->bytes = known->bytes;
			return;
		}
		known->resident = ret->bytes;
		known->faults = l->faults;
		known->count = cbx_xcalloc(1, sizeof(*l));
		known->count->n = l->n;
		memcpy(known->count->all, l->all, l->n * sizeof(*l->all));
	}
	c = known->count;
	whole = count(c, &known->done);
	/* What those had who have ended is others' now, and was counted twice. */
	for (size_t i = 0; goes_on && i < known->done; i++)
		if (c->all[i].bytes && !is_there(&c->all[i]))
			c->all[i].bytes = 0;
	sum(c, known->done, ret);
	if (!whole && ret->bytes <= limit)
		return;
	known->bytes = ret->bytes;
	known->at_ms = cbx_now_ms();
	cbx_watch_forget(known);
}

int cbx_watch_hold(const struct cbx_process *p)
{
	_cleanup_fd_ int fd = cbx_pidfd_open(p->pid, 0);

	if (fd < 0 || !is_there(p))
		return -1;
	return take_fd(&fd);
}

pid_t cbx_watch_inside_pid(pid_t pid)
{
	char text[4096], *p, *end;
	long last = 0;

	if (read_proc(pid, "status", text, sizeof(text)) <= 0)
		return 0;
	p = strstr(text, "\nNSpid:");
	if (!p)
		return 0;
	for (p += 7; *p && *p != '\n'; p = end) {
		long v = strtol(p, &end, 10);

		if (end == p)
			break;
		last = v;
	}
	return (pid_t)last;
}

static uint64_t status_number(pid_t pid, const char *key)
{
	char text[4096], *p;

	if (read_proc(pid, "status", text, sizeof(text)) <= 0)
		return 0;
	p = strstr(text, key);
	return p ? strtoull(p + strlen(key), NULL, 10) : 0;
}

uint64_t cbx_watch_data(pid_t pid)
{
	return status_number(pid, "\nVmData:") * 1024;
}

unsigned cbx_watch_threads(pid_t pid)
{
	return (unsigned)status_number(pid, "\nThreads:");
}
