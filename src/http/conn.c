/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a connection reads a head, then a body, then nothing until the request is answered. The head is
 * judged, and passes the gate, before a byte of the body is kept. Each of these has its deadline, and none is put off
 * by a byte that comes: who sends slowly is cut off.
 * How many there may be, and who gives way for whom, is in room.c.
 *
 * While an answer is pending nothing is read, so an event of its own tells when the client leaves. An answer ends when
 * the token of its request does. A body that is taken in pieces is read while its answer is pending: one piece when it
 * is asked for, and until then what the client sends waits in the kernel.
 */
#include "http/conn.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/socket.h"
#include "base/str.h"
#include "base/timer.h"
#include "http/room.h"
#include "http/tls.h"
#include "observe/metrics.h"
#include "wire/listener.h"
#include "wire/rpc.h"

static struct evbuffer *input_of(const struct cbx_http_conn *c)
{
	return bufferevent_get_input(c->bev);
}

size_t cbx_http_unsent(const struct cbx_http_conn *c)
{
	return evbuffer_get_length(bufferevent_get_output(c->bev));
}

const char *cbx_http_header(const struct cbx_http_conn *c, const char *name)
{
	return cbx_http_head_field(&c->head, name);
}

static void deadline(struct cbx_http_conn *c, int seconds)
{
	struct timeval tv = { .tv_sec = seconds };

	event_add(c->timer, &tv);
}

void cbx_http_conns_pause(struct cbx_http_conns *all, bool on)
{
	all->full = on;
	for (size_t i = 0; i < all->ndoors; i++)
		cbx_listener_pause(all->doors[i].listener, on);
}

/* ---- the end ---- */

static void destroy(struct cbx_http_conn *c)
{
	cbx_event_free_p(&c->timer);
	cbx_event_free_p(&c->closed);
	bufferevent_free(c->bev);
	cbx_http_head_release(&c->head);
	cbx_buf_release(&c->body);
	cbx_buf_release(&c->fields);
	free(c);
}

void cbx_http_conn_cut(struct cbx_http_conn *c)
{
	void (*on_gone)(void *arg) = c->on_gone;

	if (c->state == CBX_HTTP_GONE)
		return;
	cbx_http_room_leave(c);
	c->state = CBX_HTTP_GONE;
	cbx_http_who_release(&c->who);
	c->on_gone = NULL;
	event_del(c->timer);
	event_del(c->closed);
	cbx_http_room_check(c->all);
	if (on_gone)
		on_gone(c->arg);
	if (!c->busy)
		destroy(c);
}

void cbx_http_conn_watch(struct cbx_http_conn *c, void (*on_gone)(void *arg), void *arg)
{
	c->on_gone = on_gone;
	c->on_drained = NULL;
	c->arg = arg;
}

void cbx_http_conn_drain(struct cbx_http_conn *c, void (*on_drained)(void *arg))
{
	c->on_drained = on_drained;
}

static void forget_body(struct cbx_http_conn *c)
{
	size_t had = c->body.len;

	cbx_buf_release(&c->body);
	if (had)
		cbx_http_room_body(c, had);
}

/* The answer is given: wait for the next request, or see this one's answer out. */
static void answered(struct cbx_http_conn *c)
{
	c->on_gone = c->on_drained = NULL;
	c->on_piece = NULL;
	forget_body(c);
	cbx_http_room_transferred(c);
	cbx_http_room_held(c);
	cbx_http_who_release(&c->who);
	event_del(c->closed);
	bufferevent_enable(c->bev, EV_READ);
	c->scanned = 0;
	c->again = !c->head.close && !c->busy && evbuffer_get_length(input_of(c)) > 0;
	c->state = c->head.close ? CBX_HTTP_LINGERS : CBX_HTTP_READS_HEAD;
	/* The core may be calling us: its next message waits for a turn of its own. */
	deadline(c, c->again ? 0 : CBX_HTTP_IDLE_S);
	/* A stream whose end is the connection's may have nothing left to be written. */
	if (c->head.close)
		bufferevent_trigger(c->bev, EV_WRITE, BEV_TRIG_DEFER_CALLBACKS);
	cbx_http_room_move(c);
}

