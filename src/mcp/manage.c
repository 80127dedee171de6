/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the tools that make, list and close sessions. create_session answers when the session is ready,
 * so that a model which is told of one can rely on it; a creation that is cancelled, or whose client has gone, is
 * undone, because nobody would know of its session.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/internal.h"

static cJSON *no_arguments(void)
{
	return cbx_mcp_schema_object(cbx_json_new_obj(), NULL, true);
}

/* ---- create_session ---- */

static cJSON *create_input(void)
{
	return cbx_mcp_schema_object(cbx_session_spec_schema(), NULL, true);
}

static void describe(cJSON *p, const char *name, const char *type, const char *text)
{
	cbx_mcp_schema_property(p, name, type, text);
}

/* What create_session and list_sessions both tell of a session. */
static cJSON *common_properties(void)
{
	cJSON *p = cbx_json_new_obj();

	describe(p, "session_id", "string", "Pass it to run_code.");
	describe(p, "image", "string", "What is installed in it.");
	describe(p, "state", "string", "starting, idle or busy.");
	describe(p, "created", "string", "When, in UTC.");
	describe(p, "age_s", "integer", "Seconds since then.");
	describe(p, "idle_s", "integer", "Seconds since its last use.");
	describe(p, "expires_in_s", "integer", "Seconds until it is closed if it is not used.");
	describe(p, "executions", "integer", "Cells that were run in it.");
	return p;
}

/* All of cbx_session_to_json(). */
static cJSON *create_output(void)
{
	static const char *const required[] = { "session_id", NULL };
	cJSON *p = common_properties();

	describe(p, "interpreter", "object", "Language and version.");
	describe(p, "workspace", "string", "The working directory.");
	describe(p, "limits", "object", "Memory, disk, processes and times.");
	describe(p, "mounts", "array", "Directories of the computer that are seen in it.");
	describe(p, "policy", "object", "The policy in force, and which of the arguments it lowered.");
	describe(p, "protections", "object", "What isolates it.");
	return cbx_mcp_schema_object(p, required, false);
}

/* One sentence or two of what matters first. */
static void tell(struct cbx_buf *out, const cJSON *info, const char *id)
{
	const cJSON *limits = cJSON_GetObjectItemCaseSensitive(info, "limits"), *name;
	const cJSON *lowered = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(info, "policy"), "lowered");
	uint64_t memory = cbx_mcp_num_of(limits, "memory_bytes"), disk = cbx_mcp_num_of(limits, "disk_bytes");
	uint64_t ttl = cbx_mcp_num_of(limits, "ttl_s"), idle = cbx_mcp_num_of(limits, "idle_timeout_s");
	char a[32], b[32];

	cbx_buf_addf(out, "Session %s is ready. Pass session_id \"%s\" to run_code to use it.", id, id);
	cbx_format_size(memory, a);
	cbx_format_size(disk, b);
	if (memory && disk)
		cbx_buf_addf(out, " Memory %s, files %s, %llu s for a cell; closed %s %llu s.", a, b,
			     (unsigned long long)cbx_mcp_num_of(limits, "timeout_s"),
			     ttl > idle ? "when not used for" : "in", (unsigned long long)(ttl > idle ? idle : ttl));
	cJSON_ArrayForEach(name, cJSON_GetObjectItemCaseSensitive(info, "mounts"))
		cbx_buf_addf(out, "%s %s%s", name->prev->next ? "," : " Mounted:", cbx_mcp_str_of(name, "target"),
			     cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(name, "writable")) ? "" : " (read-only)");
	if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(info, "mounts")))
		cbx_buf_addc(out, '.');
	cJSON_ArrayForEach(name, lowered)
		if (cJSON_IsString(name))
			cbx_buf_addf(out, "%s%s", name == lowered->child ? " The server's policy lowered: " : ", ",
				     name->valuestring);
	if (cJSON_GetArraySize(lowered))
		cbx_buf_addc(out, '.');
}

static void on_ready(void *arg, struct cbx_session *session, const struct cbx_err *err)
{
	struct cbx_mcp_call *call = arg;

	if (call->mcp && err) {
		cbx_mcp_call_refuse(call, err);
	} else if (call->mcp) {
		_cleanup_buf_ struct cbx_buf text = { 0 };
		cJSON *info = cbx_session_to_json(session);

		tell(&text, info, cbx_session_id(session));
		cbx_mcp_call_end(call, cbx_buf_str(&text), info);
	}
	cbx_mcp_call_unref(call);
}

static void create(struct cbx_mcp_call *call, const cJSON *args)
{
	struct cbx_session_spec spec;
	struct cbx_session *session;
	struct cbx_err err;
	int r;

	cbx_session_spec_init(&spec);
	r = args ? cbx_session_spec_parse(args, &spec, &err) : 0;
	if (r >= 0)
		cbx_mcp_roots_apply(call, &spec);
	if (r >= 0)
		r = cbx_session_create(call->mcp->engine, &spec, on_ready, call, &session, &err);
	if (r < 0) {
		cbx_mcp_call_refuse(call, &err);
		return;
	}
	call->refs++;
	snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(session));
}

