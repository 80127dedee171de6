/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROXY_FIRST_H
#define CBX_PROXY_FIRST_H

/* The first bytes of what is not HTTP: SOCKS5 (RFC 1928), and TLS's ClientHello, of which only the server's name is of
 * interest. Each answers how many bytes it took, 0 for "more are needed", and -1 for "not that". */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/host.h"

/* The greeting. A client that offers no access without a password: -1. */
int cbx_socks_greeting(const unsigned char *p, size_t n);

struct cbx_socks_request {
	uint8_t command; /* 1: connect */
	struct cbx_host host;
	uint16_t port;
	const char *why; /* the host cannot be read: why; else NULL */
};
int cbx_socks_request(const unsigned char *p, size_t n, struct cbx_socks_request *ret);

#define CBX_HELLO_MAX 32768 /* bytes of records that a ClientHello may take */
/* name: "" when it names none. *ret_hidden: another name may be in it, which only the server can read (ECH, RFC 9849).
 */
int cbx_tls_hello(const unsigned char *p, size_t n, char name[CBX_HOST_MAX + 1], bool *ret_hidden);

#endif
