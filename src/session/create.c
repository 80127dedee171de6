/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a session that somebody asks for is one that the pool has made in just this way before, or it is
 * begun now; from then on it is the caller's, and is counted. Whether there may be one more is decided here and nowhere
 * else; what it may be, in terms.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "session/asked.h"
#include "session/pool.h"
#include "session/zygotes.h"

/* Of the caller's own that a call made which named no session, and of which nobody waits for anything, the one that was
 * used longest ago can go; NULL: there is none. */
static struct cbx_session *dispensable(const struct cbx_caller *caller)
{
	struct cbx_session *s, *oldest = NULL;

	TAILQ_FOREACH(s, &caller->engine->registry.sessions, entry)
		if (cbx_session_is_of(s, caller->principal) && s->spec.disposable && s->state == CBX_LIVE &&
		    !cbx_session_busy(s) && !s->box.init.count && (!oldest || s->used_ms < oldest->used_ms))
			oldest = s;
	return oldest;
}

static size_t count(const struct cbx_caller *caller)
{
	const struct cbx_session *s;
	size_t n = 0;

	TAILQ_FOREACH(s, &caller->engine->registry.sessions, entry)
		n += cbx_session_is_of(s, caller->principal);
	return n;
}

/* The one place where sessions are refused for their number: those of this tenant, then those of all. *ret_goes: there
 * is room when this one is closed; NULL: there is. */
static int check_room(const struct cbx_caller *caller, struct cbx_session **ret_goes, struct cbx_err *err)
{
	const struct cbx_engine *e = caller->engine;
	uint64_t quota = caller->principal->sessions_max, most = e->policy->values[CBX_KEY_SESSIONS].ceiling;
	size_t mine = quota ? count(caller) : 0;
	bool full = quota && mine >= quota;

	*ret_goes = full || e->registry.live >= most ? dispensable(caller) : NULL;
	if (full && !*ret_goes)
		return cbx_refuse(err, "too_many_sessions", EMFILE,
				  "you have %zu sessions, and no more than %llu are allowed; close one first", mine,
				  (unsigned long long)quota);
	if ((e->registry.live >= most && !*ret_goes) || e->registry.live + e->registry.closing >= 2 * most)
		return cbx_refuse(err, "too_many_sessions", EMFILE,
				  "there are %zu sessions, and the policy allows no more than %llu; close one first",
				  e->registry.live, (unsigned long long)most);
	return 0;
}

static int check_bytes(const char *what, uint64_t is, uint64_t most, struct cbx_err *err)
{
	if (!most || is <= most)
		return 0;
	return cbx_refuse(
		err, "quota_exceeded", EDQUOT,
		"%s: with this session yours could use %llu bytes, and %llu are allowed; ask for less, or close a "
		"session",
		what, (unsigned long long)is, (unsigned long long)most);
}

/* What the limits of all sessions of a tenant may add up to, this one, which is settled, among them, and one that goes
 * for it (NULL: none does) not. */
static int check_quota(const struct cbx_caller *caller, const struct cbx_session *goes,
		       const struct cbx_session_spec *spec, struct cbx_err *err)
{
	const struct cbx_principal *p = caller->principal;
	uint64_t memory = spec->memory_bytes, disk = spec->disk_bytes, cpus = spec->cpus_milli;
	const struct cbx_session *s;

	if (!p->memory_max && !p->disk_max && !p->cpus_max)
		return 0;
	TAILQ_FOREACH(s, &caller->engine->registry.sessions, entry) {
		if (!cbx_session_is_of(s, p) || s == goes)
			continue;
		memory += s->spec.memory_bytes;
		disk += s->spec.disk_bytes;
		cpus += s->spec.cpus_milli;
	}
	if (p->cpus_max && cpus > p->cpus_max)
		return cbx_refuse(err, "quota_exceeded", EDQUOT,
				  "cpus: with this session yours could use %g processors, and %g are allowed; ask for "
				  "less, or close a session",
				  (double)cpus / 1000, (double)p->cpus_max / 1000);
	return check_bytes("memory", memory, p->memory_max, err) < 0 ? -err->code
								     : check_bytes("disk", disk, p->disk_max, err);
}

static int check(const struct cbx_caller *caller, const struct cbx_session_spec *spec, struct cbx_session **ret_goes,
		 struct cbx_err *err)
{
	const struct cbx_err *trouble = cbx_engine_trouble(caller->engine);

