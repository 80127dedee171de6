/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

/* Whole (small) file of a process; the length, or -1. */
static ssize_t read_proc(pid_t pid, const char *name, char *out, size_t cap)
{
	char path[64];
	_cleanup_fd_ int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, out, cap - 1);
	if (n >= 0)
		out[n] = '\0';
	return n;
}

/* Add the process ids of all descendants of init, breadth first, behind the n that are there. Orphans of a pid
 * namespace become init's children, so none is missed but one that is made while we look. */
static size_t descendants(pid_t init, pid_t *pids, size_t n, size_t max)
{
	size_t next = n;
	pid_t parent = init;
	char text[16384], name[32];

	for (;;) {
		char *p = text, *end;

		snprintf(name, sizeof(name), "task/%d/children", (int)parent);
		if (read_proc(parent, name, text, sizeof(text)) > 0)
			for (long pid; n < max && (pid = strtol(p, &end, 10)) > 0 && end != p; p = end)
				pids[n++] = (pid_t)pid;
		if (next == n)
			return n;
		parent = pids[next++];
	}
}

static uint64_t resident(pid_t pid)
{
	char text[256];
	unsigned long long size, rss;

	if (read_proc(pid, "statm", text, sizeof(text)) <= 0 || sscanf(text, "%llu %llu", &size, &rss) != 2)
		return 0;
	return (uint64_t)rss * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t proportional(pid_t pid)
{
	char text[4096], *p;
	unsigned long long kib;

	if (read_proc(pid, "smaps_rollup", text, sizeof(text)) <= 0)
		return resident(pid);
	p = strstr(text, "\nPss:");
	if (!p || sscanf(p + 5, "%llu", &kib) != 1)
		return resident(pid);
	return (uint64_t)kib * 1024;
}

static void sum(const pid_t *pids, size_t n, uint64_t (*measure)(pid_t), struct cbx_usage *ret)
{
	uint64_t largest = 0;

	ret->bytes = 0;
	ret->largest = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t bytes = measure(pids[i]);

		ret->bytes += bytes;
		if (bytes > largest) {
			largest = bytes;
			ret->largest = pids[i];
		}
	}
}

void cbx_watch_measure(pid_t init, pid_t other, uint64_t limit, struct cbx_usage *ret)
{
	pid_t pids[CBX_PROCESSES_MAX];
	size_t n = descendants(init, pids, 0, ARRAY_SIZE(pids));

	if (other && n < ARRAY_SIZE(pids)) {
		pids[n++] = other;
		n = descendants(other, pids, n, ARRAY_SIZE(pids));
	}
	sum(pids, n, resident, ret);
	if (ret->bytes > limit)
		sum(pids, n, proportional, ret);
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
