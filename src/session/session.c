/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a session is made in four steps, each begun by the end of the one before: the supervisor makes a
 * sandbox (CREATE), its init reports (READY), the interpreter is spawned, the driver says "ready". A failure at any of
 * them, or no end of all of them within CBX_START_TIMEOUT_MS, ends the session and is told through on_ready.
 *
 * Where the pool has a session that was made in just this way before (pool.c), that one is taken instead.
 *
 * Closing takes effect at once for everybody who asks; the memory follows when the sandbox is gone. See internal.h for
 * why all endings are told from the `work` event.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/internal.h"

static void note(struct cbx_session *s, const char *text)
{
	if (s->engine->config.on_note)
		s->engine->config.on_note(s->engine->config.arg, s->spec.id, text);
}

void cbx_session_note(struct cbx_session *s, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) >= 0)
		note(s, text);
	va_end(ap);
}

/* ---- endings ---- */

void cbx_session_work(struct cbx_session *s)
{
	if (s->work)
		event_active(s->work, EV_TIMEOUT, 1);
}

void cbx_session_free(struct cbx_session *s)
{
	struct event *events[] = {
		s->work,       s->start_timer, s->ttl_timer,  s->idle_timer,
		s->cell_timer, s->query_timer, s->rest_timer, s->settle_timer
	};
	struct cbx_execution *x, *next;

	cbx_engine_drop(s);
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		if (events[i])
			event_free(events[i]);
	TAILQ_FOREACH_SAFE(x, &s->ended, entry, next)
	cbx_execution_free(x);
	cbx_interp_discard(s);
	cbx_init_shut(s);
	cbx_cgroup_release(&s->group);
	cbx_output_release(&s->aside);
	cbx_buf_release(&s->lost);
	cbx_buf_release(&s->spawn);
	cbx_buf_release(&s->base);
	cbx_session_terms_release(s);
	free(s->preload);
	free(s->language);
	free(s->version);
	free(s->kind);
	free(s);
}

static void call_ready(struct cbx_session *s, const struct cbx_err *err)
{
	cbx_ready_fn fn = s->on_ready;

	s->on_ready = NULL;
	if (fn)
		fn(s->on_ready_arg, s, err);
}

/* The oldest that nobody was promised, else the oldest. */
static struct cbx_execution *first_to_forget(struct cbx_session *s)
{
	struct cbx_execution *x;

	TAILQ_FOREACH(x, &s->ended, entry)
	if (!cbx_hold_counts(x))
		return x;
	return TAILQ_FIRST(&s->ended);
}

static void deliver(struct cbx_session *s)
{
	struct cbx_execution *x;
	size_t memory = 0, holds = 0;

	for (;;) {
		TAILQ_FOREACH(x, &s->ended, entry)
		if (!x->delivered)
			break;
		if (!x)
			break;
		x->delivered = true;
		cbx_watch_end(x);
		cbx_execution_keep(x);
	}
	TAILQ_FOREACH(x, &s->ended, entry)
	memory += cbx_execution_memory(x);
	TAILQ_FOREACH(x, &s->ended, entry)
	holds += cbx_hold_counts(x);
	while (s->nended - holds > CBX_FINISHED_MAX || (s->nended > 1 && memory > CBX_ENDED_MEMORY_MAX)) {
		x = first_to_forget(s);
		holds -= cbx_hold_counts(x);
		memory -= cbx_execution_memory(x);
		TAILQ_REMOVE(&s->ended, x, entry);
		s->nended--;
		cbx_execution_free(x);
	}
}

static bool all_delivered(const struct cbx_session *s)
{
	const struct cbx_execution *x;

	TAILQ_FOREACH(x, &s->ended, entry)
	if (!x->delivered)
		return false;
	return true;
}

