/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a cell shows and prints becomes part of its execution here, within bounds, and reaches
 * those who watch it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "execution/internal.h"
#include "execution/spill.h"
#include "interp/bundle.h"

#define NAME_MAX_BYTES 200 /* an exception's name */
#define VALUE_MAX      KIB(8)
#define TRACEBACK_MAX  KIB(48)
#define RESULT_MAX     KIB(64)

/* A copy of at most max bytes; the middle is omitted, since a traceback says most at its two ends. */
static char *copy_text(const char *s, size_t max)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };
	size_t n = strlen(s), head, tail;
	char count[32];

	if (n <= max)
		return cbx_xstrdup(s);
	for (head = max / 4; head > 0 && ((unsigned char)s[head] & 0xc0) == 0x80; head--)
		;
	for (tail = n - (max - max / 4); tail < n && ((unsigned char)s[tail] & 0xc0) == 0x80; tail++)
		;
	cbx_format_count(tail - head, count);
	cbx_buf_add(&b, s, head);
	cbx_buf_addf(&b, "\n[… %s bytes omitted …]\n", count);
	cbx_buf_add(&b, s + tail, n - tail);
	return cbx_buf_steal(&b);
}

static void set_text(char **at, const char *s, size_t max)
{
	free(*at);
	*at = s ? copy_text(s, max) : NULL;
}

static void clear(struct cbx_execution *x)
{
	bool at_once = !x->clear_pending;

	x->clear_pending = false;
	cbx_output_clear(&x->output);
	if (x->spill)
		cbx_spill_restart(x->spill);
	cJSON_Delete(x->displays);
	x->displays = cbx_json_new_arr();
	x->ndisplays = x->display_bytes = 0;
	cbx_watch_tell(x, &(struct cbx_progress){ .what = CBX_CLEARED, .at_once = at_once });
}

/* Carry out a clear_output(wait=True) that is due. False: a watcher has ended the cell. */
static bool clear_waiting(struct cbx_execution *x)
{
	if (x->clear_pending)
		clear(x);
	return x->cells->running == x && !x->finishing;
}

/* ---- what it prints ---- */

static void pass_on(struct cbx_execution *x, enum cbx_stream stream, const char *p, size_t n)
{
	if (n == 0)
		return;
	if (x->spill)
		cbx_spill_add(x->spill, p, n);
	cbx_watch_tell(
		x, &(struct cbx_progress){
			   .what = CBX_PRINTED, .stream = stream == CBX_STDOUT ? "stdout" : "stderr", .p = p, .n = n });
}

static void spill_run(void *arg, enum cbx_stream stream, const char *p, size_t n)
{
	cbx_spill_add(arg, p, n);
}

void cbx_apply_print(struct cbx_execution *x, enum cbx_stream stream, const char *p, size_t n)
{
	struct cbx_output *o = &x->output;

	if (!clear_waiting(x))
		return;
	/* The last moment at which memory still holds all of it; cuts at characters cost a few bytes of room. */
	if (!x->spill && !x->streamed && cbx_output_total(o) + n + 16 > o->head_max + o->tail_max) {
		x->spill = cbx_spill_new(x->cells->box, x->id);
		cbx_output_each(o, spill_run, x->spill);
	}
	cbx_output_feed(o, stream, p, n, &p, &n);
	pass_on(x, stream, p, n);
}

void cbx_apply_flush(struct cbx_execution *x)
{
	for (enum cbx_stream i = CBX_STDOUT; i < CBX_STREAMS; i++) {
		const char *p;
		size_t n;

		cbx_output_flush(&x->output, i, &p, &n);
		pass_on(x, i, p, n);
	}
}

/* ---- what it shows ---- */

/* What was shown is shown anew, in its place; false: this cell has shown nothing of that name. */
static bool update(struct cbx_execution *x, const cJSON *bundle, size_t bytes)
{
	size_t before, n = cbx_bundle_updates(x->displays, bundle, &before);

	if (n == 0)
		return false;
	if (x->display_bytes - before + n * bytes > CBX_DISPLAY_BYTES_MAX) {
		x->displays_dropped++;
		return true;
	}
	cbx_bundle_update(x->displays, bundle);
	x->display_bytes = x->display_bytes - before + n * bytes;
	cbx_watch_tell(x, &(struct cbx_progress){ .what = CBX_SHOWN, .bundle = bundle });
	return true;
}

static void show(struct cbx_execution *x, const struct cbx_frame *f)
{
	bool is_result = f->kind == CBX_FRAME_RESULT, is_update = cbx_bundle_is_update(f->json);
	size_t bytes, invalid;
	const cJSON *plain;
	cJSON *bundle;

	if (f->has_count) {
		x->has_count = true;
		x->count = f->count;
	}
	if (!clear_waiting(x))
		return;
	if (!is_update && (x->ndisplays >= CBX_DISPLAYS_MAX || x->display_bytes >= CBX_DISPLAY_BYTES_MAX)) {
		x->displays_dropped++;
		return;
	}
	bundle = cbx_bundle_from_frame(f->json, &bytes, &invalid);
	x->displays_invalid += invalid;
	if (!bundle)
		return;
	cbx_bundle_mark(bundle, f->json, cbx_output_total(&x->output));
	if (is_update && update(x, bundle, bytes)) {
		cJSON_Delete(bundle);
		return;
	}
	plain = cbx_json_member(cbx_json_member(bundle, "data"), "text/plain");
	if (is_result && cJSON_IsString(plain))
		set_text(&x->result, plain->valuestring, RESULT_MAX);
	if (x->ndisplays >= CBX_DISPLAYS_MAX || x->display_bytes + bytes > CBX_DISPLAY_BYTES_MAX) {
		x->displays_dropped++;
		cJSON_Delete(bundle);
		return;
	}
	x->ndisplays++;
	x->display_bytes += bytes;
	cbx_json_set_bool(bundle, "is_result", is_result);
	cbx_json_push(x->displays, bundle);
	cbx_watch_tell(x, &(struct cbx_progress){ .what = CBX_SHOWN, .bundle = bundle });
}

static void asked(struct cbx_execution *x, const struct cbx_frame *f)
{
	_cleanup_free_ char *prompt = NULL;

	if (!x->asks || x->asking || !x->feed)
		return;
	x->asking = true;
	prompt = copy_text(f->prompt, VALUE_MAX);
	cbx_watch_tell(
		x, &(struct cbx_progress){ .what = CBX_ASKED, .prompt = prompt, .password = f->password });
}

static void judged(struct cbx_execution *x, const struct cbx_frame *f)
{
	if (!x->ruled || x->judged)
		return;
	x->judged = true;
	x->refused = f->refused;
	cbx_watch_tell(x, &(struct cbx_progress){ .what = CBX_JUDGED, .refused = f->refused });
}

void cbx_apply_frame(struct cbx_execution *x, const struct cbx_frame *f)
{
	if (f->kind == CBX_FRAME_ERROR) {
		set_text(&x->error_name, f->name, NAME_MAX_BYTES);
		set_text(&x->error_value, f->value, VALUE_MAX);
		set_text(&x->error_traceback, f->traceback, TRACEBACK_MAX);
	} else if (f->kind == CBX_FRAME_CLEAR && f->wait) {
		x->clear_pending = true;
	} else if (f->kind == CBX_FRAME_CLEAR) {
		x->clear_pending = false;
		clear(x);
	} else if (f->kind == CBX_FRAME_JUDGED) {
		judged(x, f);
	} else if (f->kind == CBX_FRAME_ASK) {
		asked(x, f);
	} else {
		show(x, f);
	}
}
