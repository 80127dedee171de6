/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_TERM_H
#define CBX_CLI_TERM_H

/*
 * Output of sandboxed code on its way to one of our descriptors. To a file or pipe it goes as it is. A terminal obeys
 * what it is sent: it can be made to write into the clipboard or to type answers into the shell. So what reaches a
 * terminal is text, colours, and the cursor movements that progress bars need; other control sequences become visible.
 */
#include <stdbool.h>
#include <stddef.h>

struct cbx_term {
	int fd;
	bool filter;	  /* a terminal: the above applies */
	bool failed;	  /* a write failed: nothing more is written */
	char last;	  /* the last byte written, '\n' at first */
	char pending[32]; /* a control sequence that has not ended yet */
	size_t npending;
};

void cbx_term_init(struct cbx_term *t, int fd);
void cbx_term_write(struct cbx_term *t, const char *p, size_t n);
void cbx_term_puts(struct cbx_term *t, const char *s);
/* End a line that has been begun. */
void cbx_term_fresh_line(struct cbx_term *t);
/* Write an unfinished control sequence after all, made visible. */
void cbx_term_flush(struct cbx_term *t);

#endif
