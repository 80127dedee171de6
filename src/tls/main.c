/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: where a policy has secrets that codebox-proxy adds to requests, it must read these, and so end
 * TLS. That is done here, and not there: two processes for a session, started by its proxy, one that faces the sandbox
 * and has an authority of its own, which only this sandbox trusts; and one that faces servers, and verifies them by the
 * machine's authorities. The first never has a secret. Both get connections that are open (tls-protocol.h), open no
 * file and no socket, and end with the proxy's process.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "proxy/tls-protocol.h"
#include "sandbox/worker.h"
#include "tls/tls.h"

#define SOCK	  3
#define LISTS	  5 /* argv[2] leads there */
#define EVENTS	  64
#define SWEEP_MS  5000
#define PUMPS_MAX (2 * CBX_NETWORK_CONNECTIONS_MAX)

struct tls {
	bool inside;
	int epoll;
	SSL_CTX *ctx;
	struct authority *authority; /* inside */
	struct pumps pumps;
	size_t n;
	uint64_t swept_ms;
};

/* ---- what the handshakes ask ---- */

/* Whoever connects must name the host that the tunnel is for. OpenSSL asks if no name was given, too. */
static int check_name(SSL *ssl, int *alert, void *arg)
{
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name), *wanted = SSL_get_app_data(ssl);

	if (name && wanted && strcasecmp(name, wanted) == 0)
		return SSL_TLSEXT_ERR_OK;
	*alert = SSL_AD_UNRECOGNIZED_NAME;
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static const unsigned char protocols[] = "\x08http/1.1";

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *n, const unsigned char *in, unsigned len,
			   void *arg)
{
	unsigned char *chosen;

	if (SSL_select_next_proto(&chosen, n, protocols, sizeof(protocols) - 1, in, len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static bool prepare(struct tls *t, SSL *ssl, const char *name)
{
	if (t->inside) {
		SSL_set_accept_state(ssl);
		return authority_certify(t->authority, ssl, name);
	}
	SSL_set_connect_state(ssl);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, name) == 1;
}

/* ---- requests ---- */

static void end(struct tls *t, struct pump *p)
{
	TAILQ_REMOVE(&t->pumps, p, entry);
	t->n--;
	pump_free(p);
}

static void step(struct tls *t, struct pump *p, uint64_t now)
{
	if (!pump_step(p, now))
		end(t, p);
}

static void begin(struct tls *t, const struct cbx_tls_request *q, const char *first, int net, int plain)
{
	SSL *ssl = t->n < PUMPS_MAX ? SSL_new(t->ctx) : NULL;
	struct pump *p;

	if (!ssl || !prepare(t, ssl, q->host)) {
		SSL_free(ssl);
		close(net);
		close(plain);
		return;
	}
	p = pump_new(t->epoll, ssl, t->inside, q->host, net, plain);
	SSL_set_app_data(ssl, p->name);
	TAILQ_INSERT_TAIL(&t->pumps, p, entry);
	t->n++;
	if (q->len && BIO_write(p->in, first, (int)q->len) != (int)q->len)
		end(t, p);
	else
		step(t, p, cbx_now_ms());
}

static void take_requests(struct tls *t)
{
	static struct {
		struct cbx_tls_request request;
		char first[CBX_TLS_FIRST_MAX];
	} m; /* one thread; used up before it is filled again */
	int fds[CBX_FDS_MAX];
	size_t nfds;

	for (int i = 0; i < 16; i++) {
		ssize_t n = cbx_recv_fds(SOCK, &m, sizeof(m), fds, &nfds);

		if (n == -EAGAIN)
			return;
		if (n <= 0)
			_exit(0); /* the proxy has gone */
		if ((size_t)n < sizeof(m.request) || nfds != 2 || m.request.len != (size_t)n - sizeof(m.request) ||
		    strnlen(m.request.host, sizeof(m.request.host)) == sizeof(m.request.host))
			_exit(1);
		begin(t, &m.request, m.first, fds[0], fds[1]);
	}
}

/* ---- the loop ---- */

static void sweep(struct tls *t, uint64_t now)
{
	struct pump *p, *next;

	t->swept_ms = now;
	for (p = TAILQ_FIRST(&t->pumps); p; p = next) {
		next = TAILQ_NEXT(p, entry);
		if (pump_late(p, now))
			end(t, p);
	}
}

static bool lives(const struct tls *t, const struct pump *which)
{
	const struct pump *p;

	TAILQ_FOREACH(p, &t->pumps, entry)
		if (p == which)
			return true;
	return false;
}

static void turn(struct tls *t)
{
	struct epoll_event events[EVENTS];
	struct pump *pumps[EVENTS];
	int n = epoll_wait(t->epoll, events, EVENTS, t->n ? SWEEP_MS : -1);
	uint64_t now = cbx_now_ms();

	for (int i = 0; i < n; i++) {
		struct side *s = events[i].data.ptr;

		pumps[i] = s ? s->pump : NULL;
		if (s && events[i].events & (EPOLLHUP | EPOLLERR))
			pump_hung_up(s);
	}
	for (int i = 0; i < n; i++) {
		if (!pumps[i])
			take_requests(t);
		else if (lives(t, pumps[i])) /* both sides may have had an event, and it ended with the first */
			step(t, pumps[i], now);
	}
	if (now - t->swept_ms >= SWEEP_MS)
		sweep(t, now);
}

/* ---- start ---- */

static int confine(const char *lists, struct cbx_err *err)
{
	struct cbx_worker w = { .dir = -1,
				.file_bytes = 0,
				.descriptors = 2 * PUMPS_MAX + 64,
				.memory_bytes = CBX_WORKER_ANY,
				.cpu_s = CBX_WORKER_ANY };
	struct cbx_filter filter = { 0 };
	struct rlimit own;
	int r = cbx_filter_compile(lists, "tls", &filter, err);

	if (getrlimit(RLIMIT_NOFILE, &own) == 0 && own.rlim_max < w.descriptors)
		w.descriptors = own.rlim_max; /* the policy's connections will not be as many, either */
	if (r >= 0)
		r = cbx_worker_confine(&w, &filter, err);
	cbx_filter_release(&filter);
	close(LISTS);
	return r;
}

static int start(struct tls *t, const char *lists, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf hello = { 0 };
	struct epoll_event e = { .events = EPOLLIN };
	int r;

	t->ctx = context_new(t->inside, err);
	if (!t->ctx)
		return -err->code;
	if (t->inside) {
		SSL_CTX_set_tlsext_servername_callback(t->ctx, check_name);
		SSL_CTX_set_alpn_select_cb(t->ctx, choose_protocol, NULL);
		r = authority_new(&t->authority, err);
		if (r >= 0)
			authority_print(t->authority, &hello);
	} else {
		SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
		(void)SSL_CTX_set_alpn_protos(t->ctx, protocols, sizeof(protocols) - 1);
		r = context_trust_machine(t->ctx, err);
		cbx_buf_addc(&hello, 'x');
	}
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (r >= 0 &&
	    (t->epoll < 0 || epoll_ctl(t->epoll, EPOLL_CTL_ADD, SOCK, &e) < 0 || cbx_set_nonblock(SOCK, 1) < 0))
		r = cbx_fail(err, errno, "make an epoll instance");
	if (r >= 0)
		r = confine(lists, err);
	return r < 0 ? r : cbx_send_fds(SOCK, hello.data, hello.len, NULL, 0);
}

int main(int argc, char **argv)
{
	struct tls t = { .epoll = -1 };
	struct cbx_err err = { 0 };

	if (argc != 3 || (strcmp(argv[1], CBX_TLS_INSIDE) != 0 && strcmp(argv[1], CBX_TLS_OUTSIDE) != 0) ||
	    cbx_set_cloexec(SOCK, 1) < 0) {
		fprintf(stderr, "codebox-tls is started by codebox-proxy; see codebox-policy(5).\n");
		return 2;
	}
	TAILQ_INIT(&t.pumps);
	t.inside = strcmp(argv[1], CBX_TLS_INSIDE) == 0;
	signal(SIGPIPE, SIG_IGN);
	(void)prctl(PR_SET_NAME, "codebox-tls"); /* it was executed by a descriptor, whose number older kernels show */
	/* Before there is a key. */
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || start(&t, argv[2], &err) < 0) {
		fprintf(stderr, "codebox-tls: %s\n", err.msg);
		return 1;
	}
	for (;;)
		turn(&t);
}
