/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/syscalls.h"

#define PAGE_MIN 4096
#define EXITING	 0x4 /* PF_EXITING in /proc/PID/stat */
#define KILLED	 (1ull << (SIGKILL - 1))

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
	char state;
	unsigned threads, flags; /* PF_… */
	uint64_t started, pages; /* resident */
	uint64_t faults;	 /* with children that it has waited for */
	uint64_t cpu_ns;	 /* with children that it has waited for */
};

static bool read_numbers(pid_t pid, struct numbers *ret)
{
	char text[1024], *p;
	unsigned long long started;
	unsigned long long faults, child_faults, reads, child_reads; /* those read from a disk, or from swap */
	long long pages, user, system;
	struct timespec used;
	clockid_t clock;

	if (read_proc(pid, "stat", text, sizeof(text)) <= 0 || !(p = strrchr(text, ')')) ||
	    sscanf(p + 1, " %c %*d %*d %*d %*d %*d %u %llu %llu %llu %llu %*u %*u %lld %lld %*d %*d %u %*d %llu %*u %lld",
		   &ret->state, &ret->flags, &faults, &child_faults, &reads, &child_reads, &user, &system,
		   &ret->threads, &started, &pages) != 11)
		return false;
	/* Its own time is given in ticks there, too, of which a cell takes a part of one. */
	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
		used = (struct timespec){ 0 };
	ret->cpu_ns = (uint64_t)(user + system) * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK)) +
		      (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
	ret->started = started;
	ret->faults = faults + child_faults + reads + child_reads;
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

static uint64_t number(const char *text, const char *key, int base)
{
	const char *p = strstr(text, key);

	return p ? strtoull(p + strlen(key), NULL, base) : 0;
}

/* What stat does not tell. The name, which the process chooses, is in the first line, and has no line end. */
static void look_at_status(struct cbx_process *p)
{
	char text[4096];

	if (read_proc(p->as, "status", text, sizeof(text)) <= 0)
		return;
	p->dying = p->dying || ((number(text, "\nSigPnd:", 16) | number(text, "\nShdPnd:", 16)) & KILLED);
	if (p->dying)
		return;
	p->tables = number(text, "\nVmPTE:", 10) * 1024;
	p->own = (number(text, "\nRssAnon:", 10) + number(text, "\nRssShmem:", 10)) * 1024;
	p->files = (unsigned)number(text, "\nFDSize:", 10);
}

/* Its numbers, and behind those that are listed already its children. */
static void look_at(struct cbx_look *l, struct cbx_process *p, bool limits)
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
	p->dying = n.threads <= 1 && (n.flags & EXITING);
	l->leaving += p->dying && n.state != 'Z' && n.state != 'X';
	if (limits)
		look_at_status(p);
	p->bytes = p->dying ? 0 : n.pages * (uint64_t)sysconf(_SC_PAGESIZE) + p->tables;
}

void cbx_watch_look(pid_t init, pid_t other, bool limits, struct cbx_look *ret)
{
	struct cbx_process first = { .pid = init, .as = init };

	ret->n = 0;
	ret->cpu_ns = 0;
	ret->faults = 0;
	ret->leaving = 0;
	look_at(ret, &first, false);
	if (other && ret->n < ARRAY_SIZE(ret->all))
		ret->all[ret->n++] = (struct cbx_process){ .pid = other, .as = other };
	for (size_t i = 0; i < ret->n; i++)
		look_at(ret, &ret->all[i], limits);
}

