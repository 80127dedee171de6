/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: sessions are list entries, as are their executions (fake_cells.c). Endings of closed sessions
 * come later, from the events of those.
 */
#include "fake_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "policy/policy.h"

static void session_news(struct cbx_session *s, bool gone);
static void on_ready(evutil_socket_t fd, short what, void *arg);

const struct cbx_principal fake_principal = CBX_PRINCIPAL_LOCAL;

struct cbx_engine *fake_engine_new(struct event_base *base)
{
	struct cbx_engine *e = cbx_xcalloc(1, sizeof(*e));

	e->base = base;
	TAILQ_INIT(&e->sessions);
	TAILQ_INIT(&e->listeners);
	return e;
}

void cbx_engine_expect(struct cbx_engine *e)
{
}

void fake_engine_free(struct cbx_engine *e)
{
	struct cbx_session *s;

	while (e && (s = TAILQ_FIRST(&e->sessions))) {
		cbx_session_close(NULL, s, "codeboxd is stopping");
		on_ready(-1, 0, s);
		while (TAILQ_FIRST(&s->list))
			fake_execution_free(TAILQ_FIRST(&s->list));
		TAILQ_REMOVE(&e->sessions, s, entry);
		event_free(s->ready);
		fake_files_free(s->files);
		free(s->closed);
		free(s);
	}
	free(e);
}

void fake_engine_break(struct cbx_engine *e)
{
	cbx_refuse(&e->trouble, "no_sandbox", EPERM,
		   "user namespaces are switched off; run sysctl user.max_user_namespaces=10000");
}

void fake_engine_fail_setup(struct cbx_engine *e, bool on)
{
	e->fail_setup = on;
}

size_t fake_engine_interrupts(const struct cbx_engine *e)
{
	return e->interrupts;
}

size_t fake_engine_running(const struct cbx_engine *e)
{
	struct cbx_session *s;
	struct cbx_execution *x;
	size_t n = 0;

	TAILQ_FOREACH(s, &e->sessions, entry)
		TAILQ_FOREACH(x, &s->list, entry)
			n += x->status == CBX_RUNNING;
	return n;
}

void cbx_engine_reach(const struct cbx_caller *caller, struct cbx_buf *ret_hosts, bool *ret_packages)
{
	cbx_buf_adds(ret_hosts, "none");
	*ret_packages = true;
}

bool cbx_engine_takes_roots(const struct cbx_caller *caller)
{
	return false;
}

const struct cbx_err *cbx_engine_trouble(const struct cbx_engine *e)
{
	return e->trouble.code ? &e->trouble : NULL;
}

/* ---- sessions ---- */

static bool is_of(const struct cbx_session *s, const struct cbx_caller *caller)
{
	return !s->closed && strcmp(s->tenant, caller->principal->tenant) == 0;
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	struct cbx_ready_op *op = cbx_op_take(&s->op);
	struct cbx_err err;

	if (s->fails)
		cbx_session_close(NULL, s, "the image's interpreter does not start");
	if (s->closed)
		cbx_refuse(&err, "session_expired", ENOENT, "the session is gone: %s", s->closed);
	if (op)
		op->done(op, s, s->closed ? &err : NULL);
}

static uint64_t settled(const struct cbx_caller *caller, enum cbx_key key, uint64_t asked)
{
	struct cbx_policy *standard = cbx_policy_new("fake");
	const struct cbx_policy *ceiling = caller->principal->ceiling;
	uint64_t v = asked ? asked : standard->values[key].standard;

	if (ceiling && v > ceiling->values[key].ceiling)
		v = ceiling->values[key].ceiling;
	cbx_policy_free(standard);
	return v;
}

static int check_quota(const struct cbx_caller *caller, struct cbx_err *err)
{
	struct cbx_session *s;
	size_t n = 0;

	TAILQ_FOREACH(s, &caller->engine->sessions, entry)
		n += is_of(s, caller);
	if (!caller->principal->sessions_max || n < caller->principal->sessions_max)
		return 0;
	return cbx_refuse(err, "too_many_sessions", EMFILE, "you have %zu sessions, and no more than %llu are allowed",
			  n, (unsigned long long)caller->principal->sessions_max);
}

int cbx_session_create(struct cbx_caller *caller, const struct cbx_session_spec *spec, struct cbx_ready_op *op,
		       struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_engine *e = caller->engine;
	struct timeval now = { 0, 0 };
	struct cbx_session *s;

	if (e->trouble.code) {
		*err = e->trouble;
		return -err->code;
	}
	if (spec->image[0] && strcmp(spec->image, "python") != 0)
		return cbx_refuse(err, "image_not_found", ENOENT, "image: there is no \"%s\"; there are: python",
				  spec->image);
	TAILQ_FOREACH(s, &e->sessions, entry)
		if (is_of(s, caller) && strcmp(s->spec.id, spec->id) == 0)
			return cbx_refuse(err, "session_exists", EEXIST, "session_id: %s exists already", spec->id);
	if (check_quota(caller, err) < 0)
		return -err->code;
	s = cbx_xcalloc(1, sizeof(*s));
	s->engine = e;
	s->spec = *spec;
	s->spec.memory_bytes = settled(caller, CBX_KEY_MEMORY, spec->memory_bytes);
	s->spec.processes = settled(caller, CBX_KEY_PROCESSES, spec->processes);
	memcpy(s->tenant, caller->principal->tenant, sizeof(s->tenant));
	if (!s->spec.id[0])
		snprintf(s->spec.id, sizeof(s->spec.id), "fake-%zu", ++e->made);
	s->files = fake_files_new();
	TAILQ_INIT(&s->list);
	TAILQ_INSERT_TAIL(&e->sessions, s, entry);
	session_news(s, false);
	s->ready = event_new(e->base, -1, 0, on_ready, s);
	s->fails = e->fail_setup;
	event_add(s->ready, &now);
	if (op) {
		op->session = s;
		cbx_op_begin(&op->op, &s->op);
	}
	*ret = s;
	return 0;
}

