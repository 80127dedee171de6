/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: completion/complete for what a person types into a form: ids of sessions, and paths of files in
 * a session. Which session is meant is in the arguments that were filled in before; where it is not, a legacy
 * connection's own session counts. Whatever cannot be completed has no values, which is not an error; only a form that
 * does not exist is one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/serve.h"
#include "mcp/request.h"
#include "tools/uri.h"

#define VALUES_MAX 100
#define COUNT_MAX  1000 /* matches that are looked at: the first of them, in order, are shown */

struct completion {
	struct cbx_mcp_walk walk;
	char *prefix;
	char *values[VALUES_MAX]; /* in order */
	size_t n, total;
	bool more;
};

static void completion_release(void *state)
{
	struct completion *c = state;

	for (size_t i = 0; i < c->n; i++)
		free(c->values[i]);
	free(c->prefix);
	free(c);
}

static void add(struct completion *c, const char *value)
{
	size_t at;

	if (!cbx_starts_with(value, c->prefix) || !cbx_utf8_valid(value, strlen(value)))
		return;
	if (c->total >= COUNT_MAX) {
		c->more = true;
		return;
	}
	c->total++;
	for (at = c->n; at && strcmp(c->values[at - 1], value) > 0; at--)
		;
	if (at == VALUES_MAX)
		return;
	if (c->n == VALUES_MAX)
		free(c->values[--c->n]);
	memmove(&c->values[at + 1], &c->values[at], (c->n - at) * sizeof(*c->values));
	c->values[at] = cbx_xstrdup(value);
	c->n++;
}

static cJSON *result_of(const struct completion *c, size_t room)
{
	cJSON *result = cbx_json_new_obj(), *o = cbx_json_new_obj(), *values = cbx_json_new_arr();
	size_t shown = 0, bytes = 256;

	for (; shown < c->n && (bytes += 6 * strlen(c->values[shown]) + 3) <= room; shown++)
		cbx_json_push_str(values, c->values[shown]);
	cbx_json_set(o, "values", values);
	if (!c->more)
		cbx_json_set_u64(o, "total", c->total);
	cbx_json_set_bool(o, "hasMore", c->more || c->total > shown);
	cbx_json_set(result, "completion", o);
	return result;
}

/* ---- sessions ---- */

static void complete_sessions(const struct cbx_mcp_message *m, struct completion *c)
{
	_cleanup_ids_ struct cbx_own_ids ids = cbx_own_list(&m->mcp->client, cbx_mcp_has_own(m->mcp, m->rev), NULL);

	for (size_t i = 0; i < ids.n; i++)
		add(c, ids.v[i]);
}

/* ---- paths ---- */

static bool on_file(struct cbx_mcp_request *job, const struct cbx_mcp_walk_file *file)
{
	struct completion *c = job->state;

	add(c, file->path);
	return !c->more;
}

static void on_done(struct cbx_mcp_request *job, const struct cbx_err *err)
{
	struct completion *c = job->state;

	c->more |= err || c->walk.cut;
	cbx_mcp_request_end(job, result_of(c, cbx_rpc_room(&job->slot)));
}

static const char *session_of(const struct cbx_mcp_message *m)
{
	const cJSON *context = cbx_json_member(m->params, "context");
	const char *id = cbx_json_text(cbx_json_member(context, "arguments"), "session_id");

	if (id && id[0])
		return strlen(id) <= CBX_NAME_MAX ? id : NULL;
	return cbx_mcp_has_own(m->mcp, m->rev) && m->mcp->client.default_session[0] ? m->mcp->client.default_session
										    : NULL;
}

/* Takes over both. */
static void complete_paths(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, struct completion *c)
{
	const char *session = session_of(m);
	struct cbx_mcp_request *job;
	struct cbx_err err;

	if (!session) {
		cbx_rpc_answer(slot, result_of(c, cbx_rpc_room(slot)));
		completion_release(c);
		return;
	}
	memcpy(c->walk.session_id, session, strlen(session) + 1);
	c->walk.see = on_file;
	c->walk.done = on_done;
	job = cbx_mcp_request_new(m, slot, c, completion_release);
	if (job && cbx_mcp_walk(&c->walk, job, &err) < 0)
		on_done(job, &err);
}

/* ---- completion/complete ---- */

enum kind { UNKNOWN_REF, NOTHING, SESSIONS, PATHS };

static enum kind kind_of(const cJSON *ref, const char *argument)
{
	const char *type = cbx_json_text(ref, "type"), *uri = cbx_json_text(ref, "uri");
	const char *name = cbx_json_text(ref, "name");
	bool known;

	if (type && strcmp(type, "ref/prompt") == 0 && name) {
		bool has = cbx_mcp_prompt_argument(name, argument, &known);

		if (!known)
			return UNKNOWN_REF;
		if (has && strcmp(argument, "session_id") == 0)
			return SESSIONS;
		return has && strcmp(argument, "file") == 0 ? PATHS : NOTHING;
	}
	if (!type || strcmp(type, "ref/resource") != 0 || !uri || !cbx_starts_with(uri, CBX_URI_SESSIONS))
		return UNKNOWN_REF;
	if (strcmp(argument, "session_id") == 0)
		return SESSIONS;
	if (strcmp(uri, CBX_URI_FILE_TEMPLATE) != 0 && strcmp(uri, CBX_URI_FILE_DATABASE_TEMPLATE) != 0)
		return NOTHING;
	return strcmp(argument, "path") == 0 ? PATHS : NOTHING;
}

void cbx_mcp_complete(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const cJSON *argument = cbx_json_member(m->params, "argument");
	const char *name = cbx_json_text(argument, "name"), *value = cbx_json_text(argument, "value");
	struct completion *c;
	enum kind kind;

	if (!name || !value) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS,
			      "Invalid params: argument: an object with the strings name and value is expected");
		return;
	}
	kind = kind_of(cbx_json_member(m->params, "ref"), name);
	if (kind == UNKNOWN_REF) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: ref: no such prompt or resource template");
		return;
	}
	c = cbx_xcalloc(1, sizeof(*c));
	c->prefix = cbx_xstrdup(value);
	if (kind == PATHS) {
		complete_paths(m, slot, c);
		return;
	}
	if (kind == SESSIONS)
		complete_sessions(m, c);
	cbx_rpc_answer(slot, result_of(c, cbx_rpc_room(slot)));
	completion_release(c);
}
