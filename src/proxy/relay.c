/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: two flows, each read into the one scratch buffer of the process and written at once. What the
 * other side does not take is kept, and that flow is not read until it has gone: a peer that stands still holds 64 KiB
 * and nothing else. Of a request's body just its bytes are passed on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proxy/first.h"
#include "proxy/proxy.h"

#define TURNS 8 /* readings in a row, then others have their turn */

static bool waiting(const struct flow *f)
{
	return f->off < f->data.len;
}

/* ---- writing ---- */

/* What is kept. False: the other side has gone. */
static bool drain(struct flow *f, int fd)
{
	while (waiting(f)) {
		ssize_t n = send(fd, f->data.data + f->off, f->data.len - f->off, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			return true;
		if (n < 0)
			return false;
		f->off += (size_t)n;
	}
	cbx_buf_release(&f->data);
	f->off = 0;
	return true;
}

static bool pass(struct flow *f, int fd, const char *p, size_t n)
{
	ssize_t sent = 0;

	if (!waiting(f))
		sent = send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN)
		return false;
	if (sent < 0)
		sent = 0;
	if ((size_t)sent < n)
		cbx_buf_add(&f->data, p + sent, n - (size_t)sent);
	return true;
}

/* A server may answer before it has taken all of a request, and take no more: what it says is passed on. */
static bool unheard(struct conn *c)
{
	if (!c->head.path)
		return false;
	cbx_buf_release(&c->up.data);
	c->up.off = 0;
	c->body = CBX_BODY_NONE;
	return true;
}

/* ---- what is let through ---- */

/* The first bytes of a tunnel. 1: it may begin; 0: more are needed; -1: it was refused. */
static int judge_hello(struct conn *c)
{
	const unsigned char *p = (const unsigned char *)cbx_buf_str(&c->in);
	char name[CBX_HOST_MAX + 1];
	struct cbx_host named;
	bool hidden;
	int n;

	if (p[0] != 22) {
		if (c->port != 443)
			return 1;
		conn_refuse(c, 403,
			    "what goes to port 443 is not TLS, so whom it is for cannot be compared with the tunnel");
		return -1;
	}
	n = cbx_tls_hello(p, c->in.len, name, &hidden);
	if (n == 0)
		return c->in.len < CBX_HELLO_MAX ? 0 : -1;
	if (n < 0)
		conn_refuse(c, 403, "its TLS does not begin with a ClientHello that can be read");
	else if (hidden && c->rule->kind != CBX_NET_ANY)
		conn_refuse(c, 403,
			    "its TLS encrypts the server's name, so it cannot be compared with the tunnel; turn "
			    "Encrypted ClientHello (ECH) off");
	else if (!name[0] && c->host.literal)
		return 1;
	else if (!name[0])
		conn_refuse(c, 403, "its TLS does not name the server (SNI), so it cannot be compared with the tunnel");
	else if (cbx_host_parse(name, strlen(name), &named) || strcmp(named.name, c->host.name) != 0)
		conn_refuse(c, 403, "its TLS names another server (SNI) than the tunnel is for");
	else
		return 1;
	return -1;
}

/* How many of n bytes of the client's are passed on. -1: the rest of the request is not well-formed. */
static ptrdiff_t of_request(struct conn *c, const char *p, size_t n)
{
	ptrdiff_t taken;

	if (!c->head.path)
		return (ptrdiff_t)n;
	if (c->body == CBX_BODY_CHUNKED) {
		taken = cbx_chunks_take(&c->chunks, p, n);
		if (c->chunks.state == CBX_CHUNKS_END)
			c->body = CBX_BODY_NONE;
		return taken;
	}
	taken = c->body == CBX_BODY_LENGTH ? (ptrdiff_t)(c->left < n ? c->left : n) : 0;
	c->left -= (uint64_t)taken;
	if (!c->left)
		c->body = CBX_BODY_NONE;
	return taken;
}

