/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: of each message three members count: method, id, and a little of params. They are found in the
 * text as it is, so that ids go back, and requests are said again, byte for byte. What is said again gets an id of ours
 * in place of the client's, by which its answer is known and kept from the client, who has had it.
 */
#include "cli/said.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonscan.h"
#include "base/limits.h"
#include "wire/codes.h"

#define OUR_ID	  "\"codebox-bridge-"
#define ASKED_MAX 4096	  /* requests without an answer that are remembered */
#define SAID_MAX  KIB(64) /* of a line that is said again */

struct text {
	const char *p, *end; /* p NULL: not there */
};

struct message {
	struct text method, id, params;
};

static struct text member(struct text in, const char *name)
{
	struct cbx_raw v = cbx_raw_member((struct cbx_raw){ in.p, in.p ? (size_t)(in.end - in.p) : 0 }, name);

	return (struct text){ v.p, v.p ? v.p + v.n : NULL };
}

static bool is(struct text t, const char *string)
{
	size_t n = strlen(string);

	return t.p && (size_t)(t.end - t.p) == n + 2 && t.p[0] == '"' && memcmp(t.p + 1, string, n) == 0;
}

static char *copy(struct text t)
{
	return t.p ? cbx_xasprintf("%.*s", (int)(t.end - t.p), t.p) : NULL;
}

static bool same(struct text t, const char *raw)
{
	return t.p && raw && strlen(raw) == (size_t)(t.end - t.p) && memcmp(t.p, raw, strlen(raw)) == 0;
}

void cbx_said_init(struct cbx_said *s)
{
	memset(s, 0, sizeof(*s));
	TAILQ_INIT(&s->asked);
	TAILQ_INIT(&s->subscribed);
}

static void asked_free(struct cbx_said *s, struct cbx_asked *a)
{
	TAILQ_REMOVE(&s->asked, a, entry);
	s->nasked--;
	free(a->id);
	free(a);
}

static void subscribed_free(struct cbx_said *s, struct cbx_subscribed *u)
{
	TAILQ_REMOVE(&s->subscribed, u, entry);
	s->nsubscribed--;
	free(u->uri);
	free(u->line);
	free(u);
}

void cbx_said_release(struct cbx_said *s)
{
	while (!TAILQ_EMPTY(&s->asked))
		asked_free(s, TAILQ_FIRST(&s->asked));
	while (!TAILQ_EMPTY(&s->subscribed))
		subscribed_free(s, TAILQ_FIRST(&s->subscribed));
	free(s->initialize);
	free(s->initialize_id);
	free(s->level);
}

/* ---- what the client says ---- */

static void answered(struct cbx_said *s, struct text id)
{
	struct cbx_asked *a;

	TAILQ_FOREACH(a, &s->asked, entry) {
		if (same(id, a->id)) {
			asked_free(s, a);
			return;
		}
	}
}

static void subscribe(struct cbx_said *s, const struct message *m, struct text line, bool on)
{
	struct text uri = member(m->params, "uri");
	struct cbx_subscribed *u;

	TAILQ_FOREACH(u, &s->subscribed, entry) {
		if (same(uri, u->uri)) {
			subscribed_free(s, u);
			break;
		}
	}
	if (!on || !uri.p || s->nsubscribed == CBX_SUBSCRIPTIONS_MAX)
		return;
	u = cbx_xcalloc(1, sizeof(*u));
	u->uri = copy(uri);
	u->line = copy(line);
	TAILQ_INSERT_TAIL(&s->subscribed, u, entry);
	s->nsubscribed++;
}

/* A request that is to be said again. */
static void keep(struct cbx_said *s, const struct message *m, struct text line)
{
	static const char *const quiet[] = { "error", "critical", "alert", "emergency" };
	struct text level;

	if (line.end - line.p > (ptrdiff_t)SAID_MAX)
		return;
	if (is(m->method, "initialize")) {
		free(s->initialize);
		free(s->initialize_id);
		s->initialize = copy(line);
		s->initialize_id = copy(m->id);
	} else if (is(m->method, "logging/setLevel")) {
		free(s->level);
		s->level = copy(line);
		level = member(m->params, "level");
		s->wants_no_warnings = false;
		for (size_t i = 0; i < ARRAY_SIZE(quiet); i++)
			s->wants_no_warnings = s->wants_no_warnings || is(level, quiet[i]);
	} else if (is(m->method, "resources/subscribe") || is(m->method, "resources/unsubscribe")) {
		subscribe(s, m, line, is(m->method, "resources/subscribe"));
	}
}

