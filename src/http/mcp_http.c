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
#include "http/mcp_http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "http/gate.h"
#include "mcp/mcp.h"

/* What a body says of itself. Strings are borrowed from the document. */
struct envelope {
	struct cbx_json_doc doc;
	const char *id;      /* raw; NULL: none, or none to be echoed */
	const char *method;  /* NULL: an answer, or a batch */
	const char *version; /* in _meta; NULL: none */
	const char *name;    /* what Mcp-Name must repeat */
	bool has_id, has_capabilities;
};

static void look_at(struct envelope *e)
{
	const cJSON *params = cbx_json_member(e->doc.root, "params");
	const cJSON *meta = cbx_json_member(params, "_meta");

	e->method = cbx_json_text(e->doc.root, "method");
	e->has_id = e->doc.id != NULL;
	e->id = e->has_id && cbx_raw_is_token((struct cbx_raw){ e->doc.id, strlen(e->doc.id) }) ? e->doc.id : NULL;
	e->version = cbx_json_text(meta, CBX_META "protocolVersion");
	e->has_capabilities = cJSON_IsObject(cbx_json_member(meta, CBX_META "clientCapabilities"));
	if (!e->method)
		return;
	if (strcmp(e->method, "tools/call") == 0 || strcmp(e->method, "prompts/get") == 0)
		e->name = cbx_json_text(params, "name");
	else if (strcmp(e->method, "resources/read") == 0)
		e->name = cbx_json_text(params, "uri");
	else if (cbx_starts_with(e->method, "tasks/"))
		e->name = cbx_json_text(params, "taskId");
}

/* ---- sessions of the handshake era ---- */

struct cbx_http_session {
	TAILQ_ENTRY(cbx_http_session) entry;
	struct cbx_http_mcp *all;
	const struct cbx_principal *principal; /* whose it is */
	const struct cbx_tenant *tenant;       /* NULL: the local user's */
	struct cbx_mcp *mcp;
	const struct cbx_mcp_registry *registry; /* at whose path it was made */
	struct cbx_http_exchange *stream; /* the client's GET; NULL: none */
	struct cbx_buf waiting;		  /* events for it, as long as there is none */
	struct event *idle;
	struct cbx_via via; /* of its latest request */
	size_t exchanges;   /* requests whose client waits for an answer */
	struct cbx_http_kept kept;
	char id[CBX_NODE_MAX + 34]; /* "a." of the node, and 32 characters */
};

static void check_idle(struct cbx_http_mcp *m)
{
	if (!cbx_http_mcp_busy(m) && m->on_idle)
		m->on_idle(m->arg);
}

static void session_touch(struct cbx_http_session *s)
{
	struct timeval tv = { .tv_sec = CBX_HTTP_SESSION_IDLE_S };

	TAILQ_REMOVE(&s->all->sessions, s, entry);
	TAILQ_INSERT_TAIL(&s->all->sessions, s, entry);
	event_add(s->idle, &tv);
}

/* Of struct cbx_rpc_io: what belongs to no request. */
static void session_send(void *arg, const char *line, size_t len)
{
	struct cbx_http_session *s = arg;

	if (s->stream)
		cbx_http_exchange_event(s->stream, line, len);
	else if (s->waiting.len + len < CBX_HTTP_WAITING_MAX)
		cbx_http_event_print(&s->waiting, line, len);
}

static void session_free(struct cbx_http_session *s)
{
	struct cbx_http_mcp *m = s->all;
	struct cbx_http_exchange *ex, *next;

	/* First the core, which may still have something to say to a stream; its requests then have no answer. */
	LIST_FOREACH(ex, &m->exchanges, entry)
		if (ex->session == s && !ex->get)
			cbx_mcp_forget(s->mcp, ex);
	s->exchanges++; /* so that the last exchange does not free it */
	for (ex = LIST_FIRST(&m->exchanges); ex; ex = next) {
		next = LIST_NEXT(ex, entry);
		if (ex->session == s)
			cbx_http_exchange_lose(ex);
	}
	TAILQ_REMOVE(&m->sessions, s, entry);
	m->nsessions--;
	cbx_mcp_free(s->mcp);
	event_free(s->idle);
	cbx_buf_release(&s->waiting);
	free(s);
	check_idle(m);
}