static bool from_client(struct conn *c, const char *p, size_t n)
{
	ptrdiff_t some;

	if (c->state == CONN_HELLO) {
		int r;

		cbx_buf_add(&c->in, p, n);
		r = judge_hello(c);
		if (r <= 0)
			return r == 0;
		c->state = CONN_RELAY;
		some = pass(&c->up, c->server.watch.fd, c->in.data, c->in.len);
		cbx_buf_release(&c->in);
		return some;
	}
	some = of_request(c, p, n);
	return some >= 0 && (pass(&c->up, c->server.watch.fd, p, (size_t)some) || unheard(c));
}

static bool pass_response(struct conn *c, const char *p, size_t n);

/* What it may show of a secret is hidden first. end: all of it has come. */
static bool from_server(struct conn *c, const char *p, size_t n, bool end)
{
	size_t ready;
	bool ok;

	if (!c->rule->nsecrets)
		return !n || pass_response(c, p, n);
	cbx_buf_add(&c->hold, p, n);
	ready = c->hold.len ? secrets_hide(&c->proxy->secrets, c->hold.data, c->hold.len, end) : 0;
	ok = !ready || pass_response(c, c->hold.data, ready);
	cbx_buf_drop(&c->hold, ready);
	return ok;
}

/* A response is passed on with the word that the connection ends with it, which clients need to believe it. */
static bool pass_response(struct conn *c, const char *p, size_t n)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	const char *line;
	unsigned status;
	int head;

	if (!c->head.path || c->answered)
		return pass(&c->down, c->client.watch.fd, p, n);
	cbx_buf_add(&c->in, p, n);
	while ((head = cbx_response_parse(cbx_buf_str(&c->in), c->in.len, &status)) > 0 && !c->answered) {
		if (status == 101)
			return false;
		if (status < 200) {
			if (!pass(&c->down, c->client.watch.fd, c->in.data, (size_t)head))
				return false;
			cbx_buf_drop(&c->in, (size_t)head);
			continue;
		}
		line = memchr(c->in.data, '\n', (size_t)head);
		cbx_buf_add(&out, c->in.data, (size_t)(line + 1 - c->in.data));
		cbx_buf_adds(&out, "Connection: close\r\n");
		cbx_buf_add(&out, line + 1, (size_t)(c->in.data + c->in.len - line - 1));
		if (!pass(&c->down, c->client.watch.fd, out.data, out.len))
			return false;
		cbx_buf_release(&c->in);
		c->answered = true;
	}
	return head >= 0;
}

/* ---- the loop's side ---- */

/* Whether more of the client is wanted. */
static bool client_speaks(const struct conn *c)
{
	return !c->up.eof && !waiting(&c->up) && (!c->head.path || c->body != CBX_BODY_NONE);
}

static void watch_both(struct conn *c)
{
	bool from = !c->down.eof && !waiting(&c->down);
	uint32_t client = EPOLLHUP | (client_speaks(c) ? EPOLLIN : 0) | (waiting(&c->down) ? EPOLLOUT : 0);
	uint32_t server = EPOLLHUP | (from ? EPOLLIN : 0) | (waiting(&c->up) ? EPOLLOUT : 0);

	/* Of one that has hung up, epoll would tell nothing else while the other side does not take what it said. */
	watch_set(c->proxy, &c->client.watch, c->client.hung && waiting(&c->up) ? 0 : client);
	watch_set(c->proxy, &c->server.watch, c->server.hung && waiting(&c->down) ? 0 : server);
}

/* The other side learns of one direction's end when all has been passed on. False: both have ended. */
static bool ends(struct conn *c)
{
	if (c->up.eof && !c->up.shut && !waiting(&c->up) && !c->head.path) {
		shutdown(c->server.watch.fd, SHUT_WR);
		c->up.shut = true;
	}
	if (c->down.eof && !c->down.shut && !waiting(&c->down)) {
		if (!c->head.path)
			shutdown(c->client.watch.fd, SHUT_WR);
		c->down.shut = true;
	}
	/* When the server has said all, there is nobody to send a request to: both are closed. */
	return !(c->down.shut && (c->up.shut || c->head.path));
}

