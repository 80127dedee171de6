/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a line is checked as a whole before any of it is carried out: JSON, a numeric id, a method that
 * exists, members that the method knows. A request lives until its answer. When the connection goes first, runs are
 * interrupted, and what cannot be called back loses its connection and is forgotten when its answer comes.
 */
#include "daemon/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

static void send_json(struct cbx_control *c, const cJSON *o)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print(&text, o);
	cbx_conn_send(c->conn, text.data, text.len);
}

static cJSON *error_json(const struct cbx_err *err)
{
	cJSON *e = cbx_json_new_obj();

	cbx_json_set_str(e, "kind", err->kind);
	cbx_json_set_str(e, "message", err->msg);
	return e;
}

/* has_id false: the request's id could not be read. */
static void send_error(struct cbx_control *c, bool has_id, uint64_t id, const struct cbx_err *err)
{
	_cleanup_json_ cJSON *o = cbx_json_new_obj();

	if (has_id)
		cbx_json_set_u64(o, "id", id);
	else
		cbx_json_set_null(o, "id");
	cbx_json_set(o, "error", error_json(err));
	send_json(c, o);
}

static void request_free(struct cbx_control_request *q)
{
	if (q->control) {
		TAILQ_REMOVE(&q->control->requests, q, entry);
		q->control->nrequests--;
	}
	free(q);
}

void cbx_control_answer(struct cbx_control_request *q, cJSON *result)
{
	_cleanup_json_ cJSON *o = cbx_json_new_obj();

	cbx_json_set_u64(o, "id", q->id);
	cbx_json_set(o, "result", result);
	if (q->control)
		send_json(q->control, o);
	request_free(q);
}

void cbx_control_refuse(struct cbx_control_request *q, const struct cbx_err *err)
{
	if (q->control)
		send_error(q->control, true, q->id, err);
	request_free(q);
}

void cbx_control_event(struct cbx_control_request *q, cJSON *event)
{
	cbx_json_set_u64(event, "request", q->id);
	if (q->control)
		send_json(q->control, event);
	cJSON_Delete(event);
}

static int check_keys(const struct cbx_control_method *m, const cJSON *params, struct cbx_err *err)
{
	const char *keys[CBX_SPEC_KEYS_MAX + ARRAY_SIZE(m->keys) + 1];
	size_t n = m->spec ? cbx_session_spec_keys(keys) : 0;

	for (size_t i = 0; i < ARRAY_SIZE(m->keys) && m->keys[i]; i++)
		keys[n++] = m->keys[i];
	keys[n] = NULL;
	return cbx_json_only(params, keys, err);
}

static int dispatch(struct cbx_control *c, const cJSON *root, uint64_t id, struct cbx_err *err)
{
	static const char *const keys[] = { "id", "method", "params", NULL };
	const struct cbx_control_method *m;
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
		return cbx_refuse(err, "invalid_argument", EINVAL, "method: it is missing");
	m = cbx_control_find(name);
	if (!m)
		return cbx_refuse(err, "unknown_method", ENOSYS, "there is no method \"%.80s\"", name);
	if (!params)
		params = none = cbx_json_new_obj();
	r = check_keys(m, params, err);
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
	r = m->fn(q, params, err);
	if (r < 0)
		cbx_control_refuse(q, err);
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
		r = cbx_refuse(&err, "invalid_json", EINVAL, "a request is an object");
	if (r >= 0)
		r = has_id = cbx_json_get_u64(doc.root, "id", 0, 1ull << 53, &id, &err);
	if (r >= 0 && !has_id)
		r = cbx_refuse(&err, "invalid_argument", EINVAL, "id: it is missing");
	if (r >= 0 && doc.problem.code) {
		err = doc.problem;
		r = -err.code;
	}
	if (r >= 0)
		r = dispatch(c, doc.root, id, &err);
	if (r < 0)
		send_error(c, has_id > 0, id, &err);
}

static void control_too_long(void *state)
{
	struct cbx_err err;

	cbx_refuse(&err, "message_too_long", EMSGSIZE, "a request of more than %zu MiB was thrown away",
		   CBX_MESSAGE_MAX >> 20);
	send_error(state, false, 0, &err);
}

static void control_close(void *state)
{
	struct cbx_control *c = state;
	struct cbx_control_request *q, *next;
	struct cbx_session *s;
	struct cbx_err err;

	TAILQ_FOREACH(q, &c->requests, entry)
	q->control = NULL;
	for (q = TAILQ_FIRST(&c->requests); q; q = next) {
		struct cbx_execution *x = q->x;

		next = TAILQ_NEXT(q, entry);
		if (!x)
			continue; /* its callback frees it */
		cbx_execution_unwatch(x, q);
		cbx_execution_interrupt(x);
		free(q);
	}
	if (c->own[0] && cbx_session_find(c->daemon->engine, c->own, &s, &err) == 0 && cbx_session_one_shot(s))
		cbx_session_close(s, "its connection ended");
	free(c);
}

static const struct cbx_conn_ops control_ops = {
	.on_line = control_line,
	.on_too_long = control_too_long,
	.on_close = control_close,
};

int cbx_control_accept(struct cbx_daemon *d, int fd, struct cbx_client_entry *client)
{
	struct cbx_control *c = cbx_xcalloc(1, sizeof(*c));

	c->daemon = d;
	TAILQ_INIT(&c->requests);
	c->conn = cbx_conn_new(d->base, fd, &control_ops, c, cbx_client_gone, client);
	if (!c->conn) {
		free(c);
		return -ENOMEM;
	}
	client->conn = c->conn;
	return 0;
}
