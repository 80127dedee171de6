/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: each execution has an event of its own in which it starts, runs and ends, so that callbacks come
 * from the event loop as they do from the real engine.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "fake_state.h"

#ifndef FAKE_BYTES_MAX
#define FAKE_BYTES_MAX 4000000 /* of one fill or show: a fuzzer finds larger numbers */
#endif

void fake_execution_free(struct cbx_execution *x)
{
	TAILQ_REMOVE(&x->session->list, x, entry);
	event_free(x->ev);
	free(x->code);
	free(x->result);
	free(x->message);
	cbx_buf_release(&x->out);
	cbx_buf_release(&x->err);
	cbx_buf_release(&x->both);
	cJSON_Delete(x->displays);
	cJSON_Delete(x->files);
	free(x);
}

void fake_wake(struct cbx_execution *x)
{
	struct timeval now = { 0, 0 };

	event_add(x->ev, &now);
}

const char *cbx_status_name(enum cbx_status status)
{
	static const char *const names[] = { "queued", "running", "ok", "error", "timeout", "killed", "cancelled" };

	return names[status];
}

static struct cbx_watch_op *watch_of(const struct cbx_execution *x, size_t i)
{
	return (struct cbx_watch_op *)x->watch[i];
}

static void end(struct cbx_execution *x, enum cbx_status status)
{
	x->status = status;
	x->told = true;
	for (size_t i = 0; i < ARRAY_SIZE(x->watch); i++) {
		struct cbx_watch_op *op = cbx_op_take(&x->watch[i]);

		if (op)
			op->on_progress(op, x, &(struct cbx_progress){ .what = CBX_ENDED });
	}
}

static void print(struct cbx_execution *x, const char *stream, const char *p, size_t n)
{
	cbx_utf8_append(strcmp(stream, "stdout") == 0 ? &x->out : &x->err, p, n);
	cbx_utf8_append(&x->both, p, n);
	for (size_t i = 0; i < ARRAY_SIZE(x->watch); i++)
		if (watch_of(x, i))
			watch_of(x, i)->on_progress(
				watch_of(x, i), x,
				&(struct cbx_progress){ .what = CBX_PRINTED, .stream = stream, .p = p, .n = n });
}

static void print_raw(struct cbx_execution *x, const char *s)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };

	for (; *s; s++) {
		if (*s == '\\' && s[1] == 'x') {
			unsigned v = 0;

			sscanf(s + 2, "%2x", &v);
			cbx_buf_addc(&b, (char)v);
			s += strnlen(s + 1, 3);
		} else if (*s == '\\' && s[1]) {
			s++;
			cbx_buf_addc(&b, *s == 'n' ? '\n' : *s == 'r' ? '\r' : *s == 't' ? '\t' : *s);
		} else {
			cbx_buf_addc(&b, *s);
		}
	}
	print(x, "stdout", b.data, b.len);
}

static void show(struct cbx_execution *x, const char *mime, const char *value, bool is_result)
{
	cJSON *d = cbx_json_new_obj(), *data = cbx_json_new_obj();

	cbx_json_set_str(data, mime, value);
	if (cbx_starts_with(mime, "image/"))
		cbx_json_set_str(data, "text/plain", "<Figure size 640x480 with 1 Axes>");
	cbx_json_set(d, "data", data);
	cbx_json_set(d, "metadata", cbx_json_new_obj());
	cbx_json_set_bool(d, "is_result", is_result);
	cbx_json_push(x->displays, d);
}

static void show_bytes(struct cbx_execution *x, const char *mime, size_t n)
{
	static const char png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x06\0\0\0";
	_cleanup_buf_ struct cbx_buf bytes = { 0 };
	_cleanup_buf_ struct cbx_buf b64 = { 0 };

	if (strcmp(mime, "image/png") == 0)
		cbx_buf_add(&bytes, png, sizeof(png) - 1);
	while (bytes.len < n)
		cbx_buf_addc(&bytes, (char)(bytes.len * 7));
	cbx_base64_encode(&b64, bytes.data, bytes.len);
	show(x, mime, b64.data, false);
}

