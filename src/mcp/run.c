/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: run_code puts a cell into a session's queue and waits for its end (wait.c), but not for longer
 * than clients do. Between events only ids are kept: the session may be gone at any time. A call without a session id
 * uses the connection's own session, made when it is first needed; when that one has died since, a new one takes its
 * place and the answer says that nothing of it is left. In the modern era connections have no sessions: such a call
 * makes a session that stays, unless it is cancelled, because then nobody was told of it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/internal.h"

#define DESCRIPTION(session) \
	"Run Python code in a sandbox and get what a notebook cell would show: printed output, the value of the last " \
	"expression, matplotlib figures as images, the traceback of an error.\n\n" \
	"State: variables, imports, functions and files of earlier calls in the same session are still there; do not " \
	"repeat them. " session " Calls in one session run one after another, different sessions at the same time." \
	"\n\n" \
	"Showing things: end the cell with an expression (df.head()) or print(). Figures appear by themselves, " \
	"plt.show() is not needed. Long output is cut in the middle and the answer says where the rest is: print " \
	"less, or summarise.\n\n" \
	"Files: the working directory is /workspace, and it stays with the session. There is no network, and input() " \
	"does not work. Shell: start a line with ! (as in !ls -l).\n\n" \
	"Errors: status \"error\" is an exception in the code: read the traceback, fix the code, call again; " \
	"variables set before the exception are kept. \"timeout\": the cell was interrupted; state_kept says whether " \
	"variables survived; do the work in smaller steps or pass a larger timeout. \"killed\": the interpreter " \
	"ended (memory, a crash, exit) and a fresh one takes its place: variables are gone, files are kept.\n\n" \
	"Long work: after 45 s (at once with background) the answer is status \"running\", and the cell goes on: " \
	"get_execution with its execution_id gets the rest, interrupt stops it."

static const char description[] = DESCRIPTION(
	"Without session_id the session of this connection is used (made when needed, gone when the connection ends; "
	"its id is in the answer).");
static const char modern_description[] = DESCRIPTION(
	"Without session_id a new session is made; its id is in the answer: pass it in the calls that follow.");

static cJSON *input(void)
{
	static const char *const required[] = { "code", NULL };
	cJSON *props = cbx_json_new_obj(), *p, *values = cbx_json_new_arr();

	cbx_mcp_schema_property(props, "code", "string", "Python code; several lines are one cell.");
	cbx_mcp_schema_property(props, "session_id", "string",
				"Session to run in, as create_session or an earlier answer told it. Leave it out for "
				"this connection's own session.");
	p = cbx_mcp_schema_property(props, "timeout", "number",
				    "Seconds until the cell is interrupted; 60 unless the session says otherwise.");
	cbx_json_set_double(p, "minimum", 0.1);
	cbx_json_set_u64(p, "maximum", CBX_TIMEOUT_MAX_MS / 1000);
	p = cbx_mcp_schema_property(props, "language", "string", "Language of the code.");
	cbx_json_push_str(values, "python");
	cbx_json_set(p, "enum", values);
	cbx_json_set_str(p, "default", "python");
	cbx_mcp_schema_property(props, "background", "boolean",
				"Answer at once, with status running; the cell goes on. For what takes minutes.");
	return cbx_mcp_schema_object(props, required, true);
}

struct run_args {
	const char *code, *session_id;
	uint64_t timeout_ms;
	bool background;
};

