/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: evhttp parses requests and writes answers; what it lacks is added here. It has no limit on
 * connections, and does not tell of those that end without a request. So new ones are counted as they come, and when
 * the count reaches the limit, it is taken anew from the process's descriptors: those that are bound to our port. While
 * there really are too many, the listener sleeps and they are counted at intervals.
 *
 * Every request passes a gate before its path or method is looked at: the names by which this computer was addressed,
 * then the token.
 */
#include "http/internal.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"

#define SWEEP_MS 100
#define FDS_MAX	 16384 /* descriptors that are looked at */

/* That a descriptor is bound to; 0: it is no such socket. */
static uint16_t port_of(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} addr;
	socklen_t len = sizeof(addr);

	if (getsockname(fd, &addr.any, &len) < 0)
		return 0;
	if (addr.any.sa_family == AF_INET)
		return ntohs(addr.v4.sin_port);
	return addr.any.sa_family == AF_INET6 ? ntohs(addr.v6.sin6_port) : 0;
}

/* ---- connections ---- */

static size_t count_connections(const struct cbx_http *http)
{
	int listener = evhttp_bound_socket_get_fd(http->bound);
	_cleanup_free_ struct pollfd *fds = NULL;
	size_t n = FDS_MAX, found = 0;
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < n)
		n = lim.rlim_cur;
	fds = cbx_xcalloc(n, sizeof(*fds));
	for (size_t i = 0; i < n; i++)
		fds[i].fd = (int)i;
	if (poll(fds, n, 0) < 0)
		return CBX_HTTP_CONNECTIONS_MAX;
	for (size_t i = 0; i < n; i++)
		if (!(fds[i].revents & POLLNVAL) && fds[i].fd != listener && port_of(fds[i].fd) == http->port)
			found++;
	return found;
}

static void sweep(evutil_socket_t fd, short what, void *arg)
{
	struct timeval tv = { .tv_usec = SWEEP_MS * 1000 };
	struct cbx_http *http = arg;

	http->nconns = count_connections(http);
	if (http->nconns < CBX_HTTP_CONNECTIONS_MAX)
		evconnlistener_enable(evhttp_bound_socket_get_listener(http->bound));
	else
		event_add(http->sweep, &tv);
}

/* evhttp asks for a bufferevent of a connection that it has accepted; it makes one itself when it gets none. */
static struct bufferevent *on_connection(struct event_base *base, void *arg)
{
	struct timeval tv = { .tv_usec = SWEEP_MS * 1000 };
	struct cbx_http *http = arg;

	if (++http->nconns >= CBX_HTTP_CONNECTIONS_MAX) {
		http->nconns = count_connections(http);
		if (http->nconns >= CBX_HTTP_CONNECTIONS_MAX) {
			evconnlistener_disable(evhttp_bound_socket_get_listener(http->bound));
			event_add(http->sweep, &tv);
		}
	}
	return NULL;
}

/* ---- answers ---- */

const char *cbx_http_header(struct evhttp_request *req, const char *name)
{
	return evhttp_find_header(evhttp_request_get_input_headers(req), name);
}

static const char *reason_of(int status)
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {
		{ 200, "OK" },			   { 202, "Accepted" },		   { 400, "Bad Request" },
		{ 401, "Unauthorized" },	   { 403, "Forbidden" },	   { 404, "Not Found" },
		{ 405, "Method Not Allowed" },	   { 409, "Conflict" },		   { 415, "Unsupported Media Type" },
		{ 503, "Service Unavailable" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Error";
}

void cbx_http_reply(struct evhttp_request *req, int status, const char *type, const void *body, size_t len)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
	struct evbuffer *out = evbuffer_new();

	if (body)
		evhttp_add_header(headers, "Content-Type", type);
	/* evhttp would send it after HEAD, too, where a client takes it for the beginning of the next answer. */
	if (out && body && evhttp_request_get_command(req) != EVHTTP_REQ_HEAD)
		evbuffer_add(out, body, len);
	evhttp_add_header(headers, "Cache-Control", "no-store");
	evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
	evhttp_send_reply(req, status, reason_of(status), out);
	if (out)
		evbuffer_free(out);
}

void cbx_http_refuse(struct evhttp_request *req, int status, int code, const char *id, const char *fmt, ...)
{
	_cleanup_json_ cJSON *error = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf out = { 0 };
	char msg[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	cbx_json_set_i64(error, "code", code);
	cbx_json_set_str(error, "message", msg);
	cbx_buf_addf(&out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":", id ? id : "null");
	cbx_json_print(&out, error);
	cbx_buf_addc(&out, '}');
	cbx_http_reply(req, status, "application/json", out.data, out.len);
}

/* ---- the gate ---- */

static bool may_pass(struct cbx_http *http, struct evhttp_request *req)
{
	const char *host = cbx_http_header(req, "Host"), *origin = cbx_http_header(req, "Origin");

	if (!host || !cbx_http_host_allowed(host)) {
		cbx_http_refuse(req, host ? 403 : 400, -32600, NULL,
				"the Host header must name localhost, 127.0.0.1 or [::1]");
		return false;
	}
	if (origin && !cbx_http_origin_allowed(origin)) {
		cbx_http_refuse(req, 403, -32600, NULL, "requests of web pages from elsewhere are not served");
		return false;
	}
	/* Two ways of saying where the body ends: somebody between us and the client may see another one than we do. */
	if (cbx_http_header(req, "Transfer-Encoding") && cbx_http_header(req, "Content-Length")) {
		evhttp_add_header(evhttp_request_get_output_headers(req), "Connection", "close");
		cbx_http_refuse(req, 400, -32600, NULL, "both Transfer-Encoding and Content-Length are given");
		return false;
	}
	if (http->token.len && !cbx_http_token_ok(&http->token, cbx_http_header(req, "Authorization"))) {
		evhttp_add_header(evhttp_request_get_output_headers(req), "WWW-Authenticate", "Bearer");
		cbx_http_refuse(req, 401, -32600, NULL, "the bearer token of --http-token-file is needed");
		return false;
	}
	return true;
}

static void on_request(struct evhttp_request *req, void *arg)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
	struct cbx_http *http = arg;

	if (!may_pass(http, req))
		return;
	if (!path || strcmp(path, "/mcp") != 0)
		cbx_http_refuse(req, 404, -32600, NULL, "there is nothing here; MCP is at /mcp");
	else
		cbx_http_mcp(http, req);
}

