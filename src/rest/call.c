/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an error has one of two bodies. What is wrong with the request itself is {"status":"error",
 * "message"}, with status 400; all else is {"detail"}. So it is with the service whose clients these paths are for. The
 * kind of an error, for programs, is in a header of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/timer.h"
#include "http/room.h"
#include "rest/internal.h"

void cbx_rest_call_free(struct cbx_rest_call *call)
{
	struct cbx_rest *rest = call->rest;

	LIST_REMOVE(call, entry);
	cbx_ops_cancel(&call->caller.ops);
	cbx_event_free_p(&call->timer);
	cbx_json_doc_release(&call->doc);
	cbx_buf_release(&call->data);
	free(call->parts);
	if (call->release)
		call->release(call);
	cJSON_Delete(call->written);
	free(call);
	if (LIST_EMPTY(&rest->calls) && rest->on_idle)
		rest->on_idle(rest->arg);
}

static struct cbx_http_conn *let_go(struct cbx_rest_call *call)
{
	cbx_http_conn_watch(call->conn, NULL, NULL);
	return call->conn;
}

void cbx_rest_answer(struct cbx_rest_call *call, int status, cJSON *body)
{
	_cleanup_json_ cJSON *owned = body;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_http_conn *c = let_go(call);

	cbx_json_print(&text, owned);
	cbx_rest_call_free(call);
	cbx_http_reply(c, status, "application/json", text.data, text.len);
}

void cbx_rest_answer_text(struct cbx_rest_call *call, const char *type, const struct cbx_buf *text)
{
	struct cbx_http_conn *c = let_go(call);

	cbx_rest_call_free(call);
	cbx_http_reply(c, 200, type, text->data, text->len);
}

void cbx_rest_end(struct cbx_rest_call *call)
{
	struct cbx_http_conn *c = let_go(call);

	cbx_rest_call_free(call);
	cbx_http_stream_end(c);
}

void cbx_rest_cut(struct cbx_rest_call *call)
{
	cbx_http_conn_cut(call->conn); /* calls what frees it */
}

/* ---- errors ---- */

static int status_by_code(int code)
{
	switch (code) {
	case EINVAL:
	case ENAMETOOLONG:
		return 400;
	case EPERM:
	case EACCES:
	case EROFS:
		return 403;
	case ENOENT:
		return 404;
	case EEXIST:
	case EISDIR:
	case ENOTDIR:
	case ENOTEMPTY:
	case EBUSY:
	case ELOOP:
	case EPIPE:
	case ECANCELED:
		return 409;
	case EFBIG:
		return 413;
	case ENOSPC:
		return 507;
	default:
		return 500;
	}
}

static int status_of(const struct cbx_err *err)
{
	static const struct {
		const char *kind;
		int status;
	} kinds[] = {
		{ "execution_expired", 410 },
		{ "execution_forgotten", 410 },
		{ "session_exists", 409 },
		{ "session_differs", 409 },
		{ "image_not_found", 404 },
		{ "image_not_allowed", 403 },
		{ "mount_refused", 403 },
		{ "too_many_sessions", 429 },
		{ "no_connection", 404 },
		{ "query_refused", 403 },
		{ "unsafe_user", 403 },
		{ "server_not_allowed", 403 },
		{ "query_failed", 422 },
		{ "result_too_large", 422 },
		{ "timeout", 504 },
		{ "connection_failed", 502 },
		{ "archive_too_large", 413 },
		{ "too_many_transfers", 429 },
		{ "quota_exceeded", 429 },
		{ "too_many_executions", 429 },
		{ "too_many_watchers", 429 },
		{ "queue_full", 429 },
		{ "too_many_commands", 429 },
		{ "command_not_found", 422 },
		{ "command_not_executable", 422 },
		{ "no_terminal", 409 },
		{ "no_such_place", 416 },
		{ "busy", 409 },
		{ "no_sandbox", 503 },
		{ "invalid_policy", 503 },
		{ "cgroup_required", 403 },
		{ "package_refused", 403 },
		{ "no_packages", 403 },
		{ "not_found", 404 },
		{ "conflict", 409 },
		{ "index_down", 503 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(err->kind, kinds[i].kind) == 0)
			return kinds[i].status;
	return status_by_code(err->code);
}

static bool is_of_the_request(const struct cbx_err *err)
{
	return strcmp(err->kind, "invalid_argument") == 0 || strcmp(err->kind, "invalid_archive") == 0 ||
	       strcmp(err->kind, "invalid_json") == 0 || strcmp(err->kind, "invalid_string") == 0 ||
	       strcmp(err->kind, "duplicate_key") == 0 || strcmp(err->kind, "code_too_long") == 0 ||
	       strcmp(err->kind, "code_refused") == 0 ||
	       strcmp(err->kind, "no_interpreter") == 0;
}

void cbx_rest_not_found(struct cbx_rest_call *call, const char *kind, const char *detail)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "detail", detail);
	cbx_http_add_header(call->conn, "Codebox-Error", kind);
	cbx_rest_answer(call, 404, o);
}