/* ---- answers ---- */

void cbx_http_add_header(struct cbx_http_conn *c, const char *name, const char *value)
{
	cbx_buf_addf(&c->fields, "%s: %s\r\n", name, value);
}

static void send_head(struct cbx_http_conn *c, int status)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	time_t now = time(NULL);
	char date[40];
	struct tm tm;

	cbx_metrics_answered(c->all->metrics, status);
	if (gmtime_r(&now, &tm) && strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm))
		cbx_http_add_header(c, "Date", date);
	if (c->in_pieces && !c->complete)
		c->head.close = true; /* nobody asks for the rest */
	if (c->head.close)
		cbx_http_add_header(c, "Connection", "close");
	cbx_buf_addf(&out, "HTTP/1.1 %d %s\r\n%s\r\n", status, cbx_http_reason(status), cbx_buf_str(&c->fields));
	cbx_buf_release(&c->fields);
	bufferevent_write(c->bev, out.data, out.len);
}

void cbx_http_reply(struct cbx_http_conn *c, int status, const char *type, const void *body, size_t len)
{
	char length[24];

	snprintf(length, sizeof(length), "%zu", len);
	if (status == 304)
		body = NULL; /* nor does it say how long that would be */
	if (body)
		cbx_http_add_header(c, "Content-Type", type);
	if (status != 304)
		cbx_http_add_header(c, "Content-Length", length);
	if (!strstr(cbx_buf_str(&c->fields), "Cache-Control: "))
		cbx_http_add_header(c, "Cache-Control", "no-store");
	cbx_http_add_header(c, "X-Content-Type-Options", "nosniff");
	send_head(c, status);
	if (body && c->head.method != CBX_HTTP_HEAD)
		bufferevent_write(c->bev, body, len);
	answered(c);
}

void cbx_http_refuse(struct cbx_http_conn *c, int status, int code, const char *id, const char *fmt, ...)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	char msg[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	cbx_rpc_print_error(&out, id, code, msg);
	cbx_http_reply(c, status, "application/json", out.data, out.len);
}

bool cbx_http_is_mcp(const struct cbx_http_conn *c)
{
	return strcmp(c->head.path, "/mcp") == 0 || cbx_starts_with(c->head.path, "/mcp/");
}

void cbx_http_deny(struct cbx_http_conn *c, int status, const char *kind, const char *why)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	_cleanup_json_ cJSON *o = NULL;

	if (!c->head.path || cbx_http_is_mcp(c)) {
		cbx_http_refuse(c, status, CBX_RPC_INVALID_REQUEST, NULL, "%s", why);
		return;
	}
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "detail", why);
	cbx_json_print(&out, o);
	cbx_http_add_header(c, "Codebox-Error", kind);
	cbx_http_reply(c, status, "application/json", out.data, out.len);
}

void cbx_http_stream_begin(struct cbx_http_conn *c, int status, const char *type, int64_t length)
{
	char text[24];

	c->chunked = length < 0 && !c->head.http10;
	cbx_http_add_header(c, "Content-Type", type);
	if (c->chunked)
		cbx_http_add_header(c, "Transfer-Encoding", "chunked");
	if (length >= 0) {
		snprintf(text, sizeof(text), "%lld", (long long)length);
		cbx_http_add_header(c, "Content-Length", text);
	}
	send_head(c, status);
}

void cbx_http_stream_send(struct cbx_http_conn *c, const void *p, size_t len)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	if (!len || c->head.method == CBX_HTTP_HEAD)
		return;
	if (c->chunked)
		evbuffer_add_printf(out, "%zx\r\n", len);
	evbuffer_add(out, p, len);
	if (c->chunked)
		evbuffer_add(out, "\r\n", 2);
}

