/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_EXCHANGE_H
#define CBX_HTTP_EXCHANGE_H

/* One request that waits for its answer, which goes out as JSON or as a stream of events. */
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "http/conn.h"

struct cbx_http_session;
struct cbx_mcp;

/* Events that may have been lost with a connection, so that another one can continue: of one session, and of all. */
struct cbx_http_kept {
	struct cbx_http_kept *all; /* NULL: it is that of all */
	struct cbx_tenant *tenant; /* whose the session is; NULL: the local user's */
	size_t bytes, max;
	uint64_t streams; /* that there were */
};

struct cbx_http_exchange {
	LIST_ENTRY(cbx_http_exchange) entry;
	struct cbx_http_conn *conn;		      /* NULL: it has been answered, or the client has gone */
	struct event *tick;			      /* turn to a stream; keep it alive; end */
	void (*on_end)(struct cbx_http_exchange *ex); /* it is off its list, and freed when this returns */
	bool may_stream, stream;
	bool bad_meta; /* later era: a request without what every request must carry */
	bool done;     /* nothing more will come */
	bool doomed;   /* too much is waiting for the client: it is cut off */
	bool refused;  /* what it offered is not to be had: the answer was an error */
	/* Of a stream that another connection can continue. The id of an event is the stream's number and the event's
	 * place among all the bytes of them. */
	struct cbx_http_kept *keeper; /* NULL: none can */
	uint64_t number;	      /* 0: it is not a stream yet */
	uint64_t forgotten;	      /* bytes before those that are kept */
	struct cbx_buf kept;
	bool primes;  /* begin with an event that has an id alone: the client's revision knows that */
	bool counted; /* of who made it: among those that wait for an answer */
	void (*on_left)(struct cbx_http_exchange *ex); /* nobody waits for it now; it is kept */
	/* Of who made it. */
	void *arg;
	struct cbx_http_session *session; /* handshake era; NULL: the later one */
	struct cbx_mcp *mcp;		  /* later era: owned */
	struct cbx_via via;		  /* likewise: from whom it is */
	const char *offers;		  /* initialize: the id of the session that an answer begins; else NULL */
	bool get;
};
LIST_HEAD(cbx_http_exchanges, cbx_http_exchange);

/* Watches the connection. */
struct cbx_http_exchange *cbx_http_exchange_new(struct cbx_http_conn *conn, struct cbx_http_exchanges *list,
						void (*on_end)(struct cbx_http_exchange *ex), void *arg);
void cbx_http_exchange_stream(struct cbx_http_exchange *ex); /* begin a stream of events */
/* A message as an event. */
void cbx_http_event_print(struct cbx_buf *out, const char *line, size_t len);
/* at: the place of an event, after which to continue on this connection. False: there is no such event,
 * and the connection is not taken. */
bool cbx_http_exchange_resume(struct cbx_http_exchange *ex, struct cbx_http_conn *conn, uint64_t at);
void cbx_http_exchange_event(struct cbx_http_exchange *ex, const char *line, size_t len);
void cbx_http_exchange_raw(struct cbx_http_exchange *ex, const void *events, size_t len);
/* Frees it; a client that still waits gets what there is. Not out of a callback of the protocol core. */
void cbx_http_exchange_end(struct cbx_http_exchange *ex);
/* Likewise, and one that has got nothing yet learns that its session has ended. */
void cbx_http_exchange_lose(struct cbx_http_exchange *ex);
void cbx_http_exchange_accept(struct cbx_http_exchange *ex); /* status 202, and the end of it */
/* The same, and the connection is closed at once. */
void cbx_http_exchange_cut(struct cbx_http_exchange *ex);
/* Of struct cbx_rpc_io; the streams are exchanges. */
void cbx_http_exchange_send(void *arg, void *stream, int code, const char *line, size_t len);
void cbx_http_exchange_done(void *arg, void *stream);

#endif
