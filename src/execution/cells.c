/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: cells wait in a queue and run one at a time. Time limits and interrupts only lead to an end
 * (ends.c): first SIGINT, which a cell turns into KeyboardInterrupt and "done", then, after CBX_GRACE_MS, SIGKILL and
 * death.
 *
 * The next cell starts only when no signal is under way any more: an interrupt that was meant for one cell must not hit
 * the next.
 *
 * What is printed while no cell runs (by threads and children that outlive theirs) is kept, a little of it, and becomes
 * the start of the next cell's output.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/timer.h"
#include "box/box.h"
#include "execution/cells.h"
#include "execution/internal.h"
#include "interp/input.h"

#define EARLY_MS 1000 /* after a cell's start */
#define AGAIN_MS 500  /* from the first interrupt to the second */
#define LOOK_MS	 1    /* whether files have a later stamp by now */
#define NOTES_MAX 1000 /* bytes of notes about killed processes */

static struct cbx_seat *seat_of(struct cbx_interp *in)
{
	return cbx_container_of(in, struct cbx_seat, interp);
}

static struct cbx_cells *cells_of(struct cbx_interp *in)
{
	return seat_of(in)->cells;
}

/* ---- the queue ---- */

static int check(const struct cbx_cells *c, const struct cbx_cell_spec *cell, struct cbx_err *err)
{
	size_t n = strlen(cell->code), max = cell->file ? (CBX_CODE_MAX + 2) / 3 * 4 : CBX_CODE_MAX;

	if (n > max)
		return cbx_refuse(
			err, "code_too_long", EMSGSIZE,
			"code: %zu bytes are more than the %zu allowed; write data to a file of the session and read "
			"it from there",
			n, CBX_CODE_MAX);
	if (cell->timeout_ms > CBX_TIMEOUT_MAX_MS)
		return cbx_refuse(err, "invalid_argument", ERANGE, "timeout: %g s is too long; give up to %d",
				  (double)cell->timeout_ms / 1000, CBX_TIMEOUT_MAX_MS / 1000);
	if (c->nqueued >= CBX_QUEUE_MAX)
		return cbx_refuse(err, "queue_full", EBUSY,
				  "%zu cells are waiting in session %s already; wait for one to end", c->nqueued,
				  c->id);
	return 0;
}

int cbx_cells_add(struct cbx_seat *seat, const struct cbx_cell_spec *cell, struct cbx_watch_op *watch,
		  struct cbx_execution **ret, struct cbx_err *err)
{
	struct cbx_cells *c = seat->cells;
	struct cbx_execution *x;
	int r = check(c, cell, err);

	if (r < 0)
		return r;
	x = cbx_execution_new(seat, cell);
	if (watch)
		cbx_execution_watch(x, watch, err); /* the first one finds room */
	TAILQ_INSERT_TAIL(&c->queue, x, entry);
	c->nqueued++;
	*ret = x;
	return 0;
}

int cbx_cells_ask(struct cbx_seat *seat, enum cbx_question question, const char *code, uint64_t cursor,
		  struct cbx_answer_op *op, struct cbx_err *err)
{
	struct cbx_interp *in = &seat->interp;
	struct cbx_cells *c = seat->cells;

	/* What an interpreter that does not read has not taken stays when the time for an answer is over. */
	if (in->tx.len > CBX_CODE_MAX)
		return cbx_refuse(
			err, "busy", EBUSY,
			"the interpreter of session %s does not read its questions; interrupt it, or restart it",
			c->id);
	if (c->running || c->nqueued || in->queries.n >= CBX_QUERIES_MAX)
		return cbx_refuse(err, "busy", EBUSY, "a cell is running in session %s; ask again when it has ended",
				  c->id);
	return cbx_query_add(&in->queries, in->base, question, code, cursor, op, err);
}

bool cbx_cells_ask_stale(struct cbx_cells *c, struct cbx_answer_op *op)
{
	struct cbx_seat *seat;
	struct cbx_err ignored;

	for (size_t i = 0; !c->closed && !c->running && !c->nqueued && (seat = cbx_cells_seat(c, i)); i++) {
		struct cbx_interp *in = &seat->interp;

		if (in->state == CBX_INTERP_READY && !in->signals && strcmp(in->language, "python") == 0)
			return in->tx.len <= CBX_CODE_MAX && in->queries.n < CBX_QUERIES_MAX &&
			       cbx_query_add(&in->queries, in->base, CBX_ASK_STALE, "", 0, op, &ignored) >= 0;
	}
	return false;
}

