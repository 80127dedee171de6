/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: cells wait in a queue and run one at a time. A cell ends in one of three ways: the driver says
 * "done"; the interpreter dies; or the session is closed. Time limits and interrupts only lead to one of these: first
 * SIGINT, which a cell turns into KeyboardInterrupt and "done", then, after CBX_GRACE_MS, SIGKILL and death.
 *
 * The next cell starts only when no signal is under way any more: an interrupt that was meant for one cell must not hit
 * the next.
 *
 * What is printed while no cell runs (by threads and children that outlive theirs) is kept, a little of it, and becomes
 * the start of the next cell's output. Every end has a message for whoever wrote the code: what happened, what was
 * lost, what to do.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "session/internal.h"

#define LOST	 "All its variables, imports and functions are lost; the files of the session are kept. "
#define EARLY_MS 1000 /* after a cell's start */
#define TELL_USED_MS (CBX_LANE_KEEP_MS / 10)
#define AGAIN_MS 500  /* from the first interrupt to the second */
#define AGAIN	 "A fresh interpreter runs the next cell: import and define again what it needs."

const char *cbx_status_name(enum cbx_status status)
{
	static const char *const names[] = {
		[CBX_QUEUED] = "queued",       [CBX_RUNNING] = "running", [CBX_OK] = "ok",
		[CBX_ERROR] = "error",	       [CBX_TIMEOUT] = "timeout", [CBX_KILLED] = "killed",
		[CBX_CANCELLED] = "cancelled",
	};

	return names[status];
}

/* ---- output ---- */

static void pass_on(struct cbx_execution *x, enum cbx_stream stream, const char *p, size_t n)
{
	if (n == 0)
		return;
	if (x->spill)
		cbx_spill_add(x->spill, p, n);
	cbx_watch_output(x, stream, p, n);
}

static void spill_run(void *arg, enum cbx_stream stream, const char *p, size_t n)
{
	cbx_spill_add(arg, p, n);
}

static void print(struct cbx_execution *x, enum cbx_stream stream, const char *p, size_t n)
{
	struct cbx_output *o = &x->output;

	if (x->clear_pending)
		cbx_execution_clear(x);
	/* The last moment at which memory still holds all of it; cuts at characters cost a few bytes of room. */
	if (!x->spill && cbx_output_total(o) + n + 16 > o->head_max + o->tail_max) {
		x->spill = cbx_spill_new(x);
		cbx_output_each(o, spill_run, x->spill);
	}
	cbx_output_feed(o, stream, p, n, &p, &n);
	pass_on(x, stream, p, n);
}

void cbx_execution_print(struct cbx_session *s, enum cbx_stream stream, const char *p, size_t n)
{
	const char *q;
	size_t m;

	if (s->running && !s->running->finishing)
		print(s->running, stream, p, n);
	else
		cbx_output_feed(&s->aside, stream, p, n, &q, &m);
}

static void flush(struct cbx_execution *x)
{
	for (enum cbx_stream i = CBX_STDOUT; i < CBX_STREAMS; i++) {
		const char *p;
		size_t n;

		cbx_output_flush(&x->output, i, &p, &n);
		pass_on(x, i, p, n);
	}
}

void cbx_execution_clear(struct cbx_execution *x)
{
	x->clear_pending = false;
	cbx_output_clear(&x->output);
	if (x->spill)
		cbx_spill_restart(x->spill);
	cJSON_Delete(x->displays);
	x->displays = cbx_json_new_arr();
	x->ndisplays = x->display_bytes = 0;
}

/* ---- the queue ---- */

int cbx_session_run(struct cbx_session *s, const char *code, uint64_t timeout_ms, const struct cbx_watch *watch,
		    struct cbx_execution **ret, struct cbx_err *err)
{
	size_t n = strlen(code);
	struct cbx_execution *x;
	uint64_t most;

