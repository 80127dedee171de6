/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a session is made in four steps, each begun by the end of the one before: the supervisor makes a
 * sandbox (CREATE), its init reports (READY), the interpreter is spawned, the driver says "ready". Where the image has
 * no interpreter the first two are all: the session runs commands. A failure at any of them, or no end of all of them
 * within CBX_START_TIMEOUT_MS, ends the session and is reported to whoever made it.
 *
 * Closing takes effect at once for everybody who asks; the memory follows when the sandbox is gone. See internal.h for
 * why all endings are reported from the `work` event.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/timer.h"
#include "session/asked.h"
#include "session/kept.h"
#include "session/zygotes.h"

#define TELL_USED_MS (CBX_LANE_KEEP_MS / 10)

/* ---- endings ---- */

void cbx_session_work(struct cbx_session *s)
{
	if (s->work)
		event_active(s->work, EV_TIMEOUT, 1);
}

void cbx_session_free(struct cbx_session *s)
{
	struct event *events[] = { s->work, s->start_timer, s->ttl_timer, s->idle_timer, s->asking.timer };

	cbx_engine_unname(s);
	cbx_ops_cancel(&s->asking.ops);
	cJSON_Delete(s->asking.question);
	if (s->packages)
		s->engine->packages_events->release(s);
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		cbx_event_free_p(&events[i]);
	cbx_commands_free(&s->commands);
	cbx_cells_free(&s->cells);
	cbx_box_release(&s->box);
	cbx_buf_release(&s->spawn);
	cbx_buf_release(&s->base);
	cbx_session_terms_release(s);
	cJSON_Delete(s->interpreters);
	free(s->plan);
	free(s->preload);
	free(s->directory);
	cJSON_Delete(s->program);
	cbx_session_log_free(s);
	free(s);
}

static void call_ready(struct cbx_session *s, const struct cbx_err *err)
{
	struct cbx_ready_op *op = cbx_op_take(&s->ready);

	if (op)
		op->done(op, s, err);
}

static void start_other(struct cbx_session *s, struct cbx_seat *seat)
{
	struct cbx_launch launch = { .spawn = &seat->spawn };
	struct cbx_err err = { 0 };

	if (cbx_interp_start(&seat->interp, &launch, &err) < 0)
		cbx_session_fail(s, &err);
}

void cbx_session_start_interpreter(struct cbx_session *s)
{
	struct cbx_launch launch = { .spawn = &s->spawn, .watched = s->state != CBX_LIVE };
	struct cbx_err err = { 0 };

	if (!s->used)
		launch.zygote = cbx_zygote_take(s, &launch.first);
	s->warm = launch.zygote != 0;
	s->used = true;
	if (cbx_interp_start(&s->cells.first.interp, &launch, &err) < 0)
		cbx_session_fail(s, &err);
}

static void start_cell(struct cbx_session *s)
{
	cbx_session_touch(s);
	s->engine->running++;
	if (s->told_ms && s->used_ms - s->told_ms >= TELL_USED_MS) {
		s->told_ms = s->used_ms;
		cbx_link_used(&s->box);
	}
	cbx_cells_start(&s->cells);
}

static void next(struct cbx_session *s)
{
	struct cbx_seat *seat;

	for (size_t i = 0; (seat = cbx_cells_seat(&s->cells, i)); i++) {
		if (!cbx_seat_want(seat)) {
			if (cbx_seat_next(seat))
				start_cell(s);
		} else if (!cbx_group_settled(&s->box) || !cbx_interp_may_start(&seat->interp)) {
			continue;
		} else if (i == 0) {
			cbx_session_start_interpreter(s);
		} else {
			start_other(s, seat);
		}
	}
}

static void work(struct cbx_session *s)
{
	s->in_work = true;
	if (s->state == CBX_LIVE && !s->outfitting)
		call_ready(s, NULL);
	if (s->state == CBX_CLOSING) {
		cbx_init_fail_all(&s->box, &s->end);
		cbx_cells_fail_asked(&s->cells, &s->end);
		cbx_session_tell_askers(s, &s->end);
		call_ready(s, &s->end);
	}
	cbx_cells_deliver(&s->cells);
	if (s->state == CBX_LIVE && !s->shape && !s->outfitting && !s->commands.ready)
		cbx_commands_ready(&s->commands);
	if (!TAILQ_EMPTY(&s->commands.list))
		cbx_commands_deliver(&s->commands);
	if (s->state == CBX_LIVE && !s->shape && !s->outfitting)
		next(s);
	s->in_work = false;
}

