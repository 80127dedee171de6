/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_HTTP_H
#define CBX_HTTP_HTTP_H

/*
 * MCP over HTTP on a loopback address: one endpoint, /mcp, for both protocol eras.
 *
 * A client of the handshake era has a session, named by the Mcp-Session-Id header: one struct cbx_mcp that lives until
 * DELETE or until it was not used for CBX_HTTP_SESSION_IDLE_S. A request of the later era stands for itself: it has a
 * struct cbx_mcp of its own, which ends with it, and a client that disconnects has cancelled it.
 *
 * Everything happens in the event loop; nothing blocks.
 */
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct cbx_engine;
struct cbx_http;
struct cbx_mcp_registry;

struct cbx_http_config {
	struct cbx_engine *engine;
	const struct cbx_mcp_registry *registry; /* NULL: codebox's own */
	const char *address;	/* "127.0.0.1:8080", "[::1]:8080", "localhost:8080"; port 0: any free one */
	const char *token_file; /* NULL: no token is asked for */
	void (*on_idle)(void *arg); /* the last request and the last session have gone; may be NULL */
	void *arg;
};

/* Binds and listens; connections are served as soon as the loop runs. The strings are copied. */
int cbx_http_new(struct event_base *base, const struct cbx_http_config *config, struct cbx_http **ret,
		 struct cbx_err *err);
const char *cbx_http_url(const struct cbx_http *http); /* "http://127.0.0.1:8080/mcp" */
bool cbx_http_busy(const struct cbx_http *http);       /* there is a request or a session; false for NULL */
/* Before the end: no more connections; who waits for changes is told that there will be none. Runs the loop for that,
 * but does not wait for a client that takes nothing. NULL is accepted. */
void cbx_http_stop(struct cbx_http *http);
void cbx_http_free(struct cbx_http *http);	       /* before the engine; NULL is accepted */

#endif
