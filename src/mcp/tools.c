/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a tool is a row of a table. A call lives from tools/call to its answer; in between it is on its
 * connection's list, where a cancellation finds it by the raw text of its request's id. It leaves the list in one of
 * two ways: ended, with an answer, or dropped, without one. Callbacks that the engine still owes then find `mcp` NULL.
 *
 * What a model did wrong is told to the model, as a tool's result with isError: it can read it and try again. What a
 * client did wrong (no such tool, no arguments object) is a JSON-RPC error.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/internal.h"

/* In the order in which clients see them. */
static const struct cbx_mcp_tool *const tools[] = {
	&cbx_mcp_run_code,
	&cbx_mcp_get_execution,
	&cbx_mcp_interrupt,
	&cbx_mcp_create_session,
	&cbx_mcp_list_sessions,
	&cbx_mcp_session_info,
	&cbx_mcp_close_session,
	&cbx_mcp_list_files,
	&cbx_mcp_read_file,
	&cbx_mcp_write_file,
	&cbx_mcp_upload_file,
	NULL,
};

const struct cbx_mcp_registry cbx_mcp_codebox = {
	.tools = tools,
	.methods = cbx_mcp_task_methods,
	.answered = cbx_mcp_roots_answered,
};

/* What to do after an error of this kind, where the message does not say it in terms of tools. */
static const struct {
	const char *kind;
	const char *hint;
} hints[] = {
	{ "session_not_found", "Call list_sessions to see which exist, or create_session for a new one." },
	{ "session_expired", "Call create_session for a new one, or run_code without session_id." },
	{ "session_exists", "Pass its id to run_code to use it, or choose another session_id." },
	{ "too_many_sessions", "Call list_sessions, and close_session for those that are not needed." },
	{ "queue_full", "Wait for them (get_execution), interrupt the one that runs, or use another session." },
	{ "execution_forgotten", "Run the code again, or look at the files that it wrote." },
	{ "execution_not_found", "Pass the execution_id of run_code's answer." },
	{ "file_not_found", "Call list_files to see which files there are." },
	{ "is_a_directory", "Call list_files to see what is in it." },
	{ "not_a_directory", "Pass a directory, or read the file with read_file." },
	{ "disk_full", "Remove files that are not needed, or make a session with a larger disk." },
	{ "code_too_long", "Send the code in several cells, or put data into a file of the session." },
	{ "no_sandbox",
	  "No code can run on this computer until its user has fixed that; \"codebox doctor\" in a terminal "
	  "says more." },
};

/* ---- schemas ---- */

cJSON *cbx_mcp_schema_property(cJSON *properties, const char *name, const char *type, const char *description)
{
	cJSON *p = cbx_json_new_obj();

	cbx_json_set_str(p, "type", type);
	cbx_json_set_str(p, "description", description);
	cbx_json_set(properties, name, p);
	return p;
}

cJSON *cbx_mcp_schema_object(cJSON *properties, const char *const *required, bool closed)
{
	cJSON *schema = cbx_json_new_obj(), *names = cbx_json_new_arr();

	cbx_json_set_str(schema, "type", "object");
	cbx_json_set(schema, "properties", properties);
	for (; required && *required; required++)
		cbx_json_push_str(names, *required);
	if (cJSON_GetArraySize(names))
		cbx_json_set(schema, "required", names);
	else
		cJSON_Delete(names);
	if (closed)
		cbx_json_set_bool(schema, "additionalProperties", false);
	return schema;
}

/* The input schema where a connection has no session of its own. */
static void without_default_session(const struct cbx_mcp_tool *t, cJSON *schema)
{
	cJSON *props = cJSON_GetObjectItemCaseSensitive(schema, "properties");
	cJSON *session = cJSON_GetObjectItemCaseSensitive(props, "session_id"), *required;
	const char *text = cbx_mcp_str_of(session, "description");

	if (!text)
		return;
	if (t->modern_session) {
		cJSON_ReplaceItemInObjectCaseSensitive(session, "description", cJSON_CreateString(t->modern_session));
	} else if (strcmp(text, CBX_SESSION_ARGUMENT) == 0) {
		cJSON_ReplaceItemInObjectCaseSensitive(session, "description",
						       cJSON_CreateString(CBX_SESSION_ARGUMENT_REQUIRED));
		required = cJSON_GetObjectItemCaseSensitive(schema, "required");
		if (!required) {
			required = cbx_json_new_arr();
			cbx_json_set(schema, "required", required);
		}
		cbx_json_push_str(required, "session_id");
	}
}

