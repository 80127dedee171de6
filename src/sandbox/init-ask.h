/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_INIT_ASK_H
#define CBX_SANDBOX_INIT_ASK_H

/* Of codebox-init: processes of the session ask codeboxd for something. */
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "sandbox/init-protocol.h"

int cbx_init_ask_open(void); /* listen at CBX_INIT_DOOR; 0 or -1 */
/* What is waited for. A descriptor of -1: nothing. */
#define CBX_INIT_ASKS 2
void cbx_init_ask_wait(struct pollfd p[CBX_INIT_ASKS]);
/* That has come. True: *h and *text are to be sent to codeboxd. */
bool cbx_init_ask_come(struct cbx_init_header *h, const char **text);
/* TELL; returns the answer's value. */
int64_t cbx_init_tell(const struct cbx_init_header *h, const char *data);

#endif
