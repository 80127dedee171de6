/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the file tools of mcp-code-sandbox. Each asks the session for one part after another. The path
 * "/", which is their default, is the session's workspace: nothing else can be written.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "profiles/mcp-code-sandbox.h"

#define WORKSPACE "/workspace"
#define PART	  57344 /* with the longest path, still one message to the sandbox */

struct transfer {
	const char *failed, *done_text; /* what an error begins with; what a success says */
	char *path;			/* as it was given, for the answer */
	struct cbx_buf data;
	uint64_t at;
	cJSON *files;
	int (*ask)(struct cbx_tool_call *call, struct cbx_session *session, struct transfer *t, struct cbx_err *err);
};

static void transfer_free(void *p)
{
	struct transfer *t = p;

	free(t->path);
	cbx_buf_release(&t->data);
	cJSON_Delete(t->files);
	free(t);
}

static void fail(struct cbx_tool_call *call, const struct cbx_err *err)
{
	struct transfer *t = call->state;

	cbx_mcs_error(call, t->failed, err->msg);
}

static struct transfer *transfer_new(struct cbx_tool_call *call, const char *failed)
{
	struct transfer *t = call->state = cbx_xcalloc(1, sizeof(*t));

	call->release = transfer_free;
	t->failed = failed;
	return t;
}

static void next(struct cbx_tool_call *call,
		 void (*done)(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err))
{
	struct transfer *t = call->state;
	struct cbx_session *session;
	struct cbx_err err;
	int r = cbx_profile_find(call, &session, &err);

	call->file = (struct cbx_file_op){ .op.ops = &call->client->caller.ops, .done = done };
	if (r >= 0)
		r = t->ask(call, session, t, &err);
	if (r < 0)
		fail(call, &err);
}

static void end(struct cbx_tool_call *call, const char *key, cJSON *value)
{
	struct transfer *t = call->state;
	cJSON *o = cbx_json_new_obj();
	struct cbx_err err;

	cbx_json_set_str(o, "path", t->path);
	cbx_json_set(o, key, value);
	if (cbx_profile_fits(call, o)) {
		cbx_profile_end_json(call, o);
		return;
	}
	cJSON_Delete(o);
	cbx_refuse(&err, "file_too_large", EFBIG, "%.300s: more than an answer can hold; use execute_code", t->path);
	fail(call, &err);
}

/* ---- list_files ---- */

static bool is_root(const char *path)
{
	return path[0] == '/' && !path[strspn(path, "/")];
}

static int ask_list(struct cbx_tool_call *call, struct cbx_session *session, struct transfer *t, struct cbx_err *err)
{
	return cbx_session_file_list(session, is_root(t->path) ? WORKSPACE : t->path, t->at, &call->file, err);
}

static void listed(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);
	struct transfer *t = call->state;
	const char *dir = is_root(t->path) ? WORKSPACE : t->path;

	if (err) {
		fail(call, err);
		return;
	}
	for (size_t i = 0; i < reply->nentries && t->at < CBX_LIST_MAX; i++, t->at++) {
		const struct cbx_file_entry *e = &reply->entries[i];
		_cleanup_free_ char *path = cbx_xasprintf("%s%s%s", dir, cbx_ends_with(dir, "/") ? "" : "/", e->name);
		cJSON *o = cbx_json_new_obj();

		cbx_json_set_str(o, "name", e->name);
		cbx_json_set_str(o, "type", S_ISDIR(e->mode) ? "dir" : "file");
		cbx_json_set_str(o, "path", path);
		cbx_json_push(t->files, o);
	}
	if (reply->more && reply->nentries && t->at < CBX_LIST_MAX)
		next(call, listed);
	else
		end(call, "files", take_ptr(&t->files));
}

static void list_files(struct cbx_tool_call *call, const cJSON *args)
{
	const char *path = "/";
	struct transfer *t;
	struct cbx_err err;

	if (cbx_mcs_session(call, args) < 0)
		return;
	t = transfer_new(call, "Error listing files: ");
	t->files = cbx_json_new_arr();
	t->ask = ask_list;
	if (cbx_json_get_str(args, "path", &path, &err) < 0) {
		fail(call, &err);
		return;
	}
	t->path = cbx_xstrdup(path);
	next(call, listed);
}

/* ---- read_file ---- */

static int ask_read(struct cbx_tool_call *call, struct cbx_session *session, struct transfer *t, struct cbx_err *err)
{
	return cbx_session_file_read(session, t->path, t->data.len, CBX_FILE_CHUNK, &call->file, err);
}

static void read_part(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);
	struct transfer *t = call->state;
	size_t most = call->room / 2;
	struct cbx_err large;

	if (err) {
		fail(call, err);
	} else if (reply->size > most || t->data.len + reply->len > most) {
		cbx_refuse(&large, "file_too_large", EFBIG,
			   "%.300s: %llu bytes are more than an answer can hold; use execute_code", t->path,
			   (unsigned long long)reply->size);
		fail(call, &large);
	} else if (reply->len) {
		cbx_buf_add(&t->data, reply->data, reply->len);
		next(call, read_part);
	} else if (memchr(cbx_buf_str(&t->data), '\0', t->data.len) ||
		   !cbx_utf8_valid(cbx_buf_str(&t->data), t->data.len)) {
		cbx_refuse(&large, "not_text", EILSEQ, "%.300s: not a text file; read it with execute_code", t->path);
		fail(call, &large);
	} else {
		end(call, "content", cJSON_CreateString(cbx_buf_str(&t->data)));
	}
}

