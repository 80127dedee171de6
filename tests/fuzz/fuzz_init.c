/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the first process of a sandbox may send to codeboxd. The client of its protocol
 * (session/init_client.c) is the real one, over a real socket; requests of several kinds are waiting for an answer, and
 * lists of files go through the check that every list goes through. What the engine would do on a lie is replaced by
 * taking note of it; nothing may be handed on after that.
 *
 * The input is a row of datagrams: a length in two bytes, then so many bytes. A length with its top bit set asks for a
 * header that matches a waiting request, with the bytes as its payload.
 */
#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "session/internal.h"

static bool failed;
static unsigned answers, errors, asked;

void cbx_session_fail(struct cbx_session *s, const struct cbx_err *err)
{
	must(err->code && err->msg[0]);
	failed = true;
	s->state = CBX_CLOSING;
	cbx_init_shut(s);
}

void cbx_session_init_ready(struct cbx_session *s)
{
	must(s->state == CBX_STARTING && !failed);
	s->state = CBX_LIVE;
}

void cbx_interp_ended(struct cbx_session *s, int64_t pid, int status)
{
	must(!failed);
}

void cbx_timer_set(struct event *ev, uint64_t ms)
{
	must(ev);
}

static void answered(void *arg, const struct cbx_init_header *h, const char *payload, size_t len, const struct cbx_err *err)
{
	uint32_t type = (uint32_t)(uintptr_t)arg;
	const char *at = payload;

	if (err) {
		errors++;
		return;
	}
	answers++;
	must(!failed && h->type == type && h->len == len);
	if (h->type != CBX_INIT_LIST || h->value < 0 || !cbx_entries_valid(payload, len, h->value, false))
		return;
	for (int64_t i = 0; i < h->value; i++) {
		struct cbx_init_entry e;

		must((size_t)(at - payload) + sizeof(e) <= len);
		memcpy(&e, at, sizeof(e));
		must(e.entry_len >= sizeof(e) && e.name_len > 0 && e.name_len <= e.entry_len - sizeof(e));
		must((size_t)(at - payload) + e.entry_len <= len);
		must(!memchr(at + sizeof(e), '/', e.name_len) && !memchr(at + sizeof(e), '\0', e.name_len));
		at += e.entry_len;
	}
	must((size_t)(at - payload) == len);
}

static void ask_all(struct cbx_session *s)
{
	static const uint32_t types[] = { CBX_INIT_READ, CBX_INIT_LIST, CBX_INIT_STAT, CBX_INIT_LIST };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct cbx_init_header h = { .type = types[i], .value = 100 };
		struct cbx_err err = { 0 };

		must(cbx_init_ask(s, &h, "x", 2, NULL, 0, NULL, 0, false, answered, (void *)(uintptr_t)types[i], &err) >= 0);
		asked++;
	}
}

static void send_all(int sock, const uint8_t *p, size_t n)
{
	static const uint32_t types[] = { CBX_INIT_READ, CBX_INIT_LIST, CBX_INIT_STAT, CBX_INIT_LIST };
	uint32_t next = 0;

	while (n >= 2) {
		size_t want = p[0] | (size_t)(p[1] & 0x7f) << 8, k = want < n - 2 ? want : n - 2;
		bool matching = p[1] & 0x80;
		_cleanup_buf_ struct cbx_buf b = { 0 };

		p += 2;
		n -= 2;
		if (matching && k >= 1 && next < ARRAY_SIZE(types)) {
			struct cbx_init_header h = { .type = types[next], .id = next + 1, .value = p[0], .len = (uint32_t)k - 1 };

			cbx_buf_add(&b, &h, sizeof(h));
			cbx_buf_add(&b, p + 1, k - 1);
			next++;
		} else {
			cbx_buf_add(&b, p, k);
		}
		if (b.len)
			(void)!send(sock, b.data, b.len, MSG_DONTWAIT | MSG_NOSIGNAL);
		p += k;
		n -= k;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct event_base *loop;
	struct cbx_engine engine = { 0 };
	struct cbx_session s = { .engine = &engine, .state = CBX_STARTING };
	struct cbx_err gone = { .code = EPIPE, .msg = "gone" };
	int pair[2];

	if (!loop)
		loop = event_base_new();
	engine.base = loop;
	failed = false;
	answers = errors = asked = 0;
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	must(cbx_init_open(&s, pair[0]) == 0);
	ask_all(&s);
	send_all(pair[1], data, size);
	for (int i = 0; i < 8 && !failed; i++)
		event_base_loop(loop, EVLOOP_NONBLOCK | EVLOOP_ONCE);
	cbx_init_shut(&s);
	cbx_init_fail_all(&s, &gone);
	must(answers + errors == asked); /* every request got one answer */
	must(s.init.count == 0);
	close(pair[1]);
	return 0;
}
