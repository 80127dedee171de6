/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the era in which a connection starts with `initialize` and keeps the revision that was agreed on
 * then. The methods are the same in all of its revisions. Nothing insists on the handshake: a client that asks before
 * it gets an answer as of the newest revision.
 */
#include <string.h>

#include "base/cleanup.h"
#include "mcp/call.h"
#include "mcp/serve.h"
#include "mcp/stream.h"
#include "mcp/request.h"

static void do_initialize(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const char *wanted = NULL;
	_cleanup_free_ char *text = NULL;
	cJSON *result;
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "protocolVersion", &wanted, &err) < 0 || !wanted) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: protocolVersion: a string is expected");
		return;
	}
	m->mcp->rev = cbx_mcp_legacy_revision(wanted);
	if (!m->mcp->rev)
		m->mcp->rev = cbx_mcp_legacy_newest();
	result = cbx_json_new_obj();
	cbx_json_set_str(result, "protocolVersion", m->mcp->rev->name);
	cbx_json_set(result, "capabilities", cbx_mcp_server_capabilities(m->mcp, m->mcp->rev));
	cbx_mcp_server_info(m->mcp, result, "serverInfo", m->mcp->rev);
	text = cbx_mcp_server_instructions(m->mcp, m->mcp->rev);
	cbx_json_set_str(result, "instructions", text);
	cbx_mcp_roots_initialize(m->mcp, m->params);
	cbx_rpc_answer(slot, result);
	if (m->mcp->client.caller.engine)
		cbx_engine_expect(m->mcp->client.caller.engine);
}

static void do_ping(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	cbx_rpc_answer(slot, cbx_json_new_obj());
}

/* codebox mcp sends the messages, of its connection to codeboxd; it minds the level. */
static void set_level(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	static const char *const levels[] = { "debug", "info",	   "notice", "warning",
					      "error", "critical", "alert",  "emergency" };
	const char *level = "";
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "level", &level, &err) >= 0 &&
	    cbx_find_word(level, levels, ARRAY_SIZE(levels)) >= 0)
		cbx_rpc_answer(slot, cbx_json_new_obj());
	else
		cbx_rpc_error(
			slot, CBX_RPC_INVALID_PARAMS,
			"Invalid params: level: debug, info, notice, warning, error, critical, alert or emergency is "
			"expected");
}

static const struct cbx_mcp_method methods[] = {
	{ "initialize", do_initialize },
	{ "ping", do_ping },
	{ NULL, NULL },
};

/* A profile declares none of these. */
static const struct cbx_mcp_method own_methods[] = {
	{ "logging/setLevel", set_level },
	{ "resources/subscribe", cbx_mcp_resources_subscribe },
	{ "resources/unsubscribe", cbx_mcp_resources_unsubscribe },
	{ NULL, NULL },
};

void cbx_mcp_legacy_request(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	if (cbx_mcp_common_request(m, slot) || cbx_mcp_call_method(methods, m, slot))
		return;
	if (m->mcp->registry->methods || !cbx_mcp_call_method(own_methods, m, slot))
		cbx_mcp_no_method(m, slot);
}

void cbx_mcp_legacy_notification(const struct cbx_mcp_message *m)
{
	_cleanup_free_ char *id = NULL;

	if (strcmp(m->method, "notifications/initialized") == 0) {
		if (!m->mcp->registry->methods)
			cbx_mcp_news_legacy(m->mcp);
		return;
	}
	if (strcmp(m->method, "notifications/codebox/restarted") == 0)
		m->mcp->client.restarted = m->mcp->client.restart_untold = true; /* codebox mcp says so */
	if (strcmp(m->method, "notifications/roots/list_changed") == 0)
		cbx_mcp_roots_changed(m->mcp);
	if (strcmp(m->method, "notifications/cancelled") != 0)
		return;
	id = cbx_raw_copy(cbx_raw_member(cbx_raw_member(m->text, "params"), "requestId"));
	if (id && !cbx_mcp_requests_cancel(m->mcp, id) && !cbx_mcp_streams_cancel(m->mcp, id))
		cbx_mcp_tools_cancel(m->mcp, id);
}
