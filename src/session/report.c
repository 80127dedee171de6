/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the protocols show of sessions and executions is made here, once, so that all of them say
 * the same. Texts come from a sandbox; every string passes cbx_json_set_str(), which makes it valid UTF-8.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/op.h"
#include "session/install.h"
#include "session/asked.h"

static cJSON *limits(const struct cbx_session *s)
{
	_cleanup_json_ cJSON *not = cbx_json_new_arr();
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_u64(o, "memory_bytes", s->spec.memory_bytes);
	cbx_json_set_u64(o, "disk_bytes", s->spec.disk_bytes);
	cbx_json_set_u64(o, "processes", s->spec.processes);
	cbx_json_set_double(o, "timeout_s", (double)s->spec.timeout_ms / 1000);
	cbx_json_set_u64(o, "ttl_s", s->spec.ttl_s);
	cbx_json_set_u64(o, "idle_timeout_s", s->spec.idle_s);
	if (s->spec.cpus_milli)
		cbx_json_set_double(o, "cpus", (double)s->spec.cpus_milli / 1000);
	else
		cbx_json_set_null(o, "cpus");
	cbx_json_set_u64(o, "cpu_weight", s->spec.cpu_weight);
	if (s->spec.io_bytes)
		cbx_json_set_u64(o, "io", s->spec.io_bytes);
	if (s->spec.io_operations)
		cbx_json_set_u64(o, "io_operations", s->spec.io_operations);
	cbx_json_set_str(o, "enforced_by", cbx_group_on(&s->box) ? "cgroup" : "rlimits and a watcher");
	cbx_json_set_str(o, "backend", cbx_group_backend(&s->engine->boxes));
	cbx_json_set_str(o, "reason", cbx_group_reason(&s->engine->boxes));
	if (s->spec.cpus_milli && !cbx_group_limits_cpus(&s->engine->boxes))
		cbx_json_push_str(not, "cpus");
	if (s->spec.cpu_weight != CBX_CPU_WEIGHT_DEFAULT && !cbx_group_limits_cpus(&s->engine->boxes))
		cbx_json_push_str(not, "cpu_weight");
	if (s->spec.io_bytes && s->box.io_loose)
		cbx_json_push_str(not, "io");
	if (s->spec.io_operations && s->box.io_loose)
		cbx_json_push_str(not, "io_operations");
	if (not->child)
		cbx_json_set(o, "not_enforced", take_ptr(&not));
	return o;
}

static cJSON *protections(const struct cbx_session *s)
{
	const struct cbx_facts *f = &s->engine->boxes.link.facts;
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "namespaces", "user, pid, mount, network, ipc, uts, cgroup");
	cbx_json_set_str(o, "network", cbx_session_goes_out(s) ? "proxy" : cbx_session_is_open(s) ? "open" : "none");
	cbx_json_set_str(o, "profile", cbx_profile_name(s->spec.profile));
	cbx_json_set_u64(o, "seccomp_rules", f->seccomp_rules[s->spec.profile]);
	/* 0: not in force, for want of it or because it was switched off */
	cbx_json_set_u64(o, "landlock_abi", s->spec.landlock == CBX_LANDLOCK_OFF ? 0 : f->landlock_abi);
	cbx_json_set_str(o, "root", f->overlay ? "read-only overlay with inodes of its own" : "read-only");
	cbx_json_set_str(o, "ids", f->ids > 1 ? "a range of its own" : "the user's");
	cbx_json_set_bool(o, "cgroup", cbx_group_on(&s->box));
	return o;
}

/* The rules in force, and what its proxy made of them. */
static cJSON *network(const struct cbx_session *s)
{
	cJSON *o, *rules;

	if (cbx_session_is_open(s)) {
		o = cbx_json_new_obj();
		cbx_json_set_str(o, "mode", "open");
		cbx_json_set_str(o, "state", s->box.cut ? "failed" : s->box.init.ready ? "up" : "starting");
		if (s->box.cut)
			cbx_json_set_str(o, "why", CBX_EGRESS_CUT);
		return o;
	}
	if (!cbx_session_goes_out(s)) {
		o = cbx_json_new_obj();
		cbx_json_set_str(o, "mode", "none");
		if (s->policy->network.allow || s->policy->network.open)
			cbx_json_set_str(o, "why", "the profile strict has no sockets");
		return o;
	}
	o = cbx_egress_to_json(&s->box);
	rules = cbx_network_to_json(&s->policy->network);
	cbx_json_set_str(o, "mode", "allow");
	cbx_json_set_str(o, "proxy", CBX_INSIDE_PROXY);
	cbx_json_set(o, "rules", rules);
	return o;
}

