/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what an interpreter may send to codeboxd. The frame reader, what checks a frame (interp/frames.c,
 * bundle.c, query.c) and what makes it part of an execution (execution/apply.c) are the real ones; what comes between
 * them (interp/channel.c) is done here as it is there, upon structs of this program.
 *
 * The first byte says how the rest is to be read: odd: a stream of frames, in pieces of a few bytes; even: lines, each
 * of which becomes one frame, which lets the fuzzer work on the contents.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/frame.h"
#include "base/json.h"
#include "execution/internal.h"
#include "fuzz.h"
#include "interp/bundle.h"
#include "interp/interp.h"

#define FRAME_MAX KIB(64) /* smaller than the engine's, so that the ceiling is met */

static bool ended;

/* A tree, or the text of one. */
static bool holds_object(const cJSON *v)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err;

	if (!cJSON_IsRaw(v))
		return cJSON_IsObject(v);
	return cbx_json_parse(v->valuestring, strlen(v->valuestring), &doc, &err) >= 0 && cJSON_IsObject(doc.root);
}

static void on_progress(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress)
{
	const cJSON *bundle = progress->bundle;
	const cJSON *data = cbx_json_member(bundle, "data"), *v;

	if (progress->what != CBX_SHOWN)
		return;
	must(cJSON_IsObject(data) && data->child);
	must(holds_object(cbx_json_member(bundle, "metadata")));
	cJSON_ArrayForEach (v, data) {
		must(strchr(v->string, '/'));
		if (!cbx_mime_binary(v->string) || !cJSON_IsString(v))
			continue;
		{
			_cleanup_buf_ struct cbx_buf bytes = { 0 };

			must(cbx_base64_decode(&bytes, v->valuestring, strlen(v->valuestring)) >= 0);
		}
	}
	must(x->ndisplays <= CBX_DISPLAYS_MAX && x->display_bytes <= CBX_DISPLAY_BYTES_MAX);
}

static void check_text(const char *s, size_t max)
{
	if (!s)
		return;
	must(strlen(s) <= max + 64); /* the note about what was omitted */
	must(cbx_utf8_valid(s, strlen(s)));
}

static void check(const struct cbx_execution *x)
{
	check_text(x->result, KIB(64));
	check_text(x->error_name, 200);
	check_text(x->error_value, KIB(8));
	check_text(x->error_traceback, KIB(48));
	must((size_t)cJSON_GetArraySize(x->displays) == x->ndisplays);
}

/* As interp/channel.c does it. False: no more frames are taken. */
static bool said(struct cbx_cells *c, const struct cbx_frame *f)
{
	struct cbx_interp *in = &c->first.interp;

	if (f->kind == CBX_FRAME_READY) {
		must(f->language && f->version && f->type);
		in->was_ready = true;
		return true;
	}
	must(f->id >= 1);
	if (!in->was_ready)
		return false;
	if (f->kind >= CBX_FRAME_IS_COMPLETE)
		return cbx_query_answered(&in->queries, f->id, f->kind - CBX_FRAME_IS_COMPLETE + CBX_ASK_IS_COMPLETE, f->json) >= 0;
	if (f->id > in->last_cell || (f->kind == CBX_FRAME_DONE && f->id != in->cell))
		return false;
	if (f->kind == CBX_FRAME_DONE) {
		must(f->status <= CBX_DONE_EXIT && !ended);
		in->cell = 0;
		ended = true;
	} else if (f->id == in->cell) {
		cbx_apply_frame(c->running, f);
	}
	return true;
}

static bool take(struct cbx_cells *c, struct cbx_buf *rx)
{
	for (;;) {
		_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
		struct cbx_err err = { 0 };
		struct cbx_frame frame;
		const char *p = NULL;
		size_t n = 0;
		int r = cbx_frame_peek(rx, FRAME_MAX, &p, &n, &err);

		if (r < 0)
			must(r == -EMSGSIZE && err.code);
		if (r <= 0)
			return r == 0;
		must(n <= FRAME_MAX && p >= rx->data && p + n <= rx->data + rx->len);
		r = cbx_json_parse(p, n, &doc, &err);
		cbx_buf_drop(rx, CBX_FRAME_HEADER + n);
		if (r < 0 || !cJSON_IsObject(doc.root))
			return false;
		r = cbx_frame_decode(doc.root, &frame, &err);
		if (r < 0)
			must(err.msg[0]);
		if (r < 0 || !said(c, &frame))
			return false;
	}
}

static void feed_stream(struct cbx_cells *c, const uint8_t *p, size_t n, size_t piece)
{
	_cleanup_buf_ struct cbx_buf rx = { 0 };

	while (n > 0) {
		size_t k = n < piece ? n : piece;

		cbx_buf_add(&rx, p, k);
		p += k;
		n -= k;
		if (!take(c, &rx))
			return;
	}
}

static void feed_lines(struct cbx_cells *c, const char *p, size_t n)
{
	_cleanup_buf_ struct cbx_buf rx = { 0 };
	const char *end = p + n;

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t k = (size_t)((nl ? nl : end) - p);

		cbx_frame_append(&rx, p, k);
		p += k + (nl ? 1 : 0);
	}
	take(c, &rx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cbx_execution x = { .id = 2, .status = CBX_RUNNING };
	struct cbx_cells c = { .next_id = 4, .running = &x };
	struct cbx_ops ops = { 0 };
	struct cbx_watch_op watch = { .op.ops = &ops, .on_progress = on_progress };
	struct cbx_err err;

	if (size == 0)
		return 0;
	ended = false;
	cbx_queries_init(&c.first.interp.queries);
	c.first.interp.queries.last = 2;
	c.first.interp.last_cell = 3;
	c.first.interp.cell = x.id;
	/* Most inputs start behind the "ready", and some between two cells. */
	if (data[0] & 2)
		c.first.interp.was_ready = true;
	if ((data[0] & 12) == 12)
		c.first.interp.cell = 0;
	x.cells = c.first.cells = &c;
	x.seat = &c.first;
	x.displays = cbx_json_new_arr();
	TAILQ_INIT(&x.watchers);
	must(cbx_execution_watch(&x, &watch, &err) >= 0);
	if (data[0] & 1)
		feed_stream(&c, data + 1, size - 1, (size_t)1 + (data[0] >> 4));
	else
		feed_lines(&c, (const char *)data + 1, size - 1);
	check(&x);
	cbx_watch_free(&x);
	cJSON_Delete(x.displays);
	free(x.result);
	free(x.error_name);
	free(x.error_value);
	free(x.error_traceback);
	return 0;
}
