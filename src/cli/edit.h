/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_EDIT_H
#define CBX_CLI_EDIT_H

/* A text of several lines and a cursor in it. Positions are in bytes, always between characters. */
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define CBX_EDIT_INDENT 4

struct cbx_edit {
	struct cbx_buf text; /* UTF-8, of characters that are seen, tabs and newlines */
	size_t at;	     /* the cursor */
	bool too_long;	     /* something had no room within CBX_CODE_MAX, and was not inserted */
};

/* Of a position: those around it, and the beginning and the end of its line. */
size_t cbx_edit_before(const struct cbx_edit *e, size_t at);
size_t cbx_edit_behind(const struct cbx_edit *e, size_t at);
size_t cbx_edit_line_begin(const struct cbx_edit *e, size_t at);
size_t cbx_edit_line_end(const struct cbx_edit *e, size_t at);
size_t cbx_edit_word_left(const struct cbx_edit *e, size_t at);
size_t cbx_edit_word_right(const struct cbx_edit *e, size_t at);
/* Whether there is nothing but white space in a part. */
bool cbx_edit_blank(const struct cbx_edit *e, size_t from, size_t to);

void cbx_edit_insert(struct cbx_edit *e, const char *p, size_t n); /* at the cursor, which is behind it then */
void cbx_edit_cut(struct cbx_edit *e, size_t from, size_t to);
void cbx_edit_replace(struct cbx_edit *e, const char *text, size_t n); /* all of it */
/* The character before the cursor; within the indentation, back to the level before. */
void cbx_edit_backspace(struct cbx_edit *e);
void cbx_edit_swap(struct cbx_edit *e); /* the two characters around the cursor */
/* To the line above or below, which is there. */
void cbx_edit_vertically(struct cbx_edit *e, bool up);

#endif
