/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of lines, the listener before them, and HTTP's heads and connections, on real sockets. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/socket.h"
#include "http/conn.h"
#include "http/room.h"
#include "unit_main.h"
#include "wire/conn.h"
#include "wire/listener.h"

static struct event_base *base;
static int peer;

/* What was called, in order: "<line>", "LONG", "CLOSE", "END", "ROOM", "GONE". */
static struct cbx_buf calls;
static struct cbx_conn *conn;
static bool owed;	  /* on_end says so */
static const char *reply; /* to each line */
static bool closes;	  /* at a line */

static void on_line(void *state, char *line, size_t len)
{
	ck_assert_uint_eq(strlen(line), len);
	cbx_buf_addf(&calls, "<%.20s>", line);
	if (reply)
		cbx_conn_send(conn, reply, strlen(reply));
	if (closes)
		cbx_conn_close(conn);
}

static void on_too_long(void *state)
{
	cbx_buf_adds(&calls, "LONG");
}

static void on_close(void *state)
{
	cbx_buf_adds(&calls, "CLOSE");
	cbx_conn_send(conn, "too late", 8);
}

static bool on_end(void *state)
{
	cbx_buf_adds(&calls, "END");
	return owed;
}

static void on_room(void *state)
{
	cbx_buf_adds(&calls, "ROOM");
}

static void gone(void *arg)
{
	cbx_buf_adds(&calls, "GONE");
	conn = NULL;
}

static void turn(void)
{
	event_base_loop(base, EVLOOP_NONBLOCK);
}

/* Until the connection has said something that ends with this. */
static void until(const char *end)
{
	size_t n = strlen(end);

	while (calls.len < n || strcmp(calls.data + calls.len - n, end) != 0)
		ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
}

static void say(const char *text)
{
	ck_assert_int_eq(cbx_write_all(peer, text, strlen(text)), 0);
}

/* What has come, at most so much; "" at the end of the file. */
static const char *heard(void)
{
	static char text[4096];
	ssize_t n = recv(peer, text, sizeof(text) - 1, MSG_DONTWAIT);

	ck_assert_int_ge((int)n, 0);
	text[n] = '\0';
	return text;
}

static void open_conn(const struct cbx_conn_ops *ops)
{
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	ck_assert_int_eq(cbx_set_nonblock(fds[0], 1), 0);
	peer = fds[1];
	conn = cbx_conn_new(base, fds[0], ops, NULL, gone, NULL);
	ck_assert_ptr_nonnull(conn);
}

static const struct cbx_conn_ops plain = { .on_line = on_line, .on_too_long = on_too_long, .on_close = on_close };
static const struct cbx_conn_ops full = {
	.on_line = on_line, .on_too_long = on_too_long, .on_close = on_close, .on_end = on_end, .on_room = on_room
};

static void setup(void)
{
	signal(SIGPIPE, SIG_IGN);
	base = event_base_new();
	peer = -1;
	conn = NULL;
	owed = closes = false;
	reply = NULL;
}

static void teardown(void)
{
	if (conn)
		cbx_conn_free(conn);
	cbx_close_p(&peer);
	cbx_buf_release(&calls);
	event_base_free(base);
}

START_TEST(half_lines_are_kept)
{
	open_conn(&plain);
	say("on");
	turn();
	ck_assert_str_eq(cbx_buf_str(&calls), "");
	say("e\r\ntwo\n\nth");
	turn();
	ck_assert_str_eq(cbx_buf_str(&calls), "<one><two><>");
	say("ree\n");
	until("<three>");
	cbx_close_p(&peer);
	until("GONE");
	ck_assert_str_eq(cbx_buf_str(&calls), "<one><two><><three>CLOSEGONE");
}
END_TEST

static void other_gone(void *arg)
{
}

/* Of one who sends many lines some are taken in a turn, in their order; others are heard in between. */
START_TEST(many_lines_take_turns)
{
	_cleanup_buf_ struct cbx_buf want = { 0 }, text = { 0 };
	struct cbx_conn *other;
	char *at;
	int fds[2];

	open_conn(&plain);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	other = cbx_conn_new(base, fds[0], &plain, NULL, other_gone, NULL);
	ck_assert_ptr_nonnull(other);
	for (int i = 0; i < 500; i++) {
		cbx_buf_addf(&text, "%d\n", i);
		cbx_buf_addf(&want, "<%d>", i);
	}
	say(cbx_buf_str(&text));
	ck_assert_int_eq(cbx_write_all(fds[1], "other\n", 6), 0);
	until("<499>");
	at = strstr(calls.data, "<other>");
	ck_assert_ptr_nonnull(at);
	memmove(at, at + 7, strlen(at + 7) + 1);
	ck_assert_str_eq(calls.data, want.data);
	cbx_conn_free(other);
	close(fds[1]);
}
END_TEST

