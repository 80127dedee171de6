/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_MCP_MCP_H
#define CBX_MCP_MCP_H

/*
 * The Model Context Protocol, on any transport that carries whole messages. One struct cbx_mcp is one connection with
 * one client; what carries the bytes (codeboxd's MCP socket) splits them into lines and hands each over.
 *
 * Nothing here blocks or waits: an answer that takes time is sent later from the event loop. Messages go out through
 * io->send, one call per message, without a newline at the end and with none inside; the carrier adds the newline.
 * A message is always shorter than CBX_REPLY_MAX bytes. send() must not free the struct cbx_mcp.
 */
#include <event2/event.h>
#include <stddef.h>

struct cbx_engine;
struct cbx_mcp;

struct cbx_mcp_io {
	void (*send)(void *arg, const char *line, size_t len);
	void *arg;
};

/* The io is copied. Cheap: no session is made before the first run_code. */
struct cbx_mcp *cbx_mcp_new(struct cbx_engine *engine, struct event_base *base, const struct cbx_mcp_io *io);
/* One line from the client, without its newline. Blank lines are ignored. */
void cbx_mcp_line(struct cbx_mcp *mcp, const char *line, size_t len);
/* The client sent a line longer than CBX_MESSAGE_MAX, which the carrier has thrown away. */
void cbx_mcp_too_long(struct cbx_mcp *mcp);
/* The connection has gone: its running executions are interrupted, and the session that was made for it is closed.
 * Sessions made by create_session stay. Nothing is sent any more. NULL is accepted. */
void cbx_mcp_free(struct cbx_mcp *mcp);

#endif
