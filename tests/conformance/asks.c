/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what was asked of clients is on one list, found again by the id that the question had, as long
 * as the call is there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fixture.h"

struct ask {
	LIST_ENTRY(ask) entry;
	struct cbx_mcp_call *call;
	const char *prefix;
	char id[24];
};
static LIST_HEAD(, ask) asks = LIST_HEAD_INITIALIZER(asks);

static void ask_free(void *state)
{
	struct ask *a = state;

	LIST_REMOVE(a, entry);
	free(a);
}

void fixture_ask(struct cbx_mcp_call *call, const char *method, const char *params, const char *prefix)
{
	static unsigned long last;
	struct ask *a = cbx_xcalloc(1, sizeof(*a));
	_cleanup_buf_ struct cbx_buf b = { 0 };

	snprintf(a->id, sizeof(a->id), "ask-%lu", ++last);
	a->call = call;
	a->prefix = prefix;
	LIST_INSERT_HEAD(&asks, a, entry);
	call->tool.state = a;
	call->tool.release = ask_free;
	cbx_buf_adds(&b, params);
	cbx_rpc_request(&call->slot, a->id, method, &b);
}

static void end_with(struct ask *a, const cJSON *answer)
{
	const cJSON *result = cbx_json_member(answer, "result");
	const cJSON *content = cbx_json_member(result, "content");
	const char *action = cbx_json_text(result, "action"), *said = cbx_json_text(content, "text");
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
	const char *id = cbx_json_text(answer, "id");
	struct ask *a;

	LIST_FOREACH(a, &asks, entry)
		if (id && strcmp(a->id, id) == 0 && a->call->mcp == mcp)
			break;
	if (a)
		end_with(a, answer);
}