/* One display with a PNG of n bytes, and a JPEG of m. */
static void show_two(struct cbx_execution *x, size_t n, size_t m)
{
	_cleanup_buf_ struct cbx_buf bytes = { 0 };
	_cleanup_buf_ struct cbx_buf b64 = { 0 };
	cJSON *last;

	show_bytes(x, "image/png", n);
	last = cJSON_GetArrayItem(x->displays, cJSON_GetArraySize(x->displays) - 1);
	cbx_buf_add(&bytes, "\xff\xd8\xff\xe0", 4);
	while (bytes.len < m)
		cbx_buf_addc(&bytes, (char)(bytes.len * 5));
	cbx_base64_encode(&b64, bytes.data, bytes.len);
	cbx_json_set_str(cbx_json_member(last, "data"), "image/jpeg", b64.data);
}

static void change(struct cbx_execution *x, const char *path, const void *p, size_t n)
{
	_cleanup_buf_ struct cbx_buf uri = { 0 };
	cJSON *o = cbx_json_new_obj();

	fake_session_put(x->session->engine, x->session->spec.id, path, p, n);
	cbx_file_uri(&uri, x->session->spec.id, path);
	cbx_json_set_str(o, "path", path);
	cbx_json_set_u64(o, "size", n);
	cbx_json_set_str(o, "mime_type", cbx_mime_by_name(path));
	cbx_json_set_str(o, "uri", cbx_buf_str(&uri));
	cbx_json_push(x->files, o);
}

static void change_png(struct cbx_execution *x, const char *path, size_t n)
{
	_cleanup_buf_ struct cbx_buf bytes = { 0 };

	cbx_buf_add(&bytes, "\x89PNG\r\n\x1a\n", 8);
	while (bytes.len < n)
		cbx_buf_addc(&bytes, (char)(bytes.len * 7));
	change(x, path, bytes.data, n);
}

