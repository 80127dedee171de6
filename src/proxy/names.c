/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: c-ares asks the machine's name servers, and looks into its /etc/hosts, within the loop: no
 * thread and no process. A name is asked for as it was judged, without search domains. What comes back is judged by
 * conn.c, and it is these addresses that are connected to: no name is resolved twice for one connection.
 */
#include <ares.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/cleanup.h"
#include "proxy/proxy.h"

#define SOCKETS_MAX 64

/* The resolver's sockets. They come and go within a question. */
struct names {
	ares_channel channel;
	struct proxy *proxy;
	size_t asked; /* questions that are not answered */
	struct slot {
		struct watch watch;
		struct names *names;
	} slots[SOCKETS_MAX];
};

static void slot_ready(struct watch *w, uint32_t events)
{
	struct slot *s = (struct slot *)(void *)w;
	bool out = events & EPOLLOUT;

	ares_process_fd(s->names->channel, events & ~(uint32_t)EPOLLOUT ? w->fd : ARES_SOCKET_BAD,
			out ? w->fd : ARES_SOCKET_BAD);
}

static void socket_changed(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct names *n = arg;
	uint32_t events = (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0);
	struct slot *s = NULL;

	for (size_t i = 0; i < SOCKETS_MAX; i++)
		if (n->slots[i].watch.events && n->slots[i].watch.fd == fd)
			s = &n->slots[i];
	for (size_t i = 0; i < SOCKETS_MAX && !s; i++)
		if (!n->slots[i].watch.events)
			s = &n->slots[i];
	if (!s)
		return; /* its question ends by time */
	s->names = n;
	s->watch.ready = slot_ready;
	s->watch.fd = fd;
	watch_set(n->proxy, &s->watch, events);
}

int names_open(struct proxy *p, struct cbx_err *err)
{
	struct names *n = cbx_xcalloc(1, sizeof(*n));
	struct ares_options o = { .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_STAYOPEN,
				  .timeout = 3000,
				  .tries = 2,
				  .lookups = (char *)"fb",
				  .sock_state_cb = socket_changed,
				  .sock_state_cb_data = n };
	int r = ares_library_init(ARES_LIB_INIT_ALL);

	if (r == ARES_SUCCESS)
		r = ares_init_options(&n->channel, &o,
				      ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
					      ARES_OPT_SOCK_STATE_CB);
	if (r != ARES_SUCCESS) {
		free(n);
		return cbx_refuse(err, "network", EIO, "start the resolver: %s", ares_strerror(r));
	}
	n->proxy = p;
	p->channel = n;
	return 0;
}

static void answered(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct lookup *l = arg;

	for (struct ares_addrinfo_node *a = info ? info->nodes : NULL; a && l->n < ADDRESSES_MAX; a = a->ai_next)
		if (cbx_ip_from_sockaddr(&l->ips[l->n], a->ai_addr))
			l->n++;
	if (info)
		ares_freeaddrinfo(info);
	if (!l->n)
		l->why = status == ARES_SUCCESS ? "it has no address" : ares_strerror(status);
	((struct names *)l->proxy->channel)->asked--;
	if (l->conn) {
		l->conn->lookup = NULL;
		conn_resolved(l->conn, l);
	}
	free(l);
}

void names_ask(struct conn *c)
{
	struct names *n = c->proxy->channel;
	struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT, .ai_family = AF_UNSPEC };

	c->lookup = cbx_xcalloc(1, sizeof(*c->lookup));
	c->lookup->proxy = c->proxy;
	c->lookup->conn = c;
	n->asked++;
	ares_getaddrinfo(n->channel, c->host.name, NULL, &hints, answered, c->lookup);
}

int names_wait_ms(struct proxy *p)
{
	struct names *n = p->channel;
	struct timeval tv, *t = n->asked ? ares_timeout(n->channel, NULL, &tv) : NULL;

	return t ? (int)(t->tv_sec * 1000 + t->tv_usec / 1000 + 1) : -1;
}

void names_time(struct proxy *p)
{
	struct names *n = p->channel;

	if (n->asked)
		ares_process_fd(n->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}
