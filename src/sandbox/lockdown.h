/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_LOCKDOWN_H
#define CBX_SANDBOX_LOCKDOWN_H

/*
 * The last steps of entering a sandbox: what a process gives up for good before anything of the sandbox runs in it.
 *
 *  1  resource limits                       5  all of permitted, effective and inheritable capabilities dropped
 *  2  ambient capabilities cleared          6  no_new_privs
 *  3  bounding set emptied                  7  what the flags ask for
 *  4  securebits locked                     8  Landlock        9  system call filter
 *
 * This is the only function that does any of it. It is compiled twice: into the supervisor, whose child calls it before
 * it executes codebox-init, and into a shared object that depends on no library, where an interpreter that is warm
 * already calls it in the sandbox that it was placed in. So lockdown.c makes system calls and nothing else, and this
 * header includes the kernel's headers only.
 */
#include <linux/filter.h>
#include <linux/types.h>

#define CBX_LOCKDOWN_VERSION 1
#define CBX_LOCKDOWN_RLIMITS 16 /* RLIM_NLIMITS */
#define CBX_LOCKDOWN_FILTER_MAX 2048

enum cbx_lockdown_flag {
	CBX_LOCKDOWN_MDWE = 1,        /* no memory is ever made executable after it was writable (Linux 6.3) */
	CBX_LOCKDOWN_CORE_SCHED = 2,  /* shares no processor core with others, where the kernel can do that */
	CBX_LOCKDOWN_SPECULATION = 4, /* speculative store bypass and indirect branches off, where they can be */
};

/* Plain data without pointers: it is sent as one datagram. */
struct cbx_lockdown {
	__u32 version; /* CBX_LOCKDOWN_VERSION */
	__u32 flags;   /* enum cbx_lockdown_flag */
	__u32 rlimit_mask; /* bit N: rlimits[N] is to be set; N is RLIMIT_… */
	__u32 landlock_flags; /* of landlock_restrict_self(2) */
	__u32 filter_len;
	/* Both are lowered to the hard limit that the process has, where that is lower: a limit of the machine
	 * stays. */
	struct {
		__u64 soft, hard;
	} rlimits[CBX_LOCKDOWN_RLIMITS];
	struct sock_filter filter[CBX_LOCKDOWN_FILTER_MAX];
};

/* Which step failed. */
enum cbx_lockdown_step {
	CBX_LOCKDOWN_STEP_DATA = 1, /* the structure is not one that this code knows */
	CBX_LOCKDOWN_STEP_RLIMITS,
	CBX_LOCKDOWN_STEP_AMBIENT,
	CBX_LOCKDOWN_STEP_BOUNDING,
	CBX_LOCKDOWN_STEP_SECUREBITS,
	CBX_LOCKDOWN_STEP_CAPABILITIES,
	CBX_LOCKDOWN_STEP_NO_NEW_PRIVS,
	CBX_LOCKDOWN_STEP_MDWE,
	CBX_LOCKDOWN_STEP_CORE_SCHED,
	CBX_LOCKDOWN_STEP_SPECULATION,
	CBX_LOCKDOWN_STEP_LANDLOCK,
	CBX_LOCKDOWN_STEP_FILTER,
};

/*
 * Carry it out in the calling thread, which must be the only one of its process. landlock is the descriptor of a
 * ruleset (borrowed), or -1. Returns 0, or -errno with *step set; then some steps have been taken and the process must
 * end.
 */
int cbx_lockdown(const struct cbx_lockdown *l, int landlock, int *step);

/* The rest is for whoever calls it in a program with a C library. */
struct cbx_err;
struct cbx_outer;
struct cbx_plan;

/* What a plan's sandbox gives up. Fails when the plan's profile has no filter. The plan was checked. */
int cbx_lockdown_prepare(const struct cbx_outer *outer, const struct cbx_plan *plan, struct cbx_lockdown *ret,
			 struct cbx_err *err);
/* Make it that of a zygote: the filter for zygotes, a soft limit on memory, and no hard limit that an interpreter
 * forked from it would be held to beside its own. */
int cbx_lockdown_for_zygote(const struct cbx_outer *outer, struct cbx_lockdown *l, struct cbx_err *err);
/* A step in words, for an error. Any number may be passed. */
const char *cbx_lockdown_step_name(int step);

#endif
