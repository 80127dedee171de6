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

struct message {
	struct cbx_raw method, id;
};

static bool is(struct cbx_raw t, const char *string)
{
	size_t n = strlen(string);

	return t.p && t.n == n + 2 && t.p[0] == '"' && memcmp(t.p + 1, string, n) == 0;
}

static bool same(struct cbx_raw t, const char *raw)
{
	size_t n = raw ? strlen(raw) : 0;

	return t.p && raw && t.n == n && memcmp(t.p, raw, n) == 0;
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

static void answered(struct cbx_said *s, struct cbx_raw id)
{
	struct cbx_asked *a;

	TAILQ_FOREACH(a, &s->asked, entry) {
		if (same(id, a->id)) {
			asked_free(s, a);
			return;
		}
	}
}

static void subscribe(struct cbx_said *s, struct cbx_raw params, struct cbx_raw line, bool on)
{
	struct cbx_raw uri = cbx_raw_member(params, "uri");
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
	u->uri = cbx_raw_copy(uri);
	u->line = cbx_raw_copy(line);
	TAILQ_INSERT_TAIL(&s->subscribed, u, entry);
	s->nsubscribed++;
}

/* A request that is to be said again. */
static void keep(struct cbx_said *s, const struct message *m, struct cbx_raw line)
{
	static const char *const quiet[] = { "error", "critical", "alert", "emergency" };
	struct cbx_raw params, level;

	if (line.n > SAID_MAX)
		return;
	params = cbx_raw_member(line, "params");
	if (is(m->method, "initialize")) {
		free(s->initialize);
		free(s->initialize_id);
		s->initialize = cbx_raw_copy(line);
		s->initialize_id = cbx_raw_copy(m->id);
	} else if (is(m->method, "logging/setLevel")) {
		free(s->level);
		s->level = cbx_raw_copy(line);
		level = cbx_raw_member(params, "level");
		s->wants_no_warnings = false;
		for (size_t i = 0; i < ARRAY_SIZE(quiet); i++)
			s->wants_no_warnings = s->wants_no_warnings || is(level, quiet[i]);
	} else if (is(m->method, "resources/subscribe") || is(m->method, "resources/unsubscribe")) {
		subscribe(s, params, line, is(m->method, "resources/subscribe"));
	}
}

/* Method and id mostly come first: a long cell behind them is not looked through. */
static struct message look(struct cbx_raw line)
{
	const char *end = line.p + line.n, *p = cbx_jsonscan_object(line.p, end);
	struct cbx_jsonscan_member m;
	struct message ret = { 0 };

	while (p && !(ret.method.p && ret.id.p) && cbx_jsonscan_member(&p, end, &m)) {
		struct cbx_raw name = { m.name, (size_t)(m.name_end - m.name) };
		struct cbx_raw value = { m.value, (size_t)(m.end - m.value) };

		if (!ret.method.p && is(name, "method"))
			ret.method = value;
		else if (!ret.id.p && is(name, "id"))
			ret.id = value;
	}
	return ret;
}

static void one_up(struct cbx_said *s, struct cbx_raw line, uint64_t at)
{
	struct message m = look(line);
	struct cbx_asked *a;

	if (!m.method.p)
		return;
	if (!m.id.p) {
		if (is(m.method, "notifications/initialized"))
			s->initialized = true;
		else if (is(m.method, "notifications/cancelled"))
			answered(s, cbx_raw_member(cbx_raw_member(line, "params"), "requestId"));
		return;
	}
	if (!cbx_raw_is_token(m.id) || s->nasked == ASKED_MAX)
		return;
	a = cbx_xcalloc(1, sizeof(*a) + m.id.n + 1);
	memcpy(a->id, m.id.p, m.id.n);
	a->at = at;
	TAILQ_INSERT_TAIL(&s->asked, a, entry);
	s->nasked++;
	if (is(m.method, "tools/call")) {
		s->called = true;
	} else {
		a->is_stream = is(m.method, "subscriptions/listen");
		keep(s, &m, line);
	}
}

/* A message, or each of a batch. */
static void each(struct cbx_raw line, void (*fn)(struct cbx_said *s, struct cbx_raw message, uint64_t at),
		 struct cbx_said *s, uint64_t at)
{
	const char *end = line.p + line.n, *p = cbx_jsonscan_space(line.p, end);
	struct cbx_raw one;
	size_t pos = 0;

	if (p >= end || *p != '[') {
		fn(s, line, at);
		return;
	}
	while ((one = cbx_raw_element(line, &pos)).n && *one.p == '{')
		fn(s, one, at);
}

void cbx_said_up(struct cbx_said *s, const char *line, size_t n, uint64_t at)
{
	if (!memchr(line, '\0', n)) /* such a line is not a message, and would be kept cut */
		each((struct cbx_raw){ line, n }, one_up, s, at);
}

/* ---- what it gets ---- */

/* The id comes first in what codeboxd sends, so that a long result is not looked through. */
static void one_down(struct cbx_said *s, struct cbx_raw line, uint64_t at)
{
	if (s->nasked)
		answered(s, cbx_raw_member(line, "id"));
}

bool cbx_said_down(struct cbx_said *s, const char *line, size_t n)
{
	struct cbx_raw t = { line, n }, id;

	if (s->again) {
		id = cbx_raw_member(t, "id");
		if (id.p && id.n > sizeof(OUR_ID) && memcmp(id.p, OUR_ID, sizeof(OUR_ID) - 1) == 0)
			return false;
	}
	each(t, one_down, s, 0);
	return true;
}

static void say_again(struct cbx_buf *out, const char *line, unsigned number)
{
	struct cbx_raw id = cbx_raw_member((struct cbx_raw){ line, strlen(line) }, "id");

	cbx_buf_add(out, line, (size_t)(id.p - line));
	cbx_buf_addf(out, OUR_ID "%u\"", number);
	cbx_buf_adds(out, id.p + id.n);
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
