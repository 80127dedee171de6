/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a box says goes to the session that it is part of, and there to its interpreter.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/op.h"
#include "session/asking.h"
#include "session/pool.h"
#include "session/zygotes.h"

static struct cbx_session *session_of(struct cbx_box *box)
{
	return cbx_container_of(box, struct cbx_session, box);
}

static void box_ready(struct cbx_box *box)
{
	struct cbx_session *s = session_of(box);

	s->engine->packages_events->ready(s);
	if (!s->cells.first.runtime)
		cbx_session_live(s);
	else if (s->cells.first.interp.state == CBX_INTERP_NONE)
		cbx_session_start_interpreter(s);
}

static void box_failed(struct cbx_box *box, const struct cbx_err *why)
{
	cbx_session_fail(session_of(box), why);
}

static void box_gone(struct cbx_box *box)
{
	cbx_session_work(session_of(box));
}

static void box_ended(struct cbx_box *box, int64_t pid, int status)
{
	struct cbx_session *s = session_of(box);

	if (!cbx_commands_exited(&s->commands, pid, status))
		cbx_cells_process_ended(&s->cells, pid, status);
}

static void box_oom(struct cbx_box *box, int64_t pid, enum cbx_oom which)
{
	struct cbx_session *s = session_of(box);
	struct cbx_seat *seat = cbx_cells_by_pid(&s->cells, pid);

	if ((!seat || !cbx_interp_oom(&seat->interp, pid, which)) && !cbx_commands_oom(&s->commands, pid, which))
		cbx_cells_oom(&s->cells, pid, which);
}

static void box_placed(struct cbx_box *box, int64_t pid, const struct cbx_err *err)
{
	struct cbx_session *s = session_of(box);
	struct cbx_interp *in = &s->cells.first.interp;

	if (!s->warm || in->pid || in->state == CBX_INTERP_NONE)
		return;
	if (err) {
		cbx_session_note(s, "its interpreter starts the slow way: %.300s", err->msg);
		cbx_session_start_interpreter(s); /* it comes from no zygote, since one was started */
		return;
	}
	cbx_zygote_served(s);
	cbx_interp_placed(in, pid);
}

static void box_limited(struct cbx_box *box, const struct cbx_err *err)
{
	struct cbx_session *s = session_of(box);

	cbx_cells_limited(&s->cells, err);
	cbx_commands_limited(&s->commands, err);
}

static void box_measured(struct cbx_box *box)
{
	cbx_session_sampled(session_of(box));
	cbx_session_tell_askers(session_of(box), NULL);
}

static void box_attached(struct cbx_box *box, const struct cbx_err *err)
{
	struct cbx_session *s = session_of(box);

	s->engine->packages_events->attached(s, err);
}

static void box_asked(struct cbx_box *box, uint64_t number, const char *p, size_t n)
{
	cbx_session_asked(session_of(box), number, p, n);
}

static void box_decided(struct cbx_box *box, const char *text)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_NETWORK, .why = text };

	cbx_session_note(session_of(box), "%s", text);
	cbx_session_happened(session_of(box), &h);
}

static void box_settling(struct cbx_box *box)
{
	cbx_session_work(session_of(box));
}

static uint64_t box_unused_ms(struct cbx_box *box)
{
	const struct cbx_session *s = session_of(box);
	bool idle = s->state == CBX_LIVE && cbx_cells_idle(&s->cells) && !s->commands.running;

	return idle ? cbx_now_ms() - s->used_ms : 0;
}

static void zygote_event(void *arg, const struct cbx_event *ev)
{
	if (cbx_zygotes_event(arg, ev))
		cbx_pool_warm(arg);
}

/* The link has ended. Sessions end with it: their sandboxes are gone already, by the kernel's hand. */
static void down(void *arg, bool had_been_up)
{
	struct cbx_engine *e = arg;
	struct cbx_err why = e->boxes.link.why;
	struct cbx_session *s, *next;

	if (had_been_up)
		cbx_refuse(e->trouble, "no_sandbox", why.code, "the supervisor of the sandboxes has ended: %.500s",
			   why.msg);
	else
		cbx_refuse(e->trouble, "no_sandbox", why.code, "no sandbox can be made: %.500s", why.msg);
	if (had_been_up)
		*e->diagnosed = true;
	cbx_pool_close_all(e, e->trouble->msg);
	TAILQ_FOREACH_SAFE(s, &e->registry.sessions, entry, next)
	{
		s->box.gone = true;
		if (s->state != CBX_CLOSING)
			cbx_session_fail(s, cbx_engine_trouble(e));
		cbx_session_work(s);
	}
	if (had_been_up && !e->freeing && e->config.on_down)
		e->config.on_down(e->config.arg, e->trouble);
}

static void note(void *arg, const char *text)
{
	struct cbx_engine *e = arg;

	if (e->config.on_note)
		e->config.on_note(e->config.arg, "(closed)", text);
}

const struct cbx_box_events cbx_session_box_events = {
	.ready = box_ready,
	.failed = box_failed,
	.gone = box_gone,
	.ended = box_ended,
	.oom = box_oom,
	.placed = box_placed,
	.limited = box_limited,
	.measured = box_measured,
	.attached = box_attached,
	.asked = box_asked,
	.decided = box_decided,
	.settling = box_settling,
	.unused_ms = box_unused_ms,
	.zygote = zygote_event,
	.down = down,
	.note = note,
};
