/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_MCP_STATE_H
#define CBX_MCP_STATE_H

/*
 * A connection, as the files of this directory see it. From the wire upwards:
 *
 *   eras     the revisions of the protocol, and what each knows
 *   request  requests of these files that wait for the engine; walk: for the files of a session
 *   server   what the server says of itself
 *   progress  notifications/progress of one call; roots: directories of the client's user
 *   task     an execution that a client may come back for
 *   calls    tools/list, and the life of a tools/call
 *   tasks    the methods of tasks, and the news of their end
 *   resources, read  sessions and their files as resources; prompts, complete: for people who fill in forms
 *   news     notifications of changes, to those who asked for them
 *   methods  what both eras serve; legacy, modern: what only one does
 *   conn     the connection itself: which era a message belongs to
 *
 * What an answer may hold is in the revision that its request was made under.
 */
#include <stdbool.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "mcp/eras.h"
#include "mcp/mcp.h"
#include "tools/tools.h"
#include "wire/rpc.h"

/* A message that passed the checks of JSON-RPC. All borrowed for the call. */
struct cbx_mcp_message {
	struct cbx_mcp *mcp;
	const struct cbx_mcp_revision *rev; /* that it was made under */
	struct cbx_raw text;
	const char *method;
	const cJSON *params; /* an object, or NULL */
};

struct cbx_mcp_method {
	const char *name;
	void (*fn)(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot); /* takes over the slot */
};

TAILQ_HEAD(cbx_mcp_calls, cbx_mcp_call);
TAILQ_HEAD(cbx_mcp_requests, cbx_mcp_request);
TAILQ_HEAD(cbx_mcp_streams, cbx_mcp_stream);

struct cbx_mcp_roots {
	bool declared; /* the client has some */
	bool known;    /* there is nothing to ask: it has answered, or is not waited for any more */
	bool asked;    /* roots/list was not answered yet ... */
	bool stale;    /* ... and its answer may be out of date */
	char id[20];   /* of that request */
	unsigned count;
	cJSON *mounts; /* as of cbx_session_spec; NULL: none */
	struct event *late;
	void (*settled)(struct cbx_mcp *mcp); /* those who waited can continue */
};

struct cbx_mcp {
	struct cbx_tool_client client;
	struct cbx_rpc rpc;
	const struct cbx_mcp_registry *registry;
	cJSON *headers; /* what stands for headers of requests, as codebox mcp says it; NULL: nothing */
	const struct cbx_mcp_revision *rev; /* of the legacy era */
	bool modern_only;
	struct cbx_mcp_calls calls;
	size_t ncalls, call_bytes; /* of their requests */
	struct cbx_mcp_requests jobs; /* requests that wait for files */
	size_t njobs;
	struct cbx_mcp_streams streams; /* who wants to hear of changes */
	size_t nstreams;
	struct cbx_mcp_news *news; /* NULL: nobody was there yet */
	struct cbx_mcp_roots roots;
};

/* Whether calls of this revision have a session of the connection. */
static inline bool cbx_mcp_has_own(const struct cbx_mcp *mcp, const struct cbx_mcp_revision *rev)
{
	return !rev->modern || cbx_own_named(&mcp->client);
}

#endif