void cbx_session_run_work(struct cbx_session *s)
{
	if (s->in_work)
		return;
	s->in_work = true;
	if (s->state == CBX_LIVE)
		call_ready(s, NULL);
	if (s->state == CBX_CLOSING) {
		cbx_init_fail_all(s, &s->end);
		cbx_session_drop_queries(s, &s->end);
		cbx_group_drop_askers(s, &s->end);
		call_ready(s, &s->end);
	}
	deliver(s);
	if (s->state != CBX_CLOSING && !s->shape)
		cbx_execution_next(s);
	s->in_work = false;
	if (s->state != CBX_CLOSING)
		return;
	if (!all_delivered(s) || s->init.count || s->nqueries || !TAILQ_EMPTY(&s->askers) || s->on_ready) {
		cbx_session_work(s); /* closed by one of the callbacks above */
	} else if (s->gone) {
		cbx_engine_forget(s);
		cbx_session_free(s);
	}
}

static void work_event(evutil_socket_t fd, short what, void *arg)
{
	cbx_session_run_work(arg);
}

/* What the world knows of it ends. */
static void leave(struct cbx_session *s, const char *why)
{
	struct cbx_engine *e = s->engine;

	e->live--;
	e->closing++;
	if (s->state == CBX_STARTING)
		e->starting--;
	cbx_engine_unname(s);
	cbx_engine_bury(e, s->spec.id, why);
	s->state = CBX_CLOSING;
	cbx_engine_session_news(s, true);
	cbx_pool_news(e);
}

static void begin_end(struct cbx_session *s, const char *why)
{
	struct event *timers[] = { s->start_timer, s->ttl_timer, s->idle_timer, s->cell_timer, s->query_timer };
	struct cbx_execution *x;

	if (s->nobodys)
		s->state = CBX_CLOSING;
	else
		leave(s, why);
	for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
		if (timers[i])
			event_del(timers[i]);
	cbx_interp_discard(s);
	cbx_init_shut(s);
	if (!s->gone)
		s->gone = !cbx_link_destroy(s->engine, s->sandbox);
	cbx_group_close(s);
	if ((x = s->running)) {
		if (!x->finishing) {
			cbx_buf_addf(&x->message,
				     "The session was closed while the cell ran: %s. Its variables and files are gone; "
				     "create a "
				     "new session.",
				     why);
			cbx_execution_end(x, CBX_KILLED);
		}
		if (s->running)
			cbx_execution_finish(x);
	}
	while ((x = TAILQ_FIRST(&s->queue))) {
		cbx_buf_addf(&x->message, "The cell did not run: the session was closed: %s. Create a new session.",
			     why);
		cbx_execution_end(x, CBX_KILLED);
	}
	cbx_session_work(s);
}

/* An entry of the pool: out of it, and into the list of those whose sandbox is being taken down. */
static void give_up(struct cbx_session *s, const struct cbx_err *err)
{
	cbx_pool_lost(s, err);
	s->nobodys = true;
	TAILQ_INSERT_TAIL(&s->engine->sessions, s, entry);
}

void cbx_session_close(struct cbx_session *s, const char *why)
{
	_cleanup_free_ char *text = NULL;

	if (s->state == CBX_CLOSING)
		return;
	if (s->shape) {
		cbx_refuse(&s->end, "session_expired", ENOENT, "%.400s", why);
		give_up(s, NULL);
		begin_end(s, why);
		return;
	}
	text = cbx_xasprintf("closed: %.400s", why);
	note(s, text);
	cbx_refuse(&s->end, "session_expired", ENOENT, "session %s was closed: %.400s", s->spec.id, why);
	begin_end(s, why);
}

void cbx_session_fail(struct cbx_session *s, const struct cbx_err *err)
{
	_cleanup_free_ char *text = NULL;

	if (s->state == CBX_CLOSING)
		return;
	s->end = *err;
	if (s->shape) {
		give_up(s, err);
		begin_end(s, s->end.msg);
		return;
	}
	text = cbx_xasprintf("failed: %.500s", s->end.msg);
	note(s, text);
	begin_end(s, s->end.msg);
}

void cbx_session_sandbox_gone(struct cbx_session *s, const struct cbx_event *ev)
{
	struct cbx_err err;

	s->gone = true;
	if (s->state != CBX_CLOSING) {
		cbx_refuse(&err, "sandbox_failed", ECHILD, "the sandbox ended unexpectedly%s%s",
			   ev->err.msg[0] ? ": " : "", ev->err.msg);
		cbx_session_fail(s, &err);
	}
	cbx_session_work(s);
}

/* ---- timers ---- */

