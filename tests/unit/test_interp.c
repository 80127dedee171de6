/* SPDX-License-Identifier: Apache-2.0 */
/* An interpreter that is played here, over its real pipes, with an init that is played, too: in which order what it
 * prints, what it sends and its death are handed on, and what is done about one that breaks the protocol. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/frame.h"
#include "base/json.h"
#include "base/limits.h"
#include "box/box.h"
#include "interp/input.h"
#include "interp/interp.h"
#include "interp/pipes.h"
#include "unit_main.h"

#define PID 7

static struct event_base *base;
static struct cbx_boxes boxes;
static struct cbx_box box;
static struct cbx_interp interp;
static struct cbx_buf spawn;
static int init;		      /* its end of the socket */
static int theirs[CBX_INTERPRETER_FDS]; /* the interpreter's ends of its pipes */
static char heard[1 << 12];	      /* what was handed on, in order */
static size_t printed;
static void (*at_print)(const char *p, size_t n);
static void (*at_frame)(void);

static void hear(const char *what, const char *text)
{
	size_t n = strlen(heard);

	snprintf(heard + n, sizeof(heard) - n, "%s%s ", what, text);
}

static void on_ready(struct cbx_interp *in)
{
	hear("ready", "");
}

static void on_printed(struct cbx_interp *in, enum cbx_stream stream, const char *p, size_t n)
{
	char text[32] = "";

	printed += n;
	memcpy(text, p, n < sizeof(text) ? n : 0);
	if (n < sizeof(text))
		hear(stream == CBX_STDERR ? "err:" : "out:", text);
	if (at_print)
		at_print(p, n);
}

static void on_frame(struct cbx_interp *in, const struct cbx_frame *f)
{
	hear("", f->ev);
	if (at_frame)
		at_frame();
}

static void on_died(struct cbx_interp *in, const char *how)
{
	hear("died:", how);
}

static void on_start_failed(struct cbx_interp *in, const struct cbx_err *err)
{
	hear("failed:", err->msg);
}

static void on_stuck(struct cbx_interp *in, const struct cbx_err *err)
{
	hear("stuck:", err->msg);
}

static void on_settled(struct cbx_interp *in)
{
}

static const struct cbx_interp_events events = {
	.ready = on_ready,
	.printed = on_printed,
	.frame = on_frame,
	.died = on_died,
	.start_failed = on_start_failed,
	.stuck = on_stuck,
	.settled = on_settled,
};

static void on_ended(struct cbx_box *b, int64_t pid, int status)
{
	cbx_interp_ended(&interp, pid, status);
}

static const struct cbx_box_events box_events = { .ended = on_ended };

static void turn(void)
{
	for (int i = 0; i < 20; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
}

/* The next request that init reads; 0: none. fds may be NULL where none come. */
static uint32_t asked(struct cbx_init_header *ret, int *fds)
{
	char data[4096];
	int none[CBX_INTERPRETER_FDS];
	size_t n = CBX_INTERPRETER_FDS;
	ssize_t r = cbx_recv_fds(init, data, sizeof(data), fds ? fds : none, &n);

	if (r < (ssize_t)sizeof(*ret))
		return 0;
	memcpy(ret, data, sizeof(*ret));
	ck_assert(fds || n == 0);
	return ret->type;
}

static void say(struct cbx_init_header h)
{
	h.len = 0;
	ck_assert_int_eq(send(init, &h, sizeof(h), MSG_NOSIGNAL), (ssize_t)sizeof(h));
	turn();
}

static void ended(int status)
{
	say((struct cbx_init_header){ .type = CBX_INIT_EXITED, .arg = PID, .value = status });
}

static void print(int stream, const char *text)
{
	ck_assert_int_eq(write(theirs[stream], text, strlen(text)), (ssize_t)strlen(text));
}

static void send_frame(const char *json)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };

	cbx_frame_append(&b, json, strlen(json));
	ck_assert_int_eq(write(theirs[4], b.data, b.len), (ssize_t)b.len);
}

static void launch(int64_t pid)
{
	struct cbx_launch how = { .spawn = &spawn };
	struct cbx_init_header h;
	struct cbx_err err;

	ck_assert_int_eq(cbx_interp_start(&interp, &how, &err), 0);
	turn();
	ck_assert_uint_eq(asked(&h, theirs), CBX_INIT_SPAWN);
	h.value = pid;
	say(h);
}

