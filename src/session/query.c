/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: questions about code (is it complete, what could follow) that the driver answers between cells.
 * They are sent when the interpreter is free, and each has a deadline; an answer that comes later is ignored. Cells do
 * not wait for answers: the driver reads its socket in order. What an interpreter that does not read has not taken stays
 * when the deadline is over, so there is no question more while that is much.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/internal.h"

#define QUERY_WAIT_MS 10000
#define MATCHES_MAX   1000

static void query_free(struct cbx_session *s, struct cbx_query *q)
{
	TAILQ_REMOVE(&s->queries, q, entry);
	s->nqueries--;
	free(q->code);
	free(q);
}

static void fail(struct cbx_session *s, struct cbx_query *q, const struct cbx_err *err)
{
	cbx_answer_fn fn = q->fn;
	void *arg = q->arg;

	query_free(s, q);
	fn(arg, NULL, err);
}

void cbx_session_drop_queries(struct cbx_session *s, const struct cbx_err *err)
{
	struct cbx_err copy = *err;
	struct cbx_query *q;

	while ((q = TAILQ_FIRST(&s->queries)))
		fail(s, q, &copy);
}

static void query_late(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	uint64_t now = cbx_now_ms();
	struct cbx_query *q;
	struct cbx_err err;

	cbx_refuse(&err, "timeout", ETIMEDOUT, "the interpreter did not answer within %d s", QUERY_WAIT_MS / 1000);
	while ((q = TAILQ_FIRST(&s->queries)) && q->deadline_ms <= now)
		fail(s, q, &err);
	if (q && s->state != CBX_CLOSING)
		cbx_timer_set(s->query_timer, q->deadline_ms - now + 1);
}

static int ask(struct cbx_session *s, bool completion, const char *code, uint64_t cursor, cbx_answer_fn fn, void *arg,
	       struct cbx_err *err)
{
	struct cbx_query *q;

	if (s->state == CBX_CLOSING) {
		*err = s->end;
		return -(err->code ? err->code : (err->code = ENOENT));
	}
	if (s->interp.tx.len > CBX_CODE_MAX)
		return cbx_refuse(err, "busy", EBUSY, "the interpreter of session %s does not take what it is asked",
				  s->spec.id);
	if (s->running || s->nqueued || s->nqueries >= CBX_QUERIES_MAX)
		return cbx_refuse(err, "busy", EBUSY, "a cell is running in session %s; ask again when it has ended",
				  s->spec.id);
	if (strlen(code) > CBX_CODE_MAX)
		return cbx_refuse(err, "code_too_long", EMSGSIZE, "code: more than the %zu bytes allowed",
				  CBX_CODE_MAX);
	if (!s->query_timer)
		s->query_timer = event_new(s->engine->base, -1, 0, query_late, s);
	if (!s->query_timer)
		return cbx_fail(err, ENOMEM, "watch a question");
	q = cbx_xcalloc(1, sizeof(*q));
	q->completion = completion;
	q->code = cbx_xstrdup(code);
	q->cursor = cursor;
	q->fn = fn;
	q->arg = arg;
	q->deadline_ms = cbx_now_ms() + QUERY_WAIT_MS;
	TAILQ_INSERT_TAIL(&s->queries, q, entry);
	s->nqueries++;
	if (!event_pending(s->query_timer, EV_TIMEOUT, NULL))
		cbx_timer_set(s->query_timer, QUERY_WAIT_MS);
	cbx_session_touch(s);
	cbx_session_work(s);
	return 0;
}

int cbx_session_is_complete(struct cbx_session *s, const char *code, cbx_answer_fn fn, void *arg, struct cbx_err *err)
{
	return ask(s, false, code, 0, fn, arg, err);
}

int cbx_session_complete(struct cbx_session *s, const char *code, uint64_t cursor, cbx_answer_fn fn, void *arg,
			 struct cbx_err *err)
{
	return ask(s, true, code, cursor, fn, arg, err);
}

void cbx_query_send_all(struct cbx_session *s)
{
	struct cbx_query *q;

	TAILQ_FOREACH(q, &s->queries, entry)
	{
		cJSON *frame;

		if (q->id)
			continue;
		q->id = s->next_query++;
		frame = cbx_json_new_obj();
		cbx_json_set_str(frame, "op", q->completion ? "complete" : "is_complete");
		cbx_json_set_u64(frame, "id", q->id);
		cbx_json_set_str(frame, "code", q->code);
		if (q->completion)
			cbx_json_set_u64(frame, "cursor", q->cursor);
		cbx_interp_send(s, frame);
	}
}

static const char *text_of(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsString(v) ? v->valuestring : "";
}

static cJSON *completeness(const cJSON *frame)
{
	const char *status = text_of(frame, "status"), *indent = text_of(frame, "indent");
	cJSON *o;

	if (strcmp(status, "complete") != 0 && strcmp(status, "incomplete") != 0 && strcmp(status, "invalid") != 0)
		return NULL;
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "status", status);
	cbx_json_set_strn(o, "indent", indent, strspn(indent, " \t") < 200 ? strspn(indent, " \t") : 200);
	return o;
}

static cJSON *completions(const cJSON *frame)
{
	const cJSON *matches = cJSON_GetObjectItemCaseSensitive(frame, "matches"), *m;
	uint64_t start = 0, end = 0;
	struct cbx_err err;
	cJSON *o, *list;
	int n = 0;

	if (!cJSON_IsArray(matches) || cbx_json_get_u64(frame, "start", 0, CBX_CODE_MAX, &start, &err) < 0 ||
	    cbx_json_get_u64(frame, "end", 0, CBX_CODE_MAX, &end, &err) < 0)
		return NULL;
	o = cbx_json_new_obj();
	list = cbx_json_new_arr();
	cJSON_ArrayForEach (m, matches)
		if (cJSON_IsString(m) && n++ < MATCHES_MAX)
			cbx_json_push_str(list, m->valuestring);
	cbx_json_set(o, "matches", list);
	cbx_json_set_u64(o, "start", start);
	cbx_json_set_u64(o, "end", end);
	return o;
}

void cbx_query_answered(struct cbx_session *s, uint64_t id, bool completion, const cJSON *frame)
{
	_cleanup_json_ cJSON *answer = NULL;
	struct cbx_query *q;
	cbx_answer_fn fn;
	void *arg;

	TAILQ_FOREACH(q, &s->queries, entry)
	if (q->id == id && q->completion == completion)
		break;
	if (!q)
		return; /* it came too late */
	answer = completion ? completions(frame) : completeness(frame);
	if (!answer) {
		cbx_interp_fault(s, "it gave an answer that makes no sense");
		return;
	}
	fn = q->fn;
	arg = q->arg;
	query_free(s, q);
	fn(arg, answer, NULL);
}
