/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a request waits here for its answer. When the answer is the first thing that comes, it goes out
 * as JSON. When a notification comes first, or nothing for CBX_HTTP_STREAM_AFTER_MS, a stream of events is begun, if
 * the client takes one: proxies and clients give up on a request whose first byte does not come. Comments keep it
 * alive.
 *
 * evhttp does not look at a connection while an answer is pending, so an event of ours on its descriptor tells when the
 * client leaves. It frees the connection, and evhttp's close callback, which comes for every other reason of an early
 * end, too, is the one place where the exchange learns of it.
 *
 * The core must not be freed out of its own callbacks. They only note what has happened, and the tick timer, made due
 * at once, does the rest.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "http/internal.h"

static struct bufferevent *bev_of(const struct cbx_http_exchange *ex)
{
	return evhttp_connection_get_bufferevent(evhttp_request_get_connection(ex->req));
}

static void tick_in(struct cbx_http_exchange *ex, long ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	event_add(ex->tick, &tv);
}

/* The connection is evhttp's again: it frees the request when the answer is out, and waits for the next one. */
static void let_go(struct cbx_http_exchange *ex)
{
	struct timeval idle = { .tv_sec = CBX_HTTP_IDLE_S };

	event_del(ex->closed);
	evhttp_connection_set_closecb(evhttp_request_get_connection(ex->req), NULL, NULL);
	bufferevent_set_timeouts(bev_of(ex), &idle, &idle);
	ex->req = NULL;
}

static void release(struct cbx_http_exchange *ex)
{
	struct cbx_http_session *session = ex->session;
	struct cbx_http *http = ex->http;

	LIST_REMOVE(ex, entry);
	event_free(ex->closed);
	event_free(ex->tick);
	if (session) {
		if (!ex->done && !ex->get)
			cbx_mcp_forget(session->mcp, ex);
		if (session->stream == ex)
			session->stream = NULL;
		session->exchanges--;
	} else {
		cbx_mcp_free(ex->mcp);
	}
	free(ex);
	if (session)
		cbx_http_session_left(session);
	cbx_http_check_idle(http);
}

void cbx_http_exchange_end(struct cbx_http_exchange *ex)
{
	struct evhttp_request *req = ex->req;

	if (req) {
		if (!ex->stream)
			cbx_http_exchange_stream(ex);
		/* In this order: for a client of HTTP/1.0 the end of a stream is that of request and connection. */
		let_go(ex);
		evhttp_send_reply_end(req);
	}
	release(ex);
}

void cbx_http_exchange_accept(struct cbx_http_exchange *ex)
{
	cbx_http_reply(ex->req, 202, NULL, NULL, 0);
	let_go(ex);
	release(ex);
}

void cbx_http_exchange_cut(struct cbx_http_exchange *ex)
{
	if (ex->req)
		evhttp_connection_free(evhttp_request_get_connection(ex->req)); /* calls lost() */
	else
		release(ex);
}

/* evhttp's close callback. */
static void lost(struct evhttp_connection *conn, void *arg)
{
	struct cbx_http_exchange *ex = arg;

	evhttp_connection_set_closecb(conn, NULL, NULL);
	/* When evhttp has noticed the end itself, it has parted the request from the connection, and it is ours. */
	if (!evhttp_request_get_connection(ex->req))
		evhttp_request_free(ex->req);
	ex->req = NULL;
	release(ex);
}

static void client_closed(evutil_socket_t fd, short what, void *arg)
{
	cbx_http_exchange_cut(arg);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	static const char comment[] = ":\r\n\r\n";
	struct cbx_http_exchange *ex = arg;
	struct cbx_buf b = { .data = (char *)comment, .len = sizeof(comment) - 1 };

	if (ex->doomed) {
		cbx_http_exchange_cut(ex);
	} else if (ex->done) {
		cbx_http_exchange_end(ex);
	} else if (ex->req) {
		if (ex->stream)
			cbx_http_exchange_raw(ex, &b);
		else
			cbx_http_exchange_stream(ex);
		tick_in(ex, CBX_HTTP_KEEPALIVE_S * 1000);
	}
}

struct cbx_http_exchange *cbx_http_exchange_new(struct cbx_http *http, struct evhttp_request *req,
						struct cbx_http_session *session)
{
	struct cbx_http_exchange *ex = cbx_xcalloc(1, sizeof(*ex));
	struct timeval write_only = { .tv_sec = CBX_HTTP_IDLE_S };
	const char *accept = cbx_http_header(req, "Accept");

