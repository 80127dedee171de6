/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: mcp-code-sandbox has sandboxes that are made and closed by name. A call about one that does not
 * exist is answered with {"error"}. Files are in mcp-code-sandbox-files.c.
 */
#include "profiles/mcp-code-sandbox.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define TIMEOUT_MS 300000

void cbx_mcs_error(struct cbx_tool_call *call, const char *before, const char *why)
{
	_cleanup_free_ char *text = cbx_xasprintf("%s%s", before, why);
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "error", text);
	cbx_profile_end_json(call, o);
}

int cbx_mcs_session(struct cbx_tool_call *call, const cJSON *args)
{
	struct cbx_session *session;
	struct cbx_err err;
	const char *id = "";

	if (cbx_profile_arg_id(call, args, &err) >= 0 && cbx_profile_find(call, &session, &err) >= 0)
		return 0;
	if (cbx_json_get_str(args, "session_id", &id, &err) > 0) {
		_cleanup_free_ char *text =
			cbx_xasprintf("No sandbox found with session ID: %.200s. Create a sandbox first.", id);

		cbx_mcs_error(call, "", text);
	} else {
		cbx_mcs_error(call, "", "missing argument: session_id");
	}
	return -1;
}

/* ---- sandboxes ---- */

static void created(struct cbx_ready_op *op, struct cbx_session *session, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, ready);
	_cleanup_free_ char *text = NULL;

	if (err)
		text = cbx_xasprintf("Failed to create sandbox: %s", err->msg);
	else
		text = cbx_xasprintf("Sandbox created successfully with session ID: %s", call->session_id);
	cbx_profile_end_text(call, text);
}

static void create_sandbox(struct cbx_tool_call *call, const cJSON *args)
{
	_cleanup_free_ char *text = NULL;
	struct cbx_session *session;
	struct cbx_err err;
	int r = cbx_profile_arg_id(call, args, &err);

	if (r >= 0 && cbx_profile_find(call, &session, &err) >= 0) {
		text = cbx_xasprintf("Sandbox with session ID %s already exists.", call->session_id);
		cbx_profile_end_text(call, text);
		return;
	}
	call->ready = (struct cbx_ready_op){ .op.ops = &call->client->caller.ops, .done = created };
	if (r >= 0)
		r = cbx_profile_make(call, NULL, &call->ready, &session, &err);
	if (r < 0) {
		text = cbx_xasprintf("Failed to create sandbox: %s", err.msg);
		cbx_profile_end_text(call, text);
	}
}

static void close_sandbox(struct cbx_tool_call *call, const cJSON *args)
{
	_cleanup_free_ char *text = NULL;
	struct cbx_session *session;
	const char *id = "";
	struct cbx_err err;

	if (cbx_profile_arg(args, "session_id", &id, &err) < 0) {
		text = cbx_xasprintf("Failed to close sandbox: %s", err.msg);
	} else if (cbx_session_find(&call->client->caller, id, &session, &err) < 0) {
		text = cbx_xasprintf("Sandbox with session ID %.200s is not active or has already been closed.", id);
	} else {
		cbx_session_close(&call->client->caller, session, "it was closed with close_sandbox");
		text = cbx_xasprintf(
			"Sandbox with session ID %.200s has been successfully closed and all resources freed.", id);
	}
	cbx_profile_end_text(call, text);
}

#define INTERPRETER "codebox"

static void get_sandbox_status(struct cbx_tool_call *call, const cJSON *args)
{
	_cleanup_ids_ struct cbx_own_ids ids = { 0 };
	_cleanup_free_ char *shown = NULL;
	cJSON *o, *active;
	struct cbx_session *session;
	const char *id = NULL;
	struct cbx_err err;

	if (!cJSON_IsNull(cbx_json_member(args, "session_id")) &&
	    cbx_json_get_str(args, "session_id", &id, &err) < 0) {
		cbx_mcs_error(call, "", err.msg);
		return;
	}
	if (id && cbx_session_find(&call->client->caller, id, &session, &err) < 0) {
		shown = cbx_xasprintf("%.200s", id);
		cbx_mcs_error(call, "No sandbox found with session ID: ", shown);
		return;
	}
	o = cbx_json_new_obj();
	if (id) {
		cbx_json_set_str(o, "status", "active");
		cbx_json_set_str(o, "session_id", id);
	} else {
		ids = cbx_own_list(call->client, false, NULL);
		active = cbx_json_new_arr();
		for (size_t i = 0; i < ids.n; i++)
			cbx_json_push_str(active, ids.v[i]);
		cbx_json_set_u64(o, "active_sandbox_count", ids.n);
		cbx_json_set(o, "active_sessions", active);
	}
	cbx_json_set_str(o, "interpreter_type", INTERPRETER);
	cbx_profile_end_json(call, o);
}

