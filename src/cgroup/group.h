/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CGROUP_GROUP_H
#define CBX_CGROUP_GROUP_H

/*
 * One session's control groups: "session-N" with the leaves "init" and "work" (cgroup/tree.h). Limits are written
 * before any process is there. Memory:
 *
 *   work        memory.max = the session's memory, for its processes and the files that they write (a session's files
 *               are held in memory); memory.oom.group: what exceeds it is killed as one, the interpreter and all that
 * it started session-N   memory.max = memory + disk + a little: a bound for all, with room for files that are put in
 * from outside, so that these never cost init its life; memory.swap.max = 0
 *
 * Descriptors of the files that are read for every cell stay open.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "cgroup/tree.h"

#define CBX_CGROUP_SESSION "session-"

struct cbx_cgroup_limits {
	uint64_t memory_bytes, disk_bytes;
	uint32_t processes;  /* processes and threads of `work` */
	uint32_t cpus_milli; /* thousandths of a processor; 0: no limit */
	uint32_t cpu_weight; /* of cpu.weight */
	uint64_t io_bytes, io_operations; /* a second, read and written each; 0: no limit */
	dev_t disks[CBX_IO_DISKS];	  /* of which these are the limits */
	size_t ndisks;
};

struct cbx_cgroup {
	const struct cbx_cgroup_tree *tree; /* NULL: there is no group */
	uint64_t number;
	int dir;				     /* session-N */
	int cpu, io, current, peak, pids, events;    /* files; -1 where the kernel or the tree has none */
	bool peak_resets;			     /* Linux 6.12: the peak can be taken anew */
	uint64_t oom, oom_kill, pids_max, seen_most; /* last values */
};

/* A group that is none; release and all questions are fine with it. */
void cbx_cgroup_init(struct cbx_cgroup *g);
/*
 * Make session-<number> in the group of its tenant. ret_dirs: its leaves init and work, as supervisor/requests.h wants
 * them; the caller owns them.
 * An error leaves nothing behind: a session that cannot be limited is not made.
 */
int cbx_cgroup_make(const struct cbx_cgroup_tree *tree, int tenant_dir, uint64_t number,
		    const struct cbx_cgroup_limits *limits, struct cbx_cgroup *ret, int ret_dirs[2],
		    struct cbx_err *err);
/* The part of it that writes the limits, to the directory session-N and its "work". */
int cbx_cgroup_limit(int dir, unsigned controllers, const struct cbx_cgroup_limits *limits, struct cbx_err *err);
void cbx_cgroup_release(struct cbx_cgroup *g); /* descriptors only */

/* Kill what is there and remove session-<number>, leaves first. 0, also when there is none; -EBUSY: processes are still
 * ending, try again; another -errno. */
int cbx_cgroup_remove(int tenant_dir, uint64_t number);

/* What work has used since it was made. */
struct cbx_cgroup_usage {
	uint64_t cpu_us;
	bool has_io;
	uint64_t io_read, io_written;
	uint64_t memory; /* in use now */
	uint64_t peak;	 /* most; since when: see below */
};
void cbx_cgroup_read(struct cbx_cgroup *g, struct cbx_cgroup_usage *ret);
/* From now on `peak` is of what follows, where the kernel can do that. */
void cbx_cgroup_reset_peak(struct cbx_cgroup *g);
/* What `peak` is of: "cell" (since the reset), "session" (since the group was made), "samples" (the most that any read
 * saw: before Linux 5.19). */
const char *cbx_cgroup_peak_of(const struct cbx_cgroup *g);

/* Since the last call: how many new processes or threads were refused for the limit. */
uint64_t cbx_cgroup_refused(struct cbx_cgroup *g);
/* Since the last call: did the kernel kill a process of the session because memory ran out? *ret_own: it was the
 * session's own limit that was hit, not that of a group above or the machine's. */
bool cbx_cgroup_oom(struct cbx_cgroup *g, bool *ret_own);
/* Is there any process in work? */
bool cbx_cgroup_populated(const struct cbx_cgroup *g);
/* Bytes of the session's files (tmpfs), which count as its memory. */
uint64_t cbx_cgroup_files(const struct cbx_cgroup *g);

/* Stop every process of work, or let it continue. */
int cbx_cgroup_freeze(struct cbx_cgroup *g, bool on, struct cbx_err *err);
/* Ask the kernel to take back the file pages that work has not used lately, up to max bytes; 0 where it cannot (before
 * Linux 5.19). Returns how many bytes were asked for. */
uint64_t cbx_cgroup_reclaim(struct cbx_cgroup *g, uint64_t max);

#endif
