/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_TRANSCRIPT_H
#define CBX_CLI_TRANSCRIPT_H

/* How a cell (see cbx_execution_entry()) and what it shows are written for a person. */
#include "base/buf.h"
#include "base/json.h"

/* As it was sent; of a program its file, if that is a text. Owned by the caller. */
char *cbx_transcript_source(const cJSON *cell);
/* With a first line that names its language, if that is another one than the session's own. Owned by the caller. */
char *cbx_transcript_marked(const cJSON *cell, const char *source, const char *own);
/* Append it behind the prompt that IPython has: "In [3]: ". Nothing in it is obeyed by a terminal. */
void cbx_transcript_prompt(struct cbx_buf *out, const cJSON *cell, const char *source);

/* What is shown of a MIME bundle as text: within it, or in `made`; "": nothing. */
const char *cbx_display_text(const cJSON *data, struct cbx_buf *made);

#endif