static void print_aside(void *arg, enum cbx_stream stream, const char *p, size_t n)
{
	cbx_apply_print(arg, stream, p, n);
}

static void give_aside(struct cbx_cells *c, struct cbx_execution *x)
{
	struct cbx_output aside = c->aside;

	memset(&c->aside, 0, sizeof(c->aside));
	c->aside.head_max = aside.head_max;
	c->aside.tail_max = aside.tail_max;
	cbx_output_each(&aside, print_aside, x);
	cbx_output_release(&aside);
}

static void open_input(struct cbx_execution *x)
{
	struct cbx_interp *in = &x->seat->interp;
	struct cbx_err err;

	if (cbx_feed_open(in->input, in->base, &x->feed, &err) < 0)
		cbx_buf_addf(&x->note, "The cell has no standard input: %.200s. ", err.msg);
}

void cbx_cells_start(struct cbx_cells *c)
{
	struct cbx_execution *x = TAILQ_FIRST(&c->queue);
	cJSON *frame = x->program ? take_ptr(&x->program) : cbx_json_new_obj();

	x->since_ns = cbx_wall_ns(CLOCK_REALTIME_COARSE);
	TAILQ_REMOVE(&c->queue, x, entry);
	c->nqueued--;
	c->running = x;
	x->status = CBX_RUNNING;
	x->start_ms = cbx_now_ms();
	cbx_json_set_str(frame, "code", x->code);
	cbx_json_set_bool(frame, "silent", false);
	if (!x->code_bytes || !c->terms.history)
		free(take_ptr(&x->code));
	cbx_buf_add(&x->note, cbx_buf_str(&c->lost), c->lost.len);
	cbx_buf_release(&c->lost);
	cbx_buf_add(&x->note, cbx_buf_str(&x->seat->lost), x->seat->lost.len);
	cbx_buf_release(&x->seat->lost);
	cbx_timer_set(c->timer, x->timeout_ms);
	if (x->wants_input)
		open_input(x);
	cbx_group_begin(c->box, &x->before);
	cbx_interp_run(&x->seat->interp, x->id, frame, x->streamed);
	cbx_watch_tell(x, &(struct cbx_progress){ .what = CBX_STARTED });
	if (cbx_output_total(&c->aside) && c->running == x)
		give_aside(c, x);
}

/* An interpreter is started without knowing whose it will be; it learns that before its first cell. */
static void introduce(struct cbx_seat *seat)
{
	cJSON *frame = cbx_json_new_obj(), *environment = cbx_json_new_obj();

	cbx_json_set_str(environment, "CODEBOX_SESSION", seat->cells->id);
	cbx_json_set_str(frame, "op", "session");
	cbx_json_set(frame, "environment", environment);
	seat->interp.introduced = true;
	cbx_interp_send(&seat->interp, frame);
}

/* The next cell, when it is one of this interpreter. */
static struct cbx_execution *first_of(const struct cbx_seat *seat)
{
	struct cbx_execution *x = TAILQ_FIRST(&seat->cells->queue);

	return x && x->seat == seat ? x : NULL;
}

bool cbx_seat_want(const struct cbx_seat *seat)
{
	const struct cbx_interp *in = &seat->interp;

	return !seat->cells->closed && in->state == CBX_INTERP_NONE && !in->signals &&
	       (seat->again || first_of(seat) || in->queries.n);
}

bool cbx_seat_next(struct cbx_seat *seat)
{
	struct cbx_interp *in = &seat->interp;
	struct cbx_cells *c = seat->cells;
	cJSON *frame;

	if (c->closed || in->signals || in->state != CBX_INTERP_READY || c->running)
		return false;
	if (!in->introduced)
		introduce(seat);
	while (in->queries.n && (frame = cbx_query_next(&in->queries)))
		cbx_interp_send(in, frame);
	if (in->state != CBX_INTERP_READY || !first_of(seat))
		return false;
	if (!cbx_files_settled(c->box)) {
		cbx_timer_set(c->timer, LOOK_MS); /* or the files of the cell before it would be its own, too */
		return false;
	}
	return true;
}

