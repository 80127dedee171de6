/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: every frame is checked here for what it is, when it comes and which cell it is about. User code
 * can write to the driver's socket, so a frame may be anything. What a correct driver never sends ends the interpreter,
 * with the reason in the cell's message. What a correct driver may send late (a display of a thread that outlived its
 * cell) is ignored.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/bundle.h"
#include "session/internal.h"

#define TEXT_MAX       64  /* language, version, kind */
#define NAME_MAX_BYTES 200 /* an exception's name */
#define VALUE_MAX      KIB(8)
#define TRACEBACK_MAX  KIB(48)
#define RESULT_MAX     KIB(64)

static const char *text_of(const cJSON *frame, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(frame, key);

	return cJSON_IsString(v) ? v->valuestring : NULL;
}

static bool number_of(const cJSON *frame, const char *key, double min, double max, double *ret)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(frame, key);

	if (!cJSON_IsNumber(v) || !(v->valuedouble >= min && v->valuedouble <= max))
		return false;
	*ret = v->valuedouble;
	return true;
}

/* A copy of at most max bytes; the middle is left out, since a traceback says most at its two ends. */
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

static void on_ready(struct cbx_session *s, const cJSON *frame)
{
	const char *language = text_of(frame, "language"), *version = text_of(frame, "version"),
		   *kind = text_of(frame, "kind");

	if (s->interp.state != CBX_INTERP_STARTING || !language || !version || !kind) {
		cbx_interp_fault(s, "it sent a \"ready\" that is wrong");
		return;
	}
	set_text(&s->language, language, TEXT_MAX);
	set_text(&s->version, version, TEXT_MAX);
	set_text(&s->kind, kind, TEXT_MAX);
	cbx_interp_is_ready(s);
}

/* The running cell when the frame is about it; NULL when it is about one that has ended, or wrong. */
static struct cbx_execution *cell_of(struct cbx_session *s, const cJSON *frame, const char *ev)
{
	struct cbx_execution *x = s->running;
	double id;

	if (!number_of(frame, "id", 1, (double)(s->next_execution - 1), &id)) {
		cbx_interp_fault(s, "it sent a \"%.20s\" about a cell that never was", ev);
		return NULL;
	}
	return x && !x->finishing && x->id == (uint64_t)id ? x : NULL;
}

static void on_bundle(struct cbx_session *s, const cJSON *frame, const char *ev, bool is_result)
{
	struct cbx_execution *x = cell_of(s, frame, ev);
	size_t bytes, invalid;
	const cJSON *plain;
	cJSON *bundle;
	double count;

	if (!x)
		return;
	if (!cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(frame, "data"))) {
		cbx_interp_fault(s, "it sent a \"%.20s\" without data", ev);
		return;
	}
	if (is_result && number_of(frame, "count", 0, 9e15, &count)) {
		x->has_count = true;
		x->count = (uint64_t)count;
	}
	if (x->clear_pending)
		cbx_execution_clear(x);
	if (x->ndisplays >= CBX_DISPLAYS_MAX || x->display_bytes >= CBX_DISPLAY_BYTES_MAX) {
		x->displays_dropped++;
		return;
	}
	bundle = cbx_bundle_from_frame(frame, &bytes, &invalid);
	x->displays_invalid += invalid;
	if (!bundle)
		return;
	plain = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(bundle, "data"), "text/plain");
	if (is_result && cJSON_IsString(plain))
		set_text(&x->result, plain->valuestring, RESULT_MAX);
	if (x->display_bytes + bytes > CBX_DISPLAY_BYTES_MAX) {
		x->displays_dropped++;
		cJSON_Delete(bundle);
		return;
	}
	x->ndisplays++;
	x->display_bytes += bytes;
	cbx_json_set_bool(bundle, "is_result", is_result);
	cbx_json_push(x->displays, bundle);
	cbx_watch_display(x, bundle, is_result);
}

static void on_error(struct cbx_session *s, const cJSON *frame)
{
	struct cbx_execution *x = cell_of(s, frame, "error");
	const char *name = text_of(frame, "name"), *value = text_of(frame, "value"),
		   *traceback = text_of(frame, "traceback");

	if (!x)
		return;
	if (!name || !value || !traceback) {
		cbx_interp_fault(s, "it sent an \"error\" that is wrong");
		return;
	}
	set_text(&x->error_name, name, NAME_MAX_BYTES);
	set_text(&x->error_value, value, VALUE_MAX);
	set_text(&x->error_traceback, traceback, TRACEBACK_MAX);
}