void cbx_session_run_work(struct cbx_session *s)
{
	if (s->in_work)
		return;
	work(s);
	if (s->state != CBX_CLOSING)
		return;
	if (s->cells.undelivered || s->commands.undelivered || s->box.init.count || cbx_cells_asked(&s->cells) ||
	    !TAILQ_EMPTY(&s->askers) || s->ready) {
		cbx_session_work(s); /* closed by one of the callbacks above */
	} else if (s->box.gone) {
		cbx_engine_forget(s);
		cbx_session_free(s);
	}
}

/* At once; but it is not freed. */
static void go_on(struct cbx_session *s)
{
	if (!s->in_work)
		work(s);
	if (s->in_work || s->state == CBX_CLOSING)
		cbx_session_work(s);
}

static void work_event(evutil_socket_t fd, short what, void *arg)
{
	cbx_session_run_work(arg);
}

/* What the world knows of it ends. */
static void leave(struct cbx_session *s, const char *why)
{
	struct cbx_engine *e = s->engine;

	e->registry.live--;
	e->registry.closing++;
	if (s->state == CBX_STARTING)
		e->starting--;
	cbx_engine_unname(s);
	cbx_engine_bury(s, why);
	s->state = CBX_CLOSING;
	cbx_engine_session_news(s, true);
	e->changed_ms = cbx_now_ms();
}

static void tell_closed(struct cbx_session *s, const struct cbx_via *via, const char *outcome, const char *why)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_CLOSED, .via = via, .outcome = outcome, .why = why };

	if (s->engine->config.observer)
		cbx_group_look(&s->box); /* for the last time */
	h.cpu_us = cbx_session_cpu_us(s);
	h.memory_peak = s->box.use.peak;
	h.duration_ms = cbx_now_ms() - s->created_ms;
	cbx_session_happened(s, &h);
}

/* The one place where sessions end. An entry of the pool goes out of it, and into the list of those whose sandbox is
 * being taken down. failure: it could not be made, or broke; NULL: it was closed. */
static void end(struct cbx_session *s, const struct cbx_via *via, const struct cbx_err *failure, const char *why)
{
	struct event *timers[] = { s->start_timer, s->ttl_timer, s->idle_timer, s->asking.timer };

	if (s->shape) {
		s->engine->pool_events->lost(s, failure);
		s->nobodys = true;
		TAILQ_INSERT_TAIL(&s->engine->registry.sessions, s, entry);
		s->state = CBX_CLOSING;
	} else {
		cbx_session_note(s, "%s: %.500s", failure ? "failed" : "closed", why);
		tell_closed(s, via, failure ? "failed" : "closed", why);
		leave(s, why);
	}
	for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
		if (timers[i])
			event_del(timers[i]);
	cbx_naming_free(take_ptr(&s->naming));
	if (s->keep)
		cbx_keep_leave(s);
	cbx_keep_end_all(s, why);
	if (s->install)
		s->engine->packages_events->leave(s);
	cbx_cells_discard(&s->cells);
	cbx_box_close(&s->box);
	s->cells.failed = failure && (!s->was_live || s->outfitting);
	cbx_cells_close(&s->cells, why);
	cbx_commands_close(&s->commands, &s->end);
	cbx_session_work(s);
}

void cbx_session_close(const struct cbx_caller *by, struct cbx_session *s, const char *why)
{
	if (s->state == CBX_CLOSING)
		return;
	cbx_refuse(&s->end, "session_expired", ENOENT, "session %s was closed: %.400s", s->spec.id, why);
	end(s, by ? by->via : NULL, NULL, why);
}

void cbx_session_fail(struct cbx_session *s, const struct cbx_err *err)
{
	if (s->state == CBX_CLOSING)
		return;
	s->end = *err;
	end(s, NULL, &s->end, s->end.msg);
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
		   CBX_START_TIMEOUT_MS / 1000, steps[s->cells.first.interp.state]);
	cbx_session_fail(s, &err);
}

static void ttl_over(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	char why[80];

	snprintf(why, sizeof(why), "its life of %u s (ttl) was over", s->spec.ttl_s);
	cbx_session_close(NULL, s, why);
}

bool cbx_session_busy(const struct cbx_session *s)
{
	return s->install || s->cells.running || s->cells.nqueued || s->queries || cbx_commands_used(&s->commands);
}

static void idle_over(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	uint64_t limit = s->spec.idle_s * 1000ull, unused = cbx_now_ms() - s->used_ms;
	char why[80];

	if (s->state == CBX_STARTING || cbx_session_busy(s))
		unused = 0;
	if (unused < limit) {
		cbx_timer_set(s->idle_timer, limit - unused);
		return;
	}
	snprintf(why, sizeof(why), "%u s without use (idle_timeout)", s->spec.idle_s);
	cbx_session_close(NULL, s, why);
}

