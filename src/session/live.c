/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what somebody who watches wants to know. A session is looked at when somebody asks for it, and
 * not more often than once a second, however many ask; of many sessions a share is looked at by each request, so that
 * no request takes long. Where there is a control group, the kernel tells at once; else the supervisor measures, and
 * the next request has what it found.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "session/internal.h"

/* ---- what is in use ---- */

void cbx_session_sampled(struct cbx_session *s)
{
	struct cbx_live *was = &s->live;
	uint64_t now = cbx_now_ms(), cpu_us = cbx_session_cpu_us(s);

	if (now - was->at_ms < CBX_SAMPLE_MS && was->at_ms)
		return;
	was->known = was->at_ms > 0;
	/* What ended without being waited for is not counted any more. */
	was->cpus_milli = cpu_us > was->cpu_us ? (uint32_t)((cpu_us - was->cpu_us) / (now - was->at_ms)) : 0;
	was->cpu_us = cpu_us;
	was->at_ms = now;
}

static void look(struct cbx_session *s)
{
	if (s->state != CBX_LIVE)
		return;
	if (!cbx_group_on(&s->box)) {
		cbx_link_measure(&s->box); /* events.c has the answer */
		return;
	}
	cbx_group_look(&s->box);
	cbx_session_sampled(s);
}

cJSON *cbx_session_list_now(const struct cbx_caller *caller, bool all)
{
	struct cbx_engine *e = caller->engine;
	uint64_t now = cbx_now_ms(), old = CBX_SAMPLE_MS * (1 + cbx_engine_sessions(e) / CBX_SAMPLES_MAX);
	cJSON *list = cbx_json_new_arr(), *o;
	struct cbx_session *s;
	size_t n = 0;

	TAILQ_FOREACH(s, &e->sessions, entry) {
		if (all ? s->state == CBX_CLOSING : !cbx_session_is_of(s, caller->principal))
			continue;
		if (n < CBX_SAMPLES_MAX && now - s->live.at_ms >= old) {
			look(s);
			n++;
		}
		o = cbx_session_list_entry(s);
		if (all)
			cbx_json_set_str(o, "tenant", s->tenant);
		cbx_json_push(list, o);
	}
	return list;
}

/* ---- what has happened ---- */

struct cbx_session_log {
	uint64_t n; /* so far; the last ones are kept */
	struct entry {
		uint64_t at_ms, id, duration_ms;
		enum cbx_happening what;
		char outcome[16];
		char *why;
	} all[CBX_SESSION_LOG_MAX];
};

void cbx_session_log_add(struct cbx_session *s, const struct cbx_happened *h)
{
	struct entry *e;

	if (!s->live.log)
		s->live.log = cbx_xcalloc(1, sizeof(*s->live.log));
	e = &s->live.log->all[s->live.log->n++ % CBX_SESSION_LOG_MAX];
	free(e->why);
	*e = (struct entry){ .at_ms = cbx_wall_ms(), .id = h->id, .duration_ms = h->duration_ms, .what = h->what };
	if (h->outcome)
		snprintf(e->outcome, sizeof(e->outcome), "%s", h->outcome);
	if (h->why)
		e->why = cbx_xasprintf("%.500s", h->why);
}

void cbx_session_log_free(struct cbx_session *s)
{
	for (size_t i = 0; s->live.log && i < CBX_SESSION_LOG_MAX; i++)
		free(s->live.log->all[i].why);
	free(take_ptr(&s->live.log));
}

static const char *name_of(enum cbx_happening what)
{
	static const char *const names[CBX_HAPPENINGS] = {
		[CBX_HAPPENED_MADE] = "made",	    [CBX_HAPPENED_READY] = "ready",
		[CBX_HAPPENED_CLOSED] = "closed",   [CBX_HAPPENED_CELL] = "cell",
		[CBX_HAPPENED_RAN] = "ran",	    [CBX_HAPPENED_COMMAND] = "command",
		[CBX_HAPPENED_EXITED] = "exited",   [CBX_HAPPENED_PACKAGES] = "packages",
		[CBX_HAPPENED_NETWORK] = "network", [CBX_HAPPENED_DENIED] = "denied",
	};

	return names[what];
}

cJSON *cbx_session_log(const struct cbx_session *s)
{
	uint64_t n = s->live.log ? s->live.log->n : 0;
	cJSON *list = cbx_json_new_arr(), *o;

	for (uint64_t i = n > CBX_SESSION_LOG_MAX ? n - CBX_SESSION_LOG_MAX : 0; i < n; i++) {
		const struct entry *e = &s->live.log->all[i % CBX_SESSION_LOG_MAX];

		o = cbx_json_new_obj();
		cbx_json_set_double(o, "at_ms", (double)e->at_ms);
		cbx_json_set_str(o, "event", name_of(e->what));
		if (e->id)
			cbx_json_set_u64(o, "id", e->id);
		if (e->outcome[0])
			cbx_json_set_str(o, "outcome", e->outcome);
		if (e->what == CBX_HAPPENED_RAN || e->what == CBX_HAPPENED_EXITED || e->what == CBX_HAPPENED_READY)
			cbx_json_set_u64(o, "duration_ms", e->duration_ms);
		if (e->why)
			cbx_json_set_str(o, "why", e->why);
		cbx_json_push(list, o);
	}
	return list;
}

void cbx_session_executions(const struct cbx_session *s, void (*one)(void *arg, const struct cbx_execution *x),
			    void *arg)
{
	cbx_cells_each(&s->cells, one, arg);
}
