/* SPDX-License-Identifier: Apache-2.0 */
/* The client of a sandbox's init, against one that is played here: what is sent in which order, whose an answer is, and
 * what is done about one that lies, says too much, or dies. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "box/box.h"
#include "unit_main.h"

static struct event_base *base;
static struct cbx_boxes boxes;
static struct cbx_box box;
static int init; /* its end of the socket */
static unsigned readies, failures;
static struct cbx_err failure;
static int64_t ended_pid;
static int ended_status;

static void on_ready(struct cbx_box *b)
{
	ck_assert_ptr_eq(b, &box);
	readies++;
}

static void on_failed(struct cbx_box *b, const struct cbx_err *why)
{
	failures++;
	failure = *why;
	cbx_box_close(b); /* as a session does */
}

static void on_ended(struct cbx_box *b, int64_t pid, int status)
{
	ended_pid = pid;
	ended_status = status;
}

static const struct cbx_box_events events = { .ready = on_ready, .failed = on_failed, .ended = on_ended };

/* What was answered, in order: numbers of requests, negative where no answer came. */
static int said[600];
static size_t nsaid;
static char last[64];
static bool close_at_answer;

struct question {
	int number;
};
static struct question questions[600];

static void answered(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		     const struct cbx_err *err)
{
	const struct question *q = arg;

	ck_assert_uint_lt(nsaid, ARRAY_SIZE(said));
	said[nsaid++] = err ? -q->number : q->number;
	if (err) {
		ck_assert_ptr_null(h);
		return;
	}
	ck_assert_uint_eq(h->len, len);
	ck_assert_uint_lt(len, sizeof(last));
	memcpy(last, payload, len);
	last[len] = '\0';
	if (close_at_answer)
		cbx_box_close(&box);
}

static int ask(int number, uint32_t type, size_t size, bool urgent, const int *fds, size_t nfds)
{
	struct cbx_init_header h = { .type = type, .arg = (uint64_t)number };
	_cleanup_free_ char *payload = cbx_xcalloc(1, size + 1);
	struct cbx_err err;
	int r;

	questions[number].number = number;
	r = cbx_init_ask(&box, &h, payload, size, NULL, 0, fds, nfds, urgent, answered, &questions[number], &err);
	ck_assert(r == 0 || err.code == -r);
	return r;
}

/* What init reads next. */
static struct cbx_init_header heard(void)
{
	static char data[CBX_INIT_MESSAGE_MAX];
	struct cbx_init_header h = { 0 };
	ssize_t n = cbx_recv_plain(init, data, sizeof(data));

	if (n >= (ssize_t)sizeof(h))
		memcpy(&h, data, sizeof(h));
	return h;
}

static void say(struct cbx_init_header h, const char *payload, size_t claimed)
{
	char data[sizeof(h) + 64];
	size_t n = payload ? strlen(payload) : 0;

	h.len = (uint32_t)claimed;
	memcpy(data, &h, sizeof(h));
	if (n)
		memcpy(data + sizeof(h), payload, n);
	ck_assert_int_eq(send(init, data, sizeof(h) + n, MSG_NOSIGNAL), (ssize_t)(sizeof(h) + n));
}

static void answer(struct cbx_init_header h, const char *payload)
{
	say(h, payload, strlen(payload));
}

