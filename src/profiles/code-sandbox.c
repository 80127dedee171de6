/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: code-sandbox-mcp runs a file in a container that is made for it, and answers with what the file
 * printed, or with JSON about how it failed.
 */
#include <string.h>

#include "base/cleanup.h"
#include "profiles/internal.h"

#define TIMEOUT_MS 30000
#define JAVASCRIPT_IMAGE "javascript"

static char *stripped(const char *text)
{
	static const char blank[] = " \t\r\n\v\f";
	size_t n;

	text += strspn(text, blank);
	for (n = strlen(text); n && strchr(blank, text[n - 1]); n--)
		;
	return cbx_xasprintf("%.*s", (int)n, text);
}

static void fail(struct cbx_tool_call *call, const char *errors, const char *output)
{
	_cleanup_buf_ struct cbx_buf out = { 0 }, err = { 0 };
	cJSON *o = cbx_json_new_obj();

	cbx_profile_print(call, &err, errors);
	cbx_profile_print(call, &out, output);
	cbx_json_set_u64(o, "exit_code", 1);
	cbx_json_set_str(o, "stderr", cbx_buf_str(&err));
	cbx_json_set_str(o, "stdout", cbx_buf_str(&out));
	cbx_profile_end_json(call, o);
}

/* empty: what is said where nothing was printed. */
static void answer(struct cbx_tool_call *call, struct cbx_execution *x, const char *empty)
{
	_cleanup_json_ cJSON *j = cbx_execution_to_json(x, false);
	const cJSON *error = cbx_json_member(j, "error");
	const char *out = cbx_json_text(j, "stdout"), *err = cbx_json_text(j, "stderr"), *fate = cbx_profile_fate(j);
	const char *traceback = cbx_json_text(error, "traceback");
	_cleanup_free_ char *output = stripped(out ? out : ""), *all = NULL, *errors = NULL;
	_cleanup_buf_ struct cbx_buf text = { 0 };

	if (cbx_execution_status(x) == CBX_OK && output[0]) {
		cbx_profile_print(call, &text, output);
		cbx_profile_end_text(call, cbx_buf_str(&text));
		return;
	}
	if (cbx_execution_status(x) == CBX_OK) {
		fail(call, empty, "");
		return;
	}
	all = cbx_xasprintf("%s%s%s%s", err ? err : "", traceback && !(err && strstr(err, traceback)) ? traceback : "",
			    fate ? "\n" : "", fate ? fate : "");
	errors = stripped(all);
	fail(call, errors, output);
}

static void answer_python(struct cbx_tool_call *call, struct cbx_execution *x)
{
	answer(call, x, "No output, forgot print()?");
}

static void answer_javascript(struct cbx_tool_call *call, struct cbx_execution *x)
{
	answer(call, x, "No output, forgot console.logs?");
}

/* settings: JSON of a request, for what the client was not started with; may be NULL. */
static void run(struct cbx_tool_call *call, const cJSON *args, const char *file, const char *settings,
		void (*then)(struct cbx_tool_call *call, struct cbx_execution *x))
{
	struct cbx_cell_spec cell = { .file = file, .last = true, .timeout_ms = TIMEOUT_MS };
	_cleanup_buf_ struct cbx_buf base64 = { 0 };
	struct cbx_session *session;
	const char *code;
	struct cbx_err err;
	int r = cbx_profile_arg(args, "code", &code, &err);

	if (r >= 0)
		r = cbx_profile_make(call, settings, NULL, &session, &err);
	if (r >= 0) {
		cbx_base64_encode(&base64, code, strlen(code));
		cell.code = cbx_buf_str(&base64);
		r = cbx_profile_run(call, &cell, then, &err);
	}
	if (r < 0)
		fail(call, err.msg, "");
}

static void run_python(struct cbx_tool_call *call, const cJSON *args)
{
	run(call, args, "code.py", NULL, answer_python);
}

static void run_javascript(struct cbx_tool_call *call, const cJSON *args)
{
	run(call, args, "code.js", "{\"image\":\"" JAVASCRIPT_IMAGE "\"}", answer_javascript);
}

/* ---- tables ---- */

#define LIBRARIES "numpy, pandas, matplotlib, scikit-learn, requests"

static char *environments(struct cbx_mcp *mcp, const char *session_id)
{
	struct cbx_session_spec spec;
	cJSON *o = cbx_json_new_obj(), *python = cbx_json_new_obj(), *javascript = cbx_json_new_obj();
	struct cbx_buf text = { 0 };

	cbx_own_spec(&mcp->client, &spec);
	cbx_json_set_str(python, "image", spec.image[0] ? spec.image : "python");
	cbx_json_set_str(python, "installed_libraries", spec.image[0] ? "those of the image" : LIBRARIES);
	cbx_json_set(o, "python", python);
	cbx_json_set_str(javascript, "image", spec.image[0] ? spec.image : JAVASCRIPT_IMAGE);
	cbx_json_set_str(javascript, "installed_libraries", "those of the image");
	cbx_json_set(o, "javascript", javascript);
	cbx_json_print_indented(&text, o, 2);
	cJSON_Delete(o);
	return cbx_buf_steal(&text);
}

/* clang-format off */
#define CODE(language, libraries) "{\"code\":{\"description\":\"The " language " code to run" libraries \
	"\",\"title\":\"Code\",\"type\":\"string\"}}"
/* clang-format on */

static const struct cbx_tool run_python_code = {
	.name = "run_python_code",
	.description =
		"Run Python code as a program in a sandbox of its own and get what it printed. Each call is a new "
		"sandbox: print what is wanted, nothing is kept.",
	.input = CBX_PROFILE_INPUT("run_python_code", "[\"code\"]", CODE("Python", "; installed are " LIBRARIES)),
	.call = run_python,
	.cancel = cbx_tool_cancel_run,
};

#define JAVASCRIPT_TEXT "Run JavaScript code as a program in a sandbox of its own and get what it printed with console.log()."

static const struct cbx_tool run_javascript_code = {
	.name = "run_javascript_code",
	.description = JAVASCRIPT_TEXT,
	.input = CBX_PROFILE_INPUT("run_javascript_code", "[\"code\"]", CODE("JavaScript", "")),
	.call = run_javascript,
	.cancel = cbx_tool_cancel_run,
};

/* The name that its documentation has. */
static const struct cbx_tool run_js_code = {
	.name = "run_js_code",
	.description = JAVASCRIPT_TEXT,
	.hints = CBX_TOOL_UNLISTED,
	.input = CBX_PROFILE_INPUT("run_js_code", "[\"code\"]", CODE("JavaScript", "")),
	.call = run_javascript,
	.cancel = cbx_tool_cancel_run,
};

static const struct cbx_tool *const tools[] = { &run_python_code, &run_javascript_code, &run_js_code, NULL };

static const struct cbx_profile_resource resources[] = {
	{ "sandbox://environments", "environment_details", "The languages: image and installed libraries of each.",
	  environments },
	{ 0 },
};

const struct cbx_profile cbx_profile_code_sandbox = {
	.registry = { .name = "code-sandbox",
		      .server = "code-sandbox",
		      .instructions = "Runs code in a sandbox of its own for each call; print what is wanted.",
		      .tools = tools,
		      .methods = cbx_profile_methods,
		      .capabilities = cbx_profile_capabilities },
	.resources = resources,
};