int cbx_session_find(const struct cbx_caller *caller, const char *id, struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_engine *e = caller->engine;
	struct cbx_session *s;
	const char *why = NULL;

	TAILQ_FOREACH(s, &e->sessions, entry) {
		if (strcmp(s->spec.id, id) != 0 || strcmp(s->tenant, caller->principal->tenant) != 0)
			continue;
		if (!s->closed) {
			*ret = s;
			return 0;
		}
		why = s->closed;
	}
	if (why)
		return cbx_refuse(err, "session_expired", ENOENT, "session_id: %s has expired: %s", id, why);
	return cbx_refuse(err, "session_not_found", ENOENT,
			  "there is no session \"%.80s\"; list the sessions, or make one", id);
}

int cbx_session_same(const struct cbx_session *s, const struct cbx_session_spec *spec, struct cbx_err *err)
{
	if (strcmp(s->spec.policy, spec->policy) == 0)
		return 0;
	return cbx_refuse(err, "session_differs", EEXIST, "policy: session %s has another value", s->spec.id);
}

const char *cbx_session_id(const struct cbx_session *s)
{
	return s->spec.id;
}

bool cbx_session_one_shot(const struct cbx_session *s)
{
	return s->spec.one_shot;
}

static void session_news(struct cbx_session *s, bool gone)
{
	struct cbx_engine_listener *l;

	TAILQ_FOREACH(l, &s->engine->listeners, entry)
		if (strcmp(l->principal->tenant, s->tenant) == 0)
			l->on_session(l->arg, s->spec.id, s->spec.one_shot, gone);
}

void cbx_engine_files_changed(struct cbx_caller *caller, const char *session_id, const cJSON *files)
{
	struct cbx_engine_listener *l;
	uint64_t hashes[20];
	struct cbx_session *s;
	struct cbx_err err;
	const cJSON *f;
	size_t n = 0;

	if (cbx_session_find(caller, session_id, &s, &err) < 0)
		return;
	for (f = files->child; f && n < 20; f = f->next) {
		_cleanup_buf_ struct cbx_buf uri = { 0 };

		if (!cbx_json_text(f, "uri"))
			cbx_file_uri(&uri, session_id, cbx_json_text(f, "path"));
		hashes[n++] = cbx_hash(uri.len ? uri.data : cbx_json_text(f, "uri"));
	}
	TAILQ_FOREACH(l, &caller->engine->listeners, entry)
		if (n && strcmp(l->principal->tenant, s->tenant) == 0)
			l->on_files(l->arg, session_id, s->spec.one_shot, hashes, n);
}

size_t cbx_engine_watched(const struct cbx_caller *caller)
{
	const struct cbx_engine_listener *l;
	size_t n = 0;

	TAILQ_FOREACH(l, &caller->engine->listeners, entry)
		n += l->watched;
	return n;
}

int cbx_session_restart(const struct cbx_caller *by, struct cbx_session *s, const char *language, size_t *ret,
			struct cbx_err *err)
{
	*ret = s->closed ? 0 : 1;
	return 0;
}

void cbx_session_close(const struct cbx_caller *by, struct cbx_session *s, const char *why)
{
	struct cbx_execution *x;

	if (s->closed)
		return;
	s->closed = cbx_xstrdup(why);
	session_news(s, true);
	TAILQ_FOREACH(x, &s->list, entry) {
		if (x->status <= CBX_RUNNING) {
			x->killed_by_close = true;
			x->status = CBX_KILLED;
			fake_wake(x);
		}
	}
}

void fake_session_expire(struct cbx_engine *e, const char *id)
{
	struct cbx_caller caller = { .engine = e, .principal = &fake_principal };
	struct cbx_session *s;
	struct cbx_err err;

	if (cbx_session_find(&caller, id, &s, &err) >= 0)
		cbx_session_close(NULL, s, "it was idle for an hour");
}

cJSON *cbx_session_list_entry(const struct cbx_session *s)
{
	cJSON *o = cbx_json_new_obj(), *limits;

	cbx_json_set_str(o, "session_id", s->spec.id);
	cbx_json_set_str(o, "image", s->spec.image[0] ? s->spec.image : "python");
	cbx_json_set_str(o, "state", "idle");
	cbx_json_set_u64(o, "executions", s->executions);
	cbx_json_set_u64(o, "expires_in_s", s->spec.idle_s);
	cbx_json_set_bool(o, "one_shot", s->spec.one_shot);
	limits = cbx_json_new_obj();
	cbx_json_set_u64(limits, "memory_bytes", s->spec.memory_bytes);
	cbx_json_set_u64(limits, "processes", s->spec.processes);
	cbx_json_set_u64(limits, "disk_bytes", s->spec.disk_bytes);
	cbx_json_set(o, "limits", limits);
	return o;
}

cJSON *cbx_session_to_json(struct cbx_session *s)
{
	return cbx_session_list_entry(s);
}

cJSON *cbx_session_list(const struct cbx_caller *caller)
{
	cJSON *a = cbx_json_new_arr();
	struct cbx_session *s;

	TAILQ_FOREACH(s, &caller->engine->sessions, entry)
		if (is_of(s, caller))
			cbx_json_push(a, cbx_session_to_json(s));
	return a;
}

cJSON *cbx_session_names(const struct cbx_caller *caller)
{
	return cbx_session_list(caller);
}
