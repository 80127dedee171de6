/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a connection of the sandbox, from its first byte to the verdict. The first byte tells SOCKS5
 * from HTTP. Then the destination is judged three times: as a name and port, before anything is resolved; as the
 * addresses that the name has, of which those that may not be reached are left aside; and in a tunnel by what its
 * client says first: TLS's ClientHello must name the host that the tunnel is for. What goes to port 80 is plain HTTP
 * however it came, so requests in a tunnel to there are read like all others.
 *
 * Where a rule has secrets for a host, a tunnel to there is read, too: codebox-tls ends its TLS on this side and begins
 * it anew towards the server (within.h), and the headers are added here.
 *
 * One connection carries one request: bytes behind it are never passed on, so there is no second request for a server
 * to find in them.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proxy/first.h"
#include "proxy/proxy.h"
#include "proxy/within.h"

#define HEAD_MS	   15000  /* for a client to say what it wants */
#define CONNECT_MS 10000  /* for each address */
#define HOLD_MS	   2000	  /* for more of an answer, whose end may be that of a secret */
#define IDLE_MS	   300000 /* nothing passes in either direction */
#define LINGER_MS  3000

static void client_ready(struct watch *w, uint32_t events);

/* ---- beginning and end ---- */

void conn_new(struct proxy *p, int fd)
{
	struct conn *c = cbx_xcalloc(1, sizeof(*c));

	c->proxy = p;
	c->client = (struct end){ { client_ready, fd, 0 }, c };
	c->server = (struct end){ { NULL, -1, 0 }, c };
	c->born_ms = c->active_ms = p->now_ms;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	TAILQ_INSERT_TAIL(&p->conns, c, entry);
	p->n++;
	watch_set(p, &c->client.watch, EPOLLIN);
	client_ready(&c->client.watch, EPOLLIN); /* most have said something by now */
}

void conn_end(struct conn *c)
{
	struct proxy *p = c->proxy;

	if (c->dead)
		return;
	c->dead = true;
	watch_end(&c->client.watch);
	watch_end(&c->server.watch);
	if (c->lookup)
		c->lookup->conn = NULL;
	TAILQ_REMOVE(&p->conns, c, entry);
	TAILQ_INSERT_TAIL(&p->dead, c, entry);
	p->n--;
	if (p->listener.fd >= 0)
		watch_set(p, &p->listener, EPOLLIN);
}

void conn_free(struct conn *c)
{
	cbx_buf_release(&c->in);
	cbx_buf_release(&c->hold);
	cbx_buf_release(&c->up.data);
	cbx_buf_release(&c->down.data);
	cbx_head_release(&c->head);
	free(c);
}

/* ---- refusals ---- */

static const char *reason_of(int status)
{
	return status == 403   ? "Forbidden"
	       : status == 502 ? "Bad Gateway"
	       : status == 504 ? "Gateway Timeout"
			       : "Bad Request";
}

