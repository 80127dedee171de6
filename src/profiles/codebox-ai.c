/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: CodeBox-AI's one tool runs a cell in a session that is made for it. Its answer has a block for
 * each run of output and each value, then the figures, then the error; it never says that it is one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "profiles/internal.h"
#include "render/render.h"

#define TIMEOUT_MS 60000

struct execute {
	char *code;
};

static void execute_free(void *p)
{
	struct execute *e = p;

	free(e->code);
	free(e);
}

static void fail(struct cbx_tool_call *call, const char *why)
{
	_cleanup_free_ char *text = cbx_xasprintf("Error: %s", why);

	cbx_profile_end_text(call, text);
}

/* ---- the answer ---- */

static void add_error(const struct cbx_tool_call *call, cJSON *content, const cJSON *x, const char *refusal)
{
	const cJSON *error = cbx_json_member(x, "error");
	const char *name = cbx_json_text(error, "name"), *value = cbx_json_text(error, "value");
	const char *traceback = cbx_json_text(error, "traceback"), *fate = cbx_profile_fate(x);
	_cleanup_buf_ struct cbx_buf shown = { 0 };
	_cleanup_free_ char *text = NULL;

	if (refusal)
		text = cbx_xasprintf("Error: %s", refusal);
	else if (fate)
		text = cbx_xasprintf("Error: %s", fate);
	else if (error)
		text = cbx_xasprintf("Error: %s\n%s\n%s", name ? name : "Unknown error", value ? value : "",
				     traceback ? traceback : "");
	if (!text)
		return;
	cbx_profile_screen(call, &shown, text);
	cbx_profile_add_text(content, cbx_buf_str(&shown));
}

static void answer(struct cbx_tool_call *call, struct cbx_execution *x)
{
	_cleanup_json_ cJSON *j = cbx_execution_to_json(x, false);
	_cleanup_json_ cJSON *texts = cbx_profile_texts(call, x, true);
	cJSON *content = cbx_json_new_arr();
	const cJSON *text;

	cJSON_ArrayForEach(text, texts)
		cbx_profile_add_text(content, text->valuestring);
	cbx_profile_add_images(call, content, x);
	add_error(call, content, j, cbx_execution_refusal(x));
	if (!content->child)
		cbx_profile_add_text(content, "No output.");
	cbx_profile_end(call, content);
}

/* ---- the call ---- */

static void required(struct cbx_tool_call *call, const char *fault)
{
	struct execute *e = call->state;
	struct cbx_cell_spec cell = { .code = e->code, .timeout_ms = TIMEOUT_MS };
	_cleanup_free_ char *text = NULL;
	struct cbx_err err;

	if (fault) {
		text = cbx_xasprintf("Failed to install dependencies: %s", fault);
		fail(call, text);
	} else if (cbx_profile_run(call, &cell, answer, &err) < 0) {
		fail(call, err.msg);
	}
}

static void execute_code(struct cbx_tool_call *call, const cJSON *args)
{
	const cJSON *dependencies = cbx_json_member(args, "dependencies"), *d;
	struct execute *e = cbx_xcalloc(1, sizeof(*e));
	struct cbx_session *session;
	const char *code = NULL;
	struct cbx_err err;
	int r = cbx_profile_arg(args, "code", &code, &err);

	call->state = e;
	call->release = execute_free;
	if (r >= 0 && dependencies && !cJSON_IsNull(dependencies) && !cJSON_IsArray(dependencies))
		r = cbx_refuse(&err, "invalid_argument", EINVAL, "dependencies: a list of strings is expected");
	cJSON_ArrayForEach(d, dependencies)
		if (r >= 0 && !cJSON_IsString(d))
			r = cbx_refuse(&err, "invalid_argument", EINVAL, "dependencies: a list of strings is expected");
	if (r >= 0)
		r = cbx_profile_make(call, NULL, NULL, &session, &err);
	if (r >= 0) {
		e->code = cbx_xstrdup(code);
		if (cJSON_GetArraySize(dependencies))
			r = cbx_profile_require(call, dependencies, required, &err);
		else
			required(call, NULL);
	}
	if (r < 0)
		fail(call, err.msg);
}

/* ---- resources ---- */

static void add_session(struct cbx_buf *out, const struct cbx_session *session)
{
	_cleanup_json_ cJSON *info = cbx_session_list_entry(session);
	const char *created = cbx_json_text(info, "created");
	char when[32];

	cbx_format_time(time(NULL) - (time_t)cbx_json_u64(info, "idle_s"), when);
	cbx_buf_addf(out, "Session ID: %s\nCreated: %.*s\nLast Used: %.19s\nDependencies: None",
		     cbx_session_id(session), (int)strcspn(created, "Z"), created, when);
}

static char *one_session(struct cbx_mcp *mcp, const char *session_id)
{
	struct cbx_buf text = { 0 };
	struct cbx_session *session;
	struct cbx_err err;

	if (cbx_session_find(&mcp->client.caller, session_id, &session, &err) < 0)
		cbx_buf_addf(&text, "Session %.80s not found", session_id);
	else
		add_session(&text, session);
	return cbx_buf_steal(&text);
}

static char *all_sessions(struct cbx_mcp *mcp, const char *session_id)
{
	_cleanup_ids_ struct cbx_own_ids ids = cbx_own_list(&mcp->client, false, NULL);
	struct cbx_buf text = { 0 };
	struct cbx_session *session;
	struct cbx_err err;

	for (size_t i = 0; i < ids.n && i < CBX_SESSIONS_PAGE; i++) {
		if (cbx_session_find(&mcp->client.caller, ids.v[i], &session, &err) < 0)
			continue;
		if (!text.len)
			cbx_buf_adds(&text, "Active Sessions:\n\n");
		add_session(&text, session);
		cbx_buf_adds(&text, "\n\n");
	}
	if (!text.len)
		cbx_buf_adds(&text, "No active sessions");
	return cbx_buf_steal(&text);
}

static const struct cbx_profile_resource resources[] = {
	{ "sessions://", "list_sessions", "The sessions that there are.", all_sessions },
	{ "session://{session_id}", "get_session_info", "One session: when it was made and used last.", one_session },
	{ 0 },
};

/* clang-format off */
static const struct cbx_tool execute_code_tool = {
	.name = "execute_code",
	.description =
		"Run Python code in a new sandbox and get its output, the value of its last expression, figures as PNG "
		"images, and errors.\n\nArgs:\n    code: the Python code\n"
		"    dependencies: names of packages that the code needs, as for pip",
	.input = CBX_PROFILE_INPUT("execute_code", "[\"code\"]", CBX_PROFILE_JSON({"code":{"title":"Code","type":"string"},\
"dependencies":{"anyOf":[{"items":{"type":"string"},"type":"array"},{"type":"null"}],"default":null,\
"title":"Dependencies"}})),
	.call = execute_code,
	.cancel = cbx_tool_cancel_run,
};
/* clang-format on */

static const struct cbx_tool *const tools[] = { &execute_code_tool, NULL };

const struct cbx_profile cbx_profile_codebox_ai = {
	.registry = { .name = "codebox-ai",
		      .server = "CodeBox-AI",
		      .tools = tools,
		      .methods = cbx_profile_methods,
		      .capabilities = cbx_profile_capabilities },
	.resources = resources,
};
