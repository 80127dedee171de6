/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a tool is a row of a table. A call lives from tools/call to its answer; in between it is on its
 * connection's list, where a cancellation finds it by the raw text of its request's id. It leaves the list in one of
 * two ways: ended, with an answer, or dropped, without one. Its operations end with it.
 *
 * What a client did wrong (no such tool, no arguments object) is a JSON-RPC error; what a model did wrong is a result.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/call.h"
#include "mcp/serve.h"
#include "mcp/task.h"

/* ---- tools/list ---- */

static void add_description(struct cbx_buf *out, const char *text, const char *session)
{
	const char *at = strstr(text, "%s");

	cbx_buf_add(out, text, at ? (size_t)(at - text) : strlen(text));
	if (at) {
		cbx_buf_adds(out, session);
		cbx_buf_adds(out, at + 2);
	}
}

static cJSON *describe(const struct cbx_mcp *mcp, const struct cbx_tool *t, const struct cbx_mcp_revision *rev)
{
	bool own = cbx_mcp_has_own(mcp, rev);
	_cleanup_buf_ struct cbx_buf description = { 0 };
	cJSON *j = cbx_json_new_obj();

	add_description(&description, t->description, cbx_own_sentence(&mcp->client, cbx_mcp_has_own(mcp, rev)));
	cbx_json_set_str(j, "name", t->name);
	if (rev->titles)
		cbx_json_set_str(j, "title", t->title);
	cbx_json_set_str(j, "description", cbx_buf_str(&description));
	cbx_json_set(j, "inputSchema", cJSON_CreateRaw(!own && t->strict_input ? t->strict_input : t->input));
	if (rev->structured && t->output)
		cbx_json_set(j, "outputSchema", cJSON_CreateRaw(t->output));
	if (rev->annotations && t->title) {
		cJSON *a = cbx_json_new_obj();

		if (!rev->titles)
			cbx_json_set_str(a, "title", t->title);
		/* What is not said is what the protocol takes for granted: it writes, it differs each time, to the world. */
		if (t->hints & CBX_TOOL_READ_ONLY)
			cbx_json_set_bool(a, "readOnlyHint", true);
		else
			cbx_json_set_bool(a, "destructiveHint", t->hints & CBX_TOOL_DESTRUCTIVE);
		if (!(t->hints & CBX_TOOL_READ_ONLY) && t->hints & CBX_TOOL_IDEMPOTENT)
			cbx_json_set_bool(a, "idempotentHint", true);
		if (!(t->hints & CBX_TOOL_OPEN_WORLD))
			cbx_json_set_bool(a, "openWorldHint", false);
		cbx_json_set(j, "annotations", a);
	}
	return j;
}

cJSON *cbx_mcp_tools_list(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev)
{
	cJSON *result = cbx_json_new_obj(), *list = cbx_json_new_arr();

	for (const struct cbx_tool *const *t = mcp->registry->tools; *t; t++)
		if (!((*t)->hints & CBX_TOOL_UNLISTED))
			cbx_json_push(list, describe(mcp, *t, rev));
	cbx_json_set(result, "tools", list);
	return result;
}

/* ---- life of a call ---- */

static struct cbx_mcp_call *of(struct cbx_tool_call *tool)
{
	return cbx_container_of(tool, struct cbx_mcp_call, tool);
}

/* While the tool's call() runs it is kept, and freed by begin(). */
static void leave(struct cbx_mcp_call *call)
{
	if (!call->ended) {
		cbx_mcp_progress_stop(call);
		cbx_tool_release(&call->tool);
		TAILQ_REMOVE(&call->mcp->calls, call, entry);
		call->mcp->ncalls--;
		call->mcp->call_bytes -= call->bytes;
		call->ended = true;
	}
	if (call->starting)
		return;
	cJSON_Delete(call->held);
	cJSON_Delete(call->task);
	free(call);
}

static void ended(struct cbx_tool_call *tool, const struct cbx_buf *result)
{
	struct cbx_mcp_call *call = of(tool);

	cbx_mcp_progress_stop(call);
	if (call->finish)
		call->finish(call, result);
	else
		cbx_rpc_answer_text(&call->slot, result);
	leave(call);
}

static void printed(struct cbx_tool_call *tool, const char *stream, const char *p, size_t n)
{
	cbx_mcp_progress_output(of(tool), stream, p, n);
}

static bool left(struct cbx_tool_call *tool, struct cbx_execution *x)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_json_ cJSON *task = NULL;
	struct cbx_err err;

	if (!of(tool)->takes_tasks || cbx_execution_hold(x, &err) < 0)
		return false;
	task = cbx_mcp_task_describe(x, "task");
	cbx_json_print_clean(&text, task);
	cbx_tool_end_text(tool, &text);
	return true;
}

static const struct cbx_tool_events events = { .ended = ended, .left = left };
static const struct cbx_tool_events events_with_progress = { .ended = ended, .printed = printed, .left = left };