static void exchange_ended(struct cbx_http_exchange *ex)
{
	struct cbx_http_session *s = ex->session;
	struct cbx_http_mcp *m = ex->arg;

	if (!s) {
		cbx_mcp_free(ex->mcp);
		check_idle(m);
		return;
	}
	if (!ex->done && !ex->get)
		cbx_mcp_forget(s->mcp, ex);
	if (s->stream == ex)
		s->stream = NULL;
	if (ex->counted && !--s->exchanges && ex->offers && ex->refused)
		session_free(s);
	else
		check_idle(m);
}

/* Its client has left, or has all of it. There are few of these: beyond them the oldest goes, if need be without an
 * answer. */
static void exchange_left(struct cbx_http_exchange *ex)
{
	struct cbx_http_exchange *other, *oldest = NULL;
	size_t n = 0;

	ex->counted = false;
	ex->session->exchanges--;
	LIST_FOREACH(other, &ex->session->all->exchanges, entry) { /* the newest is the first */
		if (other->session == ex->session && other->number && !other->conn) {
			oldest = other;
			n++;
		}
	}
	if (n > CBX_HTTP_KEPT_STREAMS)
		cbx_http_exchange_end(oldest);
}

static void session_idle(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_http_session *s = arg;

	if (s->exchanges)
		session_touch(s);
	else
		session_free(s);
}

/* How many somebody has; *ret_oldest is the one of them that has waited longest and has no request, or NULL. */
static size_t count_of(const struct cbx_http_mcp *m, const struct cbx_principal *whose,
		       struct cbx_http_session **ret_oldest)
{
	struct cbx_http_session *s;
	size_t n = 0;

	*ret_oldest = NULL;
	TAILQ_FOREACH(s, &m->sessions, entry) {
		if (s->principal != whose)
			continue;
		n++;
		if (!*ret_oldest && !s->exchanges)
			*ret_oldest = s;
	}
	return n;
}

static struct cbx_http_session *session_new(struct cbx_http_mcp *m, const struct cbx_mcp_registry *registry,
					    const struct cbx_http_who *who)
{
	struct cbx_rpc_io io = { .send = session_send,
				 .send_to = cbx_http_exchange_send,
				 .done = cbx_http_exchange_done };
	struct cbx_http_session *s, *oldest;
	char unique[33];

	if (count_of(m, who->principal, &oldest) >= CBX_HTTP_SESSIONS_MAX || m->nsessions >= CBX_HTTP_SESSIONS_ALL) {
		if (!oldest)
			return NULL;
		session_free(oldest);
	}
	s = cbx_xcalloc(1, sizeof(*s));
	s->all = m;
	s->kept = (struct cbx_http_kept){ .all = &m->kept, .tenant = who->tenant, .max = CBX_HTTP_KEPT_SESSION };
	io.arg = s;
	cbx_random_name(unique, sizeof(unique) - 1);
	snprintf(s->id, sizeof(s->id), "%s%s", m->node, unique);
	s->registry = registry;
	s->principal = who->principal;
	s->tenant = who->tenant;
	s->mcp = cbx_mcp_new(m->engine, who->principal, m->base, &io, registry);
	s->idle = event_new(m->base, -1, 0, session_idle, s);
	TAILQ_INSERT_TAIL(&m->sessions, s, entry);
	m->nsessions++;
	session_touch(s);
	return s;
}

/* NULL: refused. */
static struct cbx_http_session *session_of(struct cbx_http_mcp *m, const struct cbx_mcp_registry *registry,
					   struct cbx_http_conn *c, const char *id)
{
	const char *name = cbx_http_header(c, "Mcp-Session-Id");
	struct cbx_http_session *s;

