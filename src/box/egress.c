/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd never has the listener: it makes the door, a pair of sockets, of which one end goes to
 * the sandbox's set-up with the CREATE request and the other to codebox-proxy. What comes back from there are
 * decisions, which are kept here, the latest of them, equal ones once.
 */
#include "box/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dirs.h"
#include "base/fd.h"
#include "base/timer.h"
#include "box/init.h"
#include "box/link.h"
#include "sandbox/plan.h"
#include "proxy/protocol.h"

#define EVENTS_PER_TURN 64

const char *const cbx_egress_variables[][2] = {
	{ "http_proxy", CBX_INSIDE_PROXY },
	{ "https_proxy", CBX_INSIDE_PROXY },
	{ "all_proxy", CBX_INSIDE_PROXY },
	{ "no_proxy", "localhost,127.0.0.1,::1" },
	{ "HTTP_PROXY", CBX_INSIDE_PROXY },
	{ "HTTPS_PROXY", CBX_INSIDE_PROXY },
	{ "ALL_PROXY", CBX_INSIDE_PROXY },
	{ "NO_PROXY", "localhost,127.0.0.1,::1" },
	{ "NODE_USE_ENV_PROXY", "1" }, /* Node ignores the others without it */
	{ NULL, NULL },
};

#define TRUST CBX_INSIDE_HOME "/.local/share/codebox/ca.pem"

const char *const cbx_egress_trust[][2] = {
	{ "SSL_CERT_FILE", TRUST },  { "REQUESTS_CA_BUNDLE", TRUST },
	{ "CURL_CA_BUNDLE", TRUST }, { "NODE_EXTRA_CA_CERTS", TRUST },
	{ "GIT_SSL_CAINFO", TRUST }, { "AWS_CA_BUNDLE", TRUST },
	{ "PIP_CERT", TRUST },	     { NULL, NULL },
};

struct decision {
	struct cbx_proxy_event event; /* count: of all of them */
	time_t at;		      /* the last one */
};

struct cbx_decisions {
	bool up;
	char why[320]; /* "": it has not failed */
	struct decision all[CBX_NETWORK_DECISIONS_MAX];
	size_t n; /* that are there; the latest last */
	uint64_t lost;
};

/* ---- what is decided ---- */

static const char *via(const struct cbx_proxy_event *e)
{
	static const char *const names[CBX_VIAS] = { "http", "connect", "socks5" };

	return e->via < CBX_VIAS ? names[e->via] : "?";
}

static void tell(struct cbx_box *box, const struct cbx_proxy_event *e)
{
	_cleanup_free_ char *text =
		cbx_xasprintf("network: %s %s:%u (%s): %s", e->type == CBX_PROXY_ALLOWED ? "allowed" : "refused",
			      e->host[0] ? e->host : "(no host)", e->port, via(e), e->why);

	if (!box->closed && box->all->events->decided)
		box->all->events->decided(box, text);
}

/* Which of them it is, moved to the end; a new one takes the place of the oldest. */
static struct decision *place(struct cbx_decisions *d, const struct cbx_proxy_event *e, bool *ret_new)
{
	struct decision one = { .event = *e };
	size_t i = 0;

	while (i < d->n &&
	       (d->all[i].event.type != e->type || d->all[i].event.port != e->port || d->all[i].event.via != e->via ||
		strcmp(d->all[i].event.host, e->host) != 0 || strcmp(d->all[i].event.why, e->why) != 0))
		i++;
	*ret_new = i == d->n;
	one.event.count = 0;
	if (i < d->n)
		one = d->all[i];
	else if (d->n < CBX_NETWORK_DECISIONS_MAX)
		d->n++;
	else
		i = 0;
	memmove(&d->all[i], &d->all[i + 1], (d->n - 1 - i) * sizeof(d->all[0]));
	d->all[d->n - 1] = one;
	return &d->all[d->n - 1];
}

/* ---- what its programs trust ---- */

