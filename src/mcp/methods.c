/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what both eras serve. An era asks here for methods that it does not treat in a way of its own;
 * what differs between revisions within a method is in the message's revision.
 */
#include <string.h>

#include "mcp/call.h"
#include "mcp/serve.h"
#include "mcp/request.h"
#include "mcp/task.h"

static void tools_list(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	cJSON *result;

	if (!cbx_mcp_check_no_cursor(m, slot))
		return;
	result = cbx_mcp_tools_list(m->mcp, m->rev);
	cbx_mcp_set_caching(result, m->rev, CBX_TTL_LIST_MS, !m->mcp->client.own);
	cbx_rpc_answer(slot, result);
}

static const struct cbx_mcp_method methods[] = {
	{ "tools/call", cbx_mcp_tools_call },
	{ "tools/list", tools_list },
	{ NULL, NULL },
};

static const struct cbx_mcp_method own[] = {
	{ "resources/list", cbx_mcp_resources_list },
	{ "resources/templates/list", cbx_mcp_resources_templates },
	{ "resources/read", cbx_mcp_resources_read },
	{ "prompts/list", cbx_mcp_prompts_list },
	{ "prompts/get", cbx_mcp_prompts_get },
	{ "completion/complete", cbx_mcp_complete },
	{ "tasks/get", cbx_mcp_task_get },
	{ "tasks/update", cbx_mcp_task_update },
	{ "tasks/cancel", cbx_mcp_task_cancel },
	{ NULL, NULL },
};

bool cbx_mcp_call_method(const struct cbx_mcp_method *table, const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	for (; table->name; table++) {
		if (strcmp(table->name, m->method) == 0) {
			table->fn(m, slot);
			return true;
		}
	}
	return false;
}

bool cbx_mcp_common_request(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const struct cbx_mcp_method *others = m->mcp->registry->methods;

	return cbx_mcp_call_method(methods, m, slot) || cbx_mcp_call_method(others ? others : own, m, slot);
}
