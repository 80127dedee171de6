/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one process serves one sandbox. It is forked with two descriptors, gets the rules by the one
 * and, when the sandbox is set up, the listening socket by the other. So which sandbox a connection comes from is known
 * by the process that accepts it, and what breaks or fills this process is that sandbox's own loss. Before it accepts
 * anything it gives up the file system, but for /etc/hosts, and all system calls but those of policies/syscalls/proxy.
 * Where rules have secrets it gets them before that, starts codebox-tls, and sends codeboxd the certificates that the
 * sandbox's programs are to trust: the machine's, and that of an authority that only they know.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/socket.h"
#include "base/trust.h"
#include "proxy/proxy.h"
#include "proxy/tls-protocol.h"
#include "proxy/within.h"
#include "sandbox/landlock.h"
#include "sandbox/self.h"

#define EVENTS	   64
#define SWEEP_MS   1000
#define STALLED_MS 5000 /* one in which nothing has passed for this time gives way to a new one */

/* ---- connections ---- */

static bool make_room(struct proxy *p)
{
	struct conn *c, *oldest = NULL;

	TAILQ_FOREACH(c, &p->conns, entry)
		if (!oldest || c->active_ms < oldest->active_ms)
			oldest = c;
	if (!oldest || p->now_ms - oldest->active_ms < STALLED_MS)
		return false;
	conn_end(oldest);
	return true;
}

static void listener_ready(struct watch *w, uint32_t events)
{
	struct proxy *p = (struct proxy *)(void *)((char *)w - offsetof(struct proxy, listener));

	for (int i = 0; i < 16; i++) {
		int fd;

		if (p->n >= p->rules.connections && !make_room(p)) {
			watch_set(p, w, 0); /* until one ends, or stands still */
			return;
		}
		fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			watch_set(p, w, 0); /* likewise */
		if (fd < 0)
			return;
		conn_new(p, fd);
	}
}

static void sweep(struct proxy *p)
{
	struct conn *c, *next;

	p->swept_ms = p->now_ms;
	for (c = TAILQ_FIRST(&p->conns); c; c = next) {
		next = TAILQ_NEXT(c, entry);
		conn_sweep(c);
	}
	report_flush(p);
	watch_set(p, &p->listener, EPOLLIN);
}

static void talk_ready(struct watch *w, uint32_t events)
{
	_exit(0); /* codeboxd has closed it, or says what it never says */
}

/* ---- start ---- */

static int read_rules(int talk, struct cbx_network *ret, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 };
	ssize_t n = recv(talk, cbx_buf_reserve(&text, CBX_PROXY_RULES_MAX), CBX_PROXY_RULES_MAX, 0);
	int r;

	if (n == 0)
		_exit(0);
	if (n < 0)
		return cbx_fail(err, errno, "read the rules");
	r = cbx_json_parse(text.data, (size_t)n, &doc, err);
	return r < 0 ? r : cbx_network_parse(doc.root, ret, NULL, err);
}

/* ---- secrets ---- */

static int send_trust(int talk, const struct cbx_buf *text, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf m = { 0 };

	for (size_t at = 0; at < text->len; at += CBX_PROXY_TRUST_PIECE) {
		struct cbx_proxy_trust head = { .type = CBX_PROXY_TRUST };
		size_t n = text->len - at;

		n = n < CBX_PROXY_TRUST_PIECE ? n : CBX_PROXY_TRUST_PIECE;
		m.len = 0;
		cbx_buf_add(&m, &head, sizeof(head));
		cbx_buf_add(&m, text->data + at, n);
		if (send(talk, m.data, m.len, MSG_NOSIGNAL) < 0)
			return cbx_fail(err, errno, "hand out certificates");
	}
	return 0;
}

/* What other hosts than those with secrets are known by, whose TLS stays theirs. */
static void add_machine(struct cbx_buf *out)
{
	const char *file = cbx_trust_of_machine();
	_cleanup_fd_ int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0 && cbx_read_whole(fd, CBX_TRUST_MAX - CBX_TLS_PEM_MAX, out) < 0)
		cbx_buf_release(out);
	if (out->len && out->data[out->len - 1] != '\n')
		cbx_buf_addc(out, '\n');
}

static int start_tls(struct proxy *p, const struct launch *how, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf trust = { 0 }, ready = { 0 };

	add_machine(&trust);
	p->inside = within_start(how->tls, CBX_TLS_INSIDE, how->lists, &trust, err);
	if (p->inside < 0)
		return p->inside;
	p->outside = within_start(how->tls, CBX_TLS_OUTSIDE, how->lists, &ready, err);
	return p->outside < 0 ? p->outside : send_trust(p->talk.fd, &trust, err);
}

