/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_ROWS_H
#define CBX_CLI_ROWS_H

/*
 * How many rows of a terminal were written since some moment, so that they can be taken back, and written anew by
 * whoever wrote them, but no others. What is counted has passed the cleaner (base/clean.h): characters, tabs, newlines,
 * returns, backspaces and colours.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct cbx_rows {
	int fd; /* of the terminal; -1: there is none, and nothing is counted */
	unsigned rows, column, width; /* where the cursor is: rows below that of the beginning */
	unsigned most;		      /* the lowest row that was written */
	unsigned start;		      /* the column where the first begins */
	bool escape;	   /* within a control sequence */
	uint32_t code;	   /* of a character that has not ended */
	unsigned continues; /* bytes of it that are to come */
};

void cbx_rows_init(struct cbx_rows *r, int fd);
void cbx_rows_begin(struct cbx_rows *r); /* count from here */
void cbx_rows_write(struct cbx_rows *r, const char *p, size_t n);
/* Append as much of a movement (A to G) or an erasure (J, K) as stays within these rows. */
void cbx_rows_move(struct cbx_rows *r, struct cbx_buf *out, char letter, unsigned n);
void cbx_rows_leave(struct cbx_rows *r,
		    struct cbx_buf *out);		/* append what goes to the lowest, if the cursor is above */
void cbx_rows_moved(struct cbx_rows *r, unsigned rows); /* the cursor is at the start of a row below, by this number */
/* Append what takes all of them back that are still on the screen. */
void cbx_rows_erase(struct cbx_rows *r, struct cbx_buf *out);

#endif
