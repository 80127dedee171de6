/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the era in which a connection starts with `initialize` and keeps the revision that was agreed on
 * then. The revisions differ in what an answer may hold, which is a row of a table; the methods are the same in all of
 * them. Nothing insists on the handshake: a client that asks before it gets an answer as of the newest revision, and a
 * method of another era (`server/discover`) is refused at once, so that a client which tries eras one after another
 * does not have to wait for a time-out.
 */
#include <string.h>

#include "base/cleanup.h"
#include "mcp/internal.h"

/* Newest first. */
static const struct cbx_mcp_revision revisions[] = {
	{ "2025-11-25", false, true, true, true, true },
	{ "2025-06-18", false, true, true, true, true },
	{ "2025-03-26", true, true, true, false, false },
	{ "2024-11-05", false, false, false, false, false },
};

/* For a model that has not read the tools yet; clients cut at 2 KB, so what matters most comes first. */
static const char instructions[] =
	"codebox runs Python in a sandbox on this computer. Call run_code with code; the answer has what was printed, "
	"the value of the last expression, figures as images, and errors with their traceback.\n"
	"- Sessions persist: variables, imports, functions and files of one run_code call are there in the next one "
	"of the same session. Leave session_id out to use this connection's own session, which ends with the "
	"connection; its id is in every answer. For a session that outlives the connection, call create_session and "
	"pass its id.\n"
	"- Files: the working directory is /workspace. Write results there and name them; it belongs to the session.\n"
	"- Figures: matplotlib and seaborn plots are sent as PNG without plt.show(). The last expression of a cell is "
	"shown, as in a notebook; print() shows anything else.\n"
	"- No network: downloads and pip install from the internet fail. numpy, pandas, matplotlib, scipy, "
	"scikit-learn and many others are installed in the default image.\n"
	"- Time: a cell is interrupted after 60 seconds unless timeout (seconds) says otherwise; variables survive "
	"that.\n"
	"- input() does not work. Shell commands: !ls -l, or the subprocess module.\n"
	"- An exception in the code is an ordinary answer with status \"error\": read the traceback, correct the code "
	"and run it again; earlier variables are still there.";

const struct cbx_mcp_revision *cbx_mcp_legacy_newest(void)
{
	return &revisions[0];
}

static void do_initialize(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	const char *wanted = NULL;
	cJSON *result, *caps, *tools, *info;
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "protocolVersion", &wanted, &err) < 0 || !wanted) {
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INVALID_PARAMS,
			      "Invalid params: protocolVersion: a string is expected");
		return;
	}
	m->mcp->rev = &revisions[0]; /* the answer to a version that is not known is the newest that is */
	for (size_t i = 0; i < ARRAY_SIZE(revisions); i++)
		if (strcmp(wanted, revisions[i].name) == 0)
			m->mcp->rev = &revisions[i];
	result = cbx_json_new_obj();
	cbx_json_set_str(result, "protocolVersion", m->mcp->rev->name);
	caps = cbx_json_new_obj();
	tools = cbx_json_new_obj();
	cbx_json_set_bool(tools, "listChanged", false);
	cbx_json_set(caps, "tools", tools);
	cbx_json_set(result, "capabilities", caps);
	info = cbx_json_new_obj();
	cbx_json_set_str(info, "name", "codebox");
	if (m->mcp->rev->titles)
		cbx_json_set_str(info, "title", "codebox: Python in a sandbox");
	cbx_json_set_str(info, "version", PACKAGE_VERSION);
	cbx_json_set(result, "serverInfo", info);
	cbx_json_set_str(result, "instructions", instructions);
	cbx_mcp_answer(m->mcp, slot, result);
}

static void do_ping(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	cbx_mcp_answer(m->mcp, slot, cbx_json_new_obj());
}

static void do_tools_list(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	const char *cursor = "";
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "cursor", &cursor, &err) < 0 || cursor[0]) {
		cbx_mcp_error(m->mcp, slot, CBX_RPC_INVALID_PARAMS,
			      "Invalid params: unknown cursor; the list has one page, leave cursor out");
		return;
	}
	cbx_mcp_answer(m->mcp, slot, cbx_mcp_tools_list(m->mcp->rev));
}

static void do_tools_call(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	cbx_mcp_tools_call(m, m->mcp->rev, slot);
}

static const struct {
	const char *name;
	void (*fn)(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot);
} methods[] = {
	{ "initialize", do_initialize },
	{ "ping", do_ping },
	{ "tools/list", do_tools_list },
	{ "tools/call", do_tools_call },
};

void cbx_mcp_legacy_request(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strcmp(m->method, methods[i].name) == 0) {
			methods[i].fn(m, slot);
			return;
		}
	}
	cbx_mcp_error(m->mcp, slot, CBX_RPC_NO_METHOD, "Method not found: %.100s", m->method);
}

void cbx_mcp_legacy_notification(const struct cbx_mcp_message *m)
{
	_cleanup_free_ char *id = NULL;

	if (strcmp(m->method, "notifications/cancelled") != 0)
		return;
	id = cbx_mcp_raw_copy(cbx_mcp_raw_member(cbx_mcp_raw_member(m->text, "params"), "requestId"));
	if (id)
		cbx_mcp_tools_cancel(m->mcp, id);
}