/* An interpreter that is ready, and runs cell 1 unless that is not wanted. */
static void begin(bool cell)
{
	struct cbx_boxes_config config = { .images_dir = "/nonexistent" };
	int pair[2];

	heard[0] = '\0';
	printed = 0;
	at_print = NULL;
	at_frame = NULL;
	base = event_base_new();
	cbx_boxes_init(&boxes, base, &config, &box_events, NULL);
	memset(&box, 0, sizeof(box));
	cbx_box_init(&box, &boxes);
	box.name = "test";
	box.limits.memory_bytes = MIB(64);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	init = pair[1];
	cbx_set_nonblock(init, 1);
	ck_assert_int_eq(cbx_init_open(&box, pair[0]), 0);
	memset(&interp, 0, sizeof(interp));
	ck_assert_int_eq(cbx_interp_init(&interp, base, &box, &events), 0);
	spawn.len = 0;
	cbx_buf_add(&spawn, "/bin/x\0", 8);
	if (!cell)
		return;
	launch(PID);
	send_frame("{\"ev\":\"ready\",\"language\":\"python\",\"version\":\"3\",\"kind\":\"plain\"}");
	turn();
	ck_assert_str_eq(heard, "ready ");
	heard[0] = '\0';
	cbx_interp_run(&interp, 1, cbx_json_new_obj(), false);
}

static void finish(void)
{
	struct cbx_err gone = { .code = EPIPE, .msg = "gone" };

	cbx_interp_discard(&interp);
	cbx_init_shut(&box);
	cbx_init_fail_all(&box, &gone);
	cbx_interp_free(&interp);
	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++)
		close(theirs[i]);
	close(init);
	cbx_buf_release(&spawn);
	event_base_free(base);
}

#define DONE "{\"ev\":\"done\",\"id\":1,\"status\":\"ok\"}"

static void print_later(void)
{
	print(1, "later");
}

START_TEST(what_is_printed_before_a_frame_comes_before_it)
{
	begin(true);
	at_frame = print_later;
	print(2, "oops");
	print(1, "abc");
	send_frame(DONE);
	turn();
	ck_assert_str_eq(heard, "out:abc err:oops done out:later ");
	ck_assert_uint_eq(interp.cell, 0);
	finish();
}
END_TEST

static void print_once(void)
{
	at_frame = NULL;
	print(1, "later");
}

/* The driver prints again when its pipe is empty: that is not for frames that had begun before, nor for those behind
 * them in the same piece. */
START_TEST(what_is_printed_behind_frames_comes_behind_all_of_them)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };
	static const char frame[] = "{\"ev\":\"clear\",\"id\":1,\"wait\":false}";

	begin(true);
	at_frame = print_once;
	for (int i = 0; i < 200; i++)
		cbx_frame_append(&b, frame, strlen(frame));
	ck_assert_int_eq(write(theirs[4], b.data, 10), 10);
	turn();
	ck_assert_int_eq(write(theirs[4], b.data + 10, b.len - 10), (ssize_t)b.len - 10);
	turn();
	ck_assert_uint_eq(strlen(heard), 200 * strlen("clear ") + strlen("out:later "));
	ck_assert_str_eq(heard + 200 * strlen("clear "), "out:later ");
	finish();
}
END_TEST

/* The answer comes when all before it has been handed on; one who does not read the answers gets no more of them. */
START_TEST(who_wants_to_know_that_all_is_taken)
{
	static const char answer[] = "{\"op\":\"synced\",\"id\":";
	char text[256] = { 0 };

	begin(true);
	turn();
	ck_assert_int_gt(read(theirs[3], text, sizeof(text)), 0); /* "run" */
	print(1, "abc");
	send_frame("{\"ev\":\"sync\",\"id\":5}");
	turn();
	ck_assert_str_eq(heard, "out:abc ");
	memset(text, 0, sizeof(text));
	ck_assert_int_eq(read(theirs[3], text, sizeof(text)), (ssize_t)(CBX_FRAME_HEADER + strlen(answer) + 2));
	ck_assert_str_eq(text + CBX_FRAME_HEADER + strlen(answer), "5}");
	for (int i = 0; i < 20000; i++) {
		send_frame("{\"ev\":\"sync\",\"id\":6}");
		if (i % 50 == 0)
			turn();
	}
	ck_assert_int_eq(interp.state, CBX_INTERP_READY);
	ck_assert_uint_lt(interp.tx.len, KIB(128));
	send_frame(DONE);
	turn();
	interp.tx.len = 0;
	send_frame("{\"ev\":\"sync\",\"id\":7}");
	turn();
	ck_assert_uint_eq(interp.tx.len, 0);
	finish();
}
END_TEST

START_TEST(a_death_with_data_in_the_pipes)
{
	begin(true);
	print(1, "last");
	send_frame("{\"ev\":\"display\",\"id\":1,\"data\":{\"text/plain\":\"x\"}}");
	print(1, "words");
	ended(3 << 8);
	ck_assert_ptr_nonnull(strstr(heard, "out:lastwords display died:it ended with exit code 3"));
	ck_assert_int_eq(interp.state, CBX_INTERP_NONE);
	finish();
}
END_TEST

