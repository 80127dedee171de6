/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one function a method, and a table of them with the members that each accepts. Pointers to
 * sessions are never kept: an id is looked up when it is needed. A pointer to an execution is kept only while this
 * connection watches it, and on_end ends that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "daemon/control-protocol.h"
#include "daemon/control.h"
#include "sandbox/init-protocol.h"

#define OUTPUT_PENDING_MAX MIB(4) /* more than this unread by a client: output is left out of its stream */
#define OUTPUT_RESUME	   KIB(64) /* less than this: no longer */

/* ---- arguments ---- */

static int need_str(const cJSON *params, const char *key, const char **ret, struct cbx_err *err)
{
	int r = cbx_json_get_str(params, key, ret, err);

	return r ? r : cbx_refuse(err, "invalid_argument", EINVAL, "%s: it is missing", key);
}

static int need_session(struct cbx_control_request *q, const cJSON *params, struct cbx_session **ret,
			struct cbx_err *err)
{
	const char *id = NULL;
	int r = need_str(params, "session_id", &id, err);

	return r < 0 ? r : cbx_session_find(q->control->daemon->engine, id, ret, err);
}

/* ---- the daemon ---- */

static int op_hello(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	const struct cbx_daemon *d = q->control->daemon;
	cJSON *o = cbx_engine_to_json(d->engine), *c = cbx_json_new_obj();

	cbx_json_set_u64(c, "seccomp_rules", d->filter_rules);
	cbx_json_set_u64(c, "landlock_abi", d->landlock_abi);
	cbx_json_set(o, "confinement", c);
	cbx_control_answer(q, o);
	return 0;
}

/* The connection is held open to the very end, so that its closing says that all is over. */
static int op_stop(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_daemon *d = q->control->daemon;
	int fd = cbx_conn_fd(q->control->conn);

	cbx_control_answer(q, cbx_json_new_obj());
	if (d->last_words < 0)
		d->last_words = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	cbx_lifecycle_stop(d, 0, "a client asked for it");
	return 0;
}

/* ---- sessions ---- */

static void created(void *arg, struct cbx_session *session, const struct cbx_err *err)
{
	struct cbx_control_request *q = arg;

	if (err)
		cbx_control_refuse(q, err);
	else
		cbx_control_answer(q, cbx_session_to_json(session));
}

static int op_session_create(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_session_spec spec;
	struct cbx_session *s;
	int r;

	cbx_session_spec_init(&spec);
	r = cbx_session_spec_parse(params, &spec, err);
	return r < 0 ? r : cbx_session_create(q->control->daemon->engine, &spec, created, q, &s, err);
}

static int op_session_list(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set(o, "sessions", cbx_session_list(q->control->daemon->engine));
	cbx_control_answer(q, o);
	return 0;
}

static void answered(void *arg, const cJSON *answer, const struct cbx_err *err)
{
	if (err)
		cbx_control_refuse(arg, err);
	else
		cbx_control_answer(arg, cJSON_Duplicate(answer, 1));
}

static int op_session_info(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_session *s;
	int r = need_session(q, params, &s, err);

	if (r >= 0 && !cbx_session_describe(s, answered, q))
		cbx_control_answer(q, cbx_session_to_json(s));
	return r;
}

static int op_session_close(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_session *s;
	int r = need_session(q, params, &s, err);

	if (r < 0)
		return r;
	cbx_session_close(s, "on request");
	cbx_control_answer(q, cbx_json_new_obj());
	return 0;
}

/* ---- runs ---- */

static void run_started(void *arg, struct cbx_execution *x)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "event", "start");
	cbx_json_set_str(o, "session_id", cbx_session_id(cbx_execution_session(x)));
	cbx_json_set_u64(o, "execution_id", cbx_execution_id(x));
	cbx_control_event(arg, o);
}

static void send_output(struct cbx_control_request *q, const char *stream, const char *p, size_t n)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "event", "output");
	cbx_json_set_str(o, "stream", stream);
	cbx_json_set_strn(o, "text", p, n);
	cbx_control_event(q, o);
}

static void tell_skipped(struct cbx_control_request *q)
{
	char text[100];

	if (!q->skipped)
		return;
	snprintf(text, sizeof(text), "\n[… %llu bytes were printed faster than they were read …]\n",
		 (unsigned long long)q->skipped);
	q->skipped = 0;
	send_output(q, "stderr", text, strlen(text));
}

