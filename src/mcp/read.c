/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: resources/read. Descriptions of sessions are answered at once. A file is read piece by piece, by
 * way of its session, which is looked up anew for each piece; it goes out as text when it is text, else as base64. What
 * would not fit into one message is refused with its size: the tool read_file reads parts. A database, of the policy or
 * a file of a session, is asked for its tables, which takes as long as the database does; the answer is bounded where
 * it is made (sql/schema.c), or read (session/sqlschema.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/serve.h"
#include "mcp/stream.h"
#include "mcp/request.h"
#include "session/databases.h"
#include "session/images.h"
#include "tools/uri.h"

struct reading {
	char *uri; /* as it was asked for */
	struct cbx_uri parsed;
	struct cbx_buf data;
	size_t max;
};

static void reading_release(void *state)
{
	struct reading *r = state;

	free(r->uri);
	cbx_uri_release(&r->parsed);
	cbx_buf_release(&r->data);
	free(r);
}

static cJSON *about(const char *uri)
{
	cJSON *data = cbx_json_new_obj();

	cbx_json_set_str(data, "uri", uri);
	return data;
}

static int not_found_code(const struct cbx_mcp_revision *rev)
{
	return rev->modern ? CBX_RPC_INVALID_PARAMS : CBX_RPC_RESOURCE_NOT_FOUND;
}

static bool means_not_found(const struct cbx_err *err)
{
	static const char *const kinds[] = { "file_not_found",	  "not_a_directory", "is_a_directory",
					     "session_not_found", "session_expired", "no_connection" };

	return cbx_find_word(err->kind, kinds, ARRAY_SIZE(kinds)) >= 0;
}

static void not_found(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, const char *uri, const char *why)
{
	cbx_rpc_error_data(slot, not_found_code(m->rev), about(uri), "Resource not found: %s", why);
}

static void fail(struct cbx_mcp_request *job, const struct cbx_err *err)
{
	struct reading *r = job->state;

	if (means_not_found(err))
		cbx_mcp_request_fail(job, not_found_code(job->rev), about(r->uri), "Resource not found: %s", err->msg);
	else
		cbx_mcp_request_fail(job, CBX_RPC_INTERNAL, about(r->uri), "The resource cannot be read: %s", err->msg);
}

static cJSON *result_of(const struct cbx_mcp_revision *rev, const char *uri, const char *mime, const char *text,
			const struct cbx_buf *blob)
{
	cJSON *result = cbx_json_new_obj(), *contents = cbx_json_new_arr(), *c = cbx_json_new_obj();

	cbx_json_set_str(c, "uri", uri);
	cbx_json_set_str(c, "mimeType", mime);
	if (text)
		cbx_json_set_str(c, "text", text);
	else
		cbx_json_set_str(c, "blob", cbx_buf_str(blob));
	cbx_json_push(contents, c);
	cbx_json_set(result, "contents", contents);
	cbx_mcp_set_caching(result, rev, 0, false);
	return result;
}

/* ---- files ---- */

static void too_large(struct cbx_mcp_request *job, uint64_t size)
{
	struct reading *r = job->state;
	char is[32], any[32], text[32];

	cbx_format_size(size, is);
	cbx_format_size(r->max / 4 * 3, any); /* as base64 */
	cbx_format_size(r->max, text);	      /* without a character that JSON writes with more */
	cbx_mcp_request_fail(job, CBX_RPC_INTERNAL, about(r->uri),
			 "The file is too large to be sent as a resource (%s; about %s of any file can be, of text "
			 "up to %s); read parts of it with the tool read_file, or with code",
			 is, any, text);
}

static bool fits(const struct cbx_mcp_request *job, const cJSON *result)
{
	_cleanup_buf_ struct cbx_buf printed = { 0 };

	cbx_json_print(&printed, result);
	return printed.len <= cbx_rpc_room(&job->slot);
}

static void send_file(struct cbx_mcp_request *job)
{
	struct reading *r = job->state;
	const char *mime = cbx_mime_by_name(r->parsed.path);
	_cleanup_buf_ struct cbx_buf blob = { 0 };
	cJSON *result;

	if (!r->data.len || (!memchr(r->data.data, '\0', r->data.len) && cbx_utf8_valid(r->data.data, r->data.len))) {
		if (strcmp(mime, "application/octet-stream") == 0)
			mime = "text/plain";
		result = result_of(job->rev, r->uri, mime, cbx_buf_str(&r->data), NULL);
		if (fits(job, result)) {
			cbx_mcp_request_end(job, result);
			return;
		}
		cJSON_Delete(result); /* full of characters that JSON writes with six */
	}
	cbx_base64_encode(&blob, r->data.data, r->data.len);
	result = result_of(job->rev, r->uri, mime, NULL, &blob);
	if (fits(job, result)) {
		cbx_mcp_request_end(job, result);
		return;
	}
	cJSON_Delete(result);
	too_large(job, r->data.len);
}

static int ask(struct cbx_mcp_request *job, struct cbx_err *err);

static void on_piece(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *fault)
{
	struct cbx_mcp_request *job = cbx_container_of(op, struct cbx_mcp_request, file);
	struct reading *r = job->state;
	struct cbx_err err;

	if (fault) {
		fail(job, fault);
		return;
	}
	if (reply->size > r->max || r->data.len + reply->len > r->max) {
		too_large(job, reply->size);
		return;
	}
	cbx_buf_add(&r->data, reply->data, reply->len);
	if (reply->len == 0)
		send_file(job);
	else if (ask(job, &err) < 0)
		fail(job, &err);
}

static int ask(struct cbx_mcp_request *job, struct cbx_err *err)
{
	struct reading *r = job->state;
	struct cbx_session *session;
	int e = cbx_session_find(&job->mcp->client.caller, r->parsed.session_id, &session, err);

	job->file = (struct cbx_file_op){ .op.ops = &job->mcp->client.caller.ops, .done = on_piece };
	if (e >= 0)
		e = cbx_session_file_read(session, r->parsed.path, r->data.len, CBX_FILE_CHUNK, &job->file, err);
	return e;
}

static void read_file(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, const char *uri,
		      struct cbx_uri *parsed)
{
	struct reading *r = cbx_xcalloc(1, sizeof(*r));
	struct cbx_mcp_request *job;
	struct cbx_err err;

	r->uri = cbx_xstrdup(uri);
	r->parsed = *parsed;
	memset(parsed, 0, sizeof(*parsed));
	r->max = cbx_rpc_room(slot);
	job = cbx_mcp_request_new(m, slot, r, reading_release);
	if (job && ask(job, &err) < 0)
		fail(job, &err);
}

/* ---- sessions ---- */

static void send_json(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, const char *uri, const cJSON *json)
{
	_cleanup_json_ cJSON *copy = cJSON_Duplicate(json, 1);
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print_clean(&text, copy);
	cbx_rpc_answer(slot, result_of(m->rev, uri, "application/json", text.data, NULL));
}

/* A page of them, with the address of the next. */
static void read_list(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, const char *uri, const char *after)
{
	_cleanup_ids_ struct cbx_own_ids ids =
		cbx_own_list(&m->mcp->client, cbx_mcp_has_own(m->mcp, m->rev), after[0] ? after : NULL);
	_cleanup_json_ cJSON *o = cbx_json_new_obj();
	cJSON *list = cbx_json_new_arr();
	struct cbx_session *s;
	struct cbx_err err;

	for (size_t i = 0; i < ids.n && i < CBX_SESSIONS_PAGE; i++)
		if (cbx_session_find(&m->mcp->client.caller, ids.v[i], &s, &err) >= 0)
			cbx_json_push(list, cbx_session_list_entry(s));
	cbx_json_set(o, "sessions", list);
	if (ids.n > CBX_SESSIONS_PAGE) {
		_cleanup_free_ char *next = cbx_xasprintf(CBX_URI_SESSIONS "?after=%s", ids.v[CBX_SESSIONS_PAGE - 1]);

		cbx_json_set_str(o, "next", next);
		cbx_json_set_u64(o, "more", ids.n - CBX_SESSIONS_PAGE);
	}
	send_json(m, slot, uri, o);
}

static void read_session(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, const char *uri, const char *id)
{
	_cleanup_json_ cJSON *info = NULL;
	struct cbx_session *session;
	struct cbx_err err;

	if (cbx_session_find(&m->mcp->client.caller, id, &session, &err) < 0) {
		not_found(m, slot, uri, err.msg);
		return;
	}
	info = cbx_session_to_json(session);
	send_json(m, slot, uri, info);
}

static void read_images(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, const char *uri)
{
	_cleanup_json_ cJSON *o = cbx_json_new_obj();

	if (!m->mcp->client.caller.engine) {
		not_found(m, slot, uri, "there are none here");
		return;
	}
	cbx_json_set(o, "images", cbx_engine_images(&m->mcp->client.caller));
	send_json(m, slot, uri, o);
}

/* ---- databases ---- */

static void on_schema(struct cbx_answer_op *op, const cJSON *answer, const struct cbx_err *fault)
{
	struct cbx_mcp_request *job = cbx_container_of(op, struct cbx_mcp_request, answer);
	struct reading *r = job->state;
	_cleanup_json_ cJSON *copy = NULL, *result = NULL;
	_cleanup_buf_ struct cbx_buf text = { 0 };

	if (fault) {
		fail(job, fault);
		return;
	}
	copy = cJSON_Duplicate(answer, 1);
	cbx_json_print_clean(&text, copy);
	result = result_of(job->rev, r->uri, "application/json", cbx_buf_str(&text), NULL);
	if (fits(job, result))
		cbx_mcp_request_end(job, take_ptr(&result));
	else
		cbx_mcp_request_fail(job, CBX_RPC_INTERNAL, about(r->uri),
				 "The schema is too large to be sent as a resource; ask for its tables with run_sql");
}

/* of NULL: one of the policy. */
static void read_database(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, const char *uri, const char *name,
			  struct cbx_session *of)
{
	struct cbx_query_spec spec = { .connection = name, .schema = true, .session = of };
	struct reading *r = cbx_xcalloc(1, sizeof(*r));
	struct cbx_mcp_request *job;
	struct cbx_err err;

	r->uri = cbx_xstrdup(uri);
	job = cbx_mcp_request_new(m, slot, r, reading_release);
	if (!job)
		return;
	job->answer = (struct cbx_answer_op){ .op.ops = &m->mcp->client.caller.ops, .done = on_schema };
	if (cbx_engine_query(&m->mcp->client.caller, &spec, &job->answer, &err) < 0)
		fail(job, &err);
}

/* Its path is made absolute: a name could be that of a database of the policy. */
static void read_file_database(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, const char *uri,
			       const struct cbx_uri *parsed)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s%s", parsed->path[0] == '/' ? "" : "/workspace/", parsed->path);
	struct cbx_session *session;
	struct cbx_err err;

	if (cbx_session_find(&m->mcp->client.caller, parsed->session_id, &session, &err) < 0)
		not_found(m, slot, uri, err.msg);
	else
		read_database(m, slot, uri, path, session);
}

