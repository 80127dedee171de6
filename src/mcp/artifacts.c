/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the answer about an execution. When it wrote a few small image files and showed no image, these
 * are fetched first, so that whoever asked sees them; then all is printed. What is needed for that is copied, since the
 * engine may have forgotten the execution by the time that the last file has come.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/internal.h"

struct fetch {
	struct cbx_mcp_call *call;
	cJSON *x, *displays;
	struct cbx_mcp_image images[CBX_INLINE_IMAGES_MAX];
	size_t n, at;
};

static void fetch_free(struct fetch *f)
{
	for (size_t i = 0; i < f->n; i++)
		cbx_buf_release(&f->images[i].bytes);
	cJSON_Delete(f->x);
	cJSON_Delete(f->displays);
	free(f);
}

/* Images among the changed files; none when there are too many. Names that are not UTF-8 cannot be asked for so. */
static size_t pick(struct fetch *f)
{
	const cJSON *file;
	size_t n = 0;

	cJSON_ArrayForEach(file, cJSON_GetObjectItemCaseSensitive(f->x, "files")) {
		const char *path = cbx_mcp_str_of(file, "path"), *mime = cbx_mcp_str_of(file, "mime_type");
		uint64_t size = cbx_mcp_num_of(file, "size");

		if (!path || !mime || !cbx_mcp_image_sendable(mime) || size == 0 || size > CBX_INLINE_IMAGE_MAX ||
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
		cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(d, "data"))
			if (cbx_mcp_image_sendable(v->string))
				return true;
	return false;
}

static void got(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err);

/* Ask for the next part; false: all is there that will ever be. */
static bool ask(struct fetch *f)
{
	struct cbx_session *session;
	struct cbx_err err;

	if (cbx_session_find(f->call->mcp->engine, f->call->session_id, &session, &err) < 0)
		return false;
	for (; f->at < f->n; f->at++) {
		struct cbx_mcp_image *m = &f->images[f->at];

		if (m->bytes.len < m->size &&
		    cbx_session_file_read(session, m->path, m->bytes.len, m->size - m->bytes.len, got, f, &err) >= 0)
			return true;
	}
	return false;
}

static void print(struct fetch *f)
{
	_cleanup_buf_ struct cbx_buf result = { 0 };
	struct cbx_mcp_call *call = f->call;

	cbx_mcp_result_print(&result, call, f->x, f->displays, f->images, f->n, cbx_mcp_call_room(call));
	cbx_mcp_call_end_text(call, &result);
}

static void got(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct fetch *f = arg;
	struct cbx_mcp_call *call = f->call;
	struct cbx_mcp_image *m = &f->images[f->at];

	if (!err)
		cbx_buf_add(&m->bytes, reply->data, reply->len);
	if (err || reply->value == 0 || m->bytes.len >= m->size)
		f->at++;
	if (call->mcp && ask(f))
		return;
	if (call->mcp)
		print(f);
	fetch_free(f);
	cbx_mcp_call_unref(call);
}

void cbx_mcp_outcome(struct cbx_mcp_call *call, struct cbx_execution *x)
{
	const struct cbx_err *trouble = cbx_engine_trouble(call->mcp->engine);
	const cJSON *displays = cbx_execution_displays(x);
	_cleanup_buf_ struct cbx_buf result = { 0 };
	struct fetch *f;

	if (trouble && cbx_execution_status(x) == CBX_KILLED) {
		cbx_mcp_call_refuse(call, trouble);
		return;
	}
	f = cbx_xcalloc(1, sizeof(*f));
	f->call = call;
	f->x = cbx_execution_to_json(x, false);
	if (!shows_image(displays) && (f->n = pick(f))) {
		f->displays = cJSON_Duplicate(displays, 1);
		call->refs++;
		if (ask(f))
			return;
		cbx_mcp_call_unref(call);
		f->n = 0;
	}
	cbx_mcp_result_print(&result, call, f->x, displays, NULL, 0, cbx_mcp_call_room(call));
	cbx_mcp_call_end_text(call, &result);
	fetch_free(f);
}