static void create_cancel(struct cbx_mcp_call *call, struct cbx_engine *engine)
{
	struct cbx_session *session;
	struct cbx_err err;

	if (call->session_id[0] && cbx_session_find(engine, call->session_id, &session, &err) >= 0 &&
	    cbx_session_awaited(session, call))
		cbx_session_close(session, "its creation was cancelled");
}

const struct cbx_mcp_tool cbx_mcp_create_session = {
	.name = "create_session",
	.title = "Create a session",
	.description =
		"Make a new session: an interpreter with variables and files of its own. Only needed for a second "
		"session beside the default one, for one that outlives this connection, or for other limits; run_code "
		"makes a session by itself when session_id is left out.\n\n"
		"Pass the session_id of the answer to run_code. A session lives until close_session, until it has not "
		"been used for idle_timeout, or until ttl is over; after that its id is answered with \"expired\", "
		"and its variables and files are gone. All arguments have sensible defaults.",
	.input = create_input,
	.output = create_output,
	.modern_description =
		"Make a new session: an interpreter with variables and files of its own. Only needed for other limits, "
		"or for an id of your choice; run_code makes a session by itself when session_id is left out.\n\n"
		"Pass the session_id of the answer to run_code. A session lives until close_session, until it has not "
		"been used for idle_timeout, or until ttl is over; after that its id is answered with \"expired\", "
		"and its variables and files are gone. All arguments have sensible defaults.",
	.call = create,
	.cancel = create_cancel,
};

/* ---- list_sessions ---- */

static cJSON *list_output(void)
{
	static const char *const required[] = { "sessions", NULL };
	static const char *const in_session[] = { "session_id", "default", NULL };
	cJSON *p = cbx_json_new_obj(), *q = common_properties();

	describe(q, "default", "boolean", "Whether run_code uses it when session_id is left out.");
	cbx_json_set(cbx_mcp_schema_property(p, "sessions", "array", "Sessions that exist."), "items",
		     cbx_mcp_schema_object(q, in_session, true));
	return cbx_mcp_schema_object(p, required, true);
}

static cJSON *list_entry(const cJSON *info, bool is_default, struct cbx_buf *text)
{
	_cleanup_json_ cJSON *known = common_properties();
	uint64_t cells = cbx_mcp_num_of(info, "executions");
	cJSON *o = cbx_json_new_obj();
	const cJSON *p, *v;

	cJSON_ArrayForEach(p, known)
		if ((v = cJSON_GetObjectItemCaseSensitive(info, p->string)) && !cJSON_IsNull(v))
			cbx_json_set(o, p->string, cJSON_Duplicate(v, 1));
	cbx_json_set_bool(o, "default", is_default);
	cbx_buf_addf(text, "%s%s: %s, image %s, %llu cell%s run, closed in %llu s if not used%s", text->len ? "\n" : "",
		     cbx_mcp_str_of(info, "session_id"), cbx_mcp_str_of(info, "state"), cbx_mcp_str_of(info, "image"),
		     (unsigned long long)cells, cells == 1 ? "" : "s",
		     (unsigned long long)cbx_mcp_num_of(info, "expires_in_s"),
		     is_default ? " (the default session)" : "");
	return o;
}

static void list(struct cbx_mcp_call *call, const cJSON *args)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_json_ cJSON *all = cbx_session_list(call->mcp->engine);
	cJSON *result = cbx_json_new_obj(), *sessions = cbx_json_new_arr();
	const cJSON *s;

	cJSON_ArrayForEach(s, all) {
		const char *id = cbx_mcp_str_of(s, "session_id");
		bool is_default = id && !call->rev->modern && strcmp(id, call->mcp->default_session) == 0;

		/* Other connections' own sessions are no business of this one. */
		if (cbx_mcp_session_visible(call->mcp, call->rev, s))
			cbx_json_push(sessions, list_entry(s, is_default, &text));
	}
	cbx_json_set(result, "sessions", sessions);
	if (!text.len)
		cbx_buf_adds(&text, "There are no sessions. run_code makes one by itself when session_id is left out.");
	cbx_mcp_call_end(call, cbx_buf_str(&text), result);
}

const struct cbx_mcp_tool cbx_mcp_list_sessions = {
	.name = "list_sessions",
	.title = "List sessions",
	.description =
		"List the sessions that exist, with state, limits, age and time left. Use it to find the id of a "
		"session that was made earlier.",
	.hints = CBX_TOOL_READ_ONLY | CBX_TOOL_IDEMPOTENT,
	.input = no_arguments,
	.output = list_output,
	.call = list,
};

/* ---- session_info ---- */

