/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the registry of sessions: who is there by which id, who was, how many, and who hears of what
 * happens to them. It calls no session. Ids are a tenant's own: nobody finds, lists or hears of a session that is
 * another's.
 *
 * Listeners are one list; whoever is called may take itself, but nobody else, off it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/internal.h"

const struct cbx_err *cbx_engine_trouble(const struct cbx_engine *e)
{
	struct cbx_err found = { 0 };

	if (!e->trouble->code)
		return NULL;
	if (!*e->diagnosed) {
		*e->diagnosed = true;
		if (e->config.diagnose && e->config.diagnose(e->config.arg, &found) < 0) {
			struct cbx_err said = *e->trouble;

			cbx_err_sanitize(&found);
			cbx_refuse(e->trouble, "no_sandbox", said.code,
				   "no sandbox can be made on this machine: %.450s (%.100s)", found.msg, said.msg);
		}
	}
	return e->trouble;
}

void cbx_session_registry_init(struct cbx_session_registry *r)
{
	TAILQ_INIT(&r->sessions);
	TAILQ_INIT(&r->listeners);
}

void cbx_session_registry_release(struct cbx_session_registry *r)
{
	for (size_t i = 0; i < r->ntombstones; i++)
		free(r->tombstones[i].why);
	free(r->tombstones);
}

static unsigned bucket(const char *tenant, const char *id)
{
	unsigned h = 2166136261u; /* FNV-1a */

	while (*tenant)
		h = (h ^ (unsigned char)*tenant++) * 16777619u;
	while (*id)
		h = (h ^ (unsigned char)*id++) * 16777619u;
	return (h ^ h >> 16) % CBX_TABLE_SIZE;
}

struct cbx_session *cbx_engine_by_id(struct cbx_engine *e, const char *tenant, const char *id)
{
	struct cbx_session *s;

	LIST_FOREACH(s, &e->registry.by_id[bucket(tenant, id)], by_id)
	if (strcmp(s->spec.id, id) == 0 && strcmp(s->tenant, tenant) == 0)
		return s;
	return NULL;
}

void cbx_engine_name(struct cbx_session *s)
{
	LIST_INSERT_HEAD(&s->engine->registry.by_id[bucket(s->tenant, s->spec.id)], s, by_id);
	s->named = true;
}

void cbx_engine_unname(struct cbx_session *s)
{
	if (s->named)
		LIST_REMOVE(s, by_id);
	s->named = false;
}

void cbx_engine_bury(const struct cbx_session *s, const char *why)
{
	struct cbx_session_registry *r = &s->engine->registry;
	struct cbx_tombstone *t;

	if (!r->tombstones)
		r->tombstones = cbx_xcalloc(CBX_TOMBSTONES_MAX, sizeof(*r->tombstones));
	t = &r->tombstones[r->next_tombstone];
	r->next_tombstone = (r->next_tombstone + 1) % CBX_TOMBSTONES_MAX;
	if (r->ntombstones < CBX_TOMBSTONES_MAX)
		r->ntombstones++;
	free(t->why);
	memcpy(t->tenant, s->tenant, sizeof(t->tenant));
	memcpy(t->id, s->spec.id, sizeof(t->id));
	t->why = cbx_xasprintf("%.300s", why);
}

void cbx_engine_forget(struct cbx_session *s)
{
	struct cbx_engine *e = s->engine;

	TAILQ_REMOVE(&e->registry.sessions, s, entry);
	e->registry.closing -= !s->nobodys;
	if (!s->nobodys && !e->registry.live && !e->registry.closing && !e->freeing && e->config.on_idle)
		e->config.on_idle(e->config.arg);
}

int cbx_session_find(const struct cbx_caller *caller, const char *id, struct cbx_session **ret, struct cbx_err *err)
{
	const struct cbx_session_registry *r = &caller->engine->registry;
	struct cbx_session *s = cbx_engine_by_id(caller->engine, caller->principal->tenant, id);

	if (s) {
		*ret = s;
		return 0;
	}
	/* The newest one first: an id may have been used more than once. */
	for (size_t i = 0; i < r->ntombstones; i++) {
		const struct cbx_tombstone *t =
			&r->tombstones[(r->next_tombstone + 2 * CBX_TOMBSTONES_MAX - 1 - i) % CBX_TOMBSTONES_MAX];

		if (strcmp(t->id, id) == 0 && strcmp(t->tenant, caller->principal->tenant) == 0)
			return cbx_refuse(
				err, "session_expired", ENOENT,
				"expired: session %s was closed (%s); its variables and files are gone",
				id, t->why);
	}
	return cbx_refuse(err, "session_not_found", ENOENT,
			  "there is no session \"%.80s\"; list the sessions, or make one", id);
}

