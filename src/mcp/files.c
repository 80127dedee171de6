/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the tools that look at files: list_files and read_file. The engine hands out one part at a time;
 * a call asks for the next one until it has what it wants, or what fits into an answer. Names and contents are hostile:
 * they are bounded here, made valid UTF-8, and control characters in names stay out of texts.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/internal.h"
#include "sandbox/init-protocol.h"

#define LIST_BYTES KIB(300) /* of names in one answer, as JSON at its worst */

int cbx_mcp_arg_file_session(struct cbx_mcp_call *call, const cJSON *args, const char *key, struct cbx_session **ret,
			     struct cbx_err *err)
{
	const char *path = cbx_mcp_str_of(args, key), *id = NULL;
	int r = cbx_json_get_str(args, "session_id", &id, err);
	struct cbx_mcp_uri uri;

	if (r < 0 || id || !path || !cbx_starts_with(path, "codebox://"))
		return r < 0 ? r : cbx_mcp_arg_session(call, args, ret, err);
	uri = cbx_mcp_uri_parse(path);
	r = uri.kind == CBX_URI_FILE ? cbx_session_find(call->mcp->engine, uri.session_id, ret, err)
				     : cbx_mcp_arg_session(call, args, ret, err);
	if (r >= 0)
		snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(*ret));
	cbx_mcp_uri_release(&uri);
	return r;
}

int cbx_mcp_arg_path(struct cbx_mcp_call *call, const cJSON *args, const char *key, char **ret, struct cbx_err *err)
{
	const char *path = NULL;
	struct cbx_mcp_uri uri;
	int r = cbx_json_get_str(args, key, &path, err);

	if (r <= 0 || !path[0])
		return r < 0 ? r : cbx_refuse(err, "invalid_argument", EINVAL, "%s: it is missing; pass a path", key);
	if (!cbx_starts_with(path, "codebox://")) {
		*ret = cbx_xstrdup(path);
		return 0;
	}
	uri = cbx_mcp_uri_parse(path);
	if (uri.kind == CBX_URI_FILE && strcmp(uri.session_id, call->session_id) == 0)
		*ret = take_ptr(&uri.path);
	else
		r = cbx_refuse(err, "invalid_argument", EINVAL,
			       "%s: %.200s is not the address of a file of session %s", key, path, call->session_id);
	cbx_mcp_uri_release(&uri);
	return r < 0 ? r : 0;
}

/* Below /workspace, or NULL: a file elsewhere has no address. */
const char *cbx_mcp_workspace_path(const char *path)
{
	while (cbx_starts_with(path, "./"))
		path += 2;
	if (cbx_starts_with(path, "/workspace/"))
		path += strlen("/workspace/");
	return path[0] == '/' || strcmp(path, "..") == 0 || cbx_starts_with(path, "../") || strstr(path, "/../") ||
			       cbx_ends_with(path, "/..")
		       ? NULL
		       : path;
}

void cbx_mcp_clean_name(struct cbx_buf *out, const char *name)
{
	size_t at = out->len;

	cbx_utf8_append(out, name, strlen(name));
	for (; at < out->len; at++)
		if ((unsigned char)out->data[at] < 0x20 || out->data[at] == 0x7f)
			out->data[at] = '?';
}

/* ---- list_files ---- */

struct listing {
	char *path;
	bool recursive, more, cut;
	uint64_t offset, count;
	size_t bytes, chars; /* of the answer's structure, estimated from above, and of its text */
	cJSON *files;
	struct cbx_buf text;
};

static void listing_free(void *p)
{
	struct listing *l = p;

	free(l->path);
	cJSON_Delete(l->files);
	cbx_buf_release(&l->text);
	free(l);
}

static cJSON *list_input(void)
{
	cJSON *props = cbx_json_new_obj(), *p;

	cbx_mcp_schema_session(props);
	cbx_mcp_schema_property(props, "path", "string", "The directory; /workspace if left out.");
	cbx_mcp_schema_property(props, "recursive", "boolean", "List the files of all directories below it, too.");
	p = cbx_mcp_schema_property(props, "offset", "integer", "Entries to leave out: the next part of a long list.");
	cbx_json_set_u64(p, "minimum", 0);
	return cbx_mcp_schema_object(props, NULL, true);
}

