/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an execution has the name SESSION.NUMBER. A client that waits for its end is answered then, or
 * when its time is up, with what there is.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "rest/internal.h"

static const char *const rules[] = { "all",
				     "jupyter_commands",
				     "dangerous_builtins",
				     "dangerous_imports",
				     "dangerous_patterns",
				     "package_installation" };

/* Rules that a session without rules for code does not have are not missed. */
static int check_validation(const cJSON *body, const cJSON **ret, struct cbx_err *err)
{
	const cJSON *list = NULL, *v;

	if (cbx_json_get_arr(body, "disable_validation", &list, err) < 0)
		return -err->code;
	*ret = list;
	cJSON_ArrayForEach(v, list)
		if (cbx_find_word(cJSON_GetStringValue(v), rules, ARRAY_SIZE(rules)) < 0)
			return cbx_refuse(
				err, "invalid_argument", EINVAL,
				"disable_validation: unknown rule; use all, jupyter_commands, dangerous_builtins, "
				"dangerous_imports, dangerous_patterns or package_installation");
	return 0;
}

static int check_body(const cJSON *body, const char **ret_session, struct cbx_cell_spec *cell, struct cbx_err *err)
{
	static const char *const keys[] = { "session_id", "code", "language", "disable_validation", "timeout", NULL };
	*ret_session = NULL;
	if (cbx_json_only(body, keys, err) < 0 || cbx_json_get_str(body, "session_id", ret_session, err) < 0 ||
	    cbx_json_get_str(body, "code", &cell->code, err) < 0 ||
	    cbx_json_get_str(body, "language", &cell->language, err) < 0 ||
	    check_validation(body, &cell->without, err) < 0)
		return -err->code;
	if (!*ret_session || !cell->code)
		return cbx_refuse(err, "invalid_argument", EINVAL, "missing field: %s",
				  *ret_session ? "code" : "session_id");
	if (cbx_utf8_count(cell->code, strlen(cell->code)) > CBX_REST_CODE_CHARS)
		return cbx_refuse(err, "code_too_long", EMSGSIZE, "code: longer than %d characters; write it to a file",
				  CBX_REST_CODE_CHARS);
	return 0;
}

static void answer_created(struct cbx_rest_call *call, const struct cbx_execution *x)
{
	cJSON *o = cbx_rest_status_json(x);

	cJSON_DeleteItemFromObjectCaseSensitive(o, "completed_at");
	cJSON_SetValuestring(cbx_json_member(o, "status"), "created");
	cbx_rest_answer(call, 200, o);
}

/* ---- what rules for code say of it: a request that they refuse was wrong, as one with a field too many ---- */

static void answer_ended(struct cbx_rest_call *call, struct cbx_execution *x)
{
	const char *why = cbx_execution_refusal(x);
	cJSON *o;

	if (!why) {
		answer_created(call, x);
		return;
	}
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "status", "error");
	cbx_json_set_str(o, "message", why);
	cbx_http_add_header(call->conn, "Codebox-Error", "code_refused");
	cbx_rest_answer(call, 400, o);
}

static void judged(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress)
{
	struct cbx_rest_call *call = cbx_container_of(op, struct cbx_rest_call, watch);

	if (progress->what == CBX_ENDED) {
		answer_ended(call, x);
	} else if (progress->what == CBX_JUDGED && !progress->refused) { /* why it is refused comes with its end */
		cbx_op_cancel(&op->op);
		answer_created(call, x);
	}
}

static void verdict_late(struct cbx_rest_call *call)
{
	struct cbx_execution *x = call->watch.x;

	cbx_op_cancel(&call->watch.op);
	answer_created(call, x);
}

static int await_verdict(struct cbx_rest_call *call, struct cbx_execution *x, struct cbx_err *err)
{
	call->watch = (struct cbx_watch_op){ .op.ops = &call->caller.ops, .on_progress = judged };
	if (cbx_execution_watch(x, &call->watch, err) < 0)
		return -err->code;
	cbx_rest_timer(call, CBX_REST_WAIT_MS, verdict_late);
	return 0;
}

int cbx_rest_execute(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_cell_spec cell = { .via = &call->via };
	const char *session;
	struct cbx_execution *x;
	struct cbx_session *s;
	bool busy = false;
	int r = check_body(call->doc.root, &session, &cell, err);

	if (r >= 0)
		r = cbx_rest_cell_timeout(call, &cell.timeout_ms, err);
	if (r >= 0)
		r = cbx_rest_link_seconds(call, &cell.link_s, err);
	cell.store_string = cbx_http_header(call->conn, CBX_STORE_STRING);
	cell.container = cbx_http_header(call->conn, CBX_STORE_CONTAINER);
	if (r >= 0)
		r = cbx_session_find(&call->caller, session, &s, err);
	if (r >= 0) {
		busy = cbx_session_running(s);
		r = cbx_session_start(s, &cell, NULL, &x, err);
	}
	if (r < 0)
		return r;
	if (!cbx_session_judges(s) || busy)
		answer_created(call, x);
	else
		r = await_verdict(call, x, err);
	return r;
}