static void turn(void)
{
	for (int i = 0; i < 100; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
}

static void begin(void)
{
	struct cbx_boxes_config config = { 0 };
	int pair[2];

	readies = failures = 0;
	nsaid = 0;
	ended_pid = 0;
	close_at_answer = false;
	memset(&box, 0, sizeof(box));
	memset(&boxes, 0, sizeof(boxes));
	base = event_base_new();
	cbx_boxes_init(&boxes, base, &config, &events, NULL);
	cbx_box_init(&box, &boxes);
	box.name = "s";
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	init = pair[1];
	cbx_set_nonblock(init, 1);
	ck_assert_int_eq(cbx_init_open(&box, pair[0]), 0);
}

static void finish(void)
{
	struct cbx_err over;

	cbx_refuse(&over, "over", ECANCELED, "over");
	cbx_init_fail_all(&box, &over);
	ck_assert_uint_eq(box.init.count, 0);
	cbx_box_release(&box);
	cbx_boxes_end(&boxes);
	cbx_close_p(&init);
	event_base_free(base);
}

static void check_failed(const char *text)
{
	turn();
	ck_assert_uint_eq(failures, 1);
	ck_assert_str_eq(failure.kind, "sandbox_failed");
	ck_assert_msg(strstr(failure.msg, text), "%s", failure.msg);
	/* What it says from then on is not listened to. */
	ck_assert_int_eq(box.init.sock, -1);
	ck_assert_int_eq(ask(9, CBX_INIT_STAT, 0, true, NULL, 0), -ENOTCONN);
}

START_TEST(answers_go_to_those_who_asked)
{
	struct cbx_init_header h[3];

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ask(i + 1, CBX_INIT_STAT, 10, false, NULL, 0), 0);
	for (int i = 0; i < 3; i++) {
		h[i] = heard();
		ck_assert_uint_eq(h[i].arg, (uint64_t)i + 1); /* in the order of the asking */
		ck_assert_uint_eq(h[i].len, 10);
	}
	answer(h[1], "two");
	turn();
	ck_assert_uint_eq(nsaid, 1);
	ck_assert_str_eq(last, "two");
	answer(h[0], "");
	answer(h[2], "three");
	turn();
	ck_assert_uint_eq(nsaid, 3);
	ck_assert_int_eq(said[0], 2);
	ck_assert_int_eq(said[1], 1);
	ck_assert_int_eq(said[2], 3);
	ck_assert_uint_eq(box.init.count, 0);
	ck_assert_uint_eq(failures, 0);
}
END_TEST

/* What is urgent overtakes what the socket had no room for, and nothing else changes its place. */
START_TEST(urgent_requests_come_first)
{
	struct cbx_init_header h;
	int n = 0, before = 0, next = 1;
	bool seen = false;

	while (TAILQ_EMPTY(&box.init.unsent) && n < 200)
		ck_assert_int_eq(ask(++n, CBX_INIT_WRITE, 60000, false, NULL, 0), 0);
	ck_assert_int_lt(n, 200);
	ck_assert_int_eq(ask(++n, CBX_INIT_WRITE, 60000, false, NULL, 0), 0);
	ck_assert_int_eq(ask(500, CBX_INIT_SIGNAL, 0, true, NULL, 0), 0);
	while ((h = heard()).type) {
		if (h.arg == 500)
			seen = true;
		else
			ck_assert_uint_eq(h.arg, (uint64_t)next++);
		before += !seen;
		turn();
	}
	ck_assert(seen);
	ck_assert_int_eq(next, n + 1);
	ck_assert_int_eq(before, n - 2); /* those that the socket had taken */
	ck_assert_uint_eq(box.init.bytes, 0);
}
END_TEST

START_TEST(there_are_bounds)
{
	struct cbx_init_header h = { .type = CBX_INIT_WRITE };
	_cleanup_free_ char *big = cbx_xcalloc(1, CBX_INIT_MESSAGE_MAX);
	struct cbx_err err;
	int n = 0;

	while (ask(n, CBX_INIT_STAT, 1, false, NULL, 0) == 0)
		ck_assert_int_lt(++n, (int)ARRAY_SIZE(questions) - 1);
	ck_assert_int_eq(n, CBX_INIT_REQUESTS);
	ck_assert_int_eq(ask(n, CBX_INIT_STAT, 1, false, NULL, 0), -EBUSY);
	ck_assert_int_eq(ask(n, CBX_INIT_SIGNAL, 0, true, NULL, 0), 0);
	ck_assert_int_eq(cbx_init_ask(&box, &h, big, CBX_INIT_MESSAGE_MAX - sizeof(h), "x", 1, NULL, 0, true, answered,
				      NULL, &err),
			 -EMSGSIZE);
	ck_assert_uint_eq(nsaid, 0); /* a call that fails calls nothing */
}
END_TEST

START_TEST(descriptors_are_taken)
{
	int fds[2], got[CBX_FDS_MAX];
	char data[100];
	size_t n;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	ck_assert_int_eq(ask(1, CBX_INIT_SPAWN, 1, true, fds, 2), 0);
	ck_assert_int_lt(fcntl(fds[0], F_GETFD), 0);
	ck_assert_int_lt(fcntl(fds[1], F_GETFD), 0);
	ck_assert_int_eq(cbx_recv_fds(init, data, sizeof(data), got, &n), sizeof(struct cbx_init_header) + 1);
	ck_assert_uint_eq(n, 2);
	close(got[0]);
	close(got[1]);
	/* Also when they are not sent. */
	cbx_box_close(&box);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	ck_assert_int_eq(ask(2, CBX_INIT_SPAWN, 1, true, fds, 2), -ENOTCONN);
	ck_assert_int_lt(fcntl(fds[0], F_GETFD), 0);
	ck_assert_int_lt(fcntl(fds[1], F_GETFD), 0);
}
END_TEST

