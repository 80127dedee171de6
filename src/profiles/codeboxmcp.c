/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: CodeBoxMCP has sessions that are made on first use, with the directories input, output and logs
 * in their workspace. After a cell the files at the top of it that look like results go to output, and all of output is
 * listed. Every answer is JSON; an error is {"session_id","status":"error","error"}.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "profiles/codeboxmcp-step.h"
#include "session/artifacts.h"

/* ---- the other tools ---- */

static void listed(struct cbx_tool_call *call)
{
	struct cbx_cbm_step *s = call->state;
	cJSON *o = cbx_cbm_success(call);
	int n = cJSON_GetArraySize(s->artifacts);

	cbx_json_set(o, "artifacts", take_ptr(&s->artifacts));
	cbx_json_set_u64(o, "count", (uint64_t)n);
	if (s->cut)
		cbx_json_set_bool(o, "truncated", true);
	cbx_profile_end_json(call, o);
}

static void no_session(struct cbx_tool_call *call)
{
	_cleanup_free_ char *text = cbx_xasprintf("Session '%s' not found.", call->session_id);

	cbx_cbm_fail_as(call, call->session_id, text);
}

static void list_artifacts(struct cbx_tool_call *call, const cJSON *args)
{
	struct cbx_session *session;
	struct cbx_err err;

	if (cbx_cbm_take_id(call, args) < 0)
		return;
	if (cbx_profile_find(call, &session, &err) < 0) {
		no_session(call);
		return;
	}
	cbx_session_touch(session);
	cbx_cbm_step(call)->then = listed;
	cbx_cbm_list_output(call);
}

static void described(struct cbx_tool_call *call)
{
	const struct cbx_cbm_step *s = call->state;
	uint64_t timeout;
	cJSON *o, *config;
	struct cbx_artifact_terms terms = { 0 };
	_cleanup_json_ cJSON *store = NULL;
	_cleanup_json_ cJSON *info = NULL;
	const cJSON *limits;
	struct cbx_session *session;
	struct cbx_err err;
	int r = cbx_profile_find(call, &session, &err);

	if (r >= 0 && (s->store || s->container))
		r = cbx_artifact_store(session, s->store, s->container, &store, &err);
	if (r < 0) {
		cbx_cbm_fail(call, &err);
		return;
	}
	o = cbx_cbm_success(call);
	config = cbx_json_new_obj();
	info = cbx_session_list_entry(session);
	cbx_artifact_terms(session, &terms);
	if (store)
		terms.bucket = cbx_json_text(cbx_json_member(store, "store"), "bucket");
	if (s->link_s && s->link_s < terms.link_s)
		terms.link_s = s->link_s;
	limits = cbx_json_member(info, "limits");
	timeout = cbx_json_u64(limits, "timeout_s");
	cbx_json_set_str(o, "workdir", CBX_CBM_WORKDIR);
	cbx_json_set_str(o, "input_dir", CBX_CBM_INPUT);
	cbx_json_set_str(o, "output_dir", CBX_CBM_OUTPUT);
	cbx_json_set_bool(o, "blob_upload_enabled", terms.bucket);
	if (terms.bucket)
		cbx_json_set_str(o, "blob_container", terms.bucket);
	else
		cbx_json_set_null(o, "blob_container");
	cbx_json_set_u64(config, "session_ttl", cbx_json_u64(limits, "ttl_s"));
	cbx_json_set_u64(config, "idle_timeout", cbx_json_u64(limits, "idle_timeout_s"));
	cbx_json_set_u64(config, "exec_timeout", timeout < s->limits.exec_s ? timeout : s->limits.exec_s);
	cbx_json_set_u64(config, "download_timeout", s->limits.download_s);
	cbx_json_set_u64(config, "max_download_size", s->limits.download_bytes);
	cbx_json_set(config, "blob_sas_expiry_hours", cJSON_CreateNumber((double)terms.link_s / 3600));
	cbx_json_set(o, "effective_config", config);
	cbx_profile_end_json(call, o);
}