	if (s->state == CBX_CLOSING) {
		*err = s->end;
		return -(err->code ? err->code : (err->code = ENOENT));
	}
	if (n > CBX_CODE_MAX)
		return cbx_refuse(
			err, "code_too_long", EMSGSIZE,
			"code: %zu bytes are more than the %zu allowed; write data to a file of the session and read "
			"it from there",
			n, CBX_CODE_MAX);
	if (timeout_ms > CBX_TIMEOUT_MAX_MS)
		return cbx_refuse(err, "invalid_argument", ERANGE, "timeout: %g s is more than the %d s allowed",
				  (double)timeout_ms / 1000, CBX_TIMEOUT_MAX_MS / 1000);
	if (s->nqueued >= CBX_QUEUE_MAX)
		return cbx_refuse(err, "queue_full", EBUSY, "%zu cells are waiting in session %s already", s->nqueued,
				  s->spec.id);
	x = cbx_xcalloc(1, sizeof(*x));
	x->session = s;
	x->id = s->next_execution++;
	x->status = CBX_QUEUED;
	x->state_kept = true;
	x->code = cbx_xstrdup(code);
	x->timeout_ms = timeout_ms ? timeout_ms : s->spec.timeout_ms;
	if (cbx_policy_settle(s->policy, CBX_KEY_TIMEOUT, timeout_ms > 0, timeout_ms, &most))
		cbx_buf_addf(&x->note, "The policy lowered the time limit to %g s. ", (double)most / 1000);
	if (timeout_ms)
		x->timeout_ms = most;
	x->displays = cbx_json_new_arr();
	x->output.head_max = CBX_OUTPUT_HEAD;
	x->output.tail_max = CBX_OUTPUT_TAIL;
	TAILQ_INIT(&x->watchers);
	if (watch)
		cbx_execution_watch(x, watch, err); /* the first one finds room */
	TAILQ_INSERT_TAIL(&s->queue, x, entry);
	s->nqueued++;
	cbx_session_touch(s);
	cbx_session_work(s);
	*ret = x;
	return 0;
}

static void aside_run(void *arg, enum cbx_stream stream, const char *p, size_t n)
{
	print(arg, stream, p, n);
}

static void start(struct cbx_session *s, struct cbx_execution *x)
{
	cJSON *frame = cbx_json_new_obj();
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	x->since_ns = now.tv_sec * 1000000000ll + now.tv_nsec;
	TAILQ_REMOVE(&s->queue, x, entry);
	s->nqueued--;
	s->running = x;
	s->engine->running++;
	s->interp.frame_bytes = s->interp.printed = 0;
	x->status = CBX_RUNNING;
	x->start_ms = cbx_now_ms();
	if (s->told_ms && x->start_ms - s->told_ms >= TELL_USED_MS) {
		s->told_ms = x->start_ms;
		cbx_link_used(s->engine, s->sandbox);
	}
	cbx_session_touch(s);
	cbx_json_set_str(frame, "op", "run");
	cbx_json_set_u64(frame, "id", x->id);
	cbx_json_set_str(frame, "code", x->code);
	cbx_json_set_bool(frame, "silent", false);
	free(take_ptr(&x->code));
	cbx_buf_add(&x->note, cbx_buf_str(&s->lost), s->lost.len);
	cbx_buf_release(&s->lost);
	cbx_timer_set(s->cell_timer, x->timeout_ms);
	cbx_group_cell_begins(x);
	cbx_interp_send(s, frame);
	cbx_watch_start(x);
	if (cbx_output_total(&s->aside) && s->running == x) {
		struct cbx_output aside = s->aside;

		memset(&s->aside, 0, sizeof(s->aside));
		s->aside.head_max = aside.head_max;
		s->aside.tail_max = aside.tail_max;
		cbx_output_each(&aside, aside_run, x);
		cbx_output_release(&aside);
	}
}

/* An interpreter is started without knowing whose it will be; before its first cell it is told. */
static void tell(struct cbx_session *s)
{
	cJSON *frame = cbx_json_new_obj(), *environment = cbx_json_new_obj();

	cbx_json_set_str(environment, "CODEBOX_SESSION", s->spec.id);
	cbx_json_set_str(frame, "op", "session");
	cbx_json_set(frame, "environment", environment);
	s->interp.told = true;
	cbx_interp_send(s, frame);
}

void cbx_execution_next(struct cbx_session *s)
{
	struct cbx_interp *in = &s->interp;
	struct cbx_err err = { 0 };

	if (s->state != CBX_LIVE || in->signals)
		return;
	if (in->state == CBX_INTERP_NONE && (in->again || s->nqueued || s->nqueries)) {
		if (!cbx_group_settled(s))
			return;
		in->again = false;
		if (cbx_interp_start(s, &err) < 0)
			cbx_session_fail(s, &err);
		return;
	}
	if (in->state != CBX_INTERP_READY || s->running)
		return;
	if (!in->told)
		tell(s);
	cbx_query_send_all(s);
	if (!TAILQ_EMPTY(&s->queue))
		start(s, TAILQ_FIRST(&s->queue));
}

/* ---- the end ---- */

void cbx_execution_finish(struct cbx_execution *x)
{
	struct cbx_session *s = x->session;

	if (s->running == x) {
		s->running = NULL;
		event_del(s->cell_timer);
		cbx_pipes_narrow(&s->interp);
		s->engine->running--;
		cbx_pool_news(s->engine);
	}
	x->finishing = false;
	cbx_changes_leave(x);
	cbx_output_trim(&x->output);
	TAILQ_INSERT_TAIL(&s->ended, x, entry);
	s->nended++;
	cbx_session_touch(s);
	cbx_session_work(s);
}