/* A client that reads more slowly than a cell prints is told how much it missed; the result has the end of it. */
static void run_output(void *arg, struct cbx_execution *x, const char *stream, const char *p, size_t n)
{
	struct cbx_control_request *q = arg;

	if (q->skipped ? cbx_conn_pending(q->control->conn) >= OUTPUT_RESUME
		       : cbx_conn_pending(q->control->conn) > OUTPUT_PENDING_MAX) {
		q->skipped += n;
		return;
	}
	tell_skipped(q);
	send_output(q, stream, p, n);
}

static void run_display(void *arg, struct cbx_execution *x, const cJSON *bundle, bool is_result)
{
	cJSON *o = cJSON_Duplicate(bundle, 1);

	cbx_json_set_str(o, "event", "display");
	cbx_control_event(arg, o);
}

static void run_ended(void *arg, struct cbx_execution *x)
{
	const struct cbx_err *failure = cbx_session_failure(cbx_execution_session(x));
	struct cbx_control_request *q = arg;

	q->x = NULL;
	if (failure) {
		cbx_control_refuse(q, failure);
		return;
	}
	tell_skipped(q);
	cbx_control_answer(q, cbx_execution_to_json(x, false));
}

static const struct cbx_watch run_watch = {
	.on_start = run_started,
	.on_output = run_output,
	.on_display = run_display,
	.on_end = run_ended,
};

/* The session that a run is for, made when that is allowed. */
static int run_session(struct cbx_control *c, const cJSON *params, struct cbx_session_spec *spec,
		       struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_engine *engine = c->daemon->engine;
	const char *id = NULL;
	bool create = false;
	int r;

	r = cbx_json_get_str(params, "session_id", &id, err);
	if (r >= 0)
		r = cbx_json_get_bool(params, "create", &create, err);
	if (r < 0)
		return r;
	if (id) {
		r = cbx_session_find(engine, id, ret, err);
		if (r >= 0)
			return cbx_session_same(*ret, spec, err); /* a run changes no settings */
		if (!create)
			return r;
	} else {
		if (c->own[0] && cbx_session_find(engine, c->own, ret, err) == 0)
			return cbx_session_same(*ret, spec, err);
		spec->one_shot = true;
	}
	r = cbx_session_create(engine, spec, NULL, NULL, ret, err);
	if (r >= 0 && !id)
		snprintf(c->own, sizeof(c->own), "%s", cbx_session_id(*ret));
	return r;
}

static int op_run(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_watch watch = run_watch;
	struct cbx_session_spec spec;
	struct cbx_session *s;
	const char *code = NULL;
	uint64_t timeout_ms;
	int r = need_str(params, "code", &code, err);

	cbx_session_spec_init(&spec);
	spec.timeout_ms = 0;
	if (r >= 0)
		r = cbx_session_spec_parse(params, &spec, err);
	timeout_ms = spec.timeout_ms; /* this run's, 0 where none is given; not the session's */
	spec.timeout_ms = 0;
	if (r >= 0 && strlen(code) > CBX_CODE_MAX)
		r = cbx_refuse(err, "code_too_long", EMSGSIZE,
			       "code: %zu bytes are more than the %zu allowed; write data to a file of the session and "
			       "read it "
			       "from there",
			       strlen(code), CBX_CODE_MAX);
	if (r >= 0)
		r = run_session(q->control, params, &spec, &s, err);
	if (r < 0)
		return r;
	watch.arg = q;
	return cbx_session_run(s, code, timeout_ms, &watch, &q->x, err);
}

static int op_interrupt(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_execution *x;
	struct cbx_session *s;
	uint64_t id = 0;
	int r = need_session(q, params, &s, err), given = 0;

	if (r >= 0)
		r = given = cbx_json_get_u64(params, "execution_id", 1, 1ull << 53, &id, err);
	if (r < 0)
		return r;
	x = cbx_session_running(s);
	if (given) {
		r = cbx_execution_find(s, id, &x, err);
		if (r < 0)
			return r;
	}
	cbx_control_answer(q, cbx_json_new_obj());
	if (x)
		cbx_execution_interrupt(x);
	return 0;
}