/* One command; false: the cell continues later. */
static bool command(struct cbx_execution *x, const char *line)
{
	const char *rest = strchr(line, ' ');
	char mime[64];
	size_t n, more;
	char c;
	int at = 0;

	rest = rest ? rest + 1 : "";
	if (cbx_starts_with(line, "print ") || cbx_starts_with(line, "error ")) {
		_cleanup_free_ char *s = cbx_xasprintf("%s\n", rest);

		print(x, line[0] == 'p' ? "stdout" : "stderr", s, strlen(s));
	} else if (cbx_starts_with(line, "raw ")) {
		print_raw(x, rest);
	} else if (cbx_starts_with(line, "value ")) {
		free(x->result);
		x->result = cbx_xstrdup(rest);
		show(x, "text/plain", rest, true);
	} else if (sscanf(line, "fill %zu %c", &n, &c) == 2 && n <= FAKE_BYTES_MAX) {
		_cleanup_buf_ struct cbx_buf b = { 0 };

		memset(cbx_buf_reserve(&b, n), c, n);
		print(x, "stdout", b.data, n);
	} else if (sscanf(line, "show-text %63s %n", mime, &at) == 1 && at) {
		show(x, mime, line + at, false);
	} else if (sscanf(line, "page %zu %n", &n, &at) == 1 && at) {
		_cleanup_free_ char *s = cbx_xasprintf("<p>%*s%s</p>", (int)n, "", line + at);

		show(x, "text/html", s, false);
	} else if (sscanf(line, "show-two %zu %zu", &n, &more) == 2 && n <= FAKE_BYTES_MAX && more <= FAKE_BYTES_MAX) {
		show_two(x, n, more);
	} else if (sscanf(line, "show %63s %zu", mime, &n) == 2 && n <= FAKE_BYTES_MAX) {
		show_bytes(x, mime, n);
	} else if (sscanf(line, "write %63s %n", mime, &at) == 1 && at) {
		change(x, mime, line + at, strlen(line + at));
	} else if (sscanf(line, "png %63s %zu", mime, &n) == 2 && n <= FAKE_BYTES_MAX) {
		change_png(x, mime, n);
	} else if (strcmp(line, "raise") == 0) {
		x->raised = true;
	} else {
		return strcmp(line, "wait") != 0;
	}
	return true;
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_execution *x = arg;
	char *save = NULL;

	if (x->killed_by_close) {
		x->message = cbx_xasprintf("the session was closed: %s", x->session->closed);
		end(x, CBX_KILLED);
		return;
	}
	if (x->status == CBX_CANCELLED || x->status == CBX_RUNNING) {
		x->message = cbx_xstrdup("interrupted on request; variables are kept");
		end(x, CBX_CANCELLED);
		return;
	}
	x->status = CBX_RUNNING;
	for (size_t i = 0; i < ARRAY_SIZE(x->watch); i++)
		if (watch_of(x, i))
			watch_of(x, i)->on_progress(watch_of(x, i), x, &(struct cbx_progress){ .what = CBX_STARTED });
	for (char *line = strtok_r(x->code, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (strcmp(line, "die") == 0) {
			x->message = cbx_xstrdup("the interpreter was killed: memory limit; variables are gone");
			end(x, CBX_KILLED);
			return;
		}
		if (strcmp(line, "time") == 0) {
			x->message = cbx_xstrdup("time was up after 1 s; variables are kept");
			end(x, CBX_TIMEOUT);
			return;
		}
		if (!command(x, line))
			return;
	}
	end(x, x->raised ? CBX_ERROR : CBX_OK);
}

int cbx_session_start(struct cbx_session *s, const struct cbx_cell_spec *cell, struct cbx_watch_op *watch,
		      struct cbx_execution **ret, struct cbx_err *err)
{
	const char *code = cell->code;
	struct cbx_execution *x;
	size_t queued = 0;

	if (cell->language && strcmp(cell->language, "python") != 0)
		return cbx_refuse(err, "no_interpreter", ENOENT,
				  "language: the image cannot run \"%s\"; use one of \"python\"", cell->language);

	if (s->closed)
		return cbx_refuse(err, "session_expired", ENOENT, "session %s was closed: %s", s->spec.id, s->closed);
	if (strlen(code) > CBX_CODE_MAX)
		return cbx_refuse(err, "code_too_long", EMSGSIZE, "code: it is too long");
	TAILQ_FOREACH(x, &s->list, entry)
		queued += x->status == CBX_QUEUED;
	if (queued >= CBX_QUEUE_MAX)
		return cbx_refuse(err, "queue_full", EBUSY, "%zu cells are waiting", queued);
	x = cbx_xcalloc(1, sizeof(*x));
	x->session = s;
	x->id = ++s->executions;
	x->code = cbx_xstrdup(code);
	if (watch)
		cbx_execution_watch(x, watch, err);
	x->displays = cbx_json_new_arr();
	x->files = cbx_json_new_arr();
	x->ev = event_new(s->engine->base, -1, 0, on_event, x);
	TAILQ_INSERT_TAIL(&s->list, x, entry);
	fake_wake(x);
	*ret = x;
	return 0;
}

int cbx_execution_watch(struct cbx_execution *x, struct cbx_watch_op *op, struct cbx_err *err)
{
	if (x->told)
		return cbx_refuse(err, "ended", EALREADY, "execution %llu has ended", (unsigned long long)x->id);
	for (size_t i = 0; i < ARRAY_SIZE(x->watch); i++) {
		if (!x->watch[i]) {
			op->x = x;
			cbx_op_begin(&op->op, &x->watch[i]);
			return 0;
		}
	}
	return cbx_refuse(err, "too_many_watchers", EBUSY, "too many calls wait");
}

struct cbx_session *cbx_execution_session(const struct cbx_execution *x)
{
	return x->session;
}

struct cbx_execution *cbx_session_running(const struct cbx_session *s)
{
	struct cbx_execution *x;

	TAILQ_FOREACH(x, &s->list, entry)
		if (x->status == CBX_RUNNING)
			return x;
	return NULL;
}

/* What lies from 100,000 on is in a file, if there is one; but from 180,000 on only the last 10,000 bytes were kept. */
bool cbx_execution_output(const struct cbx_execution *x, uint64_t from, size_t max, struct cbx_buf *out,
			  struct cbx_output_extent *ret)
{
	uint64_t total = x->both.len;

	*ret = (struct cbx_output_extent){ total, ".codebox/outputs/1.txt", total, total, total };
	if (total > 200000)
		*ret = (struct cbx_output_extent){ total, ret->file, 180000, 181000, total - 10000 };
	if (from >= 100000 && from < total && (total <= 200000 || from < ret->kept))
		return false;
	if (from < total)
		cbx_buf_add(out, x->both.data + from, max < total - from ? max : total - (size_t)from);
	return true;
}

void cbx_session_touch(struct cbx_session *s)
{
}

int cbx_execution_hold(struct cbx_execution *x, struct cbx_err *err)
{
	const struct cbx_execution *other;
	int n = 0;

	TAILQ_FOREACH(other, &x->session->list, entry)
		n += other->key[0] != 0;
	if (!x->key[0] && n >= CBX_HOLDS_MAX)
		return cbx_refuse(err, "too_many_holds", EBUSY, "too many are held");
	if (!x->key[0])
		cbx_random_name(x->key, CBX_HOLD_KEY);
	return 0;
}

bool cbx_execution_held(const struct cbx_execution *x, struct cbx_hold *ret)
{
	*ret = (struct cbx_hold){ x->key, 1000000000123, 1000000000123, CBX_HOLD_MS };
	return x->key[0] != 0;
}

void cbx_execution_interrupt(const struct cbx_caller *by, struct cbx_execution *x)
{
	if (x->killed_by_close)
		return; /* it has ended, which is still to be reported */
	x->session->engine->interrupts++;
	if (x->status == CBX_QUEUED)
		x->status = CBX_CANCELLED;
	if (x->status == CBX_CANCELLED || x->status == CBX_RUNNING)
		fake_wake(x);
}

uint64_t cbx_execution_id(const struct cbx_execution *x)
{
	return x->id;
}

enum cbx_status cbx_execution_status(const struct cbx_execution *x)
{
	return x->status;
}

int cbx_execution_find(struct cbx_session *s, uint64_t id, struct cbx_execution **ret, struct cbx_err *err)
{
	struct cbx_execution *x;

	TAILQ_FOREACH(x, &s->list, entry) {
		if (x->id == id) {
			*ret = x;
			return 0;
		}
	}
	return cbx_refuse(err, "execution_not_found", ENOENT, "execution_id: there is no %llu", (unsigned long long)id);
}

cJSON *cbx_execution_to_json(const struct cbx_execution *x, bool with_displays)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "session_id", x->session->spec.id);
	cbx_json_set_u64(o, "execution_id", x->id);
	cbx_json_set_str(o, "status", cbx_status_name(x->status));
	cbx_json_set_bool(o, "state_kept", x->status != CBX_KILLED);
	cbx_json_set_u64(o, "execution_count", x->id);
	cbx_json_set_str(o, "stdout", cbx_buf_str(&x->out));
	cbx_json_set_str(o, "stderr", cbx_buf_str(&x->err));
	cbx_json_set_str(o, "output", cbx_buf_str(&x->both));
	cbx_json_set_str(o, "result", x->result);
	if (x->raised) {
		cJSON *e = cbx_json_new_obj();

		cbx_json_set_str(e, "name", "ValueError");
		cbx_json_set_str(e, "value", "bad");
		cbx_json_set_str(e, "traceback", "Traceback (most recent call last):\n  line 1\nValueError: bad");
		cbx_json_set(o, "error", e);
	}
	cbx_json_set_str(o, "message", x->message);
	cbx_json_set_u64(o, "duration_ms", 1);
	cbx_json_set(o, "files", cJSON_Duplicate(x->files, 1));
	return o;
}

const cJSON *cbx_execution_displays(const struct cbx_execution *x)
{
	return x->displays;
}
