/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_ATTACH_H
#define CBX_CLI_ATTACH_H

/* A command of a session, with our standard input and output, or our terminal. */
#include <stdbool.h>

#include "client/client.h"

#define CBX_DETACH_KEYS_MAX 8

struct cbx_attach {
	struct cbx_client *client;
	bool input;    /* it gets what we read */
	bool terminal; /* our terminal is its: each key goes to it, and all that it writes comes out as it is */
	char keys[CBX_DETACH_KEYS_MAX]; /* that detach from its terminal, one after the other */
	size_t nkeys;
	int signal; /* that ended us, after -EINTR */
};

/* "ctrl-p,ctrl-q": keys, and with ctrl- those that Ctrl makes; "none". False: it is something else. */
bool cbx_attach_keys(struct cbx_attach *a, const char *text);
/* The size of our terminal into "rows" and "columns" of a request. */
void cbx_attach_size(cJSON *params);
/*
 * Send a request that starts a command or attaches to one (params are consumed), and stay until it is answered. 0 with
 * the command as it is then: ended, or running still, if it was detached from. The terminal is as it was before.
 */
int cbx_attach_run(struct cbx_attach *a, const char *method, cJSON *params, cJSON **ret, struct cbx_err *err);

#endif
