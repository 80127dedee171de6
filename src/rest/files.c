/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a file goes through init in pieces. One is read when the one before it has gone out to the
 * client, so that a file of any size takes the memory of a piece. A file that changes on the way is cut off: it is
 * better to have none than half of two. Files that are written are in memory, as a body that has a limit; all of their
 * names are judged before the first is written.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "rest/internal.h"

struct cbx_file_op *cbx_rest_file_op(struct cbx_rest_call *call,
				     void (*done)(struct cbx_file_op *op, const struct cbx_file_reply *reply,
						  const struct cbx_err *err))
{
	call->file = (struct cbx_file_op){ .op.ops = &call->caller.ops, .done = done };
	return &call->file;
}

/* Ask for what comes next; the session may have gone. */
#define NEXT(call, ask)                                                                                                \
	do {                                                                                                           \
		struct cbx_session *s_;                                                                                \
		struct cbx_err err_;                                                                                   \
		const char *id_ = (call)->target.session_id;                                                           \
		int r_ = cbx_session_find(&(call)->caller, id_, &s_, &err_);                                           \
                                                                                                                       \
		if (r_ >= 0)                                                                                           \
			r_ = ask(s_, &err_);                                                                           \
		if (r_ < 0)                                                                                            \
			cbx_rest_fail(call, &err_);                                                                    \
	} while (0)

/* ---- lists ---- */

static const char *type_of(uint32_t mode)
{
	return S_ISDIR(mode) ? "directory" : S_ISREG(mode) ? "file" : S_ISLNK(mode) ? "link" : "other";
}

static void time_of(int64_t ns, char out[32])
{
	cbx_rest_time(ns > 0 ? (uint64_t)ns / 1000000 : 0, out);
}

static void listed(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);
	cJSON *o, *list;

	if (err) {
		cbx_rest_fail(call, err);
		return;
	}
	o = cbx_json_new_obj();
	list = cbx_json_new_arr();
	cbx_json_set_str(o, "path", call->target.path);
	cbx_json_set(o, "files", list);
	for (size_t i = 0; i < reply->nentries; i++) {
		const struct cbx_file_entry *e = &reply->entries[i];
		cJSON *one = cbx_json_new_obj();
		char when[32];

		time_of(e->mtime_ns, when);
		cbx_json_set_str(one, "name", e->name);
		cbx_json_set_str(one, "type", type_of(e->mode));
		cbx_json_set_u64(one, "size", e->size);
		cbx_json_set_str(one, "modified_at", when);
		cbx_json_push(list, one);
	}
	cbx_json_set_u64(o, "next", reply->more ? call->offset + reply->nentries : 0);
	if (!reply->more)
		cJSON_DeleteItemFromObjectCaseSensitive(o, "next");
	cbx_rest_answer(call, 200, o);
}

/* ?path= of a directory, as target.path, which leaves room for `room` more bytes. */
static int directory(struct cbx_rest_call *call, size_t room, struct cbx_err *err)
{
	int r = cbx_rest_query(call->conn->head.query, "path", call->target.path, sizeof(call->target.path) - room,
			       err);

	if (r >= 0 && !cbx_rest_path_valid(call->target.path))
		r = cbx_refuse(err, "invalid_argument", EINVAL,
			       "path: it has an empty part, \".\" or \"..\"; write it without");
	return r;
}

/* Whether a directory is asked for as an archive: "format" says so, or, where that is not said, Accept. */
static int as_archive(const struct cbx_rest_call *call, struct cbx_err *err)
{
	char format[16];
	int r = cbx_rest_query(call->conn->head.query, "format", format, sizeof(format), err);

	if (r == 0)
		return cbx_http_head_accepts(&call->conn->head, "application/x-tar");
	if (r > 0 && strcmp(format, "tar") != 0 && strcmp(format, "json") != 0)
		return cbx_refuse(err, "invalid_argument", EINVAL, "format: \"%s\" is unknown; use json or tar",
				  format);
	return r < 0 ? r : format[0] == 't';
}

int cbx_rest_list_files(struct cbx_rest_call *call, struct cbx_err *err)
{
	const char *query = call->conn->head.query;
	char skip[24];
	struct cbx_session *s;
	int r = directory(call, 0, err);

	if (r >= 0)
		r = as_archive(call, err);
	if (r > 0)
		return cbx_rest_pack(call, err);
	if (r >= 0)
		r = cbx_rest_query(query, "skip", skip, sizeof(skip), err);
	if (r > 0)
		r = cbx_parse_u64(skip, "skip", 0, UINT32_MAX, &call->offset, err);
	if (r < 0 || !cbx_rest_session(call, &s))
		return r;
	return cbx_session_file_list(s, call->target.path[0] ? call->target.path : ".", call->offset,
				     cbx_rest_file_op(call, listed), err);
}

/* ---- reading ---- */

