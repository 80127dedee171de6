/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what both eras serve. An era asks here for methods that it does not treat in a way of its own;
 * what differs between revisions within a method is in the message's revision.
 */
#include <string.h>

#include "mcp/internal.h"

bool cbx_mcp_check_no_cursor(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	const char *cursor = "";
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "cursor", &cursor, &err) >= 0 && !cursor[0])
		return true;
	cbx_mcp_error(m->mcp, slot, CBX_RPC_INVALID_PARAMS,
		      "Invalid params: unknown cursor; the list has one page, leave cursor out");
	return false;
}

static void tools_list(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	cJSON *result;

	if (!cbx_mcp_check_no_cursor(m, slot))
		return;
	result = cbx_mcp_tools_list(m->mcp, m->rev);
	cbx_mcp_set_caching(result, m->rev, CBX_TTL_LIST_MS, true);
	cbx_mcp_answer(m->mcp, slot, result);
}

static const struct cbx_mcp_method methods[] = {
	{ "tools/call", cbx_mcp_tools_call },
	{ "tools/list", tools_list },
	{ "resources/list", cbx_mcp_resources_list },
	{ "resources/templates/list", cbx_mcp_resources_templates },
	{ "resources/read", cbx_mcp_resources_read },
	{ "prompts/list", cbx_mcp_prompts_list },
	{ "prompts/get", cbx_mcp_prompts_get },
	{ "completion/complete", cbx_mcp_complete },
	{ NULL, NULL },
};

bool cbx_mcp_call_method(const struct cbx_mcp_method *table, const struct cbx_mcp_message *m,
			 struct cbx_mcp_slot *slot)
{
	for (; table && table->name; table++) {
		if (strcmp(table->name, m->method) == 0) {
			table->fn(m, slot);
			return true;
		}
	}
	return false;
}

void cbx_mcp_no_method(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	cbx_mcp_error(m->mcp, slot, CBX_RPC_NO_METHOD, "Method not found: %.100s", m->method);
}

bool cbx_mcp_common_request(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	return cbx_mcp_call_method(m->mcp->registry->methods, m, slot) || cbx_mcp_call_method(methods, m, slot);
}
