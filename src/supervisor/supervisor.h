/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SUPERVISOR_SUPERVISOR_H
#define CBX_SUPERVISOR_SUPERVISOR_H

/* What the supervisor's own files share: main.c, hold.c and zygotes.c. Nothing else includes this. */
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"
#include "sandbox/handed.h"
#include "sandbox/ids.h"
#include "sandbox/interpreter-fds.h"
#include "sandbox/outer.h"
#include "supervisor/count.h"
#include "supervisor/groups.h"
#include "supervisor/lanes.h"
#include "supervisor/requests.h"

/* The first interpreter of a sandbox, when a zygote makes it. */
struct placing {
	enum { PLACE_NONE, PLACE_WAITING, PLACE_ASKED, PLACE_DONE } state;
	uint64_t zygote; /* WAITING, ASKED: who is, or was, asked */
	int fds[CBX_INTERPRETER_FDS]; /* WAITING: the interpreter's; its zygote's socket had no room */
	pid_t placed;		      /* reported by itself, the kernel vouching for it; 0: not yet */
	pid_t forked;		      /* reported by the zygote; 0: not yet */
	uint64_t deadline_ms;
	pid_t inside;    /* DONE: its pid in the sandbox, until it has ended; `placed` is the one out here */
};

/* What a sandbox without a control group is held to (hold.c). */
struct held {
	uint64_t limit, peak;
	uint64_t bytes, at_ms;	/* its memory at the last look: what it is sure not to exceed */
	uint64_t sure;		/* of that, what was counted: the rest can be shared, or have been added since */
	uint64_t beside;	/* of that, what no process has mapped: page tables, sockets, /dev/shm */
	uint64_t files;		/* that it had open then, at most */
	struct cbx_known known;
	uint64_t killed_ms;	/* when a process of it was last killed */
	unsigned strikes;	/* how often, one soon after the other */
	uint64_t inherited;	/* of its zygote's memory, at most, bytes: what it does not write to is not its own */
	uint64_t plain_ms;	/* until then its processes count with their resident sets: counting them takes too long */
	uint64_t question;	/* the counter's, 0: none */
	uint64_t cpu_ns, cpu_at_ms; /* at the last look */
	bool settling;		    /* it is counted because all together may use too much */
	bool asked;		    /* codeboxd waits for MEASURED ... */
	uint64_t asked_cpu_ns;	    /* ... with this */
};

struct sandbox {
	uint64_t id; /* codeboxd's number */
	pid_t pid;
	int pidfd;
	int report; /* -1 once set-up is done */
	pid_t opener; /* of its mounts, until that has ended; 0: none */
	pid_t route; /* its pasta, until that has ended; 0: none */
	pid_t attaching; /* packages, until it has ended; 0: none */
	struct cbx_handed handed; /* the ruleset is for an interpreter that is placed in it, and then released */
	int failed; /* set-up failed: no GONE event */
	uint32_t outer_id;
	struct cbx_groups groups; /* limits it; without one, the watcher does */
	struct held held;
	struct cbx_pace pace;
	uint64_t look_ms; /* no look before ... */
	uint64_t rest_ms; /* ... and this time between two while nothing of it runs */
	bool free;	  /* it chooses its processors itself */
	struct cbx_plan *plan; /* owned; NULL when it cannot be needed any more */
	struct placing placing;
};

struct zygote {
	uint64_t id; /* codeboxd's number */
	pid_t pid;
	int pidfd;
	int report; /* -1 once set-up is done */
	int sock;
	bool ready, killed;
	uint64_t written; /* bytes of its own memory when it was */
	uint64_t deadline_ms; /* to be ready; 0: it is */
	struct cbx_err why;   /* of its end */
};

struct supervisor {
	struct cbx_outer outer;
	struct cbx_filter own; /* until it is loaded */
	struct cbx_ids ids;
	uint32_t last_id; /* of them: given last */
	struct sandbox *all;
	size_t n;
	struct cbx_lanes lanes;
	size_t watched;      /* index of the next sandbox to look at ... */
	uint64_t watch_ms;   /* ... and when, at the earliest */
	uint64_t divide_ms;  /* when the processors were last divided */
	uint64_t together;   /* what all sandboxes may use, bytes; 0: no limit */
	uint64_t free_bytes; /* the machine's memory, at its most since all sandboxes were looked at */
	uint64_t free_ms;    /* when that was looked at */
	int meminfo;
	uint64_t settle_ms; /* who is counted because all together may use too much is chosen then, at the earliest; 0: at once */
	struct cbx_counter counter;
	uint64_t counted;   /* the sandbox whose processes were counted last */
	uint64_t questions; /* that the counter was asked */
	struct zygote *zygotes;
	size_t nzygotes;
	pid_t naming[CBX_HOST_NAMES_MAX]; /* processes that look for names of the machine; 0: none */
	bool strangers; /* a zygote has ended: look for processes that it left */
	int lists;      /* the directory of system call lists */
	int sigfd;
};

#define SOCK 3 /* to codeboxd */

void send_event(const struct cbx_event *e);
/* err: NULL for none. */
void send_about(enum cbx_event_type type, uint64_t number, const struct cbx_err *err);
struct sandbox *find_sandbox(struct supervisor *s, uint64_t id);
/* Take in what its set-up reports, waiting for it. 1 when there is more to come; 0: `report` is closed. */
int set_up_goes_on(struct sandbox *b);

/* zygotes.c */
/* One descriptor: a file with its arguments and environment. What cannot be done is reported by an event. */
void zygote_start(struct supervisor *s, const struct cbx_request *q, const int *fds, size_t nfds);
void zygote_end(struct supervisor *s, uint64_t id);
/* CBX_INTERPRETER_FDS descriptors. Those that are kept are taken. */
void zygote_enter(struct supervisor *s, const struct cbx_request *q, int *fds, size_t nfds);
/* Its sandbox goes: no interpreter is asked for any more. */
void zygote_forget(struct sandbox *b);
/* At most 2 entries for each zygote; returns how many. */
size_t zygotes_poll(const struct supervisor *s, struct pollfd *p);
void zygotes_readable(struct supervisor *s, const struct pollfd *p, size_t n);
/* True when pid was a zygote or an interpreter that one has made. */
bool zygotes_reaped(struct supervisor *s, pid_t pid, int status);
/* Is there any that has a deadline, or a process of one that has ended? */
bool zygotes_waited_for(const struct supervisor *s);
/* Deadlines, and processes that belong to no request. All that zygotes had said by heard_ms has been heard. */
void zygotes_check(struct supervisor *s, uint64_t heard_ms);

/* hold.c */
/* Looks at sandboxes whose time it is. */
void hold_watch(struct supervisor *s);
/* When there is something to do next; at most UINT64_MAX. */
uint64_t hold_next_ms(const struct supervisor *s);
/* A client uses it, or something else says that there may be something to see. */
void hold_wake(struct sandbox *b);
/* Answer MEASURE, now or later. */
void hold_measure(struct supervisor *s, struct sandbox *b);
/* The counter has answered, or has ended. */
void hold_counted(struct supervisor *s);
void hold_forget(struct sandbox *b);

#endif
