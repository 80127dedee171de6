/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a session gets is settled once, before anything is made: the lower of what was asked for
 * and what the policy allows, the policy's own value where nothing was asked for. The spec then holds what is in force,
 * and the list of what was lowered is part of the session's description. The ceiling of who asks narrows the server's
 * policy, and so does a shipped policy that a request may name; neither widens it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/asked.h"

static void narrow_by(struct cbx_session *s, const struct cbx_policy *other)
{
	struct cbx_policy *wide = s->policy;

	s->policy = cbx_policy_narrow(wide, other);
	s->narrowed = true;
	cbx_policy_free(wide);
}

static int narrow(struct cbx_session *s, const struct cbx_policy *ceiling, struct cbx_err *err)
{
	struct cbx_policy *named = NULL;
	int r;

	s->policy = cbx_policy_ref(s->engine->policy);
	if (ceiling)
		narrow_by(s, ceiling);
	if (!s->spec.policy[0])
		return 0;
	r = cbx_policy_load_shipped(s->engine->config.shipped_dir, s->spec.policy, &named, err);
	if (r < 0)
		return r;
	narrow_by(s, named);
	cbx_policy_free(named);
	return 0;
}

static void settle_environment(struct cbx_session *s)
{
	const struct cbx_environment *of_policy = &s->policy->environment;
	const cJSON *v;

	for (size_t i = 0; i < of_policy->n; i++)
		cbx_environment_set(&s->environment, of_policy->all[i].name, of_policy->all[i].value);
	cJSON_ArrayForEach (v, s->spec.environment) {
		const char *fixed = cbx_environment_get(of_policy, v->string);
		_cleanup_free_ char *name = NULL;

		if (!fixed) {
			cbx_environment_set(&s->environment, v->string, v->valuestring);
		} else if (strcmp(fixed, v->valuestring) != 0) {
			name = cbx_xasprintf("environment.%s", v->string);
			cbx_json_push_str(s->lowered, name);
		}
	}
}

static struct cbx_mount_rules mount_rules(const struct cbx_session *s)
{
	const struct cbx_engine *e = s->engine;

	return (struct cbx_mount_rules){ .naming = s->naming,
					 .policy = e->policy,
					 .names = e->mounts,
					 .writer = cbx_engine_writer(e),
					 .narrowed = s->narrowed ? s->policy : NULL,
					 .granted = e->config.granted,
					 .own = { e->config.images_dir, e->config.libexec_dir, e->config.runtimes_dir,
						  e->config.share_dir, e->config.runtime_dir, e->config.state_dir,
						  e->config.config_dir } };
}

int cbx_session_settle_mounts(struct cbx_session *s, const cJSON *list, struct cbx_err *err)
{
	struct cbx_mount_rules rules = mount_rules(s);
	int r = cbx_mounts_settle(&rules, list, s->spec.roots, &s->mounts, err);

	if (cbx_naming_more(s->naming))
		return 1;
	for (uint32_t i = 0; i < s->mounts.n; i++) {
		const char *target = s->mounts.all[i].target;
		_cleanup_free_ char *name = NULL;

		if (!s->mounts.lowered[i])
			continue;
		name = cbx_xasprintf("mounts.%s", target);
		cbx_json_push_str(s->lowered, name);
		cbx_buf_addf(&s->cells.lost, "The mount at %s is read-only: that is all that the policy allows. ", target);
	}
	return r;
}

/* What they are really called is found while the session starts, unless there is nothing to find. */
static int ask_mounts(struct cbx_session *s, struct cbx_err *err)
{
	const struct cbx_engine *e = s->engine;
	struct cbx_mount_rules rules = mount_rules(s);

	if (!s->spec.mounts || !s->spec.mounts->child)
		return 0;
	if (s->policy->nmounts && !e->mountable && !s->spec.roots)
		return cbx_refuse(
			err, "mount_refused", EPERM,
			"mounts: codeboxd was started with a policy that allows none; restart it (codebox stop)");
	s->naming = cbx_naming_new();
	if (cbx_mounts_ask(&rules, s->spec.mounts, s->naming)) {
		s->wanted = cJSON_Duplicate(s->spec.mounts, 1);
		return 0;
	}
	return cbx_session_settle_mounts(s, s->spec.mounts, err);
}

/* What all sessions of its owner may have together, one has at most: one without a limit could use all. */
static void settle_cpus(struct cbx_session_spec *spec, uint64_t most, cJSON *lowered)
{
	if (!most || (spec->cpus_milli && spec->cpus_milli <= most))
		return;
	if (spec->given & 1ull << CBX_KEY_CPUS)
		cbx_json_push_str(lowered, "cpus");
	spec->cpus_milli = (uint32_t)most;
}

