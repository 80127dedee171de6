/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BOX_STATE_H
#define CBX_BOX_STATE_H

/*
 * What the files of a box share: its state, that of all boxes, and the events that go up. A box knows nothing of who
 * uses it: a session has one as a member, and finds itself by cbx_container_of().
 */
#include <event2/event.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "cgroup/group.h"
#include "sandbox/init-protocol.h"
#include "supervisor/requests.h"

struct cbx_box;

/* Nothing but `gone` is called of a box that has been closed. */
struct cbx_box_events {
	/* Its init is there, once: processes can be started. */
	void (*ready)(struct cbx_box *box);
	/* It cannot be used any more, and why: to be closed. */
	void (*failed)(struct cbx_box *box, const struct cbx_err *why);
	/* Nothing of it is left. */
	void (*gone)(struct cbx_box *box);
	/* A process of it that we started has ended. */
	void (*ended)(struct cbx_box *box, int64_t pid, int status);
	/* The supervisor has killed a process. */
	void (*oom)(struct cbx_box *box, int64_t pid, enum cbx_oom which);
	/* Answers cbx_link_enter(). err NULL: the interpreter runs, under its limits, and its pid inside is this. */
	void (*placed)(struct cbx_box *box, int64_t pid, const struct cbx_err *err);
	/* Answers cbx_link_move(). err NULL: nothing but init is outside of its limits. */
	void (*limited)(struct cbx_box *box, const struct cbx_err *err);
	/* Answers cbx_link_measure(): box->pss is of now. */
	void (*measured)(struct cbx_box *box);
	/* Answers cbx_link_packages(). err NULL: they are there. */
	void (*attached)(struct cbx_box *box, const struct cbx_err *err);
	/* It may be time to ask cbx_group_settled() again. */
	void (*settling)(struct cbx_box *box);
	/* A process in it asks for something, which cbx_box_tell() answers, once; p NULL: it has gone, and is answered,
	 * too. The next question comes after that. */
	void (*asked)(struct cbx_box *box, uint64_t number, const char *p, size_t n);
	/* A line about what its proxy has decided, or what became of its route. */
	void (*decided)(struct cbx_box *box, const char *text);
	/* For how many milliseconds nobody has wanted anything of it; 0: somebody does. */
	uint64_t (*unused_ms)(struct cbx_box *box);

	/* Of all of them; arg is that of the boxes. */
	void (*zygote)(void *arg, const struct cbx_event *ev);
	/* The supervisor has ended, and every sandbox with it. */
	void (*down)(void *arg, bool had_been_up);
	void (*note)(void *arg, const char *text); /* a line for the log */
};

/* ---- one ---- */

struct cbx_init_message;
TAILQ_HEAD(cbx_init_messages, cbx_init_message);

struct cbx_init_client {
	int sock;
	struct event *in, *out, *late; /* late: no answer for too long */
	struct cbx_init_messages unsent, unanswered;
	size_t count; /* in both */
	size_t bytes; /* in unsent */
	uint32_t next_id;
	bool ready; /* init has said so */
	bool ended; /* init closed it: it is dead, or never was */
};

/* Its way out (egress.h). */
struct cbx_decisions;
struct cbx_egress {
	int door; /* by which its proxy gets the listener; -1: it has none, or the proxy has it */
	int talk; /* to its proxy; -1: there is none */
	struct event *in;
	struct cbx_decisions *decisions; /* NULL: there was no proxy */
	struct cbx_buf trust;		 /* certificates for the sandbox, as far as they have come */
	bool waits;			 /* for them, or until they are a file in it */
};

struct cbx_box {
	struct cbx_boxes *all;
	LIST_ENTRY(cbx_box) by_number;
	uint64_t number;  /* the supervisor's, never used twice; 0: it was not begun */
	const char *name; /* of who uses it, for messages; borrowed */
	bool closed;
	bool gone; /* nothing of the sandbox is left */
	bool cut;  /* it had a route, and has none any more */
	struct cbx_init_client init;
	struct cbx_egress egress;
	int theirs; /* init's end of its socket, until it is begun; else -1 */

