/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_MCPARGS_H
#define CBX_CLI_MCPARGS_H

/* The arguments of the command that codebox register puts into a client: what `codebox mcp` is to be started with. */
#include "base/json.h"

struct cbx_mcp_args {
	const char *session, *policy, *folder, *workspace, *profile; /* as typed; NULL: none */
	const char *image, *language; /* of a kernel of Jupyter alone */
	char *dir; /* the folder or the workspace, absolute and without links; owned */
};

/* Whether it is the name of a profile, if there is one; that of codebox's own tools becomes NULL. An exit status, else.
 */
int cbx_mcp_profile_check(const char *command, const char **profile);
/* Checks them where they were typed; 0, or an exit status after saying what is wrong. */
int cbx_mcp_args_check(struct cbx_mcp_args *a);
/* ["mcp", ...] */
cJSON *cbx_mcp_args_json(const struct cbx_mcp_args *a);
/* The same for a shell, as "mcp ..."; malloc'd. */
char *cbx_mcp_args_shell(const struct cbx_mcp_args *a);
void cbx_mcp_args_release(struct cbx_mcp_args *a);

#endif