static void linger(struct conn *c, const void *answer, size_t n)
{
	/* What the kernel has no room for on a connection that has seen nothing yet is not worth waiting for. */
	(void)!send(c->client.watch.fd, answer, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(c->client.watch.fd, SHUT_WR);
	watch_close(c->proxy, &c->server.watch);
	if (c->lookup) /* what it finds is not for one who was answered */
		c->lookup->conn = NULL;
	c->lookup = NULL;
	c->state = CONN_LINGER;
	c->active_ms = c->proxy->now_ms;
	c->client.watch.ready = client_ready;
	watch_set(c->proxy, &c->client.watch, EPOLLIN);
}

static void answer(struct conn *c, int status, const char *why)
{
	static const unsigned char alert[] = { 21, 3, 3, 0, 2, 2, 49 }; /* fatal: access denied */
	unsigned char socks[10] = { 5, status == 403 ? 2 : status == 502 ? 4 : 1, 0, 1 };
	_cleanup_buf_ struct cbx_buf out = { 0 };

	if (c->state == CONN_HELLO || c->state == CONN_OPEN) {
		linger(c, alert, sizeof(alert));
	} else if (c->state == CONN_RELAY || c->state == CONN_INSIDE) {
		conn_end(c);
	} else if (c->via == CBX_VIA_SOCKS && !c->pinned) {
		linger(c, socks, sizeof(socks));
	} else {
		/* Clients show the first line at most of what answers CONNECT. */
		cbx_buf_addf(&out,
			     "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
			     "X-Codebox: refused\r\nConnection: close\r\n\r\n%s\n",
			     status, c->head.connect ? why : reason_of(status), strlen(why) + 1, why);
		linger(c, out.data, out.len);
	}
}

void conn_refuse(struct conn *c, int status, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	char why[320];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	report(c->proxy, CBX_PROXY_REFUSED, c->via, c->host.name, c->port, why);
	if (c->host.name[0])
		text = cbx_xasprintf("codebox: %s:%u: %s", c->host.name, c->port, why);
	else
		text = cbx_xasprintf("codebox: %s", why);
	answer(c, status, text);
}

/* ---- the verdict about names and addresses ---- */

static struct cbx_net_target target_of(const struct conn *c)
{
	return (struct cbx_net_target){ .host = &c->host,
					.port = c->port,
					.method = c->head.path ? c->head.method : NULL,
					.path = c->head.path,
					.overrides = c->head.overrides,
					.tls = c->opened };
}

static void refuse_target(struct conn *c)
{
	struct cbx_net_target any = { .host = &c->host, .port = c->port };
	_cleanup_buf_ struct cbx_buf allowed = { 0 };

	cbx_network_print(&c->proxy->rules, &allowed);
	if (!cbx_network_knows(&c->proxy->rules, &any))
		conn_refuse(c, 403,
			    "the session's policy does not allow it; allowed are: %.160s%s (network.allow, "
			    "codebox-policy(5))",
			    cbx_buf_str(&allowed), allowed.len > 160 ? "..." : "");
	else if (c->head.path && !c->opened && cbx_network_opens(&c->proxy->rules, &any))
		conn_refuse(c, 403,
			    "the session's policy has a secret for this host, which does not go by plain HTTP; use "
			    "https:// "
			    "(network.allow, \"plain\", codebox-policy(5))");
	else if (c->head.path)
		conn_refuse(c, 403,
			    "the session's policy allows other methods or paths of this host only, none whose path has "
			    "\"..\" or the like, and no header that replaces them (network.allow, codebox-policy(5))");
	else
		conn_refuse(c, 403,
			    "the session's policy allows some requests to this host only, and a tunnel hides which "
			    "they are; "
			    "use plain HTTP (network.allow, codebox-policy(5))");
}

static void connect_next(struct conn *c);

/* The head goes out, with what the rule adds. False: it was refused. */
static bool write_head(struct conn *c)
{
	struct cbx_added added[CBX_NETWORK_SECRETS_MAX];
	const char *why;
	size_t n = secrets_added(&c->proxy->secrets, c->rule, added, &why);

	if (why) { /* it names files of the machine, which code need not know */
		report(c->proxy, CBX_PROXY_REFUSED, c->via, c->host.name, c->port, why);
		answer(c, 403,
		       "codebox: a secret that the session's policy adds to requests to this host is not known; "
		       "codeboxd's log says why");
		return false;
	}
	cbx_head_write(&c->head, added, n, &c->up.data);
	cbx_buf_drop(&c->in, c->head_len);
	return true;
}

static void connected(struct conn *c)
{
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";

	if (c->head.path && !write_head(c))
		return;
	c->head.connect = false;
	report(c->proxy, CBX_PROXY_ALLOWED, c->via, c->host.name, c->port, c->rule->host);
	c->reported = true;
	/* Strings, as no SOCKS answer could be: relay_begin() knows. */
	relay_begin(c, c->via == CBX_VIA_CONNECT && !c->pinned ? established : NULL);
}

static void outside_ready(struct watch *w, uint32_t events)
{
	struct conn *c = ((struct end *)(void *)w)->conn;
	char p[256], why[256];
	ssize_t n = recv(w->fd, p, sizeof(p), MSG_DONTWAIT | MSG_PEEK);
	int r = n > 0 ? within_status(p, (size_t)n, why) : 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (r < 0) {
		conn_refuse(c, 502, "TLS with the server failed: %.200s", why);
	} else if (r > 0) {
		(void)!recv(w->fd, p, 1, MSG_DONTWAIT);
		connected(c);
	} else if (n <= 0) {
		conn_refuse(c, 502, "TLS with the server failed: codebox-tls has ended");
	}
}

/* The server takes the connection. */
static void reached(struct conn *c)
{
	struct watch *w = &c->server.watch;
	int fd;

	if (!c->opened) {
		connected(c);
		return;
	}
	fd = within_hand(c->proxy->outside, c->host.name, w->fd, NULL);
	watch_close(c->proxy, w);
	if (fd < 0) {
		conn_refuse(c, 502, "TLS with the server failed: codebox-tls takes no more");
		return;
	}
	c->state = CONN_OUTSIDE;
	c->active_ms = c->proxy->now_ms;
	*w = (struct watch){ outside_ready, fd, 0 };
	watch_set(c->proxy, w, EPOLLIN);
}

static void server_connecting(struct watch *w, uint32_t events)
{
	struct conn *c = ((struct end *)(void *)w)->conn;
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (!error && !(events & EPOLLOUT))
		return;
	if (error)
		connect_next(c);
	else
		reached(c);
}

/* The addresses have been judged: these and no others are connected to. */
static void connect_next(struct conn *c)
{
	struct sockaddr_storage sa;

	watch_close(c->proxy, &c->server.watch);
	while (c->next < c->nips) {
		const struct cbx_ip *ip = &c->ips[c->next++];
		socklen_t len = cbx_ip_to_sockaddr(ip, c->port, &sa);
		int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd < 0)
			continue;
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		if (connect(fd, (struct sockaddr *)&sa, len) < 0 && errno != EINPROGRESS) {
			close(fd);
			continue;
		}
		c->state = CONN_CONNECT;
		c->active_ms = c->proxy->now_ms;
		c->server.watch = (struct watch){ server_connecting, fd, 0 };
		watch_set(c->proxy, &c->server.watch, EPOLLOUT);
		return;
	}
	conn_refuse(c, 502, "none of its addresses takes the connection");
}

