/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_INIT_PLACE_H
#define CBX_SANDBOX_INIT_PLACE_H

#include <stddef.h>

#include "sandbox/init-protocol.h"

/* CBX_INIT_PLACE in the directory `top`; data: the n bytes that follow its path. Fills answer's value. */
void cbx_init_place(const struct cbx_init_header *h, const char *top, const char *data, size_t n,
		    struct cbx_init_header *answer);

#endif
