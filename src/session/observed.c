/* SPDX-License-Identifier: Apache-2.0 */
/* What others learn of sessions: the log, whoever observes (happened.h). */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "session/internal.h"

void cbx_session_note(struct cbx_session *s, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (s->engine->config.on_note && vasprintf(&text, fmt, ap) >= 0)
		s->engine->config.on_note(s->engine->config.arg, s->spec.id, text);
	va_end(ap);
}

void cbx_session_tell_ready(struct cbx_session *s)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_READY, .duration_ms = cbx_now_ms() - s->created_ms };

	cbx_session_note(s, "ready");
	cbx_session_happened(s, &h);
}

int cbx_engine_denied(struct cbx_engine *e, const char *tenant, struct cbx_happened *h, const struct cbx_err *err)
{
	const struct cbx_observer *o = e->config.observer;

	h->what = CBX_HAPPENED_DENIED;
	h->tenant = tenant;
	h->outcome = err->kind;
	h->why = err->msg;
	if (o)
		o->happened(o->arg, h);
	return -err->code;
}

uint64_t cbx_session_cpu_us(const struct cbx_session *s)
{
	if (cbx_group_on(&s->box))
		return s->box.use.cpu_us;
	/* The supervisor sees what runs, and what was waited for; the cells know of themselves, at their end. */
	return s->box.cpu_us > s->cells_cpu_us ? s->box.cpu_us : s->cells_cpu_us;
}

void cbx_engine_loads(const struct cbx_engine *e, void (*one)(void *arg, const struct cbx_session_load *load),
		      void *arg)
{
	const struct cbx_session *s;

	TAILQ_FOREACH(s, &e->registry.sessions, entry) {
		struct cbx_session_load load = { .tenant = s->tenant,
						 .session_id = s->spec.id,
						 .memory_bytes = cbx_group_on(&s->box) ? s->box.use.memory : s->box.pss,
						 .cpu_us = cbx_session_cpu_us(s) };

		if (s->state == CBX_CLOSING)
			continue;
		load.state = s->state == CBX_STARTING		    ? CBX_LOAD_STARTING
			     : s->cells.running || s->cells.nqueued ? CBX_LOAD_BUSY
								    : CBX_LOAD_IDLE;
		one(arg, &load);
	}
}
