/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_DRAW_H
#define CBX_CLI_DRAW_H

/*
 * A text of several lines that is being edited, as rows of a terminal. The first line has a prompt of the caller's, the
 * others "... ". One that has more rows than the screen is shown in part, where the cursor is.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct cbx_draw {
	bool any;	     /* something is drawn; else the cursor is at the beginning of an empty row */
	struct cbx_buf rows; /* as they were drawn, with newlines between them */
	size_t from;	     /* the first that is on the screen */
	size_t row, col;     /* where the cursor is */
	bool at_end;	     /* of the text */
	size_t height, columns;
};

/* Show the text, with the cursor at a byte of it. Only what has changed at its end is written where that is enough. */
void cbx_draw(struct cbx_draw *d, const char *prompt, const struct cbx_buf *text, size_t cursor);
/* The terminal has another size: take away what is drawn. */
void cbx_draw_resized(struct cbx_draw *d);
/* What follows is written below; the cursor is at the end of the text. */
void cbx_draw_end(struct cbx_draw *d);
void cbx_draw_release(struct cbx_draw *d);

#endif