void cbx_execution_settle(struct cbx_execution *x)
{
	if (x->finishing && !x->changes && !(x->spill && !cbx_spill_idle(x->spill)))
		cbx_execution_finish(x);
}

void cbx_execution_end(struct cbx_execution *x, enum cbx_status status)
{
	struct cbx_session *s = x->session;
	bool ran = x->status != CBX_QUEUED;

	if (!ran) {
		TAILQ_REMOVE(&s->queue, x, entry);
		s->nqueued--;
		free(take_ptr(&x->code));
		x->start_ms = cbx_now_ms();
	} else {
		flush(x);
		if (x->status != CBX_RUNNING)
			return; /* a watcher closed the session, and it has ended by that */
		event_del(s->cell_timer);
		cbx_group_cell_ends(x);
	}
	x->status = status;
	x->end_ms = cbx_now_ms();
	if (!ran || s->state == CBX_CLOSING) {
		cbx_execution_finish(x);
		return;
	}
	x->finishing = true;
	cbx_timer_set(s->cell_timer, CBX_SPILL_WAIT_MS);
	if (!x->no_files)
		cbx_changes_ask(x);
	cbx_execution_settle(x);
}

static void seconds(uint64_t ms, char out[32])
{
	snprintf(out, 32, "%g s", (double)ms / 1000);
}

/* The driver has control again, so state is kept, whatever the status. */
void cbx_execution_done(struct cbx_execution *x, const char *status)
{
	bool interrupted = strcmp(status, "interrupted") == 0;
	char limit[32];

	if (x->phase != CBX_PHASE_RUN && x->stopping == CBX_TIMEOUT) {
		seconds(x->timeout_ms, limit);
		cbx_buf_addf(&x->message,
			     "The cell was interrupted at its time limit of %s%s. Variables and files are kept. Give "
			     "it a larger "
			     "timeout, or split the work into smaller cells.",
			     limit, interrupted ? "" : ", and ended in its own way");
		cbx_execution_end(x, CBX_TIMEOUT);
	} else if (x->phase != CBX_PHASE_RUN) {
		cbx_buf_adds(&x->message, "The cell was interrupted on request. Variables and files are kept.");
		cbx_execution_end(x, CBX_CANCELLED);
	} else if (strcmp(status, "exit") == 0) {
		cbx_buf_addf(
			&x->message,
			"The code asked to exit with status %lld. The interpreter goes on, and its variables are kept.",
			(long long)x->exit_code);
		cbx_execution_end(x, x->exit_code == 0 ? CBX_OK : CBX_ERROR);
	} else {
		cbx_hints_add(x);
		cbx_execution_end(x, strcmp(status, "ok") == 0 ? CBX_OK : CBX_ERROR);
	}
}

void cbx_execution_interpreter_died(struct cbx_session *s)
{
	struct cbx_execution *x = s->running;
	char how[400], limit[32], grace[32];

	x->state_kept = false;
	cbx_interp_how(s, how, sizeof(how));
	seconds(x->timeout_ms, limit);
	seconds(CBX_GRACE_MS, grace);
	if (x->stopping == CBX_TIMEOUT && x->phase == CBX_PHASE_KILLED)
		cbx_buf_addf(&x->message,
			     "The cell went on for %s after it was interrupted at its time limit of %s, so its "
			     "interpreter was "
			     "killed. " LOST AGAIN,
			     grace, limit);
	else if (x->stopping == CBX_CANCELLED && x->phase == CBX_PHASE_KILLED)
		cbx_buf_addf(&x->message,
			     "The cell went on for %s after it was interrupted on request, so its interpreter was "
			     "killed. " LOST AGAIN,
			     grace);
	else
		cbx_buf_addf(&x->message, "The interpreter died: %s. " LOST AGAIN, how);
	cbx_execution_end(x, x->stopping == CBX_TIMEOUT || x->stopping == CBX_CANCELLED ? x->stopping : CBX_KILLED);
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
	cbx_timer_set(x->session->cell_timer, early ? AGAIN_MS : CBX_GRACE_MS);
	cbx_interp_signal(x->session, SIGINT);
}

