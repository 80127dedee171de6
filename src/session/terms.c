/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a session gets is settled once, before anything is made: the lower of what was asked for
 * and what the policy allows, the policy's own value where nothing was asked for. The spec then holds what is in force,
 * and the list of what was lowered is part of the session's description. A request may name a shipped policy: that
 * narrows the server's, and never widens it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/internal.h"

static int narrow(struct cbx_session *s, struct cbx_err *err)
{
	struct cbx_policy *named = NULL;
	int r;

	if (!s->spec.policy[0])
		return 0;
	r = cbx_policy_load_shipped(s->engine->config.share_dir, s->spec.policy, &named, err);
	if (r < 0)
		return r;
	s->policy = s->own_policy = cbx_policy_narrow(s->engine->policy, named);
	cbx_policy_free(named);
	return 0;
}

static int settle_image(struct cbx_session *s, struct cbx_err *err)
{
	const struct cbx_policy *p = s->policy;
	_cleanup_buf_ struct cbx_buf names = { 0 };

	if (!s->spec.image[0])
		snprintf(s->spec.image, sizeof(s->spec.image), "%s", p->nimages ? p->images[0] : "python");
	if (cbx_policy_image_allowed(p, s->spec.image))
		return 0;
	for (size_t i = 0; i < p->nimages; i++)
		cbx_buf_addf(&names, "%s%s", i ? ", " : "", p->images[i]);
	return cbx_refuse(err, "image_not_allowed", EPERM,
			  "image: the policy %s does not allow \"%s\"; allowed are: %s", p->name, s->spec.image,
			  names.len ? names.data : "none");
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

int cbx_session_settle(struct cbx_session *s, struct cbx_err *err)
{
	int r;

	s->policy = s->engine->policy;
	s->lowered = cbx_json_new_arr();
	r = narrow(s, err);
	if (r < 0)
		return r;
	if (!s->spec.settled)
		cbx_session_spec_settle(&s->spec, s->policy, s->lowered);
	s->spec.settled = true;
	r = settle_image(s, err);
	if (r >= 0)
		settle_environment(s);
	s->asked = cbx_session_spec_asked(&s->spec);
	if (r >= 0)
		r = cbx_session_mounts_settle(s, err);
	s->spec.environment = s->spec.mounts = NULL; /* they are the caller's */
	return r;
}

void cbx_session_terms_move(struct cbx_session *to, struct cbx_session *from)
{
	cbx_session_terms_release(to);
	to->policy = from->policy;
	to->own_policy = take_ptr(&from->own_policy);
	to->environment = from->environment;
	memset(&from->environment, 0, sizeof(from->environment));
	to->lowered = take_ptr(&from->lowered);
	to->asked = take_ptr(&from->asked);
	memcpy(to->mounts, from->mounts, sizeof(to->mounts));
	to->nmounts = from->nmounts;
}

void cbx_session_terms_release(struct cbx_session *s)
{
	cbx_environment_release(&s->environment);
	cbx_policy_free(s->own_policy);
	cJSON_Delete(s->lowered);
	free(s->asked);
}

cJSON *cbx_session_terms_json(const struct cbx_session *s)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "name", s->policy->name);
	cbx_json_set_str(o, "digest", s->policy->digest);
	cbx_json_set(o, "lowered", cJSON_Duplicate(s->lowered, 1));
	return o;
}

int cbx_session_same(const struct cbx_session *s, const struct cbx_session_spec *spec, struct cbx_err *err)
{
	_cleanup_json_ cJSON *ignored = cbx_json_new_arr();
	_cleanup_free_ char *asked = NULL;
	struct cbx_session_spec want = *spec;
	const char *what = NULL;

	want.given &= ~(1ull << CBX_KEY_TIMEOUT); /* the run's own */
	cbx_session_spec_settle(&want, s->policy, ignored);
	if (want.image[0] && strcmp(want.image, s->spec.image) != 0)
		what = "image";
	else if (want.policy[0] && strcmp(want.policy, s->spec.policy) != 0)
		what = "policy";
	else
		what = cbx_session_spec_differs(&want, &s->spec);
	asked = cbx_session_spec_asked(&want);
	if (!what && asked && (!s->asked || strcmp(asked, s->asked) != 0))
		what = "environment or mounts";
	if (what)
		return cbx_refuse(err, "session_differs", EEXIST,
				  "%s: session %s exists already and has another value; leave this setting out, or use "
				  "another session",
				  what, s->spec.id);
	return 0;
}
