/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: questions are sent when the interpreter is free. Cells do not wait for answers: the driver reads
 * its frames in order.
 */
#include "interp/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/timer.h"

#define MATCHES_MAX 1000

struct cbx_query {
	TAILQ_ENTRY(cbx_query) entry;
	uint64_t id; /* 0: not sent yet */
	enum cbx_question question;
	char *code;
	uint64_t cursor;
	uint64_t deadline_ms;
	struct cbx_op *op;
};

void cbx_queries_init(struct cbx_queries *qs)
{
	TAILQ_INIT(&qs->list);
}

void cbx_queries_free(struct cbx_queries *qs)
{
	cbx_event_free_p(&qs->late);
}

static void end(struct cbx_queries *qs, struct cbx_query *q, const cJSON *answer, const struct cbx_err *err)
{
	struct cbx_answer_op *op = cbx_op_take(&q->op);

	TAILQ_REMOVE(&qs->list, q, entry);
	qs->n--;
	free(q->code);
	free(q);
	if (op)
		op->done(op, answer, err);
}

void cbx_queries_fail(struct cbx_queries *qs, const struct cbx_err *err)
{
	struct cbx_err copy = *err;
	struct cbx_query *q;

	while ((q = TAILQ_FIRST(&qs->list)))
		end(qs, q, NULL, &copy);
}

static void late_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_queries *qs = arg;
	uint64_t now = cbx_now_ms();
	struct cbx_query *q;
	struct cbx_err err;

	cbx_refuse(&err, "timeout", ETIMEDOUT, "the interpreter did not answer within %d s", CBX_QUERY_WAIT_MS / 1000);
	while ((q = TAILQ_FIRST(&qs->list)) && q->deadline_ms <= now)
		end(qs, q, NULL, &err);
	if (q)
		cbx_timer_set(qs->late, q->deadline_ms - now + 1);
}

int cbx_query_add(struct cbx_queries *qs, struct event_base *base, enum cbx_question question, const char *code,
		  uint64_t cursor, struct cbx_answer_op *op, struct cbx_err *err)
{
	struct cbx_query *q;

	if (strlen(code) > CBX_CODE_MAX)
		return cbx_refuse(err, "code_too_long", EMSGSIZE, "code: too long; give up to %zu bytes", CBX_CODE_MAX);
	if (!qs->late)
		qs->late = event_new(base, -1, 0, late_event, qs);
	if (!qs->late)
		return cbx_fail(err, ENOMEM, "watch a question");
	q = cbx_xcalloc(1, sizeof(*q));
	q->question = question;
	q->code = cbx_xstrdup(code);
	q->cursor = cursor;
	cbx_op_begin(&op->op, &q->op);
	q->deadline_ms = cbx_now_ms() + CBX_QUERY_WAIT_MS;
	TAILQ_INSERT_TAIL(&qs->list, q, entry);
	qs->n++;
	if (!event_pending(qs->late, EV_TIMEOUT, NULL))
		cbx_timer_set(qs->late, CBX_QUERY_WAIT_MS);
	return 0;
}

static const char *const names[] = {
	[CBX_ASK_IS_COMPLETE] = "is_complete",
	[CBX_ASK_COMPLETE] = "complete",
	[CBX_ASK_STALE] = "stale",
	[CBX_ASK_INSPECT] = "inspect",
};

cJSON *cbx_query_next(struct cbx_queries *qs)
{
	struct cbx_query *q;
	cJSON *frame;

	TAILQ_FOREACH(q, &qs->list, entry)
	if (!q->id)
		break;
	if (!q)
		return NULL;
	q->id = ++qs->last;
	frame = cbx_json_new_obj();
	cbx_json_set_str(frame, "op", names[q->question]);
	cbx_json_set_u64(frame, "id", q->id);
	if (q->question != CBX_ASK_STALE)
		cbx_json_set_str(frame, "code", q->code);
	if (q->question == CBX_ASK_COMPLETE || q->question == CBX_ASK_INSPECT)
		cbx_json_set_u64(frame, "cursor", q->cursor);
	return frame;
}

static cJSON *completeness(const cJSON *frame)
{
	const char *status = cbx_json_str(frame, "status"), *indent = cbx_json_str(frame, "indent");
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
	const cJSON *matches = cbx_json_member(frame, "matches"), *m;
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

/* A text that is too long ends early. */
static cJSON *inspection(const cJSON *frame)
{
	const char *text = cbx_json_str(frame, "text");
	size_t n = strlen(text);
	cJSON *o = cbx_json_new_obj();

	if (n > CBX_INSPECT_MAX)
		for (n = CBX_INSPECT_MAX; ((unsigned char)text[n] & 0xc0) == 0x80; n--)
			;
	cbx_json_set_bool(o, "found", n > 0);
	cbx_json_set_strn(o, "text", text, n);
	return o;
}

/* Names and versions are for who asked to judge. */
static cJSON *stale(const cJSON *frame)
{
	const cJSON *packages = cbx_json_member(frame, "packages"), *p;
	cJSON *list;
	int n = 0;

	if (!cJSON_IsArray(packages))
		return NULL;
	list = cbx_json_new_arr();
	cJSON_ArrayForEach (p, packages) {
		cJSON *o = n++ < MATCHES_MAX ? cbx_json_new_obj() : NULL;

		if (!o)
			break;
		cbx_json_set_str(o, "name", cbx_json_str(p, "name"));
		cbx_json_set_str(o, "version", cbx_json_str(p, "version"));
		cbx_json_push(list, o);
	}
	return list;
}

int cbx_query_answered(struct cbx_queries *qs, uint64_t id, enum cbx_question question, const cJSON *frame)
{
	static cJSON *(*const readers[])(const cJSON *frame) = {
		[CBX_ASK_IS_COMPLETE] = completeness,
		[CBX_ASK_COMPLETE] = completions,
		[CBX_ASK_STALE] = stale,
		[CBX_ASK_INSPECT] = inspection,
	};
	_cleanup_json_ cJSON *answer = NULL;
	struct cbx_query *q;

	if (id == 0 || id > qs->last)
		return -EBADMSG;
	TAILQ_FOREACH(q, &qs->list, entry)
	if (q->id == id && q->question == question)
		break;
	if (!q)
		return 0; /* it came too late */
	answer = readers[question](frame);
	if (!answer)
		return -EBADMSG;
	end(qs, q, answer, NULL);
	return 0;
}
