/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: this file knows what the Streamable HTTP transport asks of a request beside its message. A
 * request belongs to the era without a handshake when it says so in its header or in its _meta. Everything that the
 * core is not told – headers that repeat the body, session ids, what GET and DELETE mean – is settled here, and the
 * message itself goes to the core as it came.
 *
 * Sessions are kept in the order of their last use, so that the first one without a request is the one to give up when
 * there are too many.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "http/internal.h"

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define HEADER_MISMATCH (-32020)

/* What a body says of itself. Strings are borrowed from the document. */
struct envelope {
	struct cbx_json_doc doc;
	const char *id;      /* raw; NULL: none, or none to be echoed */
	const char *method;  /* NULL: an answer, or a batch */
	const char *version; /* in _meta; NULL: none */
	const char *name;    /* what Mcp-Name must repeat */
	bool has_id, has_capabilities;
};

static const char *str_member(const cJSON *obj, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);

	return cJSON_IsString(v) ? v->valuestring : NULL;
}

static void look_at(struct envelope *e)
{
	const cJSON *params = cJSON_GetObjectItemCaseSensitive(e->doc.root, "params");
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(params, "_meta");

	e->method = str_member(e->doc.root, "method");
	e->has_id = e->doc.id != NULL;
	e->id = e->has_id && cbx_mcp_id_valid(e->doc.id) ? e->doc.id : NULL;
	e->version = str_member(meta, META_VERSION);
	e->has_capabilities = cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(meta, META_CAPABILITIES));
	if (!e->method)
		return;
	if (strcmp(e->method, "tools/call") == 0 || strcmp(e->method, "prompts/get") == 0)
		e->name = str_member(params, "name");
	else if (strcmp(e->method, "resources/read") == 0)
		e->name = str_member(params, "uri");
	else if (cbx_starts_with(e->method, "tasks/"))
		e->name = str_member(params, "taskId");
}

/* ---- sessions of the handshake era ---- */

static void session_touch(struct cbx_http_session *s)
{
	struct timeval tv = { .tv_sec = CBX_HTTP_SESSION_IDLE_S };

	TAILQ_REMOVE(&s->http->sessions, s, entry);
	TAILQ_INSERT_TAIL(&s->http->sessions, s, entry);
	event_add(s->idle, &tv);
}

/* Of struct cbx_mcp_io: what belongs to no request. */
static void session_send(void *arg, const char *line, size_t len)
{
	struct cbx_http_session *s = arg;

	if (s->stream)
		cbx_http_exchange_event(s->stream, line, len);
	else if (s->waiting.len + len < CBX_HTTP_WAITING_MAX) {
		cbx_buf_adds(&s->waiting, "event: message\ndata: ");
		cbx_buf_add(&s->waiting, line, len);
		cbx_buf_adds(&s->waiting, "\n\n");
	}
}

void cbx_http_session_free(struct cbx_http_session *s)
{
	struct cbx_http *http = s->http;
	struct cbx_http_exchange *ex, *next;

	/* First the core, which may still have something to say to a stream; its requests then have no answer. */
	for (ex = LIST_FIRST(&http->exchanges); ex; ex = next) {
		next = LIST_NEXT(ex, entry);
		if (ex->session == s && !ex->get)
			cbx_mcp_forget(s->mcp, ex);
	}
	s->failed = false;
	s->exchanges++; /* so that the last exchange does not free it */
	for (ex = LIST_FIRST(&http->exchanges); ex; ex = next) {
		next = LIST_NEXT(ex, entry);
		if (ex->session == s)
			cbx_http_exchange_end(ex);
	}
	TAILQ_REMOVE(&http->sessions, s, entry);
	http->nsessions--;
	cbx_mcp_free(s->mcp);
	event_free(s->idle);
	cbx_buf_release(&s->waiting);
	free(s);
	cbx_http_check_idle(http);
}

void cbx_http_session_left(struct cbx_http_session *s)
{
	if (s->failed && !s->exchanges)
		cbx_http_session_free(s);
}

static void session_idle(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_http_session *s = arg;

	if (s->exchanges)
		session_touch(s);
	else
		cbx_http_session_free(s);
}

static struct cbx_http_session *session_new(struct cbx_http *http)
{
	struct cbx_mcp_io io = { .send = session_send,
				 .send_to = cbx_http_exchange_send,
				 .done = cbx_http_exchange_done };
	struct cbx_http_session *s, *oldest;

