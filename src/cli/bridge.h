/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_BRIDGE_H
#define CBX_CLI_BRIDGE_H

#include "base/buf.h"
#include "base/dirs.h"

/* Connect standard input and output with codeboxd's MCP socket until one of them ends; an exit status. session: the
 * line about the connection's own session; empty: there is nothing to say. */
int cbx_bridge_run(const struct cbx_dirs *dirs, const struct cbx_buf *session);

#endif