void cbx_session_touch(struct cbx_session *s)
{
	s->used_ms = cbx_now_ms();
}

/* ---- what its cells say ---- */

static struct cbx_session *session_of(struct cbx_cells *c)
{
	return cbx_container_of(c, struct cbx_session, cells);
}

void cbx_session_live(struct cbx_session *s)
{
	if (s->state == CBX_STARTING) {
		s->state = CBX_LIVE;
		s->was_live = true;
		event_del(s->start_timer);
		if (s->shape) {
			s->engine->pool_events->ready(s);
			return;
		}
		s->engine->starting--;
		cbx_session_tell_ready(s);
		cbx_zygote_want(s);
		s->engine->changed_ms = cbx_now_ms();
		cbx_group_rest_later(&s->box);
	}
	cbx_session_work(s);
}

static void tell_ran(struct cbx_session *s, const struct cbx_execution *x)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_RAN, .id = cbx_execution_id(x) };
	struct cbx_execution_use use;

	cbx_execution_use(x, &use);
	h.outcome = cbx_status_name(cbx_execution_status(x));
	h.wait_ms = use.wait_ms;
	h.duration_ms = use.run_ms;
	h.cpu_us = use.cpu_us;
	h.memory_peak = use.memory_peak;
	s->cells_cpu_us += use.cpu_us;
	cbx_session_happened(s, &h);
}

static void cells_ready(struct cbx_cells *c)
{
	cbx_session_live(session_of(c));
}

static bool cells_changed(struct cbx_cells *c, struct cbx_execution *x)
{
	return cbx_keep_begin(session_of(c), x);
}

static void cells_ended(struct cbx_cells *c, struct cbx_execution *x, bool ran, bool now)
{
	struct cbx_session *s = session_of(c);

	if (ran && s->keep)
		cbx_keep_leave(s);
	cbx_execution_forget_store(x);
	cbx_session_touch(s);
	tell_ran(s, x);
	if (ran) {
		s->engine->running--;
		s->engine->changed_ms = cbx_now_ms();
	}
	if (s->state == CBX_LIVE && cbx_execution_files(x))
		cbx_engine_files_news(s, cbx_execution_files(x));
	if (now)
		go_on(s);
	else
		cbx_session_work(s);
}

static bool cells_died(struct cbx_cells *c, const char *how)
{
	struct cbx_session *s = session_of(c);
	struct cbx_err err;

	if (!s->shape)
		return false;
	cbx_refuse(&err, "interpreter_died", ECHILD, "its interpreter died: %s", how);
	cbx_session_fail(s, &err);
	return true;
}

static void cells_failed(struct cbx_cells *c, const struct cbx_err *err)
{
	cbx_session_fail(session_of(c), err);
}

static void cells_next(struct cbx_cells *c)
{
	cbx_session_work(session_of(c));
}

const struct cbx_cells_events cbx_session_cells_events = {
	.ready = cells_ready,
	.ended = cells_ended,
	.changed = cells_changed,
	.died = cells_died,
	.failed = cells_failed,
	.next = cells_next,
};

/* ---- creation ---- */

static struct cbx_session *session_new(struct cbx_engine *e, const struct cbx_session_spec *spec)
{
	struct cbx_session *s = cbx_xcalloc(1, sizeof(*s));

	s->engine = e;
	s->spec = *spec;
	s->state = CBX_STARTING;
	cbx_box_init(&s->box, &e->boxes);
	s->box.name = s->spec.id;
	TAILQ_INIT(&s->askers);
	cbx_commands_init(&s->commands, e->base, &s->box, &cbx_session_commands_events);
	s->commands.id = s->spec.id;
	s->commands.spawn = &s->spawn;
	s->commands.next_id = &s->cells.next_id;
	s->commands.together = &e->commands;
	if (cbx_cells_init(&s->cells, e->base, &s->box, &e->keeping, s->spec.id, s->tenant,
			   &cbx_session_cells_events) < 0)
		return s; /* its maker looks for the events */
	s->work = event_new(e->base, -1, 0, work_event, s);
	s->start_timer = event_new(e->base, -1, 0, start_late, s);
	s->ttl_timer = event_new(e->base, -1, 0, ttl_over, s);
	s->idle_timer = event_new(e->base, -1, 0, idle_over, s);
	return s;
}

static int check_group(struct cbx_session *s, const struct cbx_plan *plan, struct cbx_err *err)
{
	return cbx_group_check(&s->box, plan, (dev_t)s->image_mark.dev, s->spec.cgroup == CBX_CGROUP_REQUIRED, err);
}

