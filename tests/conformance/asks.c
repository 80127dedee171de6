/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what was asked of clients is on one list, found again by the id that the question had. A call
 * whose client has gone in the meantime stays on it until the fixture ends: it is a test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fixture.h"

struct ask {
	LIST_ENTRY(ask) entry;
	struct cbx_mcp_call *call; /* a reference */
	const char *prefix;
	char id[24];
};
static LIST_HEAD(, ask) asks = LIST_HEAD_INITIALIZER(asks);

void fixture_ask(struct cbx_mcp_call *call, const char *method, const char *params, const char *prefix)
{
	static unsigned long last;
	struct ask *a = cbx_xcalloc(1, sizeof(*a));
	_cleanup_buf_ struct cbx_buf b = { 0 };

	snprintf(a->id, sizeof(a->id), "ask-%lu", ++last);
	call->refs++;
	a->call = call;
	a->prefix = prefix;
	LIST_INSERT_HEAD(&asks, a, entry);
	cbx_buf_adds(&b, params);
	cbx_mcp_request_slot(call->mcp, &call->slot, a->id, method, &b);
}

static void end_with(struct ask *a, const cJSON *answer)
{
	const cJSON *result = cJSON_GetObjectItemCaseSensitive(answer, "result");
	const cJSON *content = cJSON_GetObjectItemCaseSensitive(result, "content");
	const char *action = cbx_mcp_str_of(result, "action"), *said = cbx_mcp_str_of(content, "text");
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_buf_ struct cbx_buf shown = { 0 };
	_cleanup_free_ char *quoted = NULL;
	_cleanup_free_ char *json = NULL;

	cbx_buf_adds(&text, result ? a->prefix : "The client refused.");
	if (content)
		cbx_json_print(&shown, content);
	if (said)
		cbx_buf_adds(&text, said);
	else if (action)
		cbx_buf_addf(&text, "action=%s, content=%s", action, content ? cbx_buf_str(&shown) : "{}");
	quoted = fixture_quote(cbx_buf_str(&text));
	json = cbx_xasprintf("{\"content\":[{\"type\":\"text\",\"text\":%s}]%s}", quoted,
			     result ? "" : ",\"isError\":true");
	fixture_end(a->call, json);
}

void fixture_answered(struct cbx_mcp *mcp, const cJSON *answer)
{
	const char *id = cbx_mcp_str_of(answer, "id");
	struct ask *a;

	LIST_FOREACH(a, &asks, entry)
		if (id && strcmp(a->id, id) == 0 && a->call->mcp == mcp)
			break;
	if (!a)
		return;
	LIST_REMOVE(a, entry);
	end_with(a, answer);
	cbx_mcp_call_unref(a->call);
	free(a);
}