void cbx_execution_timer(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	struct cbx_execution *x = s->running;

	if (!x)
		return;
	if (x->finishing) {
		cbx_execution_finish(x);
	} else if (x->phase == CBX_PHASE_RUN) {
		stop(x, CBX_TIMEOUT);
	} else if (x->phase == CBX_PHASE_INTERRUPTED_EARLY) {
		x->phase = CBX_PHASE_INTERRUPTED;
		cbx_timer_set(s->cell_timer, CBX_GRACE_MS);
		cbx_interp_signal(s, SIGINT);
	} else if (x->phase == CBX_PHASE_INTERRUPTED) {
		x->phase = CBX_PHASE_KILLED;
		cbx_interp_kill(s);
	}
}

void cbx_execution_interrupt(struct cbx_execution *x)
{
	if (x->status == CBX_QUEUED) {
		cbx_buf_adds(&x->message, "The cell was cancelled before it ran.");
		cbx_execution_end(x, CBX_CANCELLED);
	} else if (x->status == CBX_RUNNING && x->phase == CBX_PHASE_RUN) {
		stop(x, CBX_CANCELLED);
	}
}

void cbx_execution_free(struct cbx_execution *x)
{
	x->session->engine->kept -= x->kept;
	free(x->code);
	cbx_watch_free(x);
	cbx_changes_leave(x);
	cJSON_Delete(x->files);
	cbx_spill_free(x->spill);
	cbx_output_release(&x->output);
	cJSON_Delete(x->displays);
	free(x->result);
	free(x->error_name);
	free(x->error_value);
	free(x->error_traceback);
	cbx_buf_release(&x->message);
	cbx_buf_release(&x->note);
	free(x->hold);
	free(x);
}

/* The oldest ended execution of all sessions that still has something to lose. */
static struct cbx_execution *oldest_kept(struct cbx_engine *e)
{
	struct cbx_execution *x, *oldest = NULL;
	struct cbx_session *s;

	TAILQ_FOREACH(s, &e->sessions, entry)
	TAILQ_FOREACH(x, &s->ended, entry)
	if (x->kept && !x->stripped && (!oldest || x->end_ms < oldest->end_ms))
		oldest = x;
	return oldest;
}

static void strip(struct cbx_execution *x)
{
	struct cbx_engine *e = x->session->engine;

	cbx_output_drop(&x->output);
	cJSON_Delete(x->displays);
	x->displays = cbx_json_new_arr();
	x->ndisplays = x->display_bytes = 0;
	x->stripped = true;
	e->kept -= x->kept;
	x->kept = cbx_execution_memory(x);
	e->kept += x->kept;
}

void cbx_execution_keep(struct cbx_execution *x)
{
	struct cbx_engine *e = x->session->engine;
	struct cbx_execution *oldest;

	x->kept = cbx_execution_memory(x);
	e->kept += x->kept;
	while (e->kept > CBX_OUTPUT_TOTAL_MAX && (oldest = oldest_kept(e)))
		strip(oldest);
}

size_t cbx_execution_memory(const struct cbx_execution *x)
{
	return sizeof(*x) + cbx_output_memory(&x->output) + x->display_bytes + x->files_bytes;
}

/* ---- looking ---- */

uint64_t cbx_execution_id(const struct cbx_execution *x)
{
	return x->id;
}

struct cbx_session *cbx_execution_session(const struct cbx_execution *x)
{
	return x->session;
}

enum cbx_status cbx_execution_status(const struct cbx_execution *x)
{
	return x->finishing ? CBX_RUNNING : x->status;
}

bool cbx_execution_output(const struct cbx_execution *x, uint64_t from, size_t max, struct cbx_buf *out,
			  struct cbx_output_extent *ret)
{
	*ret = (struct cbx_output_extent){ .total = cbx_output_total(&x->output) };
	ret->kept = ret->total - x->output.tail.len;
	if (x->spill)
		cbx_spill_extent(x->spill, ret);
	return from >= ret->total || cbx_output_at(&x->output, from, max, out);
}

const cJSON *cbx_execution_displays(const struct cbx_execution *x)
{
	return x->displays;
}

struct cbx_execution *cbx_session_running(const struct cbx_session *s)
{
	return s->running;
}

int cbx_execution_find(struct cbx_session *s, uint64_t id, struct cbx_execution **ret, struct cbx_err *err)
{
	struct cbx_executions *lists[] = { &s->queue, &s->ended };
	struct cbx_execution *x = s->running;

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
	if (id > 0 && id < s->next_execution)
		return cbx_refuse(err, "execution_forgotten", ENOENT,
				  "execution %llu of session %s has been forgotten; only the last %d are kept, and of "
				  "these what fits in %zu MiB",
				  (unsigned long long)id, s->spec.id, CBX_FINISHED_MAX, CBX_ENDED_MEMORY_MAX >> 20);
	return cbx_refuse(err, "execution_not_found", ENOENT, "session %s has no execution %llu", s->spec.id,
			  (unsigned long long)id);
}