/* Where processor time is not shared out, all may be in one group, and in one pool. */
static void share_cpus(struct cbx_session *s, const struct cbx_principal *owner)
{
	static const struct cbx_principal local = CBX_PRINCIPAL_LOCAL;

	if (!owner || !cbx_group_limits_cpus(&s->engine->boxes))
		owner = &local;
	memcpy(s->box.tenant, owner->tenant, sizeof(s->box.tenant));
	s->box.tenant_weight = owner->cpu_weight ? owner->cpu_weight : CBX_CPU_WEIGHT_DEFAULT;
}

int cbx_session_make(struct cbx_engine *e, const struct cbx_principal *owner, const struct cbx_session_spec *spec,
		     struct cbx_plan *ret_plan, struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_session *s = session_new(e, spec);
	int r = cbx_session_settle(s, owner, err);

	if (owner)
		memcpy(s->tenant, owner->tenant, sizeof(s->tenant));
	share_cpus(s, owner);
	if (r >= 0)
		r = cbx_session_plan(s, ret_plan, err);
	if (r >= 0)
		r = check_group(s, ret_plan, err);
	if (r >= 0 && (!s->work || !s->start_timer || !s->ttl_timer || !s->idle_timer))
		r = cbx_fail(err, ENOMEM, "watch a session");
	if (r < 0) {
		cbx_session_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static int begin_box(struct cbx_session *s, const struct cbx_plan *plan, struct cbx_err *err)
{
	return cbx_box_begin(&s->box, plan, s->engine->policy->values[CBX_KEY_MEMORY_TOGETHER].standard, err);
}

/* For its proxy: all that its rules name, in their order. */
static void add_secrets(const struct cbx_session *s, struct cbx_buf *out)
{
	const struct cbx_engine_config *config = &s->engine->config;
	const struct cbx_network *net = &s->policy->network;
	struct cbx_err why;

	for (size_t i = 0; i < net->n; i++)
		for (size_t k = 0; k < net->rules[i].nsecrets; k++) {
			const struct cbx_net_secret *one = &net->rules[i].secrets[k];
			const char *value = "codeboxd reads none";
			bool known = config->secret && config->secret(config->arg, &one->place, &value, &why) >= 0;

			if (!known && config->secret)
				value = why.msg;
			cbx_egress_add_secret(out, known, value);
		}
}

void cbx_session_serve_network(struct cbx_session *s)
{
	struct cbx_buf secrets = { 0 };
	struct cbx_err err;

	if (!cbx_session_goes_out(s))
		return;
	add_secrets(s, &secrets);
	if (cbx_egress_serve(&s->box, &s->policy->network, &secrets, &err) < 0)
		cbx_session_note(s, "it has no network: %s", err.msg);
	cbx_buf_wipe(&secrets);
}

/* Its mounts have names, or never will. */
static void mounts_named(struct cbx_naming *naming)
{
	struct cbx_session *s = naming->arg;
	_cleanup_free_ struct cbx_plan *plan = NULL;
	struct cbx_err err;
	int r = cbx_session_settle_mounts(s, s->wanted, &err);

	if (r > 0)
		return;
	plan = take_ptr(&s->plan);
	cJSON_Delete(take_ptr(&s->wanted));
	cbx_naming_free(take_ptr(&s->naming));
	if (r >= 0) {
		cbx_session_plan_mounts(s, plan);
		r = cbx_plan_check(plan, &err);
	}
	if (r >= 0)
		r = check_group(s, plan, &err);
	if (r >= 0)
		r = begin_box(s, plan, &err);
	if (r < 0)
		cbx_session_fail(s, &err);
	else
		cbx_session_serve_network(s);
}

int cbx_session_begin(struct cbx_session *s, const struct cbx_plan *plan, struct cbx_err *err)
{
	int r;

	if (s->wanted) {
		r = cbx_box_open(&s->box, err);
		if (r >= 0)
			r = cbx_naming_begin(s->naming, &s->engine->boxes, mounts_named, s, err);
		s->plan = cbx_xcalloc(1, sizeof(*plan));
		*s->plan = *plan;
	} else {
		r = begin_box(s, plan, err);
	}
	if (r >= 0)
		cbx_timer_set(s->start_timer, CBX_START_TIMEOUT_MS);
	return r;
}

const char *cbx_session_id(const struct cbx_session *s)
{
	return s->spec.id;
}

bool cbx_session_reaches_hosts(const struct cbx_session *s)
{
	return cbx_session_goes_out(s);
}

void cbx_session_bind(struct cbx_session *s, bool on)
{
	s->spec.one_shot = on;
}

bool cbx_session_one_shot(const struct cbx_session *s)
{
	return s->spec.one_shot;
}

const struct cbx_err *cbx_session_failure(const struct cbx_session *s)
{
	return s->state == CBX_CLOSING && (!s->was_live || s->outfitting) ? &s->end : NULL;
}