static void trusted(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		    const struct cbx_err *err)
{
	struct cbx_box *box = arg;

	if (err || !box->egress.waits)
		return;
	box->egress.waits = false;
	if (h->value < 0)
		snprintf(box->egress.decisions->why, sizeof(box->egress.decisions->why),
			 "the certificates of the session's proxy could not be written: %s", strerror((int)-h->value));
	box->all->events->ready(box);
}

/* Init carries requests out one after the other: with the last piece all of it is there. */
static int write_trust(struct cbx_box *box, struct cbx_err *err)
{
	struct cbx_buf *t = &box->egress.trust;
	int r = 0;

	for (size_t at = 0; at < t->len && r >= 0; at += CBX_PROXY_TRUST_PIECE) {
		size_t n = t->len - at < CBX_PROXY_TRUST_PIECE ? t->len - at : CBX_PROXY_TRUST_PIECE;
		struct cbx_init_header h = { .type = CBX_INIT_WRITE, .arg = at };
		bool last = at + n == t->len;

		r = cbx_init_ask(box, &h, TRUST, sizeof(TRUST), t->data + at, n, NULL, 0, false, last ? trusted : NULL,
				 box, err);
	}
	cbx_buf_release(t);
	return r;
}

/* Both its init and its proxy are there, or there is not going to be a proxy. */
static void settle(struct cbx_box *box)
{
	struct cbx_egress *g = &box->egress;
	struct cbx_err err;

	if (!g->waits || !box->init.ready || box->closed)
		return;
	if (g->trust.len && !g->decisions->why[0]) {
		if (write_trust(box, &err) < 0)
			box->all->events->failed(box, &err);
		return;
	}
	g->waits = false;
	box->all->events->ready(box);
}

void cbx_egress_ready(struct cbx_box *box)
{
	if (!box->egress.waits)
		box->all->events->ready(box);
	else if (box->egress.decisions->up || box->egress.decisions->why[0])
		settle(box);
}

static bool take_trust(struct cbx_box *box, const char *p, size_t n)
{
	struct cbx_egress *g = &box->egress;

	if (!g->waits || g->decisions->up || n > CBX_PROXY_TRUST_PIECE || g->trust.len + n > CBX_TRUST_MAX)
		return false;
	cbx_buf_add(&g->trust, p, n);
	return true;
}

static void take(struct cbx_box *box, struct cbx_proxy_event *e)
{
	struct cbx_decisions *d = box->egress.decisions;
	struct decision *which;
	bool is_new;

	e->host[sizeof(e->host) - 1] = e->why[sizeof(e->why) - 1] = '\0';
	switch (e->type) {
	case CBX_PROXY_UP:
		d->up = true;
		settle(box);
		break;
	case CBX_PROXY_FAILED:
		memcpy(d->why, e->why, sizeof(d->why));
		tell(box, e);
		settle(box);
		break;
	case CBX_PROXY_ALLOWED:
	case CBX_PROXY_REFUSED:
		which = place(d, e, &is_new);
		which->event.count += e->count;
		which->at = time(NULL);
		if (is_new)
			tell(box, e);
		break;
	default:
		d->lost += e->count;
	}
}

/* One datagram. False: it is not one that the proxy sends. */
static bool take_datagram(struct cbx_box *box, const char *p, size_t n)
{
	struct cbx_proxy_event e;
	struct cbx_proxy_trust trust;

	if (n > sizeof(trust)) {
		memcpy(&trust, p, sizeof(trust));
		if (trust.type == CBX_PROXY_TRUST)
			return take_trust(box, p + sizeof(trust), n - sizeof(trust));
	}
	if (n != sizeof(e))
		return false;
	memcpy(&e, p, sizeof(e));
	take(box, &e);
	return true;
}