START_TEST(too_long_lines_are_thrown_away)
{
	_cleanup_buf_ struct cbx_buf chunk = { 0 };
	size_t sent = 0;

	open_conn(&plain);
	cbx_set_nonblock(peer, 1);
	memset(cbx_buf_reserve(&chunk, KIB(64)), 'x', KIB(64));
	while (sent <= CBX_MESSAGE_MAX + KIB(64)) {
		ssize_t n = write(peer, chunk.data, KIB(64));

		if (n > 0)
			sent += (size_t)n;
		turn();
	}
	ck_assert_str_eq(cbx_buf_str(&calls), "");
	cbx_set_nonblock(peer, 0);
	say("still\nshort\n");
	until("<short>");
	ck_assert_str_eq(calls.data, "LONG<short>");
}
END_TEST

/* Of a peer that takes nothing no more is read, long before it has to be closed; it continues where it was. */
START_TEST(slow_readers_are_not_read)
{
	_cleanup_free_ char *big = cbx_xcalloc(1, MIB(1) + 1);
	_cleanup_buf_ struct cbx_buf want = { 0 };
	size_t taken = 0, lines;

	memset(big, 'r', MIB(1));
	reply = big;
	open_conn(&full);
	cbx_set_nonblock(peer, 1);
	for (int i = 0; i < 20; i++) {
		say("a\n");
		cbx_buf_adds(&want, "<a>");
	}
	turn();
	lines = calls.len / 3;
	ck_assert(lines >= CBX_CLIENT_PAUSE / MIB(1) && lines < 20);
	ck_assert(cbx_conn_pending(conn) > CBX_CLIENT_PAUSE && cbx_conn_pending(conn) < CBX_CLIENT_QUEUE_MAX);
	turn();
	ck_assert_uint_eq(calls.len / 3, lines);
	while (taken < 20 * (MIB(1) + 1)) {
		char sink[65536];
		ssize_t n = read(peer, sink, sizeof(sink));

		ck_assert(n > 0 || errno == EAGAIN);
		taken += n > 0 ? (size_t)n : 0;
		turn();
	}
	ck_assert_uint_eq(cbx_conn_pending(conn), 0);
	ck_assert_ptr_nonnull(strstr(calls.data, "ROOM"));
	for (lines = 0, taken = 0; taken < calls.len; taken++)
		lines += calls.data[taken] == '<';
	ck_assert_uint_eq(lines, 20);
}
END_TEST

START_TEST(who_takes_nothing_at_all_is_closed)
{
	_cleanup_free_ char *big = cbx_xcalloc(1, MIB(8));

	open_conn(&plain);
	memset(big, 'x', MIB(8));
	for (size_t i = 0; i <= CBX_CLIENT_QUEUE_MAX / MIB(8); i++)
		cbx_conn_send(conn, big, MIB(8));
	until("GONE");
	ck_assert_str_eq(calls.data, "CLOSEGONE");
}
END_TEST

/* Half a connection is served until nothing is owed to it. */
START_TEST(answers_are_owed_to_who_has_ended)
{
	owed = true;
	open_conn(&full);
	say("first\nlast, without an end");
	ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
	until("END");
	ck_assert_str_eq(calls.data, "<first><last, without an end>END");
	turn();
	ck_assert_ptr_nonnull(conn);
	cbx_conn_send(conn, "an answer", 9);
	turn();
	ck_assert_str_eq(heard(), "an answer\n");
	ck_assert_ptr_nonnull(conn);
	owed = false;
	cbx_conn_send(conn, "another", 7);
	until("GONE");
	ck_assert_str_eq(heard(), "another\n");
	ck_assert_str_eq(heard(), "");
}
END_TEST

START_TEST(who_has_gone_is_owed_nothing)
{
	owed = true;
	open_conn(&full);
	ck_assert_int_eq(shutdown(peer, SHUT_WR), 0);
	until("END");
	cbx_close_p(&peer);
	until("GONE");
	ck_assert_str_eq(calls.data, "ENDCLOSEGONE");
}
END_TEST

START_TEST(closing_inside_a_callback)
{
	closes = true;
	reply = "goodbye";
	open_conn(&plain);
	say("one\ntwo\nthree\n");
	until("GONE");
	ck_assert_str_eq(calls.data, "<one>CLOSEGONE");
	ck_assert_str_eq(heard(), "goodbye\n");
	ck_assert_str_eq(heard(), "");
}
END_TEST

/* cbx_conn_free() ends all at once, also in the middle of what was to be sent. */
START_TEST(freeing_says_what_is_pending)
{
	open_conn(&plain);
	cbx_conn_send_bytes(conn, "bytes:", 6, "\0\1\2", 3);
	cbx_conn_free(conn);
	ck_assert_str_eq(calls.data, "CLOSEGONE");
	ck_assert_int_eq(memcmp(heard(), "bytes:\n\0\1\2", 10), 0);
}
END_TEST