/* ---- start and end ---- */

bool cbx_http_busy(const struct cbx_http *http)
{
	return http && (!LIST_EMPTY(&http->exchanges) || !TAILQ_EMPTY(&http->sessions));
}

void cbx_http_check_idle(struct cbx_http *http)
{
	if (!cbx_http_busy(http) && http->config.on_idle)
		http->config.on_idle(http->config.arg);
}

const char *cbx_http_url(const struct cbx_http *http)
{
	return http->url;
}

static int bind_to(struct cbx_http *http, const struct cbx_http_address *a, struct cbx_err *err)
{
	errno = 0;
	http->bound = evhttp_bind_socket_with_handle(http->evhttp, a->host, a->port);
	if (!http->bound)
		return cbx_fail(err, errno ? errno : EADDRINUSE, "--http: listen on %s", http->config.address);
	/* Connections inherit it: an event of a stream must not wait for the client to acknowledge the one before. */
	(void)setsockopt(evhttp_bound_socket_get_fd(http->bound), IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	http->port = port_of(evhttp_bound_socket_get_fd(http->bound));
	http->url = cbx_xasprintf("http://%s%s%s:%u/mcp", a->v6 ? "[" : "", a->host, a->v6 ? "]" : "",
				  http->port);
	return 0;
}

int cbx_http_new(struct event_base *base, const struct cbx_http_config *config, struct cbx_http **ret,
		 struct cbx_err *err)
{
	struct cbx_http_address address;
	struct cbx_http *http;
	int r = cbx_http_address_parse(config->address, &address, err);

	if (r < 0)
		return r;
	http = cbx_xcalloc(1, sizeof(*http));
	http->base = base;
	http->config = *config;
	LIST_INIT(&http->exchanges);
	TAILQ_INIT(&http->sessions);
	if (config->token_file)
		r = cbx_http_token_read(config->token_file, &http->token, err);
	http->evhttp = evhttp_new(base);
	http->sweep = event_new(base, -1, 0, sweep, http);
	if (r >= 0 && (!http->evhttp || !http->sweep))
		r = cbx_fail(err, ENOMEM, "make the HTTP server");
	if (r >= 0) {
		evhttp_set_max_headers_size(http->evhttp, CBX_HTTP_HEADERS_MAX);
		evhttp_set_max_body_size(http->evhttp, CBX_HTTP_BODY_MAX);
		evhttp_set_timeout(http->evhttp, CBX_HTTP_IDLE_S);
		evhttp_set_allowed_methods(http->evhttp, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
								 EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
								 EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
		evhttp_set_bevcb(http->evhttp, on_connection, http);
		evhttp_set_gencb(http->evhttp, on_request, http);
		r = bind_to(http, &address, err);
	}
	http->config.address = http->config.token_file = NULL;
	if (r < 0)
		cbx_http_free(http);
	else
		*ret = http;
	return r;
}

/* What is sent goes out from the loop: so many turns are enough for those who read. */
#define LAST_TURNS 16

void cbx_http_stop(struct cbx_http *http)
{
	struct cbx_http_exchange *ex;
	bool waiting = false;

	if (!http)
		return;
	event_del(http->sweep);
	evconnlistener_disable(evhttp_bound_socket_get_listener(http->bound));
	LIST_FOREACH(ex, &http->exchanges, entry) {
		if (ex->mcp && !ex->done) {
			cbx_mcp_end_streams(ex->mcp);
			waiting = true;
		}
	}
	for (int i = 0; waiting && i < LAST_TURNS; i++)
		event_base_loop(http->base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
}

void cbx_http_free(struct cbx_http *http)
{
	struct cbx_http_exchange *ex;
	struct cbx_http_session *session;

	if (!http)
		return;
	http->config.on_idle = NULL;
	while ((ex = LIST_FIRST(&http->exchanges)))
		cbx_http_exchange_cut(ex);
	while ((session = TAILQ_FIRST(&http->sessions)))
		cbx_http_session_free(session);
	if (http->evhttp)
		evhttp_free(http->evhttp);
	if (http->sweep)
		event_free(http->sweep);
	free(http->url);
	cbx_buf_release(&http->token);
	free(http);
}
