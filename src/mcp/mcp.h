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

struct cbx_engine;
struct cbx_mcp;
struct cbx_mcp_registry;

enum { CBX_MCP_MORE = 1 };

struct cbx_mcp_io {
	void (*send)(void *arg, const char *line, size_t len);
	void *arg;
	/*
	 * For a carrier on which every request has a stream of its own (HTTP); both or none. What belongs to a request
	 * that came through cbx_mcp_message() with a stream goes to send_to: its notifications, and its answer, for
	 * which `code` is the code of its JSON-RPC error, or 0; for all else it is CBX_MCP_MORE. After the answer, or
	 * when there will be none, done is called once. Everything else still goes to send. Neither may free the struct
	 * cbx_mcp.
	 */
	void (*send_to)(void *arg, void *stream, int code, const char *line, size_t len);
	void (*done)(void *arg, void *stream);
};

/* The io is copied. Cheap: no session is made before the first run_code. */
struct cbx_mcp *cbx_mcp_new(struct cbx_engine *engine, struct event_base *base, const struct cbx_mcp_io *io);
/* The same with other tools, resources and prompts (see internal.h) than codebox's own; borrowed. NULL: codebox's. The
 * engine may be NULL when nothing in the registry needs one. */
struct cbx_mcp *cbx_mcp_new_with(struct cbx_engine *engine, struct event_base *base, const struct cbx_mcp_io *io,
				 const struct cbx_mcp_registry *registry);
/* One line from the client, without its newline. Blank lines are ignored. */
void cbx_mcp_line(struct cbx_mcp *mcp, const char *line, size_t len);
/* The same for a carrier with streams. False: nothing in it asks for an answer, and done will not be called. True: done
 * is called, before this returns or later. Until then `stream` must stay valid. */
bool cbx_mcp_message(struct cbx_mcp *mcp, const char *text, size_t len, void *stream);
/* The stream has gone: what belongs to it is still carried out, but goes nowhere, and done is not called. */
void cbx_mcp_forget(struct cbx_mcp *mcp, void *stream);
/* The client sent a line longer than CBX_MESSAGE_MAX, which the carrier has thrown away. */
void cbx_mcp_too_long(struct cbx_mcp *mcp);
/* Every request is one of the era without a handshake (2026-07-28), whether it says so or not: for a carrier which has
 * that from elsewhere, such as a header. */
void cbx_mcp_set_modern(struct cbx_mcp *mcp);
/* Whether the raw text of an id may be echoed: a string of valid UTF-8 or a whole number, and short. */
bool cbx_mcp_id_valid(const char *id);
/* Whether it names a revision of the era with a handshake. */
bool cbx_mcp_legacy_knows(const char *version);
/* Those who wait for changes (subscriptions/listen) are told that there will be no more: before the carrier ends. */
void cbx_mcp_end_streams(struct cbx_mcp *mcp);
/* The connection has gone: its running executions are interrupted, and the session that was made for it is closed.
 * Sessions made by create_session stay. Nothing is sent any more. NULL is accepted. */
void cbx_mcp_free(struct cbx_mcp *mcp);

#endif
