/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BOX_INIT_H
#define CBX_BOX_INIT_H

/* The socket to a sandbox's init: requests out, answers in. */
#include "box/state.h"
#include "sandbox/init-protocol.h"

/* err: no answer will come, and h is NULL. */
typedef void (*cbx_init_fn)(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
			    const struct cbx_err *err);

int cbx_init_open(struct cbx_box *box, int sock); /* takes sock */
void cbx_init_shut(struct cbx_box *box);	  /* nothing is sent or heard any more; requests stay */
void cbx_init_fail_all(struct cbx_box *box, const struct cbx_err *err); /* call every fn with err */
/* Payload is the two parts, one behind the other. fds are taken, also on failure. urgent: before what is queued. */
int cbx_init_ask(struct cbx_box *box, const struct cbx_init_header *h, const void *p1, size_t n1, const void *p2,
		 size_t n2, const int *fds, size_t nfds, bool urgent, cbx_init_fn fn, void *arg, struct cbx_err *err);
#define CBX_INIT_LATE_S 60 /* the sandbox is given up after this time without an answer */

#endif
