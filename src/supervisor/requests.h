/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SUPERVISOR_REQUESTS_H
#define CBX_SUPERVISOR_REQUESTS_H

/*
 * Between codeboxd and the supervisor: fixed-size datagrams on a SOCK_SEQPACKET socket that codeboxd made when it
 * started the supervisor. The supervisor listens to no other process, parses nothing, and knows sandboxes by the number
 * that codeboxd gave them.
 *
 * The supervisor ends when this socket is closed, and every sandbox with it: it is pid 1 of the outer pid namespace.
 */
#include <stdint.h>

#include "base/err.h"
#include "sandbox/plan.h"

enum cbx_request_type {
	/* One descriptor: init's end of the init protocol socket. Or three: with the directories of the sandbox's two
	 * control groups, init's and everything else's (supervisor/groups.h); the supervisor keeps these. With
	 * CBX_PLAN_PROXY one more: the door, by which the sandbox's set-up hands out a listener. */
	CBX_REQUEST_CREATE = 1,
	CBX_REQUEST_DESTROY = 2, /* kill everything in it; CBX_EVENT_GONE follows */
	/* Gather all but init in the second of its control groups; CBX_EVENT_MOVED follows. Only for a sandbox that has
	 * them. */
	CBX_REQUEST_MOVE = 3,
	/* Start a zygote for the image of the plan; `sandbox` is its number (zygotes have numbers of their own). One
	 * descriptor: a file with arguments and environment, as in CBX_INIT_SPAWN. ZYGOTE_READY or
	 * ZYGOTE_GONE follows. */
	CBX_REQUEST_ZYGOTE = 4,
	CBX_REQUEST_ZYGOTE_END = 5,
	/* Have `zygote` fork the sandbox's first interpreter. CBX_INTERPRETER_FDS descriptors: its 0, 1, 2 and so
	 * on. ENTERED follows, unless the sandbox ends. */
	CBX_REQUEST_ENTER = 6,
	CBX_REQUEST_MEASURE = 7, /* add up the memory of a sandbox that has no control group; MEASURED follows */
	CBX_REQUEST_USED = 8,	 /* a client has a cell run in it: it has processors free of others' computing; not answered */
	/* Say what paths of the machine are really called: one descriptor, the socket that asks (sandbox/hostnames.h). It
	 * is closed without an answer where that cannot be done. */
	CBX_REQUEST_NAMES = 9,
	/* Show it a directory of packages (sandbox/packages.h), once its init runs; CBX_EVENT_PACKAGES follows. One at a
	 * time. */
	CBX_REQUEST_PACKAGES = 10,
};

/* Which limit it was. */
enum cbx_oom {
	CBX_OOM_SESSION,  /* the session's memory */
	CBX_OOM_TOGETHER, /* that of all sessions */
	CBX_OOM_FILES,	  /* how many files its processes may have open */
};

struct cbx_request {
	uint32_t type;
	uint32_t zero;
	uint64_t sandbox; /* codeboxd's number, never used twice */
	uint64_t zygote; /* ENTER */
	char packages[32]; /* PACKAGES: the directory's name */
	uint64_t together; /* CREATE: memory that all sandboxes without a control group may use; 0: no limit */
	struct cbx_plan plan; /* CREATE, ZYGOTE */
};

enum cbx_event_type {
	CBX_EVENT_UP = 1,     /* the supervisor is ready; `facts` says what this machine gives */
	CBX_EVENT_FAILED = 3, /* the sandbox was not made; err says why. No GONE follows. */
	CBX_EVENT_GONE = 4,   /* its last process has ended; status is init's wait status, oom as below */
	CBX_EVENT_OOM = 5,    /* the watcher killed process `pid` (as seen inside); status: enum cbx_oom, what for */
	CBX_EVENT_DOWN = 6,   /* the supervisor cannot work at all; err says why. It ends after this. */
	CBX_EVENT_MOVED = 7,  /* answers MOVE; status 0: nothing but init is outside of the second group any more; else
			       * err says why */
	/* Answers ENTER. err.code 0: an interpreter, `pid` inside, is in its place and in its control group; what it is
	 * has been verified. Else there is none, and init may be asked for one. */
	CBX_EVENT_ENTERED = 8,
	CBX_EVENT_EXITED = 9,	     /* that interpreter, `pid` inside, has ended with wait status `status` */
	CBX_EVENT_ZYGOTE_READY = 10, /* `sandbox` is the zygote's number; memory_peak: cbx_watch_written() */
	CBX_EVENT_ZYGOTE_GONE = 11,  /* likewise; err says why */
	CBX_EVENT_MEASURED = 12,     /* memory_peak: sum of PSS now, bytes */
	CBX_EVENT_PACKAGES = 13,     /* answers PACKAGES. err.code 0: they are there */
	CBX_EVENT_CUT = 14,	     /* it had a route, which has ended with wait status `status` */
};

/* What protections and facilities are in force; shown in a session's info. */
struct cbx_facts {
	uint32_t ids;          /* ids in the outer namespace: 1, or the size of a range */
	uint32_t overlay;      /* 1: overlay per session */
	uint32_t landlock_abi; /* 0: none */
	uint32_t seccomp_rules[CBX_PROFILES]; /* system calls that each profile allows */
};

struct cbx_event {
	uint32_t type;
	int32_t status;
	uint64_t sandbox;
	uint64_t memory_peak; /* GONE: largest sum of PSS that the watcher saw, bytes; 0 unknown. MEASURED: of now */
	uint64_t cpu_us;      /* MEASURED: what its processes have used so far */
	int32_t pid;
	uint32_t zero;
	struct cbx_facts facts;
	struct cbx_err err;
};

#endif