static void one_up(struct cbx_said *s, struct text line, uint64_t at)
{
	struct message m = { member(line, "method"), member(line, "id"), { 0 } };
	struct cbx_asked *a;

	if (!m.method.p)
		return;
	if (!m.id.p) {
		if (is(m.method, "notifications/initialized"))
			s->initialized = true;
		else if (is(m.method, "notifications/cancelled"))
			answered(s, member(member(line, "params"), "requestId"));
		return;
	}
	if (m.id.end - m.id.p > CBX_RPC_ID_MAX || !strchr("\"-0123456789", *m.id.p) || s->nasked == ASKED_MAX)
		return;
	a = cbx_xcalloc(1, sizeof(*a));
	a->id = copy(m.id);
	a->at = at;
	a->is_stream = is(m.method, "subscriptions/listen");
	TAILQ_INSERT_TAIL(&s->asked, a, entry);
	s->nasked++;
	s->called = s->called || is(m.method, "tools/call");
	if (!is(m.method, "tools/call")) {
		m.params = member(line, "params");
		keep(s, &m, line);
	}
}

/* A message, or each of a batch. */
static void each(struct text line, void (*fn)(struct cbx_said *s, struct text message, uint64_t at),
		 struct cbx_said *s, uint64_t at)
{
	const char *p = cbx_jsonscan_space(line.p, line.end), *next;

	if (p >= line.end || *p != '[') {
		fn(s, line, at);
		return;
	}
	for (p++; (p = cbx_jsonscan_space(p, line.end)) < line.end && *p == '{'; p = next) {
		next = cbx_jsonscan_value(p, line.end);
		fn(s, (struct text){ p, next }, at);
		next = cbx_jsonscan_space(next, line.end);
		if (next < line.end && *next == ',')
			next++;
	}
}

void cbx_said_up(struct cbx_said *s, const char *line, size_t n, uint64_t at)
{
	each((struct text){ line, line + n }, one_up, s, at);
}

/* ---- what it gets ---- */

/* The id comes first in what codeboxd sends, so that a long result is not looked through. */
static void one_down(struct cbx_said *s, struct text line, uint64_t at)
{
	if (s->nasked)
		answered(s, member(line, "id"));
}

bool cbx_said_down(struct cbx_said *s, const char *line, size_t n)
{
	struct text t = { line, line + n }, id;

	if (s->again) {
		id = member(t, "id");
		if (id.p && (size_t)(id.end - id.p) > sizeof(OUR_ID) && memcmp(id.p, OUR_ID, sizeof(OUR_ID) - 1) == 0)
			return false;
	}
	each(t, one_down, s, 0);
	return true;
}

static void say_again(struct cbx_buf *out, const char *line, unsigned number)
{
	struct text t = { line, line + strlen(line) }, id = member(t, "id");

	cbx_buf_add(out, line, (size_t)(id.p - line));
	cbx_buf_addf(out, OUR_ID "%u\"", number);
	cbx_buf_adds(out, id.end);
	cbx_buf_addc(out, '\n');
}

void cbx_said_again(struct cbx_said *s, bool lost, struct cbx_buf *out)
{
	struct cbx_subscribed *u;
	unsigned n = 0;

	s->again = true;
	if (s->initialize)
		say_again(out, s->initialize, n++);
	if (s->initialize && s->initialized)
		cbx_buf_adds(out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
	if (s->level)
		say_again(out, s->level, n++);
	TAILQ_FOREACH(u, &s->subscribed, entry)
		say_again(out, u->line, n++);
	if (lost && s->called)
		cbx_buf_adds(out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/codebox/restarted\"}\n");
}

static void string(struct cbx_buf *out, const char *text)
{
	cbx_buf_addc(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			cbx_buf_addc(out, '\\');
		cbx_buf_addc(out, (unsigned char)*text < ' ' ? ' ' : *text);
	}
	cbx_buf_addc(out, '"');
}

size_t cbx_said_fail(struct cbx_said *s, uint64_t at, bool streams, const char *why, struct cbx_buf *out)
{
	struct cbx_asked *a, *next;
	size_t n = 0;

	for (a = TAILQ_FIRST(&s->asked); a; a = next) {
		next = TAILQ_NEXT(a, entry);
		if (a->at > at || (a->is_stream && !streams))
			continue;
		cbx_buf_addf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d,\"message\":", a->id,
			     CBX_RPC_INTERNAL);
		string(out, why);
		cbx_buf_adds(out, "}}\n");
		if (s->initialize_id && strcmp(a->id, s->initialize_id) == 0) {
			free(take_ptr(&s->initialize)); /* the client knows that there is no connection */
			free(take_ptr(&s->initialize_id));
			s->initialized = false;
		}
		asked_free(s, a);
		n++;
	}
	return n;
}

void cbx_said_tell(const struct cbx_said *s, const char *text, struct cbx_buf *out)
{
	if (!s->initialized || s->wants_no_warnings)
		return;
	cbx_buf_adds(out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"warning\","
			  "\"logger\":\"codebox\",\"data\":");
	string(out, text);
	cbx_buf_adds(out, "}}\n");
}