/* ---- code ---- */

static cJSON *lines(const struct cbx_tool_call *call, const char *text)
{
	_cleanup_buf_ struct cbx_buf cut = { 0 };
	cJSON *list = cbx_json_new_arr();

	cbx_profile_print(call, &cut, text ? text : "");
	if (cut.len)
		cbx_json_push_str(list, cbx_buf_str(&cut));
	return list;
}

static void set_text(const struct cbx_tool_call *call, cJSON *o, const char *key, const char *text)
{
	_cleanup_buf_ struct cbx_buf cut = { 0 };

	cbx_profile_print(call, &cut, text ? text : "");
	cbx_json_set_str(o, key, cbx_buf_str(&cut));
}

/* {"logs","error"} */
static cJSON *result_of(const struct cbx_tool_call *call, struct cbx_execution *x)
{
	_cleanup_json_ cJSON *j = cbx_execution_to_json(x, false);
	const cJSON *error = cbx_json_member(j, "error");
	const char *fate = cbx_profile_fate(j);
	cJSON *o = cbx_json_new_obj(), *logs = cbx_json_new_obj(), *e = cbx_json_new_obj();

	cbx_json_set(logs, "stdout", lines(call, cbx_json_text(j, "stdout")));
	cbx_json_set(logs, "stderr", lines(call, cbx_json_text(j, "stderr")));
	cbx_json_set(o, "logs", logs);
	if (fate) {
		bool late = strcmp(fate, "Execution timed out") == 0;

		set_text(call, e, "name", late ? "TimeoutError" : "SandboxError");
		set_text(call, e, "value", fate);
		set_text(call, e, "traceback", cbx_json_text(j, "message"));
	} else if (error) {
		set_text(call, e, "name", cbx_json_text(error, "name"));
		set_text(call, e, "value", cbx_json_text(error, "value"));
		set_text(call, e, "traceback", cbx_json_text(error, "traceback"));
	} else {
		cJSON_Delete(e);
		e = cJSON_CreateNull();
	}
	cbx_json_set(o, "error", e);
	return o;
}

static void executed(struct cbx_tool_call *call, struct cbx_execution *x)
{
	cbx_profile_end_json(call, result_of(call, x));
}

static void execute_code(struct cbx_tool_call *call, const cJSON *args)
{
	struct cbx_cell_spec cell = { .timeout_ms = TIMEOUT_MS };
	struct cbx_err err;

	if (cbx_mcs_session(call, args) < 0)
		return;
	if (cbx_profile_arg(args, "code", &cell.code, &err) < 0 || cbx_profile_run(call, &cell, executed, &err) < 0)
		cbx_mcs_error(call, "Error executing code: ", err.msg);
}

static void executed_once(struct cbx_tool_call *call, struct cbx_execution *x)
{
	cJSON *o = result_of(call, x);

	cbx_json_set_str(o, "sandbox_status", "created and will be closed automatically");
	cbx_json_set_bool(o, "sandbox_closed", true);
	cbx_json_set_bool(o, "sandbox_removed", true);
	cbx_profile_end_json(call, o);
}

static void create_run_close(struct cbx_tool_call *call, const cJSON *args)
{
	struct cbx_cell_spec cell = { .timeout_ms = TIMEOUT_MS };
	struct cbx_session *session;
	struct cbx_err err;

	if (cbx_profile_arg(args, "code", &cell.code, &err) < 0 ||
	    cbx_profile_make(call, NULL, NULL, &session, &err) < 0 ||
	    cbx_profile_run(call, &cell, executed_once, &err) < 0)
		cbx_mcs_error(call, "Operation failed: ", err.msg);
}

/* ---- packages ---- */

static void package_free(void *p)
{
	cJSON_Delete(p);
}

