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
#include "session/databases.h"
#include "session/jobs.h"
#include "session/pool.h"
#include "session/zygotes.h"

static const struct cbx_jobs_program packages_program = { "codebox-packages", "installs packages", "no_packages" };
static const struct cbx_jobs_program sql_program = { "codebox-sql", "asks databases", "no_sql" };

static void init_boxes(struct cbx_engine *e)
{
	struct cbx_boxes_config config = {
		.images_dir = e->config.images_dir,
		.libexec_dir = e->config.libexec_dir,
		.runtimes_dir = e->config.runtimes_dir,
		.syscalls_dir = e->config.syscalls_dir,
		.service_uid = e->config.service_uid,
		.service_gid = e->config.service_gid,
		.packages_dir = e->config.packages_sessions,
		.mountable = e->mountable,
		.freeze_idle_s = e->config.freeze_idle_s,
		.cgroup = e->config.cgroup,
	};

	cbx_boxes_init(&e->boxes, e->base, &config, &cbx_session_box_events, e);
}

int cbx_engine_new(struct event_base *base, const struct cbx_engine_config *config, struct cbx_engine **ret,
		   struct cbx_err *err)
{
	struct cbx_engine *e = cbx_xcalloc(1, sizeof(*e));
	int r;

	e->base = base;
	e->config = *config;
	e->config.node = config->node ? config->node : "";
	e->config.images_dir = cbx_xstrdup(config->images_dir);
	e->config.libexec_dir = cbx_xstrdup(config->libexec_dir);
	e->config.runtimes_dir = cbx_xstrdup(config->runtimes_dir);
	e->config.syscalls_dir = cbx_xstrdup(config->syscalls_dir);
	e->config.share_dir = cbx_xstrdup(config->share_dir ? config->share_dir : "");
	e->config.shipped_dir = cbx_xstrdup(config->shipped_dir ? config->shipped_dir : "");
	e->config.runtime_dir = cbx_xstrdup(config->runtime_dir ? config->runtime_dir : "");
	e->config.state_dir = cbx_xstrdup(config->state_dir ? config->state_dir : "");
	e->config.config_dir = cbx_xstrdup(config->config_dir ? config->config_dir : "");
	e->config.packages_sessions = config->packages_sessions ? cbx_xstrdup(config->packages_sessions) : NULL;
	e->config.granted = config->granted ? cbx_xstrdup(config->granted) : NULL;
	e->policy = config->policy ? cbx_policy_ref(config->policy) : cbx_policy_new("built-in");
	e->mounts = cbx_mounts_names_new(e->policy, NULL, NULL);
	e->mountable = e->policy->nmounts || e->config.granted;
	e->trouble = cbx_xcalloc(1, sizeof(*e->trouble));
	e->diagnosed = cbx_xcalloc(1, sizeof(*e->diagnosed));
	if (config->refusal && config->refusal->code) {
		*e->trouble = *config->refusal;
		*e->diagnosed = true;
	}
	cbx_session_registry_init(&e->registry);
	TAILQ_INIT(&e->installs);
	TAILQ_INIT(&e->queries);
	e->packages_events = &cbx_packages_events;
	LIST_INIT(&e->keeping.tenants);
	init_boxes(e);
	r = cbx_runtimes_load(e->config.runtimes_dir, &e->runtimes, err);
	if (r >= 0)
		r = cbx_pool_new(e, err);
	if (r >= 0)
		r = cbx_zygotes_new(e, err);
	if (r >= 0 && config->packages_sessions)
		r = cbx_jobs_new(base, &packages_program, config->libexec_dir, config->packages_dir,
				 config->packages_own, &e->jobs, err);
	if (r >= 0 && (e->policy->sql.n || e->policy->sql.servers.n))
		r = cbx_jobs_new(base, &sql_program, config->libexec_dir, NULL, NULL, &e->sql_jobs, err);
	if (r >= 0)
		r = cbx_artifacts_new(e, err);
	if (r >= 0)
		r = cbx_link_start(&e->boxes, err);
	if (r >= 0)
		cbx_egress_start(&e->boxes);
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
	cbx_packages_end(e);
	cbx_engine_end_queries(e);
	cbx_pool_free(e);
	cbx_zygotes_free(e);
	TAILQ_FOREACH_SAFE(s, &e->registry.sessions, entry, next)
	{
		cbx_session_close(NULL, s, "the daemon ended");
		s->box.gone = true;
		cbx_session_run_work(s);
	}
	cbx_artifacts_free(e);
	cbx_jobs_free(e->jobs);
	e->jobs = NULL;
	cbx_jobs_free(e->sql_jobs);
	e->sql_jobs = NULL;
	cbx_boxes_end(&e->boxes);
	cbx_session_registry_release(&e->registry);
	free((char *)e->config.images_dir);
	free((char *)e->config.libexec_dir);
	free((char *)e->config.runtimes_dir);
	free((char *)e->config.syscalls_dir);
	free((char *)e->config.share_dir);
	free((char *)e->config.shipped_dir);
	free((char *)e->config.runtime_dir);
	free((char *)e->config.state_dir);
	free((char *)e->config.config_dir);
	free((char *)e->config.granted);
	free((char *)e->config.packages_sessions);
	cbx_image_release(&e->image);
	cJSON_Delete(e->stored);
	cbx_runtimes_release(&e->runtimes);
	cbx_mounts_free_names(&e->mounts);
	cbx_policy_free(e->policy);
	free(e->trouble);
	free(e->diagnosed);
	free(e);
}