static bool has_packages(const struct cbx_packages *p)
{
	for (size_t i = 0; p && i < ARRAY_SIZE(p->had); i++)
		if (p->had[i].wheels)
			return true;
	return false;
}

/* Those that it has installed. */
static cJSON *packages(const struct cbx_packages *p)
{
	cJSON *list = cbx_json_new_arr();
	const cJSON *v;

	for (size_t i = 0; i < ARRAY_SIZE(p->had); i++)
		cJSON_ArrayForEach(v, p->had[i].wheels) {
			cJSON *o = cbx_json_new_obj();

			cbx_json_set_str(o, "name", cbx_json_text(v, "name"));
			cbx_json_set_str(o, "version", cbx_json_text(v, "version"));
			cbx_json_push(list, o);
		}
	return list;
}

/* As its control group was seen, and the proportional set size was measured, the last time, if ever. */
static void set_use(cJSON *o, const struct cbx_session *s)
{
	const struct cbx_cgroup_usage *use = &s->box.use;
	cJSON *u;

	if (cbx_group_on(&s->box) ? !s->box.use_ms : !s->box.measured)
		return;
	u = cbx_json_new_obj();
	cbx_json_set(o, "usage", u);
	cbx_json_set_str(u, "source", cbx_group_on(&s->box) ? "cgroup" : "pss");
	if (s->live.known)
		cbx_json_set_thousandths(u, "cpus", s->live.cpus_milli);
	if (!cbx_group_on(&s->box)) {
		cbx_json_set_u64(u, "age_s", (cbx_now_ms() - s->box.measured_ms) / 1000);
		cbx_json_set_u64(u, "memory_bytes", s->box.pss);
		cbx_json_set_thousandths(u, "cpu_s", cbx_session_cpu_us(s) / 1000);
		return;
	}
	cbx_json_set_u64(u, "age_s", (cbx_now_ms() - s->box.use_ms) / 1000);
	cbx_json_set_u64(u, "memory_bytes", use->memory);
	if (s->box.measured)
		cbx_json_set_u64(u, "pss_bytes", s->box.pss);
	cbx_json_set_u64(u, "files_bytes", s->box.files_bytes);
	cbx_json_set_thousandths(u, "cpu_s", use->cpu_us / 1000);
	cbx_json_set_bool(u, "frozen", s->box.frozen);
	if (s->box.frozen)
		cbx_json_set_u64(u, "reclaimed_bytes", s->box.reclaimed);
}

/* What its cells can be written in: its own language first. */
static cJSON *languages(const struct cbx_session *s)
{
	const struct cbx_runtimes *all = &s->engine->runtimes;
	cJSON *list = cbx_json_new_arr();
	const cJSON *d;

	for (size_t i = 0; i < all->n; i++) {
		if (!cbx_json_member(s->interpreters, all->all[i].language))
			continue;
		cbx_json_push_str(list, all->all[i].language);
		cJSON_ArrayForEach(d, all->all[i].dialects)
			cbx_json_push_str(list, d->string);
	}
	return list;
}