static void session_info(struct cbx_tool_call *call, const cJSON *args)
{
	int64_t link_s;

	if (cbx_cbm_take_id(call, args) < 0)
		return;
	link_s = cbx_cbm_link_seconds(call);
	if (link_s < 0)
		return;
	cbx_cbm_step(call)->link_s = (uint32_t)link_s;
	cbx_cbm_take_store(call);
	if (cbx_cbm_take_limits(call) == 0)
		cbx_cbm_with_session(call, described);
}

static void list_sessions(struct cbx_tool_call *call, const cJSON *args)
{
	_cleanup_ids_ struct cbx_own_ids ids = cbx_own_list(call->client, false, NULL);
	cJSON *o = cbx_json_new_obj(), *list = cbx_json_new_arr();
	struct cbx_session *session;
	struct cbx_err err;
	uint64_t n;

	for (size_t i = 0; i < ids.n && i < CBX_SESSIONS_PAGE; i++) {
		_cleanup_json_ cJSON *info = NULL;
		cJSON *s;

		if (cbx_session_find(&call->client->caller, ids.v[i], &session, &err) < 0)
			continue;
		info = cbx_session_list_entry(session);
		s = cbx_json_new_obj();
		cbx_json_set_str(s, "session_id", ids.v[i]);
		cbx_json_set_u64(s, "age_seconds", cbx_json_u64(info, "age_s"));
		cbx_json_set_u64(s, "idle_seconds", cbx_json_u64(info, "idle_s"));
		cbx_json_set_str(s, "workdir", CBX_CBM_WORKDIR);
		cbx_json_push(list, s);
	}
	n = (uint64_t)cJSON_GetArraySize(list);
	cbx_json_set_str(o, "status", "success");
	cbx_json_set(o, "sessions", list);
	cbx_json_set_u64(o, "count", n);
	cbx_profile_end_json(call, o);
}

static void close_session(struct cbx_tool_call *call)
{
	struct cbx_session *session;
	struct cbx_err err;

	if (cbx_profile_find(call, &session, &err) >= 0)
		cbx_session_close(&call->client->caller, session, "it was closed with destroy_session");
}

static void destroy_session(struct cbx_tool_call *call, const cJSON *args)
{
	_cleanup_free_ char *text = NULL;
	cJSON *o;

	if (cbx_cbm_take_id(call, args) < 0)
		return;
	close_session(call);
	o = cbx_cbm_success(call);
	text = cbx_xasprintf("Session '%s' destroyed.", call->session_id);
	cbx_json_set_str(o, "message", text);
	cbx_profile_end_json(call, o);
}

/* ---- tables ---- */

static const char guide[] =
	"# Usage guide\n\n"
	"| Tool | For |\n|---|---|\n"
	"| exec_code | Python or shell code in a session; variables stay for the next call |\n"
	"| exec_sql | a read-only SELECT of a database that the policy allows; many rows become a CSV file of input/ |\n"
	"| upload_file | a file from a URL into input/, from hosts that the policy allows |\n"
	"| list_artifacts | the files of output/ |\n"
	"| session_info | the paths of a session, and its limits |\n"
	"| list_sessions | the sessions that there are |\n"
	"| destroy_session | end a session |\n\n"
	"- A session is made by the first call with its session_id. Begin with session_info: it has the absolute paths "
	"of input/ and output/.\n"
	"- Variables, imports and files stay: use what is there, and after an error correct only what was wrong.\n"
	"- Save results to output/. exec_code names what it made in new_artifacts. PNG, JPEG, SVG, HTML, CSV, XLSX, "
	"JSON "
	"and PDF files in the working directory are moved to output/ after each call.\n"
	"- A session ends after an hour, or half an hour without use. Then begin again under the same session_id.\n"
	"- End with destroy_session.\n";

