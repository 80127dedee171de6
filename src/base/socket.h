/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_SOCKET_H
#define CBX_BASE_SOCKET_H

/* Addresses, unix and TCP, and the sockets that listen there. */
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/dirs.h"
#include "base/err.h"

struct cbx_address {
	union {
		struct sockaddr any;
		struct sockaddr_un un;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at;
	socklen_t len;
};

/* DIR/NAME. Error: too long for a socket's name. */
int cbx_address_unix(struct cbx_address *ret, const char *dir, const char *name, struct cbx_err *err);
/* 127.0.0.1 or ::1. Port 0: any free one. */
void cbx_address_loopback(struct cbx_address *ret, bool v6, uint16_t port);
/* The whole path of a unix socket, which begins with "/". */
int cbx_address_unix_path(struct cbx_address *ret, const char *path, struct cbx_err *err);
/* "192.0.2.1", or "2001:db8::1"; -EINVAL when it is not one. */
int cbx_address_numeric(struct cbx_address *ret, const char *host, bool v6, uint16_t port);
bool cbx_sockaddr_is_loopback(const struct sockaddr *sa); /* of version 4 or 6 */
/* It can be reached from this computer alone. */
bool cbx_address_is_local(const struct cbx_address *a);
/* That a socket is bound to; 0 or -errno. */
int cbx_address_of(int fd, struct cbx_address *ret);
uint16_t cbx_address_port(const struct cbx_address *a); /* 0: it has none */
void cbx_address_print(const struct cbx_address *a, char ret[128]); /* "/run/x.sock", "127.0.0.1:80", "[::1]:80" */

/*
 * A stream socket that listens there. A unix socket of its name that nobody listens on is removed first; the new one is
 * for its owner alone, the service id, who is to remove it (service is NULL for TCP). Errors: "daemon_running": somebody
 * listens there; "not_a_socket": something else lies there.
 */
int cbx_listen(const struct cbx_address *a, const struct cbx_service *service, struct cbx_err *err);
/* Whether a descriptor that was passed to us is a stream socket that listens. */
bool cbx_is_listening(int fd);
/* Whether the other end of a unix socket is this user, root or the service id, by the kernel's word: of a socket that
 * was connected, who called listen(2). *ret_uid: who it is. -errno when that cannot be known. */
int cbx_peer_allowed(int fd, const struct cbx_service *service, uid_t *ret_uid);

#endif
