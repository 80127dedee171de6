/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: bytes are read into one flat buffer and handed out line by line, a bounded number in a turn. A
 * line that grows over the limit is dropped as it comes, up to its newline. Closing is always begun here and finished
 * from the event loop, so that ops may call anything.
 *
 * Waking the peer costs more than making a line for it, so what is sent in a turn goes out together, at its end.
 *
 * A peer that has ended what it sends (half a connection is left) is served until nothing is owed to it. That it has
 * gone altogether is then told by a second descriptor, watched for changes: the end of what it sends stays readable.
 */
#include "wire/conn.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/timer.h"

#define CHUNK	       KIB(64)
#define LINES_PER_TURN 32
#define RESUME_BELOW   MIB(1)
#define LINGER_S       3 /* how long a closing connection may take to send what is pending */
#define TOGETHER_MAX   KIB(64) /* bytes that wait for the end of a turn */

struct cbx_conn {
	int fd, hup_fd; /* the same, to learn of the peer's end; -1: not needed yet */
	struct event *in, *out, *again, *linger, *flush, *hup;
	struct cbx_buf rx;
	size_t scanned; /* rx holds no newline before this */
	struct evbuffer *tx;
	struct cbx_conn_ops ops;
	void *state;
	void (*gone)(void *arg);
	void *arg;
	bool discarding, paused, closing, told, put_off, ended;
};

void cbx_conn_stop(struct cbx_conn *c)
{
	if (!c->closing && c->ops.on_stop)
		c->ops.on_stop(c->state);
}

void cbx_conn_free(struct cbx_conn *c)
{
	struct event *events[] = { c->in, c->out, c->again, c->linger, c->flush, c->hup };

	c->closing = true;
	if (!c->told) {
		c->told = true;
		c->ops.on_close(c->state);
		if (c->tx)
			(void)evbuffer_write(c->tx, c->fd); /* what was said in this turn */
	}
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		cbx_event_free_p(&events[i]);
	if (c->tx)
		evbuffer_free(c->tx);
	cbx_buf_release(&c->rx);
	cbx_close_p(&c->hup_fd);
	cbx_close_p(&c->fd);
	if (c->gone)
		c->gone(c->arg);
	free(c);
}

size_t cbx_conn_pending(const struct cbx_conn *c)
{
	return evbuffer_get_length(c->tx);
}

int cbx_conn_fd(const struct cbx_conn *c)
{
	return c->fd;
}

/* The peer has gone or gives up its rights: nothing more can be sent. */
static void drop(struct cbx_conn *c)
{
	evbuffer_drain(c->tx, evbuffer_get_length(c->tx));
	event_del(c->out);
	cbx_conn_close(c);
}

static void send_out(struct cbx_conn *c)
{
	while (evbuffer_get_length(c->tx)) {
		int n = evbuffer_write(c->tx, c->fd);

		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			event_add(c->out, NULL);
			return;
		}
		if (n <= 0) {
			drop(c);
			return;
		}
	}
}

/* Unless it is the peer that lets us wait. */
static void flush(struct cbx_conn *c)
{
	if (!event_pending(c->out, EV_WRITE, NULL))
		send_out(c);
}

/* From the event loop, while closing: tell the owner, and end when all is sent. */
static void close_step(struct cbx_conn *c)
{
	if (!c->told) {
		c->told = true;
		c->ops.on_close(c->state);
	}
	flush(c);
	if (cbx_conn_pending(c) == 0)
		cbx_conn_free(c);
}

void cbx_conn_close(struct cbx_conn *c)
{
	struct timeval tv = { .tv_sec = LINGER_S };

	if (c->closing)
		return;
	c->closing = true;
	event_del(c->in);
	event_add(c->linger, &tv);
	event_active(c->again, EV_TIMEOUT, 1);
}

void cbx_conn_send(struct cbx_conn *c, const char *line, size_t len)
{
	cbx_conn_send_bytes(c, line, len, NULL, 0);
}

static void tell_room(struct cbx_conn *c)
{
	if (c->ops.on_room && !c->closing && cbx_conn_pending(c) < CBX_STREAM_RESUME)
		c->ops.on_room(c->state);
}

void cbx_conn_send_bytes(struct cbx_conn *c, const char *line, size_t len, const void *p, size_t n)
{
	if (c->closing)
		return;
	if (cbx_conn_pending(c) + len + n > CBX_CLIENT_QUEUE_MAX || evbuffer_add(c->tx, line, len) < 0 ||
	    evbuffer_add(c->tx, "\n", 1) < 0 || (n && evbuffer_add(c->tx, p, n) < 0)) {
		drop(c);
		return;
	}
	if (cbx_conn_pending(c) < TOGETHER_MAX || c->ended)
		event_active(c->flush, EV_TIMEOUT, 1);
	else
		flush(c);
	if (!c->closing && cbx_conn_pending(c) > CBX_CLIENT_PAUSE && !c->paused) {
		c->paused = true;
		event_del(c->in);
	}
}

/* One line at p, with its newline at p[len]. */
static void one_line(struct cbx_conn *c, char *p, size_t len)
{
	if (c->discarding || len > CBX_MESSAGE_MAX) {
		c->discarding = false;
		c->ops.on_too_long(c->state);
		return;
	}
	if (len && p[len - 1] == '\r')
		len--;
	p[len] = '\0';
	c->ops.on_line(c->state, p, len);
}

