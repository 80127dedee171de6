/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a request waits here for its answer. When the answer is the first thing that comes, it goes out
 * as JSON. When a notification comes first, or nothing for CBX_HTTP_STREAM_AFTER_MS, a stream of events is begun, if
 * the client takes one: proxies and clients give up on a request whose first byte does not come. Comments keep it
 * alive.
 *
 * Events of a session's requests have ids, and are kept for a while after the answer, within bounds: a client whose
 * connection was lost continues after the last event that it has. Meanwhile the exchange has no connection. Where an
 * event is over the bounds of its session, its tenant or all, what is kept of its stream is forgotten for it; the
 * answer is the last.
 *
 * The core must not be freed out of its own callbacks. They only note what has happened, and the tick timer, made due
 * at once, does the rest.
 */
#include "http/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "wire/rpc.h"

static void tick_in(struct cbx_http_exchange *ex, long ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	event_add(ex->tick, &tv);
}

/* The connection lives on without us. */
static struct cbx_http_conn *let_go(struct cbx_http_exchange *ex)
{
	cbx_http_conn_watch(ex->conn, NULL, NULL);
	return take_ptr(&ex->conn);
}

/* ---- what is kept ---- */

static void count_kept(struct cbx_http_exchange *ex, size_t change)
{
	for (struct cbx_http_kept *k = ex->keeper; k; k = k->all)
		k->bytes += change; /* a difference may wrap, and so does the sum */
	if (ex->keeper && ex->keeper->tenant)
		ex->keeper->tenant->kept += change;
}

static void forget_kept(struct cbx_http_exchange *ex)
{
	count_kept(ex, -ex->kept.len);
	ex->forgotten += ex->kept.len;
	cbx_buf_release(&ex->kept);
}

static bool fits(const struct cbx_http_exchange *ex, size_t len)
{
	const struct cbx_tenant *t = ex->keeper ? ex->keeper->tenant : NULL;

	for (const struct cbx_http_kept *k = ex->keeper; k; k = k->all)
		if (k->bytes + len > k->max)
			return false;
	return !t || t->kept + len <= CBX_HTTP_KEPT_TENANT;
}

static void keep(struct cbx_http_exchange *ex, const struct cbx_buf *event)
{
	if (!fits(ex, event->len))
		forget_kept(ex);
	if (!fits(ex, event->len)) {
		ex->forgotten += event->len;
		return;
	}
	cbx_buf_add(&ex->kept, event->data, event->len);
	count_kept(ex, event->len);
}

static void print_event(struct cbx_http_exchange *ex, struct cbx_buf *out, const char *line, size_t len)
{
	if (ex->number)
		cbx_buf_addf(out, "id: %" PRIu64 "-%" PRIu64 "\n", ex->number, ex->forgotten + ex->kept.len);
	if (line)
		cbx_http_event_print(out, line, len);
	else
		cbx_buf_adds(out, "data:\n\n");
	if (ex->number)
		keep(ex, out);
}

static void release(struct cbx_http_exchange *ex)
{
	if (ex->number)
		forget_kept(ex);
	LIST_REMOVE(ex, entry);
	event_free(ex->tick);
	ex->on_end(ex);
	free(ex);
}

/* Its client may come again. */
static void leave(struct cbx_http_exchange *ex)
{
	if (ex->done)
		tick_in(ex, CBX_HTTP_KEPT_S * 1000);
	else
		event_del(ex->tick);
	ex->on_left(ex);
}

void cbx_http_exchange_end(struct cbx_http_exchange *ex)
{
	if (ex->conn) {
		if (!ex->stream)
			cbx_http_exchange_stream(ex);
		cbx_http_stream_end(let_go(ex));
	}
	release(ex);
}

void cbx_http_exchange_lose(struct cbx_http_exchange *ex)
{
	if (ex->conn && !ex->stream) {
		cbx_http_refuse(let_go(ex), 404, CBX_RPC_SESSION_NOT_FOUND, NULL, "Session not found: it has ended");
		release(ex);
	} else {
		cbx_http_exchange_end(ex);
	}
}

void cbx_http_exchange_accept(struct cbx_http_exchange *ex)
{
	cbx_http_reply(let_go(ex), 202, NULL, NULL, 0);
	release(ex);
}

void cbx_http_exchange_cut(struct cbx_http_exchange *ex)
{
	if (ex->conn)
		cbx_http_conn_cut(ex->conn); /* calls lost() */
	else
		release(ex);
}

static void lost(void *arg)
{
	struct cbx_http_exchange *ex = arg;

	ex->conn = NULL;
	if (ex->number)
		leave(ex);
	else
		release(ex);
}

static void stream(struct cbx_http_exchange *ex);

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	static const char comment[] = ":\r\n\r\n";
	struct cbx_http_exchange *ex = arg;

	if (ex->doomed) {
		cbx_http_exchange_cut(ex);
	} else if (ex->done && ex->conn && ex->number) {
		cbx_http_stream_end(let_go(ex));
		leave(ex);
	} else if (ex->done) {
		cbx_http_exchange_end(ex);
	} else if (ex->conn) {
		if (ex->stream)
			cbx_http_exchange_raw(ex, comment, sizeof(comment) - 1);
		else
			stream(ex);
		if (!ex->doomed)
			tick_in(ex, CBX_HTTP_KEEPALIVE_S * 1000);
	}
}

