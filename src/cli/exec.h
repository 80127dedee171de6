/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_EXEC_H
#define CBX_CLI_EXEC_H

/* What `codebox exec` and `codebox shell` share. */
#include "cli/attach.h"
#include "cli/cli.h"

#define CBX_DETACH_KEYS "ctrl-p,ctrl-q"

/* Members of a request for a command that has our terminal. */
void cbx_exec_terminal(cJSON *params);
/* The exit status that stands for a command, or for the error that there was instead; says what is to be said. */
int cbx_exec_status(const cJSON *command, const struct cbx_attach *a, const struct cbx_err *err);

#endif
