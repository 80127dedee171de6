/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: MCP knows messages, a connection knows lines; this joins one of each. */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "daemon/daemon.h"
#include "mcp/mcp.h"

struct mcp_conn {
	struct cbx_conn *conn;
	struct cbx_mcp *mcp;
};

static void mcp_send(void *arg, const char *line, size_t len)
{
	struct mcp_conn *m = arg;

	cbx_conn_send(m->conn, line, len);
}

static void mcp_line(void *state, char *line, size_t len)
{
	struct mcp_conn *m = state;

	cbx_mcp_line(m->mcp, line, len);
}

static void mcp_too_long(void *state)
{
	struct mcp_conn *m = state;

	cbx_mcp_too_long(m->mcp);
}

static void mcp_stop(void *state)
{
	struct mcp_conn *m = state;

	cbx_mcp_end_streams(m->mcp);
}

static void mcp_close(void *state)
{
	struct mcp_conn *m = state;

	cbx_mcp_free(m->mcp);
	free(m);
}

static const struct cbx_conn_ops mcp_ops = {
	.on_line = mcp_line,
	.on_too_long = mcp_too_long,
	.on_close = mcp_close,
	.on_stop = mcp_stop,
};

int cbx_mcp_accept(struct cbx_daemon *d, int fd, struct cbx_client_entry *client)
{
	struct mcp_conn *m = cbx_xcalloc(1, sizeof(*m));
	struct cbx_mcp_io io = { .send = mcp_send, .arg = m };

	m->conn = cbx_conn_new(d->base, fd, &mcp_ops, m, cbx_client_gone, client);
	if (!m->conn) {
		free(m);
		return -ENOMEM;
	}
	client->conn = m->conn;
	m->mcp = cbx_mcp_new(d->engine, d->base, &io);
	return 0;
}