static cJSON *describe(const struct cbx_mcp_tool *t, const struct cbx_mcp_revision *rev)
{
	cJSON *j = cbx_json_new_obj(), *input;

	cbx_json_set_str(j, "name", t->name);
	if (rev->titles)
		cbx_json_set_str(j, "title", t->title);
	cbx_json_set_str(j, "description",
			 rev->modern && t->modern_description ? t->modern_description : t->description);
	input = t->input();
	if (rev->modern)
		without_default_session(t, input);
	cbx_json_set(j, "inputSchema", input);
	if (rev->structured && t->output)
		cbx_json_set(j, "outputSchema", t->output());
	if (rev->annotations) {
		cJSON *a = cbx_json_new_obj();

		cbx_json_set_str(a, "title", t->title);
		cbx_json_set_bool(a, "readOnlyHint", t->hints & CBX_TOOL_READ_ONLY);
		cbx_json_set_bool(a, "destructiveHint", t->hints & CBX_TOOL_DESTRUCTIVE);
		cbx_json_set_bool(a, "idempotentHint", t->hints & CBX_TOOL_IDEMPOTENT);
		cbx_json_set_bool(a, "openWorldHint", t->hints & CBX_TOOL_OPEN_WORLD);
		cbx_json_set(j, "annotations", a);
	}
	return j;
}

cJSON *cbx_mcp_tools_list(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev)
{
	cJSON *result = cbx_json_new_obj(), *list = cbx_json_new_arr();

	for (const struct cbx_mcp_tool *const *t = mcp->registry->tools; *t; t++)
		cbx_json_push(list, describe(*t, rev));
	cbx_json_set(result, "tools", list);
	return result;
}

/* ---- life of a call ---- */

struct cbx_mcp_call *cbx_mcp_call_new(struct cbx_mcp *mcp, const struct cbx_mcp_tool *tool,
				      const struct cbx_mcp_revision *rev, struct cbx_mcp_slot *slot)
{
	struct cbx_mcp_call *call = cbx_xcalloc(1, sizeof(*call));

	call->mcp = mcp;
	call->tool = tool;
	call->rev = rev;
	call->slot = *slot;
	call->refs = 1;
	memset(slot, 0, sizeof(*slot));
	TAILQ_INSERT_TAIL(&mcp->calls, call, entry);
	mcp->ncalls++;
	return call;
}

void cbx_mcp_call_unref(struct cbx_mcp_call *call)
{
	if (--call->refs)
		return;
	if (call->release)
		call->release(call->state);
	free(call->notice);
	cJSON_Delete(call->held);
	free(call);
}

static void call_leave(struct cbx_mcp_call *call)
{
	cbx_mcp_progress_stop(call);
	if (call->timer)
		event_free(call->timer);
	call->timer = NULL;
	TAILQ_REMOVE(&call->mcp->calls, call, entry);
	call->mcp->ncalls--;
	call->mcp = NULL;
	cbx_mcp_call_unref(call);
}

void cbx_mcp_call_end_text(struct cbx_mcp_call *call, const struct cbx_buf *result)
{
	cbx_mcp_progress_stop(call);
	if (call->finish)
		call->finish(call, result);
	else
		cbx_mcp_answer_text(call->mcp, &call->slot, result);
	call_leave(call);
}

cJSON *cbx_mcp_add_block(cJSON *content, const char *type)
{
	cJSON *block = cbx_json_new_obj();

	cbx_json_set_str(block, "type", type);
	cbx_json_push(content, block);
	return block;
}

void cbx_mcp_add_image(cJSON *content, const char *mime, const char *base64)
{
	cJSON *block = cbx_mcp_add_block(content, "image");

	cbx_json_set(block, "data", cJSON_CreateString(base64));
	cbx_json_set_str(block, "mimeType", mime);
}

static cJSON *text_content(const char *text)
{
	cJSON *content = cbx_json_new_arr();

	cbx_json_set_str(cbx_mcp_add_block(content, "text"), "text", text);
	return content;
}

void cbx_mcp_call_end(struct cbx_mcp_call *call, const char *text, cJSON *structured)
{
	_cleanup_json_ cJSON *result = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf printed = { 0 };

	cbx_json_set(result, "content", text_content(text));
	if (call->rev->structured)
		cbx_json_set(result, "structuredContent", structured);
	else
		cJSON_Delete(structured);
	cbx_json_set_bool(result, "isError", false);
	cbx_json_print(&printed, result);
	cbx_mcp_call_end_text(call, &printed);
}

void cbx_mcp_call_refuse(struct cbx_mcp_call *call, const struct cbx_err *err)
{
	_cleanup_json_ cJSON *result = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf printed = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 };
	size_t n = strlen(err->msg);

	cbx_buf_adds(&text, err->msg);
	if (n && !strchr(".!?", err->msg[n - 1]))
		cbx_buf_addc(&text, '.');
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
		if (strcmp(hints[i].kind, err->kind) == 0)
			cbx_buf_addf(&text, " %s", hints[i].hint);
	cbx_json_set(result, "content", text_content(cbx_buf_str(&text)));
	cbx_json_set_bool(result, "isError", true);
	cbx_json_print(&printed, result);
	cbx_mcp_call_end_text(call, &printed);
}