bool cbx_cells_idle(const struct cbx_cells *c)
{
	const struct cbx_interp *in = &c->first.interp;

	for (size_t i = 0; i < c->nothers; i++)
		if (c->others[i]->interp.queries.n || c->others[i]->interp.signals)
			return false;
	return (in->state == CBX_INTERP_READY || !c->first.runtime) && !c->running && !c->nqueued && !in->queries.n && !in->signals;
}

/* ---- what the interpreter says ---- */

static void on_ready(struct cbx_interp *in)
{
	struct cbx_seat *seat = seat_of(in);
	struct cbx_cells *c = seat->cells;

	seat->was_ready = true;
	seat->again = false;
	if (seat == &c->first)
		c->up->ready(c);
	else
		c->up->next(c);
}

/* Of the cell that runs, or one that runs in another interpreter: then it comes with the next cell. */
static struct cbx_execution *running_in(struct cbx_interp *in)
{
	struct cbx_execution *x = cells_of(in)->running;

	return x && !x->finishing && &x->seat->interp == in ? x : NULL;
}

static void on_printed(struct cbx_interp *in, enum cbx_stream stream, const char *p, size_t n)
{
	struct cbx_cells *c = cells_of(in);
	const char *q;
	size_t m;

	if (running_in(in))
		cbx_apply_print(c->running, stream, p, n);
	else
		cbx_output_feed(&c->aside, stream, p, n, &q, &m);
}

static void on_frame(struct cbx_interp *in, const struct cbx_frame *f)
{
	struct cbx_execution *x = running_in(in);

	if (!x)
		return;
	if (f->kind == CBX_FRAME_DONE)
		cbx_end_done(x, f);
	else
		cbx_apply_frame(x, f);
}

static void on_died(struct cbx_interp *in, const char *how)
{
	struct cbx_seat *seat = seat_of(in);
	struct cbx_cells *c = seat->cells;
	struct cbx_execution *x = running_in(in);

	if (c->up->died(c, how))
		return;
	seat->again = seat == &c->first; /* the others are started when they are needed */
	if (x)
		cbx_end_died(x, how);
	else if (seat->lost.len == 0 && !in->restart)
		cbx_buf_addf(&seat->lost, "Between the cells the %s%sinterpreter died: %s. ",
			     seat == &c->first ? "" : seat->runtime->language, seat == &c->first ? "" : " ", how);
}

/* The first time that of the session's own language ends the session; later, the cells that wait for it fail. */
static void on_start_failed(struct cbx_interp *in, const struct cbx_err *err)
{
	struct cbx_seat *seat = seat_of(in);
	struct cbx_cells *c = seat->cells;
	_cleanup_free_ char *why = NULL;

	if (seat == &c->first && !seat->was_ready) {
		c->up->failed(c, err);
		return;
	}
	seat->again = false;
	why = cbx_xasprintf("%.600s. The session's files are still there; run a cell to try again, which waits %llu s "
			    "after %u failed starts, or create a new session.",
			    err->msg, (unsigned long long)((cbx_interp_pause_ms(in) + 999) / 1000), in->failures);
	cbx_seat_unrun(seat, CBX_KILLED, why);
	c->up->next(c);
}

static void on_stuck(struct cbx_interp *in, const struct cbx_err *err)
{
	struct cbx_cells *c = cells_of(in);

	c->up->failed(c, err);
}

static void on_settled(struct cbx_interp *in)
{
	struct cbx_cells *c = cells_of(in);

	c->up->next(c);
}

void cbx_cells_oom(struct cbx_cells *c, int64_t pid, enum cbx_oom why)
{
	char text[200];

	if (!c->running || c->running->note.len >= NOTES_MAX)
		return;
	cbx_interp_oom_text(why, c->box->limits.memory_bytes, text, sizeof(text));
	cbx_buf_addf(&c->running->note, "Process %lld was killed because %s. ", (long long)pid, text);
}

/* ---- what has ended ---- */