static void read_piece(struct cbx_rest_call *call);

static void drained(void *arg)
{
	struct cbx_rest_call *call = arg;

	if (!cbx_op_pending(&call->file.op))
		read_piece(call);
}

static void piece_read(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);

	if (err || !reply->len || reply->len > call->end - call->offset) {
		cbx_rest_cut(call); /* it has become shorter, or cannot be read: there is no way to say so now */
		return;
	}
	call->offset += reply->len;
	cbx_http_stream_send(call->conn, reply->data, reply->len);
	if (call->offset == call->end)
		cbx_rest_end(call);
}

static void read_piece(struct cbx_rest_call *call)
{
	uint64_t left = call->end - call->offset;
	size_t n = left < CBX_FILE_CHUNK ? (size_t)left : CBX_FILE_CHUNK;

#define ask(s, err)                                                                                                    \
	cbx_session_file_read(s, call->target.path, call->offset, n, cbx_rest_file_op(call, piece_read), err)
	NEXT(call, ask);
#undef ask
}

static void send_begin(struct cbx_rest_call *call, uint64_t size, int ranged)
{
	char text[96];

	if (ranged > 0) {
		snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, call->offset, call->end - 1,
			 size);
		cbx_http_add_header(call->conn, "Content-Range", text);
	}
	cbx_http_add_header(call->conn, "Accept-Ranges", "bytes");
	cbx_http_add_header(call->conn, "Cache-Control", "private, no-cache");
	/* What code wrote is not to be run as a page of this origin. */
	cbx_http_add_header(call->conn, "X-Content-Type-Options", "nosniff");
	cbx_http_add_header(call->conn, "Content-Security-Policy", "sandbox");
	call->streaming = true;
	cbx_http_stream_begin(call->conn, ranged > 0 ? 206 : 200, cbx_mime_by_name(call->target.path),
			      (int64_t)(call->end - call->offset));
	if (call->conn->head.method == CBX_HTTP_HEAD || call->offset == call->end) {
		cbx_rest_end(call);
		return;
	}
	cbx_http_conn_drain(call->conn, drained);
	read_piece(call);
}

/* "*", or this tag among others. */
static bool names_tag(const char *header, const char *tag)
{
	return header && (strcmp(header, "*") == 0 || strstr(header, tag));
}

static void reply_empty(struct cbx_rest_call *call, int status)
{
	cbx_rest_answer(call, status, cbx_json_new_obj());
}

static void found(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);
	const struct cbx_file_entry *e = reply ? reply->entries : NULL;
	const char *range = cbx_http_header(call->conn, "Range"), *if_range = cbx_http_header(call->conn, "If-Range");
	struct cbx_err wrong;
	uint64_t n, size;
	char tag[64];
	int ranged;

	if (err) {
		cbx_rest_fail(call, err);
		return;
	}
	if (!S_ISREG(e->mode)) {
		cbx_refuse(&wrong, "not_a_file", EISDIR, "%.300s: a %s; list it by ?path= of .../files",
			   call->target.path, type_of(e->mode));
		cbx_rest_fail(call, &wrong);
		return;
	}
	size = e->size;
	snprintf(tag, sizeof(tag), "\"%" PRIx64 "-%" PRIx64 "\"", (uint64_t)e->mtime_ns, size);
	cbx_http_add_header(call->conn, "ETag", tag);
	if (names_tag(cbx_http_header(call->conn, "If-None-Match"), tag)) {
		reply_empty(call, 304);
		return;
	}
	ranged = if_range && strcmp(if_range, tag) != 0 ? 0 : cbx_rest_range(range, size, &call->offset, &n);
	if (ranged < 0) {
		snprintf(tag, sizeof(tag), "bytes */%" PRIu64, size);
		cbx_http_add_header(call->conn, "Content-Range", tag);
		reply_empty(call, 416);
		return;
	}
	call->end = ranged ? call->offset + n : size;
	send_begin(call, size, ranged);
}

int cbx_rest_get_file(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_session *s;

	if (!cbx_rest_session(call, &s))
		return 0;
	cbx_session_touch(s);
	return cbx_session_file_stat(s, call->target.path, cbx_rest_file_op(call, found), err);
}

/* ---- writing ---- */

static void write_piece(struct cbx_rest_call *call);

void cbx_rest_add_news(struct cbx_rest_call *call)
{
	_cleanup_buf_ struct cbx_buf uri = { 0 };
	cJSON *o = cbx_json_new_obj();

	if (!call->written)
		call->written = cbx_json_new_arr();
	cbx_file_uri(&uri, call->target.session_id, call->target.path);
	cbx_json_set_str(o, "path", call->target.path);
	cbx_json_set_u64(o, "size", call->end);
	cbx_json_set_str(o, "mime_type", cbx_mime_by_name(call->target.path));
	cbx_json_set_str(o, "uri", uri.data);
	cbx_json_push(call->written, o);
}

