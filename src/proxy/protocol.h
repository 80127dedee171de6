/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PROXY_PROTOCOL_H
#define CBX_PROXY_PROTOCOL_H

/*
 * Between codeboxd and codebox-proxy: SOCK_SEQPACKET sockets. On descriptor 3 of the program codeboxd sends one byte
 * for each sandbox, with two descriptors: the sandbox's door, a socket by which its set-up sends one more, which
 * listens inside the sandbox; and a socket to talk by. The program forks a process for each.
 *
 * On that socket codeboxd sends one datagram, the rules: the text of a value of "network" (policy/network.h). From then
 * on the process serves the sandbox and reports what it decides. It ends when codeboxd closes the socket.
 */
#include <stdint.h>

#define CBX_PROXY_RULES_MAX 131072 /* bytes of that text */
/* Where rules have secrets, a second datagram has them, in the order of the rules: of each one of these characters, the
 * secret or why it is not known, and a NUL. */
#define CBX_PROXY_SECRET_VALUE 'v'
#define CBX_PROXY_SECRET_WHY   'w'
#define CBX_PROXY_SECRETS_MAX  65536

enum cbx_proxy_event_type {
	CBX_PROXY_UP = 1,  /* it serves */
	CBX_PROXY_FAILED,  /* it cannot; `why` says why. It ends after this */
	CBX_PROXY_ALLOWED, /* a connection or request was let through, by the rule in `why` */
	CBX_PROXY_REFUSED, /* or not, and why not */
	CBX_PROXY_LOST,	   /* the number of decisions that were not reported: there were too many at a time */
	CBX_PROXY_TRUST,   /* before UP, where rules have secrets: the next piece of the certificates that the sandbox's
			    * programs are to trust, a struct cbx_proxy_trust and text */
};

struct cbx_proxy_trust {
	uint32_t type;
	uint32_t zero;
};
#define CBX_PROXY_TRUST_PIECE 32768

enum cbx_proxy_via { CBX_VIA_HTTP, CBX_VIA_CONNECT, CBX_VIA_SOCKS, CBX_VIAS };

/* Fixed-size. Texts end with a NUL. */
struct cbx_proxy_event {
	uint32_t type;
	uint32_t count; /* equal ones in a row */
	uint16_t port;
	uint16_t via; /* enum cbx_proxy_via */
	uint32_t zero;
	char host[256]; /* "": there was none that could be read */
	char why[320];
};

#endif