bool cbx_engine_set_policy(struct cbx_engine *e, struct cbx_policy *policy, const char *granted)
{
	char **names = cbx_mounts_names_new(policy, cbx_engine_writer(e) ? e->policy : NULL, e->mounts);

	cbx_mounts_free_names(&e->mounts);
	e->mounts = names;
	cbx_policy_free(e->policy);
	e->policy = cbx_policy_ref(policy);
	free((char *)e->config.granted);
	e->config.granted = granted && e->mountable ? cbx_xstrdup(granted) : NULL;
	if (strcmp(e->trouble->kind, "invalid_policy") == 0) {
		memset(e->trouble, 0, sizeof(*e->trouble));
		*e->diagnosed = false;
	}
	cbx_pool_renew(e, "the policy has changed");
	return policy->nmounts && !e->mountable;
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
	cbx_json_set_u64(o, "sessions", e->registry.live);
	cbx_json_set(o, "pool", cbx_pool_to_json(e));
	cbx_json_set(o, "zygotes", cbx_zygotes_to_json(e));
	cbx_json_set_str(o, "supervisor", states[e->boxes.link.state]);
	cbx_json_set_u64(f, "ids", e->boxes.link.facts.ids);
	cbx_json_set_bool(f, "overlay", e->boxes.link.facts.overlay);
	cbx_json_set_u64(f, "landlock_abi", e->boxes.link.facts.landlock_abi);
	cbx_json_set_bool(f, "cgroup", strcmp(cbx_group_backend(&e->boxes), "none") != 0);
	cbx_json_set_u64(f, "seccomp_rules", e->boxes.link.facts.seccomp_rules[CBX_PROFILE_DEFAULT]);
	cbx_json_set(o, "facts", f);
	f = cbx_json_new_obj();
	cbx_json_set_str(f, "backend", cbx_group_backend(&e->boxes));
	cbx_json_set_str(f, "reason", cbx_group_reason(&e->boxes));
	cbx_json_set_bool(f, "cpus", cbx_group_limits_cpus(&e->boxes));
	cbx_json_set_bool(f, "io", cbx_group_limits_io(&e->boxes));
	cbx_json_set(o, "cgroup", f);
	if (trouble)
		cbx_json_set_str(o, "trouble", trouble->msg);
	else
		cbx_json_set_null(o, "trouble");
	return o;
}
