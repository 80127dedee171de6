/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the tools that make, list and close sessions. create_session answers when the session is ready,
 * so that a model which learns of one can rely on it; a creation that is cancelled, or whose client has gone, is
 * undone, because nobody would know of its session.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "tools/internal.h"

/* ---- create_session ---- */

/* One sentence or two of what matters first. */
static void tell(struct cbx_buf *out, const cJSON *info, const char *id)
{
	const cJSON *limits = cbx_json_member(info, "limits"), *name;
	const cJSON *packages = cbx_json_member(info, "packages");
	const cJSON *lowered =
		cbx_json_member(cbx_json_member(info, "policy"), "lowered");
	uint64_t memory = cbx_json_u64(limits, "memory_bytes"), disk = cbx_json_u64(limits, "disk_bytes");
	uint64_t ttl = cbx_json_u64(limits, "ttl_s"), idle = cbx_json_u64(limits, "idle_timeout_s");
	char a[32], b[32];

	cbx_buf_addf(out, "Session %s is ready. Pass session_id \"%s\" to run_code to use it.", id, id);
	cbx_format_size(memory, a);
	cbx_format_size(disk, b);
	if (memory && disk)
		cbx_buf_addf(out, " Memory %s, files %s, %llu s for a cell; closed %s %llu s.", a, b,
			     (unsigned long long)cbx_json_u64(limits, "timeout_s"),
			     ttl > idle ? "when not used for" : "in", (unsigned long long)(ttl > idle ? idle : ttl));
	cJSON_ArrayForEach(name, cbx_json_member(info, "mounts"))
		cbx_buf_addf(out, "%s %s%s", name->prev->next ? "," : " Mounted:", cbx_json_text(name, "target"),
			     cJSON_IsTrue(cbx_json_member(name, "writable")) ? "" : " (read-only)");
	if (cJSON_GetArraySize(cbx_json_member(info, "mounts")))
		cbx_buf_addc(out, '.');
	cJSON_ArrayForEach(name, lowered)
		if (cJSON_IsString(name))
			cbx_buf_addf(out, "%s%s", name == lowered->child ? " The server's policy lowered: " : ", ",
				     name->valuestring);
	if (cJSON_GetArraySize(lowered))
		cbx_buf_addc(out, '.');
	cJSON_ArrayForEach(name, packages) {
		cbx_buf_adds(out, name == packages->child ? " Installed: " : ", ");
		cbx_escape(out, cbx_json_text(name, "name"));
		cbx_buf_addc(out, ' ');
		cbx_escape(out, cbx_json_text(name, "version"));
	}
	if (packages)
		cbx_buf_addc(out, '.');
}

static void on_ready(struct cbx_ready_op *op, struct cbx_session *session, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, ready);

	if (err) {
		cbx_tool_refuse(call, err);
	} else {
		_cleanup_buf_ struct cbx_buf text = { 0 };
		cJSON *info = cbx_session_to_json(session);

		tell(&text, info, cbx_session_id(session));
		cbx_tool_end(call, cbx_buf_str(&text), info);
	}
}

void cbx_tool_create_session(struct cbx_tool_call *call, const cJSON *args)
{
	struct cbx_session_spec spec;
	struct cbx_session *session;
	struct cbx_err err;
	int r;

	cbx_session_spec_init(&spec);
	r = args ? cbx_session_spec_parse(args, &spec, &err) : 0;
	if (r >= 0 && call->takes_roots)
		cbx_own_roots(call->client, &spec);
	cbx_own_policy(call->client, &spec);
	call->ready = (struct cbx_ready_op){ .op.ops = &call->client->caller.ops, .done = on_ready };
	if (r >= 0)
		r = cbx_session_create(&call->client->caller, &spec, &call->ready, &session, &err);
	if (r < 0) {
		cbx_tool_refuse(call, &err);
		return;
	}
	snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(session));
}

void cbx_tool_cancel_create(struct cbx_tool_call *call)
{
	if (cbx_op_pending(&call->ready.op))
		cbx_session_close(&call->client->caller, call->ready.session, "its creation was cancelled");
}

/* ---- list_sessions ---- */

static cJSON *list_entry(const cJSON *info, bool is_default, struct cbx_buf *text)
{
	static const char *const known[] = { "session_id", "image",  "state",	     "created",
					     "age_s",	   "idle_s", "expires_in_s", "executions" };
	uint64_t cells = cbx_json_u64(info, "executions");
	cJSON *o = cbx_json_new_obj();
	const cJSON *v;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if ((v = cbx_json_member(info, known[i])) && !cJSON_IsNull(v))
			cbx_json_set(o, known[i], cJSON_Duplicate(v, 1));
	cbx_json_set_bool(o, "default", is_default);
	cbx_buf_addf(text, "%s%s: %s, image %s, %llu cell%s run, closed in %llu s if not used%s", text->len ? "\n" : "",
		     cbx_json_text(info, "session_id"), cbx_json_text(info, "state"), cbx_json_text(info, "image"),
		     (unsigned long long)cells, cells == 1 ? "" : "s",
		     (unsigned long long)cbx_json_u64(info, "expires_in_s"),
		     is_default ? " (the default session)" : "");
	return o;
}

