/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the era in which every request stands for itself (2026-07-28). It names its revision and the
 * client's capabilities in its _meta; nothing that was said before on the connection counts, and no session belongs to
 * the connection. A request is checked for that first, then carried out by the same functions as in the other era.
 *
 * What every result has in this era (resultType, the server's name) is put into it as it is sent, by the slot's tag.
 */
#include <string.h>

#include "base/cleanup.h"
#include "mcp/serve.h"
#include "mcp/request.h"

void cbx_mcp_modern_head(const struct cbx_mcp *mcp, const struct cbx_buf *result, struct cbx_buf *head)
{
	struct cbx_raw text = { result->data, result->len };
	_cleanup_json_ cJSON *meta = cbx_json_new_obj();

	if (!cbx_raw_member(text, "resultType").p)
		cbx_buf_adds(head, "\"resultType\":\"complete\",");
	if (cbx_raw_member(text, "_meta").p)
		return;
	cbx_mcp_server_info(mcp, meta, CBX_META "serverInfo", cbx_mcp_modern_newest());
	cbx_buf_adds(head, "\"_meta\":");
	cbx_json_print(head, meta);
	cbx_buf_addc(head, ',');
}

void cbx_mcp_set_modern(struct cbx_mcp *mcp)
{
	mcp->modern_only = true;
}

static void discover(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	_cleanup_free_ char *text = cbx_mcp_server_instructions(m->mcp, m->rev);
	cJSON *result = cbx_json_new_obj(), *versions = cbx_json_new_arr();

	cbx_json_push_str(versions, cbx_mcp_modern_newest()->name);
	cbx_json_set(result, "supportedVersions", versions);
	cbx_json_set(result, "capabilities", cbx_mcp_server_capabilities(m->mcp, m->rev));
	cbx_json_set_str(result, "instructions", text);
	cbx_mcp_set_caching(result, m->rev, CBX_TTL_LIST_MS, !m->mcp->client.own);
	cbx_rpc_answer(slot, result);
	if (m->mcp->client.caller.engine)
		cbx_engine_expect(m->mcp->client.caller.engine);
}

static const struct cbx_mcp_method methods[] = {
	{ "server/discover", discover },
	{ "subscriptions/listen", cbx_mcp_listen },
	{ NULL, NULL },
};

static const cJSON *meta_of(const struct cbx_mcp_message *m)
{
	return cbx_json_member(m->params, "_meta");
}

bool cbx_mcp_is_modern(const struct cbx_mcp_message *m)
{
	const cJSON *meta = meta_of(m);

	if (m->mcp->modern_only || cbx_json_member(meta, CBX_META "protocolVersion") ||
	    cbx_json_member(meta, CBX_META "clientCapabilities"))
		return true;
	for (const struct cbx_mcp_method *known = methods; known->name; known++)
		if (strcmp(m->method, known->name) == 0)
			return true;
	return false;
}

/* NULL: all is there; else what is missing or of another type. */
static const char *fault_of(const cJSON *meta, const char **ret_version)
{
	const cJSON *version = cbx_json_member(meta, CBX_META "protocolVersion");
	const cJSON *info = cbx_json_member(meta, CBX_META "clientInfo");

	if (!cJSON_IsObject(meta))
		return "_meta is missing: every request of this era has one";
	if (!cJSON_IsString(version))
		return "_meta[\"" CBX_META "protocolVersion\"]: a string is expected";
	*ret_version = version->valuestring;
	if (!cJSON_IsObject(cbx_json_member(meta, CBX_META "clientCapabilities")))
		return "_meta[\"" CBX_META "clientCapabilities\"]: an object is expected";
	if (info && !cJSON_IsObject(info))
		return "_meta[\"" CBX_META "clientInfo\"]: an object is expected";
	return NULL;
}

static void refuse_version(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, const char *requested)
{
	cJSON *data = cbx_json_new_obj(), *supported = cbx_json_new_arr();

	cbx_json_push_str(supported, cbx_mcp_modern_newest()->name);
	cbx_json_set(data, "supported", supported);
	cbx_json_set_str(data, "requested", requested);
	cbx_rpc_error_data(slot, CBX_RPC_UNSUPPORTED_VERSION, data,
			   "Unsupported protocol version: %.40s; supported without a handshake: %s", requested,
			   cbx_mcp_modern_newest()->name);
}

void cbx_mcp_modern_request(struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const char *version = NULL, *fault = fault_of(meta_of(m), &version);

	m->rev = cbx_mcp_modern_newest();
	slot->tag = cbx_mcp_modern_newest();
	if (version && strcmp(version, cbx_mcp_modern_newest()->name) != 0) {
		refuse_version(m, slot, version);
		return;
	}
	if (fault) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: %s", fault);
		return;
	}
	if (!cbx_mcp_common_request(m, slot) && !cbx_mcp_call_method(methods, m, slot))
		cbx_mcp_no_method(m, slot);
}
