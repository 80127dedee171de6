/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the connection's own session is for calls that name none. Most often nothing was said of it:
 * then it is made when it is first needed, and ends with the connection; clients of the modern era have none. The
 * command line of codebox mcp comes first on the connection. With a name in it the session is one as any other: whoever
 * needs it first makes it, and it stays.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "tools/own.h"

static int read_spec(struct cbx_own *own, struct cbx_err *err)
{
	const char *keys[CBX_SPEC_KEYS_MAX + 1];

	keys[cbx_session_spec_keys(keys)] = NULL;
	if (!cJSON_IsObject(own->params))
		return cbx_refuse(err, "invalid_argument", EINVAL, "params: an object is expected");
	if (cbx_json_only(own->params, keys, err) < 0)
		return -err->code;
	return cbx_session_spec_parse(own->params, &own->spec, err);
}

void cbx_own_set(struct cbx_tool_client *client, cJSON *params, const struct cbx_err *problem)
{
	struct cbx_own *own = client->own = cbx_xcalloc(1, sizeof(*own));

	own->params = params;
	cbx_session_spec_init(&own->spec);
	if (problem->code)
		own->fault = *problem;
	else
		(void)read_spec(own, &own->fault);
	if (own->fault.code)
		cbx_wrap(&own->fault, "what codebox mcp was started with cannot be used");
	snprintf(client->default_session, sizeof(client->default_session), "%s", own->spec.id);
}

void cbx_own_drop(struct cbx_tool_client *client)
{
	struct cbx_session *session;
	struct cbx_err err;

	if (client->default_session[0] && !cbx_own_named(client) &&
	    cbx_session_find(&client->caller, client->default_session, &session, &err) >= 0 &&
	    cbx_session_one_shot(session))
		cbx_session_close(&client->caller, session, "its client has disconnected");
	if (client->own)
		cJSON_Delete(client->own->params);
	free(take_ptr(&client->own));
}

const struct cbx_err *cbx_own_fault(const struct cbx_tool_client *client)
{
	return client->own && client->own->fault.code ? &client->own->fault : NULL;
}

bool cbx_own_named(const struct cbx_tool_client *client)
{
	return client->own && client->own->spec.id[0];
}

const char *cbx_own_sentence(const struct cbx_tool_client *client, bool own)
{
	if (cbx_own_named(client))
		return "Without session_id, the session that this server was started with is used (made when needed; "
		       "it is kept when the connection ends; its id is in the answer).";
	return own ? "Without session_id, the session of this connection is used (made when needed, gone when the "
		     "connection ends; its id is in the answer)."
		   : "Without session_id, a new session is made, and its id is in the answer: pass it in the calls "
		     "that "
		     "follow.";
}

void cbx_own_spec(const struct cbx_tool_client *client, struct cbx_session_spec *spec)
{
	if (client->own)
		*spec = client->own->spec;
	else
		cbx_session_spec_init(spec);
}

void cbx_own_policy(const struct cbx_tool_client *client, struct cbx_session_spec *spec)
{
	if (client->own && client->own->spec.policy[0])
		memcpy(spec->policy, client->own->spec.policy, sizeof(spec->policy));
}

uint64_t cbx_own_timeout(const struct cbx_tool_client *client)
{
	return client->own && cbx_json_member(client->own->params, "timeout")
		       ? client->own->spec.timeout_ms
		       : 0;
}

void cbx_own_roots(const struct cbx_tool_client *client, struct cbx_session_spec *spec)
{
	if (spec->mounts || !client->roots || !cbx_engine_takes_roots(&client->caller))
		return;
	spec->mounts = client->roots;
	spec->roots = true;
}

int cbx_own_find(struct cbx_tool_client *client, struct cbx_session **ret, struct cbx_err *err)
{
	int r = cbx_session_find(&client->caller, client->default_session, ret, err);

	return r >= 0 && cbx_own_named(client) ? cbx_session_same(*ret, &client->own->spec, err) : r;
}

int cbx_own_get(struct cbx_tool_client *client, bool takes_roots, struct cbx_session **ret, char **ret_notice,
		struct cbx_err *err)
{
	bool named = cbx_own_named(client), ended;
	struct cbx_session_spec spec;
	struct cbx_err lost;
	int r;

	if (client->default_session[0]) {
		if (cbx_own_find(client, ret, &lost) >= 0)
			return 0;
		ended = strcmp(lost.kind, "session_expired") == 0;
		if (named && !ended && strcmp(lost.kind, "session_not_found") != 0) {
			*err = lost;
			return -err->code;
		}
		/* Of one with a name an earlier connection may have told that it is kept. */
		if (client->default_used || (named && ended))
			*ret_notice =
				cbx_xasprintf("A new session was started, because the earlier one has ended (%s). "
					      "Its variables and files are gone.",
					      lost.msg);
		client->default_used = false;
	}
	cbx_own_spec(client, &spec);
	spec.one_shot = !named;
	if (!named) {
		client->default_session[0] = '\0';
		if (takes_roots)
			cbx_own_roots(client, &spec);
	}
	r = cbx_session_create(&client->caller, &spec, NULL, ret, err);
	if (r < 0)
		return r;
	snprintf(client->default_session, sizeof(client->default_session), "%s", cbx_session_id(*ret));
	return 0;
}

static bool visible(const struct cbx_tool_client *client, bool own, const cJSON *info)
{
	const char *id = cbx_json_text(info, "session_id");

	if (!id)
		return false;
	if (!cJSON_IsTrue(cbx_json_member(info, "one_shot")))
		return true;
	return own && strcmp(id, client->default_session) == 0;
}

struct cbx_own_ids cbx_own_list(const struct cbx_tool_client *client, bool own, const char *after)
{
	_cleanup_json_ cJSON *all = cbx_session_names(&client->caller);
	struct cbx_own_ids ids = { 0 };
	const cJSON *s;

	cJSON_ArrayForEach(s, all) {
		const char *id = cbx_json_text(s, "session_id");

		if (!visible(client, own, s) || strlen(id) > CBX_NAME_MAX || (after && strcmp(id, after) <= 0))
			continue;
		ids.v = cbx_xrealloc(ids.v, (ids.n + 1) * sizeof(*ids.v));
		ids.v[ids.n++] = cbx_xstrdup(id);
	}
	if (ids.n)
		qsort(ids.v, ids.n, sizeof(*ids.v), cbx_by_name);
	return ids;
}

void cbx_own_ids_release(struct cbx_own_ids *ids)
{
	for (size_t i = 0; i < ids->n; i++)
		free(ids->v[i]);
	free(take_ptr(&ids->v));
	ids->n = 0;
}