static void start_late(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	static const char *const steps[] = {
		[CBX_INTERP_NONE] = "the sandbox was not ready",
		[CBX_INTERP_SPAWNING] = "the interpreter was not started",
		[CBX_INTERP_STARTING] = "the interpreter was started but did not report",
		[CBX_INTERP_READY] = "the interpreter was ready",
		[CBX_INTERP_DYING] = "the interpreter was ending",
	};
	struct cbx_err err;

	cbx_refuse(&err, "start_timeout", ETIMEDOUT,
		   "the session was not ready within %d s (%s); the machine may be overloaded: try again",
		   CBX_START_TIMEOUT_MS / 1000, steps[s->interp.state]);
	cbx_session_fail(s, &err);
}

static void ttl_over(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	char why[80];

	snprintf(why, sizeof(why), "its life of %u s (ttl) was over", s->spec.ttl_s);
	cbx_session_close(s, why);
}

static void idle_over(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	uint64_t limit = s->spec.idle_s * 1000ull, unused = cbx_now_ms() - s->used_ms;
	char why[80];

	if (s->state == CBX_STARTING || s->running || s->nqueued)
		unused = 0;
	if (unused < limit) {
		cbx_timer_set(s->idle_timer, limit - unused);
		return;
	}
	snprintf(why, sizeof(why), "%u s without use (idle_timeout)", s->spec.idle_s);
	cbx_session_close(s, why);
}

void cbx_session_touch(struct cbx_session *s)
{
	s->used_ms = cbx_now_ms();
}

/* ---- creation ---- */

static int check_room(struct cbx_engine *e, const struct cbx_session_spec *spec, struct cbx_err *err)
{
	const struct cbx_err *trouble = cbx_engine_trouble(e);
	uint64_t most = e->policy->values[CBX_KEY_SESSIONS].ceiling;

	if (trouble) {
		*err = *trouble;
		return -err->code;
	}
	if (spec->id[0] && cbx_engine_by_id(e, spec->id))
		return cbx_refuse(err, "session_exists", EEXIST, "session %s exists already", spec->id);
	if (e->live >= most || e->live + e->closing >= 2 * most)
		return cbx_refuse(err, "too_many_sessions", EMFILE,
				  "there are %zu sessions, and the policy allows no more than %llu; close one first",
				  e->live, (unsigned long long)most);
	return 0;
}

static struct cbx_session *session_new(struct cbx_engine *e, const struct cbx_session_spec *spec)
{
	struct cbx_session *s = cbx_xcalloc(1, sizeof(*s));

	s->engine = e;
	s->spec = *spec;
	s->state = CBX_STARTING;
	s->init.sock = -1;
	cbx_cgroup_init(&s->group);
	TAILQ_INIT(&s->askers);
	s->interp.sock = s->interp.pipe[0] = s->interp.pipe[1] = -1;
	s->aside.head_max = s->aside.tail_max = KIB(8);
	s->next_execution = 1;
	s->next_query = 1;
	TAILQ_INIT(&s->init.unsent);
	TAILQ_INIT(&s->init.unanswered);
	TAILQ_INIT(&s->queries);
	TAILQ_INIT(&s->queue);
	TAILQ_INIT(&s->ended);
	s->work = event_new(e->base, -1, 0, work_event, s);
	s->start_timer = event_new(e->base, -1, 0, start_late, s);
	s->ttl_timer = event_new(e->base, -1, 0, ttl_over, s);
	s->idle_timer = event_new(e->base, -1, 0, idle_over, s);
	s->cell_timer = event_new(e->base, -1, 0, cbx_execution_timer, s);
	return s;
}

