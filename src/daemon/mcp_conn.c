/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: MCP knows messages, a connection knows lines; this joins one of each. The first line may be from
 * codebox mcp itself, of the session that it was started for: whoever reaches this socket is the same user.
 */
#include "daemon/mcp_conn.h"

#include <stdlib.h>

#include "base/buf.h"
#include "mcp/mcp.h"

struct mcp_conn {
	struct cbx_conn *conn;
	struct cbx_mcp *mcp;
	bool begun; /* there was a line */
};

static void mcp_send(void *arg, const char *line, size_t len)
{
	struct mcp_conn *m = arg;

	cbx_conn_send(m->conn, line, len);
}

static void mcp_line(void *state, char *line, size_t len)
{
	struct mcp_conn *m = state;
	bool first = !m->begun;

	m->begun = true;
	if (!first || !cbx_mcp_session_line(m->mcp, line, len))
		cbx_mcp_line(m->mcp, line, len);
}

static void mcp_too_long(void *state)
{
	struct mcp_conn *m = state;

	m->begun = true;
	cbx_mcp_too_long(m->mcp);
}

static void mcp_stop(void *state)
{
	struct mcp_conn *m = state;

	cbx_mcp_end_streams(m->mcp);
}

static bool mcp_end(void *state)
{
	struct mcp_conn *m = state;

	return cbx_mcp_ending(m->mcp);
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
	.on_end = mcp_end,
};

struct cbx_conn *cbx_mcp_accept(struct cbx_daemon *d, int fd, void (*gone)(void *arg), void *arg)
{
	static const struct cbx_via from = { .door = "mcp" };
	struct mcp_conn *m = cbx_xcalloc(1, sizeof(*m));
	struct cbx_rpc_io io = { .send = mcp_send, .arg = m };

	m->conn = cbx_conn_new(d->base, fd, &mcp_ops, m, gone, arg);
	if (!m->conn) {
		free(m);
		return NULL;
	}
	m->mcp = cbx_mcp_new(d->engine, &d->principal, d->base, &io, d->mcp);
	cbx_mcp_set_via(m->mcp, &from);
	return m->conn;
}