static char *usage_guide(struct cbx_mcp *mcp, const char *session_id)
{
	return cbx_xstrdup(guide);
}

/* clang-format off */
#define ID "\"session_id\":{\"title\":\"Session Id\",\"type\":\"string\"}"
#define STRING(key, title) ",\"" key "\":{\"title\":\"" title "\",\"type\":\"string\"}"
#define EMPTY(key, title) ",\"" key "\":{\"default\":\"\",\"title\":\"" title "\",\"type\":\"string\"}"
#define ONE_ID(name) CBX_PROFILE_INPUT(name, "[\"session_id\"]", "{" ID "}")
/* clang-format on */

static const struct cbx_tool exec_code_tool = {
	.name = "exec_code",
	.description = "Run code in a session, which is made on first use; variables, imports and files stay for the "
		       "next call. "
		       "The answer has the output, the files that the code made (new_artifacts) and all files of the "
		       "session's "
		       "output directory (all_artifacts).\n\nArgs:\n    session_id: any name\n    language: "
		       "\"python\", \"shell\" or \"javascript\", as the image has them\n    code: "
		       "the code",
	.input = CBX_PROFILE_INPUT("exec_code", "[\"session_id\",\"language\",\"code\"]",
				   "{" ID STRING("language", "Language") STRING("code", "Code") "}"),
	.call = cbx_cbm_exec_code,
	.cancel = cbx_tool_cancel_run,
};

static const struct cbx_tool upload_file_tool = {
	.name = "upload_file",
	.description =
		"Download a file from a URL into the session's input directory, from a host that the policy allows.",
	.input = CBX_PROFILE_INPUT("upload_file", "[\"session_id\"]",
				   "{" ID EMPTY("blob_url", "Blob Url") EMPTY("filename", "Filename") "}"),
	.call = cbx_cbm_upload_file,
};

static const struct cbx_tool exec_sql_tool = {
	.name = "exec_sql",
	.description = "Run a read-only SELECT against a database that the policy allows. Few rows are the answer; "
		       "many become a CSV file in the session's input directory, which exec_code can load.",
	.input = CBX_PROFILE_INPUT("exec_sql", "[\"session_id\",\"query\"]", "{" ID STRING("query", "Query") "}"),
	.call = cbx_cbm_exec_sql,
};

static const struct cbx_tool list_artifacts_tool = {
	.name = "list_artifacts",
	.description = "List the files of a session's output directory.",
	.input = ONE_ID("list_artifacts"),
	.call = list_artifacts,
};

static const struct cbx_tool destroy_session_tool = {
	.name = "destroy_session",
	.description = "End a session: its variables, processes and files are gone.",
	.input = ONE_ID("destroy_session"),
	.call = destroy_session,
};

static const struct cbx_tool list_sessions_tool = {
	.name = "list_sessions",
	.description = "List the sessions that there are, with their age.",
	.input = CBX_PROFILE_INPUT_NONE("list_sessions", "{}"),
	.call = list_sessions,
};

static const struct cbx_tool session_info_tool = {
	.name = "session_info",
	.description = "The absolute paths of a session's directories, and its limits. The session is made if needed.",
	.input = ONE_ID("session_info"),
	.call = session_info,
};

static const struct cbx_tool *const tools[] = {
	&exec_code_tool,       &upload_file_tool,   &exec_sql_tool,	&list_artifacts_tool,
	&destroy_session_tool, &list_sessions_tool, &session_info_tool, NULL,
};

static const struct cbx_profile_resource resources[] = {
	{ "code-interpreter://usage-guide", "get_usage_guide", "How to use the tools of this server.", usage_guide },
	{ 0 },
};

const struct cbx_profile cbx_profile_codeboxmcp = {
	.registry = { .name = "codeboxmcp",
		      .server = "Code Interpreter MCP",
		      .tools = tools,
		      .methods = cbx_profile_methods,
		      .capabilities = cbx_profile_capabilities },
	.resources = resources,
};
