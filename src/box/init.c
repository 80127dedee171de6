/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: requests are numbered, sent in order as the socket takes them, and kept until their answer. An
 * answer must match a request that was sent, by number and by type; its length must be what the datagram has. Whatever
 * else init says is a lie from inside the sandbox, and ends the session: there is nothing to gain from keeping it. So
 * does silence: init never waits for anything when it carries out a request.
 */
#include "box/init.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/timer.h"
#include "box/egress.h"

struct cbx_init_message {
	TAILQ_ENTRY(cbx_init_message) entry;
	struct cbx_init_header header;
	char *payload; /* freed when sent */
	int fds[CBX_INTERPRETER_FDS]; /* closed when sent */
	size_t nfds;
	cbx_init_fn fn;
	void *arg;
};

#define ANSWERS_PER_TURN 32
#define NEWS_WAIT_MS	 2000 /* from the end of the socket to the supervisor's word about it */

static void message_free(struct cbx_init_message *m)
{
	for (size_t i = 0; i < m->nfds; i++)
		cbx_close_p(&m->fds[i]);
	free(m->payload);
	free(m);
}

__attribute__((format(printf, 2, 3))) static void lied(struct cbx_box *box, const char *fmt, ...)
{
	struct cbx_err err;
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cbx_refuse(&err, "sandbox_failed", EBADMSG, "the first process of the sandbox %s", text);
	box->all->events->failed(box, &err);
}

static void late(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_box *box = arg;
	struct cbx_err err;

	if (!box->init.ended) {
		lied(box, "has not answered for %d s", CBX_INIT_LATE_S);
		return;
	}
	cbx_refuse(&err, "sandbox_failed", ECHILD, "the sandbox ended unexpectedly");
	box->all->events->failed(box, &err);
}

static void watch_lateness(struct cbx_box *box)
{
	if (box->init.ended)
		return;
	if (TAILQ_EMPTY(&box->init.unanswered) && TAILQ_EMPTY(&box->init.unsent))
		event_del(box->init.late);
	else
		cbx_timer_set(box->init.late, CBX_INIT_LATE_S * 1000);
}

static void answer(struct cbx_box *box, const struct cbx_init_header *h, const char *payload)
{
	struct cbx_init_message *m;

	TAILQ_FOREACH(m, &box->init.unanswered, entry)
	if (m->header.id == h->id)
		break;
	if (!m || m->header.type != h->type) {
		lied(box, "answered a request that was not made (type %u)", h->type);
		return;
	}
	TAILQ_REMOVE(&box->init.unanswered, m, entry);
	box->init.count--;
	watch_lateness(box);
	if (m->fn)
		m->fn(m->arg, h, payload, h->len, NULL);
	message_free(m);
}

static void ready(struct cbx_box *box)
{
	box->init.ready = true;
	cbx_egress_ready(box);
}

static void received(struct cbx_box *box, const char *p, size_t n)
{
	struct cbx_init_header h;

	if (n < sizeof(h)) {
		lied(box, "sent a message of %zu bytes", n);
		return;
	}
	memcpy(&h, p, sizeof(h));
	if (h.len != n - sizeof(h)) {
		lied(box, "sent a message of a wrong length");
		return;
	}
	if (h.id != 0)
		answer(box, &h, p + sizeof(h));
	else if (h.type == CBX_INIT_READY && h.len == 0 && !box->init.ready)
		ready(box);
	else if (h.type == CBX_INIT_ASKED && h.len <= CBX_ASK_MAX)
		box->all->events->asked(box, h.arg, h.len ? p + sizeof(h) : NULL, h.len);
	else if (h.type == CBX_INIT_EXITED && h.len == 0)
		box->all->events->ended(box, (int64_t)h.arg, (int)h.value);
	else
		lied(box, "sent an unknown message (type %u)", h.type);
}

static void init_in(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_box *box = arg;
	_Alignas(8) static char
		data[CBX_INIT_MESSAGE_MAX]; /* one thread; contents are used up before it is filled again */

	for (int i = 0; i < ANSWERS_PER_TURN && box->init.sock >= 0; i++) {
		ssize_t n = cbx_recv_plain(box->init.sock, data, sizeof(data));

		if (n == -EAGAIN)
			return;
		if (n > 0) {
			received(box, data, (size_t)n);
			if (TAILQ_EMPTY(&box->init.unanswered))
				return; /* there is hardly more; the event comes again for it */
		} else if (n == 0 || n == -ECONNRESET) {
			/* The supervisor knows more, and will say so soon: why it was not made, or what ended it. */
			box->init.ended = true;
			event_del(box->init.in);
			cbx_timer_set(box->init.late, NEWS_WAIT_MS);
			return;
		} else {
			lied(box, "sent a message that cannot be read");
		}
	}
}

