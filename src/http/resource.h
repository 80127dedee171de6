/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_RESOURCE_H
#define CBX_HTTP_RESOURCE_H

/* OAuth 2.0 protected resource metadata (RFC 9728), where JWTs are accepted: by which a client that has no token finds
 * out who issues them. */
#include <stdbool.h>

#include "http/conn.h"

struct cbx_buf;

/* The request is for the metadata, which everybody may have. */
bool cbx_http_resource_is(const struct cbx_http_conn *c);
void cbx_http_resource_request(struct cbx_http_conn *c);
/* WWW-Authenticate; error and scope may be NULL. */
void cbx_http_challenge(struct cbx_http_conn *c, const char *error, const char *scope);

#endif
