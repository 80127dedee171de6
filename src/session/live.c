/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what somebody who watches wants to know. A session is looked at when somebody asks for it, and
 * not more often than once a second, however many ask; of many sessions a share is looked at by each request, so that
 * no request takes long. Where there is a control group, the kernel tells at once; else the supervisor measures, and
 * the next request has what it found.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "session/internal.h"

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

	TAILQ_FOREACH(s, &e->registry.sessions, entry) {
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

void cbx_session_executions(const struct cbx_session *s, void (*one)(void *arg, const struct cbx_execution *x),
			    void *arg)
{
	cbx_cells_each(&s->cells, one, arg);
}
