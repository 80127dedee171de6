/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a call ends once, with a result, and goes back to whoever made it. A model gets its own mistakes
 * as a result with isError, which it can read, and try again.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonscan.h"
#include "base/timer.h"
#include "render/render.h"
#include "tools/internal.h"

/* What to do after an error of this kind, in terms of tools; instead of what the message says, where its text ends with
 * "; remedy", which is of no use to a model. */
static const struct {
	const char *kind;
	const char *hint;
	bool instead;
} hints[] = {
	{ "session_not_found", "Call list_sessions to see which exist, or create_session for a new one.", true },
	{ "session_expired", "Call create_session for a new one, or run_code without session_id.", false },
	{ "session_exists", "Pass its id to run_code to use it, or choose another session_id.", true },
	{ "too_many_sessions", "Call list_sessions, and close_session for those that are not needed.", true },
	{ "queue_full", "Wait for them (get_execution), interrupt the one that runs, or use another session.", true },
	{ "execution_forgotten", "Run the code again, or look at the files that it wrote.", true },
	{ "execution_expired", "Run the code again.", true },
	{ "execution_not_found", "Pass the execution_id of run_code's or run_command's answer.", true },
	{ "too_many_commands", "Wait for some (get_execution), or end them with interrupt.", true },
	{ "file_not_found", "Call list_files to see which files there are.", false },
	{ "is_a_directory", "Call list_files to see what is in it.", false },
	{ "not_a_directory", "Pass a directory, or read the file with read_file.", false },
	{ "disk_full", "Remove files that are not needed, or make a session with a larger disk.", false },
	{ "code_too_long", "Send the code in several cells, or put data into a file of the session.", true },
	{ "no_sandbox",
	  "No code can run on this computer until its user has fixed that; \"codebox doctor\" in a terminal "
	  "says more.",
	  false },
};

static cJSON *text_content(const char *text)
{
	cJSON *content = cbx_json_new_arr();

	cbx_json_set_str(cbx_render_add_block(content, "text"), "text", text);
	return content;
}

void cbx_tool_end(struct cbx_tool_call *call, const char *text, cJSON *structured)
{
	_cleanup_json_ cJSON *result = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf printed = { 0 };

	cbx_json_set(result, "content", text_content(text));
	if (call->structured)
		cbx_json_set(result, "structuredContent", structured);
	else
		cJSON_Delete(structured);
	cbx_json_set_bool(result, "isError", false);
	cbx_json_print_clean(&printed, result);
	cbx_tool_end_text(call, &printed);
}

void cbx_tool_refuse(struct cbx_tool_call *call, const struct cbx_err *err)
{
	_cleanup_json_ cJSON *result = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf printed = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 };
	size_t hint = 0, n = strlen(err->msg);
	struct cbx_session *made;
	struct cbx_err ignored;

	while (hint < ARRAY_SIZE(hints) && strcmp(hints[hint].kind, err->kind) != 0)
		hint++;
	for (const char *p = err->msg; hint < ARRAY_SIZE(hints) && hints[hint].instead && (p = strstr(p, "; ")); p += 2)
		n = (size_t)(p - err->msg);
	cbx_buf_add(&text, err->msg, n);
	if (n && !strchr(".!?", err->msg[n - 1]))
		cbx_buf_addc(&text, '.');
	if (call->client->restarted && strcmp(err->kind, "session_not_found") == 0)
		cbx_buf_adds(&text, " codeboxd was restarted since this client connected: earlier sessions are gone, "
				    "with their variables and files.");
	if (hint < ARRAY_SIZE(hints))
		cbx_buf_addf(&text, " %s", hints[hint].hint);
	cbx_json_set(result, "content", text_content(cbx_buf_str(&text)));
	cbx_json_set_bool(result, "isError", true);
	cbx_json_print_clean(&printed, result);
	/* Nobody learns of it, and others would give way to it. */
	if (call->made_session && cbx_session_find(&call->client->caller, call->session_id, &made, &ignored) >= 0)
		cbx_session_close(&call->client->caller, made, "the call that made it failed");
	cbx_tool_end_text(call, &printed);
}

void cbx_tool_end_text(struct cbx_tool_call *call, const struct cbx_buf *result)
{
	call->events->ended(call, result);
}

int cbx_tool_check_arguments(const struct cbx_tool *tool, const cJSON *args, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf names = { 0 };
	struct cbx_raw schema = { tool->input, strlen(tool->input) };
	struct cbx_raw props = cbx_raw_member(schema, "properties");
	struct cbx_jsonscan_member m;
	const cJSON *arg;
	const char *p;

	cJSON_ArrayForEach(arg, args)
		if (!cbx_raw_member(props, arg->string).p)
			break;
	if (!arg || !props.p || !cbx_raw_member(schema, "additionalProperties").p)
		return 0;
	p = cbx_jsonscan_object(props.p, props.p + props.n);
	while (p && cbx_jsonscan_member(&p, props.p + props.n, &m))
		cbx_buf_addf(&names, "%s%.*s", names.len ? ", " : "", (int)(m.name_end - m.name - 2), m.name + 1);
	return cbx_refuse(err, "invalid_argument", EINVAL, "%.80s: %s has no such argument; %s%s", arg->string,
			  tool->name, names.len ? "accepted are: " : "it takes none", cbx_buf_str(&names));
}

void cbx_tool_release(struct cbx_tool_call *call)
{
	cbx_event_free_p(&call->timer);
	cbx_op_cancel(&call->file.op);
	cbx_op_cancel(&call->answer_op.op);
	cbx_op_cancel(&call->ready.op);
	cbx_op_cancel(&call->watch.op);
	cbx_op_cancel(&call->command.op);
	if (call->release)
		call->release(call->state);
	cbx_tool_fetch_free(call->fetch);
	free(call->notice);
}
