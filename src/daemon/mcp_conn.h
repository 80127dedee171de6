/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_MCP_CONN_H
#define CBX_DAEMON_MCP_CONN_H

/* MCP over a connection of lines. */
#include "daemon/daemon.h"

/* As cbx_conn_new(). */
struct cbx_conn *cbx_mcp_accept(struct cbx_daemon *d, int fd, void (*gone)(void *arg), void *arg);

#endif