void cbx_tool_list_sessions(struct cbx_tool_call *call, const cJSON *args)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_ids_ struct cbx_own_ids ids = { 0 };
	struct cbx_session *session;
	const char *after = NULL;
	cJSON *result, *sessions;
	struct cbx_err err;
	int r = cbx_json_get_str(args, "cursor", &after, &err);

	if (r >= 0 && after && !cbx_name_valid(after))
		r = cbx_refuse(&err, "invalid_argument", EINVAL, "cursor: pass next_cursor of an earlier answer");
	if (r < 0) {
		cbx_tool_refuse(call, &err);
		return;
	}
	/* Other connections' own sessions do not concern this one. */
	ids = cbx_own_list(call->client, call->own, after);
	result = cbx_json_new_obj();
	sessions = cbx_json_new_arr();
	for (size_t i = 0; i < ids.n && i < CBX_SESSIONS_PAGE; i++) {
		bool is_default = call->own && strcmp(ids.v[i], call->client->default_session) == 0;
		_cleanup_json_ cJSON *info = NULL;

		if (cbx_session_find(&call->client->caller, ids.v[i], &session, &err) < 0)
			continue;
		info = cbx_session_list_entry(session);
		cbx_json_push(sessions, list_entry(info, is_default, &text));
	}
	cbx_json_set(result, "sessions", sessions);
	if (ids.n > CBX_SESSIONS_PAGE) {
		cbx_json_set_str(result, "next_cursor", ids.v[CBX_SESSIONS_PAGE - 1]);
		cbx_buf_addf(&text, "\n[%zu more; the next page has cursor \"%s\"]", ids.n - CBX_SESSIONS_PAGE,
			     ids.v[CBX_SESSIONS_PAGE - 1]);
	}
	if (!text.len)
		cbx_buf_adds(&text, "There are no sessions. run_code makes one by itself if session_id is omitted.");
	cbx_tool_end(call, cbx_buf_str(&text), result);
}

/* ---- session_info ---- */

void cbx_tool_session_info(struct cbx_tool_call *call, const cJSON *args)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_session *session;
	struct cbx_err err;
	uint64_t running, cells;
	cJSON *about;

	if (cbx_tool_arg_session(call, args, &session, &err) < 0) {
		cbx_tool_refuse(call, &err);
		return;
	}
	about = cbx_session_to_json(session);
	cJSON_DeleteItemFromObjectCaseSensitive(about, "one_shot");
	cbx_json_set_bool(about, "default", call->own && strcmp(call->client->default_session, call->session_id) == 0);
	running = cbx_json_u64(about, "running");
	cells = cbx_json_u64(about, "executions");
	cbx_buf_addf(&text, "Session %s is %s: image %s, %llu cell%s run", call->session_id,
		     cbx_json_text(about, "state"), cbx_json_text(about, "image"), (unsigned long long)cells,
		     cells == 1 ? "" : "s");
	if (running)
		cbx_buf_addf(&text, ", execution %llu runs now, %llu wait", (unsigned long long)running,
			     (unsigned long long)cbx_json_u64(about, "queue_length"));
	cbx_buf_addf(&text, "; it is closed in %llu s if it is not used.",
		     (unsigned long long)cbx_json_u64(about, "expires_in_s"));
	cbx_tool_end(call, cbx_buf_str(&text), about);
}

/* ---- close_session ---- */

void cbx_tool_close_session(struct cbx_tool_call *call, const cJSON *args)
{
	struct cbx_tool_client *client = call->client;
	_cleanup_free_ char *text = NULL;
	struct cbx_session *session;
	const char *id = NULL;
	struct cbx_err err;
	cJSON *result;
	int r = cbx_json_get_str(args, "session_id", &id, &err);

	if (r >= 0 && !id)
		r = cbx_refuse(&err, "invalid_argument", EINVAL,
			       "missing argument: session_id; pass an id from list_sessions");
	if (r >= 0)
		r = cbx_session_find(&client->caller, id, &session, &err);
	if (r < 0) {
		cbx_tool_refuse(call, &err);
		return;
	}
	result = cbx_json_new_obj();
	cbx_json_set_str(result, "session_id", cbx_session_id(session));
	cbx_json_set_bool(result, "closed", true);
	text = cbx_xasprintf("Session %s is closed. Its variables, processes and files are gone.",
			     cbx_session_id(session));
	if (strcmp(client->default_session, cbx_session_id(session)) == 0) {
		if (!cbx_own_named(client))
			client->default_session[0] = '\0';
		client->default_used = false;
	}
	cbx_session_close(&call->client->caller, session, "it was closed with close_session");
	cbx_tool_end(call, text, result);
}

/* ---- restart ---- */

void cbx_tool_restart(struct cbx_tool_call *call, const cJSON *args)
{
	_cleanup_free_ char *text = NULL;
	struct cbx_session *session;
	const char *language = NULL;
	struct cbx_err err;
	cJSON *result;
	size_t n;
	int r;

	if (cbx_tool_arg_session(call, args, &session, &err) < 0) {
		cbx_tool_refuse(call, &err);
		return;
	}
	r = cbx_json_get_str(args, "language", &language, &err);
	if (r >= 0)
		r = cbx_session_restart(&call->client->caller, session, language, &n, &err);
	if (r < 0) {
		cbx_tool_refuse(call, &err);
		return;
	}
	result = cbx_json_new_obj();
	cbx_json_set_str(result, "session_id", call->session_id);
	cbx_json_set_u64(result, "ended", n);
	text = cbx_xasprintf(
		"Session %s has a new interpreter%s%.40s: its variables, imports and functions are gone, its files "
		"are kept. %zu cells were ended.",
		call->session_id, language ? " of " : "", language ? language : "", n);
	cbx_tool_end(call, text, result);
}
