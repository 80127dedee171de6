/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SUPERVISOR_WATCH_H
#define CBX_SUPERVISOR_WATCH_H

/*
 * The memory watcher: what holds a session to its memory limit where there is no delegated cgroup. It looks now and
 * then, so a process can exceed the limit for a moment; RLIMIT_DATA bounds each process at once.
 */
#include <stdint.h>
#include <sys/types.h>

struct cbx_usage {
	uint64_t bytes;   /* sum over the sandbox's processes: resident set, or PSS where that was looked at */
	pid_t largest;    /* the largest process but for init, as seen by the supervisor; 0: none */
};

/* Sum up the processes below init, and `other` (0: none) with those below it. Resident sets are cheap to read but count
 * shared pages often; only when their sum exceeds the limit is the proportional set size read. */
void cbx_watch_measure(pid_t init, pid_t other, uint64_t limit, struct cbx_usage *ret);
/* What RLIMIT_DATA counts of a process, bytes; 0 unknown. */
uint64_t cbx_watch_data(pid_t pid);
/* How many threads it has; 0 unknown. */
unsigned cbx_watch_threads(pid_t pid);
/* The pid that a process has in the innermost namespace; 0 when it has gone. */
pid_t cbx_watch_inside_pid(pid_t pid);

#endif
