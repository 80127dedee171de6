/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: TLS reads from and writes to memory, and this moves bytes between that and the two sockets, as
 * far as they take them. Of each direction one piece waits at most, and nothing is read meanwhile. Both ends learn of
 * each other's end: by close_notify and a FIN on the connection, by a FIN on the pair.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "proxy/tls-protocol.h"
#include "tls/tls.h"

#define TURNS	     16 /* pieces in a row, then others have their turn */
#define HANDSHAKE_MS 20000
#define ORPHAN_MS    60000 /* for a connection to take what is left, when nobody is on the other side */

/* ---- beginning and end ---- */

static void watch(struct pump *p, struct side *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (s->gone || events == s->events)
		return;
	if (epoll_ctl(p->epoll, EPOLL_CTL_MOD, s->fd, &e) < 0)
		_exit(1);
	s->events = events;
}

static void add(struct pump *p, struct side *s, int fd)
{
	struct epoll_event e = { .data.ptr = s };

	*s = (struct side){ .pump = p, .fd = fd };
	cbx_set_nonblock(fd, 1);
	if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
		_exit(1);
}

/* Each further handshake would cost an answer, so the connection ends. The first one may have two ClientHellos. */
static void on_message(int written, int version, int type, const void *data, size_t n, SSL *ssl, void *arg)
{
	struct pump *p = arg;
	unsigned char digest;

	if (!written && type == SSL3_RT_HANDSHAKE && n && *(const unsigned char *)data == SSL3_MT_CLIENT_HELLO &&
	    SSL_get_peer_finished(ssl, &digest, sizeof(digest)))
		p->again = true;
}

struct pump *pump_new(int epoll, SSL *ssl, bool inside, const char *name, int net, int plain)
{
	struct pump *p = cbx_xcalloc(1, sizeof(*p));

	p->epoll = epoll;
	p->ssl = ssl;
	p->inside = inside;
	p->in = BIO_new(BIO_s_mem());
	p->out = BIO_new(BIO_s_mem());
	if (!p->in || !p->out)
		_exit(1);
	BIO_set_mem_eof_return(p->in, -1);
	SSL_set_bio(ssl, p->in, p->out);
	SSL_set_msg_callback(ssl, on_message);
	SSL_set_msg_callback_arg(ssl, p);
	snprintf(p->name, sizeof(p->name), "%s", name);
	add(p, &p->net, net);
	add(p, &p->plain, plain);
	return p;
}

void pump_free(struct pump *p)
{
	SSL_free(p->ssl);
	cbx_close_p(&p->net.fd);
	cbx_close_p(&p->plain.fd);
	free(p);
}

/* The event would come for ever: from now on what happens on the other side is what drives it. */
void pump_hung_up(struct side *s)
{
	if (!s->gone)
		(void)epoll_ctl(s->pump->epoll, EPOLL_CTL_DEL, s->fd, NULL);
	s->gone = true;
}

bool pump_late(const struct pump *p, uint64_t now_ms)
{
	uint64_t since = now_ms > p->since_ms ? now_ms - p->since_ms : 0;

	return p->up ? (p->plain.gone || p->net.gone || p->failed) && since > ORPHAN_MS : since > HANDSHAKE_MS;
}

/* ---- pieces ---- */

/* Bytes from a socket: > 0; 0: none now, or none any more. */
static size_t take(struct side *s, char *to)
{
	ssize_t n;

	if (s->eof)
		return 0;
	n = recv(s->fd, to, PIECE, MSG_DONTWAIT);
	if (n > 0)
		return (size_t)n;
	s->eof = n == 0 || (errno != EAGAIN && errno != EINTR);
	return 0;
}

