/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_INIT_H
#define CBX_SANDBOX_INIT_H

/* codebox-init's own parts: a static program that links nothing else of ours. The protocol: init-protocol.h. */
#include <stddef.h>

#include "sandbox/init-protocol.h"

#define CBX_INIT_MAX 65536 /* = CBX_INIT_MESSAGE_MAX */

/* Carry out a file request. `data` holds h->len bytes and a NUL behind them; the answer's payload goes to `out` (room:
 * CBX_INIT_MAX minus the header). Fills *answer's value, arg and len. */
void cbx_init_file(const struct cbx_init_header *h, const char *data, struct cbx_init_header *answer, char *out);
/* CBX_INIT_SCAN of a directory. */
void cbx_init_scan(const struct cbx_init_header *h, const char *path, struct cbx_init_header *answer, char *out);

#endif
