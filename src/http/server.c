/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: connections are accepted here and served by conn.c. Every request passes a gate when its headers
 * are there, before its body is read (gate.c).
 */
#include "http/http.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "http/address.h"
#include "http/conn.h"
#include "http/gate.h"
#include "http/mcp_http.h"
#include "http/resource.h"
#include "http/room.h"
#include "http/ui.h"
#include "mcp/mcp.h"
#include "rest/rest.h"
#include "wire/listener.h"
#include "wire/rpc.h"

struct cbx_http {
	struct cbx_http_conns conns;
	struct cbx_http_mcp mcp;
	struct cbx_rest rest;
	struct cbx_http_gate gate;
	struct cbx_service service; /* whose users may use a unix socket that asks for no token */
	struct cbx_http_tls *tls;   /* NULL: none */
	const struct cbx_mcp_registry *served; /* at /mcp */
	bool open, ui;
	char **urls; /* of the doors */
};

/* ---- requests ---- */

static bool is_ui(const struct cbx_http *http, const struct cbx_http_conn *c)
{
	return http->ui && cbx_http_ui_is(c->head.path);
}

static bool may_pass(void *arg, struct cbx_http_conn *c)
{
	const struct cbx_http *http = arg;

	return cbx_http_gate_pass(&http->gate, c,
				  is_ui(http, c) || cbx_http_resource_is(c) || cbx_rest_open_to_all(&c->head));
}

static void request(void *arg, struct cbx_http_conn *c, const char *body, size_t len)
{
	struct cbx_http *http = arg;
	const char *path = c->head.path;
	const struct cbx_mcp_registry *registry = NULL;

	if (is_ui(http, c)) {
		cbx_http_ui_request(c, cbx_http_gate_asks(&http->gate));
		return;
	}
	if (cbx_http_resource_is(c)) {
		cbx_http_resource_request(c);
		return;
	}
	if (!cbx_http_room_hold(c, len)) {
		cbx_http_add_header(c, "Retry-After", "1");
		cbx_http_gate_refuse(c, 429, "too_many_transfers",
				     "too many large bodies are being worked on; try again later");
		return;
	}
	if (strcmp(path, "/mcp") == 0)
		registry = http->served;
	else if (cbx_starts_with(path, "/mcp/"))
		registry = cbx_mcp_registry_find(http->mcp.registry, path + strlen("/mcp/"));
	if (registry)
		cbx_http_mcp_request(&http->mcp, registry, c, body, len);
	else if (cbx_starts_with(path, "/mcp/"))
		cbx_http_refuse(c, 404, CBX_RPC_INVALID_REQUEST, NULL,
				"not found: MCP is at /mcp, and at /mcp/NAME for a profile");
	else
		cbx_rest_request(&http->rest, c, body, len);
}

static bool in_pieces(void *arg, const struct cbx_http_conn *c)
{
	return cbx_rest_in_pieces(&c->head);
}

/* ---- start and end ---- */

bool cbx_http_busy(const struct cbx_http *http)
{
	return http && (cbx_http_mcp_busy(&http->mcp) || cbx_rest_busy(&http->rest));
}

const char *cbx_http_url(const struct cbx_http *http, size_t i)
{
	return i < http->conns.ndoors ? http->urls[i] : NULL;
}

static void accepted(void *arg, int fd)
{
	struct cbx_http_door *door = arg;
	uid_t uid;

	if (door->checks_user && cbx_peer_allowed(fd, &door->http->service, &uid) <= 0)
		close(fd);
	else
		cbx_http_conn_accept(&door->http->conns, door, fd);
}