void conn_resolved(struct conn *c, const struct lookup *l)
{
	struct cbx_net_target t = target_of(c);
	const struct cbx_ip *bad = NULL;
	char text[46];

	if (!l->n) {
		conn_refuse(c, 502, "the name was not resolved: %.100s", l->why);
		return;
	}
	for (size_t i = 0; i < l->n; i++) {
		const struct cbx_net_rule *rule = cbx_network_allows(&c->proxy->rules, &t, &l->ips[i]);

		if (!rule || (c->rule && rule != c->rule)) { /* what one rule adds is not for another's addresses */
			bad = &l->ips[i];
			continue;
		}
		c->rule = rule;
		c->ips[c->nips++] = l->ips[i];
	}
	if (c->nips) {
		connect_next(c);
		return;
	}
	cbx_ip_print(bad, text);
	conn_refuse(
		c, 403,
		"its address, %s, is not public (%s); a rule has to name it to allow it (network.allow, \"addresses\", "
		"codebox-policy(5))",
		text, cbx_ip_special(bad) ? cbx_ip_special(bad) : "not allowed");
}

/* The destination and, for HTTP, the request are known. */
static void judge(struct conn *c)
{
	struct cbx_net_target t = target_of(c);
	struct lookup literal = { .ips = { c->host.ip }, .n = 1 };

	watch_set(c->proxy, &c->client.watch, 0);
	if (c->proxy->rules.bytes && c->proxy->bytes >= c->proxy->rules.bytes) {
		conn_refuse(c, 403, "the session has used up the bytes that its policy allows (network.bytes)");
	} else if (!cbx_network_allows(&c->proxy->rules, &t, NULL)) {
		refuse_target(c);
	} else {
		c->state = CONN_RESOLVE;
		c->active_ms = c->proxy->now_ms;
		if (c->host.literal)
			conn_resolved(c, &literal);
		else
			names_ask(c);
	}
}

/* ---- what the client says first ---- */