	if (http->nsessions >= CBX_HTTP_SESSIONS_MAX) {
		TAILQ_FOREACH(oldest, &http->sessions, entry)
			if (!oldest->exchanges)
				break;
		if (!oldest)
			return NULL;
		cbx_http_session_free(oldest);
	}
	s = cbx_xcalloc(1, sizeof(*s));
	s->http = http;
	io.arg = s;
	cbx_random_name(s->id, sizeof(s->id) - 1);
	s->mcp = cbx_mcp_new_with(http->config.engine, http->base, &io, http->config.registry);
	s->idle = event_new(http->base, -1, 0, session_idle, s);
	TAILQ_INSERT_TAIL(&http->sessions, s, entry);
	http->nsessions++;
	session_touch(s);
	return s;
}

/* NULL: refused. */
static struct cbx_http_session *session_of(struct cbx_http *http, struct evhttp_request *req, const char *id)
{
	const char *name = cbx_http_header(req, "Mcp-Session-Id");
	struct cbx_http_session *s;

	if (!name) {
		cbx_http_refuse(req, 400, -32600, id,
				"Bad Request: the Mcp-Session-Id header is missing; the answer to initialize has it");
		return NULL;
	}
	TAILQ_FOREACH(s, &http->sessions, entry) {
		if (strcmp(s->id, name) == 0) {
			session_touch(s);
			return s;
		}
	}
	cbx_http_refuse(req, 404, -32001, id, "Session not found: it has ended, or never was; send initialize again");
	return NULL;
}

/* ---- POST ---- */

static void post_legacy(struct cbx_http *http, struct evhttp_request *req, const struct envelope *e, const char *body,
			size_t len)
{
	bool initialize = e->method && e->has_id && strcmp(e->method, "initialize") == 0;
	const char *version = cbx_http_header(req, "MCP-Protocol-Version");
	struct cbx_http_exchange *ex;
	struct cbx_http_session *s;

	if (version && !initialize && !cbx_mcp_legacy_knows(version)) {
		cbx_http_refuse(req, 400, -32600, e->id, "Bad Request: unknown MCP-Protocol-Version %.40s",
				version);
		return;
	}
	if (initialize && !cbx_http_header(req, "Mcp-Session-Id")) {
		s = session_new(http);
		if (!s) {
			cbx_http_refuse(req, 503, -32603, e->id, "there are too many sessions; try again later");
			return;
		}
	} else {
		s = session_of(http, req, e->id);
		if (!s)
			return;
		initialize = false;
	}
	ex = cbx_http_exchange_new(http, req, s);
	ex->initialize = initialize;
	if (!cbx_mcp_message(s->mcp, body, len, ex)) {
		ex->done = true;
		cbx_http_exchange_accept(ex);
	} else if (ex->done && !ex->doomed) {
		cbx_http_exchange_end(ex);
	}
}

/* A value that may not be in a header as it is comes as =?base64?…?=. */
static bool header_is(const char *header, const char *want)
{
	_cleanup_buf_ struct cbx_buf plain = { 0 };
	size_t n = strlen(header);

	if (n > 11 && strncasecmp(header, "=?base64?", 9) == 0 && strcmp(header + n - 2, "?=") == 0)
		return cbx_base64_decode(&plain, header + 9, n - 11) == 0 && plain.len == strlen(want) &&
		       memcmp(cbx_buf_str(&plain), want, plain.len) == 0;
	return strcmp(header, want) == 0;
}

/* The header that does not repeat the body; NULL: all do. */
static const char *mismatch(struct evhttp_request *req, const struct envelope *e)
{
	const char *version = cbx_http_header(req, "MCP-Protocol-Version");
	const char *method = cbx_http_header(req, "Mcp-Method"), *name = cbx_http_header(req, "Mcp-Name");

	if (!version || (e->version && !header_is(version, e->version)))
		return "MCP-Protocol-Version";
	if (e->method && (!method || !header_is(method, e->method)))
		return "Mcp-Method";
	if (e->name && (!name || !header_is(name, e->name)))
		return "Mcp-Name";
	return NULL;
}

static void drop(void *arg, const char *line, size_t len)
{
	/* A request of this era has no connection beside its own stream. */
}

static void post_modern(struct cbx_http *http, struct evhttp_request *req, const struct envelope *e, const char *body,
			size_t len)
{
	struct cbx_mcp_io io = { .send = drop, .send_to = cbx_http_exchange_send, .done = cbx_http_exchange_done };
	const char *wrong = mismatch(req, e);
	struct cbx_http_exchange *ex;

	if (wrong) {
		cbx_http_refuse(req, 400, HEADER_MISMATCH, e->id,
				"Header mismatch: the %s header is missing or differs from the request's body", wrong);
		return;
	}
	ex = cbx_http_exchange_new(http, req, NULL);
	ex->bad_meta = !e->version || !e->has_capabilities;
	ex->mcp = cbx_mcp_new_with(http->config.engine, http->base, &io, http->config.registry);
	cbx_mcp_set_modern(ex->mcp);
	if (!cbx_mcp_message(ex->mcp, body, len, ex)) {
		ex->done = true;
		cbx_http_exchange_accept(ex);
	} else if (ex->done && !ex->doomed) {
		cbx_http_exchange_end(ex);
	}
}