static bool read_some(struct conn *c, struct end *from)
{
	struct proxy *p = c->proxy;
	bool client = from == &c->client;
	struct flow *f = client ? &c->up : &c->down;

	for (int i = 0; i < TURNS; i++) {
		ssize_t n;

		if (f->eof || waiting(f) || (client && !client_speaks(c)))
			return true;
		n = recv(from->watch.fd, p->scratch, SCRATCH, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n < 0)
			return false;
		if (n == 0) {
			f->eof = true;
			return client || from_server(c, "", 0, true);
		}
		p->bytes += (uint64_t)n;
		c->active_ms = p->now_ms;
		if (!(client ? from_client(c, p->scratch, (size_t)n) : from_server(c, p->scratch, (size_t)n, false)))
			return false;
		if (p->rules.bytes && p->bytes > p->rules.bytes) {
			conn_refuse(c, 403, "the session has used up the bytes that its policy allows (network.bytes)");
			return false;
		}
		/* With the pair of codebox-tls hung up this is the last event for what it holds. */
		if (n < SCRATCH / 4 && !c->opened && !c->hold.len)
			return true;
	}
	return true;
}

/* An end that has hung up is, when all that it said has been read and passed on: that may take many turns, and nothing
 * is read while the other side waits. So is a client that nobody can answer, unless it is a tunnel's, which may have
 * ended in both directions before the server has taken all. */
static bool useless(const struct conn *c, const struct end *e, uint32_t events)
{
	const struct flow *said = e == &c->client ? &c->up : &c->down;

	if (e == &c->client && ((events & EPOLLERR) || c->head.path))
		return events & (EPOLLHUP | EPOLLERR);
	return !waiting(said) && ((events & EPOLLERR) || ((events & EPOLLHUP) && said->eof));
}

static void relay_ready(struct watch *w, uint32_t events)
{
	struct end *e = (struct end *)(void *)w;
	struct conn *c = e->conn;
	struct flow *to = e == &c->client ? &c->down : &c->up;
	bool ok = true;

	if (events & EPOLLOUT) {
		ok = drain(to, w->fd) || (to == &c->up && unheard(c));
		c->active_ms = c->proxy->now_ms;
	}
	if (ok && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		ok = read_some(c, e);
	if (c->dead || c->state == CONN_LINGER)
		return;
	if (events & (EPOLLHUP | EPOLLERR))
		e->hung = true;
	if (!ok || useless(c, e, events) || !ends(c)) {
		conn_end(c);
		return;
	}
	watch_both(c);
}

/* While the client does not take what there is, the server has not been silent: nothing was read of it. Else the client
 * could choose where a secret is cut, which is then not found. */
bool relay_flush(struct conn *c)
{
	if (waiting(&c->down))
		return true;
	if (!from_server(c, "", 0, true))
		return false;
	watch_both(c);
	return true;
}

void relay_begin(struct conn *c, const char *first)
{
	static const unsigned char granted[10] = { 5, 0, 0, 1 };
	bool ok = true, tunnel = !c->head.path;
	struct cbx_buf in = c->in;

	memset(&c->in, 0, sizeof(c->in));
	c->state = tunnel ? CONN_HELLO : CONN_RELAY;
	c->client.watch.ready = c->server.watch.ready = relay_ready;
	c->active_ms = c->proxy->now_ms;
	c->proxy->bytes += c->up.data.len + in.len; /* heads, too, carry what code likes */
	if (tunnel)
		ok = first ? pass(&c->down, c->client.watch.fd, first, strlen(first))
			   : pass(&c->down, c->client.watch.fd, (const char *)granted, sizeof(granted));
	else
		ok = drain(&c->up, c->server.watch.fd) || unheard(c);
	if (ok && in.len)
		ok = from_client(c, in.data, in.len);
	cbx_buf_release(&in);
	if (c->dead || c->state == CONN_LINGER)
		return;
	if (ok)
		watch_both(c);
	else
		conn_end(c);
}