int cbx_session_make(struct cbx_engine *e, const struct cbx_session_spec *spec, struct cbx_plan *ret_plan,
		     struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_session *s = session_new(e, spec);
	int r = cbx_session_settle(s, err);

	if (r >= 0)
		r = cbx_session_plan(s, ret_plan, err);
	if (r >= 0)
		r = cbx_group_check(s, ret_plan, err);
	if (r >= 0 && (!s->work || !s->start_timer || !s->ttl_timer || !s->idle_timer || !s->cell_timer))
		r = cbx_fail(err, ENOMEM, "watch a session");
	if (r < 0) {
		cbx_session_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

int cbx_session_begin(struct cbx_session *s, const struct cbx_plan *plan, struct cbx_err *err)
{
	int pair[2] = { -1, -1 }, fds[3] = { -1, -1, -1 }, r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make the sandbox's socket");
	fds[0] = pair[1];
	if (cbx_init_open(s, pair[0]) < 0) {
		cbx_close_p(&fds[0]);
		return cbx_fail(err, ENOMEM, "watch a session");
	}
	s->sandbox = s->engine->next_sandbox++;
	r = cbx_group_open(s, &fds[1], err);
	if (r < 0) {
		cbx_close_p(&fds[0]);
		return r;
	}
	cbx_engine_add(s);
	cbx_timer_set(s->start_timer, CBX_START_TIMEOUT_MS);
	cbx_link_create(s->engine, s->sandbox, plan, fds);
	return 0;
}

/* From now on it is somebody's. */
static void introduce(struct cbx_session *s, const struct cbx_session_spec *spec)
{
	struct cbx_engine *e = s->engine;

	s->spec = *spec;
	if (!s->spec.id[0])
		cbx_random_name(s->spec.id, 12);
	clock_gettime(CLOCK_REALTIME, &s->created);
	s->created_ms = s->used_ms = s->told_ms = cbx_now_ms();
	TAILQ_INSERT_TAIL(&e->sessions, s, entry);
	cbx_engine_name(s);
	e->live++;
	if (s->state == CBX_STARTING) {
		e->starting++;
		cbx_timer_set(s->start_timer, CBX_START_TIMEOUT_MS);
	}
	cbx_timer_set(s->ttl_timer, s->spec.ttl_s * 1000ull);
	cbx_timer_set(s->idle_timer, s->spec.idle_s * 1000ull);
	note(s, "created");
	cbx_engine_session_news(s, false);
	if (s->state == CBX_LIVE) {
		note(s, "ready");
		cbx_group_rest_later(s);
		cbx_zygote_want(s);
		cbx_session_work(s);
	}
}

int cbx_session_create(struct cbx_engine *e, const struct cbx_session_spec *spec, cbx_ready_fn on_ready, void *arg,
		       struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_session *s, *ready;
	struct cbx_session_spec full;
	struct cbx_plan plan;
	int r = check_room(e, spec, err);

	if (r >= 0)
		r = cbx_session_make(e, spec, &plan, &s, err);
	if (r < 0)
		return r;
	full = s->spec;
	ready = cbx_pool_take(s, &plan);
	if (ready) {
		cbx_session_terms_move(ready, s);
		cbx_session_free(s);
		s = ready;
	} else {
		cbx_pool_make_room(e);
		r = cbx_session_begin(s, &plan, err);
	}
	if (r < 0) {
		cbx_session_free(s);
		return r;
	}
	s->on_ready = on_ready;
	s->on_ready_arg = arg;
	introduce(s, &full);
	*ret = s;
	return 0;
}

void cbx_session_init_ready(struct cbx_session *s)
{
	struct cbx_err err = { 0 };

	if (s->interp.state != CBX_INTERP_NONE)
		return;
	if (cbx_interp_start(s, &err) < 0)
		cbx_session_fail(s, &err);
}

void cbx_session_ready(struct cbx_session *s)
{
	if (s->state == CBX_STARTING) {
		s->state = CBX_LIVE;
		s->was_live = true;
		event_del(s->start_timer);
		if (s->shape) {
			cbx_pool_ready(s);
			return;
		}
		s->engine->starting--;
		note(s, "ready");
		cbx_zygote_want(s);
		cbx_pool_news(s->engine);
		cbx_group_rest_later(s);
	}
	cbx_session_work(s);
}

const char *cbx_session_id(const struct cbx_session *s)
{
	return s->spec.id;
}

bool cbx_session_one_shot(const struct cbx_session *s)
{
	return s->spec.one_shot;
}

bool cbx_session_awaited(const struct cbx_session *s, const void *arg)
{
	return s->on_ready && s->on_ready_arg == arg;
}

const struct cbx_err *cbx_session_failure(const struct cbx_session *s)
{
	return s->state == CBX_CLOSING && !s->was_live ? &s->end : NULL;
}
