/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_MCP_SERVE_H
#define CBX_MCP_SERVE_H

/* The methods. Each takes over the slot. */
#include "mcp/state.h"

/* False: there is none of that name, and the slot is as it was. A table ends with one without a name. */
bool cbx_mcp_call_method(const struct cbx_mcp_method *table, const struct cbx_mcp_message *m,
			 struct cbx_rpc_slot *slot);
bool cbx_mcp_common_request(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);

void cbx_mcp_legacy_request(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
void cbx_mcp_legacy_notification(const struct cbx_mcp_message *m);
/* Whether it belongs to the era without a handshake: because the carrier says so, or by its _meta, or by a method that
 * only that era has. */
bool cbx_mcp_is_modern(const struct cbx_mcp_message *m);
void cbx_mcp_modern_request(struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
/* What a result begins with, as of struct cbx_rpc_events. */
void cbx_mcp_modern_head(const struct cbx_mcp *mcp, const struct cbx_buf *result, struct cbx_buf *head);

void cbx_mcp_resources_list(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
void cbx_mcp_resources_templates(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
void cbx_mcp_resources_read(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
void cbx_mcp_resources_subscribe(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);	/* legacy */
void cbx_mcp_resources_unsubscribe(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot); /* legacy */
void cbx_mcp_listen(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);		/* modern */
void cbx_mcp_prompts_list(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
void cbx_mcp_prompts_get(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
void cbx_mcp_complete(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot);
/* Whether a prompt has an argument of that name; false with *ret_prompt false: there is no such prompt. */
bool cbx_mcp_prompt_argument(const char *prompt, const char *argument, bool *ret_prompt);

/* ---- server: what it says of itself ---- */

void cbx_mcp_server_info(const struct cbx_mcp *mcp, cJSON *obj, const char *key, const struct cbx_mcp_revision *rev);
cJSON *cbx_mcp_server_capabilities(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev);
char *cbx_mcp_server_instructions(const struct cbx_mcp *mcp,
				  const struct cbx_mcp_revision *rev); /* malloc'd; NULL: none */

#endif
