/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TESTS_MCP_MODERN_H
#define CBX_TESTS_MCP_MODERN_H

/* Requests of the era without a handshake, and waiting for what comes a moment later. */
#include "mcp_client.h"

#define REVISION "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\""
#define CAPS "\"io.modelcontextprotocol/clientCapabilities\":{}"
#define META "\"_meta\":{" REVISION "," CAPS "}"
#define ASK(id, method, more) \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":{" META more "}}"
#define OLD(id, method, params) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":{" params "}}"
#define CREATE(id) ASK("90", "tools/call", ",\"name\":\"create_session\",\"arguments\":{\"session_id\":\"" id "\"}")
#define CLOSE(id) ASK("91", "tools/call", ",\"name\":\"close_session\",\"arguments\":{\"session_id\":\"" id "\"}")

/* A member whose name has dots in it. */
static inline cJSON *member(cJSON *m, const char *path, const char *name)
{
	return cbx_json_member(at(m, path), name);
}

static inline struct client *client_with_news(void)
{
	struct client *c = client_new();

	c->news = true;
	return c;
}

static inline cJSON *ask(struct client *c, const char *method, const char *more)
{
	_cleanup_free_ char *line = cbx_xasprintf(
		"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"%s\",\"params\":{" META "%s}}", method, more);

	return client_ask(c, line);
}

/* What is due from timers, too: notifications are sent a moment after what they tell of. */
static inline cJSON *wait_next(struct client *c)
{
	while (c->seen == c->n)
		event_base_loop(c->base, EVLOOP_ONCE);
	return c->got[c->seen++];
}

/* The answer to a request, whenever notifications come: those stay to be looked at. */
static inline cJSON *answer_to(struct client *c, const char *line)
{
	cJSON *found;
	char *raw;
	size_t i = c->n;

	client_send(c, line);
	for (;; i++) {
		while (i == c->n)
			event_base_loop(c->base, EVLOOP_ONCE);
		if (!at(c->got[i], "method"))
			break;
	}
	found = c->got[i];
	raw = c->raw[i];
	memmove(&c->got[c->seen + 1], &c->got[c->seen], (i - c->seen) * sizeof(found));
	memmove(&c->raw[c->seen + 1], &c->raw[c->seen], (i - c->seen) * sizeof(raw));
	c->got[c->seen] = found;
	c->raw[c->seen++] = raw;
	return found;
}

static inline void check_complete(cJSON *m)
{
	ck_assert_str_eq(str_at(m, "result.resultType"), "complete");
	ck_assert_str_eq(cbx_json_member(
				 member(m, "result._meta", "io.modelcontextprotocol/serverInfo"), "name")->valuestring,
			 "codebox");
}

static inline void check_caching(cJSON *m, const char *scope)
{
	ck_assert_int_ge(int_at(m, "result.ttlMs"), 0);
	ck_assert_str_eq(str_at(m, "result.cacheScope"), scope);
}

#endif