static void lines(struct cbx_conn *c)
{
	size_t at = 0;
	int n = 0;

	while (!c->closing && !c->paused && at < c->rx.len) {
		char *from = c->rx.data + (c->scanned > at ? c->scanned : at);
		char *nl = memchr(from, '\n', (size_t)(c->rx.data + c->rx.len - from));

		if (!nl) {
			c->scanned = c->rx.len;
			break;
		}
		if (n++ == LINES_PER_TURN) {
			event_active(c->again, EV_TIMEOUT, 1);
			break;
		}
		one_line(c, c->rx.data + at, (size_t)(nl - c->rx.data) - at);
		at = (size_t)(nl - c->rx.data) + 1;
	}
	cbx_buf_drop(&c->rx, at);
	c->scanned -= c->scanned < at ? c->scanned : at;
	if (c->rx.len > CBX_MESSAGE_MAX && c->scanned == c->rx.len) {
		c->discarding = true;
		c->rx.len = 0;
	}
	if (c->discarding && c->scanned == c->rx.len)
		c->rx.len = 0;
	if (c->rx.len == 0) {
		c->scanned = 0;
		if (c->rx.cap > 2 * CHUNK)
			cbx_buf_release(&c->rx);
	}
}

/* Both directions have ended, which only the whole connection's end does. */
static void conn_hup(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_conn *c = arg;
	struct pollfd p = { .fd = c->fd };

	if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)))
		cbx_conn_close(c);
}

static void close_unless_owed(struct cbx_conn *c)
{
	if (!c->closing && !c->ops.on_end(c->state) && !cbx_conn_pending(c))
		cbx_conn_close(c);
}

/* No more comes: what came last may lack its newline. */
static void end_of_input(struct cbx_conn *c)
{
	struct pollfd p = { .fd = c->fd };

	if (!c->ops.on_end || (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)))) {
		cbx_conn_close(c);
		return;
	}
	c->ended = true;
	event_del(c->in);
	if (c->rx.len || c->discarding)
		one_line(c, cbx_buf_reserve(&c->rx, 0) - c->rx.len, c->rx.len);
	if (c->closing)
		return;
	c->hup_fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
	c->hup = c->hup_fd < 0 ? NULL : event_new(event_get_base(c->in), c->hup_fd, EV_READ | EV_PERSIST | EV_ET,
						  conn_hup, c);
	if (!c->hup || event_add(c->hup, NULL) < 0)
		cbx_conn_close(c);
	else
		close_unless_owed(c);
}

static void conn_in(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_conn *c = arg;
	ssize_t n;

	if (event_pending(c->again, EV_TIMEOUT, NULL))
		return; /* there are lines from before */
	n = read(c->fd, cbx_buf_reserve(&c->rx, CHUNK), CHUNK);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		if (n == 0)
			end_of_input(c);
		else
			cbx_conn_close(c);
		return;
	}
	c->rx.len += (size_t)n;
	c->rx.data[c->rx.len] = '\0';
	lines(c);
}

static void conn_out(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_conn *c = arg;

	send_out(c);
	if (c->closing) {
		if (c->told && cbx_conn_pending(c) == 0)
			cbx_conn_free(c);
		return;
	}
	if (c->ended)
		close_unless_owed(c);
	tell_room(c);
	if (c->paused && cbx_conn_pending(c) < RESUME_BELOW) {
		c->paused = false;
		if (!c->ended)
			event_add(c->in, NULL);
		event_active(c->again, EV_TIMEOUT, 1);
	}
}

static void conn_again(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_conn *c = arg;

	if (c->closing)
		close_step(c);
	else
		lines(c);
}

/* First behind what others have put off for this turn: of that, too, something may be said here. */
static void conn_flush(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_conn *c = arg;

	c->put_off = !c->put_off;
	if (c->put_off) {
		event_active(c->flush, EV_TIMEOUT, 1);
		return;
	}
	flush(c);
	tell_room(c);
	if (c->ended)
		close_unless_owed(c);
}

static void conn_linger(evutil_socket_t fd, short what, void *arg)
{
	cbx_conn_free(arg);
}

struct cbx_conn *cbx_conn_new(struct event_base *base, int fd, const struct cbx_conn_ops *ops, void *state,
			      void (*gone)(void *arg), void *arg)
{
	struct cbx_conn *c = cbx_xcalloc(1, sizeof(*c));

	c->fd = fd;
	c->hup_fd = -1;
	c->ops = *ops;
	c->state = state;
	c->tx = evbuffer_new();
	c->in = event_new(base, fd, EV_READ | EV_PERSIST, conn_in, c);
	c->out = event_new(base, fd, EV_WRITE, conn_out, c);
	c->again = event_new(base, -1, 0, conn_again, c);
	c->linger = event_new(base, -1, 0, conn_linger, c);
	c->flush = event_new(base, -1, 0, conn_flush, c);
	if (!c->tx || !c->in || !c->out || !c->again || !c->linger || !c->flush || event_add(c->in, NULL) < 0) {
		c->told = true;
		cbx_conn_free(c);
		return NULL;
	}
	c->gone = gone;
	c->arg = arg;
	return c;
}
