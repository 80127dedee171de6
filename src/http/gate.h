/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_GATE_H
#define CBX_HTTP_GATE_H

/* Who may pass: judged when a request's head is there, before its body is read. */
#include <stdbool.h>

#include "base/buf.h"
#include "http/conn.h"

struct cbx_http_gate {
	const struct cbx_principal *local; /* who comes without a tenant's token, where that is allowed */
	struct cbx_buf token;		   /* the local user's; empty: none */
	struct cbx_tenants *tenants;	   /* NULL: there are none. Borrowed */
	char *url;			   /* "https://box.example.org": of --http-url, owned; NULL: none */
	char *name;			   /* "box.example.org:8443": by which others reach it; NULL: by its addresses */
};

/* Somebody has to show something. */
bool cbx_http_gate_asks(const struct cbx_http_gate *gate);
/* True: c->who says who it is. Else it was answered. open_to_all: of this path there is nothing to be kept from
 * anybody. */
bool cbx_http_gate_pass(const struct cbx_http_gate *gate, struct cbx_http_conn *c, bool open_to_all);
/* Whether who was let in would be let in still: tokens may have been revoked. */
bool cbx_http_gate_still(const struct cbx_http_gate *gate, const struct cbx_http_who *who);
/* The request needs a scope. False: it was answered. */
bool cbx_http_gate_scope(struct cbx_http_conn *c, enum cbx_scope scope);
/* By which way the request came, for the engine. */
void cbx_http_via(const struct cbx_http_conn *c, const char *door, struct cbx_via *ret);
/* An error of the carrier: of MCP by JSON-RPC, else {"detail"}. */
void cbx_http_gate_refuse(struct cbx_http_conn *c, int status, const char *kind, const char *why);

#endif
