/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: list_files. The engine hands out one part at a time;
 * a call asks for the next one until it has what it wants, or what fits into an answer. Names and contents are hostile:
 * they are bounded here, made valid UTF-8, and control characters in names stay out of texts.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "tools/internal.h"
#include "tools/uri.h"

#define LIST_BYTES KIB(300) /* of names in one answer, as JSON at its worst */

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

static const char *type_of(uint32_t mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : "other";
}

static void add_line(struct cbx_buf *out, const struct cbx_file_entry *e, const char *path)
{
	char size[32];

	cbx_escape(out, path);
	cbx_format_size(e->size, size);
	if (S_ISREG(e->mode))
		cbx_buf_addf(out, "  %s\n", size);
	else
		cbx_buf_adds(out, S_ISDIR(e->mode) ? "/\n" : S_ISLNK(e->mode) ? "  (link)\n" : "  (special)\n");
}

/* False: there is no room, in the text or in the structure; a client may look at one of them only. */
static bool list_add(struct cbx_tool_call *call, struct listing *l, const struct cbx_file_entry *e)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };
	_cleanup_free_ char *path = NULL;
	const char *type = type_of(e->mode), *below;
	size_t most = call->room / 3 < LIST_BYTES ? call->room / 3 : LIST_BYTES;
	char when[32];
	size_t chars;
	cJSON *o;

	if (strcmp(l->path, ".") == 0)
		path = cbx_xstrdup(e->name);
	else
		path = cbx_xasprintf("%s%s%s", l->path, cbx_ends_with(l->path, "/") ? "" : "/", e->name);
	add_line(&line, e, path);
	chars = cbx_utf8_count(line.data, line.len);
	if (l->count >= CBX_LIST_MAX || l->bytes >= most || (l->count && l->chars + chars > CBX_TEXT_CHARS))
		return false;
	cbx_buf_add(&l->text, line.data, line.len);
	l->chars += chars;
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "path", path);
	cbx_json_set_str(o, "type", type);
	cbx_json_set_u64(o, "size", e->size <= INT64_MAX ? e->size : INT64_MAX);
	if (cbx_format_time(e->mtime_ns / 1000000000, when))
		cbx_json_set_str(o, "modified", when);
	if (S_ISREG(e->mode)) {
		cbx_json_set_str(o, "mime_type", cbx_mime_by_name(e->name));
		below = cbx_workspace_path(path);
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

static void list_end(struct cbx_tool_call *call)
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
	cbx_tool_end(call, text->data, s);
}

static void listed(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err);

static int list_ask(struct cbx_tool_call *call, struct cbx_err *err)
{
	struct listing *l = call->state;
	struct cbx_session *session;
	int r = cbx_session_find(&call->client->caller, call->session_id, &session, err);

	if (r < 0)
		return r;
	call->file = (struct cbx_file_op){ .op.ops = &call->client->caller.ops, .done = listed };
	if (l->recursive)
		return cbx_session_file_scan(session, l->path, l->offset + l->count, &call->file, err);
	return cbx_session_file_list(session, l->path, l->offset + l->count, &call->file, err);
}

/* True: ask for more. */
static bool list_take(struct cbx_tool_call *call, const struct cbx_file_reply *reply)
{
	struct listing *l = call->state;

	for (size_t i = 0; i < reply->nentries; i++) {
		l->more = !list_add(call, l, &reply->entries[i]);
		if (l->more)
			return false;
	}
	l->cut = reply->cut;
	l->more = reply->more;
	return reply->more && reply->nentries > 0;
}

static void listed(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);
	struct cbx_err failed;

	if (err) {
		cbx_tool_refuse(call, err);
	} else if (list_take(call, reply)) {
		if (list_ask(call, &failed) >= 0)
			return;
		cbx_tool_refuse(call, &failed);
	} else {
		list_end(call);
	}
}

void cbx_tool_list_files(struct cbx_tool_call *call, const cJSON *args)
{
	struct listing *l = cbx_xcalloc(1, sizeof(*l));
	struct cbx_session *session;
	struct cbx_err err;
	int r = cbx_tool_arg_file_session(call, args, "path", &session, &err);

	call->state = l;
	call->release = listing_free;
	l->files = cbx_json_new_arr();
	if (r >= 0)
		r = cbx_json_get_bool(args, "recursive", &l->recursive, &err);
	if (r >= 0)
		r = cbx_json_get_u64(args, "offset", 0, 1ull << 53, &l->offset, &err);
	if (r >= 0 && cbx_json_member(args, "path"))
		r = cbx_tool_arg_path(call, args, "path", &l->path, &err);
	if (!l->path)
		l->path = cbx_xstrdup(".");
	if (r >= 0)
		r = list_ask(call, &err);
	if (r < 0)
		cbx_tool_refuse(call, &err);
}