/* ---- asking ---- */

bool cbx_rest_execution(struct cbx_rest_call *call, const char *detail, struct cbx_execution **ret)
{
	struct cbx_session *s;
	struct cbx_err err;

	if (cbx_session_find(&call->caller, call->target.session_id, &s, &err) >= 0 &&
	    cbx_execution_find(s, call->target.execution_id, ret, &err) >= 0)
		return true;
	if (strcmp(err.kind, "execution_expired") == 0 || strcmp(err.kind, "execution_forgotten") == 0)
		cbx_rest_fail(call, &err); /* it was there */
	else
		cbx_rest_not_found(call, err.kind, detail);
	return false;
}

static void answer(struct cbx_rest_call *call, struct cbx_execution *x)
{
	struct cbx_err err;

	if (call->route->call == cbx_rest_get_status)
		cbx_rest_answer(call, 200, cbx_rest_status_json(x));
	else if (call->route->call == cbx_rest_get_execution)
		cbx_rest_answer(call, 200, cbx_rest_execution_json(x));
	else if (cbx_execution_lost(x, &err) < 0)
		cbx_rest_fail(call, &err);
	else if (cbx_execution_status(x) > CBX_RUNNING)
		cbx_rest_answer(call, 200, cbx_rest_results_json(x));
	else
		cbx_rest_not_found(call, "not_ended", "Results not available");
}

static void on_progress(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress)
{
	if (progress->what == CBX_ENDED)
		answer(cbx_container_of(op, struct cbx_rest_call, watch), x);
}

static void time_is_up(struct cbx_rest_call *call)
{
	struct cbx_execution *x = call->watch.x;

	cbx_op_cancel(&call->watch.op);
	answer(call, x);
}

static int ask(struct cbx_rest_call *call, const char *detail, struct cbx_err *err)
{
	struct cbx_execution *x;
	uint64_t wait_ms;
	int r = cbx_rest_wait(call, &wait_ms, err);

	if (r < 0 || !cbx_rest_execution(call, detail, &x))
		return r;
	if (!wait_ms || cbx_execution_status(x) > CBX_RUNNING) {
		answer(call, x);
		return 0;
	}
	call->watch = (struct cbx_watch_op){ .op.ops = &call->caller.ops, .on_progress = on_progress };
	r = cbx_execution_watch(x, &call->watch, err);
	if (r >= 0)
		cbx_rest_timer(call, wait_ms, time_is_up);
	else if (strcmp(err->kind, "ended") == 0)
		answer(call, x);
	else
		return r;
	return 0;
}

int cbx_rest_get_execution(struct cbx_rest_call *call, struct cbx_err *err)
{
	return ask(call, "Request not found", err);
}

int cbx_rest_get_status(struct cbx_rest_call *call, struct cbx_err *err)
{
	return ask(call, "Request not found", err);
}

int cbx_rest_get_results(struct cbx_rest_call *call, struct cbx_err *err)
{
	return ask(call, "Results not available", err);
}

static void add_one(void *arg, const struct cbx_execution *x)
{
	cbx_json_push(arg, cbx_rest_summary_json(x));
}

int cbx_rest_list_executions(struct cbx_rest_call *call, struct cbx_err *err)
{
	cJSON *o, *list;
	struct cbx_session *s;

	if (!cbx_rest_session(call, &s))
		return 0;
	o = cbx_json_new_obj();
	list = cbx_json_new_arr();
	cbx_session_executions(s, add_one, list);
	cbx_json_set_str(o, "session_id", cbx_session_id(s));
	cbx_json_set(o, "executions", list);
	cbx_rest_answer(call, 200, o);
	return 0;
}

int cbx_rest_interrupt(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_execution *x;
	cJSON *o;

	if (!cbx_rest_execution(call, "Request not found", &x))
		return 0;
	if (cbx_execution_status(x) <= CBX_RUNNING)
		cbx_execution_interrupt(&call->caller, x);
	o = cbx_json_new_obj();
	cbx_rest_set_request(o, x);
	cbx_json_set_str(o, "status", cbx_rest_status(x));
	cbx_rest_answer(call, 200, o);
	return 0;
}