struct cbx_mcp_call *cbx_mcp_call_new(struct cbx_mcp *mcp, const struct cbx_tool *tool,
				      const struct cbx_mcp_revision *rev, struct cbx_rpc_slot *slot)
{
	struct cbx_mcp_call *call = cbx_xcalloc(1, sizeof(*call));

	call->tool = (struct cbx_tool_call){
		.tool = tool,
		.events = &events,
		.client = &mcp->client,
		.own = cbx_mcp_has_own(mcp, rev),
		.takes_roots = !rev->modern,
		.structured = rev->structured,
		.room = cbx_rpc_room(slot),
	};
	call->mcp = mcp;
	call->rev = rev;
	call->slot = *slot;
	memset(slot, 0, sizeof(*slot));
	TAILQ_INSERT_TAIL(&mcp->calls, call, entry);
	mcp->ncalls++;
	return call;
}

void cbx_mcp_call_fail(struct cbx_mcp_call *call, int code, cJSON *data, const char *msg)
{
	cbx_rpc_error_data(&call->slot, code, data, "%s", msg);
	leave(call);
}

void cbx_mcp_call_drop(struct cbx_mcp_call *call)
{
	cbx_rpc_drop(&call->slot);
	if (call->tool.tool->cancel)
		call->tool.tool->cancel(&call->tool);
	leave(call);
}

void cbx_mcp_tools_cancel(struct cbx_mcp *mcp, const char *id)
{
	struct cbx_mcp_call *call;

	TAILQ_FOREACH(call, &mcp->calls, entry) {
		if (call->slot.id && strcmp(call->slot.id, id) == 0) {
			cbx_mcp_call_drop(call);
			return;
		}
	}
}

/* ---- tools/call ---- */

static const struct cbx_tool *find_tool(const struct cbx_mcp *mcp, const char *name)
{
	for (const struct cbx_tool *const *t = mcp->registry->tools; *t; t++)
		if (strcmp((*t)->name, name) == 0)
			return *t;
	return NULL;
}

static bool id_in_use(const struct cbx_mcp *mcp, const struct cbx_rpc_slot *slot)
{
	struct cbx_mcp_call *call;

	TAILQ_FOREACH(call, &mcp->calls, entry)
		if (call->slot.id && slot->id && strcmp(call->slot.id, slot->id) == 0)
			return true;
	return false;
}

static void begin(struct cbx_mcp_call *call, const cJSON *params)
{
	call->starting = true;
	call->params = params;
	call->takes_tasks = call->rev->modern && cbx_mcp_takes_tasks(params);
	call->tool.tool->call(&call->tool, cbx_json_member(params, "arguments"));
	call->params = NULL;
	call->starting = false;
	if (call->ended)
		leave(call);
}

void cbx_mcp_tools_call(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const struct cbx_tool *tool;
	const struct cbx_err *trouble =
		m->mcp->client.caller.engine ? cbx_engine_trouble(m->mcp->client.caller.engine) : NULL;
	const struct cbx_err *fault = cbx_own_fault(&m->mcp->client);
	const cJSON *args = NULL;
	const char *name = NULL;
	struct cbx_mcp_call *call;
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "name", &name, &err) < 0 ||
	    cbx_json_get_obj(m->params, "arguments", &args, &err) < 0) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: %s", err.msg);
		return;
	}
	tool = name ? find_tool(m->mcp, name) : NULL;
	if (!tool) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Unknown tool: %.100s", name ? name : "(no name)");
		return;
	}
	if (id_in_use(m->mcp, slot)) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_REQUEST, "Invalid Request: a call with this id is still running");
		return;
	}
	call = cbx_mcp_call_new(m->mcp, tool, m->rev, slot);
	call->bytes = m->text.n;
	m->mcp->call_bytes += call->bytes;
	if (trouble || fault) {
		cbx_tool_refuse(&call->tool, trouble ? trouble : fault);
	} else if (m->mcp->ncalls > CBX_CALLS_MAX) {
		cbx_refuse(&err, "too_many_calls", EAGAIN,
			   "%d calls are running already on this connection; wait until some have been answered",
			   CBX_CALLS_MAX);
		cbx_tool_refuse(&call->tool, &err);
	} else if (m->mcp->call_bytes > CBX_CALLS_BYTES && m->mcp->ncalls > 1) {
		cbx_refuse(&err, "too_many_calls", EAGAIN,
			   "calls with more than %zu MiB together are running already on this connection; wait until "
			   "some have been answered",
			   CBX_CALLS_BYTES >> 20);
		cbx_tool_refuse(&call->tool, &err);
	} else if (cbx_tool_check_arguments(tool, args, &err) < 0) {
		cbx_tool_refuse(&call->tool, &err);
	} else if (cbx_mcp_progress_start(call, m, &err) < 0) {
		cbx_rpc_error(&call->slot, CBX_RPC_INVALID_PARAMS, "Invalid params: %s", err.msg);
		leave(call);
	} else {
		if (call->progress)
			call->tool.events = &events_with_progress;
		if (cbx_mcp_roots_wait(call, args)) {
			call->held = cbx_json_new_obj(); /* the rest of the parameters is of nobody's choice */
			if (args)
				cbx_json_set(call->held, "arguments", cJSON_Duplicate(args, 1));
		} else {
			begin(call, m->params);
		}
	}
}

void cbx_mcp_calls_resume(struct cbx_mcp *mcp)
{
	struct cbx_mcp_call *call;

	do {
		TAILQ_FOREACH(call, &mcp->calls, entry)
			if (call->held)
				break;
		if (call) {
			_cleanup_json_ cJSON *params = take_ptr(&call->held);

			begin(call, params);
		}
	} while (call);
}
