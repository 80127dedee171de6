/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what an interpreter may send to codeboxd. The frame reader and the handler of frames
 * (session/frames.c, bundle.c) are the real ones; the session that they act upon is a struct of this program, and the
 * few functions that act on processes are replaced by ones that keep its state as the engine would.
 *
 * The first byte says how the rest is to be read: odd: a stream of frames, in pieces of a few bytes; even: lines, each
 * of which becomes one frame, which lets the fuzzer work on the contents.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/frame.h"
#include "base/json.h"
#include "fuzz.h"
#include "session/bundle.h"
#include "session/internal.h"

#define FRAME_MAX KIB(64) /* smaller than the engine's, so that the ceiling is met */

static bool faulted;

void cbx_interp_fault(struct cbx_session *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s->interp.fault, sizeof(s->interp.fault), fmt, ap);
	va_end(ap);
	must(s->interp.fault[0]);
	faulted = true;
}

void cbx_interp_is_ready(struct cbx_session *s)
{
	must(s->language && s->version && s->kind);
	s->interp.state = CBX_INTERP_READY;
	s->interp.was_ready = true;
}

void cbx_execution_clear(struct cbx_execution *x)
{
	cJSON_Delete(x->displays);
	x->displays = cbx_json_new_arr();
	x->ndisplays = x->display_bytes = 0;
	x->clear_pending = false;
}

void cbx_execution_done(struct cbx_execution *x, const char *status)
{
	must(!x->finishing);
	must(status[0]);
	x->finishing = true;
}

bool cbx_group_on(const struct cbx_session *s)
{
	return false; /* so that what an interpreter says of its own use is looked at */
}

void cbx_query_answered(struct cbx_session *s, uint64_t id, bool completion, const cJSON *answer)
{
	must(id >= 1 && id < s->next_query);
	must(cJSON_IsObject(answer));
}

/* A tree, or the text of one. */
static bool holds_object(const cJSON *v)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err;

	if (!cJSON_IsRaw(v))
		return cJSON_IsObject(v);
	return cbx_json_parse(v->valuestring, strlen(v->valuestring), &doc, &err) >= 0 && cJSON_IsObject(doc.root);
}

void cbx_watch_display(struct cbx_execution *x, const cJSON *bundle, bool is_result)
{
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(bundle, "data"), *v;

	must(cJSON_IsObject(data) && data->child);
	must(holds_object(cJSON_GetObjectItemCaseSensitive(bundle, "metadata")));
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

static void check(const struct cbx_session *s, const struct cbx_execution *x)
{
	check_text(s->language, 64);
	check_text(s->version, 64);
	check_text(s->kind, 64);
	check_text(x->result, KIB(64));
	check_text(x->error_name, 200);
	check_text(x->error_value, KIB(8));
	check_text(x->error_traceback, KIB(48));
	must((size_t)cJSON_GetArraySize(x->displays) == x->ndisplays);
}

/* As interpreter.c does it. False: no more frames are taken. */
static bool take(struct cbx_session *s, struct cbx_buf *rx)
{
	for (;;) {
		_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
		struct cbx_err err = { 0 };
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
		cbx_frame_handle(s, doc.root);
		if (faulted)
			return false;
	}
}

static void feed_stream(struct cbx_session *s, const uint8_t *p, size_t n, size_t piece)
{
	_cleanup_buf_ struct cbx_buf rx = { 0 };

	while (n > 0) {
		size_t k = n < piece ? n : piece;

		cbx_buf_add(&rx, p, k);
		p += k;
		n -= k;
		if (!take(s, &rx))
			return;
	}
}

static void feed_lines(struct cbx_session *s, const char *p, size_t n)
{
	_cleanup_buf_ struct cbx_buf rx = { 0 };
	const char *end = p + n;

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t k = (size_t)((nl ? nl : end) - p);

		cbx_frame_append(&rx, p, k);
		p += k + (nl ? 1 : 0);
	}
	take(s, &rx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cbx_execution x = { .id = 2, .status = CBX_RUNNING };
	struct cbx_session s = { .next_execution = 4, .next_query = 3, .running = &x };

	if (size == 0)
		return 0;
	faulted = false;
	s.interp.state = CBX_INTERP_STARTING;
	/* Most inputs start behind the "ready", and some between two cells. */
	if (data[0] & 2)
		s.interp.was_ready = true;
	if ((data[0] & 12) == 12)
		s.running = NULL;
	x.session = &s;
	x.displays = cbx_json_new_arr();
	if (data[0] & 1)
		feed_stream(&s, data + 1, size - 1, (size_t)1 + (data[0] >> 4));
	else
		feed_lines(&s, (const char *)data + 1, size - 1);
	check(&s, &x);
	cJSON_Delete(x.displays);
	free(x.result);
	free(x.error_name);
	free(x.error_value);
	free(x.error_traceback);
	free(s.language);
	free(s.version);
	free(s.kind);
	return 0;
}
