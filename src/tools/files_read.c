/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: read_file collects a range of a file, part by part, and says it in the form that suits it: an
 * image as an image, text as text, all else as base64. What does not fit into one message is left for the next call,
 * and the answer says where that begins.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "render/render.h"
#include "tools/internal.h"

enum form { FORM_AUTO, FORM_TEXT, FORM_BASE64, FORM_IMAGE };

static const char *const form_names[] = { NULL, "text", "base64", "image" };

struct reading {
	char *path;
	uint64_t offset, length, size;
	bool length_given, ended;
	enum form form;
	struct cbx_buf data;
};

static void reading_free(void *p)
{
	struct reading *d = p;

	free(d->path);
	cbx_buf_release(&d->data);
	free(d);
}

/* The type that the first bytes show, when it is one that clients take as an image. */
static const char *image_type(const struct cbx_buf *b)
{
	static const char *const types[] = { "image/png", "image/jpeg", "image/gif", "image/webp" };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (cbx_render_image_sound(types[i], b))
			return types[i];
	return NULL;
}

/* Bytes of text at the front: all of it, or up to a character that the end has cut. 0: it is not text. */
static size_t text_length(const struct reading *d)
{
	for (size_t cut = 0; cut < 4 && cut <= d->data.len; cut++) {
		if (cut && d->offset + d->data.len >= d->size)
			break;
		if (cbx_utf8_valid(cbx_buf_str(&d->data), d->data.len - cut) &&
		    !memchr(cbx_buf_str(&d->data), '\0', d->data.len - cut))
			return d->data.len - cut;
	}
	return 0;
}

static void choose_form(struct reading *d, const char **ret_image)
{
	*ret_image = d->offset == 0 && d->data.len >= d->size ? image_type(&d->data) : NULL;
	if (d->form == FORM_AUTO && *ret_image) {
		d->form = FORM_IMAGE;
	} else if (d->form != FORM_BASE64) {
		size_t n = text_length(d);

		if (n || d->data.len == 0) {
			d->form = FORM_TEXT;
			d->data.len = n;
		} else if (d->form == FORM_AUTO) {
			d->form = FORM_BASE64;
		}
	}
}

/* The blocks and the structured content of a part of n bytes. */
static cJSON *build(struct cbx_tool_call *call, const struct reading *d, size_t n, const char *image)
{
	cJSON *result = cbx_json_new_obj(), *content = cbx_json_new_arr(), *s = cbx_json_new_obj();
	const char *mime = image ? image : cbx_mime_by_name(d->path);
	_cleanup_buf_ struct cbx_buf value = { 0 };
	_cleanup_buf_ struct cbx_buf facts = { 0 }, path = { 0 };
	uint64_t next = d->offset + n;

	if (d->form == FORM_TEXT)
		cbx_utf8_append(&value, cbx_buf_str(&d->data), n);
	else
		cbx_base64_encode(&value, cbx_buf_str(&d->data), n);
	cbx_json_set_str(s, "session_id", call->session_id);
	cbx_clean(&path, d->path); /* the file's text is as it is; its name is as list_files has it */
	cbx_json_set_str(s, "path", cbx_buf_str(&path));
	cbx_json_set_u64(s, "size", d->size);
	cbx_json_set_u64(s, "offset", d->offset);
	cbx_json_set_u64(s, "length", n);
	if (next < d->size)
		cbx_json_set_u64(s, "next_offset", next);
	cbx_json_set_str(s, "mime_type", mime);
	cbx_json_set_str(s, "encoding", form_names[d->form]);
	if (d->form != FORM_IMAGE)
		cbx_json_set_str(s, "content", cbx_buf_str(&value));
	cbx_buf_adds(&facts, "[");
	cbx_escape(&facts, d->path);
	cbx_buf_addf(&facts, ": bytes %llu to %llu of %llu, %s%s", (unsigned long long)d->offset,
		     (unsigned long long)next, (unsigned long long)d->size, mime,
		     d->form == FORM_BASE64 ? ", as base64" : "");
	if (next < d->size)
		cbx_buf_addf(&facts, "; there is more: continue with offset %llu", (unsigned long long)next);
	cbx_buf_adds(&facts, "]");
	if (d->form != FORM_IMAGE)
		cbx_json_set_str(cbx_render_add_block(content, "text"), "text", cbx_buf_str(&value));
	if (d->form != FORM_TEXT || next < d->size || d->offset)
		cbx_json_set_str(cbx_render_add_block(content, "text"), "text", cbx_buf_str(&facts));
	if (d->form == FORM_IMAGE)
		cbx_render_add_image(content, mime, cbx_buf_str(&value));
	cbx_json_set(result, "content", content);
	if (call->structured)
		cbx_json_set(result, "structuredContent", s);
	else
		cJSON_Delete(s);
	cbx_json_set_bool(result, "isError", false);
	return result;
}