void cbx_mcp_call_fail(struct cbx_mcp_call *call, int code, cJSON *data, const char *msg)
{
	cbx_mcp_error_data(call->mcp, &call->slot, code, data, "%s", msg);
	call_leave(call);
}

void cbx_mcp_call_drop(struct cbx_mcp_call *call)
{
	struct cbx_engine *engine = call->mcp->engine;

	cbx_mcp_drop(call->mcp, &call->slot);
	call->refs++;
	call_leave(call); /* first, so that a callback out of cancel() finds nobody to answer */
	if (call->tool->cancel)
		call->tool->cancel(call, engine);
	cbx_mcp_call_unref(call);
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

static const struct cbx_mcp_tool *find_tool(const struct cbx_mcp *mcp, const char *name)
{
	for (const struct cbx_mcp_tool *const *t = mcp->registry->tools; *t; t++)
		if (strcmp((*t)->name, name) == 0)
			return *t;
	return NULL;
}

static bool id_in_use(const struct cbx_mcp *mcp, const struct cbx_mcp_slot *slot)
{
	struct cbx_mcp_call *call;

	TAILQ_FOREACH(call, &mcp->calls, entry)
		if (call->slot.id && slot->id && strcmp(call->slot.id, slot->id) == 0)
			return true;
	return false;
}

/* Arguments that the tool does not have are refused: a misspelt one would otherwise be without effect, silently. */
static int check_names(const struct cbx_mcp_tool *tool, const cJSON *args, struct cbx_err *err)
{
	_cleanup_json_ cJSON *schema = NULL;
	_cleanup_buf_ struct cbx_buf names = { 0 };
	const cJSON *props, *arg, *p;

	if (!args || !args->child)
		return 0;
	schema = tool->input();
	props = cJSON_GetObjectItemCaseSensitive(schema, "properties");
	cJSON_ArrayForEach(arg, args) {
		if (cJSON_GetObjectItemCaseSensitive(props, arg->string))
			continue;
		cJSON_ArrayForEach(p, props)
			cbx_buf_addf(&names, "%s%s", names.len ? ", " : "", p->string);
		return cbx_refuse(err, "invalid_argument", EINVAL, "%.80s: %s has no such argument; %s%s", arg->string,
				  tool->name, names.len ? "accepted are: " : "it takes none", cbx_buf_str(&names));
	}
	return 0;
}

static void begin(struct cbx_mcp_call *call, const cJSON *params, const cJSON *args)
{
	call->refs++;
	call->params = params;
	call->tool->call(call, args);
	call->params = NULL;
	cbx_mcp_call_unref(call);
}

void cbx_mcp_tools_call(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	const struct cbx_mcp_tool *tool;
	const struct cbx_err *trouble = m->mcp->engine ? cbx_engine_trouble(m->mcp->engine) : NULL;
	const cJSON *args = NULL;
	const char *name = NULL;
	struct cbx_mcp_call *call;
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "name", &name, &err) < 0 ||
	    cbx_json_get_obj(m->params, "arguments", &args, &err) < 0) {
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INVALID_PARAMS, "Invalid params: %s", err.msg);
		return;
	}
	tool = name ? find_tool(m->mcp, name) : NULL;
	if (!tool) {
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INVALID_PARAMS, "Unknown tool: %.100s", name ? name : "(no name)");
		return;
	}
	if (id_in_use(m->mcp, slot)) {
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INVALID_REQUEST,
			      "Invalid Request: a call with this id is still going on");
		return;
	}
	call = cbx_mcp_call_new(m->mcp, tool, m->rev, slot);
	if (trouble) {
		cbx_mcp_call_refuse(call, trouble);
	} else if (m->mcp->ncalls > CBX_CALLS_MAX) {
		cbx_refuse(&err, "too_many_calls", EAGAIN,
			   "%d calls are going on already on this connection; wait until some have been answered",
			   CBX_CALLS_MAX);
		cbx_mcp_call_refuse(call, &err);
	} else if (check_names(tool, args, &err) < 0) {
		cbx_mcp_call_refuse(call, &err);
	} else if (cbx_mcp_progress_start(call, m, &err) < 0) {
		cbx_mcp_error(m->mcp, &call->slot, CBX_RPC_INVALID_PARAMS, "Invalid params: %s", err.msg);
		call_leave(call);
	} else if (cbx_mcp_roots_wait(call, args)) {
		call->held = cJSON_Duplicate(m->params, 1);
	} else {
		begin(call, m->params, args);
	}
}

void cbx_mcp_tools_resume(struct cbx_mcp_call *call)
{
	_cleanup_json_ cJSON *params = call->held;

	call->held = NULL;
	begin(call, params, cJSON_GetObjectItemCaseSensitive(params, "arguments"));
}
