/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a call waits for the end of an execution, but no longer than clients wait for an answer: the
 * timer ends the wait, and the execution keeps running. Either way the call's own `answer` reports what there is then.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/timer.h"
#include "tools/internal.h"

void cbx_tool_started(struct cbx_tool_call *call)
{
	if (call->default_session && strcmp(call->client->default_session, call->session_id) == 0)
		call->client->default_used = true;
}

static void ended(struct cbx_tool_call *call, struct cbx_execution *x)
{
	cbx_event_free_p(&call->timer);
	call->answer(call, x);
}

static void on_progress(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, watch);

	if (progress->what == CBX_STARTED)
		cbx_tool_started(call);
	else if (progress->what == CBX_PRINTED && call->events->printed)
		call->events->printed(call, progress->stream, progress->p, progress->n);
	else if (progress->what == CBX_ENDED)
		ended(call, x);
}

struct cbx_execution *cbx_tool_wait_stop(struct cbx_tool_call *call)
{
	cbx_event_free_p(&call->timer);
	if (!cbx_op_pending(&call->watch.op))
		return NULL;
	cbx_op_cancel(&call->watch.op);
	return call->watch.x;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_tool_call *call = arg;
	struct cbx_execution *x = cbx_tool_wait_stop(call);

	if (!x)
		return;
	if (call->interrupts)
		cbx_execution_interrupt(&call->client->caller, x);
	else
		cbx_tool_started(call); /* nobody watches it any more, and it will start */
	call->answer(call, x);
}

int cbx_tool_wait(struct cbx_tool_call *call, struct cbx_execution *x, uint64_t ms, struct cbx_err *err)
{
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
	bool over;
	int r;

	call->execution_id = cbx_execution_id(x);
	snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(cbx_execution_session(x)));
	over = cbx_execution_status(x) > CBX_RUNNING;
	if (ms == 0 || over) {
		if (!over)
			cbx_tool_started(call);
		call->answer(call, x);
		return 0;
	}
	call->watch = (struct cbx_watch_op){ .op.ops = &call->client->caller.ops,
					     .on_progress = on_progress };
	r = cbx_execution_watch(x, &call->watch, err);
	if (r < 0)
		return r;
	call->timer = event_new(call->client->base, -1, 0, on_timer, call);
	if (call->timer)
		event_add(call->timer, &tv);
	return 0;
}