static void talk_in(evutil_socket_t fd, short what, void *arg)
{
	_cleanup_buf_ struct cbx_buf m = { 0 };
	struct cbx_box *box = arg;
	size_t room = sizeof(struct cbx_proxy_trust) + CBX_PROXY_TRUST_PIECE;

	for (int i = 0; i < EVENTS_PER_TURN && box->egress.talk >= 0; i++) {
		ssize_t n = cbx_recv_plain(fd, cbx_buf_reserve(&m, room), room);

		if (n == -EAGAIN)
			return;
		if (n <= 0 || !take_datagram(box, m.data, (size_t)n)) {
			struct cbx_decisions *d = box->egress.decisions;

			if (!d->why[0])
				snprintf(d->why, sizeof(d->why), "the proxy of this session has ended");
			d->up = false;
			cbx_egress_shut(box);
			settle(box);
			return;
		}
	}
}

/* ---- one box ---- */

int cbx_egress_open(struct cbx_box *box, int *ret, struct cbx_err *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make the door of a sandbox's proxy");
	box->egress.door = pair[0];
	*ret = pair[1];
	return 0;
}

static int hand_over(struct cbx_box *box, int theirs, struct cbx_err *err)
{
	int fds[2] = { box->egress.door, theirs };
	int r = box->all->proxy < 0 ? -ENOENT : cbx_send_fds(box->all->proxy, "s", 1, fds, 2);

	cbx_close_p(&box->egress.door);
	return r < 0 ? cbx_fail(err, -r, "reach codebox-proxy") : 0;
}

void cbx_egress_add_secret(struct cbx_buf *secrets, bool known, const char *text)
{
	cbx_buf_addc(secrets, known ? CBX_PROXY_SECRET_VALUE : CBX_PROXY_SECRET_WHY);
	cbx_buf_add(secrets, text, strlen(text) + 1);
}

int cbx_egress_serve(struct cbx_box *box, const struct cbx_network *rules, const struct cbx_buf *secrets,
		     struct cbx_err *err)
{
	struct cbx_egress *g = &box->egress;
	_cleanup_json_ cJSON *json = cbx_network_to_json(rules);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_fd_ int theirs = -1;
	int pair[2], r;

	g->decisions = cbx_xcalloc(1, sizeof(*g->decisions));
	g->waits = cbx_network_adds(rules) && !box->init.ready;
	cbx_json_print(&text, json);
	if (text.len > CBX_PROXY_RULES_MAX)
		r = cbx_refuse(err, "invalid_policy", E2BIG, "network: the rules are longer than %d bytes; use fewer",
			       CBX_PROXY_RULES_MAX);
	else if (secrets && secrets->len > CBX_PROXY_SECRETS_MAX)
		r = cbx_refuse(err, "invalid_policy", E2BIG, "network: the secrets are longer than %d bytes; use fewer",
			       CBX_PROXY_SECRETS_MAX);
	else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		r = cbx_fail(err, errno, "make the socket to a sandbox's proxy");
	else {
		g->talk = pair[0];
		theirs = pair[1];
		cbx_set_nonblock(g->talk, 1);
		r = hand_over(box, theirs, err);
	}
	if (r >= 0)
		r = cbx_send_fds(g->talk, text.data, text.len, NULL, 0);
	if (r >= 0 && cbx_network_adds(rules))
		r = cbx_send_fds(g->talk, cbx_buf_str(secrets), secrets->len, NULL, 0);
	if (r >= 0 && (!(g->in = event_new(box->all->base, g->talk, EV_READ | EV_PERSIST, talk_in, box)) ||
		       event_add(g->in, NULL) < 0))
		r = cbx_fail(err, ENOMEM, "watch a sandbox's proxy");
	if (r >= 0)
		return 0;
	snprintf(g->decisions->why, sizeof(g->decisions->why), "%.300s", err->msg);
	cbx_egress_shut(box);
	settle(box);
	return r;
}

void cbx_egress_shut(struct cbx_box *box)
{
	struct cbx_egress *g = &box->egress;

	cbx_event_free_p(&g->in);
	cbx_close_p(&g->door);
	cbx_close_p(&g->talk);
}

void cbx_egress_release(struct cbx_box *box)
{
	cbx_egress_shut(box);
	cbx_buf_release(&box->egress.trust);
	free(box->egress.decisions);
	box->egress.decisions = NULL;
}