void cbx_rest_fail(struct cbx_rest_call *call, const struct cbx_err *err)
{
	int status = is_of_the_request(err) ? 400 : status_of(err);
	cJSON *o;

	if (call->streaming) {
		cbx_rest_cut(call);
		return;
	}
	if (strcmp(err->kind, "session_not_found") == 0 || strcmp(err->kind, "session_expired") == 0) {
		cbx_rest_not_found(call, err->kind, "Session not found");
		return;
	}
	o = cbx_json_new_obj();
	if (is_of_the_request(err))
		cbx_json_set_str(o, "status", "error");
	cbx_json_set_str(o, is_of_the_request(err) ? "message" : "detail", err->msg);
	cbx_http_add_header(call->conn, "Codebox-Error", err->kind);
	if (status == 429 || status == 503)
		cbx_http_add_header(call->conn, "Retry-After", "1");
	cbx_rest_answer(call, status, o);
}

/* ---- what several routes need ---- */

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_rest_call *call = arg;

	call->on_timer(call);
}

void cbx_rest_timer(struct cbx_rest_call *call, uint64_t ms, void (*fn)(struct cbx_rest_call *call))
{
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };

	if (!call->timer)
		call->timer = event_new(call->rest->base, -1, 0, on_timer, call);
	call->on_timer = fn;
	event_add(call->timer, &tv);
}

int cbx_rest_transfer(struct cbx_rest_call *call, struct cbx_err *err)
{
	if (cbx_http_room_transfer(call->conn))
		return 0;
	return cbx_refuse(err, "too_many_transfers", EBUSY,
			  "too many archives are on the way (up to %d of a tenant, and %d of all); try again",
			  CBX_HTTP_TRANSFERS_TENANT, CBX_HTTP_TRANSFERS_MAX);
}

bool cbx_rest_session(struct cbx_rest_call *call, struct cbx_session **ret)
{
	struct cbx_err err;

	if (cbx_session_find(&call->caller, call->target.session_id, ret, &err) >= 0)
		return true;
	cbx_rest_fail(call, &err);
	return false;
}

static void answered(struct cbx_answer_op *op, const cJSON *answer, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_container_of(op, struct cbx_rest_call, answer);

	if (err)
		cbx_rest_fail(call, err);
	else
		cbx_rest_answer(call, 200, cJSON_Duplicate(answer, 1));
}

struct cbx_answer_op *cbx_rest_answer_op(struct cbx_rest_call *call)
{
	call->answer = (struct cbx_answer_op){ .op.ops = &call->caller.ops, .done = answered };
	return &call->answer;
}

void cbx_rest_time(uint64_t ms, char out[32])
{
	char text[32];

	cbx_format_time((int64_t)(ms / 1000), text);
	snprintf(out, 32, "%.19s.%03u000", text, (unsigned)(ms % 1000));
}

int cbx_rest_wait(struct cbx_rest_call *call, uint64_t *ret_ms, struct cbx_err *err)
{
	char text[24];
	int r = cbx_rest_query(call->conn->head.query, "wait", text, sizeof(text), err);

	*ret_ms = 0;
	return r <= 0 ? r : cbx_parse_duration_ms(text, "wait", 0, CBX_REST_WAIT_MS, ret_ms, err);
}
