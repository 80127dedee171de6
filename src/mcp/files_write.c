/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: write_file and upload_file decode what they were given and write it part by part, each after the
 * answer to the one before. When a part fails (the disk is full) the file holds what was written so far, and the error
 * says how much that is.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/internal.h"
#include "sandbox/init-protocol.h"

#define PART 57344 /* with the longest path, still one message to the sandbox */

struct writing {
	char *path;
	bool append;
	struct cbx_buf data;
	size_t done;
};

static void writing_free(void *p)
{
	struct writing *w = p;

	free(w->path);
	cbx_buf_release(&w->data);
	free(w);
}

static cJSON *written_output(void)
{
	static const char *const required[] = { "session_id", "path", "written", NULL };
	cJSON *p = cbx_json_new_obj();

	cbx_mcp_schema_property(p, "session_id", "string", "The session.");
	cbx_mcp_schema_property(p, "path", "string", "The file.");
	cbx_mcp_schema_property(p, "written", "integer", "Bytes that were written.");
	cbx_mcp_schema_property(p, "mime_type", "string", "What the name says of the contents.");
	cbx_mcp_schema_property(p, "uri", "string", "The file's address as a resource.");
	return cbx_mcp_schema_object(p, required, true);
}

static void write_end(struct cbx_mcp_call *call)
{
	struct writing *w = call->state;
	const char *below = cbx_mcp_workspace_path(w->path);
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
		cbx_mcp_files_changed(call->mcp, call->session_id, files);
	}
	cbx_format_size(w->done, size);
	cbx_buf_addf(&text, "%s %s to ", w->append ? "Appended" : "Wrote", size);
	cbx_mcp_clean_name(&text, w->path);
	cbx_buf_addf(&text, " in session %s.", call->session_id);
	if (call->notice)
		cbx_buf_addf(&text, " %s", call->notice);
	cbx_mcp_call_end(call, cbx_buf_str(&text), s);
}

static void written(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err);

static int write_ask(struct cbx_mcp_call *call, struct cbx_err *err)
{
	struct writing *w = call->state;
	size_t n = w->data.len - w->done < PART ? w->data.len - w->done : PART;
	unsigned flags = w->done || w->append ? 0 : CBX_INIT_WRITE_TRUNCATE;
	struct cbx_session *session;
	int r = cbx_session_find(call->mcp->engine, call->session_id, &session, err);

	if (r < 0)
		return r;
	return cbx_session_file_write(session, w->path, w->append ? UINT64_MAX : w->done, flags,
				      cbx_buf_str(&w->data) + w->done, n, written, call, err);
}

static void written(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_mcp_call *call = arg;
	struct writing *w = call->state;
	struct cbx_err failed = { 0 };

	if (!err)
		w->done += (size_t)reply->value;
	if (err)
		failed = *err;
	else if (w->done < w->data.len && reply->value == 0)
		cbx_refuse(&failed, "file_error", EIO, "%.300s: no more can be written", w->path);
	else if (w->done < w->data.len && call->mcp && write_ask(call, &failed) >= 0)
		return;
	if (call->mcp && failed.code) {
		if (w->done)
			cbx_wrap(&failed, "after %zu of %zu bytes had been written", w->done, w->data.len);
		cbx_mcp_call_refuse(call, &failed);
	} else if (call->mcp) {
		write_end(call);
	}
	cbx_mcp_call_unref(call);
}

/* As run_code does it: a file may come before the first cell. */
static int target(struct cbx_mcp_call *call, const cJSON *args, const char *key, struct cbx_session **ret,
		  struct cbx_err *err)
{
	const char *id = NULL, *path = cbx_mcp_str_of(args, key);
	int r = cbx_json_get_str(args, "session_id", &id, err);

	if (r < 0 || id || call->rev->modern || (path && cbx_starts_with(path, "codebox://")))
		return r < 0 ? r : cbx_mcp_arg_file_session(call, args, key, ret, err);
	r = cbx_mcp_default_session(call, ret, err);
	if (r < 0)
		return r;
	snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(*ret));
	call->mcp->default_used = true;
	return 0;
}

/* What both tools do once the arguments are read; r < 0: err says what is wrong with them. */
static void begin(struct cbx_mcp_call *call, int r, struct cbx_err *err)
{
	if (r >= 0)
		r = write_ask(call, err);
	if (r < 0)
		cbx_mcp_call_refuse(call, err);
	else
		call->refs++;
}

static struct writing *writing_new(struct cbx_mcp_call *call)
{
	call->state = cbx_xcalloc(1, sizeof(struct writing));
	call->release = writing_free;
	return call->state;
}

static int decode(struct writing *w, const char *key, const char *base64, struct cbx_err *err)
{
	if (cbx_base64_decode(&w->data, base64, strlen(base64)) < 0)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "%s: it is not base64 (standard alphabet, padded, without spaces)", key);
	return 0;
}