/* How many files a process has open; 0 before Linux 6.2, and of one that is about to end. */
static uint64_t files_of(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	return stat(path, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

uint64_t cbx_watch_files(struct cbx_look *l, uint64_t enough)
{
	uint64_t sum = 0, n = 0;

	for (size_t i = 0; i < l->n; i++)
		sum += l->all[i].files;
	if (sum <= enough || files_of(getpid()) == 0)
		return sum;
	for (size_t i = 0; i < l->n; i++) {
		l->all[i].files = l->all[i].dying ? 0 : (unsigned)files_of(l->all[i].as);
		n += l->all[i].files;
	}
	return n;
}

struct cbx_set cbx_watch_proportional(pid_t as)
{
	struct cbx_set set = { .proportional = UINT64_MAX };
	char text[4096];

	if (read_proc(as, "smaps_rollup", text, sizeof(text)) <= 0 || !strstr(text, "\nPss:"))
		return set;
	set.proportional = number(text, "\nPss:", 10) * 1024;
	set.resident = number(text, "\nRss:", 10) * 1024;
	return set;
}

void cbx_watch_sum(const struct cbx_look *l, size_t n, struct cbx_usage *ret)
{
	*ret = (struct cbx_usage){ 0 };
	for (size_t i = 0; i < n; i++) {
		ret->bytes += l->all[i].bytes;
		if (l->all[i].bytes > ret->largest.bytes)
			ret->largest = l->all[i];
	}
}

/* A page is added by a fault; with a huge one, many are, and the resident set shows those. */
uint64_t cbx_watch_most(const struct cbx_look *l, uint64_t beside, const struct cbx_known *k)
{
	uint64_t grown, added;
	struct cbx_usage use;

	cbx_watch_sum(l, l->n, &use);
	if (!k->at_ms || l->faults < k->faults ||
	    (l->cpu_ns != k->cpu_ns && cbx_now_ms() - k->at_ms >= CBX_WATCH_PAGES_MS))
		return use.bytes + beside;
	grown = use.bytes > k->resident ? use.bytes - k->resident : 0;
	added = k->bytes + grown + (l->faults - k->faults) * (uint64_t)sysconf(_SC_PAGESIZE);
	return (added < use.bytes ? added : use.bytes) + beside;
}

bool cbx_watch_below(const struct cbx_look *l, uint64_t beside, uint64_t limit, const struct cbx_known *k,
		     uint64_t *ret)
{
	struct cbx_usage use;

	cbx_watch_sum(l, l->n, &use);
	*ret = use.bytes + beside;
	if (*ret <= limit)
		return true;
	if (cbx_now_ms() - k->at_ms >= CBX_WATCH_PAGES_MS)
		return false;
	*ret = cbx_watch_most(l, beside, k);
	return *ret <= limit;
}

/* ---- counting ---- */

static struct cbx_look *copy(const struct cbx_look *l)
{
	size_t size = offsetof(struct cbx_look, all) + l->n * sizeof(*l->all);

	return memcpy(cbx_xcalloc(1, size), l, size);
}

void cbx_watch_count(struct cbx_known *k, const struct cbx_look *l)
{
	cbx_watch_forget(k);
	k->count = copy(l);
	k->cost_ms = 0;
	k->rounds = 0;
}

size_t cbx_watch_next(const struct cbx_known *k, const struct cbx_process **ret, size_t max)
{
	size_t n = k->count->n - k->done;

	*ret = k->count->all + k->done;
	return n < max ? n : max;
}

static bool same(const struct cbx_process *p, struct numbers *ret)
{
	struct numbers own;

	if (!read_numbers(p->pid, &own) || own.started != p->started || (own.threads <= 1 && (own.flags & EXITING)))
		return false;
	*ret = own;
	return p->as == p->pid || read_numbers(p->as, ret);
}

/* What those had who have ended may be others' now, of whom each was counted with his part alone: the parts of all who
 * were listed are, together, no less than what is left of it. */
static void look_again(struct cbx_known *k, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct cbx_process *p = &k->count->all[i];
		struct numbers now;
		uint64_t resident;

		if (!p->bytes)
			continue;
		if (!same(p, &now)) {
			k->lost += p->bytes;
			p->bytes = 0;
			continue;
		}
		resident = now.pages * (uint64_t)sysconf(_SC_PAGESIZE);
		if (p->resident && resident > p->resident) {
			p->bytes += resident - p->resident;
			p->resident = resident;
		}
	}
}

bool cbx_watch_counted(struct cbx_known *k, const struct cbx_set *sets, size_t n, uint64_t cost_ms)
{
	struct cbx_look *c = k->count;

	for (size_t i = 0; i < n && k->done < c->n; i++, k->done++) {
		struct cbx_process *p = &c->all[k->done];

		if (sets[i].proportional == UINT64_MAX)
			continue;
		p->bytes = sets[i].proportional + p->tables;
		p->resident = sets[i].resident;
	}
	k->cost_ms += cost_ms;
	look_again(k, k->done);
	return k->done == c->n;
}

/* from: where to begin, as two looks list nearly the same in the same order. */
static struct cbx_process *find(struct cbx_look *l, const struct cbx_process *p, size_t *from)
{
	for (size_t k = 0; k < l->n; k++) {
		struct cbx_process *q = &l->all[(*from + k) % l->n];

		if (q->pid == p->pid && q->started == p->started) {
			*from = (*from + k + 1) % l->n;
			return q;
		}
	}
	return NULL;
}

/* Those of a count who are still there, as they were counted, and behind them those who have come since. *ret: how many
 * there are of the first; *added: what the others have, as if they shared nothing. */
static struct cbx_look *merge(const struct cbx_look *now, struct cbx_look *c, size_t *ret, uint64_t *added)
{
	struct cbx_look *merged = copy(now);
	size_t from = 0, first = 0, last = now->n;

	*added = 0;
	for (size_t i = 0; i < now->n; i++) {
		const struct cbx_process *p = &now->all[i];
		struct cbx_process *q = p->dying ? NULL : find(c, p, &from);

		if (q) {
			merged->all[first] = *p;
			merged->all[first].bytes = q->bytes;
			merged->all[first++].resident = q->resident;
			q->bytes = 0;
		} else {
			merged->all[--last] = *p;
			*added += p->bytes;
		}
	}
	*ret = first;
	return merged;
}

/* Who was about to end already when they were listed was one more to share each page, at most, and is not listed. */
static uint64_t hidden(const struct cbx_look *c, uint64_t counted, uint64_t most)
{
	return counted > most / (c->leaving + 1) ? most - counted : counted * c->leaving;
}

bool cbx_watch_conclude(struct cbx_known *k, const struct cbx_look *now, uint64_t enough)
{
	_cleanup_free_ struct cbx_look *c = take_ptr(&k->count), *merged = NULL;
	struct cbx_usage is, was;
	uint64_t added, lost;
	size_t n;

	merged = merge(now, c, &n, &added);
	cbx_watch_sum(merged, merged->n, &is);
	cbx_watch_sum(now, now->n, &was);
	for (size_t i = 0; i < c->n; i++)
		k->lost += c->all[i].bytes;
	lost = k->lost + (is.bytes < was.bytes ? hidden(c, is.bytes, was.bytes) : 0);
	if (lost > enough && k->rounds < CBX_WATCH_ROUNDS) {
		k->count = copy(now);
		k->done = 0;
		k->lost = 0;
		k->rounds++;
		return false;
	}
	merged->faults = c->faults; /* some were counted early */
	merged->cpu_ns = c->cpu_ns;
	if (added > enough && k->rounds < CBX_WATCH_ROUNDS) {
		merged->leaving += c->leaving;
		k->count = take_ptr(&merged);
		k->done = n;
		k->rounds++;
		return false;
	}
	if (lost > enough)
		k->bytes = is.bytes + lost < was.bytes ? is.bytes + lost : was.bytes;
	else
		k->bytes = is.bytes - added;
	k->count = take_ptr(&merged);
	k->done = k->count->n;
	/* Of those who come while others are counted, again and again, all is what was added since. */
	k->resident = lost <= enough && added > enough ? was.bytes - added : was.bytes;
	k->faults = c->faults;
	k->cpu_ns = c->cpu_ns;
	k->at_ms = cbx_now_ms();
	return true;
}

void cbx_watch_forget(struct cbx_known *k)
{
	free(take_ptr(&k->count));
	k->done = 0;
	k->lost = 0;
}

int cbx_watch_hold(const struct cbx_process *p)
{
	struct numbers n;
	_cleanup_fd_ int fd = cbx_pidfd_open(p->pid, 0);

	if (fd < 0 || !read_numbers(p->pid, &n) || n.started != p->started)
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
	char text[4096];

	return read_proc(pid, "status", text, sizeof(text)) > 0 ? number(text, key, 10) : 0;
}

uint64_t cbx_watch_written(pid_t pid)
{
	return status_number(pid, "\nRssAnon:") * 1024;
}

unsigned cbx_watch_threads(pid_t pid)
{
	return (unsigned)status_number(pid, "\nThreads:");
}