static cJSON *info_input(void)
{
	cJSON *p = cbx_json_new_obj();

	cbx_mcp_schema_session(p);
	return cbx_mcp_schema_object(p, NULL, true);
}

static cJSON *info_output(void)
{
	cJSON *schema = create_output(), *p = cJSON_GetObjectItemCaseSensitive(schema, "properties");

	describe(p, "queue_length", "integer", "Cells that wait for their turn.");
	describe(p, "running", "integer", "The execution_id of the cell that runs now.");
	describe(p, "default", "boolean", "Whether run_code uses it when session_id is left out.");
	return schema;
}

static void info(struct cbx_mcp_call *call, const cJSON *args)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_session *session;
	struct cbx_err err;
	uint64_t running, cells;
	cJSON *about;

	if (cbx_mcp_arg_session(call, args, &session, &err) < 0) {
		cbx_mcp_call_refuse(call, &err);
		return;
	}
	about = cbx_session_to_json(session);
	cJSON_DeleteItemFromObjectCaseSensitive(about, "one_shot");
	cbx_json_set_bool(about, "default",
			  !call->rev->modern && strcmp(call->mcp->default_session, call->session_id) == 0);
	running = cbx_mcp_num_of(about, "running");
	cells = cbx_mcp_num_of(about, "executions");
	cbx_buf_addf(&text, "Session %s is %s: image %s, %llu cell%s run", call->session_id,
		     cbx_mcp_str_of(about, "state"), cbx_mcp_str_of(about, "image"), (unsigned long long)cells,
		     cells == 1 ? "" : "s");
	if (running)
		cbx_buf_addf(&text, ", execution %llu runs now, %llu wait", (unsigned long long)running,
			     (unsigned long long)cbx_mcp_num_of(about, "queue_length"));
	cbx_buf_addf(&text, "; it is closed in %llu s if it is not used.",
		     (unsigned long long)cbx_mcp_num_of(about, "expires_in_s"));
	cbx_mcp_call_end(call, cbx_buf_str(&text), about);
}

const struct cbx_mcp_tool cbx_mcp_session_info = {
	.name = "session_info",
	.title = "Look at a session",
	.description = "Tell all about one session: state, what runs in it, limits, time left, interpreter, "
		       "protections.",
	.hints = CBX_TOOL_READ_ONLY | CBX_TOOL_IDEMPOTENT,
	.input = info_input,
	.output = info_output,
	.call = info,
};

/* ---- close_session ---- */

static cJSON *close_input(void)
{
	static const char *const required[] = { "session_id", NULL };
	cJSON *p = cbx_json_new_obj();

	cbx_mcp_schema_property(p, "session_id", "string", "The session to close.");
	return cbx_mcp_schema_object(p, required, true);
}

static cJSON *close_output(void)
{
	static const char *const required[] = { "session_id", "closed", NULL };
	cJSON *p = cbx_json_new_obj();

	cbx_mcp_schema_property(p, "session_id", "string", "The session.");
	cbx_mcp_schema_property(p, "closed", "boolean", "Always true.");
	return cbx_mcp_schema_object(p, required, true);
}

static void close_one(struct cbx_mcp_call *call, const cJSON *args)
{
	struct cbx_mcp *mcp = call->mcp;
	_cleanup_free_ char *text = NULL;
	struct cbx_session *session;
	const char *id = NULL;
	struct cbx_err err;
	cJSON *result;
	int r = cbx_json_get_str(args, "session_id", &id, &err);

	if (r >= 0 && !id)
		r = cbx_refuse(&err, "invalid_argument", EINVAL,
			       "session_id: it is missing; pass an id from list_sessions");
	if (r >= 0)
		r = cbx_session_find(mcp->engine, id, &session, &err);
	if (r < 0) {
		cbx_mcp_call_refuse(call, &err);
		return;
	}
	result = cbx_json_new_obj();
	cbx_json_set_str(result, "session_id", cbx_session_id(session));
	cbx_json_set_bool(result, "closed", true);
	text = cbx_xasprintf("Session %s is closed. Its variables, processes and files are gone.",
			     cbx_session_id(session));
	if (strcmp(mcp->default_session, cbx_session_id(session)) == 0) {
		mcp->default_session[0] = '\0';
		mcp->default_used = false;
	}
	cbx_session_close(session, "it was closed with close_session");
	cbx_mcp_call_end(call, text, result);
}

const struct cbx_mcp_tool cbx_mcp_close_session = {
	.name = "close_session",
	.title = "Close a session",
	.description =
		"End a session: its processes, variables and files are gone at once, and code that runs in it is "
		"killed. Save what is still needed first. Close sessions that are not needed any more.",
	.hints = CBX_TOOL_DESTRUCTIVE | CBX_TOOL_IDEMPOTENT,
	.input = close_input,
	.output = close_output,
	.call = close_one,
};