	if (!name) {
		cbx_http_refuse(c, 400, CBX_RPC_INVALID_REQUEST, id,
				"Bad Request: the Mcp-Session-Id header is missing; the answer to initialize has it");
		return NULL;
	}
	TAILQ_FOREACH(s, &m->sessions, entry) {
		if (s->principal == c->who.principal && s->registry == registry && strcmp(s->id, name) == 0) {
			session_touch(s);
			return s;
		}
	}
	cbx_http_refuse(c, 404, CBX_RPC_SESSION_NOT_FOUND, id,
			"Session not found: it has ended, or never existed; send initialize again");
	return NULL;
}

static struct cbx_http_exchange *session_exchange(struct cbx_http_session *s, struct cbx_http_conn *c)
{
	struct cbx_http_exchange *ex = cbx_http_exchange_new(c, &s->all->exchanges, exchange_ended, s->all);

	ex->session = s;
	ex->counted = true;
	ex->on_left = exchange_left;
	s->exchanges++;
	return ex;
}

/* ---- POST ---- */

static const char *header_of(void *arg, const char *name)
{
	return cbx_http_header(arg, name);
}

static void hand_over(struct cbx_http_exchange *ex, struct cbx_mcp *mcp, struct cbx_http_conn *c, const char *body,
		      size_t len)
{
	bool owed;

	cbx_mcp_set_headers(mcp, header_of, c);
	owed = cbx_mcp_message(mcp, body, len, ex);
	cbx_mcp_set_headers(mcp, NULL, NULL);
	if (!owed) {
		ex->done = true;
		cbx_http_exchange_accept(ex);
	} else if (ex->done && !ex->doomed && !ex->number) {
		cbx_http_exchange_end(ex);
	}
}