static void read_file(struct cbx_tool_call *call, const cJSON *args)
{
	const char *path;
	struct transfer *t;
	struct cbx_err err;

	if (cbx_mcs_session(call, args) < 0)
		return;
	t = transfer_new(call, "Error reading file: ");
	t->ask = ask_read;
	if (cbx_profile_arg(args, "file_path", &path, &err) < 0) {
		fail(call, &err);
		return;
	}
	t->path = cbx_xstrdup(path);
	next(call, read_part);
}

/* ---- write_file, upload_file ---- */

static int ask_write(struct cbx_tool_call *call, struct cbx_session *session, struct transfer *t, struct cbx_err *err)
{
	size_t left = t->data.len - (size_t)t->at;

	return cbx_session_file_write(session, t->path, t->at, t->at ? 0 : CBX_FILE_TRUNCATE,
				      cbx_buf_str(&t->data) + t->at, left < PART ? left : PART, &call->file, err);
}

static void written(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);
	struct transfer *t = call->state;
	struct cbx_err stopped;

	if (err) {
		fail(call, err);
		return;
	}
	t->at += reply->len;
	if (t->at >= t->data.len) {
		end(call, "message", cJSON_CreateString(t->done_text));
	} else if (reply->len) {
		next(call, written);
	} else {
		cbx_refuse(&stopped, "file_error", EIO, "%.300s: no more can be written; remove files of the session",
			   t->path);
		fail(call, &stopped);
	}
}

/* Takes the path. */
static void write_text(struct cbx_tool_call *call, char *path, const char *content)
{
	struct transfer *t = call->state;

	t->path = path;
	t->ask = ask_write;
	cbx_buf_adds(&t->data, content);
	next(call, written);
}

static void write_file(struct cbx_tool_call *call, const cJSON *args)
{
	const char *path, *content;
	struct cbx_err err;

	if (cbx_mcs_session(call, args) < 0)
		return;
	transfer_new(call, "Error writing file: ")->done_text = "File written successfully";
	if (cbx_profile_arg(args, "file_path", &path, &err) < 0 || cbx_profile_arg(args, "content", &content, &err) < 0)
		fail(call, &err);
	else
		write_text(call, cbx_xstrdup(path), content);
}

static void upload_file(struct cbx_tool_call *call, const cJSON *args)
{
	const char *name, *content, *dir = "/";
	struct cbx_err err;

	if (cbx_mcs_session(call, args) < 0)
		return;
	transfer_new(call, "Error uploading file: ")->done_text = "File uploaded successfully";
	if (cbx_profile_arg(args, "file_name", &name, &err) < 0 ||
	    cbx_profile_arg(args, "file_content", &content, &err) < 0 ||
	    cbx_json_get_str(args, "destination_path", &dir, &err) < 0) {
		fail(call, &err);
		return;
	}
	if (is_root(dir))
		dir = WORKSPACE;
	write_text(call, cbx_xasprintf("%s%s%s", dir, cbx_ends_with(dir, "/") ? "" : "/", name), content);
}

/* ---- tables ---- */

/* clang-format off */
#define ID	       "\"session_id\":{\"title\":\"Session Id\",\"type\":\"string\"}"
#define STRING(key, title) ",\"" key "\":{\"title\":\"" title "\",\"type\":\"string\"}"
#define ROOT(key, title) ",\"" key "\":{\"default\":\"/\",\"title\":\"" title "\",\"type\":\"string\"}"
/* clang-format on */

const struct cbx_tool cbx_mcs_list_files = {
	.name = "list_files",
	.description = "List a directory of a sandbox; \"/\" is the workspace, /workspace.",
	.input = CBX_PROFILE_INPUT("list_files", "[\"session_id\"]", "{" ID ROOT("path", "Path") "}"),
	.call = list_files,
};

const struct cbx_tool cbx_mcs_read_file = {
	.name = "read_file",
	.description = "Read a text file of a sandbox. Paths that are not absolute are relative to /workspace.",
	.input = CBX_PROFILE_INPUT("read_file", "[\"session_id\",\"file_path\"]",
				   "{" ID STRING("file_path", "File Path") "}"),
	.call = read_file,
};

const struct cbx_tool cbx_mcs_write_file = {
	.name = "write_file",
	.description = "Write a text file into a sandbox, in /workspace or /tmp.",
	.input = CBX_PROFILE_INPUT("write_file", "[\"session_id\",\"file_path\",\"content\"]",
				   "{" ID STRING("file_path", "File Path") STRING("content", "Content") "}"),
	.call = write_file,
};

const struct cbx_tool cbx_mcs_upload_file = {
	.name = "upload_file",
	.description = "Put a text file into a directory of a sandbox; \"/\" is the workspace, /workspace.",
	.input = CBX_PROFILE_INPUT("upload_file", "[\"session_id\",\"file_name\",\"file_content\"]",
				   "{" ID STRING("file_name", "File Name") STRING("file_content", "File Content")
					   ROOT("destination_path", "Destination Path") "}"),
	.call = upload_file,
};
