/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_HTTP_TLS_H
#define CBX_HTTP_TLS_H

/* TLS of a listener: its certificate and key, and the connections that speak it. */
#include "base/err.h"

struct bufferevent;
struct event_base;
struct cbx_http_tls;

/* PEM files. certificate NULL: no TLS. clients: of the authorities by one of which a client's certificate must be
 * signed; NULL: clients need none. */
struct cbx_http_tls_files {
	const char *certificate, *key, *clients;
};

/* Error: kind "invalid_argument", which names the option and the file. The strings are borrowed. */
int cbx_http_tls_new(const struct cbx_http_tls_files *files, struct cbx_http_tls **ret, struct cbx_err *err);
/* Read the files again, for connections from now on. An error changes nothing. */
int cbx_http_tls_reload(struct cbx_http_tls *tls, struct cbx_err *err);
void cbx_http_tls_free(struct cbx_http_tls *tls); /* NULL is accepted; connections may remain */
/* As bufferevent_socket_new(), which closes fd in the end; NULL: fd is still open. */
struct bufferevent *cbx_http_tls_accept(struct cbx_http_tls *tls, struct event_base *base, int fd);
/* It has failed: say why, in the log for who debugs. */
void cbx_http_tls_tell(struct bufferevent *bev);
/* Say to the client that this was all. */
void cbx_http_tls_goodbye(struct bufferevent *bev);

#endif