/* When codebox-tls has been forked: it gets no copy of them. */
static int read_secrets(struct proxy *p, struct cbx_err *err)
{
	struct cbx_buf text = { 0 };
	ssize_t n = recv(p->talk.fd, cbx_buf_reserve(&text, CBX_PROXY_SECRETS_MAX), CBX_PROXY_SECRETS_MAX, 0);
	int r = 0;

	if (n == 0)
		_exit(0);
	if (n < 0)
		r = cbx_fail(err, errno, "read the secrets");
	else if (!secrets_take(&p->rules, text.data, (size_t)n, &p->secrets))
		r = cbx_refuse(err, "network", EPROTO, "codeboxd sent other secrets than the rules have");
	cbx_buf_wipe(&text);
	return r;
}

static int take_listener(int door, int *ret, struct cbx_err *err)
{
	int fds[CBX_FDS_MAX];
	char byte;
	size_t nfds = 0;
	ssize_t n = cbx_recv_fds(door, &byte, 1, fds, &nfds);

	if (n == 0)
		_exit(0); /* the sandbox was not made */
	if (n != 1 || nfds != 1 || !cbx_is_listening(fds[0]))
		return cbx_refuse(err, "network", EPROTO, "the sandbox has handed over something else than a listener");
	*ret = fds[0];
	return cbx_set_nonblock(fds[0], 1);
}

static int give_up_files(struct cbx_err *err)
{
	uint32_t abi = cbx_landlock_abi();
	_cleanup_fd_ int hosts = open("/etc/hosts", O_PATH | O_CLOEXEC);
	struct cbx_landlock l = { .fd = -1 };
	int r = abi ? cbx_landlock_new(abi, CBX_LANDLOCK_SCOPED, &l, err) : 0;

	if (!abi || r < 0)
		return r;
	if (hosts >= 0)
		r = cbx_landlock_allow(&l, hosts, CBX_LANDLOCK_READ, "/etc/hosts", err);
	if (r >= 0)
		r = cbx_landlock_restrict_self(&l, cbx_landlock_restrict_flags(abi), err);
	cbx_close_p(&l.fd);
	return r;
}

static int confine(const struct cbx_filter *filter, struct cbx_err *err)
{
	const struct rlimit files = { CBX_NETWORK_CONNECTIONS_MAX * 2 + 128, CBX_NETWORK_CONNECTIONS_MAX * 2 + 128 };
	int r = 0;

	if (setrlimit(RLIMIT_NOFILE, &files) < 0 && errno != EPERM)
		r = cbx_fail(err, errno, "limit the number of files");
	if (r >= 0)
		r = give_up_files(err);
	if (r >= 0)
		r = cbx_self_filter(filter, err);
	return r;
}

static int start(struct proxy *p, int door, int talk, const struct launch *how, struct cbx_err *err)
{
	int r, listener = -1;

	report_open(p, talk);
	p->talk.fd = talk;
	r = read_rules(talk, &p->rules, err);
	if (r >= 0 && cbx_network_adds(&p->rules))
		r = start_tls(p, how, err);
	if (r >= 0 && p->inside >= 0)
		r = read_secrets(p, err);
	cbx_close_p(&(int){ how->tls });
	cbx_close_p(&(int){ how->lists });
	if (r >= 0)
		r = take_listener(door, &listener, err);
	close(door);
	if (r < 0)
		return r;
	p->scratch = cbx_xcalloc(1, SCRATCH);
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll < 0)
		return cbx_fail(err, errno, "make an epoll instance");
	r = names_open(p, err);
	if (r >= 0)
		r = confine(how->filter, err);
	if (r < 0)
		return r;
	p->listener = (struct watch){ listener_ready, listener, 0 };
	p->talk = (struct watch){ talk_ready, talk, 0 };
	watch_set(p, &p->listener, EPOLLIN);
	watch_set(p, &p->talk, EPOLLIN);
	return 0;
}

/* ---- the loop ---- */

static int wait_ms(struct proxy *p)
{
	int names = names_wait_ms(p), tick = p->n || report_waits(p) || !p->listener.events ? SWEEP_MS : -1;

	return names >= 0 && (tick < 0 || names < tick) ? names : tick;
}

static void turn(struct proxy *p)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(p->epoll, events, EVENTS, wait_ms(p));
	struct conn *c;

	p->now_ms = cbx_now_ms();
	for (int i = 0; i < n; i++) {
		struct watch *w = events[i].data.ptr;

		if (w->events) /* an earlier event of this turn may have closed it */
			w->ready(w, events[i].events);
	}
	names_time(p);
	if (p->now_ms - p->swept_ms >= SWEEP_MS)
		sweep(p);
	while ((c = TAILQ_FIRST(&p->dead))) {
		TAILQ_REMOVE(&p->dead, c, entry);
		conn_free(c);
	}
}

void proxy_serve(int door, int talk, const struct launch *how)
{
	struct proxy p = { .epoll = -1, .inside = -1, .outside = -1, .now_ms = cbx_now_ms() };
	struct cbx_err err = { 0 };

	TAILQ_INIT(&p.conns);
	TAILQ_INIT(&p.dead);
	if (start(&p, door, talk, how, &err) < 0) {
		report(&p, CBX_PROXY_FAILED, 0, "", 0, err.msg);
		_exit(1);
	}
	report(&p, CBX_PROXY_UP, 0, "", 0, "");
	for (;;)
		turn(&p);
}
