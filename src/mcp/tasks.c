/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a client comes back for a task, or gets news when it ends. run_code makes one where it would
 * answer "running", and only for a client that has declared the extension in that request (calls.c). What the code did,
 * exceptions and killed interpreters included, is the result of a "completed" task; "failed" is for errors of JSON-RPC,
 * which no execution has. A task asks its client nothing, so tasks/update has nothing to do.
 *
 * tasks/get and the notifications are calls whose result is put into the task before it is sent (call->finish): so they
 * have all that run_code's own answer would have had, image files included.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/call.h"
#include "mcp/stream.h"
#include "mcp/request.h"
#include "mcp/task.h"

/* ---- a task with its result ---- */

/* call->finish: `result` is a printed object, or empty for a task without one. */
static void finish(struct cbx_mcp_call *call, const struct cbx_buf *result)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_buf_ struct cbx_buf head = { 0 };

	cbx_json_print_clean(&head, call->task);
	cbx_buf_addc(&text, '{');
	if (call->stream)
		cbx_buf_addf(&text, "\"_meta\":{\"" CBX_META "subscriptionId\":%s},", call->stream->slot.id);
	cbx_buf_add(&text, head.data + 1, head.len - 2);
	if (result->len > 2) {
		cbx_buf_adds(&text, ",\"result\":{\"resultType\":\"complete\",");
		cbx_buf_add(&text, result->data + 1, result->len - 1);
	}
	cbx_buf_addc(&text, '}');
	if (call->stream)
		cbx_rpc_notify(&call->stream->slot, "notifications/tasks", &text);
	else
		cbx_rpc_answer_text(&call->slot, &text);
}

static const struct cbx_tool task_call = { .name = "tasks/get" };

/* Takes over the slot; an empty one, and a stream, for a notification. */
static void tell(struct cbx_mcp *mcp, struct cbx_rpc_slot *slot, struct cbx_mcp_stream *stream, struct cbx_execution *x)
{
	struct cbx_mcp_call *call = cbx_mcp_call_new(mcp, &task_call, cbx_mcp_modern_newest(), slot);
	struct cbx_tool_call *tool = &call->tool;
	struct cbx_buf nothing = { 0 };

	call->task = cbx_mcp_task_describe(x, stream ? NULL : "complete");
	call->stream = stream;
	call->finish = finish;
	tool->room -= CBX_MCP_TASK_HEAD_MAX;
	tool->execution_id = cbx_execution_id(x);
	tool->default_session = true; /* the answer names the session: nobody may have heard of it yet */
	snprintf(tool->session_id, sizeof(tool->session_id), "%s", cbx_session_id(cbx_execution_session(x)));
	if (strcmp(cbx_mcp_task_status(x), "completed") == 0)
		cbx_tool_outcome(tool, x);
	else
		cbx_tool_end_text(tool, &nothing);
}

void cbx_mcp_tasks_forget(struct cbx_mcp *mcp, const struct cbx_mcp_stream *stream)
{
	struct cbx_mcp_call *call, *next;

	for (call = TAILQ_FIRST(&mcp->calls); call; call = next) {
		next = TAILQ_NEXT(call, entry);
		if (call->stream == stream)
			cbx_mcp_call_drop(call);
	}
}

/* ---- methods ---- */

/* The task that a request is about; NULL: the slot was answered. */
static struct cbx_execution *find(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	struct cbx_execution *x = NULL;
	const char *id = NULL;
	struct cbx_err err;

	if (!m->rev->modern) {
		cbx_mcp_no_method(m, slot);
	} else if (!cbx_mcp_takes_tasks(m->params)) {
		cbx_mcp_tasks_needed(m, slot);
	} else if (cbx_json_get_str(m->params, "taskId", &id, &err) < 0 || !id) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: taskId: a string is expected");
	} else if (!(x = cbx_mcp_task_find(m->mcp, id))) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS,
			      "Invalid params: taskId: unknown task, or no longer kept: results are kept for %d "
			      "minutes after the end, but not longer than their session, and not when newer ones of it "
			      "need their memory",
			      CBX_HOLD_MS / 60000);
	} else {
		cbx_session_touch(cbx_execution_session(x));
	}
	return x;
}

void cbx_mcp_task_get(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	struct cbx_execution *x = find(m, slot);

	if (!x)
		return;
	if (m->mcp->ncalls >= CBX_CALLS_MAX)
		cbx_rpc_error(slot, CBX_RPC_INTERNAL, "%d calls are running already; ask again later", CBX_CALLS_MAX);
	else
		tell(m->mcp, slot, NULL, x);
}

void cbx_mcp_task_update(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const cJSON *responses = NULL;
	struct cbx_err err;

	if (!find(m, slot))
		return;
	if (cbx_json_get_obj(m->params, "inputResponses", &responses, &err) < 0 || !responses)
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: inputResponses: an object is expected");
	else
		cbx_rpc_answer(slot, cbx_json_new_obj());
}

void cbx_mcp_task_cancel(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	struct cbx_execution *x = find(m, slot);

	if (!x)
		return;
	if (cbx_execution_status(x) <= CBX_RUNNING)
		cbx_execution_interrupt(&m->mcp->client.caller, x);
	cbx_rpc_answer(slot, cbx_json_new_obj());
}

/* ---- notifications ---- */

struct cbx_mcp_task_watch {
	struct cbx_watch_op watch;
	struct cbx_mcp *mcp;
	struct cbx_mcp_stream *stream;
};

static void on_progress(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress)
{
	struct cbx_mcp_task_watch *w = cbx_container_of(op, struct cbx_mcp_task_watch, watch);
	struct cbx_rpc_slot none = { 0 };

	if (progress->what != CBX_ENDED)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(w->stream->tasks); i++)
		if (w->stream->tasks[i] == w)
			w->stream->tasks[i] = NULL;
	tell(w->mcp, &none, w->stream, x);
	free(w);
}

struct cbx_mcp_task_watch *cbx_mcp_task_watch(struct cbx_mcp *mcp, struct cbx_mcp_stream *stream,
					      struct cbx_execution *x)
{
	struct cbx_mcp_task_watch *w;
	struct cbx_rpc_slot none = { 0 };
	struct cbx_err err;

	if (cbx_execution_status(x) > CBX_RUNNING) {
		tell(mcp, &none, stream, x);
		return NULL;
	}
	w = cbx_xcalloc(1, sizeof(*w));
	w->mcp = mcp;
	w->stream = stream;
	w->watch = (struct cbx_watch_op){ .op.ops = &mcp->client.caller.ops, .on_progress = on_progress };
	if (cbx_execution_watch(x, &w->watch, &err) < 0) {
		free(w);
		return NULL;
	}
	return w;
}

void cbx_mcp_task_unwatch(struct cbx_mcp_task_watch *w)
{
	cbx_op_cancel(&w->watch.op);
	free(w);
}