static int parse(const cJSON *args, struct run_args *ret, struct cbx_err *err)
{
	const char *language = "python";
	double timeout = 0;
	int r = cbx_json_get_str(args, "code", &ret->code, err);

	if (r >= 0)
		r = cbx_json_get_str(args, "session_id", &ret->session_id, err);
	if (r >= 0)
		r = cbx_json_get_double(args, "timeout", 0.1, CBX_TIMEOUT_MAX_MS / 1000.0, &timeout, err);
	if (r >= 0)
		r = cbx_json_get_str(args, "language", &language, err);
	if (r >= 0)
		r = cbx_json_get_bool(args, "background", &ret->background, err);
	if (r < 0)
		return r;
	ret->timeout_ms = (uint64_t)(timeout * 1000 + 0.5);
	if (!ret->code)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "code: it is missing; pass the Python code to run as a string");
	if (strlen(ret->code) > CBX_CODE_MAX)
		return cbx_refuse(err, "code_too_long", E2BIG, "code: %zu bytes are over the limit of %zu for one cell",
				  strlen(ret->code), CBX_CODE_MAX);
	if (strcmp(language, "python") != 0)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "language: \"%.40s\" is not available; use \"python\" or leave it out", language);
	if (ret->session_id && !cbx_name_valid(ret->session_id))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "session_id: \"%.80s\" is not a session's id (letters, digits, _ . -, at most %d); "
				  "pass one from list_sessions, or leave it out",
				  ret->session_id, CBX_NAME_MAX);
	return 0;
}

int cbx_mcp_default_session(struct cbx_mcp_call *call, struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_mcp *mcp = call->mcp;
	struct cbx_session_spec spec;
	struct cbx_err lost;
	int r;

	if (mcp->default_session[0]) {
		if (cbx_session_find(mcp->engine, mcp->default_session, ret, &lost) >= 0)
			return 0;
		if (mcp->default_used)
			call->notice =
				cbx_xasprintf("A new session was started, because the earlier one has ended (%s). "
					      "Variables and files of before are gone.",
					      lost.msg);
		mcp->default_session[0] = '\0';
		mcp->default_used = false;
	}
	cbx_session_spec_init(&spec);
	spec.one_shot = true;
	cbx_mcp_roots_apply(call, &spec);
	r = cbx_session_create(mcp->engine, &spec, NULL, NULL, ret, err);
	if (r < 0)
		return r;
	snprintf(mcp->default_session, sizeof(mcp->default_session), "%s", cbx_session_id(*ret));
	return 0;
}

static int new_session(struct cbx_mcp_call *call, struct cbx_session **ret, struct cbx_err *err)
{
	struct cbx_session_spec spec;

	cbx_session_spec_init(&spec);
	return cbx_session_create(call->mcp->engine, &spec, NULL, NULL, ret, err);
}

static void run(struct cbx_mcp_call *call, const cJSON *args)
{
	struct run_args a = { 0 };
	struct cbx_session *session;
	struct cbx_execution *x;
	struct cbx_err err;
	int r = parse(args, &a, &err);

	if (r >= 0 && a.session_id) {
		r = cbx_session_find(call->mcp->engine, a.session_id, &session, &err);
	} else if (r >= 0) {
		call->default_session = true;
		r = call->rev->modern ? new_session(call, &session, &err)
				      : cbx_mcp_default_session(call, &session, &err);
	}
	if (r >= 0)
		r = cbx_session_run(session, a.code, a.timeout_ms, NULL, &x, &err);
	if (r < 0) {
		cbx_mcp_call_refuse(call, &err);
		return;
	}
	call->answer = call->rev->modern && cbx_mcp_takes_tasks(call->params) ? cbx_mcp_task_outcome : cbx_mcp_outcome;
	if (cbx_mcp_wait(call, x, a.background ? 0 : CBX_WAIT_MS, &err) < 0)
		cbx_mcp_call_refuse(call, &err);
}

static void cancel(struct cbx_mcp_call *call, struct cbx_engine *engine)
{
	struct cbx_execution *x = cbx_mcp_wait_stop(call, engine);

	if (!x)
		return;
	if (call->rev->modern && call->default_session)
		cbx_session_close(cbx_execution_session(x), "the call that made it was cancelled");
	else
		cbx_execution_interrupt(x);
}

const struct cbx_mcp_tool cbx_mcp_run_code = {
	.name = "run_code",
	.title = "Run Python code",
	.description = description,
	.modern_description = modern_description,
	.modern_session = "Session to run in, as create_session or an earlier answer told it. Left out: a new one is "
			  "made, and its id is in the answer.",
	.input = input,
	.output = cbx_mcp_result_schema,
	.call = run,
	.cancel = cancel,
};
