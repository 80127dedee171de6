/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_CLEAN_H
#define CBX_BASE_CLEAN_H

/*
 * What a session or a client named or printed, made fit for a reader: a person's terminal, a log, a model.
 *
 * What passes is what is seen: letters, marks, numbers, punctuation, symbols and spaces in UTF-8, tab and newlines where
 * there can be lines, and, to a terminal, colours. All else is written as escapes, so that it is seen: controls (also C1
 * as single bytes, which are not UTF-8), marks that change the direction of text, by which a line can be made to look
 * like another, and what shows nothing and can hide text from a person that a model reads: tags, formats, fillers,
 * variation selectors, private use, planes in which nothing is assigned. Of what is not seen by itself four pass, as
 * scripts and emoji need them: the joiners U+200C and U+200D, and the selectors of text and of emoji, U+FE0E and U+FE0F.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Length of the character at p, of n > 0 bytes, when it must not pass; 0 when it may. *ret: its code, or the byte. */
size_t cbx_clean_unsafe(const char *p, size_t n, uint32_t *ret);
/* Append text as one line: newlines and tabs are escaped, too. */
void cbx_escape(struct cbx_buf *out, const char *text);
/* Whether text has nothing that cbx_clean() would change. */
bool cbx_is_clean(const char *text);
/* Append text of several lines for a model: control sequences (colours, titles, links) are omitted. */
void cbx_clean(struct cbx_buf *out, const char *text);

/* For a terminal, in pieces: what is not finished in one continues in the next. */
struct cbx_cleaner {
	char pending[32]; /* a control sequence or a character that has not ended yet */
	size_t npending;
	/* Who obeys a movement of the cursor or an erasure: ESC [ n letter. What came before it is in out. NULL: it is
	 * omitted. */
	void (*move)(void *arg, struct cbx_buf *out, char letter, unsigned n);
	void *arg;
};

void cbx_cleaner_feed(struct cbx_cleaner *c, struct cbx_buf *out, const char *p, size_t n);
/* Append what is unfinished, made visible. */
void cbx_cleaner_end(struct cbx_cleaner *c, struct cbx_buf *out);

#endif