	if (trouble) {
		*err = *trouble;
		return -err->code;
	}
	if (spec->id[0] && !cbx_starts_with(spec->id, caller->engine->config.node))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "session_id: \"%s\" does not begin with \"%s\", by which requests find this machine "
				  "(--node); omit session_id, or begin it so",
				  spec->id, caller->engine->config.node);
	if (spec->id[0] && cbx_engine_by_id(caller->engine, caller->principal->tenant, spec->id))
		return cbx_refuse(err, "session_exists", EEXIST,
				  "session %s exists already; use it, or choose another name", spec->id);
	return check_room(caller, ret_goes, err);
}

static void make_up_id(struct cbx_session *s)
{
	char unique[13];

	cbx_random_name(unique, sizeof(unique) - 1);
	snprintf(s->spec.id, sizeof(s->spec.id), "%s%s", s->engine->config.node, unique);
}

/* From now on it is somebody's. */
static void introduce(struct cbx_session *s, const struct cbx_session_spec *spec, const struct cbx_caller *caller)
{
	const struct cbx_principal *owner = caller->principal;
	struct cbx_happened h = { .what = CBX_HAPPENED_MADE, .image = s->spec.image, .policy = s->policy->digest };
	struct cbx_engine *e = s->engine;

	s->spec = *spec;
	memcpy(s->tenant, owner->tenant, sizeof(s->tenant));
	s->serial = ++e->registry.serial;
	s->executions = owner->executions;
	if (!s->spec.id[0])
		make_up_id(s);
	clock_gettime(CLOCK_REALTIME, &s->created);
	s->created_ms = s->used_ms = s->told_ms = cbx_now_ms();
	cbx_cells_settle(&s->cells, s->policy, s->spec.timeout_ms);
	TAILQ_INSERT_TAIL(&e->registry.sessions, s, entry);
	cbx_engine_name(s);
	e->registry.live++;
	if (s->state == CBX_STARTING) {
		e->starting++;
		cbx_timer_set(s->start_timer, CBX_START_TIMEOUT_MS);
	}
	cbx_timer_set(s->ttl_timer, s->spec.ttl_s * 1000ull);
	cbx_timer_set(s->idle_timer, s->spec.idle_s * 1000ull);
	cbx_session_note(s, "created");
	h.via = caller->via;
	cbx_session_happened(s, &h);
	if (!s->wanted) /* else its sandbox is begun later */
		cbx_session_serve_network(s);
	cbx_engine_session_news(s, false);
	if (s->state == CBX_LIVE) {
		cbx_session_tell_ready(s);
		cbx_group_rest_later(&s->box);
		cbx_zygote_want(s);
		cbx_session_work(s);
	}
}

static int create(struct cbx_caller *caller, const struct cbx_session_spec *spec, struct cbx_ready_op *op,
		  struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_engine *e = caller->engine;
	struct cbx_session *s, *ready, *goes = NULL;
	struct cbx_session_spec full;
	struct cbx_plan plan;
	int r = check(caller, spec, &goes, err);

	if (r >= 0)
		r = cbx_session_make(e, caller->principal, spec, &plan, &s, err);
	if (r < 0)
		return r;
	r = check_quota(caller, goes, &s->spec, err);
	if (r < 0) {
		cbx_session_free(s);
		return r;
	}
	if (goes)
		cbx_session_close(NULL, goes,
				  "it was made by a call without session_id, was not used, and its place was needed");
	full = s->spec;
	ready = s->wanted ? NULL : cbx_pool_take(s, &plan);
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
	introduce(s, &full, caller);
	r = spec->packages ? e->packages_events->outfit(caller, s, spec->packages, err) : 0;
	if (r < 0) {
		cbx_session_close(caller, s, "its packages cannot be installed");
		return r;
	}
	if (op) {
		op->session = s;
		cbx_op_begin(&op->op, &s->ready);
	}
	*ret = s;
	return 0;
}

int cbx_session_create(struct cbx_caller *caller, const struct cbx_session_spec *spec, struct cbx_ready_op *op,
		       struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_happened h = { .session_id = spec->id[0] ? spec->id : NULL, .via = caller->via };

	return create(caller, spec, op, ret, err) < 0
		       ? cbx_engine_denied(caller->engine, caller->principal->tenant, &h, err)
		       : 0;
}
