/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SUPERVISOR_SUPERVISOR_H
#define CBX_SUPERVISOR_SUPERVISOR_H

/* What the supervisor's own files share: sandboxes in main.c, zygotes in zygotes.c. Nothing else includes this. */
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/ids.h"
#include "sandbox/outer.h"
#include "supervisor/group.h"
#include "supervisor/lanes.h"
#include "supervisor/requests.h"

/* The first interpreter of a sandbox, when a zygote makes it. */
struct placing {
	enum { PLACE_NONE, PLACE_WAITING, PLACE_ASKED, PLACE_DONE } state;
	uint64_t zygote; /* WAITING, ASKED: who is, or was, asked */
	int fds[4];      /* WAITING: the interpreter's; its zygote's socket had no room */
	pid_t placed;    /* told by itself, the kernel vouching for it; 0: not yet */
	pid_t forked;    /* told by the zygote; 0: not yet */
	uint64_t deadline_ms;
	pid_t inside;    /* DONE: its pid in the sandbox, until it has ended; `placed` is the one out here */
};

struct sandbox {
	uint64_t id; /* codeboxd's number */
	pid_t pid;
	int pidfd;
	int report; /* -1 once set-up is done */
	pid_t opener; /* of its mounts, until that has ended; 0: none */
	int landlock; /* its ruleset, for an interpreter that is placed in it; -1: none, or not needed any more */
	int failed; /* set-up failed: no GONE event */
	uint32_t outer_id;
	struct cbx_group group; /* limits it; without one, the watcher does */
	uint64_t limit, peak;
	struct cbx_known known;
	struct cbx_pace pace;
	uint64_t look_ms; /* no look before */
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
	uint64_t deadline_ms; /* to be ready; 0: it is */
	struct cbx_err why;   /* of its end */
};

struct supervisor {
	struct cbx_outer outer;
	struct cbx_filter own; /* until it is loaded */
	struct cbx_ids ids;
	uint32_t last_id; /* of them: given last */
	struct cbx_facts facts;
	struct sandbox *all;
	size_t n;
	struct cbx_lanes lanes;
	size_t watched;    /* index of the next sandbox to look at ... */
	uint64_t watch_ms; /* ... and when */
	struct zygote *zygotes;
	size_t nzygotes;
	bool strangers; /* a zygote has ended: look for processes that it left */
	int lists;      /* the directory of system call lists */
	int sigfd;
};

void send_event(const struct cbx_event *e);
struct sandbox *find_sandbox(struct supervisor *s, uint64_t id);
/* Take in what its set-up reports, waiting for it. 1 when there is more to come; 0: `report` is closed. */
int set_up_goes_on(struct sandbox *b);

/* zygotes.c */
/* One descriptor: a file with its arguments and environment. What cannot be done is told by an event. */
void zygote_start(struct supervisor *s, const struct cbx_request *q, const int *fds, size_t nfds);
void zygote_end(struct supervisor *s, uint64_t id);
/* Four descriptors: the interpreter's. Those that are kept are taken. */
void zygote_enter(struct supervisor *s, const struct cbx_request *q, int *fds, size_t nfds);
/* Its sandbox goes: nobody is asked for an interpreter any more. */
void zygote_forget(struct sandbox *b);
/* At most 2 entries for each zygote; returns how many. */
size_t zygotes_poll(const struct supervisor *s, struct pollfd *p);
void zygotes_readable(struct supervisor *s, const struct pollfd *p, size_t n);
/* True when pid was a zygote or an interpreter that one has made. */
bool zygotes_reaped(struct supervisor *s, pid_t pid, int status);
/* Deadlines, and processes that nobody knows. */
void zygotes_check(struct supervisor *s);

#endif