	ex->http = http;
	ex->req = req;
	ex->session = session;
	ex->may_stream = !accept || strcasestr(accept, "text/event-stream") || strstr(accept, "*/*") ||
			 strcasestr(accept, "text/*");
	ex->closed = event_new(http->base, bufferevent_getfd(bev_of(ex)), EV_CLOSED, client_closed, ex);
	ex->tick = event_new(http->base, -1, 0, on_tick, ex);
	event_add(ex->closed, NULL);
	if (ex->may_stream)
		tick_in(ex, CBX_HTTP_STREAM_AFTER_MS);
	/* Nothing is read while the answer is pending; that is no reason to close the connection. */
	bufferevent_set_timeouts(bev_of(ex), NULL, &write_only);
	evhttp_connection_set_closecb(evhttp_request_get_connection(req), lost, ex);
	LIST_INSERT_HEAD(&http->exchanges, ex, entry);
	if (session)
		session->exchanges++;
	return ex;
}

/* ---- answers ---- */

static void add_session_header(struct cbx_http_exchange *ex)
{
	if (ex->initialize && !ex->session->failed)
		evhttp_add_header(evhttp_request_get_output_headers(ex->req), "Mcp-Session-Id", ex->session->id);
}

void cbx_http_exchange_stream(struct cbx_http_exchange *ex)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(ex->req);

	ex->stream = true;
	evhttp_add_header(headers, "Content-Type", "text/event-stream");
	evhttp_add_header(headers, "Cache-Control", "no-cache, no-transform");
	evhttp_add_header(headers, "X-Accel-Buffering", "no");
	add_session_header(ex);
	evhttp_send_reply_start(ex->req, 200, "OK");
	if (!evhttp_find_header(headers, "Transfer-Encoding")) { /* HTTP/1.0: no chunks, so its end is the connection's */
		evhttp_remove_header(headers, "Connection");
		evhttp_add_header(headers, "Connection", "close");
	}
	tick_in(ex, CBX_HTTP_KEEPALIVE_S * 1000);
}

void cbx_http_exchange_raw(struct cbx_http_exchange *ex, const struct cbx_buf *events)
{
	struct evbuffer *out = evbuffer_new();

	if (!out || evbuffer_add(out, events->data, events->len) < 0 ||
	    evbuffer_get_length(bufferevent_get_output(bev_of(ex))) + events->len > CBX_HTTP_STREAM_MAX) {
		ex->doomed = true;
		tick_in(ex, 0);
	} else if (!ex->doomed) {
		evhttp_send_reply_chunk(ex->req, out);
	}
	if (out)
		evbuffer_free(out);
}

void cbx_http_exchange_event(struct cbx_http_exchange *ex, const char *line, size_t len)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };

	if (!ex->req)
		return;
	cbx_buf_adds(&b, "event: message\ndata: ");
	cbx_buf_add(&b, line, len);
	cbx_buf_adds(&b, "\n\n");
	if (!ex->stream)
		cbx_http_exchange_stream(ex);
	cbx_http_exchange_raw(ex, &b);
}

static int status_of(const struct cbx_http_exchange *ex, int code)
{
	switch (code) {
	case -32700:
	case -32600:
		return 400;
	case -32601:
		return ex->session ? 200 : 404;
	case -32602:
		return ex->bad_meta ? 400 : 200;
	case -32020:
	case -32021:
	case -32022:
		return 400;
	default:
		return 200;
	}
}

void cbx_http_exchange_send(void *arg, void *stream, int code, const char *line, size_t len)
{
	struct cbx_http_exchange *ex = stream;

	if (!ex->req)
		return;
	if (code == CBX_MCP_MORE && !ex->may_stream && !ex->stream)
		return; /* a client that takes no events gets the answer only */
	if (ex->stream || code == CBX_MCP_MORE) {
		cbx_http_exchange_event(ex, line, len);
		return;
	}
	if (ex->initialize)
		ex->session->failed = code != 0;
	add_session_header(ex);
	cbx_http_reply(ex->req, status_of(ex, code), "application/json", line, len);
	let_go(ex);
}

void cbx_http_exchange_done(void *arg, void *stream)
{
	struct cbx_http_exchange *ex = stream;

	ex->done = true;
	tick_in(ex, 0);
}
