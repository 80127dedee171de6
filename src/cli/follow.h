/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_FOLLOW_H
#define CBX_CLI_FOLLOW_H

/* What a session has run, written for a person: by codebox logs, and by a prompt that comes back to its session. */
#include "client/client.h"
#include "cli/term.h"

struct cbx_log {
	struct cbx_client *client;
	const char *session;
	bool tail;
	uint64_t last;	/* tail: the number of ended cells to show */
	uint64_t after; /* the id of the last cell that was written */
	bool found;	/* the session was there once */
	char language[64];
	struct cbx_term *out;
};

cJSON *cbx_log_params(const struct cbx_log *l, uint64_t id); /* of a request about a cell; 0: about the session */
/* All cells that have ended since. *next: the one that runs, or that waits, or 0. */
int cbx_log_ended(struct cbx_log *l, uint64_t *next, struct cbx_err *err);
/* A cell as it is so far; what it shows then; its end. */
void cbx_log_begin(struct cbx_log *l, const cJSON *cell);
void cbx_log_display(struct cbx_log *l, const cJSON *display, const cJSON *count);
void cbx_log_end(struct cbx_log *l, const cJSON *cell);

#endif
