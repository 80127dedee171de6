/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the answer about an execution. When it wrote a few small image files and showed no image, these
 * are fetched first, so that whoever asked sees them; then all is printed. What is needed for that is copied, since the
 * engine may have forgotten the execution by the time that the last file has come.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "render/render.h"
#include "tools/internal.h"

struct cbx_tool_fetch {
	struct cbx_tool_call *call;
	cJSON *x, *displays;
	struct cbx_render_image images[CBX_INLINE_IMAGES_MAX];
	size_t n, at;
};

void cbx_tool_fetch_free(struct cbx_tool_fetch *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++)
		cbx_buf_release(&f->images[i].bytes);
	cJSON_Delete(f->x);
	cJSON_Delete(f->displays);
	free(f);
}

/* Images among the changed files; none when there are too many. Names that are not UTF-8 cannot be asked for so. */
static size_t pick(struct cbx_tool_fetch *f)
{
	const cJSON *file;
	size_t n = 0;

	cJSON_ArrayForEach(file, cbx_json_member(f->x, "files")) {
		const char *path = cbx_json_text(file, "path"), *mime = cbx_json_text(file, "mime_type");
		uint64_t size = cbx_json_u64(file, "size");

		if (!path || !mime || !cbx_render_image_sendable(mime) || size == 0 || size > CBX_INLINE_IMAGE_MAX ||
		    strstr(path, "\xef\xbf\xbd"))
			continue;
		if (n == CBX_INLINE_IMAGES_MAX)
			return 0;
		f->images[n].path = path;
		f->images[n].mime = mime;
		f->images[n++].size = (size_t)size;
	}
	return n;
}

static bool shows_image(const cJSON *displays)
{
	const cJSON *d, *v;

	cJSON_ArrayForEach(d, displays)
		cJSON_ArrayForEach(v, cbx_json_member(d, "data"))
			if (cbx_render_image_sendable(v->string))
				return true;
	return false;
}

static void got(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err);

/* Ask for the next part; false: all is there that will ever be. */
static bool ask(struct cbx_tool_fetch *f)
{
	struct cbx_session *session;
	struct cbx_err err;

	if (cbx_session_find(&f->call->client->caller, f->call->session_id, &session, &err) < 0)
		return false;
	f->call->file = (struct cbx_file_op){ .op.ops = &f->call->client->caller.ops, .done = got };
	for (; f->at < f->n; f->at++) {
		struct cbx_render_image *m = &f->images[f->at];

		if (m->bytes.len < m->size && cbx_session_file_read(session, m->path, m->bytes.len,
								    m->size - m->bytes.len, &f->call->file, &err) >= 0)
			return true;
	}
	return false;
}

static void print(struct cbx_tool_fetch *f, const cJSON *displays)
{
	_cleanup_buf_ struct cbx_buf result = { 0 };
	struct cbx_tool_call *call = f->call;

	cbx_render_execution(&result, &(const struct cbx_render_execution){
					      .x = f->x,
					      .displays = displays,
					      .images = f->images,
					      .nimages = f->n,
					      .session_id = call->session_id,
					      .notice = call->notice,
					      .name_session = call->default_session,
					      .structured = call->structured,
					      .room = call->room,
				      });
	cbx_tool_end_text(call, &result);
}

static void got(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);
	struct cbx_tool_fetch *f = call->fetch;
	struct cbx_render_image *m = &f->images[f->at];

	if (!err)
		cbx_buf_add(&m->bytes, reply->data, reply->len);
	if (err || reply->len == 0 || m->bytes.len >= m->size)
		f->at++;
	if (!ask(f))
		print(f, f->displays);
}

void cbx_tool_outcome(struct cbx_tool_call *call, struct cbx_execution *x)
{
	const struct cbx_err *trouble = cbx_engine_trouble(call->client->caller.engine);
	const cJSON *displays = cbx_execution_displays(x);
	struct cbx_tool_fetch *f;

	if (trouble && cbx_execution_status(x) == CBX_KILLED) {
		cbx_tool_refuse(call, trouble);
		return;
	}
	f = call->fetch = cbx_xcalloc(1, sizeof(*f));
	f->call = call;
	f->x = cbx_execution_to_json(x, false);
	if (!shows_image(displays) && (f->n = pick(f))) {
		f->displays = cJSON_Duplicate(displays, 1);
		if (ask(f))
			return;
		f->n = 0;
	}
	print(f, displays);
}
