/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_HTTP_H
#define CBX_HTTP_HTTP_H

/*
 * HTTP: MCP at /mcp, and at /mcp/NAME for a profile, for both protocol eras.
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
#include "http/tls.h"

struct cbx_engine;
struct cbx_principal;
struct cbx_service;
struct cbx_tenants;
struct cbx_http;
struct cbx_metrics;
struct cbx_observer;
struct cbx_mcp_registry;

struct cbx_http_config {
	struct cbx_engine *engine;
	const struct cbx_principal *principal;	 /* who has the token of the file, or needs none */
	const struct cbx_mcp_registry *registry; /* with its profiles, which are at /mcp/NAME */
	const char *profile;			 /* which of these is at /mcp; NULL: the registry itself */
	const char *const *addresses; /* "127.0.0.1:8080", "[::1]:0" (any free port), "unix:/run/codebox/http.sock" */
	size_t naddresses;
	const int *fds; /* sockets that listen, taken over */
	size_t nfds;
	uint64_t rate; /* requests a second of all clients together; 0: no limit */
	const char *token_file;		   /* NULL: none */
	const char *url; /* "https://box.example.org": by which others reach it; NULL: by the addresses */
	struct cbx_http_tls_files tls;	   /* of all TCP listeners */
	struct cbx_tenants *tenants;	   /* borrowed; NULL: none. Without these and a token none is asked for */
	const char *node; /* "a.", which ids of MCP's sessions and of REST's begin with; it stays. NULL: none */
	bool open;			   /* that is meant for addresses, too, that others can reach */
	bool ui;			   /* the page at /ui is served */
	struct cbx_metrics *metrics;	   /* borrowed; NULL: nobody counts */
	const struct cbx_observer *observer; /* likewise; who hears of requests that are refused */
	const struct cbx_service *service; /* of unix sockets; NULL: there is none of them */
	void (*on_idle)(void *arg); /* the last request and the last session have gone; may be NULL */
	void *arg;
};

/* Binds and listens; connections wait until cbx_http_serve(). The strings are copied. */
int cbx_http_new(struct event_base *base, const struct cbx_http_config *config, struct cbx_http **ret,
		 struct cbx_err *err);
bool cbx_http_has_users(const struct cbx_http *http); /* it listens on a unix socket, whose clients have users */
void cbx_http_serve(struct cbx_http *http); /* NULL is accepted */
/* "http://127.0.0.1:8080/mcp", "unix:/run/codebox/http.sock" of each listener; NULL: there are no more. */
const char *cbx_http_url(const struct cbx_http *http, size_t i);
/* Read certificate and key again; an error leaves those in force. NULL is accepted. */
int cbx_http_reload_tls(struct cbx_http *http, struct cbx_err *err);
/* Tenants or tokens are others: who may not be here any more is cut off. NULL is accepted. */
void cbx_http_tenants_changed(struct cbx_http *http);
bool cbx_http_busy(const struct cbx_http *http);       /* there is a request or a session; false for NULL */
/* It is not ready for new sessions any more (GET /ready); all requests are served. NULL is accepted. */
void cbx_http_drain(struct cbx_http *http);
/* Before the end: no more connections; those who wait for changes learn that there will be none. Runs the loop for
 * that, but does not wait for a client that takes nothing. NULL is accepted. */
void cbx_http_stop(struct cbx_http *http);
void cbx_http_free(struct cbx_http *http);	       /* before the engine; NULL is accepted */

#endif
