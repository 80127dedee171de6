/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_OBSERVE_CHAIN_H
#define CBX_OBSERVE_CHAIN_H

/*
 * The chain of an audit log. Each line is a JSON object that begins with its number, "seq", and ends with "prev": the
 * SHA-256 of the line before it, in hexadecimal. A line that was cut off while it was written is torn: it has no
 * number, and what comes after it counts it, and the newline before it, as part of the line before. So each byte of the
 * file but the last line is held by a later one. The first line of all has a "prev" of zeros.
 */
#include <nettle/sha2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CBX_CHAIN_HEX (2 * SHA256_DIGEST_SIZE)

struct cbx_chain {
	struct sha256_ctx digest; /* of the last line, and what is torn behind it */
	uint64_t seq;		  /* of the last line; 0: there is none */
	bool begun;		  /* digest is of something */
	uint64_t lines, torn;	  /* that were seen */
};

/* What the next line has as "prev". */
void cbx_chain_head(const struct cbx_chain *c, char ret[CBX_CHAIN_HEX + 1]);
/* A line that is about to be written, or was: without its newline. */
void cbx_chain_add(struct cbx_chain *c, const char *line, size_t n);
void cbx_chain_add_torn(struct cbx_chain *c, const char *p, size_t n);
/* A line that was read: it is added if it follows. `any`: it need not follow. 1: it has a number; 0: it is torn. Error:
 * "chain_broken". */
int cbx_chain_read(struct cbx_chain *c, const char *line, size_t n, bool any, struct cbx_err *err);
/* All of a text; `first`: what is before its first line is not known. ret_open: there is no newline at its end. */
int cbx_chain_read_all(struct cbx_chain *c, const char *text, size_t n, bool first, bool *ret_open,
		       struct cbx_err *err);

void cbx_sha256_hex(const void *p, size_t n, char ret[CBX_CHAIN_HEX + 1]);

#endif