static void read_end(struct cbx_tool_call *call)
{
	_cleanup_buf_ struct cbx_buf printed = { 0 };
	struct reading *d = call->state;
	const char *image;

	choose_form(d, &image);
	for (;;) {
		_cleanup_json_ cJSON *result = build(call, d, d->data.len, image);

		printed.len = 0;
		cbx_json_print(&printed, result);
		if (printed.len <= call->room || d->data.len < 16)
			break;
		/* Control characters, or a batch's small room: half of it, in a form that can be cut. */
		d->data.len /= 2;
		if (d->form == FORM_IMAGE)
			d->form = FORM_BASE64;
		if (d->form == FORM_TEXT && text_length(d))
			d->data.len = text_length(d);
	}
	cbx_tool_end_text(call, &printed);
}

static void was_read(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err);

static int read_ask(struct cbx_tool_call *call, struct cbx_err *err)
{
	struct reading *d = call->state;
	struct cbx_session *session;
	int r = cbx_session_find(&call->client->caller, call->session_id, &session, err);

	if (r < 0)
		return r;
	call->file = (struct cbx_file_op){ .op.ops = &call->client->caller.ops, .done = was_read };
	return cbx_session_file_read(session, d->path, d->offset + d->data.len, (size_t)(d->length - d->data.len),
				     &call->file, err);
}

/* True: ask for more. */
static bool read_take(struct reading *d, const struct cbx_file_reply *reply)
{
	bool first = d->data.len == 0;

	cbx_buf_add(&d->data, reply->data, reply->len);
	d->size = reply->size;
	if (first && !d->length_given && d->offset == 0 && d->form == FORM_AUTO && d->size <= CBX_READ_MAX &&
	    image_type(&d->data))
		d->length = d->size;
	return reply->len > 0 && d->data.len < d->length && d->offset + d->data.len < d->size;
}

static void was_read(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);
	struct cbx_err failed;

	if (err) {
		cbx_tool_refuse(call, err);
	} else if (read_take(call->state, reply)) {
		if (read_ask(call, &failed) >= 0)
			return;
		cbx_tool_refuse(call, &failed);
	} else {
		read_end(call);
	}
}

void cbx_tool_read_file(struct cbx_tool_call *call, const cJSON *args)
{
	struct reading *d = cbx_xcalloc(1, sizeof(*d));
	const char *encoding = NULL;
	struct cbx_session *session;
	struct cbx_err err;
	int r = cbx_tool_arg_file_session(call, args, "path", &session, &err);

	call->state = d;
	call->release = reading_free;
	d->length = CBX_READ_DEFAULT;
	if (r >= 0)
		r = cbx_tool_arg_path(call, args, "path", &d->path, &err);
	if (r >= 0)
		r = cbx_json_get_u64(args, "offset", 0, INT64_MAX >> 10, &d->offset, &err);
	if (r >= 0)
		r = cbx_json_get_u64(args, "length", 1, 1ull << 53, &d->length, &err);
	d->length_given = r > 0;
	if (d->length > CBX_READ_MAX)
		d->length = CBX_READ_MAX;
	if (r >= 0)
		r = cbx_json_get_str(args, "encoding", &encoding, &err);
	if (r >= 0 && encoding) {
		d->form = strcmp(encoding, "text") == 0 ? FORM_TEXT : strcmp(encoding, "base64") == 0 ? FORM_BASE64 : 0;
		if (!d->form)
			r = cbx_refuse(&err, "invalid_argument", EINVAL,
				       "encoding: \"%.40s\" is unknown; use \"text\" or \"base64\", or omit it",
				       encoding);
	}
	if (r >= 0)
		r = read_ask(call, &err);
	if (r < 0)
		cbx_tool_refuse(call, &err);
}