static void init_out(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_box *box = arg;
	struct cbx_init_client *c = &box->init;
	struct cbx_init_message *m;
	_Alignas(8) static char data[CBX_INIT_MESSAGE_MAX];

	while (c->sock >= 0 && (m = TAILQ_FIRST(&c->unsent))) {
		int r;

		memcpy(data, &m->header, sizeof(m->header));
		if (m->header.len)
			memcpy(data + sizeof(m->header), m->payload, m->header.len);
		r = cbx_send_fds(c->sock, data, sizeof(m->header) + m->header.len, m->fds, m->nfds);
		if (r == -EAGAIN || r == -ENOBUFS) {
			event_add(c->out, NULL);
			return;
		}
		/* On any other failure the reading side sees the end of the socket, and the request fails with the
		 * rest. */
		TAILQ_REMOVE(&c->unsent, m, entry);
		TAILQ_INSERT_TAIL(&c->unanswered, m, entry);
		c->bytes -= m->header.len;
		for (size_t i = 0; i < m->nfds; i++)
			cbx_close_p(&m->fds[i]);
		m->nfds = 0;
		free(take_ptr(&m->payload));
	}
}

int cbx_init_open(struct cbx_box *box, int sock)
{
	struct cbx_init_client *c = &box->init;

	c->sock = sock;
	c->next_id = 1;
	TAILQ_INIT(&c->unsent);
	TAILQ_INIT(&c->unanswered);
	cbx_set_nonblock(sock, 1);
	c->in = event_new(box->all->base, sock, EV_READ | EV_PERSIST, init_in, box);
	c->out = event_new(box->all->base, sock, EV_WRITE, init_out, box);
	c->late = event_new(box->all->base, -1, 0, late, box);
	if (!c->in || !c->out || !c->late || event_add(c->in, NULL) < 0)
		return -ENOMEM;
	return 0;
}

void cbx_init_shut(struct cbx_box *box)
{
	struct cbx_init_client *c = &box->init;

	cbx_event_free_p(&c->in);
	cbx_event_free_p(&c->out);
	cbx_event_free_p(&c->late);
	cbx_close_p(&c->sock);
}

void cbx_init_fail_all(struct cbx_box *box, const struct cbx_err *err)
{
	struct cbx_init_messages *lists[] = { &box->init.unanswered, &box->init.unsent };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		struct cbx_init_message *m;

		while ((m = TAILQ_FIRST(lists[i]))) {
			TAILQ_REMOVE(lists[i], m, entry);
			box->init.count--;
			if (m->fn)
				m->fn(m->arg, NULL, NULL, 0, err);
			message_free(m);
		}
	}
}

int cbx_init_ask(struct cbx_box *box, const struct cbx_init_header *h, const void *p1, size_t n1, const void *p2,
		 size_t n2, const int *fds, size_t nfds, bool urgent, cbx_init_fn fn, void *arg, struct cbx_err *err)
{
	struct cbx_init_client *c = &box->init;
	struct cbx_init_message *m = cbx_xcalloc(1, sizeof(*m));
	size_t n = n1 + n2;
	int r = 0;

	for (; m->nfds < nfds && m->nfds < ARRAY_SIZE(m->fds); m->nfds++)
		m->fds[m->nfds] = fds[m->nfds];
	if (c->sock < 0 || box->closed)
		r = cbx_refuse(err, "session_expired", ENOTCONN, "session %s has been closed", box->name);
	else if (n > CBX_INIT_MESSAGE_MAX - sizeof(*h))
		r = cbx_refuse(err, "invalid_argument", EMSGSIZE,
			       "a request to the sandbox of %zu bytes is too long; give less at once", n);
	else if (!urgent && (c->count >= CBX_INIT_REQUESTS || c->bytes + n > CBX_INIT_BACKLOG))
		r = cbx_refuse(err, "busy", EBUSY, "too many requests to session %s are waiting; try again",
			       box->name);
	if (r < 0) {
		message_free(m);
		return r;
	}
	m->header = *h;
	m->header.id = c->next_id++;
	if (c->next_id == 0)
		c->next_id = 1;
	m->header.len = (uint32_t)n;
	m->header.zero = 0;
	m->fn = fn;
	m->arg = arg;
	if (n) {
		m->payload = cbx_xcalloc(1, n);
		if (n1)
			memcpy(m->payload, p1, n1);
		if (n2)
			memcpy(m->payload + n1, p2, n2);
	}
	c->count++;
	c->bytes += n;
	if (urgent)
		TAILQ_INSERT_HEAD(&c->unsent, m, entry);
	else
		TAILQ_INSERT_TAIL(&c->unsent, m, entry);
	if (!event_pending(c->late, EV_TIMEOUT, NULL))
		watch_lateness(box);
	init_out(-1, 0, box);
	return 0;
}
