/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a connection that waits for its client (all states but that of an answer) can be made to give
 * way. A stranger is a connection of which no request has passed the gate, whether it says nothing, or says it slowly,
 * or was refused. There are few places for them, and of those the fewest for one address: one more stranger takes the
 * place of the one of its address, else of all, that has waited longest. Only where no stranger is left does a known
 * client go for a new connection. So who only opens connections, or has no token, keeps nobody out, and costs little.
 *
 * What is known of addresses ends with their last connection. On loopback addresses and unix sockets they say nothing.
 *
 * Bytes are counted for a tenant and for all: of bodies that are not complete, and of answers that are not taken. Who
 * is above the bound loses connections, first those of the tenant that asks for more. A complete body counts until its
 * request is answered: a file is in memory until a sandbox, which may be slow, has taken it. Further ones are refused.
 */
#include "http/room.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/timer.h"
#include "wire/listener.h"

/* ---- addresses ---- */

static struct cbx_http_peers *bucket_of(struct cbx_http_conns *all, const unsigned char key[CBX_HTTP_PEER_KEY])
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < CBX_HTTP_PEER_KEY; i++)
		h = (h ^ key[i]) * 16777619u;
	return &all->peers[h % ARRAY_SIZE(all->peers)];
}

/* NULL: where it comes from says nothing. */
static struct cbx_http_peer *peer_of(struct cbx_http_conns *all, const struct cbx_http_door *door, int fd)
{
	struct sockaddr_storage any;
	socklen_t len = sizeof(any);
	const struct sockaddr_in6 *v6 = (const void *)&any;
	const struct sockaddr_in *v4 = (const void *)&any;
	struct cbx_http_peer *p;
	unsigned char key[CBX_HTTP_PEER_KEY] = { 0 };

	if (door->local || getpeername(fd, (struct sockaddr *)&any, &len) < 0)
		return NULL;
	key[0] = 4;
	if (any.ss_family == AF_INET) {
		memcpy(key + 1, &v4->sin_addr, 4);
	} else if (any.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		memcpy(key + 1, v6->sin6_addr.s6_addr + 12, 4);
	} else if (any.ss_family == AF_INET6) {
		key[0] = 6;
		memcpy(key + 1, &v6->sin6_addr, 8);
	} else {
		return NULL;
	}
	LIST_FOREACH(p, bucket_of(all, key), entry)
		if (memcmp(p->key, key, sizeof(key)) == 0)
			return p;
	p = cbx_xcalloc(1, sizeof(*p));
	memcpy(p->key, key, sizeof(key));
	LIST_INSERT_HEAD(bucket_of(all, key), p, entry);
	return p;
}

static void forget(struct cbx_http_peer *p)
{
	if (!p || p->n)
		return;
	LIST_REMOVE(p, entry);
	free(p);
}

/* ---- lines ---- */

static void stand(struct cbx_http_conn *c, enum cbx_http_line line)
{
	c->line = line;
	TAILQ_INSERT_TAIL(&c->all->lines[line], c, turn);
	c->all->standing[line]++;
	if (c->peer && line == CBX_HTTP_STRANGERS)
		c->peer->strangers++;
	if (c->tenant && line == CBX_HTTP_KNOWN)
		c->tenant->idle++;
}

static void step_out(struct cbx_http_conn *c)
{
	TAILQ_REMOVE(&c->all->lines[c->line], c, turn);
	c->all->standing[c->line]--;
	if (c->peer && c->line == CBX_HTTP_STRANGERS)
		c->peer->strangers--;
	if (c->tenant && c->line == CBX_HTTP_KNOWN)
		c->tenant->idle--;
}

static struct cbx_http_conn *first_of_peer(struct cbx_http_conns *all, enum cbx_http_line line,
					   const struct cbx_http_peer *p)
{
	struct cbx_http_conn *c;

	TAILQ_FOREACH(c, &all->lines[line], turn)
		if (c->peer == p)
			return c;
	return NULL;
}

static struct cbx_http_conn *first_of_tenant(struct cbx_http_conns *all, const struct cbx_http_conn *like)
{
	struct cbx_http_conn *c;

	TAILQ_FOREACH(c, &all->lines[CBX_HTTP_KNOWN], turn)
		if (c->tenant == like->tenant && c != like && !c->busy)
			return c;
	return NULL;
}

