/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the era in which a connection starts with `initialize` and keeps the revision that was agreed on
 * then. The revisions differ in what an answer may hold, which is a row of a table; the methods are the same in all of
 * them. Nothing insists on the handshake: a client that asks before it gets an answer as of the newest revision.
 */
#include <string.h>

#include "base/cleanup.h"
#include "mcp/internal.h"

/* Newest first. */
static const struct cbx_mcp_revision revisions[] = {
	{ "2025-11-25", false, true, true, true, true, true, false },
	{ "2025-06-18", false, true, true, true, true, true, false },
	{ "2025-03-26", true, true, true, false, false, true, false },
	{ "2024-11-05", false, false, false, false, false, false, false },
};

const struct cbx_mcp_revision *cbx_mcp_legacy_newest(void)
{
	return &revisions[0];
}

bool cbx_mcp_legacy_knows(const char *version)
{
	for (size_t i = 0; i < ARRAY_SIZE(revisions); i++)
		if (strcmp(version, revisions[i].name) == 0)
			return true;
	return false;
}

static void do_initialize(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	const char *wanted = NULL;
	_cleanup_free_ char *text = NULL;
	cJSON *result;
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
	cbx_json_set(result, "capabilities", cbx_mcp_server_capabilities(m->mcp, m->mcp->rev));
	cbx_mcp_server_info(result, "serverInfo", m->mcp->rev);
	text = cbx_mcp_server_instructions(m->mcp->rev);
	cbx_json_set_str(result, "instructions", text);
	cbx_mcp_roots_initialize(m->mcp, m->params);
	cbx_mcp_answer(m->mcp, slot, result);
	if (m->mcp->engine)
		cbx_engine_expect(m->mcp->engine);
}

static void do_ping(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	cbx_mcp_answer(m->mcp, slot, cbx_json_new_obj());
}

static const struct cbx_mcp_method methods[] = {
	{ "initialize", do_initialize },
	{ "ping", do_ping },
	{ "resources/subscribe", cbx_mcp_resources_subscribe },
	{ "resources/unsubscribe", cbx_mcp_resources_unsubscribe },
	{ NULL, NULL },
};

void cbx_mcp_legacy_request(const struct cbx_mcp_message *m, struct cbx_mcp_slot *slot)
{
	if (!cbx_mcp_common_request(m, slot) && !cbx_mcp_call_method(methods, m, slot))
		cbx_mcp_no_method(m, slot);
}

void cbx_mcp_legacy_notification(const struct cbx_mcp_message *m)
{
	_cleanup_free_ char *id = NULL;

	if (strcmp(m->method, "notifications/initialized") == 0) {
		cbx_mcp_news_legacy(m->mcp);
		return;
	}
	if (strcmp(m->method, "notifications/roots/list_changed") == 0)
		cbx_mcp_roots_changed(m->mcp);
	if (strcmp(m->method, "notifications/cancelled") != 0)
		return;
	id = cbx_mcp_raw_copy(cbx_mcp_raw_member(cbx_mcp_raw_member(m->text, "params"), "requestId"));
	if (id && !cbx_mcp_jobs_cancel(m->mcp, id) && !cbx_mcp_streams_cancel(m->mcp, id))
		cbx_mcp_tools_cancel(m->mcp, id);
}