/* A socket that listens becomes one of the doors. */
static int add_door(struct cbx_http *http, int fd, struct cbx_err *err)
{
	struct cbx_http_door *door = &http->conns.doors[http->conns.ndoors];
	struct cbx_address a;
	char text[128];

	if (cbx_address_of(fd, &a) < 0) {
		close(fd);
		return cbx_refuse(
			err, "invalid_start", EINVAL,
			"--http: a descriptor that was passed is not a socket; use ListenStream in the socket unit");
	}
	cbx_address_print(&a, text);
	door->http = http;
	door->local = cbx_address_is_local(&a);
	door->checks_user = a.at.any.sa_family == AF_UNIX && !cbx_http_gate_asks(&http->gate);
	if (!door->local && !http->open && !cbx_http_gate_asks(&http->gate)) {
		close(fd);
		return cbx_refuse(
			err, "invalid_argument", EINVAL,
			"--http: %s is not a loopback address, and whoever reaches it could run code: make tenants "
			"(--tenants), name a token (--http-token-file), or say --http-without-authentication",
			text);
	}
	if (a.at.any.sa_family != AF_UNIX)
		door->tls = http->tls;
	if (!door->local && !door->tls)
		cbx_warn(
			"--http: %s is not a loopback address, and has no TLS: whoever can read on the way sees tokens "
			"and "
			"all that sessions do; give --http-certificate and --http-key, or listen on a loopback address "
			"behind a proxy with TLS",
			text);
	/* Connections inherit it: an event of a stream must not wait for the client to acknowledge the one before. */
	if (a.at.any.sa_family != AF_UNIX)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	http->urls[http->conns.ndoors] = a.at.any.sa_family == AF_UNIX
						 ? cbx_xasprintf("unix:%s", text)
						 : cbx_xasprintf("http%s://%s/mcp", door->tls ? "s" : "", text);
	if (cbx_listener_new(http->conns.base, fd, accepted, door, &door->listener, err) < 0)
		return -err->code;
	http->conns.ndoors++;
	return 0;
}

static int listen_on(struct cbx_http *http, const char *address, struct cbx_err *err)
{
	struct cbx_address a;
	int r, fd = cbx_http_address_parse(address, &a, err);

	if (fd >= 0)
		fd = cbx_listen(&a, &http->service, err);
	if (fd < 0)
		return cbx_wrap(err, "--http");
	r = add_door(http, fd, err);
	if (r < 0 || a.at.any.sa_family != AF_UNIX)
		return r;
	http->conns.doors[http->conns.ndoors - 1].path = cbx_xstrdup(a.at.un.sun_path);
	/* Who asks for a token need not look at the user. */
	if (cbx_http_gate_asks(&http->gate) && chmod(a.at.un.sun_path, 0666) < 0)
		return cbx_fail(err, errno, "--http: let everybody connect to %s", a.at.un.sun_path);
	return 0;
}

/* Malloc'd; NULL: there is none. */
static char *host_of(const char *url)
{
	const char *host = url ? strstr(url, "://") : NULL;

	return host ? cbx_xasprintf("%.*s", (int)strcspn(host + 3, "/"), host + 3) : NULL;
}

int cbx_http_new(struct event_base *base, const struct cbx_http_config *config, struct cbx_http **ret,
		 struct cbx_err *err)
{
	static const struct cbx_http_conn_ops ops = { .on_head = may_pass,
						      .on_request = request,
						      .in_pieces = in_pieces };
	struct cbx_http *http = cbx_xcalloc(1, sizeof(*http));
	size_t n = config->naddresses + config->nfds;
	int r = 0;

