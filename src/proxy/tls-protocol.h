/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROXY_TLS_PROTOCOL_H
#define CBX_PROXY_TLS_PROTOCOL_H

/*
 * Between a process of codebox-proxy and its two of codebox-tls, which end TLS for it: SOCK_SEQPACKET, descriptor 3 of
 * codebox-tls, which ends when it is closed.
 *
 * The first datagram comes from codebox-tls: from the one that faces the sandbox its authority's certificate (PEM),
 * from the other one a single byte. Then each request is a datagram, the struct below and what has been read of the
 * connection already, with two descriptors: the connection, and one end of a pair of stream sockets. Through the pair
 * goes what TLS has within. The first that comes out of it is one byte, 0: TLS is there; or the length of a text that
 * follows, why it is not.
 */
#include <stdint.h>

#define CBX_TLS_INSIDE	"inside"  /* it faces the sandbox, as a server */
#define CBX_TLS_OUTSIDE "outside" /* it faces servers, as a client that verifies them */

#define CBX_TLS_FIRST_MAX 65536 /* bytes that have been read already */
#define CBX_TLS_PEM_MAX	  8192
#define CBX_TLS_WHY_MAX	  250

struct cbx_tls_request {
	char host[256]; /* whom the client must name, or the server must be */
	uint32_t len;	/* bytes behind this struct */
	uint32_t zero;
};

#endif