static cJSON *decision_json(const struct decision *d)
{
	cJSON *o = cbx_json_new_obj();
	char when[32];

	cbx_format_time(d->at, when);
	cbx_json_set_str(o, "verdict", d->event.type == CBX_PROXY_ALLOWED ? "allowed" : "refused");
	cbx_json_set_str(o, "via", via(&d->event));
	cbx_json_set_str(o, "host", d->event.host);
	cbx_json_set_u64(o, "port", d->event.port);
	cbx_json_set_str(o, d->event.type == CBX_PROXY_ALLOWED ? "rule" : "why", d->event.why);
	cbx_json_set_u64(o, "count", d->event.count);
	cbx_json_set_str(o, "last", when);
	return o;
}

cJSON *cbx_egress_to_json(const struct cbx_box *box)
{
	const struct cbx_decisions *d = box->egress.decisions;
	cJSON *o = cbx_json_new_obj(), *list = cbx_json_new_arr();

	cbx_json_set_str(o, "state", !d ? "none" : d->why[0] ? "failed" : d->up ? "up" : "starting");
	if (d && d->why[0])
		cbx_json_set_str(o, "why", d->why);
	for (size_t i = 0; d && i < d->n; i++)
		cbx_json_push(list, decision_json(&d->all[i]));
	cbx_json_set(o, "decisions", list);
	if (d && d->lost)
		cbx_json_set_u64(o, "unreported", d->lost);
	return o;
}

/* ---- a route ---- */

/* As the C library reads the file. Of several, one of IPv4 before one of IPv6, which pasta serves only where the machine
 * has a route for it. False: none, but on the machine's loopback. */
static bool find_resolver(const char *path, char ret[46])
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_free_ char *all = NULL;
	char *rest = NULL;
	bool found = false;

	if (fd < 0 || cbx_read_whole(fd, CBX_RESOLV_CONF_MAX, &text) < 0)
		return false;
	all = cbx_buf_steal(&text);
	for (char *line = strtok_r(all, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		struct cbx_ip_range at;
		const char *special;
		char address[64];

		if (sscanf(line, "nameserver %63s", address) != 1 || strchr(address, '/') ||
		    cbx_ip_range_parse(address, &at) || (found && at.ip.v6))
			continue;
		special = cbx_ip_special(&at.ip);
		if (special && cbx_starts_with(special, "loopback"))
			continue;
		cbx_ip_print(&at.ip, ret);
		found = true;
		if (!at.ip.v6)
			break;
	}
	return found;
}

/* pasta before 2024-10 cannot ask a resolver on the machine's loopback; systemd's says whom it asks. A file that has been
 * put in the place of /etc/resolv.conf since codeboxd's start is not one that it may read: what was found last stays. */
const char *cbx_egress_resolver(struct cbx_boxes *all)
{
	if (!find_resolver("/etc/resolv.conf", all->resolver) &&
	    !find_resolver(CBX_SYSTEMD_RESOLVE "/resolv.conf", all->resolver) && !all->resolver[0])
		memcpy(all->resolver, "127.0.0.1", sizeof("127.0.0.1"));
	return all->resolver;
}

/* ---- the program ---- */

void cbx_egress_start(struct cbx_boxes *all)
{
	_cleanup_free_ char *program = cbx_xasprintf("%s/codebox-proxy", all->config.libexec_dir);
	char uid[16], gid[16];
	char *argv[] = { program, (char *)all->config.syscalls_dir, uid, gid, NULL };
	_cleanup_fd_ int theirs = -1;
	int pair[2];
	pid_t pid;

	(void)cbx_egress_resolver(all);
	snprintf(uid, sizeof(uid), "%u", (unsigned)all->config.service_uid);
	snprintf(gid, sizeof(gid), "%u", (unsigned)all->config.service_gid);
	if (access(program, X_OK) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	all->proxy = pair[0];
	theirs = pair[1];
	cbx_set_nonblock(all->proxy, 1);
	pid = fork();
	if (pid == 0)
		cbx_link_exec(theirs, argv);
	if (pid < 0)
		cbx_close_p(&all->proxy);
}
