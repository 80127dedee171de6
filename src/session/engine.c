/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the engine holds all sessions, the socket to the supervisor, and the memory of sessions that are
 * gone. A machine that cannot make sandboxes has an engine too: it refuses every session with the reason.
 *
 * A session counts against two ceilings: CBX_SESSIONS_MAX while it can be used, and twice that together with those
 * whose sandbox is still being taken down, so a client that makes and closes sessions in a loop cannot outrun the
 * supervisor.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/internal.h"

void cbx_timer_set(struct event *ev, uint64_t ms)
{
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000 };

	event_add(ev, &tv);
}

/* Children are the supervisor's stage and the supervisor itself. Their ends are seen on the socket; this only reaps. */
static void child_event(evutil_socket_t fd, short what, void *arg)
{
	cbx_engine_child_ended(arg);
}

void cbx_engine_child_ended(struct cbx_engine *engine)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == engine->link.stage)
			engine->link.stage_status = status;
}

int cbx_engine_new(struct event_base *base, const struct cbx_engine_config *config, struct cbx_engine **ret,
		   struct cbx_err *err)
{
	struct cbx_engine *e = cbx_xcalloc(1, sizeof(*e));
	int r;

	e->base = base;
	e->config = *config;
	e->config.images_dir = cbx_xstrdup(config->images_dir);
	e->config.libexec_dir = cbx_xstrdup(config->libexec_dir);
	e->config.runtimes_dir = cbx_xstrdup(config->runtimes_dir);
	e->config.syscalls_dir = cbx_xstrdup(config->syscalls_dir);
	e->config.share_dir = cbx_xstrdup(config->share_dir ? config->share_dir : "");
	e->config.runtime_dir = cbx_xstrdup(config->runtime_dir ? config->runtime_dir : "");
	e->config.state_dir = cbx_xstrdup(config->state_dir ? config->state_dir : "");
	e->config.config_dir = cbx_xstrdup(config->config_dir ? config->config_dir : "");
	e->builtin = config->policy ? NULL : cbx_policy_new("built-in");
	e->policy = config->policy ? config->policy : e->builtin;
	e->mounts = cbx_mounts_real_names(e->policy);
	e->trouble = cbx_xcalloc(1, sizeof(*e->trouble));
	e->diagnosed = cbx_xcalloc(1, sizeof(*e->diagnosed));
	if (config->refusal && config->refusal->code) {
		*e->trouble = *config->refusal;
		*e->diagnosed = true;
	}
	e->next_sandbox = 1;
	TAILQ_INIT(&e->sessions);
	TAILQ_INIT(&e->listeners);
	TAILQ_INIT(&e->link.queue);
	e->link.sock = -1;
	e->child = evsignal_new(base, SIGCHLD, child_event, e);
	if (!e->child || event_add(e->child, NULL) < 0) {
		r = cbx_fail(err, ENOMEM, "watch for ended children");
		cbx_engine_free(e);
		return r;
	}
	r = cbx_pool_new(e, err);
	if (r >= 0)
		r = cbx_zygotes_new(e, err);
	if (r >= 0)
		r = cbx_link_start(e, err);
	if (r < 0) {
		cbx_engine_free(e);
		return r;
	}
	*ret = e;
	return 0;
}

void cbx_engine_free(struct cbx_engine *e)
{
	struct cbx_session *s, *next;

	if (!e)
		return;
	e->freeing = true;
	cbx_pool_free(e);
	cbx_zygotes_free(e);
	TAILQ_FOREACH_SAFE(s, &e->sessions, entry, next)
	{
		cbx_session_close(s, "the daemon ended");
		s->gone = true;
		cbx_session_run_work(s);
	}
	cbx_link_stop(e);
	cbx_group_finish(e);
	if (e->child)
		event_free(e->child);
	for (size_t i = 0; i < e->ntombstones; i++)
		free(e->tombstones[i].why);
	free(e->tombstones);
	free((char *)e->config.images_dir);
	free((char *)e->config.libexec_dir);
	free((char *)e->config.runtimes_dir);
	free((char *)e->config.syscalls_dir);
	free((char *)e->config.share_dir);
	free((char *)e->config.runtime_dir);
	free((char *)e->config.state_dir);
	free((char *)e->config.config_dir);
	cbx_image_release(&e->image);
	cbx_mounts_free_names(&e->mounts);
	cbx_policy_free(e->builtin);
	free(e->trouble);
	free(e->diagnosed);
	free(e);
}

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