static void required(struct cbx_tool_call *call, const char *fault)
{
	const cJSON *list = call->state;
	cJSON *o, *logs;

	if (fault) {
		cbx_mcs_error(call, "Error installing package: ", fault);
		return;
	}
	o = cbx_json_new_obj();
	logs = cbx_json_new_obj();
	cbx_json_set_str(o, "package", list->child->valuestring);
	cbx_json_set(logs, "stdout", lines(call, "The sandbox has it now.\n"));
	cbx_json_set(logs, "stderr", cbx_json_new_arr());
	cbx_json_set(o, "output", logs);
	cbx_json_set_null(o, "error");
	cbx_profile_end_json(call, o);
}

static void install_package(struct cbx_tool_call *call, const cJSON *args)
{
	const char *name;
	struct cbx_err err;
	cJSON *list;

	if (cbx_mcs_session(call, args) < 0)
		return;
	if (cbx_profile_arg(args, "package_name", &name, &err) < 0) {
		cbx_mcs_error(call, "Error installing package: ", err.msg);
		return;
	}
	list = cbx_json_new_arr();
	cbx_json_push_str(list, name);
	call->state = list;
	call->release = package_free;
	if (cbx_profile_require(call, list, required, &err) < 0)
		cbx_mcs_error(call, "Error installing package: ", err.msg);
}

/* ---- tables ---- */

/* clang-format off */
#define ID   "\"session_id\":{\"title\":\"Session Id\",\"type\":\"string\"}"
#define CODE "\"code\":{\"title\":\"Code\",\"type\":\"string\"}"
/* clang-format on */

static const struct cbx_tool create_sandbox_tool = {
	.name = "create_sandbox",
	.description = "Make a sandbox of this name; the other tools take the same session_id.",
	.hints = CBX_TOOL_MAKES_SESSION,
	.input = CBX_PROFILE_INPUT("create_sandbox", "[\"session_id\"]", "{" ID "}"),
	.call = create_sandbox,
	.cancel = cbx_tool_cancel_create,
};

static const struct cbx_tool close_sandbox_tool = {
	.name = "close_sandbox",
	.description = "End a sandbox: its variables, processes and files are gone.",
	.input = CBX_PROFILE_INPUT("close_sandbox", "[\"session_id\"]", "{" ID "}"),
	.call = close_sandbox,
};

static const struct cbx_tool get_sandbox_status_tool = {
	.name = "get_sandbox_status",
	.description = "Whether a sandbox exists; without session_id, which ones do.",
	.input = CBX_PROFILE_INPUT_NONE("get_sandbox_status",
					"{\"session_id\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],"
					"\"default\":null,\"title\":\"Session Id\"}}"),
	.call = get_sandbox_status,
};

static const struct cbx_tool execute_code_tool = {
	.name = "execute_code",
	.description =
		"Run Python code in a sandbox and get what it printed, and its error. Variables stay for the next "
		"call.",
	.input = CBX_PROFILE_INPUT("execute_code", "[\"session_id\",\"code\"]", "{" ID "," CODE "}"),
	.call = execute_code,
	.cancel = cbx_tool_cancel_run,
};

static const struct cbx_tool install_package_tool = {
	.name = "install_package",
	.description = "Make a Python package available in a sandbox.",
	.input = CBX_PROFILE_INPUT("install_package", "[\"session_id\",\"package_name\"]",
				   "{" ID ",\"package_name\":{\"title\":\"Package Name\",\"type\":\"string\"}}"),
	.call = install_package,
	.cancel = cbx_tool_cancel_run,
};

static const struct cbx_tool create_run_close_tool = {
	.name = "create_run_close",
	.description = "Run Python code in a sandbox that is made for it and closed afterwards.",
	.input = CBX_PROFILE_INPUT("create_run_close", "[\"code\"]", "{" CODE "}"),
	.call = create_run_close,
	.cancel = cbx_tool_cancel_run,
};

static const struct cbx_tool *const tools[] = {
	&create_sandbox_tool,
	&close_sandbox_tool,
	&get_sandbox_status_tool,
	&execute_code_tool,
	&install_package_tool,
	&create_run_close_tool,
	&cbx_mcs_list_files,
	&cbx_mcs_read_file,
	&cbx_mcs_write_file,
	&cbx_mcs_upload_file,
	NULL,
};

static const struct cbx_profile_resource resources[] = { { 0 } };

const struct cbx_profile cbx_profile_mcp_code_sandbox = {
	.registry = { .name = "mcp-code-sandbox",
		      .server = "code-sandbox",
		      .tools = tools,
		      .methods = cbx_profile_methods,
		      .capabilities = cbx_profile_capabilities },
	.resources = resources,
};