START_TEST(it_is_ready_once_and_its_processes_end)
{
	say((struct cbx_init_header){ .type = CBX_INIT_READY }, NULL, 0);
	say((struct cbx_init_header){ .type = CBX_INIT_EXITED, .arg = 7, .value = 256 }, NULL, 0);
	turn();
	ck_assert_uint_eq(readies, 1);
	ck_assert_int_eq(ended_pid, 7);
	ck_assert_int_eq(ended_status, 256);
	ck_assert_uint_eq(failures, 0);
	say((struct cbx_init_header){ .type = CBX_INIT_READY }, NULL, 0);
	check_failed("unknown message");
	ck_assert_uint_eq(readies, 1);
}
END_TEST

START_TEST(lies_end_it)
{
	struct cbx_init_header h, wrong;
	char data[CBX_INIT_MESSAGE_MAX + 1] = { 0 };

	ck_assert_int_eq(ask(1, CBX_INIT_STAT, 1, false, NULL, 0), 0);
	wrong = h = heard();
	switch (_i) {
	case 0:
		wrong.id++;
		answer(wrong, "");
		check_failed("a request that was not made");
		break;
	case 1:
		wrong.type = CBX_INIT_READ;
		answer(wrong, "");
		check_failed("a request that was not made");
		break;
	case 2: /* the same answer again */
		answer(h, "");
		answer(h, "");
		check_failed("a request that was not made");
		break;
	case 3:
		say(h, "abc", 4);
		check_failed("of a wrong length");
		break;
	case 4:
		say(h, "abc", 2);
		check_failed("of a wrong length");
		break;
	case 5:
		ck_assert_int_eq(send(init, &h, sizeof(h) - 1, 0), sizeof(h) - 1);
		check_failed("a message of");
		break;
	case 6: /* more than a message may have */
		h.len = sizeof(data) - sizeof(h);
		memcpy(data, &h, sizeof(h));
		ck_assert_int_eq(send(init, data, sizeof(data), 0), sizeof(data));
		check_failed("cannot be read");
		break;
	case 7: /* descriptors are for those who ask */
		ck_assert_int_eq(cbx_send_fds(init, &h, sizeof(h), &(int){ STDIN_FILENO }, 1), 0);
		check_failed("cannot be read");
		break;
	}
	ck_assert_uint_eq(nsaid, _i == 2);
}
END_TEST

/* The supervisor has a moment to say why; then it is a failure by itself. Whoever closes reports to what waits,
 * once. */
START_TEST(it_dies)
{
	for (int i = 1; i <= 3; i++)
		ck_assert_int_eq(ask(i, CBX_INIT_STAT, 1, false, NULL, 0), 0);
	answer(heard(), "");
	while (heard().type) /* the kernel drops what was said by one that leaves something unread */
		;
	cbx_close_p(&init);
	turn();
	ck_assert_uint_eq(nsaid, 1); /* what it said before counts */
	ck_assert(box.init.ended);
	ck_assert_uint_eq(failures, 0);
	while (!failures)
		event_base_loop(base, EVLOOP_ONCE);
	check_failed("ended unexpectedly");
	ck_assert_uint_eq(nsaid, 1);
	cbx_init_fail_all(&box, &failure);
	ck_assert_uint_eq(nsaid, 3);
	ck_assert_int_eq(said[1], -2);
	ck_assert_int_eq(said[2], -3);
}
END_TEST

START_TEST(it_is_closed_by_an_answer)
{
	struct cbx_init_header h[2];

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ask(i + 1, CBX_INIT_STAT, 1, false, NULL, 0), 0);
		h[i] = heard();
	}
	close_at_answer = true;
	answer(h[0], "");
	answer(h[1], "");
	turn();
	ck_assert_uint_eq(nsaid, 1);
	ck_assert_uint_eq(failures, 0);
	ck_assert_uint_eq(box.init.count, 1);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, begin, finish);
	tcase_add_test(t, answers_go_to_those_who_asked);
	tcase_add_test(t, urgent_requests_come_first);
	tcase_add_test(t, there_are_bounds);
	tcase_add_test(t, descriptors_are_taken);
	tcase_add_test(t, it_is_ready_once_and_its_processes_end);
	tcase_add_loop_test(t, lies_end_it, 0, 8);
	tcase_add_test(t, it_dies);
	tcase_add_test(t, it_is_closed_by_an_answer);
}

TEST_MAIN("box", add)