/* ---- write_file ---- */

static cJSON *write_input(void)
{
	static const char *const required[] = { "path", "content", NULL };
	cJSON *props = cbx_json_new_obj(), *p, *values = cbx_json_new_arr();

	cbx_mcp_schema_session(props);
	cbx_mcp_schema_property(props, "path", "string",
				"Relative to /workspace, or absolute; missing directories are made.");
	cbx_mcp_schema_property(props, "content", "string", "What to write.");
	p = cbx_mcp_schema_property(props, "encoding", "string", "How content is given; text if left out.");
	cbx_json_push_str(values, "text");
	cbx_json_push_str(values, "base64");
	cbx_json_set(p, "enum", values);
	cbx_mcp_schema_property(props, "append", "boolean", "Add to the end of the file instead of replacing it.");
	return cbx_mcp_schema_object(props, required, true);
}

static void write_file(struct cbx_mcp_call *call, const cJSON *args)
{
	const char *content = NULL, *encoding = "text";
	struct writing *w = writing_new(call);
	struct cbx_session *session;
	struct cbx_err err;
	int r = target(call, args, "path", &session, &err);

	if (r >= 0)
		r = cbx_mcp_arg_path(call, args, "path", &w->path, &err);
	if (r >= 0)
		r = cbx_json_get_str(args, "content", &content, &err);
	if (r >= 0)
		r = cbx_json_get_str(args, "encoding", &encoding, &err);
	if (r >= 0)
		r = cbx_json_get_bool(args, "append", &w->append, &err);
	if (r >= 0 && !content)
		r = cbx_refuse(&err, "invalid_argument", EINVAL, "content: it is missing; pass what to write");
	if (r >= 0 && strcmp(encoding, "base64") == 0)
		r = decode(w, "content", content, &err);
	else if (r >= 0 && strcmp(encoding, "text") == 0)
		cbx_buf_adds(&w->data, content);
	else if (r >= 0)
		r = cbx_refuse(&err, "invalid_argument", EINVAL,
			       "encoding: \"%.40s\" is not known; use \"text\" or \"base64\"", encoding);
	begin(call, r, &err);
}

const struct cbx_mcp_tool cbx_mcp_write_file = {
	.name = "write_file",
	.title = "Write a file",
	.description = "Write a file into a session, replacing it if it is there, or add to its end. For text, and for "
		       "data that is at hand; code can write files by itself in run_code.",
	.hints = CBX_TOOL_DESTRUCTIVE,
	.input = write_input,
	.output = written_output,
	.call = write_file,
};

/* ---- upload_file ---- */

static cJSON *upload_input(void)
{
	static const char *const required[] = { "filename", NULL };
	cJSON *props = cbx_json_new_obj();

	cbx_mcp_schema_session(props);
	cbx_mcp_schema_property(props, "filename", "string",
				"Name in the session, relative to /workspace; an existing file is replaced.");
	cbx_mcp_schema_property(props, "content_base64", "string", "The file's bytes as base64.");
	cbx_mcp_schema_property(props, "url", "string",
				"Not possible: sessions have no network. Pass content_base64.");
	return cbx_mcp_schema_object(props, required, true);
}

static void upload(struct cbx_mcp_call *call, const cJSON *args)
{
	const char *content = NULL, *url = NULL;
	struct writing *w = writing_new(call);
	struct cbx_session *session;
	struct cbx_err err;
	int r = target(call, args, "filename", &session, &err);

	if (r >= 0)
		r = cbx_mcp_arg_path(call, args, "filename", &w->path, &err);
	if (r >= 0)
		r = cbx_json_get_str(args, "content_base64", &content, &err);
	if (r >= 0)
		r = cbx_json_get_str(args, "url", &url, &err);
	if (r >= 0 && url)
		r = cbx_refuse(&err, "network_denied", EPERM,
			       "url: sessions have no network, and there is no network policy that allows a download; "
			       "fetch the file yourself and pass its bytes as content_base64");
	if (r >= 0 && !content)
		r = cbx_refuse(&err, "invalid_argument", EINVAL,
			       "content_base64: it is missing; pass the file's bytes as base64");
	if (r >= 0)
		r = decode(w, "content_base64", content, &err);
	begin(call, r, &err);
}

const struct cbx_mcp_tool cbx_mcp_upload_file = {
	.name = "upload_file",
	.title = "Upload a file",
	.description = "Put a file of any kind (a spreadsheet, an image, an archive) into a session, so that code can "
		       "open it under its name. Up to about 16 MiB at once; larger ones in parts, with write_file and "
		       "append.",
	.hints = CBX_TOOL_DESTRUCTIVE | CBX_TOOL_IDEMPOTENT,
	.input = upload_input,
	.output = written_output,
	.call = upload,
};
