/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROXY_WITHIN_H
#define CBX_PROXY_WITHIN_H

/* The proxy's side of codebox-tls (tls-protocol.h). */
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Start one, of a program and a directory of lists that are open, and read what it says first. Returns the socket to it. */
int within_start(int program, const char *role, int lists, struct cbx_buf *hello, struct cbx_err *err);
/* Hand it a connection, of which `first` (may be NULL) has been read. Returns what TLS has within, beginning with the
 * status; fd is still the caller's to close. */
int within_hand(int sock, const char *host, int fd, const struct cbx_buf *first);
/* The status: 1: TLS is there, one byte was taken; -1: it is not, and why; 0: more is needed. */
int within_status(const char *p, size_t n, char why[256]);
bool within_is_tls(const struct cbx_buf *in);

#endif