	http->conns = (struct cbx_http_conns){
		.base = base, .ops = &ops, .arg = http, .metrics = config->metrics, .observer = config->observer
	};
	http->conns.doors = cbx_xcalloc(n, sizeof(*http->conns.doors));
	http->urls = cbx_xcalloc(n, sizeof(*http->urls));
	r = cbx_http_room_init(&http->conns, err);
	http->conns.pace.requests.per_second = config->rate;
	http->open = config->open;
	http->ui = config->ui;
	if (config->service)
		http->service = *config->service;
	http->gate.local = config->principal;
	http->gate.tenants = config->tenants;
	http->gate.url = config->url ? cbx_xstrdup(config->url) : NULL;
	http->gate.name = host_of(config->url);
	http->conns.gate = &http->gate;
	http->mcp = (struct cbx_http_mcp){ .base = base,
					   .engine = config->engine,
					   .registry = config->registry,
					   .node = config->node ? config->node : "",
					   .on_idle = config->on_idle,
					   .arg = config->arg };
	cbx_http_mcp_init(&http->mcp);
	http->served = config->profile ? cbx_mcp_registry_find(config->registry, config->profile) : config->registry;
	http->rest = (struct cbx_rest){ .base = base,
					.engine = config->engine,
					.node = http->mcp.node,
					.on_idle = config->on_idle,
					.arg = config->arg };
	cbx_rest_init(&http->rest);
	if (r >= 0 && config->token_file)
		r = cbx_http_token_read(config->token_file, &http->gate.token, err);
	if (r >= 0 && config->tls.certificate)
		r = cbx_http_tls_new(&config->tls, &http->tls, err);
	for (size_t i = 0; i < config->nfds; i++)
		if (r >= 0)
			r = add_door(http, config->fds[i], err);
	for (size_t i = 0; i < config->naddresses && r >= 0; i++)
		r = listen_on(http, config->addresses[i], err);
	cbx_http_conns_pause(&http->conns, true);
	if (r < 0)
		cbx_http_free(http);
	else
		*ret = http;
	return r;
}

bool cbx_http_has_users(const struct cbx_http *http)
{
	for (size_t i = 0; http && i < http->conns.ndoors; i++)
		if (cbx_starts_with(http->urls[i], "unix:"))
			return true;
	return false;
}

void cbx_http_serve(struct cbx_http *http)
{
	if (http)
		cbx_http_conns_pause(&http->conns, false);
}

int cbx_http_reload_tls(struct cbx_http *http, struct cbx_err *err)
{
	if (!http || !http->tls)
		return 0;
	if (cbx_http_tls_reload(http->tls, err) < 0)
		return cbx_wrap(err, "certificate and key stay as they were");
	cbx_info("certificate and key were read again");
	return 0;
}

void cbx_http_tenants_changed(struct cbx_http *http)
{
	struct cbx_http_conn *c, *next;

	if (!http)
		return;
	cbx_http_mcp_check(&http->mcp);
	for (c = LIST_FIRST(&http->conns.list); c; c = next) {
		next = LIST_NEXT(c, entry);
		if (!cbx_http_gate_still(&http->gate, &c->who))
			cbx_http_conn_cut(c);
	}
}

void cbx_http_drain(struct cbx_http *http)
{
	if (http)
		http->rest.draining = true;
}

/* What is sent goes out from the loop: this number of turns is enough for those who read. */
#define LAST_TURNS 16

void cbx_http_stop(struct cbx_http *http)
{
	if (!http)
		return;
	http->rest.draining = true;
	cbx_http_conns_pause(&http->conns, true);
	http->conns.full = false;
	http->conns.max = SIZE_MAX; /* so that it stays so */
	if (!cbx_http_mcp_end_streams(&http->mcp))
		return;
	for (int i = 0; i < LAST_TURNS; i++)
		event_base_loop(http->conns.base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
}

void cbx_http_free(struct cbx_http *http)
{
	if (!http)
		return;
	cbx_http_mcp_release(&http->mcp);
	cbx_rest_release(&http->rest);
	http->conns.full = false;
	http->conns.max = SIZE_MAX; /* so that it stays so */
	while (!LIST_EMPTY(&http->conns.list))
		cbx_http_conn_cut(LIST_FIRST(&http->conns.list));
	cbx_http_room_release(&http->conns);
	for (size_t i = 0; i < http->conns.ndoors; i++) {
		struct cbx_http_door *door = &http->conns.doors[i];

		cbx_listener_free(door->listener);
		if (door->path)
			(void)unlink(door->path); /* as far as the user that we have become may */
		free(door->path);
		free(http->urls[i]);
	}
	free(http->conns.doors);
	free(http->urls);
	cbx_http_tls_free(http->tls);
	cbx_buf_release(&http->gate.token);
	free(http->gate.url);
	free(http->gate.name);
	free(http);
}