/* The link has ended. Sessions end with it: their sandboxes are gone already, by the kernel's hand. */
void cbx_engine_supervisor_down(struct cbx_engine *e, bool had_been_up)
{
	struct cbx_err why = e->link.why;
	struct cbx_session *s, *next;

	if (had_been_up)
		cbx_refuse(e->trouble, "no_sandbox", why.code, "the supervisor of the sandboxes has ended: %.500s",
			   why.msg);
	else
		cbx_refuse(e->trouble, "no_sandbox", why.code, "no sandbox can be made: %.500s", why.msg);
	if (had_been_up)
		*e->diagnosed = true;
	cbx_pool_close_all(e, e->trouble->msg);
	TAILQ_FOREACH_SAFE(s, &e->sessions, entry, next)
	{
		s->gone = true;
		if (s->state != CBX_CLOSING)
			cbx_session_fail(s, cbx_engine_trouble(e));
		cbx_session_work(s);
	}
	if (had_been_up && !e->freeing && e->config.on_down)
		e->config.on_down(e->config.arg, e->trouble);
}

static unsigned bucket(const char *id)
{
	unsigned h = 2166136261u; /* FNV-1a */

	while (*id)
		h = (h ^ (unsigned char)*id++) * 16777619u;
	return (h ^ h >> 16) % CBX_TABLE_SIZE;
}

struct cbx_session *cbx_engine_by_sandbox(struct cbx_engine *e, uint64_t sandbox)
{
	struct cbx_session *s;

	LIST_FOREACH(s, &e->by_sandbox[sandbox % CBX_TABLE_SIZE], by_sandbox)
	if (s->sandbox == sandbox)
		return s;
	return NULL;
}

struct cbx_session *cbx_engine_by_id(struct cbx_engine *e, const char *id)
{
	struct cbx_session *s;

	LIST_FOREACH(s, &e->by_id[bucket(id)], by_id)
	if (strcmp(s->spec.id, id) == 0)
		return s;
	return NULL;
}

void cbx_engine_add(struct cbx_session *s)
{
	LIST_INSERT_HEAD(&s->engine->by_sandbox[s->sandbox % CBX_TABLE_SIZE], s, by_sandbox);
	s->in_tables = true;
}

void cbx_engine_name(struct cbx_session *s)
{
	LIST_INSERT_HEAD(&s->engine->by_id[bucket(s->spec.id)], s, by_id);
	s->named = true;
}

void cbx_engine_unname(struct cbx_session *s)
{
	if (s->named)
		LIST_REMOVE(s, by_id);
	s->named = false;
}

void cbx_engine_drop(struct cbx_session *s)
{
	cbx_engine_unname(s);
	if (s->in_tables)
		LIST_REMOVE(s, by_sandbox);
	s->in_tables = false;
}

void cbx_engine_bury(struct cbx_engine *e, const char *id, const char *why)
{
	struct cbx_tombstone *t;

	if (!e->tombstones)
		e->tombstones = cbx_xcalloc(CBX_TOMBSTONES_MAX, sizeof(*e->tombstones));
	t = &e->tombstones[e->next_tombstone];
	e->next_tombstone = (e->next_tombstone + 1) % CBX_TOMBSTONES_MAX;
	if (e->ntombstones < CBX_TOMBSTONES_MAX)
		e->ntombstones++;
	free(t->why);
	snprintf(t->id, sizeof(t->id), "%s", id);
	t->why = cbx_xasprintf("%.300s", why);
}