/* A tunnel was asked for. */
static void judge_tunnel(struct conn *c)
{
	struct cbx_net_target t = { .host = &c->host, .port = c->port };
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	static const unsigned char granted[10] = { 5, 0, 0, 1 };
	bool socks = c->via == CBX_VIA_SOCKS;

	if (c->port != 80 && !cbx_network_opens(&c->proxy->rules, &t)) {
		judge(c);
	} else if (!cbx_network_knows(&c->proxy->rules, &t)) {
		refuse_target(c);
	} else {
		c->pinned = true;
		c->head.connect = false;
		c->opened = c->port != 80;
		c->state = c->opened ? CONN_OPEN : CONN_HEAD;
		(void)!send(c->client.watch.fd, socks ? (const void *)granted : established,
			    socks ? sizeof(granted) : sizeof(established) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

/* Each of these takes what it can from c->in; false: more is needed, or the connection has another state now. */
static bool take_head(struct conn *c)
{
	int n = cbx_head_parse(cbx_buf_str(&c->in), c->in.len, c->opened ? 443 : 80, &c->head);

	if (n == 0)
		return false;
	if (n < 0) {
		conn_refuse(c, -n, "%s", c->head.why);
		return false;
	}
	if (c->pinned && (c->head.connect || strcmp(c->head.host.name, c->host.name) != 0 || c->head.port != c->port)) {
		conn_refuse(c, 403, "the request is for another host than the tunnel that it came through");
		return false;
	}
	c->host = c->head.host;
	c->port = c->head.port;
	if (c->head.connect) {
		c->via = CBX_VIA_CONNECT;
		cbx_buf_drop(&c->in, (size_t)n);
		judge_tunnel(c);
		return c->state == CONN_HEAD || c->state == CONN_OPEN;
	}
	c->head_len = (size_t)n;
	c->body = c->head.body;
	c->left = c->head.length;
	judge(c);
	return false;
}

static bool take_socks(struct conn *c)
{
	struct cbx_socks_request q;
	int n = cbx_socks_request((const unsigned char *)cbx_buf_str(&c->in), c->in.len, &q);

	if (n == 0)
		return false;
	if (n < 0) {
		conn_refuse(c, 400, "the SOCKS request is not well-formed");
		return false;
	}
	c->host = q.host;
	c->port = q.port;
	cbx_buf_drop(&c->in, (size_t)n);
	if (q.why)
		conn_refuse(c, 400, "%s", q.why);
	else if (q.command != 1)
		conn_refuse(c, 400, "of SOCKS there is CONNECT only, no BIND and no UDP");
	else
		judge_tunnel(c);
	return c->state == CONN_HEAD || c->state == CONN_OPEN;
}

static bool take_first(struct conn *c)
{
	static const unsigned char plain[] = { 5, 0 }, none[] = { 5, 0xff };
	const unsigned char *p = (const unsigned char *)cbx_buf_str(&c->in);
	int n;

	if (!c->in.len)
		return false;
	if (p[0] != 5) {
		c->state = CONN_HEAD;
		return true;
	}
	c->via = CBX_VIA_SOCKS;
	n = cbx_socks_greeting(p, c->in.len);
	if (n < 0) {
		report(c->proxy, CBX_PROXY_REFUSED, c->via, "", 0, "the SOCKS client wants a password");
		linger(c, none, sizeof(none));
	}
	if (n <= 0)
		return false;
	cbx_buf_drop(&c->in, (size_t)n);
	c->state = CONN_SOCKS;
	(void)!send(c->client.watch.fd, plain, sizeof(plain), MSG_DONTWAIT | MSG_NOSIGNAL);
	return true;
}

/* A tunnel whose TLS is to be ended: from here on the client's end is what codebox-tls has of it. */
static bool take_tls(struct conn *c)
{
	struct watch *w = &c->client.watch;
	int fd;

	if (!c->in.len)
		return false;
	if (!within_is_tls(&c->in)) {
		conn_refuse(c, 403, "what goes to this port of the host is not TLS");
		return false;
	}
	fd = within_hand(c->proxy->inside, c->host.name, w->fd, &c->in);
	if (fd < 0) {
		conn_refuse(c, 502, "codebox-tls takes no more");
		return false;
	}
	cbx_buf_release(&c->in);
	watch_close(c->proxy, w);
	w->fd = fd;
	watch_set(c->proxy, w, EPOLLIN);
	c->state = CONN_INSIDE;
	return false;
}

static bool take_status(struct conn *c)
{
	char why[256];
	int r = within_status(cbx_buf_str(&c->in), c->in.len, why);

	if (r < 0) {
		conn_refuse(c, 403, "its TLS is not for this host, or does not trust the session's authority: %.100s",
			    why);
	} else if (r > 0) {
		cbx_buf_drop(&c->in, 1);
		c->state = CONN_HEAD;
	}
	return r > 0;
}

static void take(struct conn *c)
{
	bool more = true;

	while (more)
		more = c->state == CONN_FIRST	 ? take_first(c)
		       : c->state == CONN_SOCKS	 ? take_socks(c)
		       : c->state == CONN_OPEN	 ? take_tls(c)
		       : c->state == CONN_INSIDE ? take_status(c)
		       : c->state == CONN_HEAD	 ? take_head(c)
						 : false;
}

static void client_ready(struct watch *w, uint32_t events)
{
	struct conn *c = ((struct end *)(void *)w)->conn;
	ssize_t n = recv(w->fd, c->proxy->scratch, SCRATCH, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || (events & EPOLLERR)) {
		conn_end(c);
		return;
	}
	if (c->state == CONN_LINGER)
		return;
	cbx_buf_add(&c->in, c->proxy->scratch, (size_t)n);
	take(c);
}

/* ---- time ---- */

void conn_sweep(struct conn *c)
{
	const struct proxy *p = c->proxy;
	uint64_t idle = p->now_ms - c->active_ms;

	if (c->state == CONN_LINGER) {
		if (idle >= LINGER_MS)
			conn_end(c);
	} else if (c->state == CONN_CONNECT) {
		if (idle >= CONNECT_MS)
			connect_next(c);
	} else if (c->state == CONN_RELAY && c->hold.len && idle >= HOLD_MS && !relay_flush(c)) {
		conn_end(c);
	} else if (c->state == CONN_OUTSIDE) {
		if (idle >= CONNECT_MS)
			conn_refuse(c, 504, "TLS with the server failed: it says nothing");
	} else if (c->state <= CONN_HEAD) {
		if (p->now_ms - c->born_ms >= HEAD_MS)
			conn_end(c);
	} else if (p->now_ms - c->born_ms >= p->rules.time_ms) {
		conn_refuse(c, 504, "the connection has lasted as long as the session's policy allows (network.time)");
	} else if (idle >= IDLE_MS) {
		conn_end(c);
	}
}
