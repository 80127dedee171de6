/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SUPERVISOR_WATCH_H
#define CBX_SUPERVISOR_WATCH_H

/*
 * Looks at the processes of a sandbox, now and then. They tell how much of a processor it uses (supervisor/lanes.h),
 * and hold it to its memory limit where there is no delegated cgroup; then a process can exceed the limit for a moment;
 * RLIMIT_DATA bounds each process at once.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"

/* A process of a sandbox, by its numbers out here. */
struct cbx_process {
	pid_t pid;
	pid_t as;	/* the thread that tells of it in /proc */
	uint64_t started; /* when, as /proc tells it: with the pid, it is this process and no other */
	uint64_t bytes; /* resident set; or PSS, where that was looked at */
	unsigned threads;
};

/* One look at all processes of a sandbox but for init. */
struct cbx_look {
	size_t n;
	uint64_t faults; /* of theirs and of those whom they have waited for: a page that becomes another one's costs one */
	uint64_t cpu_ns; /* that they, init, and those whom these have waited for have used so far (not those others) */
	struct cbx_process all[CBX_PROCESSES_MAX];
};

struct cbx_usage {
	uint64_t bytes;   /* sum over the sandbox's processes: resident set, or PSS where that was looked at */
	struct cbx_process largest; /* its pid is 0: none */
};

/* What was found when shared pages were last looked at; all 0: never. */
struct cbx_known {
	uint64_t bytes; /* PSS */
	uint64_t resident, faults, at_ms;
	struct cbx_look *count; /* owned: that is under way; NULL: none */
	size_t done;		/* of its processes */
};

/* Those below init, and `other` (0: none) with those below it, breadth first. Orphans of a pid namespace become init's
 * children, so none is missed but one that is made while we look. */
void cbx_watch_look(pid_t init, pid_t other, struct cbx_look *ret);
/* Sum up their memory. Resident sets are cheap to read but count shared pages often; only when their sum exceeds the
 * limit is the proportional set size read: that costs a walk through every page table, so it is not done again while
 * what was added since cannot have exceeded the limit, but for once in CBX_WATCH_PAGES_MS. A count that takes long goes
 * on at the next call: until it has come to its end the sum is of those that were counted. known: NULL has none, and
 * the rest counts with its resident set. */
void cbx_watch_measure(struct cbx_look *l, uint64_t limit, struct cbx_known *known, struct cbx_usage *ret);
void cbx_watch_forget(struct cbx_known *known);
/* A pidfd of a process that was looked at; -1: it has gone, and its number may be another's. */
int cbx_watch_hold(const struct cbx_process *process);
/* What RLIMIT_DATA counts of a process, bytes; 0 unknown. */
uint64_t cbx_watch_data(pid_t pid);
/* How many threads it has; 0 unknown. */
unsigned cbx_watch_threads(pid_t pid);
/* The pid that a process has in the innermost namespace; 0 when it has gone. */
pid_t cbx_watch_inside_pid(pid_t pid);

#endif