static void post_legacy(struct cbx_http_mcp *m, const struct cbx_mcp_registry *registry, struct cbx_http_conn *c,
			const struct envelope *e, const char *body, size_t len)
{
	bool initialize = e->method && e->has_id && strcmp(e->method, "initialize") == 0;
	const char *version = cbx_http_header(c, "MCP-Protocol-Version");
	struct cbx_http_exchange *ex;
	struct cbx_http_session *s;

	if (version && !initialize && cbx_mcp_era_of(version) != CBX_MCP_LEGACY) {
		cbx_http_refuse(c, 400, CBX_RPC_INVALID_REQUEST, e->id,
				"Bad Request: unknown MCP-Protocol-Version %.40s", version);
		return;
	}
	initialize = initialize && !cbx_http_header(c, "Mcp-Session-Id");
	s = initialize ? session_new(m, registry, &c->who) : session_of(m, registry, c, e->id);
	if (!s && initialize)
		cbx_http_refuse(c, 503, CBX_RPC_INTERNAL, e->id, "there are too many sessions; try again later");
	if (!s)
		return;
	ex = session_exchange(s, c);
	ex->offers = initialize ? s->id : NULL;
	if (!initialize)
		ex->keeper = &s->kept;
	ex->primes = version && cbx_mcp_primes(version);
	cbx_http_via(c, "mcp", &s->via);
	cbx_mcp_set_via(s->mcp, &s->via);
	hand_over(ex, s->mcp, c, body, len);
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
static const char *mismatch(struct cbx_http_conn *c, const struct envelope *e)
{
	const char *version = cbx_http_header(c, "MCP-Protocol-Version");
	const char *method = cbx_http_header(c, "Mcp-Method"), *name = cbx_http_header(c, "Mcp-Name");

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

static void post_modern(struct cbx_http_mcp *m, const struct cbx_mcp_registry *registry, struct cbx_http_conn *c,
			const struct envelope *e, const char *body, size_t len)
{
	struct cbx_rpc_io io = { .send = drop, .send_to = cbx_http_exchange_send, .done = cbx_http_exchange_done };
	const char *wrong = mismatch(c, e);
	struct cbx_http_exchange *ex;

	if (wrong) {
		cbx_http_refuse(c, 400, CBX_RPC_HEADER_MISMATCH, e->id,
				"Header mismatch: the %s header is missing or differs from the request's body", wrong);
		return;
	}
	ex = cbx_http_exchange_new(c, &m->exchanges, exchange_ended, m);
	ex->bad_meta = !e->version || !e->has_capabilities;
	ex->mcp = cbx_mcp_new(m->engine, c->who.principal, m->base, &io, registry);
	cbx_mcp_set_modern(ex->mcp);
	cbx_http_via(c, "mcp", &ex->via);
	cbx_mcp_set_via(ex->mcp, &ex->via);
	hand_over(ex, ex->mcp, c, body, len);
}

static bool is_modern(struct cbx_http_conn *c, const struct envelope *e)
{
	const char *version = cbx_http_header(c, "MCP-Protocol-Version");

	if (e->version)
		return true;
	return version && cbx_mcp_era_of(version) == CBX_MCP_MODERN &&
	       !(e->method && strcmp(e->method, "initialize") == 0 && cbx_http_header(c, "Mcp-Method") == NULL);
}

static void post(struct cbx_http_mcp *m, const struct cbx_mcp_registry *registry, struct cbx_http_conn *c,
		 const char *body, size_t len)
{
	const char *type = cbx_http_header(c, "Content-Type");
	struct envelope e = { 0 };
	struct cbx_err err;

	if (!type || strncasecmp(type, "application/json", 16) != 0 || (type[16] && !strchr("; \t", type[16]))) {
		cbx_http_refuse(c, 415, CBX_RPC_INVALID_REQUEST, NULL, "Content-Type must be application/json");
	} else if (!len || cbx_json_parse(body, len, &e.doc, &err) < 0) {
		cbx_http_refuse(c, 400, CBX_RPC_PARSE, NULL, "Parse error: %s", len ? err.msg : "there is no body");
	} else {
		look_at(&e);
		if (is_modern(c, &e))
			post_modern(m, registry, c, &e, body, len);
		else
			post_legacy(m, registry, c, &e, body, len);
	}
	cbx_json_doc_release(&e.doc);
}

/* ---- GET and DELETE: of the handshake era only ---- */

static bool wants_session(struct cbx_http_conn *c)
{
	const char *version = cbx_http_header(c, "MCP-Protocol-Version");

	if (!version || cbx_mcp_era_of(version) == CBX_MCP_LEGACY)
		return true;
	if (cbx_mcp_era_of(version) != CBX_MCP_MODERN) {
		cbx_http_refuse(c, 400, CBX_RPC_INVALID_REQUEST, NULL,
				"Bad Request: unknown MCP-Protocol-Version %.40s", version);
		return false;
	}
	cbx_http_add_header(c, "Allow", "POST");
	cbx_http_refuse(c, 405, CBX_RPC_INVALID_REQUEST, NULL, "this protocol revision has POST only");
	return false;
}

/* Continue a stream after the event that the client has seen last. */
static void resume(struct cbx_http_session *s, struct cbx_http_conn *c, const char *last)
{
	uint64_t number = 0, at = 0;
	struct cbx_http_exchange *ex;
	char again[64], *end;

	number = strtoull(last, &end, 10);
	if (*end == '-')
		at = strtoull(end + 1, NULL, 10);
	snprintf(again, sizeof(again), "%" PRIu64 "-%" PRIu64, number, at);
	LIST_FOREACH(ex, &s->all->exchanges, entry)
		if (ex->session == s && number && ex->number == number && strcmp(last, again) == 0)
			break;
	if (!ex || !cbx_http_exchange_resume(ex, c, at)) {
		cbx_http_refuse(c, 400, CBX_RPC_INVALID_REQUEST, NULL,
				"Last-Event-ID: this session has no such event, or it is not kept any more; send the "
				"request again");
		return;
	}
	if (!ex->counted)
		s->exchanges++;
	ex->counted = true;
}

static void get(struct cbx_http_mcp *m, const struct cbx_mcp_registry *registry, struct cbx_http_conn *c)
{
	bool takes_events = cbx_http_head_accepts(&c->head, "text/event-stream");
	struct cbx_http_exchange *ex;
	struct cbx_http_session *s;

	if (!wants_session(c))
		return;
	if (!takes_events || !cbx_http_header(c, "Mcp-Session-Id")) {
		cbx_http_add_header(c, "Allow", "POST, GET, DELETE");
		cbx_http_refuse(c, takes_events ? 400 : 405, CBX_RPC_INVALID_REQUEST, NULL,
				"GET is for an event stream of a session (Accept: text/event-stream, Mcp-Session-Id)");
		return;
	}
	s = session_of(m, registry, c, NULL);
	if (!s)
		return;
	if (cbx_http_header(c, "Last-Event-ID")) {
		resume(s, c, cbx_http_header(c, "Last-Event-ID"));
		return;
	}
	if (s->stream) {
		cbx_http_refuse(c, 409, CBX_RPC_INVALID_REQUEST, NULL, "this session has an event stream already");
		return;
	}
	ex = session_exchange(s, c);
	ex->get = true;
	s->stream = ex;
	cbx_http_exchange_stream(ex);
	cbx_buf_adds(&s->waiting, ":\r\n\r\n"); /* something to send: the headers go with it */
	cbx_http_exchange_raw(ex, s->waiting.data, s->waiting.len);
	cbx_buf_release(&s->waiting);
}

static void end(struct cbx_http_mcp *m, const struct cbx_mcp_registry *registry, struct cbx_http_conn *c)
{
	struct cbx_http_session *s = wants_session(c) ? session_of(m, registry, c, NULL) : NULL;

	if (!s)
		return;
	cbx_http_reply(c, 200, NULL, NULL, 0);
	session_free(s);
}

void cbx_http_mcp_request(struct cbx_http_mcp *m, const struct cbx_mcp_registry *registry, struct cbx_http_conn *c,
			  const char *body, size_t len)
{
	/* What a call does is known to its tool alone. */
	if (!cbx_http_gate_scope(c, CBX_SCOPE_RUN))
		return;
	switch (c->head.method) {
	case CBX_HTTP_POST:
		post(m, registry, c, body, len);
		break;
	case CBX_HTTP_GET:
		get(m, registry, c);
		break;
	case CBX_HTTP_DELETE:
		end(m, registry, c);
		break;
	default:
		cbx_http_add_header(c, "Allow", "POST, GET, DELETE");
		cbx_http_refuse(c, 405, CBX_RPC_INVALID_REQUEST, NULL, "only POST, GET and DELETE are allowed");
	}
}

void cbx_http_mcp_init(struct cbx_http_mcp *m)
{
	m->kept.max = CBX_HTTP_KEPT_ALL;
	LIST_INIT(&m->exchanges);
	TAILQ_INIT(&m->sessions);
}

void cbx_http_mcp_check(struct cbx_http_mcp *m)
{
	struct cbx_http_session *s, *next;

	for (s = TAILQ_FIRST(&m->sessions); s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (s->tenant && s->tenant->gone)
			session_free(s);
	}
}

bool cbx_http_mcp_busy(const struct cbx_http_mcp *m)
{
	return !LIST_EMPTY(&m->exchanges) || !TAILQ_EMPTY(&m->sessions);
}

bool cbx_http_mcp_end_streams(struct cbx_http_mcp *m)
{
	struct cbx_http_exchange *ex;
	bool waiting = false;

	LIST_FOREACH(ex, &m->exchanges, entry) {
		if (ex->mcp && !ex->done) {
			cbx_mcp_end_streams(ex->mcp);
			waiting = true;
		}
	}
	return waiting;
}

void cbx_http_mcp_release(struct cbx_http_mcp *m)
{
	m->on_idle = NULL;
	while (!LIST_EMPTY(&m->exchanges))
		cbx_http_exchange_cut(LIST_FIRST(&m->exchanges));
	while (!TAILQ_EMPTY(&m->sessions))
		session_free(TAILQ_FIRST(&m->sessions));
}