static cJSON *list_output(void)
{
	static const char *const required[] = { "session_id", "path", "files", NULL };
	static const char *const in_file[] = { "path", "type", "size", NULL };
	cJSON *p = cbx_json_new_obj(), *q = cbx_json_new_obj();

	cbx_mcp_schema_property(q, "path", "string", "As other tools take it.");
	cbx_mcp_schema_property(q, "type", "string", "file, directory, link or other.");
	cbx_mcp_schema_property(q, "size", "integer", "Bytes.");
	cbx_mcp_schema_property(q, "modified", "string", "When, in UTC.");
	cbx_mcp_schema_property(q, "mime_type", "string", "What a file's name says of its contents.");
	cbx_mcp_schema_property(q, "uri", "string", "Its address as a resource.");
	cbx_mcp_schema_property(p, "session_id", "string", "The session.");
	cbx_mcp_schema_property(p, "path", "string", "The directory.");
	cbx_json_set(cbx_mcp_schema_property(p, "files", "array", "What is in it."), "items",
		     cbx_mcp_schema_object(q, in_file, true));
	cbx_mcp_schema_property(p, "next_offset", "integer", "There are more: pass this as offset.");
	cbx_mcp_schema_property(p, "message", "string", "What is missing from the list, and why.");
	return cbx_mcp_schema_object(p, required, true);
}

static const char *type_of(uint32_t mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : "other";
}

static void add_line(struct cbx_buf *out, const struct cbx_init_entry *e, const char *path)
{
	char size[32];

	cbx_mcp_clean_name(out, path);
	cbx_format_size(e->st.size, size);
	if (S_ISREG(e->st.mode))
		cbx_buf_addf(out, "  %s\n", size);
	else
		cbx_buf_adds(out, S_ISDIR(e->st.mode) ? "/\n" : S_ISLNK(e->st.mode) ? "  (link)\n" : "  (special)\n");
}

/* False: there is no room, in the text or in the structure; a client may look at one of them only. */
static bool list_add(struct cbx_mcp_call *call, struct listing *l, const struct cbx_init_entry *e, const char *name)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };
	_cleanup_free_ char *path = NULL;
	time_t seconds = (time_t)(e->st.mtime_ns / 1000000000);
	const char *type = type_of(e->st.mode), *below;
	char when[40] = "";
	struct tm tm;
	size_t chars;
	cJSON *o;

	if (strcmp(l->path, ".") == 0)
		path = cbx_xstrdup(name);
	else
		path = cbx_xasprintf("%s%s%s", l->path, cbx_ends_with(l->path, "/") ? "" : "/", name);
	add_line(&line, e, path);
	chars = cbx_utf8_count(line.data, line.len);
	if (l->count >= CBX_LIST_MAX || l->bytes >= LIST_BYTES || (l->count && l->chars + chars > CBX_TEXT_CHARS))
		return false;
	cbx_buf_add(&l->text, line.data, line.len);
	l->chars += chars;
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "path", path);
	cbx_json_set_str(o, "type", type);
	cbx_json_set_u64(o, "size", e->st.size <= INT64_MAX ? e->st.size : INT64_MAX);
	if (gmtime_r(&seconds, &tm) && strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm))
		cbx_json_set_str(o, "modified", when);
	if (S_ISREG(e->st.mode)) {
		cbx_json_set_str(o, "mime_type", cbx_mime_by_name(name));
		below = cbx_mcp_workspace_path(path);
		if (below) {
			_cleanup_buf_ struct cbx_buf uri = { 0 };

			cbx_file_uri(&uri, call->session_id, below);
			cbx_json_set_str(o, "uri", cbx_buf_str(&uri));
		}
	}
	cbx_json_push(l->files, o);
	l->bytes += 200 + 9 * strlen(path);
	l->count++;
	return true;
}