/* ---- the listener ---- */

static int accepted[64];
static size_t naccepted;

static void on_accept(void *arg, int fd)
{
	accepted[naccepted++] = fd;
}

static int connect_to(const struct cbx_address *a)
{
	int fd = socket(a->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(connect(fd, &a->at.any, a->len), 0);
	return fd;
}

START_TEST(listeners_pause)
{
	struct cbx_listener *l = NULL;
	struct cbx_address a;
	struct cbx_err err;
	int fd, clients[2];
	char text[128];

	cbx_address_loopback(&a, false, 0);
	fd = cbx_listen(&a, NULL, &err);
	ck_assert_int_ge(fd, 0);
	ck_assert(cbx_is_listening(fd));
	ck_assert_int_eq(cbx_address_of(fd, &a), 0);
	ck_assert_uint_ne(cbx_address_port(&a), 0);
	cbx_address_print(&a, text);
	ck_assert_int_eq(strncmp(text, "127.0.0.1:", 10), 0);
	ck_assert_int_eq(cbx_listener_new(base, fd, on_accept, NULL, &l, &err), 0);
	naccepted = 0;
	cbx_listener_pause(l, true);
	clients[0] = connect_to(&a);
	turn();
	ck_assert_uint_eq(naccepted, 0);
	ck_assert_uint_eq(cbx_listener_accept(l), 0);
	cbx_listener_pause(l, false);
	while (!naccepted)
		event_base_loop(base, EVLOOP_ONCE);
	clients[1] = connect_to(&a);
	ck_assert_uint_eq(cbx_listener_accept(l), 1);
	ck_assert_uint_eq(naccepted, 2);
	ck_assert(fcntl(accepted[0], F_GETFL) & O_NONBLOCK);
	cbx_listener_free(l);
	for (size_t i = 0; i < 2; i++) {
		close(clients[i]);
		close(accepted[i]);
	}
}
END_TEST

/* Without descriptors it rests, and what waits is accepted afterwards. */
START_TEST(listeners_rest)
{
	struct cbx_listener *l = NULL;
	int fd, client, last, spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct cbx_address a;
	struct cbx_err err;

	cbx_address_loopback(&a, true, 0);
	fd = cbx_listen(&a, NULL, &err);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(cbx_address_of(fd, &a), 0);
	ck_assert_int_eq(cbx_listener_new(base, fd, on_accept, NULL, &l, &err), 0);
	naccepted = 0;
	client = connect_to(&a);
	while ((last = fcntl(spare, F_DUPFD_CLOEXEC, 0)) >= 0)
		;
	ck_assert_int_eq(errno, EMFILE);
	ck_assert_uint_eq(cbx_listener_accept(l), 0);
	close(spare);
	while (!naccepted)
		event_base_loop(base, EVLOOP_ONCE);
	cbx_listener_free(l);
	close(client);
	close(accepted[0]);
}
END_TEST

/* ---- HTTP ---- */

static struct cbx_http_conns http;
static struct cbx_http_conn *asked; /* of the last request */
static bool refuses;
static const struct cbx_principal someone = CBX_PRINCIPAL_LOCAL;

static bool on_head(void *arg, struct cbx_http_conn *c)
{
	cbx_buf_addf(&calls, "HEAD %s|", c->head.path);
	c->who.principal = &someone;
	if (refuses)
		cbx_http_refuse(c, 403, -32600, NULL, "not you");
	return !refuses;
}

static void on_request(void *arg, struct cbx_http_conn *c, const char *body, size_t len)
{
	cbx_buf_addf(&calls, "%.*s|", (int)len, body ? body : "");
	asked = c;
}

static void client_left(void *arg)
{
	cbx_buf_adds(&calls, "LEFT");
}

static void open_http(void)
{
	static const struct cbx_http_conn_ops ops = { .on_head = on_head, .on_request = on_request };
	static const struct cbx_http_door door = { .local = true };
	struct cbx_err err;
	int fds[2];

	http = (struct cbx_http_conns){ .base = base, .ops = &ops };
	ck_assert_int_eq(cbx_http_room_init(&http, &err), 0);
	refuses = false;
	asked = NULL;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	ck_assert_int_eq(cbx_set_nonblock(fds[0], 1), 0);
	peer = fds[1];
	cbx_http_conn_accept(&http, &door, fds[0]);
	ck_assert_uint_eq(http.n, 1);
}

static void close_http(void)
{
	while (!LIST_EMPTY(&http.list))
		cbx_http_conn_cut(LIST_FIRST(&http.list));
	cbx_http_room_release(&http);
	ck_assert_uint_eq(http.n, 0);
	ck_assert_uint_eq(http.buffered, 0);
	ck_assert_uint_eq(http.unsent, 0);
	for (size_t i = 0; i < CBX_HTTP_LINES; i++)
		ck_assert_uint_eq(http.standing[i], 0);
}

START_TEST(http_requests_one_after_another)
{
	const char *text;

	open_http();
	say("POST /a HTTP/1.1\r\nHost: x\r\nContent-");
	turn();
	ck_assert_str_eq(cbx_buf_str(&calls), "");
	say("Length: 3\r\n\r\nab");
	turn();
	ck_assert_str_eq(cbx_buf_str(&calls), "HEAD /a|");
	ck_assert_uint_eq(http.buffered, 2);
	say("cGET /b HTTP/1.1\r\n\r\n"); /* the next one waits for the answer */
	turn();
	ck_assert_str_eq(calls.data, "HEAD /a|abc|");
	ck_assert_uint_eq(http.buffered, 0);
	cbx_http_reply(asked, 200, "text/plain", "one", 3);
	until("HEAD /b||");
	text = heard();
	ck_assert_int_eq(strncmp(text, "HTTP/1.1 200 OK\r\n", 17), 0);
	ck_assert_ptr_nonnull(strstr(text, "Content-Length: 3\r\n"));
	ck_assert_ptr_nonnull(strstr(text, "\r\n\r\none"));
	cbx_http_reply(asked, 202, NULL, NULL, 0);
	turn();
	ck_assert_int_eq(strncmp(heard(), "HTTP/1.1 202 Accepted\r\n", 23), 0);
	close_http();
}
END_TEST

START_TEST(http_clients_that_leave)
{
	open_http();
	say("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
	until("||");
	cbx_http_conn_watch(asked, client_left, NULL);
	cbx_close_p(&peer);
	until("LEFT");
	ck_assert_uint_eq(http.n, 0);
	close_http();
}
END_TEST

START_TEST(http_streams_are_chunked)
{
	open_http();
	say("GET / HTTP/1.1\r\n\r\n");
	until("||");
	cbx_http_stream_begin(asked, 200, "text/event-stream", -1);
	cbx_http_stream_send(asked, "0123456789abcdefg", 17);
	cbx_http_stream_end(asked);
	turn();
	ck_assert_ptr_nonnull(strstr(heard(), "\r\n\r\n11\r\n0123456789abcdefg\r\n0\r\n\r\n"));
	ck_assert_uint_eq(http.n, 1);
	close_http();
}
END_TEST

static const struct {
	const char *said, *status;
	bool refused; /* by who looks at heads */
} wrong_requests[] = {
	{ "GET / HTTP/1.1\nHost: x\n\n", " 400 " },
	{ "GET / HTTP/3.0\r\n\r\n", " 505 " },
	{ "GET / HTTP/1.1\r\nHost : x\r\n\r\n", " 400 " },
	{ "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", " 400 " },
	{ "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", " 400 " },
	{ "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", " 413 " },
	{ "POST / HTTP/1.1\r\nExpect: more\r\n\r\n", " 417 " },
	{ "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n", " 400 " },
	{ "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", " 403 ", true },
};

/* Each is answered once, nobody is asked about it, and the connection ends. */
START_TEST(http_refuses)
{
	const char *text;
	ssize_t n;
	char byte;

	open_http();
	refuses = wrong_requests[_i].refused;
	say(wrong_requests[_i].said);
	turn();
	text = heard();
	ck_assert_msg(!strncmp(text, "HTTP/1.1", 8) && !strncmp(text + 8, wrong_requests[_i].status, 5), "%s", text);
	ck_assert_ptr_null(asked);
	ck_assert_uint_eq(http.buffered, 0);
	do {
		turn();
		n = recv(peer, &byte, 1, MSG_DONTWAIT);
	} while (n < 0 && errno == EAGAIN);
	ck_assert_int_eq((int)n, 0);
	close_http();
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, half_lines_are_kept);
	tcase_add_test(tc, many_lines_take_turns);
	tcase_add_test(tc, too_long_lines_are_thrown_away);
	tcase_add_test(tc, slow_readers_are_not_read);
	tcase_add_test(tc, who_takes_nothing_at_all_is_closed);
	tcase_add_test(tc, answers_are_owed_to_who_has_ended);
	tcase_add_test(tc, who_has_gone_is_owed_nothing);
	tcase_add_test(tc, closing_inside_a_callback);
	tcase_add_test(tc, freeing_says_what_is_pending);
	tcase_add_test(tc, listeners_pause);
	tcase_add_test(tc, listeners_rest);
	tcase_add_test(tc, http_requests_one_after_another);
	tcase_add_test(tc, http_clients_that_leave);
	tcase_add_test(tc, http_streams_are_chunked);
	tcase_add_loop_test(tc, http_refuses, 0, (int)ARRAY_SIZE(wrong_requests));
}

TEST_MAIN("conn", add)
