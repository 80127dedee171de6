/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_MCP_HTTP_H
#define CBX_HTTP_MCP_HTTP_H

/* MCP's rules for a request: methods, headers, eras, sessions. */
#include <event2/event.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "http/conn.h"
#include "http/exchange.h"

struct cbx_engine;
struct cbx_mcp_registry;

TAILQ_HEAD(cbx_http_sessions, cbx_http_session);

struct cbx_http_mcp {
	struct event_base *base;
	struct cbx_engine *engine;
	const struct cbx_mcp_registry *registry;
	const char *node;	    /* what ids begin with, or "" */
	void (*on_idle)(void *arg); /* the last request and the last session have gone; may be NULL */
	void *arg;
	struct cbx_http_exchanges exchanges;
	struct cbx_http_sessions sessions; /* least recently used first */
	size_t nsessions;
	struct cbx_http_kept kept; /* of all sessions */
};

/* The first six members are set before. */
void cbx_http_mcp_init(struct cbx_http_mcp *m);
/* registry: what is served at the path of the request */
void cbx_http_mcp_request(struct cbx_http_mcp *m, const struct cbx_mcp_registry *registry, struct cbx_http_conn *c,
			  const char *body, size_t len);
/* Sessions of tenants that have gone end. */
void cbx_http_mcp_check(struct cbx_http_mcp *m);
bool cbx_http_mcp_busy(const struct cbx_http_mcp *m); /* there is a request or a session */
/* Tell those who wait for changes that there will be none; false: nobody does. */
bool cbx_http_mcp_end_streams(struct cbx_http_mcp *m);
void cbx_http_mcp_release(struct cbx_http_mcp *m); /* on_idle is not called */

#endif
