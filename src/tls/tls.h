/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TLS_TLS_H
#define CBX_TLS_TLS_H

/*
 * What the files of codebox-tls share:
 *
 *   main.c        the program: its start and confinement, the loop, requests
 *   pump.c        one connection: TLS on one side, what it has within on the other
 *   authority.c   an authority of its own and its certificates, for a server; the machine's authorities, for a client
 */
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/err.h"

struct authority;
/* An authority whose key never leaves this process. */
int authority_new(struct authority **ret, struct cbx_err *err);
/* Its certificate, as PEM. */
void authority_print(const struct authority *a, struct cbx_buf *out);
/* Have a connection show a certificate for this name. */
bool authority_certify(struct authority *a, SSL *ssl, const char *name);

/* Settings that both sides have. */
SSL_CTX *context_new(bool inside, struct cbx_err *err);
/* Whom the machine trusts. */
int context_trust_machine(SSL_CTX *ctx, struct cbx_err *err);

struct pump;

struct side {
	struct pump *pump;
	int fd;
	uint32_t events; /* watched for */
	bool gone;	 /* hung up: it is not watched any more */
	bool eof;	 /* nothing more comes from it */
	bool told;	 /* nor is anything more written to it, and it knows */
};

#define PIECE 16384

struct pump {
	TAILQ_ENTRY(pump) entry;
	int epoll;
	SSL *ssl;
	BIO *in, *out; /* of the connection; the SSL has them */
	struct side net, plain;
	bool inside, up, failed;
	bool again; /* its client began another handshake */
	char name[256];
	char data[PIECE]; /* for `plain` */
	size_t off, len;
	uint64_t since_ms; /* that it is in this state */
};
TAILQ_HEAD(pumps, pump);

/* Takes the descriptors, and the SSL. */
struct pump *pump_new(int epoll, SSL *ssl, bool inside, const char *name, int net, int plain);
/* Do what can be done. False: it is over, to be freed. */
bool pump_step(struct pump *p, uint64_t now_ms);
void pump_hung_up(struct side *s);
/* It waits for what may never come. */
bool pump_late(const struct pump *p, uint64_t now_ms);
void pump_free(struct pump *p);

#endif
