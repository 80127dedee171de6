/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: name, capabilities and instructions, as each revision wants them. The legacy era tells them
 * once, in the answer to `initialize`; the modern one in the answer to `server/discover`, and its name in every answer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/serve.h"
#include "mcp/task.h"

const struct cbx_mcp_registry *cbx_mcp_registry_find(const struct cbx_mcp_registry *own, const char *name)
{
	const struct cbx_mcp_registry *const *r = own->others;

	if (strcmp(name, "native") == 0)
		return own;
	for (; r && *r; r++)
		if (strcmp((*r)->name, name) == 0)
			return *r;
	return NULL;
}

/* For a model that has not read the tools yet; clients cut at 2 KB, so what matters most comes first. */
static const char instructions[] =
	"codebox runs Python in a sandbox on this computer. Call run_code with code; the answer has what was printed, "
	"the value of the last expression, figures as images, and errors with their traceback.\n"
	"- Sessions persist: variables, imports, functions and files of one run_code call are there in the next one "
	"of the same session. %s %s All tools take session_id so; list_sessions shows which there are.\n"
	"- Files: the working directory is /workspace. Write results there and name them; it belongs to the session. "
	"Tools take paths relative to it, absolute ones, and the codebox:// addresses of answers.\n"
	"- Figures: matplotlib and seaborn plots are sent as PNG without plt.show(). The last expression of a cell is "
	"shown, as in a notebook; print() shows anything else.\n"
	"- Packages: numpy, pandas, matplotlib, scipy, scikit-learn and many others are there. %s\n"
	"- %s\n"
	"- Time: a cell is interrupted after 60 seconds unless timeout (seconds) says otherwise; variables survive "
	"that. What takes minutes runs with background, and get_execution gets its result.\n"
	"- input() does not work. Shell commands: !ls -l, or the subprocess module.\n"
	"- An exception in the code is an ordinary answer with status \"error\": read the traceback, correct the code "
	"and run it again; earlier variables are still there.";

#define HOSTS_SHOWN 300 /* bytes */

/* What a model need not try, and what it may. */
static char *network_sentence(const struct cbx_mcp *mcp, bool *ret_packages)
{
	_cleanup_buf_ struct cbx_buf hosts = { 0 };

	cbx_engine_reach(&mcp->client.caller, &hosts, ret_packages);
	if (strcmp(cbx_buf_str(&hosts), "none") == 0)
		return cbx_xstrdup("Network: none for code; downloads and requests fail. Have files uploaded instead.");
	if (strcmp(cbx_buf_str(&hosts), "open") == 0)
		return cbx_xstrdup("Network: code reaches public addresses; private ones, and this machine, are refused.");
	return cbx_xasprintf("Network: code reaches only these hosts, by the proxy that http_proxy and https_proxy name: "
			     "%.*s%s.",
			     HOSTS_SHOWN, cbx_buf_str(&hosts), hosts.len > HOSTS_SHOWN ? " …" : "");
}

char *cbx_mcp_server_instructions(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev)
{
	_cleanup_free_ char *network = NULL;
	bool packages;

	if (mcp->registry->server)
		return mcp->registry->instructions ? cbx_xstrdup(mcp->registry->instructions) : NULL;
	network = network_sentence(mcp, &packages);
	return cbx_xasprintf(instructions, cbx_own_sentence(&mcp->client, cbx_mcp_has_own(mcp, rev)),
			     cbx_mcp_has_own(mcp, rev)
				     ? "For another one, call create_session and pass its id."
				     : "A session ends with close_session, or when it has not been used for an hour.",
			     packages ? "Get others with %pip install NAME in a cell, pip in a shell, or install_packages."
				      : "No others can be installed: pip install fails.",
			     network);
}

void cbx_mcp_server_info(const struct cbx_mcp *mcp, cJSON *obj, const char *key, const struct cbx_mcp_revision *rev)
{
	const char *name = mcp->registry->server;
	cJSON *info = cbx_json_new_obj();

	cbx_json_set_str(info, "name", name ? name : "codebox");
	if (rev->titles && !name)
		cbx_json_set_str(info, "title", "codebox: Python in a sandbox");
	cbx_json_set_str(info, "version", PACKAGE_VERSION);
	cbx_json_set(obj, key, info);
}

cJSON *cbx_mcp_server_capabilities(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev)
{
	cJSON *caps;

	if (mcp->registry->capabilities)
		return mcp->registry->capabilities(rev);
	caps = cJSON_Parse("{\"tools\":{\"listChanged\":false},\"prompts\":{\"listChanged\":false},"
			   "\"resources\":{\"subscribe\":true,\"listChanged\":true}}");
	if (rev->completions)
		cbx_json_set(caps, "completions", cbx_json_new_obj());
	if (rev->modern)
		cbx_json_set(caps, "extensions", cJSON_CreateRaw("{\"" CBX_MCP_TASKS "\":{}}"));
	else
		cbx_json_set(caps, "logging", cbx_json_new_obj());
	return caps;
}
