/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: write_file and upload_file decode what they were given and write it part by part, each after the
 * answer to the one before. When a part fails (the disk is full) the file holds what was written so far, and the error
 * says how much that is.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "tools/internal.h"
#include "tools/uri.h"

#define PART 57344 /* with the longest path, still one message to the sandbox */

struct writing {
	char *path;
	bool append;
	struct cbx_buf data;
	size_t done;
	struct cbx_download download;
	struct cbx_tool_call *call; /* of that */
};

static void writing_free(void *p)
{
	struct writing *w = p;

	cbx_tool_download_end(&w->download);
	free(w->path);
	cbx_buf_release(&w->data);
	free(w);
}

static void write_end(struct cbx_tool_call *call)
{
	struct writing *w = call->state;
	const char *below = cbx_workspace_path(w->path);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	cJSON *s = cbx_json_new_obj();
	char size[32];

	cbx_json_set_str(s, "session_id", call->session_id);
	cbx_json_set_str(s, "path", w->path);
	cbx_json_set_u64(s, "written", w->done);
	cbx_json_set_str(s, "mime_type", cbx_mime_by_name(w->path));
	if (below) {
		_cleanup_json_ cJSON *files = cbx_json_new_arr();
		_cleanup_buf_ struct cbx_buf uri = { 0 };
		cJSON *file = cbx_json_new_obj();

		cbx_file_uri(&uri, call->session_id, below);
		cbx_json_set_str(s, "uri", cbx_buf_str(&uri));
		cbx_json_set_str(file, "path", below);
		cbx_json_push(files, file);
		cbx_engine_files_changed(&call->client->caller, call->session_id, files);
	}
	cbx_format_size(w->done, size);
	cbx_buf_addf(&text, "%s %s to ", w->append ? "Appended" : "Wrote", size);
	cbx_escape(&text, w->path);
	cbx_buf_addf(&text, " in session %s.", call->session_id);
	if (call->notice)
		cbx_buf_addf(&text, " %s", call->notice);
	cbx_tool_end(call, cbx_buf_str(&text), s);
}

static void written(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err);

static int write_ask(struct cbx_tool_call *call, struct cbx_err *err)
{
	struct writing *w = call->state;
	size_t n = w->data.len - w->done < PART ? w->data.len - w->done : PART;
	unsigned flags = w->done || w->append ? 0 : CBX_FILE_TRUNCATE;
	struct cbx_session *session;
	int r = cbx_session_find(&call->client->caller, call->session_id, &session, err);

	if (r < 0)
		return r;
	call->file = (struct cbx_file_op){ .op.ops = &call->client->caller.ops, .done = written };
	return cbx_session_file_write(session, w->path, w->append ? UINT64_MAX : w->done, flags,
				      cbx_buf_str(&w->data) + w->done, n, &call->file, err);
}

static void written(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);
	struct writing *w = call->state;
	struct cbx_err failed = { 0 };

	if (!err)
		w->done += reply->len;
	if (err)
		failed = *err;
	else if (w->done < w->data.len && reply->len == 0)
		cbx_refuse(&failed, "file_error", EIO, "%.300s: no more can be written; remove files of the session",
			   w->path);
	else if (w->done < w->data.len && write_ask(call, &failed) >= 0)
		return;
	if (failed.code) {
		if (w->done)
			cbx_wrap(&failed, "after %zu of %zu bytes had been written", w->done, w->data.len);
		cbx_tool_refuse(call, &failed);
	} else {
		write_end(call);
	}
}

/* As run_code does it: a file may come before the first cell. */
static int target(struct cbx_tool_call *call, const cJSON *args, const char *key, struct cbx_session **ret,
		  struct cbx_err *err)
{
	const char *id = NULL, *path = cbx_json_text(args, key);
	int r = cbx_json_get_str(args, "session_id", &id, err);

	if (r < 0 || id || !call->own || (path && cbx_starts_with(path, "codebox://")))
		return r < 0 ? r : cbx_tool_arg_file_session(call, args, key, ret, err);
	return cbx_tool_own_session(call, ret, err);
}