/* ---- resources/read ---- */

/* The message's uri; NULL, and the slot was answered, when it has none. */
static const char *uri_of(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const char *uri = NULL;
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "uri", &uri, &err) >= 0 && uri)
		return uri;
	cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: uri: a string is expected");
	return NULL;
}

void cbx_mcp_resources_read(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const char *uri = uri_of(m, slot);
	struct cbx_uri parsed;

	if (!uri)
		return;
	parsed = cbx_uri_parse(uri);
	switch (parsed.kind) {
	case CBX_URI_LIST:
		read_list(m, slot, uri, parsed.session_id);
		break;
	case CBX_URI_SESSION:
		read_session(m, slot, uri, parsed.session_id);
		break;
	case CBX_URI_FILE:
		read_file(m, slot, uri, &parsed);
		break;
	case CBX_URI_IMAGE_LIST:
		read_images(m, slot, uri);
		break;
	case CBX_URI_DATABASE:
		read_database(m, slot, uri, parsed.database, NULL);
		break;
	case CBX_URI_FILE_DATABASE:
		read_file_database(m, slot, uri, &parsed);
		break;
	default:
		not_found(m, slot, uri,
			  "unknown address; see resources/list and "
			  "resources/templates/list");
	}
	cbx_uri_release(&parsed);
}

