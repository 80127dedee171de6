/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a line is checked as a whole before any of it is carried out: JSON, a numeric id, a method that
 * exists, members that the method knows. A request lives until its answer. When the connection goes first, runs are
 * interrupted, unless they are detached, and all that its requests wait for is cancelled.
 */
#include "daemon/control.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "client/protocol.h"

static void send_json(struct cbx_control *c, const cJSON *o)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print(&text, o);
	cbx_conn_send(c->conn, text.data, text.len);
}

/* id NULL: it could not be read. */
static void send_error(struct cbx_control *c, const uint64_t *id, const struct cbx_err *err)
{
	_cleanup_json_ cJSON *o = cbx_json_new_obj();

	if (id)
		cbx_json_set_u64(o, "id", *id);
	else
		cbx_json_set_null(o, "id");
	cbx_json_set(o, "error", cbx_json_of_error(err));
	send_json(c, o);
}

static void request_free(struct cbx_control_request *q)
{
	TAILQ_REMOVE(&q->control->requests, q, entry);
	q->control->nrequests--;
	free(q);
}

void cbx_control_answer(struct cbx_control_request *q, cJSON *result, const struct cbx_err *err)
{
	_cleanup_json_ cJSON *o = cbx_json_new_obj();

	if (err) {
		send_error(q->control, &q->id, err);
	} else {
		cbx_json_set_u64(o, "id", q->id);
		cbx_json_set(o, "result", result ? result : cbx_json_new_obj());
		send_json(q->control, o);
	}
	request_free(q);
}

void cbx_control_event(struct cbx_control_request *q, cJSON *event)
{
	cbx_json_set_u64(event, "request", q->id);
	send_json(q->control, event);
	cJSON_Delete(event);
}

static void stall(struct cbx_control_request *q, bool on)
{
	q->stalled = on;
	if (cbx_op_pending(&q->run.op))
		cbx_execution_stall(q->run.x, on);
	if (cbx_op_pending(&q->command.op))
		cbx_command_stall(q->command.command, on);
}

void cbx_control_bytes(struct cbx_control_request *q, const char *stream, const char *p, size_t n)
{
	char line[120];
	int len = snprintf(line, sizeof(line),
			   "{\"event\":\"output\",\"request\":%" PRIu64 ",\"stream\":\"%s\",\"bytes\":%zu}", q->id,
			   stream, n);

	cbx_conn_send_bytes(q->control->conn, line, (size_t)len, p, n);
	if (!q->stalled && cbx_conn_pending(q->control->conn) > CBX_STREAM_QUEUE)
		stall(q, true);
}

static void control_room(void *state)
{
	struct cbx_control *c = state;
	struct cbx_control_request *q;

	TAILQ_FOREACH(q, &c->requests, entry) {
		if (q->stalled)
			stall(q, false);
	}
}

/* ---- what a request brings ---- */

/* In the order of enum cbx_control_arg. */
static const struct {
	const char *name;
	enum { TEXT, NUMBER, FLAG, LIST, OBJECT } type;
	size_t at;
} args[] = {
	{ "session_id", TEXT, offsetof(struct cbx_control_args, session_id) },
	{ "path", TEXT, offsetof(struct cbx_control_args, path) },
	{ "code", TEXT, offsetof(struct cbx_control_args, code) },
	{ "file", TEXT, offsetof(struct cbx_control_args, file) },
	{ "data", TEXT, offsetof(struct cbx_control_args, data) },
	{ "offset", NUMBER, offsetof(struct cbx_control_args, offset) },
	{ "length", NUMBER, offsetof(struct cbx_control_args, length) },
	{ "skip", NUMBER, offsetof(struct cbx_control_args, skip) },
	{ "cursor", NUMBER, offsetof(struct cbx_control_args, cursor) },
	{ "execution_id", NUMBER, offsetof(struct cbx_control_args, execution) },
	{ "request", NUMBER, offsetof(struct cbx_control_args, request) },
	{ "append", FLAG, offsetof(struct cbx_control_args, append) },
	{ "truncate", FLAG, offsetof(struct cbx_control_args, truncate) },
	{ "executable", FLAG, offsetof(struct cbx_control_args, executable) },
	{ "create", FLAG, offsetof(struct cbx_control_args, create) },
	{ "raw", FLAG, offsetof(struct cbx_control_args, raw) },
	{ "input", FLAG, offsetof(struct cbx_control_args, input) },
	{ "last", FLAG, offsetof(struct cbx_control_args, last) },
	{ "unlimited", FLAG, offsetof(struct cbx_control_args, unlimited) },
	{ "argv", LIST, offsetof(struct cbx_control_args, argv) },
	{ "language", TEXT, offsetof(struct cbx_control_args, language) },
	{ "directory", TEXT, offsetof(struct cbx_control_args, directory) },
	{ "variables", OBJECT, offsetof(struct cbx_control_args, variables) },
	{ "terminal", FLAG, offsetof(struct cbx_control_args, terminal) },
	{ "rows", NUMBER, offsetof(struct cbx_control_args, rows) },
	{ "columns", NUMBER, offsetof(struct cbx_control_args, columns) },
	{ "detached", FLAG, offsetof(struct cbx_control_args, detached) },
	{ "signal", NUMBER, offsetof(struct cbx_control_args, signal) },
	{ "packages", LIST, offsetof(struct cbx_control_args, packages) },
	{ "connection", TEXT, offsetof(struct cbx_control_args, connection) },
	{ "parameters", LIST, offsetof(struct cbx_control_args, parameters) },
	{ "artifact_id", TEXT, offsetof(struct cbx_control_args, artifact_id) },
	{ "asks", FLAG, offsetof(struct cbx_control_args, asks) },
	{ "format", TEXT, offsetof(struct cbx_control_args, format) },
};

