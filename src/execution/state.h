/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_EXECUTION_STATE_H
#define CBX_EXECUTION_STATE_H

/*
 * The cells of one session: those that wait, the one that runs, those that are remembered; and the interpreters that run
 * them, one for each language that was used. Whoever has such a row of cells has it as a member, and finds himself by
 * cbx_container_of(). What is done with it: cells.h.
 */
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "execution/execution.h"
#include "execution/output.h"
#include "interp/interp.h"
#include "runtimes/runtime.h"

struct cbx_box;
struct cbx_cells;
struct cbx_policy;

/* One language of a row of cells, and its interpreter. */
struct cbx_seat {
	struct cbx_cells *cells;
	const struct cbx_runtime *runtime; /* NULL: not known yet, of the first */
	struct cbx_interp interp;
	struct cbx_buf spawn; /* how it is started; the first one's is its user's */
	struct cbx_buf lost;  /* said with its next execution: its state was lost in between */
	bool was_ready;	      /* an interpreter was, once */
	bool again;	      /* one that died is to be replaced at once */
};

TAILQ_HEAD(cbx_executions, cbx_execution);

/* Ended executions of one tenant, those that have something to lose, oldest first (keep.c). */
struct cbx_kept {
	LIST_ENTRY(cbx_kept) entry;
	struct cbx_keeping *all;
	char tenant[CBX_NAME_MAX + 1];
	size_t sessions; /* that have some; without one it is freed */
	struct cbx_executions list, held, past; /* held: they were when their turn came; past: for an export only */
	size_t bytes;
};

/* Those of all tenants; CBX_OUTPUT_TOTAL_MAX. */
struct cbx_keeping {
	LIST_HEAD(, cbx_kept) tenants;
	size_t bytes, ntenants;
};

/* What goes up. */
struct cbx_cells_events {
	/* The first interpreter can be used; another one: `next`. */
	void (*ready)(struct cbx_cells *c);
	/* One has ended, and cbx_cells_deliver() tells who watches it. now: nobody's call is under way, so that may be
	 * at once. ran: else it was cancelled before. */
	void (*ended)(struct cbx_cells *c, struct cbx_execution *x, bool ran, bool now);
	/* The interpreter has died, and how; true: another is not wanted. */
	bool (*died)(struct cbx_cells *c, const char *how);
	/* Its files are known, before its end is reported. True: that has to wait; cbx_execution_files_kept() follows.
	 * NULL: it never has. */
	bool (*changed)(struct cbx_cells *c, struct cbx_execution *x);
	/* It cannot be started for the first time, or not be ended: to be closed. */
	void (*failed)(struct cbx_cells *c, const struct cbx_err *err);
	/* The next may be able to start: cbx_seat_want(), cbx_seat_next(). */
	void (*next)(struct cbx_cells *c);
};

/* What the session's policy says of its cells; it does not change. Sizes are in bytes. */
struct cbx_cells_terms {
	uint64_t timeout_ms, timeout_max_ms; /* of cells that name none; and of the others */
	uint64_t history;		     /* what an export has beyond what is remembered anyway; 0: there is none */
	uint64_t results, results_count;     /* what ended ones may take up, and how many there may be */
	uint64_t results_ttl_ms;	     /* UINT64_MAX: as long as the session */
	bool installs;			     /* it can have more packages */
};

struct cbx_cells {
	const struct cbx_cells_events *up;
	struct cbx_box *box;
	struct cbx_keeping *keeping;
	struct cbx_kept *kept;	   /* its tenant's part of that; NULL: none of its cells has ended yet */
	const char *id;		   /* of the session, for messages and URIs; borrowed */
	const char *tenant;	   /* whose it is by the time that it runs a cell; borrowed */
	struct cbx_cells_terms terms;
	struct cbx_seat first; /* its own language */
	struct cbx_seat *others[CBX_RUNTIMES_MAX];
	size_t nothers;
	struct cbx_executions queue, ended, past; /* ended: the kept ones, oldest first; past: see history.c */
	struct cbx_execution *running;
	size_t nqueued, nended, undelivered;
	size_t past_bytes;
	uint64_t forgotten; /* that no export has */
	uint64_t next_id, expired; /* expired: this one and those before it, unless they were forgotten sooner */
	struct cbx_output aside; /* printed while no cell ran; given to the next one */
	struct cbx_buf lost;	 /* said with the next execution: a mount was lowered */
	struct event *timer;	 /* of the cell that runs */
	struct event *expiry;	 /* of ended ones; NULL: they are not that old, or stay */
	bool closed;
	bool failed;		 /* they could not be run at all: see why they were closed */
};

/* forget.c */
/* Before the first cell. timeout_ms: of those that name none. */
void cbx_cells_settle(struct cbx_cells *c, const struct cbx_policy *policy, uint64_t timeout_ms);
/* What ended cells of it may take up, and take up now. */
void cbx_cells_results(const struct cbx_cells *c, cJSON *limits, cJSON *use);

/* history.c */
/* Set "cells", those after an id, as many as a page holds, "more", "forgotten" and "next". */
void cbx_cells_history(struct cbx_cells *c, uint64_t after, cJSON *ret);

/* record.c */
struct cbx_cells *cbx_execution_cells(const struct cbx_execution *x);
const cJSON *cbx_execution_files(const struct cbx_execution *x); /* that it changed, borrowed; NULL: none */
cJSON *cbx_execution_files_open(struct cbx_execution *x); /* the same, for what becomes of them */
void cbx_execution_files_kept(struct cbx_execution *x);
uint32_t cbx_execution_link_s(const struct cbx_execution *x); /* of cbx_cell_spec */
const cJSON *cbx_execution_store(const struct cbx_execution *x); /* likewise */
/* It has ended, and its files are where they go: what the store's secret was in is wiped. */
void cbx_execution_forget_store(struct cbx_execution *x);

#endif
