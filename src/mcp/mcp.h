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
#include <stdbool.h>
#include <stddef.h>

#include "wire/rpc.h"

#define CBX_META "io.modelcontextprotocol/" /* before the names of what the protocol itself has in _meta */

struct cbx_via;
struct cbx_engine;
struct cbx_mcp;
struct cbx_mcp_method;
struct cbx_mcp_revision;
struct cbx_tool;
struct cbx_principal;

/* What is served: codebox's own tables, those of a profile, or a test's. */
struct cbx_mcp_registry {
	const char *name; /* of a profile; NULL: codebox's own */
	const struct cbx_mcp_registry *const
		*others; /* profiles that a client may choose; NULL: none; NULL-terminated */
	/* What a profile says of itself; server NULL: codebox's own name and instructions. */
	const char *server, *instructions;
	const struct cbx_tool *const *tools; /* in the order in which clients see them; NULL-terminated */
	/* Methods instead of codebox's own resources, prompts and tasks; ended by one without a name. NULL: those. */
	const struct cbx_mcp_method *methods;
	/* Optional. The capabilities that are declared for them. */
	cJSON *(*capabilities)(const struct cbx_mcp_revision *rev);
	/* Optional. What a client answers to a request that one of the tools or methods has sent: the whole message. */
	void (*answered)(struct cbx_mcp *mcp, const cJSON *answer);
};

/* By the name of a profile, "native" for `own` itself; NULL: there is none. */
const struct cbx_mcp_registry *cbx_mcp_registry_find(const struct cbx_mcp_registry *own, const char *name);

/* The io is copied; the principal, who all requests are from, outlives it. The registry, borrowed, is what is served:
 * the table of tools. The engine may be NULL when nothing in it needs one. Cheap: no session is made before the first
 * run_code. */
struct cbx_mcp *cbx_mcp_new(struct cbx_engine *engine, const struct cbx_principal *principal, struct event_base *base,
			    const struct cbx_rpc_io *io, const struct cbx_mcp_registry *registry);
/* One line from the client, without its newline. Blank lines are ignored. */
void cbx_mcp_line(struct cbx_mcp *mcp, const char *line, size_t len);
/* For a carrier whose first line may be from codebox mcp, and only of that line: whether it said what the session is to
 * be that calls without one use (a notification with the members of session.h's cbx_session_spec_parse(), and "tools",
 * a profile). Else the line is the client's. */
bool cbx_mcp_session_line(struct cbx_mcp *mcp, const char *line, size_t len);
/* cbx_mcp_line() for a carrier with streams. False: nothing in it asks for an answer, and done will not be called.
 * True: done is called, before this returns or later. Until then `stream` must stay valid. */
bool cbx_mcp_message(struct cbx_mcp *mcp, const char *text, size_t len, void *stream);
/* The stream has gone: what belongs to it is still carried out, but goes nowhere, and done is not called. */
void cbx_mcp_forget(struct cbx_mcp *mcp, void *stream);
/* The client sent a line longer than CBX_MESSAGE_MAX, which the carrier has thrown away. */
void cbx_mcp_too_long(struct cbx_mcp *mcp);
/* Every request is one of the era without a handshake (2026-07-28), whether it says so or not: for a carrier which has
 * that from elsewhere, such as a header. */
/* From whom its messages are from now on; borrowed. */
void cbx_mcp_set_via(struct cbx_mcp *mcp, const struct cbx_via *via);
/* How to look up headers of the request that brings the next message, while it is handed over; NULL: there are none. */
void cbx_mcp_set_headers(struct cbx_mcp *mcp, const char *(*header)(void *arg, const char *name), void *arg);
void cbx_mcp_set_modern(struct cbx_mcp *mcp);
/* The era that the name of a revision belongs to; one that is newer than all that are known is of the modern one. */
enum cbx_mcp_era { CBX_MCP_UNKNOWN, CBX_MCP_LEGACY, CBX_MCP_MODERN };
enum cbx_mcp_era cbx_mcp_era_of(const char *version);
/* Whether its clients know streams that begin with an event that has an id alone. */
bool cbx_mcp_primes(const char *version);
/* The client will send no more, so it is not waited for. Whether an answer is still owed to it; what only tells of
 * changes is not counted. */
bool cbx_mcp_ending(struct cbx_mcp *mcp);
/* Tell those who wait for changes (subscriptions/listen) that there will be no more: before the carrier ends. */
void cbx_mcp_end_streams(struct cbx_mcp *mcp);
/* The connection has gone: its running executions are interrupted, and the session that was made for it is closed.
 * Sessions made by create_session stay. Nothing is sent any more. NULL is accepted. */
void cbx_mcp_free(struct cbx_mcp *mcp);

#endif
