/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a call waits for the end of an execution, but no longer than clients wait for an answer: the
 * timer ends the wait, and the execution goes on. Either way the call's own `answer` tells what there is to tell then.
 *
 * The watch holds a reference to the call: given back by the end of the execution, or when the watch was taken off.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/internal.h"

static void on_start(void *arg, struct cbx_execution *x)
{
	struct cbx_mcp_call *call = arg;

	if (call->mcp && call->default_session && strcmp(call->mcp->default_session, call->session_id) == 0)
		call->mcp->default_used = true;
}

static void on_output(void *arg, struct cbx_execution *x, const char *stream, const char *p, size_t n)
{
	struct cbx_mcp_call *call = arg;

	if (call->mcp)
		cbx_mcp_progress_output(call, stream, p, n);
}

static void stop_timer(struct cbx_mcp_call *call)
{
	if (call->timer)
		event_free(call->timer);
	call->timer = NULL;
}

static void on_end(void *arg, struct cbx_execution *x)
{
	struct cbx_mcp_call *call = arg;

	call->watching = false;
	stop_timer(call);
	if (call->mcp)
		call->answer(call, x);
	cbx_mcp_call_unref(call);
}

struct cbx_execution *cbx_mcp_wait_stop(struct cbx_mcp_call *call, struct cbx_engine *engine)
{
	struct cbx_session *session;
	struct cbx_execution *x;
	struct cbx_err err;

	stop_timer(call);
	/* When it is gone, or its session's id is another's now, on_end is still to come. */
	if (!call->watching || cbx_session_find(engine, call->session_id, &session, &err) < 0 ||
	    cbx_execution_find(session, call->execution_id, &x, &err) < 0 || !cbx_execution_unwatch(x, call))
		return NULL;
	call->watching = false;
	cbx_mcp_call_unref(call);
	return x;
}

void cbx_mcp_wait_cancel(struct cbx_mcp_call *call, struct cbx_engine *engine)
{
	cbx_mcp_wait_stop(call, engine);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_mcp_call *call = arg;
	struct cbx_execution *x;

	call->refs++;
	x = cbx_mcp_wait_stop(call, call->mcp->engine);
	if (x) {
		on_start(call, x); /* nobody watches it any more, and it will start */
		call->answer(call, x);
	}
	cbx_mcp_call_unref(call);
}

int cbx_mcp_wait(struct cbx_mcp_call *call, struct cbx_execution *x, uint64_t ms, struct cbx_err *err)
{
	struct cbx_watch watch = { on_start, call->progress ? on_output : NULL, NULL, on_end, call };
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
	bool over;
	int r;

	call->execution_id = cbx_execution_id(x);
	snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(cbx_execution_session(x)));
	over = cbx_execution_status(x) > CBX_RUNNING;
	if (ms == 0 || over) {
		if (!over)
			on_start(call, x);
		call->answer(call, x);
		return 0;
	}
	r = cbx_execution_watch(x, &watch, err);
	if (r < 0)
		return r;
	call->refs++;
	call->watching = true;
	call->timer = event_new(call->mcp->base, -1, 0, on_timer, call);
	if (call->timer)
		event_add(call->timer, &tv);
	return 0;
}

int cbx_mcp_arg_session(struct cbx_mcp_call *call, const cJSON *args, struct cbx_session **ret, struct cbx_err *err)
{
	const char *id = NULL;
	int r = cbx_json_get_str(args, "session_id", &id, err);

	if (r < 0)
		return r;
	if (!id && !call->rev->modern && call->mcp->default_session[0])
		id = call->mcp->default_session;
	if (!id)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  call->rev->modern
					  ? "session_id: it is missing; pass an id from list_sessions or from "
					    "run_code's answer"
					  : "this connection has no session of its own yet: run_code and write_file "
					    "make it; or pass the session_id of another, as list_sessions tells it");
	r = cbx_session_find(call->mcp->engine, id, ret, err);
	if (r >= 0)
		snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(*ret));
	return r;
}

void cbx_mcp_schema_session(cJSON *properties)
{
	cbx_mcp_schema_property(properties, "session_id", "string", CBX_SESSION_ARGUMENT);
}
