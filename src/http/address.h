/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_ADDRESS_H
#define CBX_HTTP_ADDRESS_H

/* Which addresses and host names are this computer's own; the token. */
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/socket.h"

/* "127.0.0.1:8080", "[::1]:8080", "localhost:8080", "192.0.2.1:8080", "[2001:db8::1]:8080", "unix:/run/x.sock" */
int cbx_http_address_parse(const char *s, struct cbx_address *ret, struct cbx_err *err);
/* Whether "name" or "name:port" names this computer itself: localhost, 127.0.0.1 or [::1]. */
bool cbx_http_host_allowed(const char *host);
/* Whether it is a numeric address, with a port or without. */
bool cbx_http_host_numeric(const char *host);
bool cbx_http_origin_allowed(const char *origin);
int cbx_http_token_read(const char *path, struct cbx_buf *ret, struct cbx_err *err);
/* Compare the whole of an Authorization header; takes as long for a wrong token as for the right one. */
bool cbx_http_token_ok(const struct cbx_buf *token, const char *authorization);

#endif
