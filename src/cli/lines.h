/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_LINES_H
#define CBX_CLI_LINES_H

/* Cells from the user, of as many lines as they have: edited on a terminal, plainly read otherwise. */
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct cbx_lines;

enum cbx_line {
	CBX_LINE_END,
	CBX_LINE_TEXT,
	CBX_LINE_INTERRUPTED,
	CBX_LINE_BAD, /* too long, or not UTF-8 */
};

/*
 * Completion: `text` is everything before the cursor; the answer is how many characters before the cursor are replaced,
 * and by which candidates. false: none.
 */
struct cbx_candidates {
	size_t replaced; /* characters before the cursor */
	char **texts;	 /* NULL-terminated, malloc'd */
};

struct cbx_lines_asks {
	bool (*complete)(void *arg, const char *text, struct cbx_candidates *ret);
	/* Whether a text continues in another line, and what that line is to begin with. */
	bool (*incomplete)(void *arg, const char *text, char *indent, size_t size);
	void *arg;
};

/* history: a file, or NULL. asks must live as long. */
struct cbx_lines *cbx_lines_new(const char *history, const struct cbx_lines_asks *asks);
void cbx_lines_free(struct cbx_lines *l);
bool cbx_lines_terminal(const struct cbx_lines *l);
/* One cell is put into `ret` (emptied first), without the newline of its last line, unless that was pasted. At the end of
 * the input, too, there may be a cell. */
enum cbx_line cbx_lines_read(struct cbx_lines *l, struct cbx_buf *ret);
/* These bytes were typed before: the prompt reads them first. */
void cbx_lines_typed(struct cbx_lines *l, const struct cbx_buf *typed);
void cbx_lines_remember(struct cbx_lines *l, const char *cell);

#endif
