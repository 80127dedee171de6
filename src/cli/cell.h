/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_CELL_H
#define CBX_CLI_CELL_H

/*
 * Run one cell through a client connection, writing its output as it comes.
 */
#include <stdint.h>

#include "base/str.h"
#include "client/client.h"
#include "cli/figures.h"
#include "cli/term.h"

/* Zeroed, but for the descriptors; cbx_cell_release() in the end. */
struct cbx_cell {
	struct cbx_client *client;
	int sigfd;    /* signalfd of SIGINT (blocked), or -1 */
	bool collect; /* nothing is written; displays are put into the execution object */
	void (*on_event)(void *arg, const cJSON *msg); /* who gets outputs and displays instead; NULL: nobody */
	void (*on_found)(void *arg, const cJSON *msg); /* of one that is followed: what it is, and has done so far */
	void *arg;
	struct cbx_term *out, *errs, *notes;
	struct cbx_figures *figures;
	bool silent_exit;  /* sys.exit() is not an event to be explained: the exit status says it */
	unsigned patience; /* Ctrl-C's that are asked for politely before giving up */
	int input;	   /* the program's standard input is read from here; negative: it has none */
	bool typed;	   /* by a person, at the terminal of `out`: what is not read is in `unread` afterwards */

	/* Filled by a run. */
	char session[CBX_NAME_MAX + 1];
	uint64_t execution;
	unsigned interrupts;
	uint64_t request;	/* of the run */
	uint64_t input_request; /* a piece of input that has not been taken yet; 0: none */
	struct cbx_buf unread;	/* of what was typed; during the cell all of it */
	size_t piece;		/* its last bytes, which have not been taken */
	struct cbx_term *raw_to;
	size_t raw_left; /* bytes of output that come behind the message that announced them */
	struct cbx_buf raw; /* those that were received, and not written yet; from raw_at on */
	size_t raw_at;
};

/* A signalfd for SIGINT, which it blocks. */
int cbx_cell_signals(struct cbx_err *err);

/*
 * Run `code`; params (consumed) are the other members of the request. 0 with the final execution object, or an error.
 * Ctrl-C interrupts the code; one more than `patience` of them gives up: -EINTR, kind "interrupted".
 */
int cbx_cell_run(struct cbx_cell *cell, const char *code, cJSON *params, cJSON **ret, struct cbx_err *err);
/* Likewise, of one that runs or waits already. Errors: "ended", and those of the session. */
int cbx_cell_follow(struct cbx_cell *cell, const char *session, uint64_t execution, cJSON **ret, struct cbx_err *err);
/* Traceback and explanation, as they belong on standard error. */
void cbx_cell_explain(struct cbx_cell *cell, const cJSON *execution);
void cbx_cell_release(struct cbx_cell *cell);
/* The exit status that stands for an execution. */
int cbx_cell_exit_status(const cJSON *execution);

#endif