static int check_keys(const struct cbx_control_method *m, const cJSON *params, struct cbx_err *err)
{
	const char *keys[CBX_SPEC_KEYS_MAX + ARRAY_SIZE(args) + 1];
	size_t n = m->spec ? cbx_session_spec_keys(keys) : 0;

	for (size_t i = 0; i < ARRAY_SIZE(args); i++)
		if ((m->needs | m->takes) & 1ull << i)
			keys[n++] = args[i].name;
	keys[n] = NULL;
	return cbx_json_only(params, keys, err);
}

static int get_arg(const cJSON *params, size_t i, void *ret, struct cbx_err *err)
{
	switch (args[i].type) {
	case TEXT:
		return cbx_json_get_str(params, args[i].name, ret, err);
	case NUMBER:
		return cbx_json_get_u64(params, args[i].name, 0, 1ull << 53, ret, err);
	case FLAG:
		return cbx_json_get_bool(params, args[i].name, ret, err);
	case OBJECT:
		return cbx_json_get_obj(params, args[i].name, ret, err);
	default:
		return cbx_json_get_arr(params, args[i].name, ret, err);
	}
}

static int parse_args(const struct cbx_control *c, const struct cbx_control_method *m, const cJSON *params,
		      struct cbx_control_args *a, struct cbx_err *err)
{
	int r = check_keys(m, params, err);

	a->params = params;
	for (size_t i = 0; i < ARRAY_SIZE(args) && r >= 0; i++) {
		if (!((m->needs | m->takes) & 1ull << i))
			continue;
		r = get_arg(params, i, (char *)a + args[i].at, err);
		if (r > 0)
			a->given |= 1ull << i;
		else if (r == 0 && m->needs & 1ull << i)
			return cbx_refuse(err, "invalid_argument", EINVAL, "missing argument: %s", args[i].name);
		if (r > 0 && 1ull << i == CBX_ARG_SESSION_ID)
			r = cbx_session_find(&c->caller, a->session_id, &a->session, err);
	}
	return r < 0 ? r : 0;
}

int cbx_control_decode(struct cbx_buf *ret, const struct cbx_control_args *a, size_t max, struct cbx_err *err)
{
	if (strlen(a->data) > max / 3 * 4)
		return cbx_refuse(err, "invalid_argument", EMSGSIZE,
				  "data: too long; give up to %zu bytes (before base64) at once", max);
	if (cbx_base64_decode(ret, a->data, strlen(a->data)) < 0)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "data: not base64; use the standard alphabet, padded, without spaces");
	return 0;
}

/* ---- the connection ---- */

static int dispatch(struct cbx_control *c, const cJSON *root, uint64_t id, struct cbx_err *err)
{
	static const char *const keys[] = { "id", "method", "params", NULL };
	const struct cbx_control_method *m;
	struct cbx_control_args a = { 0 };
	_cleanup_json_ cJSON *none = NULL;
	struct cbx_control_request *q;
	const char *name = NULL;
	const cJSON *params = NULL;
	int r = cbx_json_only(root, keys, err);

	if (r >= 0)
		r = cbx_json_get_str(root, "method", &name, err);
	if (r >= 0)
		r = cbx_json_get_obj(root, "params", &params, err);
	if (r < 0)
		return r;
	if (!name)
		return cbx_refuse(err, "invalid_argument", EINVAL, "missing argument: method");
	for (m = c->methods; m->name && strcmp(m->name, name) != 0; m++)
		;
	if (!m->name)
		return cbx_refuse(err, "unknown_method", ENOSYS,
				  "method: \"%.80s\" is unknown; codebox and codeboxd may be of different versions: "
				  "restart it (codebox stop)",
				  name);
	if (!params)
		params = none = cbx_json_new_obj();
	r = parse_args(c, m, params, &a, err);
	if (r < 0)
		return r;
	if (c->nrequests >= CBX_CONTROL_REQUESTS_MAX)
		return cbx_refuse(err, "busy", EBUSY, "%d requests of this connection are unanswered; wait for one",
				  CBX_CONTROL_REQUESTS_MAX);
	q = cbx_xcalloc(1, sizeof(*q));
	q->control = c;
	q->id = id;
	TAILQ_INSERT_TAIL(&c->requests, q, entry);
	c->nrequests++;
	if (m->fn(q, &a, err) < 0)
		cbx_control_answer(q, NULL, err);
	return 0;
}