/* What both tools do once the arguments are read; r < 0: err says what is wrong with them. */
static void begin(struct cbx_tool_call *call, int r, struct cbx_err *err)
{
	if (r >= 0)
		r = write_ask(call, err);
	if (r < 0)
		cbx_tool_refuse(call, err);
}

static struct writing *writing_new(struct cbx_tool_call *call)
{
	call->state = cbx_xcalloc(1, sizeof(struct writing));
	call->release = writing_free;
	return call->state;
}

static int decode(struct writing *w, const char *key, const char *base64, struct cbx_err *err)
{
	if (cbx_base64_decode(&w->data, base64, strlen(base64)) < 0)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "%s: not base64; use the standard alphabet, padded, without spaces", key);
	return 0;
}

/* ---- write_file ---- */

void cbx_tool_write_file(struct cbx_tool_call *call, const cJSON *args)
{
	const char *content = NULL, *encoding = "text";
	struct writing *w = writing_new(call);
	struct cbx_session *session;
	struct cbx_err err;
	int r = target(call, args, "path", &session, &err);

	if (r >= 0)
		r = cbx_tool_arg_path(call, args, "path", &w->path, &err);
	if (r >= 0)
		r = cbx_json_get_str(args, "content", &content, &err);
	if (r >= 0)
		r = cbx_json_get_str(args, "encoding", &encoding, &err);
	if (r >= 0)
		r = cbx_json_get_bool(args, "append", &w->append, &err);
	if (r >= 0 && !content)
		r = cbx_refuse(&err, "invalid_argument", EINVAL, "missing argument: content; pass what to write");
	if (r >= 0 && strcmp(encoding, "base64") == 0)
		r = decode(w, "content", content, &err);
	else if (r >= 0 && strcmp(encoding, "text") == 0)
		cbx_buf_adds(&w->data, content);
	else if (r >= 0)
		r = cbx_refuse(&err, "invalid_argument", EINVAL,
			       "encoding: \"%.40s\" is unknown; use \"text\" or \"base64\"", encoding);
	begin(call, r, &err);
}

/* ---- upload_file ---- */

static void downloaded(struct cbx_download *d, size_t bytes, const struct cbx_err *err)
{
	struct writing *w = cbx_container_of(d, struct writing, download);

	w->done = bytes;
	if (err)
		cbx_tool_refuse(w->call, err);
	else
		write_end(w->call);
}

static int download(struct cbx_tool_call *call, struct cbx_session *session, const char *url, struct cbx_err *err)
{
	struct writing *w = call->state;

	w->call = call;
	w->download.done = downloaded;
	return cbx_tool_download(call, session, url, w->path, "fetch the file yourself and pass its bytes as content_base64",
				 &w->download, err);
}

void cbx_tool_upload_file(struct cbx_tool_call *call, const cJSON *args)
{
	const char *content = NULL, *url = NULL;
	struct writing *w = writing_new(call);
	struct cbx_session *session;
	struct cbx_err err;
	int r = target(call, args, "filename", &session, &err);

	if (r >= 0)
		r = cbx_tool_arg_path(call, args, "filename", &w->path, &err);
	if (r >= 0)
		r = cbx_json_get_str(args, "content_base64", &content, &err);
	if (r >= 0)
		r = cbx_json_get_str(args, "url", &url, &err);
	if (r >= 0 && url && content)
		r = cbx_refuse(&err, "invalid_argument", EINVAL, "content_base64 and url: give one of them");
	if (r >= 0 && url)
		r = download(call, session, url, &err);
	if (r >= 0 && url)
		return;
	if (r >= 0 && !content)
		r = cbx_refuse(&err, "invalid_argument", EINVAL,
			       "missing argument: content_base64; pass the file's bytes as base64, or a url");
	if (r >= 0)
		r = decode(w, "content_base64", content, &err);
	begin(call, r, &err);
}
