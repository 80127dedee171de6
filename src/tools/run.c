/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: run_code puts a cell into a session's queue and waits for its end (wait.c), but not for longer
 * than clients do. Between events only ids are kept: the session may be gone at any time. A call without a session id
 * uses the connection's own session (own.c). In the modern era connections have none, unless codebox mcp was given its
 * name: such a call makes a session that stays, unless it is cancelled, because then nobody knows of it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "tools/internal.h"

struct run_args {
	const char *code, *session_id, *language;
	uint64_t timeout_ms;
	bool background;
};

int cbx_tool_arg_new_session(const cJSON *args, const char **ret, struct cbx_err *err)
{
	int r = cbx_json_get_str(args, "session_id", ret, err);

	if (r > 0 && !cbx_name_valid(*ret))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "session_id: \"%.80s\" is not a session's id (letters, digits, _ . -, at most %d); "
				  "pass one from list_sessions, or omit it",
				  *ret, CBX_NAME_MAX);
	return r < 0 ? r : 0;
}

static int parse(const cJSON *args, struct run_args *ret, struct cbx_err *err)
{
	double timeout = 0;
	int r = cbx_json_get_str(args, "code", &ret->code, err);

	if (r >= 0)
		r = cbx_tool_arg_new_session(args, &ret->session_id, err);
	if (r >= 0)
		r = cbx_json_get_double(args, "timeout", 0.1, CBX_TIMEOUT_MAX_MS / 1000.0, &timeout, err);
	if (r >= 0)
		r = cbx_json_get_str(args, "language", &ret->language, err);
	if (r >= 0)
		r = cbx_json_get_bool(args, "background", &ret->background, err);
	if (r < 0)
		return r;
	ret->timeout_ms = (uint64_t)(timeout * 1000 + 0.5);
	if (!ret->code)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "missing argument: code; pass the code to run as a string");
	if (strlen(ret->code) > CBX_CODE_MAX)
		return cbx_refuse(err, "code_too_long", E2BIG,
				  "code: %zu bytes are over the limit of %zu for one cell; write data to a file, and "
				  "read it from there",
				  strlen(ret->code), CBX_CODE_MAX);
	return 0;
}

/* To be said once, with the first session that is made after it. */
static void tell_restart(struct cbx_tool_call *call)
{
	if (!call->client->restart_untold || call->notice)
		return;
	call->client->restart_untold = false;
	call->notice = cbx_xstrdup("codeboxd was restarted (it was stopped, replaced or crashed), and this is a "
				   "new session. Variables and files of earlier sessions are gone.");
}

static int new_session(struct cbx_tool_call *call, struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_session_spec spec;
	int r;

	cbx_own_spec(call->client, &spec);
	spec.disposable = true;
	r = cbx_session_create(&call->client->caller, &spec, NULL, ret, err);
	if (r < 0)
		return r;
	call->made_session = true;
	snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(*ret));
	return r;
}

int cbx_tool_session(struct cbx_tool_call *call, const char *id, struct cbx_session **ret, struct cbx_err *err)
{
	int r;

	if (id)
		return cbx_session_find(&call->client->caller, id, ret, err);
	call->default_session = true;
	r = call->own ? cbx_own_get(call->client, call->takes_roots, ret, &call->notice, err)
		      : new_session(call, ret, err);
	if (r >= 0)
		tell_restart(call);
	return r;
}

static void answer(struct cbx_tool_call *call, struct cbx_execution *x)
{
	if (cbx_execution_status(x) > CBX_RUNNING || !call->events->left || !call->events->left(call, x))
		cbx_tool_outcome(call, x);
}

void cbx_tool_run_code(struct cbx_tool_call *call, const cJSON *args)
{
	struct run_args a = { 0 };
	struct cbx_cell_spec cell;
	struct cbx_session *session;
	struct cbx_execution *x;
	struct cbx_err err;
	int r = parse(args, &a, &err);

	if (r >= 0)
		r = cbx_tool_session(call, a.session_id, &session, &err);
	if (r >= 0 && !a.session_id && !a.timeout_ms)
		a.timeout_ms = cbx_own_timeout(call->client);
	cell = (struct cbx_cell_spec){ .code = a.code, .language = a.language, .timeout_ms = a.timeout_ms };
	cell.via = call->client->caller.via;
	if (r >= 0)
		r = cbx_session_start(session, &cell, NULL, &x, &err);
	if (r < 0) {
		cbx_tool_refuse(call, &err);
		return;
	}
	call->answer = answer;
	if (cbx_tool_wait(call, x, a.background ? 0 : CBX_WAIT_MS, &err) < 0)
		cbx_tool_refuse(call, &err);
}

void cbx_tool_cancel_run(struct cbx_tool_call *call)
{
	struct cbx_execution *x = cbx_tool_wait_stop(call);
	struct cbx_session *s;
	struct cbx_err err;

	if (!call->made_session) {
		if (x)
			cbx_execution_interrupt(&call->client->caller, x);
	} else if (cbx_session_find(&call->client->caller, call->session_id, &s, &err) >= 0) {
		cbx_session_close(&call->client->caller, s, "the call that made it was cancelled");
	}
}