void cbx_http_stream_end(struct cbx_http_conn *c)
{
	if (c->chunked && c->head.method != CBX_HTTP_HEAD)
		bufferevent_write(c->bev, "0\r\n\r\n", 5);
	answered(c);
}

/* ---- requests ---- */

/* What is wrong with it as HTTP: said, and the connection ends. */
static void refuse_request(struct cbx_http_conn *c, int status, const char *why)
{
	_cleanup_free_ char *text = cbx_xasprintf("Bad Request: %s", why);

	c->head.close = true;
	cbx_http_deny(c, status, status == 413 ? "too_large" : status == 408 ? "timeout" : "invalid_request", text);
}

/* An answer that lasts longer than its token ends with it. Clocks are set: look again now and then. */
static void watch_expiry(struct cbx_http_conn *c)
{
	int64_t left = c->who.expires - time(NULL);

	deadline(c, left <= 0 ? 0 : left < CBX_HTTP_EXPIRY_S ? (int)left : CBX_HTTP_EXPIRY_S);
}

static void watch_answer(struct cbx_http_conn *c)
{
	if (c->who.expires)
		watch_expiry(c);
	else
		event_del(c->timer);
	bufferevent_disable(c->bev, EV_READ);
}

static void begin_answer(struct cbx_http_conn *c)
{
	_cleanup_buf_ struct cbx_buf body = c->body;

	memset(&c->body, 0, sizeof(c->body));
	cbx_http_room_body(c, body.len);
	c->state = CBX_HTTP_ANSWERS;
	watch_answer(c);
	event_add(c->closed, NULL);
	cbx_http_room_move(c);
	c->all->ops->on_request(c->all->arg, c, body.data, body.len);
}

