/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_EXECUTION_CELLS_H
#define CBX_EXECUTION_CELLS_H

/* What is done with the cells of one session, and with its interpreters (state.h). */
#include "execution/state.h"

int cbx_cells_init(struct cbx_cells *c, struct event_base *base, struct cbx_box *box, struct cbx_keeping *keeping,
		   const char *id, const char *tenant, const struct cbx_cells_events *up);
void cbx_cells_free(struct cbx_cells *c);
/* Queue a cell: `next` does not follow. Errors: "code_too_long", "queue_full", "invalid_argument". */
int cbx_cells_add(struct cbx_seat *seat, const struct cbx_cell_spec *cell, struct cbx_watch_op *watch,
		  struct cbx_execution **ret, struct cbx_err *err);
/* The same for a question; "busy" while there are cells. */
int cbx_cells_ask(struct cbx_seat *seat, enum cbx_question question, const char *code, uint64_t cursor,
		  struct cbx_answer_op *op, struct cbx_err *err);
/* Ask the Python that runs, if it has nothing to do: which of the packages that it has imported are not in the version
 * that is installed now. False: nobody can be asked; a cell that runs tells it itself at its end. */
bool cbx_cells_ask_stale(struct cbx_cells *c, struct cbx_answer_op *op);
bool cbx_seat_want(const struct cbx_seat *seat); /* there is no interpreter, and one is wanted */
/* Ask what waits to be asked, when the interpreter can be; true: a cell can be started. */
bool cbx_seat_next(struct cbx_seat *seat);
void cbx_cells_start(struct cbx_cells *c);	/* the first that waits, now */
void cbx_cells_deliver(struct cbx_cells *c);	/* tell those who watch what has ended; forget what is old */
/* A process of the box was killed, by the supervisor, and it was not the interpreter. */
void cbx_cells_oom(struct cbx_cells *c, int64_t pid, enum cbx_oom why);
bool cbx_cells_interrupt(struct cbx_execution *x); /* false: it has ended, or is being stopped */
size_t cbx_seat_restart(struct cbx_seat *seat); /* how many cells end by it */
void cbx_cells_close(struct cbx_cells *c, const char *why); /* end all; nothing starts any more */
int cbx_cells_find(struct cbx_cells *c, uint64_t id, struct cbx_execution **ret, struct cbx_err *err);
/* Those that wait, the one that runs, and those that are remembered. */
void cbx_cells_each(const struct cbx_cells *c, void (*one)(void *arg, const struct cbx_execution *x), void *arg);
bool cbx_cells_idle(const struct cbx_cells *c); /* an interpreter is ready, and nothing is wanted of any */

/* ---- seats.c ---- */

/* The interpreters, from 0 on, which is the first; NULL behind the last. */
static inline struct cbx_seat *cbx_cells_seat(struct cbx_cells *c, size_t i)
{
	return i == 0 ? &c->first : i <= c->nothers ? c->others[i - 1] : NULL;
}

struct cbx_seat *cbx_cells_find_seat(struct cbx_cells *c, const struct cbx_runtime *rt); /* NULL: none yet */
struct cbx_seat *cbx_cells_by_pid(struct cbx_cells *c, int64_t pid); /* NULL: it is not an interpreter */
/* One more; its `spawn` is to be filled. */
int cbx_cells_add_seat(struct cbx_cells *c, const struct cbx_runtime *rt, struct cbx_seat **ret, struct cbx_err *err);
size_t cbx_seat_unrun(struct cbx_seat *seat, enum cbx_status status, const char *why); /* what waits for it; how many */
void cbx_cells_process_ended(struct cbx_cells *c, int64_t pid, int status); /* a process of the box */
void cbx_cells_limited(struct cbx_cells *c, const struct cbx_err *err);	    /* cbx_link_move() is answered */
size_t cbx_cells_asked(struct cbx_cells *c); /* questions that wait for an answer */
void cbx_cells_fail_asked(struct cbx_cells *c, const struct cbx_err *err);
void cbx_cells_discard(struct cbx_cells *c); /* all interpreters */
void cbx_seats_free(struct cbx_cells *c);
extern const struct cbx_interp_events cbx_cells_interp_events; /* cells.c */

#endif