/* Those that wait for their clients, in the order in which they give way; NULL: none. */
static struct cbx_http_conn *waiting_one(const struct cbx_http_conns *all)
{
	struct cbx_http_conn *c = TAILQ_FIRST(&all->lines[CBX_HTTP_STRANGERS]);

	return c ? c : TAILQ_FIRST(&all->lines[CBX_HTTP_KNOWN]);
}

void cbx_http_room_check(struct cbx_http_conns *all)
{
	bool full = all->n >= all->max && !waiting_one(all);

	if (full != all->full)
		cbx_http_conns_pause(all, full);
}

bool cbx_http_room_enter(struct cbx_http_conn *c, int fd)
{
	struct cbx_http_conns *all = c->all;
	struct cbx_http_peer *p = peer_of(all, c->door, fd);
	struct cbx_http_conn *old = NULL;

	if (p)
		p->n++; /* so that it stays */
	if (p && p->n > CBX_HTTP_ADDRESS_MAX) {
		old = first_of_peer(all, CBX_HTTP_STRANGERS, p);
		if (!old)
			old = first_of_peer(all, CBX_HTTP_KNOWN, p);
		if (!old) {
			p->n--;
			return false;
		}
	} else if (p && p->strangers >= CBX_HTTP_ADDRESS_STRANGERS) {
		old = first_of_peer(all, CBX_HTTP_STRANGERS, p);
	} else if (all->standing[CBX_HTTP_STRANGERS] >= all->max / CBX_HTTP_STRANGERS_PART || all->n >= all->max) {
		old = waiting_one(all);
	}
	if (old)
		cbx_http_conn_cut(old);
	c->peer = p;
	LIST_INSERT_HEAD(&all->list, c, entry);
	all->n++;
	stand(c, CBX_HTTP_STRANGERS);
	return true;
}

void cbx_http_room_leave(struct cbx_http_conn *c)
{
	cbx_http_room_transferred(c);
	cbx_http_room_held(c);
	step_out(c);
	LIST_REMOVE(c, entry);
	c->all->n--;
	c->all->buffered -= c->body.len;
	c->all->unsent -= c->unsent;
	if (c->tenant) {
		c->tenant->buffered -= c->body.len;
		c->tenant->unsent -= c->unsent;
	}
	if (c->peer)
		c->peer->n--;
	forget(take_ptr(&c->peer));
	c->tenant = NULL;
}

void cbx_http_room_move(struct cbx_http_conn *c)
{
	enum cbx_http_line line = c->state == CBX_HTTP_ANSWERS ? CBX_HTTP_SERVED
				  : c->known		       ? CBX_HTTP_KNOWN
							       : CBX_HTTP_STRANGERS;
	struct cbx_http_conn *old;

	step_out(c);
	stand(c, line);
	if (line == CBX_HTTP_KNOWN && c->tenant && c->tenant->idle > CBX_HTTP_TENANT_IDLE) {
		old = first_of_tenant(c->all, c);
		if (old)
			cbx_http_conn_cut(old);
	}
	cbx_http_room_check(c->all);
}

void cbx_http_room_known(struct cbx_http_conn *c)
{
	if (!c->who.principal)
		return;
	step_out(c);
	if (c->tenant)
		c->tenant->unsent -= c->unsent;
	c->known = true;
	c->tenant = c->who.tenant;
	if (c->tenant)
		c->tenant->unsent += c->unsent;
	stand(c, CBX_HTTP_KNOWN);
}

/* ---- bytes ---- */

/* Of the line of those that are to say something, who sends a body; the oldest first. */
static void cut_bodies(struct cbx_http_conns *all, const struct cbx_http_conn *except, const struct cbx_tenant *of,
		       const size_t *bytes, size_t most)
{
	struct cbx_http_conn *c, *next;

	for (c = TAILQ_FIRST(&all->lines[CBX_HTTP_KNOWN]); c && *bytes > most; c = next) {
		next = TAILQ_NEXT(c, turn);
		if (c != except && c->state == CBX_HTTP_READS_BODY && c->body.len && (!of || c->tenant == of))
			cbx_http_conn_cut(c);
	}
}