void cbx_engine_forget(struct cbx_session *s)
{
	struct cbx_engine *e = s->engine;

	TAILQ_REMOVE(&e->sessions, s, entry);
	e->closing -= !s->nobodys;
	if (!s->nobodys && !e->live && !e->closing && !e->freeing && e->config.on_idle)
		e->config.on_idle(e->config.arg);
}

int cbx_session_find(struct cbx_engine *e, const char *id, struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_session *s = cbx_engine_by_id(e, id);

	if (s) {
		*ret = s;
		return 0;
	}
	/* The newest one first: an id may have been used more than once. */
	for (size_t i = 0; i < e->ntombstones; i++) {
		const struct cbx_tombstone *t =
			&e->tombstones[(e->next_tombstone + 2 * CBX_TOMBSTONES_MAX - 1 - i) % CBX_TOMBSTONES_MAX];

		if (strcmp(t->id, id) == 0)
			return cbx_refuse(
				err, "session_expired", ENOENT,
				"expired: session %s was closed (%s); its variables and files are gone",
				id, t->why);
	}
	return cbx_refuse(err, "session_not_found", ENOENT,
			  "there is no session \"%.80s\"", id);
}

bool cbx_engine_settled(const struct cbx_engine *e)
{
	return e->link.state != CBX_LINK_STARTING;
}

bool cbx_engine_takes_roots(const struct cbx_engine *e)
{
	return e->policy->values[CBX_KEY_ROOTS].standard && e->policy->nmounts;
}

size_t cbx_engine_sessions(const struct cbx_engine *e)
{
	return e->live;
}

cJSON *cbx_session_list(const struct cbx_engine *e)
{
	cJSON *list = cbx_json_new_arr();
	struct cbx_session *s;

	TAILQ_FOREACH(s, &e->sessions, entry)
	if (s->state != CBX_CLOSING)
		cbx_json_push(list, cbx_session_to_json(s));
	return list;
}

/* Open descriptors of this process: it is not dumpable, so nobody else could count them. */
static uint64_t descriptors(void)
{
	_cleanup_closedir_ DIR *d = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (d && readdir(d))
		n++;
	return n > 3 ? n - 3 : 0; /* ".", ".." and the directory itself */
}

cJSON *cbx_engine_to_json(const struct cbx_engine *e)
{
	static const char *const states[] = { "starting", "up", "down" };
	const struct cbx_err *trouble = cbx_engine_trouble(e);
	cJSON *o = cbx_json_new_obj(), *f = cbx_json_new_obj();

	cbx_json_set_str(o, "version", PACKAGE_VERSION);
	cbx_json_set_u64(o, "pid", (uint64_t)getpid());
	cbx_json_set_u64(o, "descriptors", descriptors());
	cbx_json_set_u64(o, "sessions", e->live);
	cbx_json_set(o, "pool", cbx_pool_to_json(e));
	cbx_json_set(o, "zygotes", cbx_zygotes_to_json(e));
	cbx_json_set_str(o, "supervisor", states[e->link.state]);
	cbx_json_set_u64(f, "ids", e->link.facts.ids);
	cbx_json_set_bool(f, "overlay", e->link.facts.overlay);
	cbx_json_set_u64(f, "landlock_abi", e->link.facts.landlock_abi);
	cbx_json_set_bool(f, "cgroup", strcmp(cbx_group_backend(e), "none") != 0);
	cbx_json_set_u64(f, "seccomp_rules", e->link.facts.seccomp_rules[CBX_PROFILE_DEFAULT]);
	cbx_json_set(o, "facts", f);
	f = cbx_json_new_obj();
	cbx_json_set_str(f, "backend", cbx_group_backend(e));
	cbx_json_set_str(f, "reason", cbx_group_reason(e));
	cbx_json_set_bool(f, "cpus", cbx_group_limits_cpus(e));
	cbx_json_set_bool(f, "io", cbx_group_limits_io(e));
	cbx_json_set(o, "cgroup", f);
	if (trouble)
		cbx_json_set_str(o, "trouble", trouble->msg);
	else
		cbx_json_set_null(o, "trouble");
	return o;
}
