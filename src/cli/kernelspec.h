/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_KERNELSPEC_H
#define CBX_CLI_KERNELSPEC_H

/* Where Jupyter finds the kernel. */
#include <stdbool.h>

#include "cli/mcpargs.h"

/* Make it known under this name, show how (print), or remove it; an exit status. */
int cbx_kernelspec_register(const char *program, const char *name, const struct cbx_mcp_args *mcp, bool print,
			    bool remove);

#endif