void cbx_http_room_body(struct cbx_http_conn *c, size_t had)
{
	struct cbx_http_conns *all = c->all;

	all->buffered += c->body.len - had;
	if (c->tenant) {
		c->tenant->buffered += c->body.len - had;
		cut_bodies(all, c, c->tenant, &c->tenant->buffered, CBX_HTTP_BODIES_TENANT);
		cut_bodies(all, c, c->tenant, &all->buffered, CBX_HTTP_BODIES_MAX);
	}
	cut_bodies(all, c, NULL, &all->buffered, CBX_HTTP_BODIES_MAX);
}

bool cbx_http_room_hold(struct cbx_http_conn *c, size_t len)
{
	/* So that who is refused files can still do all else: of those there are not more than requests at once. */
	if (len <= CBX_HTTP_INPUT_MAX)
		return true;
	if (c->all->held + len > CBX_HTTP_HELD_MAX || (c->tenant && c->tenant->held + len > CBX_HTTP_HELD_TENANT))
		return false;
	c->held = len;
	c->all->held += len;
	if (c->tenant)
		c->tenant->held += len;
	return true;
}

void cbx_http_room_held(struct cbx_http_conn *c)
{
	c->all->held -= c->held;
	if (c->tenant)
		c->tenant->held -= c->held;
	c->held = 0;
}

bool cbx_http_room_transfer(struct cbx_http_conn *c)
{
	if (c->all->transfers >= CBX_HTTP_TRANSFERS_MAX ||
	    (c->tenant && c->tenant->transfers >= CBX_HTTP_TRANSFERS_TENANT))
		return false;
	c->transfers = true;
	c->all->transfers++;
	if (c->tenant)
		c->tenant->transfers++;
	return true;
}

void cbx_http_room_transferred(struct cbx_http_conn *c)
{
	if (!c->transfers)
		return;
	c->transfers = false;
	c->all->transfers--;
	if (c->tenant)
		c->tenant->transfers--;
}

static bool too_much_unsent(const struct cbx_http_conns *all, const struct cbx_tenant *t)
{
	return all->unsent > CBX_HTTP_UNSENT_MAX || (t && t->unsent > CBX_HTTP_UNSENT_TENANT);
}

/* The one that takes least of what it asked for. */
static void relieve(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_http_conns *all = arg;
	struct cbx_http_conn *c, *most;

	do {
		most = NULL;
		LIST_FOREACH(c, &all->list, entry)
			if (too_much_unsent(all, c->tenant) && (!most || c->unsent > most->unsent))
				most = c;
		if (most)
			cbx_http_conn_cut(most);
	} while (most);
}

static void on_output(struct evbuffer *out, const struct evbuffer_cb_info *info, void *arg)
{
	struct cbx_http_conn *c = arg;
	size_t change = info->n_added - info->n_deleted; /* the difference wraps, and so does the sum */

	if (c->state == CBX_HTTP_GONE)
		return;
	c->unsent += change;
	c->all->unsent += change;
	if (c->tenant)
		c->tenant->unsent += change;
	/* Not at once: whoever sends may hold the connection. */
	if (info->n_added && too_much_unsent(c->all, c->tenant))
		event_active(c->all->relief, EV_TIMEOUT, 0);
}

bool cbx_http_room_count(struct cbx_http_conn *c)
{
	return evbuffer_add_cb(bufferevent_get_output(c->bev), on_output, c) != NULL;
}

int cbx_http_room_init(struct cbx_http_conns *all, struct cbx_err *err)
{
	struct rlimit files;

	LIST_INIT(&all->list);
	for (size_t i = 0; i < CBX_HTTP_LINES; i++)
		TAILQ_INIT(&all->lines[i]);
	for (size_t i = 0; i < ARRAY_SIZE(all->peers); i++)
		LIST_INIT(&all->peers[i]);
	all->max = CBX_HTTP_CONNECTIONS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < all->max)
		all->max = files.rlim_cur / 2;
	all->relief = event_new(all->base, -1, 0, relieve, all);
	return all->relief ? 0 : cbx_fail(err, ENOMEM, "watch how much clients take");
}

void cbx_http_room_release(struct cbx_http_conns *all)
{
	cbx_event_free_p(&all->relief);
}