static int op_is_complete(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_session *s;
	const char *code = NULL;
	int r = need_session(q, params, &s, err);

	if (r >= 0)
		r = need_str(params, "code", &code, err);
	return r < 0 ? r : cbx_session_is_complete(s, code, answered, q, err);
}

static int op_complete(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_session *s;
	const char *code = NULL;
	uint64_t cursor = 0;
	int r = need_session(q, params, &s, err);

	if (r >= 0)
		r = need_str(params, "code", &code, err);
	if (r >= 0) {
		cursor = strlen(code);
		r = cbx_json_get_u64(params, "cursor", 0, CBX_CODE_MAX, &cursor, err);
	}
	return r < 0 ? r : cbx_session_complete(s, code, cursor, answered, q, err);
}

/* ---- files ---- */

static void file_read(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_control_request *q = arg;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	cJSON *o;

	if (err) {
		cbx_control_refuse(q, err);
		return;
	}
	cbx_base64_encode(&text, reply->data, (size_t)reply->value);
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "data", cbx_buf_str(&text));
	cbx_json_set_u64(o, "size", reply->size);
	cbx_json_set_bool(o, "eof", reply->value == 0 || q->offset + (uint64_t)reply->value >= reply->size);
	cbx_control_answer(q, o);
}

static int op_file_read(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	uint64_t length = CBX_CONTROL_CHUNK;
	struct cbx_session *s;
	const char *path = NULL;
	int r = need_session(q, params, &s, err);

	if (r >= 0)
		r = need_str(params, "path", &path, err);
	if (r >= 0)
		r = cbx_json_get_u64(params, "offset", 0, 1ull << 53, &q->offset, err);
	if (r >= 0)
		r = cbx_json_get_u64(params, "length", 0, 1ull << 53, &length, err);
	if (r < 0)
		return r;
	if (length > CBX_CONTROL_CHUNK)
		length = CBX_CONTROL_CHUNK;
	return cbx_session_file_read(s, path, q->offset, (size_t)length, file_read, q, err);
}

static void file_written(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	cJSON *o;

	if (err) {
		cbx_control_refuse(arg, err);
		return;
	}
	o = cbx_json_new_obj();
	cbx_json_set_i64(o, "written", reply->value);
	cbx_control_answer(arg, o);
}

static int write_options(const cJSON *params, uint64_t *offset, unsigned *flags, struct cbx_err *err)
{
	bool append = false, truncate = false, executable = false;
	int r = cbx_json_get_u64(params, "offset", 0, 1ull << 53, offset, err), given = r;

	if (r >= 0)
		r = cbx_json_get_bool(params, "append", &append, err);
	if (r >= 0)
		r = cbx_json_get_bool(params, "truncate", &truncate, err);
	if (r >= 0)
		r = cbx_json_get_bool(params, "executable", &executable, err);
	if (r < 0)
		return r;
	if (append && given)
		return cbx_refuse(err, "invalid_argument", EINVAL, "offset and append: give one of them, not both");
	if (append)
		*offset = UINT64_MAX;
	*flags = (truncate ? CBX_INIT_WRITE_TRUNCATE : 0) | (executable ? CBX_INIT_WRITE_EXECUTABLE : 0);
	return 0;
}

static int op_file_write(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf data = { 0 };
	const char *path = NULL, *text = NULL;
	struct cbx_session *s;
	uint64_t offset = 0;
	unsigned flags = 0;
	int r = need_session(q, params, &s, err);

	if (r >= 0)
		r = need_str(params, "path", &path, err);
	if (r >= 0)
		r = need_str(params, "data", &text, err);
	if (r >= 0)
		r = write_options(params, &offset, &flags, err);
	if (r < 0)
		return r;
	if (strlen(text) > CBX_CONTROL_CHUNK / 3 * 4)
		return cbx_refuse(err, "invalid_argument", EMSGSIZE,
				  "data: at most %d bytes (before base64) are written at once", CBX_CONTROL_CHUNK);
	if (cbx_base64_decode(&data, text, strlen(text)) < 0)
		return cbx_refuse(err, "invalid_argument", EINVAL, "data: it is not valid base64");
	return cbx_session_file_write(s, path, offset, flags, data.data, data.len, file_written, q, err);
}

