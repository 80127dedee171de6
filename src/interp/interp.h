/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INTERP_INTERP_H
#define CBX_INTERP_INTERP_H

/*
 * One interpreter process of a box: spawn, frames, questions, signals, death. A box may have several. Whoever uses one
 * has it as a member, and finds himself by cbx_container_of().
 */
#include <cjson/cJSON.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "interp/frames.h"
#include "interp/query.h"
#include "interp/stream.h"
#include "supervisor/requests.h"

struct cbx_box;
struct cbx_interp;

/* What goes up. Each may discard the interpreter; none may free it. */
struct cbx_interp_events {
	/* It can be used. */
	void (*ready)(struct cbx_interp *in);
	/* It printed something after that, in this place among its frames. */
	void (*printed)(struct cbx_interp *in, enum cbx_stream stream, const char *p, size_t n);
	/* A frame about the cell that runs; after CBX_FRAME_DONE none runs. */
	void (*frame)(struct cbx_interp *in, const struct cbx_frame *frame);
	/* It ended after it had been ready, and how, as a clause. It is discarded after that. */
	void (*died)(struct cbx_interp *in, const char *how);
	/* It ended before it was ready, and was discarded. */
	void (*start_failed)(struct cbx_interp *in, const struct cbx_err *err);
	/* It was killed and does not end: the box is of no more use. */
	void (*stuck)(struct cbx_interp *in, const struct cbx_err *err);
	/* What the next cell, or the next start, had to wait for is over. */
	void (*settled)(struct cbx_interp *in);
};

enum cbx_interp_state {
	CBX_INTERP_NONE,     /* there is no process */
	CBX_INTERP_SPAWNING, /* init was asked */
	CBX_INTERP_STARTING, /* runs, has not said "ready" */
	CBX_INTERP_READY,    /* waits for a cell, or runs one */
	CBX_INTERP_DYING,    /* ended, or is being killed */
};

struct cbx_interp {
	struct event_base *base;
	struct cbx_box *box;
	const struct cbx_interp_events *up;
	struct event *timer; /* until ready; until dead; until the next start */
	struct cbx_queries queries;
	char language[64], version[64], kind[64]; /* as the last one that was ready says; "" before */
	unsigned signals;   /* unanswered requests for one */
	unsigned failures;  /* starts that failed, one after another */
	uint64_t retry_ms;  /* when the next start may be, as cbx_now_ms() */

	/* From here on: of one process. cbx_interp_discard() makes it zero. */
	enum cbx_interp_state state;
	int64_t pid; /* inside; 0 unknown */
	int from, to, pipe[CBX_STREAMS]; /* frames, and what is printed */
	int input; /* the pipe of its standard input, without a writer; never read or changed by us */
	struct event *in, *out, *pipes[CBX_STREAMS];
	struct event *pace;  /* read what it prints again */
	struct event *pump;  /* handle frames that wait */
	struct cbx_buf rx, tx;
	bool at_frame;		  /* a whole frame is at the front of rx, waiting for the pipes */
	size_t looked;		  /* the bytes of rx that were read after `owed` had been measured */
	bool narrow[CBX_STREAMS], from_narrow; /* the pipe has its capacity between cells */
	bool stalled;		  /* they are not read: who takes it all is slow */
	size_t owed[CBX_STREAMS]; /* bytes that were in a pipe when that frame was seen */
	bool killed;		  /* by us */
	bool oom;		  /* for memory: by the supervisor's watcher, or by the kernel */
	bool oom_outside;	  /* not for its own limit */
	bool oom_opened;	  /* not for memory: for how many files the box's processes had open */
	uint64_t oom_files;	  /* bytes of the box's files then; 0: not known */
	bool limited;		  /* in its control group, with all that it started */
	bool reported;		  /* it said that it is ready before it was limited */
	bool exited;		  /* init or the kernel said so */
	bool was_ready;
	bool introduced; /* it knows what it has of its own: of its user, for him */
	bool restart; /* it was killed because that was asked for: of its user, for him */
	bool status_known;
	int status;	      /* wait status */
	char fault[300];      /* what it did against the protocol */
	const char *program;  /* borrowed from its launch */
	uint64_t cell;	      /* that runs; 0: none */
	uint64_t last_cell;   /* that ran */
	bool unpaced;	      /* who takes its output sets the pace */
	uint64_t frame_bytes; /* from it during this cell */
	uint64_t printed;     /* likewise, through the pipes */
	struct {
		int64_t pid;
		int status;
	} early[4]; /* ended before we knew its pid */
	unsigned nearly;
	struct cbx_buf noise; /* printed before "ready" */
};

int cbx_interp_init(struct cbx_interp *in, struct event_base *base, struct cbx_box *box,
		    const struct cbx_interp_events *up);
void cbx_interp_free(struct cbx_interp *in); /* its questions have been answered, or failed */

/* How to start one. */
struct cbx_launch {
	const struct cbx_buf *spawn; /* payload of CBX_INIT_SPAWN; stays until the interpreter is discarded */
	uint64_t zygote; /* have it forked from this one instead; 0: none */
	cJSON *first;	 /* the first frame that it is sent; taken. NULL: none */
	bool watched;	 /* somebody else sees to it that its start comes to an end */
};
int cbx_interp_start(struct cbx_interp *in, const struct cbx_launch *launch, struct cbx_err *err);
/* Starts that failed are followed by a pause, which doubles. False: not yet; `settled` follows. */
bool cbx_interp_may_start(struct cbx_interp *in);
uint64_t cbx_interp_pause_ms(const struct cbx_interp *in); /* what is left of it */
/* It runs, forked from a zygote and under its limits. False: nobody waits for that. */
bool cbx_interp_placed(struct cbx_interp *in, int64_t pid);
void cbx_interp_limited(struct cbx_interp *in); /* it is in its control group, with all that it started */
/* Close and forget everything, after what is in the pipes was read; no process is signalled. */
void cbx_interp_discard(struct cbx_interp *in);

void cbx_interp_send(struct cbx_interp *in, cJSON *frame); /* takes frame */
/* Run a cell: its id counts upwards. Takes frame, which lacks the id. unpaced: who takes its output sets the pace. */
void cbx_interp_run(struct cbx_interp *in, uint64_t id, cJSON *frame, bool unpaced);
/* Do not read what it prints, until told otherwise: it waits, as for any slow reader. */
void cbx_interp_stall(struct cbx_interp *in, bool on);
void cbx_interp_rest(struct cbx_interp *in); /* the cell has ended, for its user too */

void cbx_interp_signal(struct cbx_interp *in, int sig);
void cbx_interp_kill(struct cbx_interp *in); /* it alone; the box lives on */
void cbx_interp_fault(struct cbx_interp *in, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cbx_interp_ended(struct cbx_interp *in, int64_t pid, int status); /* a process of the box, by init's word */
/* The supervisor has killed a process of the box. False: another one. */
bool cbx_interp_oom(struct cbx_interp *in, int64_t pid, enum cbx_oom why);

/* death.c: how it died, as a clause; and why the supervisor kills: what follows "was killed because". */
void cbx_interp_how(const struct cbx_interp *in, char *out, size_t n);
void cbx_interp_oom_text(enum cbx_oom why, uint64_t memory_bytes, char *out, size_t n);

#define CBX_KILL_WAIT_S 10 /* a killed interpreter must have ended by then; else the box is given up */

#endif