/* What waits for the pair. False: there is still some. */
static bool drain_plain(struct pump *p)
{
	while (p->off < p->len) {
		ssize_t n = send(p->plain.fd, p->data + p->off, p->len - p->off, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			return false;
		if (n < 0) {
			p->plain.told = true;
			p->off = p->len;
		} else {
			p->off += (size_t)n;
		}
	}
	p->off = p->len = 0;
	return true;
}

/* What waits for the connection. False: there is still some, or it cannot be written any more. */
static bool drain_net(struct pump *p)
{
	char *data;
	long n;

	while ((n = BIO_get_mem_data(p->out, &data)) > 0) {
		ssize_t sent = send(p->net.fd, data, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
		char gone[PIECE];

		if (sent < 0 && errno == EAGAIN)
			return false;
		if (sent < 0) {
			p->net.told = p->net.eof = true;
			(void)BIO_reset(p->out);
			return false;
		}
		while (sent > 0)
			sent -= BIO_read(p->out, gone, sent < PIECE ? (int)sent : PIECE);
	}
	return true;
}

/* ---- the handshake ---- */

static const char *why_not(const struct pump *p)
{
	long verdict = SSL_get_verify_result(p->ssl);
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	if (!p->inside && verdict != X509_V_OK)
		return X509_verify_cert_error_string(verdict);
	if (p->net.eof)
		return "the connection ended";
	return reason ? reason : "it is not understood";
}

static void say_failed(struct pump *p)
{
	char text[CBX_TLS_WHY_MAX + 1];
	int n = snprintf(text, sizeof(text), "%.200s", why_not(p));

	p->data[0] = (char)n;
	memcpy(p->data + 1, text, (size_t)n);
	p->len = (size_t)n + 1;
	p->off = 0;
	p->failed = p->up = true;
}

/* False: it takes more. */
static bool shake_hands(struct pump *p, uint64_t now_ms)
{
	char data[PIECE];
	int r, e;

	for (;;) {
		size_t n;

		ERR_clear_error();
		r = SSL_do_handshake(p->ssl);
		e = r == 1 ? SSL_ERROR_NONE : SSL_get_error(p->ssl, r);
		(void)drain_net(p);
		if (e != SSL_ERROR_WANT_READ)
			break;
		n = take(&p->net, data);
		if (!n && !p->net.eof)
			return false;
		if (!n || BIO_write(p->in, data, (int)n) != (int)n)
			break;
	}
	p->since_ms = now_ms;
	if (e != SSL_ERROR_NONE) {
		say_failed(p);
		return true;
	}
	p->up = true;
	p->data[0] = 0;
	p->off = 0;
	p->len = 1;
	return true;
}

/* ---- afterwards ---- */

/* It does not take what TLS itself answers, of which there would be ever more. */
static bool lags(struct pump *p)
{
	return BIO_ctrl_pending(p->out) > PIECE;
}

static void to_plain(struct pump *p)
{
	char data[PIECE];

	for (int i = 0; drain_plain(p) && !p->plain.told && !p->again;) {
		int n;
		size_t got;

		ERR_clear_error();
		n = p->failed ? -1 : SSL_read(p->ssl, p->data, PIECE);
		if (n > 0) {
			p->len = (size_t)n;
			continue;
		}
		if (!p->failed && SSL_get_error(p->ssl, n) == SSL_ERROR_WANT_READ && !p->net.eof) {
			if (i++ >= TURNS && !p->net.gone)
				return; /* nothing is left in memory, and epoll says that the socket has more */
			if (lags(p) && !drain_net(p) && !p->net.eof)
				return;
			got = take(&p->net, data);
			if (got && BIO_write(p->in, data, (int)got) == (int)got)
				continue;
			if (!p->net.eof)
				return;
		}
		p->plain.told = true;
		shutdown(p->plain.fd, SHUT_WR);
	}
}

static void to_net(struct pump *p)
{
	char data[PIECE];

	for (int i = 0; drain_net(p) && !p->net.told; i++) {
		size_t n;

		if (i >= TURNS && !p->plain.gone)
			return;
		n = take(&p->plain, data);
		ERR_clear_error();
		if (n && !p->failed && SSL_write(p->ssl, data, (int)n) > 0)
			continue;
		if (!n && !p->plain.eof)
			return;
		p->net.told = true;
		if (n) { /* it goes nowhere, and nor does what follows it */
			p->plain.eof = true;
			shutdown(p->plain.fd, SHUT_RDWR);
		}
		if (!p->failed)
			SSL_shutdown(p->ssl);
		if (!drain_net(p))
			return; /* the FIN follows with what is left, when all is freed */
		shutdown(p->net.fd, SHUT_WR);
	}
}

bool pump_step(struct pump *p, uint64_t now_ms)
{
	if (!p->since_ms)
		p->since_ms = now_ms;
	if (!p->up && !shake_hands(p, now_ms)) {
		watch(p, &p->net, EPOLLIN | (BIO_ctrl_pending(p->out) ? EPOLLOUT : 0));
		return !p->plain.gone;
	}
	to_plain(p);
	if (p->again)
		return false;
	to_net(p);
	if (!p->plain.gone && !p->net.gone)
		p->since_ms = now_ms;
	/* With nobody on the other side, what is left goes out, and that was all. */
	if ((p->plain.gone && p->plain.eof && !BIO_ctrl_pending(p->out)) ||
	    (p->net.gone && p->off == p->len && p->plain.told) ||
	    (p->net.told && p->plain.told && !BIO_ctrl_pending(p->out) && p->off == p->len && p->net.eof &&
	     p->plain.eof))
		return false;
	watch(p, &p->net,
	      (p->off == p->len && !p->net.eof && !p->plain.told && !lags(p) ? EPOLLIN : 0) |
		      (BIO_ctrl_pending(p->out) ? EPOLLOUT : 0));
	watch(p, &p->plain,
	      (!BIO_ctrl_pending(p->out) && !p->plain.eof ? EPOLLIN : 0) | (p->off < p->len ? EPOLLOUT : 0));
	return true;
}