bool cbx_engine_settled(const struct cbx_engine *e)
{
	return e->boxes.link.state != CBX_LINK_STARTING;
}

static bool roots_in(const struct cbx_policy *policy)
{
	return policy->values[CBX_KEY_ROOTS].standard && policy->nmounts;
}

bool cbx_engine_takes_roots(const struct cbx_caller *caller)
{
	const struct cbx_engine *e = caller->engine;
	const struct cbx_policy *ceiling = caller->principal->ceiling;

	return e->mountable && roots_in(e->policy) && (!ceiling || roots_in(ceiling));
}

size_t cbx_engine_sessions(const struct cbx_engine *e)
{
	return e->registry.live;
}

bool cbx_session_is_of(const struct cbx_session *s, const struct cbx_principal *owner)
{
	return s->state != CBX_CLOSING && strcmp(s->tenant, owner->tenant) == 0;
}

const char *cbx_engine_writer(const struct cbx_engine *e)
{
	const struct cbx_session *s;

	TAILQ_FOREACH(s, &e->registry.sessions, entry)
		for (uint32_t i = 0; i < s->mounts.n; i++)
			if (s->mounts.all[i].writable)
				return s->spec.id;
	return NULL;
}

/* ---- news ---- */

void cbx_engine_listen(struct cbx_caller *caller, struct cbx_engine_listener *l)
{
	l->principal = caller->principal;
	TAILQ_INSERT_TAIL(&caller->engine->registry.listeners, l, entry);
}

void cbx_engine_unlisten(struct cbx_caller *caller, struct cbx_engine_listener *l)
{
	TAILQ_REMOVE(&caller->engine->registry.listeners, l, entry);
}

static bool hears(const struct cbx_engine_listener *l, const struct cbx_session *s)
{
	return strcmp(l->principal->tenant, s->tenant) == 0;
}

size_t cbx_engine_watched(const struct cbx_caller *caller)
{
	const struct cbx_engine_listener *l;
	size_t n = 0;

	TAILQ_FOREACH(l, &caller->engine->registry.listeners, entry)
		if (strcmp(l->principal->tenant, caller->principal->tenant) == 0)
			n += l->watched;
	return n;
}

/* There may be many listeners, so what each compares is made here, once. */
void cbx_engine_files_news(struct cbx_session *s, const cJSON *files)
{
	size_t all = (size_t)cJSON_GetArraySize(files), n = 0;
	_cleanup_free_ uint64_t *hashes = cbx_xcalloc(all + 1, sizeof(*hashes));
	struct cbx_engine_listener *l, *next;
	const cJSON *f;

	cJSON_ArrayForEach(f, files) {
		const char *uri = cbx_json_text(f, "uri"), *path = cbx_json_text(f, "path");
		_cleanup_buf_ struct cbx_buf made = { 0 };

		if (!uri && path)
			cbx_file_uri(&made, s->spec.id, path);
		hashes[n++] = cbx_hash(uri ? uri : cbx_buf_str(&made));
	}
	TAILQ_FOREACH_SAFE(l, &s->engine->registry.listeners, entry, next)
	{
		if (n && l->on_files && hears(l, s))
			l->on_files(l->arg, s->spec.id, s->spec.one_shot, hashes, n);
	}
}

void cbx_engine_files_changed(struct cbx_caller *caller, const char *session_id, const cJSON *files)
{
	struct cbx_session *s = cbx_engine_by_id(caller->engine, caller->principal->tenant, session_id);

	if (s)
		cbx_engine_files_news(s, files);
}

void cbx_engine_session_news(struct cbx_session *s, bool gone)
{
	struct cbx_engine_listener *l, *next;

	TAILQ_FOREACH_SAFE(l, &s->engine->registry.listeners, entry, next)
	{
		if (l->on_session && hears(l, s))
			l->on_session(l->arg, s->spec.id, s->spec.one_shot, gone);
	}
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

static void log_add(struct cbx_session *s, const struct cbx_happened *h)
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

void cbx_session_happened(struct cbx_session *s, struct cbx_happened *h)
{
	const struct cbx_observer *o = s->engine->config.observer;

	if (s->shape)
		return;
	log_add(s, h);
	if (!o)
		return;
	h->tenant = s->tenant;
	h->session_id = s->spec.id;
	o->happened(o->arg, h);
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
		[CBX_HAPPENED_INTERRUPTED] = "interrupted", [CBX_HAPPENED_RESTARTED] = "restarted",
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
