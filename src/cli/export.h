/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_EXPORT_H
#define CBX_CLI_EXPORT_H

/* What a session has run, as a notebook, a script or a transcript: codebox session export. */
#include "client/client.h"

/* argv[0] is "export"; client NULL: no daemon runs. An exit status. */
int cbx_export(struct cbx_client *client, int argc, char **argv);

/* ---- export-script.c ---- */

/* Append one cell (see cbx_session_history()), whose source is text, to a script in a language. */
void cbx_export_script_cell(struct cbx_buf *out, const cJSON *cell, const char *source, const char *language);
void cbx_export_script_head(struct cbx_buf *out, const char *session, const char *language);

#endif