	/* its control group */
	struct cbx_cgroup_limits limits; /* what is asked for */
	char tenant[CBX_NAME_MAX + 1];	 /* in whose group its own is */
	uint32_t tenant_weight;		 /* of cpu.weight of that */
	bool io_loose; /* its use of disks is to be limited, but some are not known, or there is no controller */
	struct cbx_cgroup group;
	struct cbx_group_share *share; /* NULL: it has no group */
	unsigned moves; /* unanswered requests to move its processes */
	bool frozen;
	uint64_t reclaimed; /* bytes asked for when it was frozen the last time */
	uint64_t rest_looked_ms, rest_cpu_us;
	struct event *rest_timer, *settle_timer; /* NULL until they are needed */
	int64_t files_changed_ns; /* CLOCK_REALTIME: see cbx_files_changed() */
	uint64_t settle_until_ms; /* what was killed for memory may still hold it; 0: no */

	bool measured, measuring; /* it was, once; an answer is waited for */
	uint64_t pss, cpu_us;	     /* when it was measured the last time ... */
	uint64_t measured_ms;	     /* ... which was then */
	struct cbx_cgroup_usage use; /* as its control group told it the last time ... */
	uint64_t use_ms;	     /* ... which was then; 0: never */
	uint64_t files_bytes;	     /* likewise: see cbx_group_look() */
};

#define CBX_TICK_MAX_NS 50000000

/* Whether what changes from now on has a later stamp than the files that have changed so far (files.h). */
static inline bool cbx_files_settled(const struct cbx_box *box)
{
	int64_t early = box->files_changed_ns - cbx_wall_ns(CLOCK_REALTIME_COARSE);

	return early < 0 || early > CBX_TICK_MAX_NS; /* or the clock was set back */
}

/* ---- all ---- */

enum cbx_link_state { CBX_LINK_STARTING, CBX_LINK_UP, CBX_LINK_DOWN };

struct cbx_link_item;

struct cbx_link {
	enum cbx_link_state state;
	int sock;
	pid_t stage;	  /* the process that we forked; the supervisor proper is another child */
	int stage_status; /* its wait status, -1 before it ended */
	struct event *in, *out, *child; /* child: SIGCHLD */
	TAILQ_HEAD(, cbx_link_item) queue; /* requests that the socket had no room for */
	struct cbx_facts facts;
	struct cbx_err why; /* DOWN */
};

/* The group of a tenant's sessions, while there is one of these. */
struct cbx_group_share {
	LIST_ENTRY(cbx_group_share) entry;
	char tenant[CBX_NAME_MAX + 1];
	int dir;
	uint32_t weight; /* in force; 0: the kernel's */
	size_t n;	 /* groups of sessions in it, those that are ending too */
};

struct cbx_group_ending {
	uint64_t number;
	struct cbx_group_share *share;
	int tries;
};

/* Strings are borrowed for as long as the boxes are there. */
struct cbx_boxes_config {
	const char *images_dir, *libexec_dir, *runtimes_dir, *syscalls_dir;
	const char *packages_dir; /* directories of sessions' packages; NULL: there are none */
	uid_t service_uid;
	gid_t service_gid;
	bool mountable;		/* directories of the machine may be shown in a sandbox */
	unsigned freeze_idle_s; /* a session is stopped when it was unused for this time; 0: never */
	const struct cbx_cgroup_tree *cgroup; /* NULL: none */
};

#define CBX_BOX_BUCKETS 512

struct cbx_boxes {
	struct event_base *base;
	struct cbx_boxes_config config;
	const struct cbx_box_events *events;
	void *arg;
	struct cbx_link link;
	uint64_t last_number;
	int proxy; /* to codebox-proxy; -1: it could not be started */
	char resolver[46]; /* egress.h: found last; "": it was not looked for */
	LIST_HEAD(, cbx_box) by_number[CBX_BOX_BUCKETS];
	LIST_HEAD(, cbx_group_share) shares;
	struct cbx_group_ending *ending; /* control groups that are being removed */
	size_t nending;
	struct event *remove_timer;
};

#endif
