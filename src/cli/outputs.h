/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_OUTPUTS_H
#define CBX_CLI_OUTPUTS_H

/* The outputs of a notebook's cells (nbformat 4), from what codeboxd says of them. */
#include "base/json.h"
#include "base/str.h"

/* Of one cell, as they come. A zeroed struct; cbx_outputs_release() in the end. */
struct cbx_outputs {
	const cJSON *cells;  /* of the notebook, borrowed: what they have shown can be updated; NULL: none */
	cJSON *list;	     /* NULL: none yet */
	struct cbx_buf text; /* of a stream, which has not ended */
	char stream[8];
};

void cbx_outputs_print(struct cbx_outputs *o, const char *stream, const char *text);
void cbx_outputs_show(struct cbx_outputs *o, const cJSON *display); /* {"data","metadata","is_result","display_id"?} */
void cbx_outputs_clear(struct cbx_outputs *o); /* what came so far is void */
/* The cell has ended as this execution: its outputs and its count are put into the notebook's cell. */
void cbx_outputs_finish(struct cbx_outputs *o, cJSON *cell, const cJSON *execution);
void cbx_outputs_release(struct cbx_outputs *o);

/* A text as a list of lines, as Jupyter writes it; ends: with their newlines. */
cJSON *cbx_outputs_lines(const char *text, bool ends);
/* Write the notebook to a file, in place of the one that is there; NULL: to standard output. */
int cbx_outputs_write(cJSON *notebook, const char *to, struct cbx_err *err);
/* The same of a text. */
int cbx_outputs_write_text(const struct cbx_buf *text, const char *to, struct cbx_err *err);

#endif