/* A client that asked first may send its body. */
static void go_on(struct cbx_http_conn *c)
{
	if (c->head.expects)
		bufferevent_write(c->bev, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	c->head.expects = false;
}

/* True: there is something else to do. */
static bool read_head(struct cbx_http_conn *c)
{
	size_t len = evbuffer_get_length(input_of(c));
	const char *text, *why = "the request is not HTTP/1.1, or its headers are too long";
	int r;

	/* Who asks and does not take the answers is asked nothing more: on_written() continues. */
	if (!len || cbx_http_unsent(c) > CBX_HTTP_UNTAKEN_MAX)
		return false;
	if (!c->scanned)
		deadline(c, CBX_HTTP_HEAD_S);
	if (len > CBX_HTTP_HEADERS_MAX + 1)
		len = CBX_HTTP_HEADERS_MAX + 1;
	text = (const char *)evbuffer_pullup(input_of(c), (ssize_t)len);
	cbx_http_head_release(&c->head);
	r = text ? cbx_http_head_end(text, len, &c->scanned) : -400;
	if (r == 0)
		return false;
	r = r < 0 ? -r : cbx_http_head_parse(text, c->scanned, &c->head, &why);
	evbuffer_drain(input_of(c), c->scanned);
	if (r) {
		refuse_request(c, r, why);
		return false;
	}
	if (!c->all->ops->on_head(c->all->arg, c))
		return false;
	cbx_http_room_known(c);
	if (!c->who.principal && (c->head.length || c->head.chunked)) {
		refuse_request(c, 413, "this request has no body: remove it");
		return false;
	}
	c->in_pieces = c->all->ops->in_pieces && c->all->ops->in_pieces(c->all->arg, c);
	if (!c->in_pieces && c->head.length > CBX_HTTP_BODY_MAX) {
		refuse_request(c, 413, "the body is too large");
		return false;
	}
	memset(&c->chunks, 0, sizeof(c->chunks));
	c->taken = 0;
	c->complete = !c->head.chunked && !c->head.length;
	if (c->in_pieces) {
		begin_answer(c);
		return true;
	}
	go_on(c);
	c->state = CBX_HTTP_READS_BODY;
	deadline(c, CBX_HTTP_BODY_S);
	return true;
}

/* Of a body, what is there. 0, or a status. */
static int take_body(struct cbx_http_conn *c)
{
	uint64_t want = c->head.length - c->taken - c->body.len;
	struct evbuffer *in = input_of(c);
	size_t had = c->body.len, len = evbuffer_get_length(in), used;
	int status = 0;

	if (c->head.chunked) {
		if (c->taken + c->body.len + len > CBX_HTTP_PIECES_MAX)
			return 413;
		while (!status && c->chunks.state != CBX_HTTP_CHUNK_END && (len = evbuffer_get_contiguous_space(in))) {
			const char *p = (const char *)evbuffer_pullup(in, (ssize_t)len);

			status = cbx_http_chunks_feed(&c->chunks, p, len, &c->body, &used);
			if (!status)
				evbuffer_drain(in, used);
		}
		c->complete = c->chunks.state == CBX_HTTP_CHUNK_END;
	} else {
		if (len > want)
			len = (size_t)want;
		if (len && evbuffer_remove(in, cbx_buf_reserve(&c->body, len), len) == (int)len)
			c->body.len += len;
		c->complete = c->taken + c->body.len == c->head.length;
	}
	cbx_http_room_body(c, had);
	return status;
}

static const char *why_not(int status)
{
	return status == 413 ? "the body is too large" : "the chunks are malformed";
}

static bool read_body(struct cbx_http_conn *c)
{
	int status = take_body(c);

	if (status) {
		forget_body(c);
		refuse_request(c, status, why_not(status));
		return false;
	}
	if (!c->complete)
		return false;
	begin_answer(c);
	return true;
}

/* ---- bodies in pieces ---- */

/* Whoever waits for the next piece learns that the client has left; the client, why. */
static void give_up(struct cbx_http_conn *c, int status, const char *why)
{
	void (*on_gone)(void *arg) = c->on_gone;

	c->on_gone = NULL;
	if (on_gone)
		on_gone(c->arg);
	refuse_request(c, status, why);
}

static bool read_piece(struct cbx_http_conn *c)
{
	void (*on_piece)(void *arg, const char *p, size_t n, bool last) = c->on_piece;
	int status = take_body(c);

	if (status) {
		give_up(c, status, why_not(status));
		return false;
	}
	if (!c->complete && c->body.len < CBX_HTTP_PIECE)
		return false;
	c->on_piece = NULL;
	watch_answer(c);
	on_piece(c->arg, cbx_buf_str(&c->body), c->body.len, c->complete);
	return true;
}

void cbx_http_conn_pull(struct cbx_http_conn *c, void (*on_piece)(void *arg, const char *p, size_t n, bool last))
{
	bool over = c->who.expires && time(NULL) >= c->who.expires;

	c->taken += c->body.len;
	forget_body(c);
	c->on_piece = on_piece;
	go_on(c);
	deadline(c, over ? 0 : CBX_HTTP_BODY_S);
	bufferevent_enable(c->bev, EV_READ);
	bufferevent_trigger(c->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
}

static bool read_more(struct cbx_http_conn *c)
{
	switch (c->state) {
	case CBX_HTTP_READS_HEAD:
		return read_head(c);
	case CBX_HTTP_READS_BODY:
		return read_body(c);
	case CBX_HTTP_ANSWERS:
		return c->on_piece && read_piece(c);
	default:
		return false;
	}
}

static void advance(struct cbx_http_conn *c)
{
	bool more = true;

	if (c->again) /* its turn has come, and the timer is for what follows */
		deadline(c, CBX_HTTP_IDLE_S);
	c->again = false;
	c->busy = true;
	while (more)
		more = read_more(c);
	c->busy = false;
	if (c->state == CBX_HTTP_LINGERS) {
		c->discarded += evbuffer_get_length(input_of(c));
		evbuffer_drain(input_of(c), evbuffer_get_length(input_of(c)));
		if (c->discarded > CBX_HTTP_BODY_MAX / 4 * 5)
			cbx_http_conn_cut(c);
		return;
	}
	if (c->state == CBX_HTTP_GONE)
		destroy(c);
}

/* ---- events ---- */

static void on_read(struct bufferevent *bev, void *arg)
{
	advance(arg);
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct cbx_http_conn *c = arg;

	if (c->state == CBX_HTTP_ANSWERS && c->on_drained) {
		c->on_drained(c->arg);
		return;
	}
	if (c->state == CBX_HTTP_READS_HEAD && evbuffer_get_length(input_of(c))) {
		advance(c);
		return;
	}
	if (c->state != CBX_HTTP_LINGERS || cbx_http_unsent(c))
		return;
	if (c->ended) {
		cbx_http_conn_cut(c);
		return;
	}
	if (c->door->tls)
		cbx_http_tls_goodbye(bev);
	shutdown(bufferevent_getfd(bev), SHUT_WR);
	deadline(c, CBX_HTTP_LINGER_S);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct cbx_http_conn *c = arg;

	if (what & BEV_EVENT_CONNECTED) /* by TLS */
		return;
	if ((what & BEV_EVENT_ERROR) && c->door->tls)
		cbx_http_tls_tell(bev);
	if ((what & BEV_EVENT_EOF) && c->state != CBX_HTTP_ANSWERS && cbx_http_unsent(c)) {
		c->ended = true;
		c->state = CBX_HTTP_LINGERS; /* until what was said is out */
		return;
	}
	cbx_http_conn_cut(c);
}

static void on_closed(evutil_socket_t fd, short what, void *arg)
{
	cbx_http_conn_cut(arg);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_http_conn *c = arg;

	if (c->state == CBX_HTTP_ANSWERS && c->on_piece) {
		give_up(c, 408, "the request was not complete in time");
	} else if (c->state == CBX_HTTP_ANSWERS && time(NULL) < c->who.expires) {
		watch_expiry(c);
	} else if (c->state == CBX_HTTP_ANSWERS) {
		cbx_http_conn_cut(c);
	} else if (c->again) {
		advance(c);
	} else if (c->state == CBX_HTTP_LINGERS || (c->state == CBX_HTTP_READS_HEAD && !c->scanned)) {
		/* A client that takes its answer slowly is not idle; if it takes nothing, writing has its own time. */
		if (cbx_http_unsent(c) && !c->ended)
			deadline(c, CBX_HTTP_IDLE_S);
		else
			cbx_http_conn_cut(c);
	} else {
		forget_body(c);
		refuse_request(c, 408, "the request was not complete in time");
	}
}

static uid_t user_of(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	struct cbx_address a;

	/* Of other sockets it says whoever runs codeboxd. */
	if (cbx_address_of(fd, &a) < 0 || a.at.any.sa_family != AF_UNIX ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return CBX_HTTP_NO_USER;
	return peer.uid;
}

void cbx_http_conn_accept(struct cbx_http_conns *all, const struct cbx_http_door *door, int fd)
{
	struct timeval write_only = { .tv_sec = CBX_HTTP_IDLE_S };
	struct cbx_http_conn *c = cbx_xcalloc(1, sizeof(*c));

	c->all = all;
	c->door = door;
	c->uid = user_of(fd);
	c->bev = door->tls ? cbx_http_tls_accept(door->tls, all->base, fd)
			   : bufferevent_socket_new(all->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!c->bev) {
		close(fd);
		free(c);
		return;
	}
	c->timer = event_new(all->base, -1, 0, on_timer, c);
	c->closed = event_new(all->base, fd, EV_CLOSED, on_closed, c);
	if (!c->timer || !c->closed || !cbx_http_room_count(c) || !cbx_http_room_enter(c, fd)) {
		destroy(c);
		return;
	}
	bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, CBX_HTTP_INPUT_MAX);
	bufferevent_set_timeouts(c->bev, NULL, &write_only);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
	deadline(c, CBX_HTTP_HEAD_S);
}