START_TEST(a_frame_without_end)
{
	begin(true);
	ck_assert_int_eq(write(theirs[4], "\144\0\0\0{\"ev\"", 9), 9);
	print(1, "abc");
	turn();
	ck_assert_str_eq(heard, "out:abc ");
	ck_assert_int_eq(interp.state, CBX_INTERP_READY);
	ended(SIGSEGV);
	ck_assert_ptr_nonnull(strstr(heard, "out:abc died:it was killed by signal 11"));
	finish();
}
END_TEST

/* What prints on and on has its pipe full again whenever it was read. */
static void refill(const char *p, size_t n)
{
	static char much[4096];

	memset(much, 'x', sizeof(much));
	while (printed < MIB(16) && write(theirs[1], much, sizeof(much)) > 0)
		;
}

static size_t printed_then;

static void stop_flood(void)
{
	at_print = NULL;
	printed_then = printed;
}

START_TEST(a_flood_delays_no_frame)
{
	begin(true);
	cbx_set_nonblock(theirs[1], 1);
	refill(NULL, 0);
	at_print = refill;
	at_frame = stop_flood;
	send_frame(DONE);
	turn();
	ck_assert_ptr_nonnull(strstr(heard, "done"));
	ck_assert_uint_gt(printed_then, 0);
	ck_assert_uint_lt(printed_then, MIB(2));
	finish();
}
END_TEST

static char before[64];
static bool whole;

static void close_it(const char *p, size_t n)
{
	at_print = NULL;
	ck_assert_uint_lt(n, sizeof(before));
	memcpy(before, p, n);
	print(1, "and what came since");
	cbx_interp_discard(&interp);
	whole = memcmp(before, p, n) == 0;
}

START_TEST(what_is_printed_stays_while_it_is_told)
{
	begin(true);
	at_print = close_it;
	print(1, "abc");
	turn();
	ck_assert(whole);
	ck_assert_str_eq(heard, "out:abc out:and what came since ");
	finish();
}
END_TEST

static const struct {
	const char *frame, *why;
} faults[] = {
	{ "nonsense", "not JSON" },
	{ "[]", "not an object" },
	{ "{}", "without \"ev\"" },
	{ "{\"ev\":\"nonsense\",\"id\":1}", "unknown message" },
	{ "{\"ev\":\"ready\",\"language\":\"a\",\"version\":\"b\",\"kind\":\"c\"}", "malformed \"ready\"" },
	{ "{\"ev\":\"display\",\"id\":1}", "malformed \"display\"" },
	{ "{\"ev\":\"display\",\"id\":2,\"data\":{}}", "about an unknown cell" },
	{ "{\"ev\":\"done\",\"id\":1,\"status\":\"well\"}", "malformed \"done\"" },
	{ "{\"ev\":\"error\",\"id\":1,\"name\":\"E\"}", "malformed \"error\"" },
	{ "{\"ev\":\"complete\",\"id\":1,\"matches\":[]}", "an answer that was not asked for" },
};

START_TEST(faulty_frames)
{
	struct cbx_init_header h;

	begin(true);
	send_frame(faults[_i].frame);
	turn();
	ck_assert_str_eq(heard, "");
	ck_assert_uint_eq(asked(&h, NULL), CBX_INIT_SIGNAL);
	ck_assert_int_eq(h.value, SIGKILL);
	h.value = 0;
	say(h);
	ended(SIGKILL);
	ck_assert_ptr_nonnull(strstr(heard, "died:it was killed by codebox because"));
	ck_assert_ptr_nonnull(strstr(heard, faults[_i].why));
	finish();
}
END_TEST

/* Killed, and slow to die: processes that it has left behind write on, and nothing of that gathers. */
START_TEST(a_flood_after_the_fault)
{
	static const char flood[4096];
	struct cbx_init_header h;
	size_t had;

	begin(true);
	send_frame(faults[0].frame);
	turn();
	ck_assert_uint_eq(asked(&h, NULL), CBX_INIT_SIGNAL);
	had = interp.rx.len;
	cbx_set_nonblock(theirs[4], 1);
	for (int i = 0; i < 100; i++) {
		while (write(theirs[4], flood, sizeof(flood)) > 0)
			;
		turn();
	}
	ck_assert_uint_eq(interp.rx.len, had);
	h.value = 0;
	say(h);
	ended(SIGKILL);
	ck_assert_ptr_nonnull(strstr(heard, faults[0].why));
	finish();
}
END_TEST

