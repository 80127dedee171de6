/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: each decision is reported. Equal ones that follow within a second are reported as one with their
 * number, and of those that are not equal, up to a number a second; the rest is counted. So code that asks for a
 * thousand names a second cannot make codeboxd busy, and the log stays one that can be read.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "proxy/proxy.h"

#define KEPT	     32
#define NEW_A_SECOND 32
#define AGAIN_MS     1000

struct kept {
	struct cbx_proxy_event event; /* count: not reported yet */
	uint64_t sent_ms;
};

struct reporting {
	int fd;
	struct kept all[KEPT];
	size_t next;
	uint64_t second_ms;
	unsigned in_second;
	uint32_t lost;
};

static void send_event(struct reporting *r, const struct cbx_proxy_event *e)
{
	if (send(r->fd, e, sizeof(*e), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		r->lost += e->count;
}

static void send_kept(struct reporting *r, struct kept *k, uint64_t now)
{
	if (!k->event.count)
		return;
	send_event(r, &k->event);
	k->event.count = 0;
	k->sent_ms = now;
}

int report_open(struct proxy *p, int fd)
{
	p->reporting = cbx_xcalloc(1, sizeof(*p->reporting));
	p->reporting->fd = fd;
	return 0;
}

static bool same(const struct cbx_proxy_event *a, const struct cbx_proxy_event *b)
{
	return a->type == b->type && a->via == b->via && a->port == b->port && strcmp(a->host, b->host) == 0 &&
	       strcmp(a->why, b->why) == 0;
}

static bool too_many(struct reporting *r, uint64_t now)
{
	if (now - r->second_ms >= 1000) {
		r->second_ms = now;
		r->in_second = 0;
	}
	return r->in_second++ >= NEW_A_SECOND;
}

void report(struct proxy *p, enum cbx_proxy_event_type type, enum cbx_proxy_via via, const char *host, uint16_t port,
	    const char *why)
{
	struct reporting *r = p->reporting;
	struct cbx_proxy_event e = { .type = type, .count = 1, .port = port, .via = (uint16_t)via };
	struct kept *k;

	snprintf(e.host, sizeof(e.host), "%s", host);
	snprintf(e.why, sizeof(e.why), "%s", why);
	for (size_t i = 0; i < KEPT; i++) {
		k = &r->all[i];
		if (!k->sent_ms || !same(&k->event, &e))
			continue;
		k->event.count++;
		if (p->now_ms - k->sent_ms >= AGAIN_MS)
			send_kept(r, k, p->now_ms);
		return;
	}
	if (too_many(r, p->now_ms)) {
		r->lost++;
		return;
	}
	k = &r->all[r->next++ % KEPT];
	send_kept(r, k, p->now_ms);
	k->event = e;
	send_kept(r, k, p->now_ms);
}

bool report_waits(const struct proxy *p)
{
	const struct reporting *r = p->reporting;

	for (size_t i = 0; i < KEPT; i++)
		if (r->all[i].event.count)
			return true;
	return r->lost;
}

void report_flush(struct proxy *p)
{
	struct reporting *r = p->reporting;
	struct cbx_proxy_event e = { .type = CBX_PROXY_LOST, .count = r->lost };

	for (size_t i = 0; i < KEPT; i++)
		if (p->now_ms - r->all[i].sent_ms >= AGAIN_MS)
			send_kept(r, &r->all[i], p->now_ms);
	if (!r->lost)
		return;
	r->lost = 0;
	send_event(r, &e);
}