/* ---- subscribe, unsubscribe ---- */

static bool exists(const struct cbx_mcp_message *m, const struct cbx_uri *u, struct cbx_err *err)
{
	struct cbx_session *session;

	return u->kind == CBX_URI_LIST || (u->session_id[0] && u->kind != CBX_URI_FILE_DATABASE &&
					   cbx_session_find(&m->mcp->client.caller, u->session_id, &session, err) >= 0);
}

void cbx_mcp_resources_subscribe(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const char *uri = uri_of(m, slot);
	struct cbx_err err = { .msg = "unknown address" };
	struct cbx_uri parsed;

	if (!uri)
		return;
	parsed = cbx_uri_parse(uri);
	if (parsed.kind == CBX_URI_DATABASE || parsed.kind == CBX_URI_FILE_DATABASE)
		snprintf(err.msg, sizeof(err.msg), "changes of a database are not reported");
	if (parsed.kind == CBX_URI_IMAGE_LIST)
		snprintf(err.msg, sizeof(err.msg), "changes of images are not reported");
	if (!exists(m, &parsed, &err))
		not_found(m, slot, uri, err.msg);
	else if (!cbx_mcp_news_subscribe(m->mcp, uri))
		cbx_rpc_error(slot, CBX_RPC_INTERNAL,
			      "the address is too long, or there are too many: %d resources may be subscribed to here, and %d "
			      "by all clients of a tenant; unsubscribe from some",
			      CBX_SUBSCRIPTIONS_MAX, CBX_SUBSCRIPTIONS_TENANT);
	else
		cbx_rpc_answer(slot, cbx_json_new_obj());
	cbx_uri_release(&parsed);
}

void cbx_mcp_resources_unsubscribe(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const char *uri = uri_of(m, slot);

	if (!uri)
		return;
	cbx_mcp_news_unsubscribe(m->mcp, uri);
	cbx_rpc_answer(slot, cbx_json_new_obj());
}
