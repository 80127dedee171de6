/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a task (extension io.modelcontextprotocol/tasks of 2026-07-28) is a name for an execution that
 * its run_code has left behind: "SESSION.EXECUTION.KEY". All that there is to know of it is in the execution, which is
 * held for a while after its end (cbx_execution_hold()); nothing belongs to a connection, so any client of this user
 * that knows the name may come back for it. Nobody else can guess it, because of the key.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/task.h"
#include "render/render.h"

#define POLL_MS	 1000
#define SAID_MAX 1000 /* of its statusMessage */

/* ---- who takes tasks ---- */

bool cbx_mcp_takes_tasks(const cJSON *params)
{
	const cJSON *meta = cbx_json_member(params, "_meta");
	const cJSON *caps = cbx_json_member(meta, CBX_META "clientCapabilities");
	const cJSON *extensions = cbx_json_member(caps, "extensions");

	return cJSON_IsObject(cbx_json_member(extensions, CBX_MCP_TASKS));
}

void cbx_mcp_tasks_needed(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	cJSON *data = cbx_json_new_obj(), *caps = cbx_json_new_obj(), *extensions = cbx_json_new_obj();

	cbx_json_set(extensions, CBX_MCP_TASKS, cbx_json_new_obj());
	cbx_json_set(caps, "extensions", extensions);
	cbx_json_set(data, "requiredCapabilities", caps);
	cbx_rpc_error_data(slot, CBX_RPC_MISSING_CAPABILITY, data,
			   "%s needs a client that declares the extension " CBX_MCP_TASKS
			   " in the capabilities of this request",
			   m->method);
}

/* ---- names ---- */

static char *task_id(const struct cbx_execution *x, const struct cbx_hold *hold)
{
	return cbx_xasprintf("%s.%llu.%s", cbx_session_id(cbx_execution_session(x)),
			     (unsigned long long)cbx_execution_id(x), hold->key);
}

/* Takes as long for a key that is almost right as for any other. */
static bool same_key(const char *a, const char *b)
{
	unsigned char differ = 0;

	if (strlen(a) != CBX_HOLD_KEY)
		return false;
	for (size_t i = 0; i < CBX_HOLD_KEY; i++)
		differ |= (unsigned char)(a[i] ^ b[i]);
	return !differ;
}

struct cbx_execution *cbx_mcp_task_find(struct cbx_mcp *mcp, const char *id)
{
	_cleanup_free_ char *session_id = cbx_xstrdup(id);
	char *key = strrchr(session_id, '.'), *number;
	struct cbx_session *session;
	struct cbx_execution *x;
	struct cbx_hold hold;
	struct cbx_err err;
	uint64_t n;

	if (!key)
		return NULL;
	*key++ = '\0';
	number = strrchr(session_id, '.'); /* a session's id may have dots */
	if (!number)
		return NULL;
	*number++ = '\0';
	if (!cbx_name_valid(session_id) || cbx_parse_u64(number, "execution", 1, 1ull << 53, &n, &err) < 0 ||
	    cbx_session_find(&mcp->client.caller, session_id, &session, &err) < 0 ||
	    cbx_execution_find(session, n, &x, &err) < 0 || !cbx_execution_held(x, &hold) || !same_key(key, hold.key))
		return NULL;
	return x;
}

/* ---- what a client sees ---- */

static void set_time(cJSON *o, const char *key, uint64_t ms)
{
	char when[32];

	cbx_format_time_ms(ms, when);
	cbx_json_set_str(o, key, when);
}

const char *cbx_mcp_task_status(const struct cbx_execution *x)
{
	enum cbx_status status = cbx_execution_status(x);

	return status <= CBX_RUNNING ? "working" : status == CBX_CANCELLED ? "cancelled" : "completed";
}

cJSON *cbx_mcp_task_describe(const struct cbx_execution *x, const char *result_type)
{
	_cleanup_json_ cJSON *json = cbx_execution_to_json(x, false);
	const char *message = cbx_json_text(json, "message");
	_cleanup_free_ char *id = NULL;
	_cleanup_buf_ struct cbx_buf said = { 0 };
	struct cbx_hold hold = { 0 };
	cJSON *o = cbx_json_new_obj();

	cbx_execution_held(x, &hold);
	id = task_id(x, &hold);
	cbx_json_set_str(o, "resultType", result_type);
	cbx_json_set_str(o, "taskId", id);
	cbx_json_set_str(o, "status", cbx_mcp_task_status(x));
	if (message)
		cbx_render_cut(&said, message, SAID_MAX, 0, NULL);
	else
		cbx_buf_addf(&said, "The cell %s session %s, as execution %llu.",
			     cbx_execution_status(x) == CBX_QUEUED    ? "waits for its turn in"
			     : cbx_execution_status(x) == CBX_RUNNING ? "is running in"
								      : "has ended in",
			     cbx_session_id(cbx_execution_session(x)), (unsigned long long)cbx_execution_id(x));
	cbx_json_set_str(o, "statusMessage", cbx_buf_str(&said));
	set_time(o, "createdAt", hold.created_ms);
	set_time(o, "lastUpdatedAt", hold.updated_ms);
	cbx_json_set_u64(o, "ttlMs", hold.kept_ms);
	cbx_json_set_u64(o, "pollIntervalMs", POLL_MS);
	return o;
}
