/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_INTERNAL_H
#define CBX_HTTP_INTERNAL_H

/*
 * What the files of this directory share.
 *
 *   server.c    the listener, its bounds, and what is refused before anybody looks at a request
 *   address.c   which addresses and host names are this computer's own; the token
 *   mcp_http.c  MCP's rules for a request: methods, headers, eras, sessions
 *   exchange.c  one request that waits for its answer, as JSON or as a stream of events
 */
#include <event2/event.h>
#include <event2/http.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/err.h"
#include "http/http.h"
#include "mcp/mcp.h"

/* ---- server ---- */

struct cbx_http_exchange;
struct cbx_http_session;
LIST_HEAD(cbx_http_exchanges, cbx_http_exchange);
TAILQ_HEAD(cbx_http_sessions, cbx_http_session);

struct cbx_http {
	struct event_base *base;
	struct evhttp *evhttp;
	struct evhttp_bound_socket *bound;
	struct event *sweep;
	size_t nconns; /* connections, at most; see server.c */
	uint16_t port;
	struct cbx_http_config config;
	struct cbx_buf token;
	char *url;
	struct cbx_http_exchanges exchanges;
	struct cbx_http_sessions sessions; /* least recently used first */
	size_t nsessions;
};

/* A whole answer; body may be NULL. */
void cbx_http_reply(struct evhttp_request *req, int status, const char *type, const void *body, size_t len);
/* A JSON-RPC error of the carrier itself; id is raw text or NULL. */
void cbx_http_refuse(struct evhttp_request *req, int status, int code, const char *id, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
const char *cbx_http_header(struct evhttp_request *req, const char *name); /* NULL: not there */
void cbx_http_check_idle(struct cbx_http *http);

/* ---- address ---- */

struct cbx_http_address {
	char host[64]; /* for bind: 127.0.0.1 or ::1 */
	uint16_t port;
	bool v6;
};

int cbx_http_address_parse(const char *s, struct cbx_http_address *ret, struct cbx_err *err);
/* Whether "name" or "name:port" names this computer itself: localhost, 127.0.0.1 or [::1]. */
bool cbx_http_host_allowed(const char *host);
bool cbx_http_origin_allowed(const char *origin);
int cbx_http_token_read(const char *path, struct cbx_buf *ret, struct cbx_err *err);
/* Compare the whole of an Authorization header; takes as long for a wrong token as for the right one. */
bool cbx_http_token_ok(const struct cbx_buf *token, const char *authorization);

/* ---- mcp_http ---- */

struct cbx_http_session {
	TAILQ_ENTRY(cbx_http_session) entry;
	struct cbx_http *http;
	struct cbx_mcp *mcp;
	struct cbx_http_exchange *stream; /* the client's GET; NULL: none */
	struct cbx_buf waiting;		  /* events for it, as long as there is none */
	struct event *idle;
	size_t exchanges; /* requests that wait for an answer */
	char id[33];
	bool failed; /* initialize was refused */
};

void cbx_http_mcp(struct cbx_http *http, struct evhttp_request *req);
void cbx_http_session_left(struct cbx_http_session *s); /* one of its exchanges has ended */
void cbx_http_session_free(struct cbx_http_session *s);

/* ---- exchange ---- */

struct cbx_http_exchange {
	LIST_ENTRY(cbx_http_exchange) entry;
	struct cbx_http *http;
	struct evhttp_request *req; /* NULL: it has been answered, or the client has gone */
	struct cbx_http_session *session; /* handshake era; NULL: the later one */
	struct cbx_mcp *mcp; /* later era: owned */
	struct event *closed; /* the client has gone */
	struct event *tick;   /* turn to a stream; keep it alive; end */
	bool may_stream, stream, get, initialize;
	bool bad_meta; /* later era: a request without what every request must carry */
	bool done;     /* nothing more will come */
	bool doomed;   /* too much is waiting for the client: it is cut off */
};

/* Takes over the connection's close callback. */
struct cbx_http_exchange *cbx_http_exchange_new(struct cbx_http *http, struct evhttp_request *req,
						struct cbx_http_session *session);
void cbx_http_exchange_stream(struct cbx_http_exchange *ex); /* begin a stream of events */
void cbx_http_exchange_event(struct cbx_http_exchange *ex, const char *line, size_t len);
void cbx_http_exchange_raw(struct cbx_http_exchange *ex, const struct cbx_buf *events);
/* Frees it; a client that still waits gets what there is. Not out of a callback of the protocol core. */
void cbx_http_exchange_end(struct cbx_http_exchange *ex);
void cbx_http_exchange_accept(struct cbx_http_exchange *ex); /* status 202, and the end of it */
/* The same, and the connection is closed at once. */
void cbx_http_exchange_cut(struct cbx_http_exchange *ex);
/* Of struct cbx_mcp_io; the streams are exchanges. */
void cbx_http_exchange_send(void *arg, void *stream, int code, const char *line, size_t len);
void cbx_http_exchange_done(void *arg, void *stream);

#endif