cJSON *cbx_session_list_entry(const struct cbx_session *s)
{
	uint64_t now = cbx_now_ms(), age = (now - s->created_ms) / 1000, idle = (now - s->used_ms) / 1000;
	const struct cbx_interp *in = &s->cells.first.interp;
	bool busy = s->cells.running || s->cells.nqueued;
	cJSON *o = cbx_json_new_obj(), *results, *most;
	uint64_t left = age < s->spec.ttl_s ? s->spec.ttl_s - age : 0;
	char when[32];

	if (busy)
		idle = 0;
	else if (idle < s->spec.idle_s && s->spec.idle_s - idle < left)
		left = s->spec.idle_s - idle;
	cbx_format_time(s->created.tv_sec, when);
	cbx_json_set_str(o, "session_id", s->spec.id);
	cbx_json_set_str(o, "image", s->spec.image);
	cbx_json_set_str(o, "state",
			 s->state == CBX_STARTING || s->outfitting ? "starting"
			 : s->state == CBX_CLOSING ? "closed"
			 : busy			   ? "busy"
						   : "idle");
	cbx_json_set_str(o, "created", when);
	cbx_json_set_u64(o, "age_s", age);
	cbx_json_set_u64(o, "idle_s", idle);
	cbx_json_set_u64(o, "expires_in_s", left);
	cbx_json_set_bool(o, "one_shot", s->spec.one_shot);
	cbx_json_set_u64(o, "executions", s->cells.next_id - 1);
	cbx_json_set_u64(o, "queue_length", s->cells.nqueued);
	if (s->cells.running)
		cbx_json_set_u64(o, "running", cbx_execution_id(s->cells.running));
	if (in->language[0]) {
		cJSON *i = cbx_json_new_obj();

		cbx_json_set_str(i, "language", in->language);
		cbx_json_set_str(i, "version", in->version);
		cbx_json_set_str(i, "kind", in->kind);
		cbx_json_set_str(i, "started_by", s->warm ? "zygote" : "exec");
		cbx_json_set(o, "interpreter", i);
	}
	cbx_json_set(o, "languages", languages(s));
	cbx_json_set_str(o, "workspace", CBX_INSIDE_WORKSPACE);
	set_use(o, s);
	cbx_json_set(o, "results", results = cbx_json_new_obj());
	cbx_json_set(o, "limits", most = limits(s));
	cbx_cells_results(&s->cells, most, results);
	cbx_json_set(o, "policy", cbx_session_terms_json(s));
	if (s->mounts.n)
		cbx_json_set(o, "mounts", cbx_mounts_json(&s->mounts));
	if (has_packages(s->packages))
		cbx_json_set(o, "packages", packages(s->packages));
	cbx_json_set(o, "network", network(s));
	cbx_json_set(o, "protections", protections(s));
	return o;
}

cJSON *cbx_session_to_json(struct cbx_session *s)
{
	cbx_group_look(&s->box);
	return cbx_session_list_entry(s);
}

cJSON *cbx_session_list(const struct cbx_caller *caller)
{
	cJSON *list = cbx_json_new_arr();
	struct cbx_session *s;

	TAILQ_FOREACH (s, &caller->engine->registry.sessions, entry)
		if (cbx_session_is_of(s, caller->principal))
			cbx_json_push(list, cbx_session_list_entry(s));
	return list;
}

cJSON *cbx_session_names(const struct cbx_caller *caller)
{
	cJSON *list = cbx_json_new_arr(), *o;
	const struct cbx_session *s;

	TAILQ_FOREACH (s, &caller->engine->registry.sessions, entry) {
		if (!cbx_session_is_of(s, caller->principal))
			continue;
		o = cbx_json_new_obj();
		cbx_json_set_str(o, "session_id", s->spec.id);
		cbx_json_set_bool(o, "one_shot", s->spec.one_shot);
		cbx_json_push(list, o);
	}
	return list;
}

/* ---- who waits for it to be measured ---- */

bool cbx_session_describe(struct cbx_session *s, struct cbx_answer_op *op)
{
	bool first = TAILQ_EMPTY(&s->askers);
	struct cbx_asker *a;

	if (s->state != CBX_LIVE)
		return false;
	a = cbx_xcalloc(1, sizeof(*a));
	cbx_op_begin(&op->op, &a->op);
	TAILQ_INSERT_TAIL(&s->askers, a, entry);
	if (first)
		cbx_link_measure(&s->box);
	return true;
}

void cbx_session_tell_askers(struct cbx_session *s, const struct cbx_err *err)
{
	_cleanup_json_ cJSON *info = err || TAILQ_EMPTY(&s->askers) ? NULL : cbx_session_to_json(s);
	struct cbx_asker *a;

	while ((a = TAILQ_FIRST(&s->askers))) {
		struct cbx_answer_op *op = cbx_op_take(&a->op);

		TAILQ_REMOVE(&s->askers, a, entry);
		free(a);
		if (op)
			op->done(op, info, err);
	}
}
