/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_REST_REST_H
#define CBX_REST_REST_H

/*
 * The REST interface: sessions, executions and files as resources of HTTP; codebox-rest(7) describes it. A request is
 * a call (internal.h), from a row of the table of routes to the functions of session/session.h and back.
 */
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "http/head.h"

struct cbx_engine;
struct cbx_http_conn;
struct cbx_rest_call;

struct cbx_rest {
	struct event_base *base;
	struct cbx_engine *engine;
	const char *node;	    /* "a.", which ids that are made up here begin with, or "" */
	void (*on_idle)(void *arg); /* the last call has ended; may be NULL */
	void *arg;
	bool draining; /* the end is near: it is not ready any more */
	LIST_HEAD(, cbx_rest_call) calls;
};

/* The first five members are set before. */
void cbx_rest_init(struct cbx_rest *rest);
/* Whether a request needs no token: what it is answered is nobody's secret. */
bool cbx_rest_open_to_all(const struct cbx_http_head *head);
/* Whether the body of a request is taken in pieces: an archive's. */
bool cbx_rest_in_pieces(const struct cbx_http_head *head);
/* Answers, now or later. A body in pieces is asked of the connection. */
void cbx_rest_request(struct cbx_rest *rest, struct cbx_http_conn *c, const char *body, size_t len);
bool cbx_rest_busy(const struct cbx_rest *rest);
void cbx_rest_release(struct cbx_rest *rest); /* cuts those off that wait; on_idle is not called */

#endif
