/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_LINES_H
#define CBX_CLI_LINES_H

/* Lines from the user: with libedit on a terminal, plainly read otherwise. */
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct cbx_lines;

enum cbx_line { CBX_LINE_END, CBX_LINE_TEXT, CBX_LINE_INTERRUPTED };

/*
 * Completion: `text` is everything before the cursor (earlier lines of the input included); the answer is how many
 * characters before the cursor are replaced, and by which candidates. false: none.
 */
struct cbx_candidates {
	size_t replaced; /* characters before the cursor */
	char **texts;	 /* NULL-terminated, malloc'd */
};
typedef bool (*cbx_complete_fn)(void *arg, const char *text, struct cbx_candidates *ret);

/* history: a file, or NULL. */
struct cbx_lines *cbx_lines_new(const char *history, cbx_complete_fn complete, void *arg);
void cbx_lines_free(struct cbx_lines *l); /* saves the history */
bool cbx_lines_terminal(const struct cbx_lines *l);
/*
 * One line without its newline is put into `ret` (emptied first), or, where several were pasted, all of them; a last
 * newline is then there when it was pasted. `first`: of an input. `indent` is typed ahead on a terminal.
 */
enum cbx_line cbx_lines_read(struct cbx_lines *l, bool first, const char *indent, struct cbx_buf *ret);
/* These bytes were typed before: the prompt reads them first. */
void cbx_lines_typed(struct cbx_lines *l, const struct cbx_buf *typed);
void cbx_lines_remember(struct cbx_lines *l, const char *line);
void cbx_candidates_release(struct cbx_candidates *c);

#endif
