/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_CONN_H
#define CBX_HTTP_CONN_H

/*
 * One connection: requests in, answers out, one after another.
 *
 * A request is handed over by struct cbx_http_conn_ops and is answered, then or later, by one cbx_http_reply(), or by a
 * stream. Until then whoever answers can ask to learn when the client leaves.
 */
#include <event2/event.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "http/head.h"
#include "http/pace.h"
#include "http/who.h"

struct bufferevent;
struct cbx_http_conn;
struct cbx_http_gate;
struct cbx_http_peer;
struct cbx_http_tls;
struct cbx_listener;
struct cbx_metrics;
struct cbx_observer;

enum cbx_http_state {
	CBX_HTTP_READS_HEAD, /* or nothing has come */
	CBX_HTTP_READS_BODY,
	CBX_HTTP_ANSWERS,
	CBX_HTTP_LINGERS, /* all is said; what still comes is thrown away, so that the answer is not lost to a reset */
	CBX_HTTP_GONE,
};

/* In which a connection stands (room.h): the one that has waited longest is the first. */
enum cbx_http_line {
	CBX_HTTP_STRANGERS, /* no request of it has passed the gate */
	CBX_HTTP_KNOWN,	    /* its client is to send, or to read, more */
	CBX_HTTP_SERVED,    /* its client waits for an answer */
	CBX_HTTP_LINES,
};

/* One listener. */
struct cbx_http_door {
	struct cbx_http *http;
	struct cbx_listener *listener;
	bool local;	  /* a loopback address, so pages of browsers here can reach it; or a unix socket */
	bool checks_user; /* a unix socket that asks for no token: its users are this one, root and the service id */
	struct cbx_http_tls *tls; /* what connections speak; NULL: plain text. Borrowed */
	char *path;	  /* of a unix socket that we made; NULL: there is none */
};

#define CBX_HTTP_NO_USER ((uid_t)-1)

struct cbx_http_conn {
	LIST_ENTRY(cbx_http_conn) entry;
	TAILQ_ENTRY(cbx_http_conn) turn;
	enum cbx_http_line line;
	struct cbx_http_conns *all;
	uid_t uid; /* of the client, on a unix socket; CBX_HTTP_NO_USER: not known */
	struct cbx_http_peer *peer; /* from where, where that counts; else NULL */
	struct cbx_tenant *tenant;  /* of the last request that passed the gate; NULL: the local user, or nobody yet */
	struct bufferevent *bev;
	struct event *timer, *closed;
	enum cbx_http_state state;
	const struct cbx_http_door *door; /* by which it came */
	struct cbx_http_who who;	  /* of its request, until that is answered */
	struct cbx_http_head head;
	size_t scanned;	  /* of a head that is not there yet */
	size_t discarded; /* while it lingers */
	size_t unsent;	  /* of what was said to the client */
	size_t held;	  /* of its body, which whoever answers may need until the end */
	struct cbx_http_chunks chunks;
	struct cbx_buf body, fields; /* headers of the answer */
	void (*on_gone)(void *arg);
	void (*on_drained)(void *arg);
	void (*on_piece)(void *arg, const char *p, size_t n, bool last); /* it is waited for */
	void *arg;							 /* of these */
	uint64_t taken; /* of a body in pieces, before what is in `body` */
	bool transfers; /* its request is one of those that room.h counts */
	bool in_pieces; /* the body of this request is taken so */
	bool complete;	/* all of it has come */
	bool chunked; /* the answer, whose length is not known */
	bool known;   /* somebody's request of it has passed the gate */
	bool busy;   /* do not free it now */
	bool again;  /* the next request may be here already */
	bool ended;  /* the client sends no more */
};

struct cbx_http_conn_ops {
	/* The headers are there: whether the request is served at all; else it was answered. */
	bool (*on_head)(void *arg, struct cbx_http_conn *c);
	void (*on_request)(void *arg, struct cbx_http_conn *c, const char *body, size_t len);
	/* Whether its body is taken in pieces: it is handed over without one. NULL: none is. */
	bool (*in_pieces)(void *arg, const struct cbx_http_conn *c);
};

struct cbx_http_conns {
	struct event_base *base;
	struct cbx_http_door *doors; /* told to accept nothing while there is no room */
	size_t ndoors;
	const struct cbx_http_conn_ops *ops;
	void *arg;
	LIST_HEAD(, cbx_http_conn) list;
	/* Of room.c. */
	TAILQ_HEAD(, cbx_http_conn) lines[CBX_HTTP_LINES];
	LIST_HEAD(cbx_http_peers, cbx_http_peer) peers[1024];
	struct event *relief;
	size_t n, max, standing[CBX_HTTP_LINES];
	size_t buffered; /* bytes of bodies that are not complete */
	size_t held;	 /* and of those whose requests are being answered */
	size_t unsent;	 /* bytes of answers that were not taken */
	size_t transfers;
	bool full;	 /* the listeners sleep until a connection can give way */
	const struct cbx_http_gate *gate;    /* that requests pass */
	struct cbx_http_pace pace;
	struct cbx_rate refusals;	     /* of JWTs that the log names */
	struct cbx_metrics *metrics;	     /* NULL: nobody counts */
	const struct cbx_observer *observer; /* who hears of what is refused; NULL: nobody */
};

/* Takes over the descriptor in any case. */
void cbx_http_conn_accept(struct cbx_http_conns *all, const struct cbx_http_door *door, int fd);
/* The listeners accept nothing, or something again. */
void cbx_http_conns_pause(struct cbx_http_conns *all, bool on);
/* At once, without another word. on_gone is called. */
void cbx_http_conn_cut(struct cbx_http_conn *c);
/* Whom to tell when the client leaves before it is answered; NULL: nobody any more. */
void cbx_http_conn_watch(struct cbx_http_conn *c, void (*on_gone)(void *arg), void *arg);
/* The same when all that was sent has gone out; until the answer ends, or NULL. */
void cbx_http_conn_drain(struct cbx_http_conn *c, void (*on_drained)(void *arg));
/* Ask whoever sends a body in pieces for the next one, or the first. It is handed over from the loop, not from inside
 * of this, with the argument of the watch; it stays until the next is asked for. A client that is too slow has left. */
void cbx_http_conn_pull(struct cbx_http_conn *c, void (*on_piece)(void *arg, const char *p, size_t n, bool last));
const char *cbx_http_header(const struct cbx_http_conn *c, const char *name); /* NULL: not there */

/* ---- answers ---- */

void cbx_http_add_header(struct cbx_http_conn *c, const char *name, const char *value);
/* A whole answer; body may be NULL. */
void cbx_http_reply(struct cbx_http_conn *c, int status, const char *type, const void *body, size_t len);
/* A JSON-RPC error (wire/rpc.h) of the carrier itself; id is raw text or NULL. */
void cbx_http_refuse(struct cbx_http_conn *c, int status, int code, const char *id, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* The same for who asks by MCP, or in a way that cannot be read; else as REST has it. kind: of Codebox-Error. */
void cbx_http_deny(struct cbx_http_conn *c, int status, const char *kind, const char *why);
bool cbx_http_is_mcp(const struct cbx_http_conn *c); /* it asks for /mcp, or a path below */
/* length: of the body; negative: it ends with the stream. A HEAD request gets no body, whatever is sent. */
void cbx_http_stream_begin(struct cbx_http_conn *c, int status, const char *type, int64_t length);
void cbx_http_stream_send(struct cbx_http_conn *c, const void *p, size_t len);
void cbx_http_stream_end(struct cbx_http_conn *c);
size_t cbx_http_unsent(const struct cbx_http_conn *c);

#endif