static bool is_modern(struct evhttp_request *req, const struct envelope *e)
{
	const char *version = cbx_http_header(req, "MCP-Protocol-Version");

	if (e->version)
		return true;
	return version && !cbx_mcp_legacy_knows(version) && strcmp(version, "2026-07-28") >= 0 &&
	       !(e->method && strcmp(e->method, "initialize") == 0 && cbx_http_header(req, "Mcp-Method") == NULL);
}

static void post(struct cbx_http *http, struct evhttp_request *req)
{
	const char *type = cbx_http_header(req, "Content-Type");
	struct evbuffer *in = evhttp_request_get_input_buffer(req);
	size_t len = evbuffer_get_length(in);
	const char *body = (const char *)evbuffer_pullup(in, -1);
	struct envelope e = { 0 };
	struct cbx_err err;

	if (!type || strncasecmp(type, "application/json", 16) != 0 || (type[16] && !strchr("; \t", type[16]))) {
		cbx_http_refuse(req, 415, -32600, NULL, "Content-Type must be application/json");
	} else if (!len || cbx_json_parse(body, len, &e.doc, &err) < 0) {
		cbx_http_refuse(req, 400, -32700, NULL, "Parse error: %s", len ? err.msg : "there is no body");
	} else {
		look_at(&e);
		if (is_modern(req, &e))
			post_modern(http, req, &e, body, len);
		else
			post_legacy(http, req, &e, body, len);
	}
	cbx_json_doc_release(&e.doc);
}

/* ---- GET and DELETE: of the handshake era only ---- */

static bool wants_session(struct evhttp_request *req)
{
	const char *version = cbx_http_header(req, "MCP-Protocol-Version");

	if (!version || cbx_mcp_legacy_knows(version))
		return true;
	if (strcmp(version, "2026-07-28") < 0) {
		cbx_http_refuse(req, 400, -32600, NULL, "Bad Request: unknown MCP-Protocol-Version %.40s", version);
		return false;
	}
	evhttp_add_header(evhttp_request_get_output_headers(req), "Allow", "POST");
	cbx_http_refuse(req, 405, -32600, NULL, "this protocol revision knows POST only");
	return false;
}

static void get(struct cbx_http *http, struct evhttp_request *req)
{
	const char *accept = cbx_http_header(req, "Accept");
	struct cbx_http_exchange *ex;
	struct cbx_http_session *s;

	if (!wants_session(req))
		return;
	if (!accept || !strcasestr(accept, "text/event-stream") || !cbx_http_header(req, "Mcp-Session-Id")) {
		evhttp_add_header(evhttp_request_get_output_headers(req), "Allow", "POST, GET, DELETE");
		cbx_http_refuse(req, accept && strcasestr(accept, "text/event-stream") ? 400 : 405, -32600, NULL,
				"GET is for an event stream of a session (Accept: text/event-stream, Mcp-Session-Id)");
		return;
	}
	s = session_of(http, req, NULL);
	if (!s)
		return;
	if (s->stream) {
		cbx_http_refuse(req, 409, -32600, NULL, "this session has an event stream already");
		return;
	}
	ex = cbx_http_exchange_new(http, req, s);
	ex->get = true;
	s->stream = ex;
	cbx_http_exchange_stream(ex);
	cbx_buf_adds(&s->waiting, ":\r\n\r\n"); /* something to send: the headers go with it */
	cbx_http_exchange_raw(ex, &s->waiting);
	cbx_buf_release(&s->waiting);
}

static void end(struct cbx_http *http, struct evhttp_request *req)
{
	struct cbx_http_session *s = wants_session(req) ? session_of(http, req, NULL) : NULL;

	if (!s)
		return;
	cbx_http_reply(req, 200, NULL, NULL, 0);
	cbx_http_session_free(s);
}

void cbx_http_mcp(struct cbx_http *http, struct evhttp_request *req)
{
	switch (evhttp_request_get_command(req)) {
	case EVHTTP_REQ_POST:
		post(http, req);
		break;
	case EVHTTP_REQ_GET:
		get(http, req);
		break;
	case EVHTTP_REQ_DELETE:
		end(http, req);
		break;
	default:
		evhttp_add_header(evhttp_request_get_output_headers(req), "Allow", "POST, GET, DELETE");
		cbx_http_refuse(req, 405, -32600, NULL, "POST, GET and DELETE are known here");
	}
}
