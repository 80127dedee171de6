/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROXY_PROXY_H
#define CBX_PROXY_PROXY_H

/*
 * What the files of codebox-proxy share. Each knows those below it:
 *
 *   main.c     the program: forks a process for each sandbox
 *   serve.c    such a process: its start, its confinement, the loop, the limits of all its connections
 *   conn.c     a connection from its first byte to the verdict
 *   relay.c    and from then on
 *   names.c    names become addresses
 *   report.c   what was decided, for codeboxd
 *   watch.c    what epoll watches
 *   within.c   connections whose TLS is ended by codebox-tls, because a rule has secrets for requests in them
 *   secrets.c  these
 *   head.c, first.c   parsers
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "policy/network.h"
#include "proxy/head.h"
#include "proxy/protocol.h"
#include "proxy/secrets.h"

struct cbx_filter;
struct proxy;
struct conn;

/* Something that epoll watches. */
struct watch {
	void (*ready)(struct watch *w, uint32_t events);
	int fd;
	uint32_t events; /* that are watched for; 0: it is not registered */
};

#define ADDRESSES_MAX 8

/* One question to the resolver; freed by its answer. */
struct lookup {
	struct proxy *proxy;
	struct conn *conn; /* NULL: it has gone */
	struct cbx_ip ips[ADDRESSES_MAX];
	size_t n;
	const char *why; /* n is 0 */
};

enum conn_state {
	CONN_FIRST,  /* nothing is known */
	CONN_SOCKS,  /* greeted */
	CONN_OPEN,   /* a tunnel whose TLS is to be ended; its first byte is awaited */
	CONN_INSIDE, /* and the handshake */
	CONN_HEAD,   /* the head of a request is awaited */
	CONN_RESOLVE,
	CONN_CONNECT,
	CONN_OUTSIDE, /* TLS with the server is awaited */
	CONN_HELLO,   /* a tunnel, whose client's first bytes are awaited */
	CONN_RELAY,
	CONN_LINGER, /* answered; what still comes is thrown away */
};

/* One direction. What could not be written waits in `data`, and nothing is read meanwhile. */
struct flow {
	struct cbx_buf data;
	size_t off;
	bool eof;  /* nothing more comes */
	bool shut; /* and the other side knows */
};

struct end {
	struct watch watch;
	struct conn *conn;
	bool hung; /* it has hung up, or its socket has failed */
};

struct conn {
	TAILQ_ENTRY(conn) entry;
	struct proxy *proxy;
	enum conn_state state;
	struct end client, server;
	struct cbx_buf in; /* of the client, without a verdict yet */
	enum cbx_proxy_via via;
	bool pinned; /* it is a tunnel in which requests are read: they are for this host and port */
	bool opened; /* and they come by TLS, which codebox-tls ends */
	struct cbx_host host;
	uint16_t port;
	struct cbx_head head; /* HTTP: `method` is set */
	size_t head_len;      /* bytes of it at the beginning of `in`, until it is sent on */
	struct lookup *lookup;
	struct cbx_ip ips[ADDRESSES_MAX]; /* all are allowed */
	size_t nips, next;
	const struct cbx_net_rule *rule; /* that allowed it; borrowed from the rules */
	bool reported;
	struct flow up, down; /* to the server, to the client */
	enum cbx_body body;   /* of the request: what of it is still to come */
	uint64_t left;
	struct cbx_chunks chunks;
	bool answered; /* the head of the response has passed */
	struct cbx_buf hold; /* of the response, what may be the beginning of a secret (secrets.c) */
	uint64_t born_ms, active_ms;
	bool dead;
};

TAILQ_HEAD(conns, conn);

struct proxy {
	int epoll;
	struct watch listener, talk;
	struct cbx_network rules;
	struct secrets secrets;
	int inside, outside; /* sockets to codebox-tls; -1: no rule needs it */
	struct conns conns, dead;
	size_t n;
	uint64_t now_ms, swept_ms;
	uint64_t bytes; /* so far */
	char *scratch;	/* SCRATCH bytes, for whoever reads */
	void *channel;	/* the resolver's */
	struct reporting *reporting;
};
#define SCRATCH 65536

/* serve.c */
struct launch {
	const struct cbx_filter *filter;
	int lists; /* the directory of lists of system calls, open: it may be below the home of root */
	int tls;   /* codebox-tls, open; -1: it is not there */
};
_Noreturn void proxy_serve(int door, int talk, const struct launch *how);

/* conn.c */
void conn_new(struct proxy *p, int fd);
/* Close it; it is freed when the events at hand are done with. */
void conn_end(struct conn *c);
void conn_free(struct conn *c);
void conn_resolved(struct conn *c, const struct lookup *l);
/* Refuse it: an answer in its protocol, where there is still one to be made, and a line for codeboxd. */
void conn_refuse(struct conn *c, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Time has passed. */
void conn_sweep(struct conn *c);

/* relay.c */
/* From the verdict on: c->server is connected. first: bytes for the client (may be NULL). */
void relay_begin(struct conn *c, const char *first);
/* Pass on what is held back. False: the connection is to end. */
bool relay_flush(struct conn *c);

/* names.c */
int names_open(struct proxy *p, struct cbx_err *err);
/* conn_resolved() follows, perhaps before this returns. */
void names_ask(struct conn *c);
int names_wait_ms(struct proxy *p); /* -1: for nothing */
void names_time(struct proxy *p);

/* watch.c */
/* events 0: not at all. Whatever else is asked for, EPOLLHUP and EPOLLERR are reported. */
void watch_set(struct proxy *p, struct watch *w, uint32_t events);
void watch_close(struct proxy *p, struct watch *w);
/* The same for what no other process has: epoll forgets it by itself. */
void watch_end(struct watch *w);

/* report.c */
int report_open(struct proxy *p, int fd);
void report(struct proxy *p, enum cbx_proxy_event_type type, enum cbx_proxy_via via, const char *host, uint16_t port,
	    const char *why);
void report_flush(struct proxy *p);
bool report_waits(const struct proxy *p); /* there is something for that to tell */

#endif