static void set_stat(cJSON *o, const struct cbx_init_stat *st)
{
	const char *type = S_ISREG(st->mode)   ? "file"
			   : S_ISDIR(st->mode) ? "directory"
			   : S_ISLNK(st->mode) ? "symlink"
					       : "other";

	cbx_json_set_str(o, "type", type);
	cbx_json_set_u64(o, "size", st->size);
	cbx_json_set_u64(o, "mode", st->mode & 07777);
	cbx_json_set_double(o, "mtime", (double)(st->mtime_ns / 1000000) / 1000);
}

static void file_stat(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_init_stat st;
	cJSON *o;

	if (err) {
		cbx_control_refuse(arg, err);
		return;
	}
	memcpy(&st, reply->data, sizeof(st));
	o = cbx_json_new_obj();
	set_stat(o, &st);
	cbx_control_answer(arg, o);
}

static int op_file_stat(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_session *s;
	const char *path = NULL;
	int r = need_session(q, params, &s, err);

	if (r >= 0)
		r = need_str(params, "path", &path, err);
	return r < 0 ? r : cbx_session_file_stat(s, path, file_stat, q, err);
}

/* The engine has checked the entries. */
static void file_list(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	const char *at;
	cJSON *o, *list;

	if (err) {
		cbx_control_refuse(arg, err);
		return;
	}
	o = cbx_json_new_obj();
	list = cbx_json_new_arr();
	at = reply->data;
	for (int64_t i = 0; i < reply->value; i++) {
		struct cbx_init_entry e;
		cJSON *one = cbx_json_new_obj();

		memcpy(&e, at, sizeof(e));
		cbx_json_set_strn(one, "name", at + sizeof(e), e.name_len);
		set_stat(one, &e.st);
		cbx_json_push(list, one);
		at += e.entry_len;
	}
	cbx_json_set(o, "entries", list);
	cbx_json_set_bool(o, "more", reply->more);
	cbx_control_answer(arg, o);
}

static int op_file_list(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_session *s;
	const char *path = ".";
	uint64_t skip = 0;
	int r = need_session(q, params, &s, err);

	if (r >= 0)
		r = cbx_json_get_str(params, "path", &path, err);
	if (r >= 0)
		r = cbx_json_get_u64(params, "skip", 0, 1ull << 40, &skip, err);
	return r < 0 ? r : cbx_session_file_list(s, path, skip, file_list, q, err);
}

static void file_done(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	if (err)
		cbx_control_refuse(arg, err);
	else
		cbx_control_answer(arg, cbx_json_new_obj());
}

static int op_file_mkdir(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_session *s;
	const char *path = NULL;
	int r = need_session(q, params, &s, err);

	if (r >= 0)
		r = need_str(params, "path", &path, err);
	return r < 0 ? r : cbx_session_file_mkdir(s, path, file_done, q, err);
}

static int op_file_remove(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err)
{
	struct cbx_session *s;
	const char *path = NULL;
	int r = need_session(q, params, &s, err);

	if (r >= 0)
		r = need_str(params, "path", &path, err);
	return r < 0 ? r : cbx_session_file_remove(s, path, file_done, q, err);
}

/* ---- the table ---- */

const struct cbx_control_method *cbx_control_find(const char *name)
{
	static const struct cbx_control_method methods[] = {
		{ "hello", op_hello, { NULL } },
		{ "stop", op_stop, { NULL } },
		{ "session.create", op_session_create, { NULL }, true },
		{ "session.list", op_session_list, { NULL } },
		{ "session.info", op_session_info, { "session_id" } },
		{ "session.close", op_session_close, { "session_id" } },
		{ "run", op_run, { "code", "create" }, true },
		{ "interrupt", op_interrupt, { "session_id", "execution_id" } },
		{ "is_complete", op_is_complete, { "session_id", "code" } },
		{ "complete", op_complete, { "session_id", "code", "cursor" } },
		{ "file.read", op_file_read, { "session_id", "path", "offset", "length" } },
		{ "file.write",
		  op_file_write,
		  { "session_id", "path", "data", "offset", "append", "truncate", "executable" } },
		{ "file.stat", op_file_stat, { "session_id", "path" } },
		{ "file.list", op_file_list, { "session_id", "path", "skip" } },
		{ "file.mkdir", op_file_mkdir, { "session_id", "path" } },
		{ "file.remove", op_file_remove, { "session_id", "path" } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (strcmp(name, methods[i].name) == 0)
			return &methods[i];
	return NULL;
}