struct cbx_http_exchange *cbx_http_exchange_new(struct cbx_http_conn *conn, struct cbx_http_exchanges *list,
						void (*on_end)(struct cbx_http_exchange *ex), void *arg)
{
	struct cbx_http_exchange *ex = cbx_xcalloc(1, sizeof(*ex));
	const struct cbx_http_head *h = &conn->head;

	ex->conn = conn;
	ex->on_end = on_end;
	ex->arg = arg;
	ex->may_stream = !cbx_http_head_field(h, "Accept") || cbx_http_head_accepts(h, "text/event-stream") ||
			 cbx_http_head_accepts(h, "*/*") || cbx_http_head_accepts(h, "text/*");
	ex->tick = event_new(conn->all->base, -1, 0, on_tick, ex);
	if (ex->may_stream)
		tick_in(ex, CBX_HTTP_STREAM_AFTER_MS);
	cbx_http_conn_watch(conn, lost, ex);
	LIST_INSERT_HEAD(list, ex, entry);
	return ex;
}

/* ---- answers ---- */

static void add_session_header(struct cbx_http_exchange *ex)
{
	if (ex->offers && !ex->refused)
		cbx_http_add_header(ex->conn, "Mcp-Session-Id", ex->offers);
}

void cbx_http_exchange_stream(struct cbx_http_exchange *ex)
{
	ex->stream = true;
	cbx_http_add_header(ex->conn, "Cache-Control", "no-cache, no-transform");
	cbx_http_add_header(ex->conn, "X-Accel-Buffering", "no");
	add_session_header(ex);
	cbx_http_stream_begin(ex->conn, 200, "text/event-stream", -1);
	tick_in(ex, CBX_HTTP_KEEPALIVE_S * 1000);
}

/* Begin the stream of an answer. */
static void stream(struct cbx_http_exchange *ex)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };

	cbx_http_exchange_stream(ex);
	if (!ex->keeper)
		return;
	ex->number = ++ex->keeper->streams;
	if (!ex->primes)
		return;
	print_event(ex, &b, NULL, 0);
	cbx_http_exchange_raw(ex, b.data, b.len);
}

bool cbx_http_exchange_resume(struct cbx_http_exchange *ex, struct cbx_http_conn *conn, uint64_t at)
{
	const char *next;
	size_t from = 0, n;
	char id[64];

	if (at >= ex->forgotten + ex->kept.len || (ex->done && !ex->kept.len))
		return false;
	if (at >= ex->forgotten) {
		n = (size_t)snprintf(id, sizeof(id), "id: %" PRIu64 "-%" PRIu64 "\n", ex->number, at);
		from = (size_t)(at - ex->forgotten);
		if (ex->kept.len - from < n || memcmp(ex->kept.data + from, id, n) != 0)
			return false;
		/* An event is printed on lines of its own, and ends with an empty one. */
		next = memmem(ex->kept.data + from, ex->kept.len - from, "\n\n", 2);
		from = (size_t)(next + 2 - ex->kept.data);
	}
	if (ex->conn)
		cbx_http_stream_end(let_go(ex));
	ex->conn = conn;
	ex->doomed = false;
	cbx_http_conn_watch(conn, lost, ex);
	cbx_http_exchange_stream(ex);
	cbx_http_exchange_raw(ex, ":\r\n\r\n", 5); /* something to send: the headers go with it */
	cbx_http_exchange_raw(ex, ex->kept.data + from, ex->kept.len - from);
	if (ex->done)
		tick_in(ex, 0);
	return true;
}

void cbx_http_exchange_raw(struct cbx_http_exchange *ex, const void *events, size_t len)
{
	if (cbx_http_unsent(ex->conn) + len > CBX_HTTP_STREAM_MAX) {
		ex->doomed = true;
		tick_in(ex, 0);
	} else if (!ex->doomed) {
		cbx_http_stream_send(ex->conn, events, len);
	}
}

void cbx_http_event_print(struct cbx_buf *out, const char *line, size_t len)
{
	cbx_buf_adds(out, "event: message\ndata: ");
	cbx_buf_add(out, line, len);
	cbx_buf_adds(out, "\n\n");
}

void cbx_http_exchange_event(struct cbx_http_exchange *ex, const char *line, size_t len)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };

	if (!ex->conn && !ex->number)
		return;
	if (!ex->stream)
		stream(ex);
	print_event(ex, &b, line, len);
	if (ex->conn)
		cbx_http_exchange_raw(ex, b.data, b.len);
}

static int status_of(const struct cbx_http_exchange *ex, int code)
{
	switch (code) {
	case CBX_RPC_PARSE:
	case CBX_RPC_INVALID_REQUEST:
	case CBX_RPC_HEADER_MISMATCH:
	case CBX_RPC_MISSING_CAPABILITY:
	case CBX_RPC_UNSUPPORTED_VERSION:
		return 400;
	case CBX_RPC_NO_METHOD:
		return ex->session ? 200 : 404;
	case CBX_RPC_INVALID_PARAMS:
		return ex->bad_meta ? 400 : 200;
	default:
		return 200;
	}
}

void cbx_http_exchange_send(void *arg, void *stream, int code, const char *line, size_t len)
{
	struct cbx_http_exchange *ex = stream;

	if (!ex->conn && !ex->number)
		return;
	if (code == CBX_RPC_MORE && !ex->may_stream && !ex->stream)
		return; /* a client that takes no events gets the answer only */
	if (ex->stream || code == CBX_RPC_MORE) {
		cbx_http_exchange_event(ex, line, len);
		return;
	}
	ex->refused = code != 0;
	add_session_header(ex);
	cbx_http_reply(let_go(ex), status_of(ex, code), "application/json", line, len);
}

void cbx_http_exchange_done(void *arg, void *stream)
{
	struct cbx_http_exchange *ex = stream;

	ex->done = true;
	tick_in(ex, ex->number && !ex->conn ? CBX_HTTP_KEPT_S * 1000 : 0);
}
