/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an artifact is fetched by its link, which needs no token and says until when it is good. Its bytes
 * go out in pieces, each asked for when the one before it has gone. They are hostile: a browser is to save them, and to
 * make nothing of them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "rest/internal.h"

static struct cbx_rest_call *call_of(struct cbx_artifact_op *op)
{
	return cbx_container_of(op, struct cbx_rest_call, artifact);
}

static struct cbx_artifact_op *artifact_op(struct cbx_rest_call *call,
					   void (*done)(struct cbx_artifact_op *op, const cJSON *about, const void *p,
							size_t n, const struct cbx_err *err))
{
	call->artifact = (struct cbx_artifact_op){ .op.ops = &call->caller.ops, .done = done };
	return &call->artifact;
}

static void told(struct cbx_artifact_op *op, const cJSON *about, const void *p, size_t n, const struct cbx_err *err)
{
	if (err)
		cbx_rest_fail(call_of(op), err);
	else
		cbx_rest_answer(call_of(op), 200, cJSON_Duplicate(about, 1));
}

static void listed(struct cbx_artifact_op *op, const cJSON *about, const void *p, size_t n, const struct cbx_err *err)
{
	struct cbx_rest_call *call = call_of(op);

	if (err)
		cbx_rest_fail(call, err);
	else
		cbx_rest_answer(call, 200, cbx_artifact_list_linked(&call->caller, about));
}

int cbx_rest_list_artifacts(struct cbx_rest_call *call, struct cbx_err *err)
{
	return cbx_artifact_list(&call->caller, artifact_op(call, listed), err);
}

int cbx_rest_delete_artifact(struct cbx_rest_call *call, struct cbx_err *err)
{
	return cbx_artifact_remove(&call->caller, call->target.session_id, artifact_op(call, told), err);
}

/* ---- fetching ---- */

static void ask_piece(struct cbx_rest_call *call);

static void drained(void *arg)
{
	struct cbx_rest_call *call = arg;

	if (!cbx_op_pending(&call->artifact.op))
		ask_piece(call);
}

/* Others were asking. */
static void again(struct cbx_rest_call *call)
{
	drained(call);
}

static void piece(struct cbx_artifact_op *op, const cJSON *about, const void *p, size_t n, const struct cbx_err *err)
{
	struct cbx_rest_call *call = call_of(op);

	if (err || !n || n > call->end - call->offset) {
		cbx_rest_cut(call); /* it has gone: there is no way to say so now */
		return;
	}
	call->offset += n;
	cbx_http_stream_send(call->conn, p, n);
	if (call->offset == call->end)
		cbx_rest_end(call);
}

static void ask_piece(struct cbx_rest_call *call)
{
	uint64_t left = call->end - call->offset;
	struct cbx_err err;

	if (cbx_artifact_read(&call->caller, true, call->target.session_id, call->offset,
			      left < CBX_ARTIFACT_PIECE ? (size_t)left : CBX_ARTIFACT_PIECE, artifact_op(call, piece), &err) >= 0)
		return;
	if (strcmp(err.kind, "busy") == 0)
		cbx_rest_timer(call, CBX_ARTIFACT_RETRY_MS, again);
	else
		cbx_rest_cut(call);
}

/* RFC 6266: a name for those that read no other, and the name. */
static void add_disposition(struct cbx_http_conn *c, const char *path)
{
	_cleanup_buf_ struct cbx_buf plain = { 0 }, text = { 0 };
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (const char *p = name; *p; p++) {
		bool safe = (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
			    strchr("-._", *p);

		cbx_buf_addc(&plain, safe ? *p : '_');
		cbx_buf_addf(&text, safe ? "%c" : "%%%02X", (unsigned char)*p);
	}
	cbx_buf_addf(&plain, "\"; filename*=UTF-8''%s", cbx_buf_str(&text));
	text.len = 0;
	cbx_buf_addf(&text, "attachment; filename=\"%s", cbx_buf_str(&plain));
	cbx_http_add_header(c, "Content-Disposition", cbx_buf_str(&text));
}

static void begin(struct cbx_rest_call *call, const cJSON *about, int ranged)
{
	const char *type = cbx_json_text(about, "mime_type"), *path = cbx_json_text(about, "path");
	char range[96];

	if (ranged > 0) {
		snprintf(range, sizeof(range), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, call->offset, call->end - 1,
			 cbx_json_u64(about, "size"));
		cbx_http_add_header(call->conn, "Content-Range", range);
	}
	cbx_http_add_header(call->conn, "Accept-Ranges", "bytes");
	cbx_http_add_header(call->conn, "Cache-Control", "private, no-store");
	cbx_http_add_header(call->conn, "Referrer-Policy", "no-referrer");
	cbx_http_add_header(call->conn, "X-Content-Type-Options", "nosniff");
	cbx_http_add_header(call->conn, "Content-Security-Policy", "sandbox; default-src 'none'");
	add_disposition(call->conn, path ? path : "artifact");
	call->streaming = true;
	cbx_http_stream_begin(call->conn, ranged > 0 ? 206 : 200, type ? type : "application/octet-stream",
			      (int64_t)(call->end - call->offset));
	if (call->conn->head.method == CBX_HTTP_HEAD || call->offset == call->end) {
		cbx_rest_end(call);
		return;
	}
	cbx_http_conn_drain(call->conn, drained);
	ask_piece(call);
}

static void found(struct cbx_artifact_op *op, const cJSON *about, const void *p, size_t n, const struct cbx_err *err)
{
	struct cbx_rest_call *call = call_of(op);
	uint64_t size, part;
	char text[64];
	int ranged;

	if (err) {
		cbx_rest_fail(call, err);
		return;
	}
	size = cbx_json_u64(about, "size");
	ranged = cbx_rest_range(cbx_http_header(call->conn, "Range"), size, &call->offset, &part);
	if (ranged < 0) {
		snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
		cbx_http_add_header(call->conn, "Content-Range", text);
		cbx_rest_answer(call, 416, cbx_json_new_obj());
		return;
	}
	call->end = ranged ? call->offset + part : size;
	begin(call, about, ranged);
}

int cbx_rest_get_artifact(struct cbx_rest_call *call, struct cbx_err *err)
{
	const char *query = call->conn->head.query, *id = call->target.session_id;
	char expires[24] = "", signature[80] = "";
	int r = cbx_rest_query(query, "expires", expires, sizeof(expires), err);

	if (r >= 0)
		r = cbx_rest_query(query, "signature", signature, sizeof(signature), err);
	if (r >= 0)
		r = cbx_artifact_check_link(call->rest->engine, id, expires, signature, err);
	return r < 0 ? r : cbx_artifact_read(&call->caller, true, id, 0, 0, artifact_op(call, found), err);
}
