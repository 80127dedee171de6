/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SUPERVISOR_WATCH_H
#define CBX_SUPERVISOR_WATCH_H

/*
 * Looks at the processes of a sandbox, now and then. They tell how much of a processor it uses (supervisor/lanes.h),
 * and what it is held to where there is no delegated cgroup (hold.c).
 *
 * A look reads what the kernel has counted already, and waits for no process. What processes share is counted with each
 * of them so; to count it once, every page table has to be walked, for which the process's own lock is taken: that is
 * for a process of its own to do (supervisor/count.h), a few at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"

/* A process of a sandbox, by its numbers out here. */
struct cbx_process {
	pid_t pid;
	pid_t as;	  /* the thread that shows it in /proc */
	uint64_t started; /* when, as /proc shows it: with the pid, it is this process and no other */
	uint64_t bytes; /* resident set; or PSS, where that was counted; with its page tables */
	uint64_t tables; /* bytes of those */
	uint64_t own;	 /* resident, but not of files: nobody can share it but who has it from whom it was forked */
	uint64_t resident; /* resident set when PSS was counted */
	unsigned files; /* that its table has room for */
	unsigned threads;
	bool dying; /* it was killed, or ends */
};

/* One look at all processes of a sandbox but for init. */
struct cbx_look {
	size_t n;
	uint64_t faults; /* of theirs and of those whom they have waited for: a page that becomes another one's costs one */
	uint64_t cpu_ns; /* that they, init, and those whom these have waited for have used so far (not those others) */
	unsigned leaving; /* are about to end, and may still share what nobody says that they have */
	struct cbx_process all[CBX_PROCESSES_MAX];
};

struct cbx_usage {
	uint64_t bytes;   /* sum over the sandbox's processes: resident set, or PSS where that was counted */
	struct cbx_process largest; /* its pid is 0: none */
};

/* What was found when shared pages were last counted; all 0: never. */
struct cbx_known {
	uint64_t bytes; /* PSS */
	uint64_t resident, faults, at_ms;
	uint64_t cpu_ns; /* that they had used then */
	struct cbx_look *count; /* owned: that is under way; NULL: none */
	size_t done;		/* of its processes */
	uint64_t lost;		/* bytes of those of them who have ended since it began */
	unsigned rounds;	/* how often it was continued, or began again */
	uint64_t cost_ms;	/* so far; of the last one, where none is under way */
};

/* Those below init, and `other` (0: none) with those below it, breadth first. Orphans of a pid namespace become init's
 * children, so none is missed but one that is made while we look. Who has ended, or is about to, has no memory any more.
 * limits: `tables` and `files`, too; without, it cannot tell all who are dying. */
void cbx_watch_look(pid_t init, pid_t other, bool limits, struct cbx_look *ret);
/* How many files its processes have open: exact where that is more than `enough` and the kernel reports it. */
uint64_t cbx_watch_files(struct cbx_look *l, uint64_t enough);
/* Sum up the memory of the first n. */
void cbx_watch_sum(const struct cbx_look *l, size_t n, struct cbx_usage *ret);
/* The most that they can be using, with `beside`: resident sets, or what was last counted and what can have been added since.
 * A count is believed for CBX_WATCH_PAGES_MS, and as long as nothing of them has run since. Others with whom they share
 * can have ended meanwhile; then it is too little by what those shared. */
uint64_t cbx_watch_most(const struct cbx_look *l, uint64_t beside, const struct cbx_known *k);
/* Can that be more than the limit? It is in *ret; what was counted is believed for CBX_WATCH_PAGES_MS. */
bool cbx_watch_below(const struct cbx_look *l, uint64_t beside, uint64_t limit, const struct cbx_known *k,
		     uint64_t *ret);

struct cbx_set {
	uint64_t proportional, resident; /* UINT64_MAX, 0: unknown; then the resident set of the look stands */
};

/* A count: begin it, take the next processes, put in what was found about them and what that took, until all that were
 * listed when it began have been counted (true). What they have grown by since each was counted is added. */
void cbx_watch_count(struct cbx_known *k, const struct cbx_look *l);
size_t cbx_watch_next(const struct cbx_known *k, const struct cbx_process **ret, size_t max);
bool cbx_watch_counted(struct cbx_known *k, const struct cbx_set *sets, size_t n, uint64_t cost_ms);
/* Then end it, with a look at those who are there now. Some may have ended meanwhile and left what they had to others,
 * or come: what has so escaped may be `enough` bytes; where it is more, those who have come are counted, too, or all of
 * them again (false), a few times. Then what those had who have ended counts, and what those have who have come is
 * what was added since. Afterwards *k is known; its list is `now`. */
bool cbx_watch_conclude(struct cbx_known *k, const struct cbx_look *now, uint64_t enough);
void cbx_watch_forget(struct cbx_known *k);
/* What a process has of its own and of what it shares. This can take long. */
struct cbx_set cbx_watch_proportional(pid_t as);

/* A pidfd of a process that was looked at; -1: it has gone, and its number may be another's. */
int cbx_watch_hold(const struct cbx_process *process);
/* Memory of its own that a process has written to, bytes; 0 unknown. A fork shares it until one of them writes to it again. */
uint64_t cbx_watch_written(pid_t pid);
/* How many threads it has; 0 unknown. */
unsigned cbx_watch_threads(pid_t pid);
/* The pid that a process has in the innermost namespace; 0 when it has gone. */
pid_t cbx_watch_inside_pid(pid_t pid);

#endif