/* A thread that outlives its cell shows something: that is not a fault, and belongs to no cell. */
START_TEST(a_display_that_comes_late)
{
	begin(true);
	send_frame(DONE);
	send_frame("{\"ev\":\"display\",\"id\":1,\"data\":{\"text/plain\":\"x\"}}");
	turn();
	ck_assert_str_eq(heard, "done ");
	ck_assert_int_eq(interp.state, CBX_INTERP_READY);
	send_frame(DONE);
	turn();
	ck_assert_int_eq(interp.state, CBX_INTERP_DYING);
	finish();
}
END_TEST

static void taken(struct cbx_input_op *op, const struct cbx_err *err)
{
	ck_assert_ptr_null(err);
	hear("taken", "");
}

/* What is given is written bit by bit, as the program reads, and then again. */
START_TEST(much_input)
{
	struct cbx_ops ops = { 0 };
	struct cbx_input_op op = { .op.ops = &ops, .done = taken };
	struct event_base *loop = event_base_new();
	struct cbx_feed *feed;
	struct cbx_err err;
	size_t n = MIB(8) + 1;
	char *given = cbx_xcalloc(1, n), *got = cbx_xcalloc(1, n + 1);
	int pair[2];

	heard[0] = '\0';
	for (size_t i = 0; i < n; i++)
		given[i] = (char)(i * 31 + (i >> 12));
	ck_assert_int_eq(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
	ck_assert_int_eq(cbx_feed_new(pair[1], loop, &feed, &err), 0);
	for (int turn = 0; turn < 2; turn++) {
		size_t at = 0;

		ck_assert_int_eq(cbx_feed_give(feed, given, n, &op, &err), 0);
		ck_assert_int_lt(cbx_feed_give(feed, given, 1, &op, &err), 0);
		while (at < n) {
			ssize_t some = read(pair[0], got + at, n + 1 - at);

			at += some > 0 ? (size_t)some : 0;
			event_base_loop(loop, EVLOOP_NONBLOCK);
		}
		ck_assert_uint_eq(at, n);
		ck_assert_mem_eq(got, given, n);
	}
	ck_assert_str_eq(heard, "taken taken ");
	ck_assert_int_eq(cbx_feed_give(feed, "x", 1, &op, &err), 1);
	ck_assert_int_eq(cbx_feed_finish(&feed, &err), 1);
	ck_assert_int_eq(read(pair[0], got, 2), 1);
	ck_assert_int_eq(read(pair[0], got, 1), 0);
	close(pair[0]);
	event_base_free(loop);
	free(given);
	free(got);
}
END_TEST

START_TEST(starts_that_fail)
{
	static const uint64_t pauses[] = { 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000 };

	begin(false);
	ck_assert(cbx_interp_may_start(&interp));
	for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
		heard[0] = '\0';
		launch(-ENOENT);
		ck_assert_ptr_nonnull(strstr(heard, "failed:the interpreter did not start: /bin/x could not be executed"));
		ck_assert_uint_eq(interp.failures, i + 1);
		ck_assert(!cbx_interp_may_start(&interp));
		ck_assert_uint_le(cbx_interp_pause_ms(&interp), pauses[i]);
		ck_assert_uint_gt(cbx_interp_pause_ms(&interp), pauses[i] / 2);
		for (size_t k = 0; k < ARRAY_SIZE(theirs); k++)
			close(theirs[k]);
	}
	launch(PID);
	send_frame("{\"ev\":\"ready\",\"language\":\"python\",\"version\":\"3\",\"kind\":\"plain\"}");
	turn();
	ck_assert_uint_eq(interp.failures, 0);
	ck_assert(cbx_interp_may_start(&interp));
	finish();
}
END_TEST

static void add(TCase *t)
{
	signal(SIGPIPE, SIG_IGN);
	tcase_add_test(t, what_is_printed_before_a_frame_comes_before_it);
	tcase_add_test(t, what_is_printed_behind_frames_comes_behind_all_of_them);
	tcase_add_test(t, who_wants_to_know_that_all_is_taken);
	tcase_add_test(t, a_death_with_data_in_the_pipes);
	tcase_add_test(t, a_frame_without_end);
	tcase_add_test(t, a_flood_delays_no_frame);
	tcase_add_test(t, what_is_printed_stays_while_it_is_told);
	tcase_add_loop_test(t, faulty_frames, 0, ARRAY_SIZE(faults));
	tcase_add_test(t, a_flood_after_the_fault);
	tcase_add_test(t, a_display_that_comes_late);
	tcase_add_test(t, much_input);
	tcase_add_test(t, starts_that_fail);
}

TEST_MAIN("interp", add)
