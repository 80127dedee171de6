/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a connection with one client, on top of JSON-RPC. Which era a message belongs to is decided in
 * on_request() and nowhere else, for each message anew: a connection may serve both.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/call.h"
#include "mcp/serve.h"
#include "mcp/stream.h"
#include "mcp/request.h"

static void on_request(void *arg, const struct cbx_rpc_message *rpc, struct cbx_rpc_slot *slot)
{
	struct cbx_mcp *mcp = arg;
	struct cbx_mcp_message m = { mcp, mcp->rev, rpc->text, rpc->method, rpc->params };

	if (cbx_mcp_is_modern(&m))
		cbx_mcp_modern_request(&m, slot);
	else if (slot->batch && strcmp(m.method, "initialize") == 0)
		cbx_rpc_error(slot, CBX_RPC_INVALID_REQUEST, "Invalid Request: initialize in a batch");
	else
		cbx_mcp_legacy_request(&m, slot);
}

static void on_notification(void *arg, const struct cbx_rpc_message *rpc)
{
	struct cbx_mcp *mcp = arg;
	struct cbx_mcp_message m = { mcp, mcp->rev, rpc->text, rpc->method, rpc->params };

	cbx_mcp_legacy_notification(&m); /* those of the modern era are among them */
}

static void on_answer(void *arg, const cJSON *answer)
{
	struct cbx_mcp *mcp = arg;

	cbx_mcp_roots_answered(mcp, answer);
	if (mcp->registry->answered)
		mcp->registry->answered(mcp, answer);
}

static bool takes_batches(void *arg)
{
	struct cbx_mcp *mcp = arg;

	return mcp->rev->batches;
}

static void before_answer(void *arg, const struct cbx_rpc_slot *slot, const struct cbx_buf *result,
			  struct cbx_buf *head)
{
	if (!slot->tag)
		cbx_mcp_news_flush(arg);
	else if (result)
		cbx_mcp_modern_head(arg, result, head);
}

static const struct cbx_rpc_events events = { on_request, on_notification, on_answer, takes_batches, before_answer };

void cbx_mcp_line(struct cbx_mcp *mcp, const char *line, size_t len)
{
	cbx_rpc_line(&mcp->rpc, line, len);
}

bool cbx_mcp_message(struct cbx_mcp *mcp, const char *text, size_t len, void *stream)
{
	return cbx_rpc_message(&mcp->rpc, text, len, stream);
}

void cbx_mcp_forget(struct cbx_mcp *mcp, void *stream)
{
	cbx_rpc_forget(&mcp->rpc, stream);
}

void cbx_mcp_too_long(struct cbx_mcp *mcp)
{
	cbx_rpc_too_long(&mcp->rpc);
}

/* Takes the profile's name out of params. */
static void choose_tools(struct cbx_mcp *mcp, cJSON *params, struct cbx_err *err)
{
	_cleanup_json_ cJSON *name = cJSON_DetachItemFromObjectCaseSensitive(params, "tools");
	const struct cbx_mcp_registry *r;

	if (!name)
		return;
	r = cJSON_IsString(name) ? cbx_mcp_registry_find(mcp->registry, name->valuestring) : NULL;
	if (r)
		mcp->registry = r;
	else
		cbx_refuse(err, "invalid_argument", EINVAL,
			   "tools: this codeboxd does not have this profile; restart it, so that it is of the same "
			   "version (codebox stop)");
}

/* Takes what stands for headers of requests, as the profile's clients send them by HTTP, out of params. */
static void take_headers(struct cbx_mcp *mcp, cJSON *params, struct cbx_err *err)
{
	cJSON *headers = cJSON_DetachItemFromObjectCaseSensitive(params, "headers"), *v;

	mcp->headers = headers;
	if (headers && !cJSON_IsObject(headers))
		cbx_refuse(err, "invalid_argument", EINVAL, "headers: wrong type; give an object");
	cJSON_ArrayForEach(v, headers)
		if (!cJSON_IsString(v))
			cbx_refuse(err, "invalid_argument", EINVAL, "headers: wrong type; give strings");
}

static const char *header_of(void *arg, const char *name)
{
	const struct cbx_mcp *mcp = arg;

	return cbx_json_text(mcp->headers, name);
}

/* codebox mcp itself sends it. */
bool cbx_mcp_session_line(struct cbx_mcp *mcp, const char *line, size_t len)
{
	static const char says[] = "notifications/codebox/session";
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_json_ cJSON *params = NULL;
	const char *method;
	struct cbx_err err;

	/* Another message is read only once. */
	if (mcp->client.own || !memmem(line, len, says, strlen(says)) || cbx_json_parse(line, len, &doc, &err) < 0)
		return false;
	method = cbx_json_text(doc.root, "method");
	if (!method || strcmp(method, says) != 0 || doc.id)
		return false;
	params = cJSON_DetachItemFromObjectCaseSensitive(doc.root, "params");
	if (!doc.problem.code)
		choose_tools(mcp, params, &doc.problem);
	if (!doc.problem.code)
		take_headers(mcp, params, &doc.problem);
	if (mcp->headers)
		cbx_mcp_set_headers(mcp, header_of, mcp);
	if (doc.problem.code || !cJSON_IsObject(params) || params->child)
		cbx_own_set(&mcp->client, take_ptr(&params), &doc.problem);
	return true;
}

struct cbx_mcp *cbx_mcp_new(struct cbx_engine *engine, const struct cbx_principal *principal, struct event_base *base,
			    const struct cbx_rpc_io *io, const struct cbx_mcp_registry *registry)
{
	struct cbx_mcp *mcp = cbx_xcalloc(1, sizeof(*mcp));

	mcp->client.caller.engine = engine;
	mcp->client.caller.principal = principal;
	mcp->client.base = base;
	cbx_rpc_init(&mcp->rpc, io, &events, mcp);
	mcp->registry = registry;
	mcp->rev = cbx_mcp_legacy_newest();
	mcp->roots.settled = cbx_mcp_calls_resume;
	TAILQ_INIT(&mcp->calls);
	TAILQ_INIT(&mcp->jobs);
	TAILQ_INIT(&mcp->streams);
	return mcp;
}

void cbx_mcp_set_via(struct cbx_mcp *mcp, const struct cbx_via *via)
{
	mcp->client.caller.via = via;
}

void cbx_mcp_set_headers(struct cbx_mcp *mcp, const char *(*header)(void *arg, const char *name), void *arg)
{
	mcp->client.header = header;
	mcp->client.header_arg = arg;
}

bool cbx_mcp_ending(struct cbx_mcp *mcp)
{
	cbx_mcp_roots_give_up(mcp);
	return !TAILQ_EMPTY(&mcp->jobs) || !TAILQ_EMPTY(&mcp->calls);
}

void cbx_mcp_free(struct cbx_mcp *mcp)
{
	struct cbx_mcp_call *call;

	if (!mcp)
		return;
	cbx_rpc_mute(&mcp->rpc);
	while ((call = TAILQ_FIRST(&mcp->calls)))
		cbx_mcp_call_drop(call);
	cbx_mcp_requests_drop(mcp);
	cbx_mcp_news_drop(mcp);
	cbx_mcp_roots_drop(mcp);
	cbx_own_drop(&mcp->client);
	cbx_json_wipe(mcp->headers); /* a password may be among them */
	free(mcp);
}