void cbx_rest_tell_news(struct cbx_rest_call *call)
{
	if (call->written)
		cbx_engine_files_changed(&call->caller, call->target.session_id, call->written);
}

/* The next file of several; false: there are no more. */
static bool next_part(struct cbx_rest_call *call)
{
	const struct cbx_rest_part *part;

	if (call->part == call->nparts)
		return false;
	part = &call->parts[call->part++];
	snprintf(call->target.path + call->into, sizeof(call->target.path) - call->into, "%s%s", call->into ? "/" : "",
		 part->name);
	call->from = part->data;
	call->end = part->len;
	call->offset = 0;
	return true;
}

static void answer_written(struct cbx_rest_call *call)
{
	cJSON *o = cbx_json_new_obj(), *list, *one;
	const cJSON *news;

	if (!call->nparts) {
		cbx_json_set_str(o, "path", call->target.path);
		cbx_json_set_u64(o, "size", call->end);
		cbx_rest_answer(call, call->existed ? 200 : 201, o);
		return;
	}
	list = cbx_json_new_arr();
	cJSON_ArrayForEach(news, call->written) {
		one = cbx_json_new_obj();
		cbx_json_set_str(one, "path", cbx_json_text(news, "path"));
		cbx_json_set_u64(one, "size", cbx_json_u64(news, "size"));
		cbx_json_push(list, one);
	}
	cbx_json_set(o, "files", list);
	cbx_rest_answer(call, 200, o);
}

static void piece_written(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);

	if (err) {
		cbx_rest_tell_news(call);
		cbx_rest_fail(call, err);
		return;
	}
	call->offset += reply->len;
	if (call->offset == call->end) {
		cbx_rest_add_news(call);
		if (!next_part(call)) {
			cbx_rest_tell_news(call);
			answer_written(call);
			return;
		}
	}
	write_piece(call);
}

static void write_piece(struct cbx_rest_call *call)
{
	size_t left = (size_t)(call->end - call->offset), n = left < CBX_FILE_CHUNK ? left : CBX_FILE_CHUNK;
	unsigned flags = call->offset ? 0 : CBX_FILE_TRUNCATE;

	/* Room for the path is of the piece's. */
	if (n + strlen(call->target.path) > CBX_FILE_CHUNK)
		n = CBX_FILE_CHUNK - strlen(call->target.path);
#define ask(s, err)                                                                                                    \
	cbx_session_file_write(s, call->target.path, call->offset, flags, call->from + call->offset, n,                \
			       cbx_rest_file_op(call, piece_written), err)
	NEXT(call, ask);
#undef ask
}

static void looked(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);

	if (err && err->code != ENOENT) {
		cbx_rest_fail(call, err);
		return;
	}
	call->existed = !err;
	write_piece(call);
}

int cbx_rest_put_file(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_session *s;

	if (!cbx_rest_session(call, &s))
		return 0;
	cbx_session_touch(s);
	cbx_buf_add(&call->data, call->body, call->body_len);
	call->from = cbx_buf_str(&call->data);
	call->end = call->data.len;
	return cbx_session_file_stat(s, call->target.path, cbx_rest_file_op(call, looked), err);
}

static int read_parts(struct cbx_rest_call *call, struct cbx_err *err)
{
	char boundary[CBX_REST_BOUNDARY_MAX + 1];
	int r = cbx_rest_multipart_boundary(cbx_http_header(call->conn, "Content-Type"), boundary, err);

	if (r < 0)
		return r;
	cbx_buf_add(&call->data, call->body, call->body_len);
	call->parts = cbx_xcalloc(CBX_REST_PARTS_MAX, sizeof(*call->parts));
	return cbx_rest_multipart_read(boundary, cbx_buf_str(&call->data), call->data.len, call->parts,
				       CBX_REST_PARTS_MAX, &call->nparts, err);
}

int cbx_rest_post_files(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_session *s;
	int r = directory(call, CBX_REST_FILE_NAME_MAX + 1, err);

	if (r >= 0 && call->conn->in_pieces)
		return cbx_rest_unpack(call, err);
	if (r >= 0)
		r = read_parts(call, err);
	if (r < 0 || !cbx_rest_session(call, &s))
		return r;
	call->into = strlen(call->target.path);
	next_part(call);
	write_piece(call);
	return 0;
}

/* ---- removing ---- */

static void removed(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);
	cJSON *o;

	if (err) {
		cbx_rest_fail(call, err);
		return;
	}
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "path", call->target.path);
	cbx_json_set_str(o, "status", "deleted");
	cbx_rest_answer(call, 200, o);
}

int cbx_rest_delete_file(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_session *s;

	if (!cbx_rest_session(call, &s))
		return 0;
	cbx_session_touch(s);
	return cbx_session_file_remove(s, call->target.path, cbx_rest_file_op(call, removed), err);
}