/* The oldest that nobody was promised, else the oldest. */
static struct cbx_execution *first_to_forget(struct cbx_cells *c, uint64_t now)
{
	struct cbx_execution *x;

	TAILQ_FOREACH(x, &c->ended, entry)
		if (!cbx_hold_counts(x, now))
			return x;
	return TAILQ_FIRST(&c->ended);
}

static void forget_old(struct cbx_cells *c)
{
	uint64_t most = c->terms.results_count, room = c->terms.results, now = cbx_now_ms();
	size_t memory = 0, holds = 0;
	struct cbx_execution *x;

	TAILQ_FOREACH(x, &c->ended, entry) {
		memory += x->kept;
		holds += cbx_hold_counts(x, now);
	}
	while (c->nended - holds > most || (c->nended > 1 && memory > room)) {
		x = first_to_forget(c, now);
		holds -= cbx_hold_counts(x, now);
		memory -= x->kept;
		TAILQ_REMOVE(&c->ended, x, entry);
		c->nended--;
		cbx_history_add(x);
	}
}

void cbx_cells_deliver(struct cbx_cells *c)
{
	struct cbx_execution *x;

	if (!c->undelivered)
		return;
	while (c->undelivered) {
		TAILQ_FOREACH(x, &c->ended, entry)
			if (!x->delivered)
				break;
		x->delivered = true;
		c->undelivered--;
		cbx_watch_end(x);
		cbx_keep(x);
	}
	forget_old(c);
	if (c->terms.results_ttl_ms < UINT64_MAX)
		cbx_watch_age(c);
}

/* ---- stopping ---- */

static void interrupt(struct cbx_execution *x)
{
	const struct cbx_runtime *rt = x->seat->runtime;

	cbx_interp_signal(&x->seat->interp, rt ? rt->interrupt : SIGINT);
}

/*
 * The driver ignores an interrupt that comes before the cell's code runs, and it may not have come that far when the
 * cell was started a moment ago: then a second one follows.
 */
static void stop(struct cbx_execution *x, enum cbx_status why)
{
	bool early = cbx_now_ms() - x->start_ms < EARLY_MS;

	x->stopping = why;
	x->phase = early ? CBX_PHASE_INTERRUPTED_EARLY : CBX_PHASE_INTERRUPTED;
	cbx_timer_set(x->cells->timer, early ? AGAIN_MS : CBX_GRACE_MS);
	interrupt(x);
}

static void timer_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_cells *c = arg;
	struct cbx_execution *x = c->running;

	if (!x) {
		c->up->next(c);
		return;
	}
	if (x->finishing) {
		x->overdue = true;
		cbx_execution_end(x, x->status);
	} else if (x->phase == CBX_PHASE_RUN) {
		stop(x, CBX_TIMEOUT);
	} else if (x->phase == CBX_PHASE_INTERRUPTED_EARLY) {
		x->phase = CBX_PHASE_INTERRUPTED;
		cbx_timer_set(c->timer, CBX_GRACE_MS);
		interrupt(x);
	} else if (x->phase == CBX_PHASE_INTERRUPTED) {
		x->phase = CBX_PHASE_KILLED;
		cbx_interp_kill(&x->seat->interp);
	}
}

bool cbx_cells_interrupt(struct cbx_execution *x)
{
	if (x->status == CBX_QUEUED)
		cbx_end_unrun(x, CBX_CANCELLED, NULL);
	else if (x->status == CBX_RUNNING && x->phase == CBX_PHASE_RUN)
		stop(x, CBX_CANCELLED);
	else
		return false;
	return true;
}

void cbx_execution_stall(struct cbx_execution *x, bool on)
{
	if (x->cells->running == x && !x->finishing)
		cbx_interp_stall(&x->seat->interp, on);
}

int cbx_execution_input(struct cbx_execution *x, const char *p, size_t n, struct cbx_input_op *op, struct cbx_err *err)
{
	if (!x->feed || x->finishing)
		return cbx_refuse(err, "no_input", EPIPE,
				  "execution %llu takes no input: it has ended, or was started without; run one with "
				  "standard input",
				  (unsigned long long)x->id);
	x->asking = false;
	if (n)
		return cbx_feed_give(x->feed, p, n, op, err);
	return cbx_feed_finish(&x->feed, err);
}

