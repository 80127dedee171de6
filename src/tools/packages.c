/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: install_packages answers when the packages are there, or says why they are not. A call that its
 * client gives up continues in the engine: the packages are there for the next cell all the same.
 */
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "tools/internal.h"

static void list(struct cbx_buf *text, const char *what, const cJSON *packages)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, packages) {
		cbx_buf_addf(text, "%s ", v == packages->child ? what : ",");
		cbx_escape(text, cbx_json_text(v, "name"));
		cbx_buf_addc(text, ' ');
		cbx_escape(text, cbx_json_text(v, "version"));
		if (!v->next)
			cbx_buf_adds(text, ".\n");
	}
}

static void list_warnings(struct cbx_buf *text, const cJSON *warnings)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, warnings) {
		cbx_buf_adds(text, "Warning: ");
		cbx_escape(text, cJSON_IsString(v) ? v->valuestring : "");
		cbx_buf_adds(text, ".\n");
	}
}

static void list_imported(struct cbx_buf *text, const cJSON *packages)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, packages) {
		cbx_buf_adds(text, v == packages->child ? "Imported already, and in use until restart (or importlib.reload): " : ", ");
		cbx_escape(text, cbx_json_text(v, "name"));
		cbx_buf_addc(text, ' ');
		cbx_escape(text, cbx_json_text(v, "version"));
		cbx_buf_adds(text, " (now ");
		cbx_escape(text, cbx_json_text(v, "installed"));
		cbx_buf_adds(text, v->next ? ")" : ").\n");
	}
}

static void answered(struct cbx_answer_op *op, const cJSON *answer, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, answer_op);
	_cleanup_buf_ struct cbx_buf text = { 0 };

	if (err) {
		cbx_tool_refuse(call, err);
		return;
	}
	list(&text, "Installed:", cbx_json_member(answer, "installed"));
	list(&text, "There already:", cbx_json_member(answer, "already"));
	list_warnings(&text, cbx_json_member(answer, "warnings"));
	list_imported(&text, cbx_json_member(answer, "imported"));
	cbx_buf_addf(&text, "Code in session %s can import them now.", call->session_id);
	if (call->notice)
		cbx_buf_addf(&text, " %s", call->notice);
	cbx_tool_end(call, cbx_buf_str(&text), cJSON_Duplicate(answer, 1));
}

/* As for run_code: packages may come before the first cell. */
void cbx_tool_install_packages(struct cbx_tool_call *call, const cJSON *args)
{
	const cJSON *packages = NULL;
	struct cbx_session *session;
	const char *id = NULL;
	struct cbx_err err;
	int r = cbx_json_get_str(args, "session_id", &id, &err);

	if (r >= 0)
		r = cbx_json_get_arr(args, "packages", &packages, &err);
	if (r >= 0)
		r = id || !call->own ? cbx_tool_arg_session(call, args, &session, &err) :
				       cbx_tool_own_session(call, &session, &err);
	call->answer_op = (struct cbx_answer_op){ .op.ops = &call->client->caller.ops, .done = answered };
	if (r >= 0)
		r = cbx_session_install(&call->client->caller, session, packages, &call->answer_op, &err);
	if (r < 0)
		cbx_tool_refuse(call, &err);
}
