/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_MCP_STREAM_H
#define CBX_MCP_STREAM_H

/* Notifications of changes, to those who asked for them. */
#include "mcp/state.h"
#include "tools/uri.h"

enum { CBX_NEWS_TOOLS = 1, CBX_NEWS_PROMPTS = 2, CBX_NEWS_RESOURCES = 4 };

struct cbx_mcp_task_watch;

struct cbx_mcp_watched {
	char *uri; /* as the client wrote it */
	enum cbx_uri_kind kind;
	uint64_t session, file; /* cbx_hash() of the session's id, and of the file's own address */
	bool due;
};

/* One that wants to hear: a subscriptions/listen request, or a legacy client as a whole (slot without an id). */
struct cbx_mcp_stream {
	TAILQ_ENTRY(cbx_mcp_stream) entry;
	struct cbx_rpc_slot slot;
	bool modern;
	unsigned wanted, due; /* CBX_NEWS_*: asked for; not told yet */
	struct cbx_mcp_watched *uris;
	size_t nuris;
	struct cbx_mcp_task_watch *tasks[CBX_STREAM_TASKS_MAX]; /* NULL: free */
};

void cbx_mcp_news_legacy(struct cbx_mcp *mcp); /* the handshake is over: list_changed may be sent */
bool cbx_mcp_streams_cancel(struct cbx_mcp *mcp, const char *id);
void cbx_mcp_news_drop(struct cbx_mcp *mcp); /* the connection has gone */
/* Send now the news that would follow a moment later: before an answer, since there are clients (a connection for each
 * call, with series 1 of the Python SDK) that fail on a message that comes while they are leaving. */
void cbx_mcp_news_flush(struct cbx_mcp *mcp);
/* What subscribe and unsubscribe do once the uri was checked; false: there are too many. */
bool cbx_mcp_news_subscribe(struct cbx_mcp *mcp, const char *uri);
void cbx_mcp_news_unsubscribe(struct cbx_mcp *mcp, const char *uri);

#endif
