/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_CELL_H
#define CBX_CLI_CELL_H

/*
 * Run one cell through a client connection, writing its output as it comes.
 */
#include <stdint.h>

#include "base/str.h"
#include "cli/client.h"
#include "cli/figures.h"
#include "cli/term.h"

struct cbx_cell {
	struct cbx_client *client;
	int sigfd;    /* signalfd of SIGINT (blocked), or -1 */
	bool collect; /* nothing is written; displays are put into the execution object */
	struct cbx_term *out, *errs, *notes;
	struct cbx_figures *figures;
	bool silent_exit;  /* sys.exit() is no event to be explained: the exit status says it */
	unsigned patience; /* Ctrl-C's that are asked for politely before giving up */

	/* Filled by a run. */
	char session[CBX_NAME_MAX + 1];
	uint64_t execution;
	unsigned interrupts;
};

/* A signalfd for SIGINT, which it blocks. */
int cbx_cell_signals(struct cbx_err *err);

/*
 * Run `code`; params (consumed) are the other members of the request. 0 with the final execution object, or an error.
 * Ctrl-C interrupts the code; one more than `patience` of them gives up: -EINTR, kind "interrupted".
 */
int cbx_cell_run(struct cbx_cell *cell, const char *code, cJSON *params, cJSON **ret, struct cbx_err *err);
/* Traceback and explanation, as they belong on standard error. */
void cbx_cell_explain(struct cbx_cell *cell, const cJSON *execution);
/* The exit status that stands for an execution. */
int cbx_cell_exit_status(const cJSON *execution);

#endif