int cbx_session_settle(struct cbx_session *s, const struct cbx_principal *owner, struct cbx_err *err)
{
	int r;

	s->lowered = cbx_json_new_arr();
	s->cpus_max = owner ? owner->cpus_max : 0;
	r = narrow(s, owner ? owner->ceiling : NULL, err);
	if (r < 0)
		return r;
	if (!s->spec.settled)
		cbx_session_spec_settle(&s->spec, s->policy, s->lowered);
	settle_cpus(&s->spec, s->cpus_max, s->lowered);
	s->spec.settled = true;
	r = cbx_session_settle_image(s, owner, err);
	if (r >= 0)
		settle_environment(s);
	s->asked = cbx_session_spec_asked(&s->spec);
	if (r >= 0)
		r = ask_mounts(s, err);
	s->spec.environment = s->spec.mounts = s->spec.packages = NULL; /* they are the caller's */
	s->spec.language = s->spec.file = NULL;
	return r;
}

void cbx_session_terms_move(struct cbx_session *to, struct cbx_session *from)
{
	cbx_session_terms_release(to);
	to->policy = take_ptr(&from->policy);
	to->narrowed = from->narrowed;
	to->cpus_max = from->cpus_max;
	to->environment = from->environment;
	memset(&from->environment, 0, sizeof(from->environment));
	to->lowered = take_ptr(&from->lowered);
	to->asked = take_ptr(&from->asked);
	to->mounts = from->mounts;
}

void cbx_session_terms_release(struct cbx_session *s)
{
	cbx_environment_release(&s->environment);
	cbx_policy_free(s->policy);
	cJSON_Delete(s->lowered);
	free(s->asked);
	cbx_naming_free(take_ptr(&s->naming));
	cJSON_Delete(take_ptr(&s->wanted));
}

/* An image that is being made is finished by codebox's own cells. */
bool cbx_session_judges(const struct cbx_session *s)
{
	return s->spec.code_rules && !(cbx_session_is_local(s) && cbx_ends_with(s->spec.image, CBX_UNFINISHED));
}

int cbx_session_rate(struct cbx_session *s, struct cbx_err *err)
{
	if (!s->executions || !cbx_rate_take(s->executions, cbx_now_ms()))
		return 0;
	return cbx_refuse(
		err, "too_many_executions", EAGAIN,
		"you have begun %llu executions within a second, cells and commands, and no more are allowed; "
		"wait a second",
		(unsigned long long)s->executions->per_second);
}

cJSON *cbx_session_terms_json(const struct cbx_session *s)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "name", s->policy->name);
	cbx_json_set_str(o, "digest", s->policy->digest);
	cbx_json_set(o, "lowered", cJSON_Duplicate(s->lowered, 1));
	if (cbx_session_judges(s))
		cbx_json_set_bool(o, "code_rules", true);
	return o;
}

int cbx_session_same(const struct cbx_session *s, const struct cbx_session_spec *spec, struct cbx_err *err)
{
	_cleanup_json_ cJSON *ignored = cbx_json_new_arr();
	_cleanup_free_ char *asked = NULL;
	struct cbx_session_spec want = *spec;
	const char *what = NULL;

	want.given &= ~(1ull << CBX_KEY_TIMEOUT); /* the run's own */
	if (!want.given && !want.image[0] && !want.policy[0] && !want.mounts && !want.environment && !want.packages)
		return 0; /* as most runs: there is nothing to compare */
	cbx_session_spec_settle(&want, s->policy, ignored);
	settle_cpus(&want, s->cpus_max, ignored);
	if (want.image[0] && strcmp(want.image, s->spec.image) != 0)
		what = "image";
	else if (want.policy[0] && strcmp(want.policy, s->spec.policy) != 0)
		what = "policy";
	else
		what = cbx_session_spec_differs(&want, &s->spec);
	asked = cbx_session_spec_asked(&want);
	if (!what && asked && (!s->asked || strcmp(asked, s->asked) != 0))
		what = "environment or mounts";
	if (!what && want.packages)
		return cbx_refuse(err, "session_differs", EEXIST,
				  "packages: session %s exists already; install them there (codebox pip install --session %s)",
				  s->spec.id, s->spec.id);
	if (what)
		return cbx_refuse(err, "session_differs", EEXIST,
				  "%s: session %s exists already and has another value; omit this setting, or use "
				  "another session",
				  what, s->spec.id);
	return 0;
}

void cbx_engine_reach(const struct cbx_caller *caller, struct cbx_buf *ret_hosts, bool *ret_packages)
{
	const struct cbx_policy *own = caller->engine->policy, *ceiling = caller->principal->ceiling;
	struct cbx_network both = { 0 };

	cbx_network_narrow(&both, &own->network, ceiling ? &ceiling->network : &own->network);
	cbx_network_print(&both, ret_hosts);
	cbx_network_release(&both);
	*ret_packages = caller->engine->jobs && own->values[CBX_KEY_INSTALL].ceiling &&
			(!ceiling || ceiling->values[CBX_KEY_INSTALL].ceiling);
}
