/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: name, capabilities and instructions, as each revision wants them. The legacy era tells them
 * once, in the answer to `initialize`; the modern one in the answer to `server/discover`, and its name in every answer.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/internal.h"

/* For a model that has not read the tools yet; clients cut at 2 KB, so what matters most comes first. */
static const char instructions[] =
	"codebox runs Python in a sandbox on this computer. Call run_code with code; the answer has what was printed, "
	"the value of the last expression, figures as images, and errors with their traceback.\n"
	"- Sessions persist: variables, imports, functions and files of one run_code call are there in the next one "
	"of the same session. %s\n"
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

static const char legacy_sessions[] =
	"Leave session_id out to use this connection's own session, which ends with the connection; its id is in every "
	"answer. For a session that outlives the connection, call create_session and pass its id.";

static const char modern_sessions[] =
	"Without session_id a new session is made, and its id is in the answer: pass it in every further call that "
	"belongs to the same work. A session ends with close_session, or when it has not been used for an hour.";

char *cbx_mcp_server_instructions(const struct cbx_mcp_revision *rev)
{
	struct cbx_buf b = { 0 };

	cbx_buf_addf(&b, instructions, rev->modern ? modern_sessions : legacy_sessions);
	return cbx_buf_steal(&b);
}

void cbx_mcp_server_info(cJSON *obj, const char *key, const struct cbx_mcp_revision *rev)
{
	cJSON *info = cbx_json_new_obj();

	cbx_json_set_str(info, "name", "codebox");
	if (rev->titles)
		cbx_json_set_str(info, "title", "codebox: Python in a sandbox");
	cbx_json_set_str(info, "version", PACKAGE_VERSION);
	cbx_json_set(obj, key, info);
}

cJSON *cbx_mcp_server_capabilities(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev)
{
	cJSON *caps, *c;

	if (mcp->registry->capabilities)
		return mcp->registry->capabilities(rev);
	caps = cbx_json_new_obj();
	c = cbx_json_new_obj();
	cbx_json_set_bool(c, "listChanged", false);
	cbx_json_set(caps, "tools", c);
	c = cbx_json_new_obj();
	cbx_json_set_bool(c, "subscribe", true);
	cbx_json_set_bool(c, "listChanged", true);
	cbx_json_set(caps, "resources", c);
	c = cbx_json_new_obj();
	cbx_json_set_bool(c, "listChanged", false);
	cbx_json_set(caps, "prompts", c);
	if (rev->completions)
		cbx_json_set(caps, "completions", cbx_json_new_obj());
	if (rev->modern) {
		c = cbx_json_new_obj();
		cbx_json_set(c, CBX_MCP_TASKS, cbx_json_new_obj());
		cbx_json_set(caps, "extensions", c);
	}
	return caps;
}