static void list_end(struct cbx_mcp_call *call)
{
	struct listing *l = call->state;
	struct cbx_buf *text = &l->text;
	cJSON *s = cbx_json_new_obj();

	cbx_json_set_str(s, "session_id", call->session_id);
	cbx_json_set_str(s, "path", l->path);
	cbx_json_set(s, "files", take_ptr(&l->files));
	if (!text->len)
		cbx_buf_adds(text, l->offset ? "No more files.\n" : "No files.\n");
	if (l->more) {
		cbx_json_set_u64(s, "next_offset", l->offset + l->count);
		cbx_buf_addf(text, "[there are more: pass offset %llu, or a directory further down]\n",
			     (unsigned long long)(l->offset + l->count));
	}
	if (l->cut) {
		cbx_json_set_str(s, "message", "There is too much below this directory to look at all of it.");
		cbx_buf_adds(text, "[too much is below this directory to look at all of it]\n");
	}
	text->data[--text->len] = '\0';
	cbx_mcp_call_end(call, text->data, s);
}

static void listed(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err);

static int list_ask(struct cbx_mcp_call *call, struct cbx_err *err)
{
	struct listing *l = call->state;
	struct cbx_session *session;
	int r = cbx_session_find(call->mcp->engine, call->session_id, &session, err);

	if (r < 0)
		return r;
	if (l->recursive)
		return cbx_session_file_scan(session, l->path, l->offset + l->count, listed, call, err);
	return cbx_session_file_list(session, l->path, l->offset + l->count, listed, call, err);
}

/* True: ask for more. */
static bool list_take(struct cbx_mcp_call *call, const struct cbx_file_reply *reply)
{
	struct listing *l = call->state;
	size_t at = 0;

	for (int64_t i = 0; i < reply->value; i++) {
		struct cbx_init_entry e;

		memcpy(&e, (const char *)reply->data + at, sizeof(e));
		l->more = !list_add(call, l, &e, (const char *)reply->data + at + sizeof(e));
		if (l->more)
			return false;
		at += e.entry_len;
	}
	l->cut = reply->cut;
	l->more = reply->more;
	return reply->more && reply->value > 0;
}

static void listed(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_mcp_call *call = arg;
	struct cbx_err failed;

	if (call->mcp && err) {
		cbx_mcp_call_refuse(call, err);
	} else if (call->mcp && list_take(call, reply)) {
		if (list_ask(call, &failed) >= 0)
			return;
		cbx_mcp_call_refuse(call, &failed);
	} else if (call->mcp) {
		list_end(call);
	}
	cbx_mcp_call_unref(call);
}

static void list(struct cbx_mcp_call *call, const cJSON *args)
{
	struct listing *l = cbx_xcalloc(1, sizeof(*l));
	struct cbx_session *session;
	struct cbx_err err;
	int r = cbx_mcp_arg_file_session(call, args, "path", &session, &err);

	call->state = l;
	call->release = listing_free;
	l->files = cbx_json_new_arr();
	if (r >= 0)
		r = cbx_json_get_bool(args, "recursive", &l->recursive, &err);
	if (r >= 0)
		r = cbx_json_get_u64(args, "offset", 0, 1ull << 53, &l->offset, &err);
	if (r >= 0 && cJSON_GetObjectItemCaseSensitive(args, "path"))
		r = cbx_mcp_arg_path(call, args, "path", &l->path, &err);
	if (!l->path)
		l->path = cbx_xstrdup(".");
	if (r >= 0)
		r = list_ask(call, &err);
	if (r < 0)
		cbx_mcp_call_refuse(call, &err);
	else
		call->refs++;
}

const struct cbx_mcp_tool cbx_mcp_list_files = {
	.name = "list_files",
	.title = "List files",
	.description = "List the files of a session: one directory, or with recursive all files below it (.codebox, "
		       "where long outputs are kept, is left out then). run_code's answer already names the files that "
		       "a cell has changed.",
	.hints = CBX_TOOL_READ_ONLY | CBX_TOOL_IDEMPOTENT,
	.input = list_input,
	.output = list_output,
	.call = list,
};