size_t cbx_seat_restart(struct cbx_seat *seat)
{
	struct cbx_execution *x = seat->cells->running;
	struct cbx_interp *in = &seat->interp;
	size_t n;

	n = cbx_seat_unrun(seat, CBX_CANCELLED,
			   "the session's interpreter was restarted on request. Run what it needs again, and then "
			   "the cell.");
	n += x && x->seat == seat && !x->finishing;
	cbx_buf_release(&seat->lost); /* what was lost before is lost all the same */
	/* One that starts has no state yet. */
	if (in->state == CBX_INTERP_READY || in->state == CBX_INTERP_DYING) {
		in->restart = true;
		cbx_interp_kill(in);
	} else if (in->state == CBX_INTERP_NONE && seat->runtime) {
		seat->again = seat == &seat->cells->first;
	}
	return n;
}

void cbx_cells_close(struct cbx_cells *c, const char *why)
{
	c->closed = true;
	event_del(c->timer);
	if (c->expiry)
		event_del(c->expiry);
	cbx_cells_discard(c);
	if (c->running)
		cbx_end_closed(c->running, why);
	while (!TAILQ_EMPTY(&c->queue))
		cbx_end_closed(TAILQ_FIRST(&c->queue), why);
}

/* ---- looking ---- */

void cbx_cells_each(const struct cbx_cells *c, void (*one)(void *arg, const struct cbx_execution *x), void *arg)
{
	const struct cbx_execution *x;

	TAILQ_FOREACH_REVERSE(x, &c->queue, cbx_executions, entry)
	one(arg, x);
	if (c->running)
		one(arg, c->running);
	TAILQ_FOREACH_REVERSE(x, &c->ended, cbx_executions, entry)
	one(arg, x);
}

int cbx_cells_find(struct cbx_cells *c, uint64_t id, struct cbx_execution **ret, struct cbx_err *err)
{
	struct cbx_executions *lists[] = { &c->queue, &c->ended };
	struct cbx_execution *x = c->running;

	if (x && x->id == id) {
		*ret = x;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		TAILQ_FOREACH(x, lists[i], entry)
		{
			if (x->id == id) {
				*ret = x;
				return 0;
			}
		}
	}
	if (id > 0 && id < c->next_id)
		return cbx_forgotten(c, id, err);
	return cbx_refuse(err, "execution_not_found", ENOENT,
			  "session %s has no execution %llu; pass a number that was given when it started", c->id,
			  (unsigned long long)id);
}

/* ---- making and freeing ---- */

const struct cbx_interp_events cbx_cells_interp_events = {
	.ready = on_ready,
	.printed = on_printed,
	.frame = on_frame,
	.died = on_died,
	.start_failed = on_start_failed,
	.stuck = on_stuck,
	.settled = on_settled,
};

int cbx_cells_init(struct cbx_cells *c, struct event_base *base, struct cbx_box *box, struct cbx_keeping *keeping,
		   const char *id, const char *tenant, const struct cbx_cells_events *up)
{
	c->up = up;
	c->box = box;
	c->keeping = keeping;
	c->id = id;
	c->tenant = tenant;
	c->next_id = 1;
	c->aside.head_max = c->aside.tail_max = KIB(8);
	TAILQ_INIT(&c->queue);
	TAILQ_INIT(&c->ended);
	TAILQ_INIT(&c->past);
	c->timer = event_new(base, -1, 0, timer_event, c);
	c->first.cells = c;
	return cbx_interp_init(&c->first.interp, base, box, &cbx_cells_interp_events) < 0 || !c->timer ? -ENOMEM : 0;
}

void cbx_cells_free(struct cbx_cells *c)
{
	struct cbx_execution *x;

	while ((x = TAILQ_FIRST(&c->ended))) {
		TAILQ_REMOVE(&c->ended, x, entry);
		cbx_execution_free(x);
	}
	while ((x = TAILQ_FIRST(&c->past)))
		cbx_keep_drop(x);
	cbx_keep_end(c);
	cbx_seats_free(c);
	cbx_event_free_p(&c->timer);
	cbx_event_free_p(&c->expiry);
	cbx_output_release(&c->aside);
	cbx_buf_release(&c->lost);
}