static void control_line(void *state, char *line, size_t len)
{
	struct cbx_control *c = state;
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err = { 0 };
	uint64_t id = 0;
	int r, has_id = 0;

	if (strspn(line, " \t") == len)
		return;
	r = cbx_json_parse(line, len, &doc, &err);
	if (r >= 0 && !cJSON_IsObject(doc.root))
		r = cbx_refuse(&err, "invalid_json", EINVAL, "a request is not an object; send one, on a line");
	if (r >= 0)
		r = has_id = cbx_json_get_u64(doc.root, "id", 0, 1ull << 53, &id, &err);
	if (r >= 0 && !has_id)
		r = cbx_refuse(&err, "invalid_argument", EINVAL, "missing argument: id");
	if (r >= 0 && doc.problem.code) {
		err = doc.problem;
		r = -err.code;
	}
	if (r >= 0)
		r = dispatch(c, doc.root, id, &err);
	if (r < 0)
		send_error(c, has_id > 0 ? &id : NULL, &err);
}

static void control_too_long(void *state)
{
	struct cbx_err err;

	cbx_refuse(&err, "message_too_long", EMSGSIZE, "a request was too long, and was dropped; send up to %zu MiB",
		   CBX_MESSAGE_MAX >> 20);
	send_error(state, NULL, &err);
}

static void control_close(void *state)
{
	struct cbx_control *c = state;
	struct cbx_control_request *q;
	struct cbx_session *s;
	struct cbx_err err;

	TAILQ_FOREACH(q, &c->requests, entry) {
		q->runs = cbx_op_pending(&q->run.op) && !q->watches && !q->detached;
		q->starts = q->starts && cbx_op_pending(&q->command.op);
		if (q->stalled)
			stall(q, false);
	}
	cbx_ops_cancel(&c->caller.ops);
	while ((q = TAILQ_FIRST(&c->requests))) {
		if (q->starts)
			cbx_command_hang_up(q->command.command);
		if (q->runs) {
			cbx_execution_stall(q->run.x, false);
			cbx_execution_interrupt(&c->caller, q->run.x);
		}
		request_free(q);
	}
	if (c->own[0] && cbx_session_find(&c->caller, c->own, &s, &err) == 0 && cbx_session_one_shot(s))
		cbx_session_close(&c->caller, s, "its connection ended");
	free(c);
}

static const struct cbx_conn_ops control_ops = {
	.on_line = control_line,
	.on_too_long = control_too_long,
	.on_close = control_close,
	.on_room = control_room,
};

int cbx_control_session(struct cbx_control *c, bool create, struct cbx_session_spec *spec, struct cbx_session **ret,
			struct cbx_err *err)
{
	bool named = spec->id[0];
	int r;

	if (named) {
		r = cbx_session_find(&c->caller, spec->id, ret, err);
		if (r >= 0)
			return cbx_session_same(*ret, spec, err); /* a run changes no settings */
		if (!create)
			return r;
	} else {
		if (c->own[0] && cbx_session_find(&c->caller, c->own, ret, err) == 0)
			return cbx_session_same(*ret, spec, err);
		spec->one_shot = true;
	}
	r = cbx_session_create(&c->caller, spec, NULL, ret, err);
	if (r >= 0 && !named)
		snprintf(c->own, sizeof(c->own), "%s", cbx_session_id(*ret));
	return r;
}

struct cbx_conn *cbx_control_accept(struct cbx_daemon *d, const struct cbx_control_method *methods, int fd,
				    void (*gone)(void *arg), void *arg)
{
	static const struct cbx_via from = { .door = "control" };
	struct cbx_control *c = cbx_xcalloc(1, sizeof(*c));

	c->methods = methods;
	c->daemon = d;
	c->caller = (struct cbx_caller){ .engine = d->engine, .principal = &d->principal, .via = &from };
	TAILQ_INIT(&c->requests);
	c->conn = cbx_conn_new(d->base, fd, &control_ops, c, gone, arg);
	if (!c->conn) {
		free(c);
		return NULL;
	}
	return c->conn;
}
