/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_TERM_H
#define CBX_CLI_TERM_H

/*
 * Output of sandboxed code on its way to one of our descriptors. To a file or pipe it goes as it is. A terminal obeys
 * what it is sent: it can be made to write over what it shows, into the clipboard, or to type answers into the shell. So
 * what reaches a terminal is text and colours (base/clean.h).
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/clean.h"
#include "cli/rows.h"

struct cbx_term {
	int fd;
	bool filter;	  /* a terminal: the above applies */
	bool pipe;	  /* a pipe: a write can be made small enough not to wait */
	bool failed;	  /* a write failed: nothing more is written */
	int error;	  /* why */
	char last;	  /* the last byte written, '\n' at first */
	struct cbx_cleaner cleaner;
	struct cbx_rows *rows; /* that count what is written, of this terminal; NULL: none do */
};

void cbx_term_init(struct cbx_term *t, int fd);
void cbx_term_write(struct cbx_term *t, const char *p, size_t n);
/* Once poll() says that it can be written to: what fits without waiting, or all, where the room is unknown. How much.
 */
size_t cbx_term_some(struct cbx_term *t, const char *p, size_t n);
void cbx_term_puts(struct cbx_term *t, const char *s);
/* Take back what was written to a terminal since cbx_rows_begin(), as far as it is on the screen; else nothing. */
void cbx_term_erase(struct cbx_term *t);
/* End a line that has been begun. */
void cbx_term_fresh_line(struct cbx_term *t);
/* Write an unfinished control sequence after all, made visible. */
void cbx_term_flush(struct cbx_term *t);

#endif