static void on_clear(struct cbx_session *s, const cJSON *frame)
{
	struct cbx_execution *x = cell_of(s, frame, "clear");

	if (!x)
		return;
	if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(frame, "wait")))
		x->clear_pending = true;
	else
		cbx_execution_clear(x);
}

/* What the interpreter says of its own use; the kernel's word, where there is one, comes at the cell's end. */
static void set_usage(const struct cbx_session *s, struct cbx_execution *x, const cJSON *frame)
{
	const cJSON *usage = cJSON_GetObjectItemCaseSensitive(frame, "usage");
	double cpu, peak, read, written;

	if (cbx_group_on(s) || !cJSON_IsObject(usage) || !number_of(usage, "cpu_us", 0, 9e15, &cpu) ||
	    !number_of(usage, "peak", 0, 9e15, &peak) || !number_of(usage, "read", 0, 9e15, &read) ||
	    !number_of(usage, "written", 0, 9e15, &written))
		return;
	x->usage = (struct cbx_cell_usage){ .source = "interpreter",
					    .cpu_us = (uint64_t)cpu,
					    .peak = (uint64_t)peak,
					    .peak_of = "process",
					    .has_io = true,
					    .io_read = (uint64_t)read,
					    .io_written = (uint64_t)written };
}

static void on_done(struct cbx_session *s, const cJSON *frame)
{
	static const char *const known[] = { "ok", "error", "interrupted", "exit" };
	struct cbx_execution *x = cell_of(s, frame, "done");
	const char *status = text_of(frame, "status");
	bool ok = false;
	double v;

	for (size_t i = 0; status && i < ARRAY_SIZE(known); i++)
		ok = ok || strcmp(status, known[i]) == 0;
	if (!x || !ok) {
		cbx_interp_fault(s, "it sent a \"done\" that is wrong");
		return;
	}
	if (number_of(frame, "count", 0, 9e15, &v)) {
		x->has_count = true;
		x->count = (uint64_t)v;
	}
	if (number_of(frame, "exit_code", -2147483648.0, 4294967295.0, &v) && strcmp(status, "exit") == 0) {
		x->has_exit_code = true;
		x->exit_code = (int64_t)v;
	}
	set_usage(s, x, frame);
	x->no_files = text_of(frame, "workspace") && strcmp(text_of(frame, "workspace"), "empty") == 0;
	cbx_execution_done(x, status);
}

static void on_answer(struct cbx_session *s, const cJSON *frame, bool completion)
{
	double id;

	if (!number_of(frame, "id", 1, (double)(s->next_query - 1), &id)) {
		cbx_interp_fault(s, "it answered a question that was not asked");
		return;
	}
	cbx_query_answered(s, (uint64_t)id, completion, frame);
}

void cbx_frame_handle(struct cbx_session *s, const cJSON *frame)
{
	const char *ev = text_of(frame, "ev");

	if (!ev) {
		cbx_interp_fault(s, "it sent a message without \"ev\"");
		return;
	}
	if (strcmp(ev, "ready") == 0) {
		on_ready(s, frame);
	} else if (!s->interp.was_ready) {
		cbx_interp_fault(s, "it sent \"%.20s\" before \"ready\"", ev);
	} else if (strcmp(ev, "display") == 0) {
		on_bundle(s, frame, ev, false);
	} else if (strcmp(ev, "result") == 0) {
		on_bundle(s, frame, ev, true);
	} else if (strcmp(ev, "error") == 0) {
		on_error(s, frame);
	} else if (strcmp(ev, "clear") == 0) {
		on_clear(s, frame);
	} else if (strcmp(ev, "done") == 0) {
		on_done(s, frame);
	} else if (strcmp(ev, "is_complete") == 0) {
		on_answer(s, frame, false);
	} else if (strcmp(ev, "complete") == 0) {
		on_answer(s, frame, true);
	} else {
		cbx_interp_fault(s, "it sent an unknown message \"%.20s\"", ev);
	}
}
