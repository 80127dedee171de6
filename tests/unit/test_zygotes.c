/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor makes of what zygotes say: every order, wrong values, wrong senders, silence and death. The test
 * is zygote and interpreters itself; what would be killed in earnest are two children of it. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/syscalls.h"
#include "sandbox/enter.h"
#include "supervisor/supervisor.h"
#include "supervisor/verify.h"
#include "unit_main.h"
#include "zygote/zygote-protocol.h"

#define ZYGOTE	  7
#define SANDBOXES 40

static struct supervisor s;
static struct sandbox sandboxes[SANDBOXES];
static struct sock_filter insn = BPF_STMT(BPF_RET | BPF_K, 0);
static struct cbx_event events[100];
static size_t nevents;
static pid_t zygote_victim, box_victim;
static int zygote_sock; /* the zygote's end */
static bool refuse_all; /* what verification says */
static pid_t verified;

/* ---- what the supervisor's other files do ---- */

void send_event(const struct cbx_event *e)
{
	ck_assert_uint_lt(nevents, ARRAY_SIZE(events));
	events[nevents++] = *e;
}

void send_about(enum cbx_event_type type, uint64_t number, const struct cbx_err *err)
{
	send_event(&(struct cbx_event){ .type = type, .sandbox = number, .err = *err });
}

struct sandbox *find_sandbox(struct supervisor *sup, uint64_t id)
{
	for (size_t i = 0; i < sup->n; i++)
		if (sup->all[i].id == id)
			return &sup->all[i];
	return NULL;
}

int set_up_goes_on(struct sandbox *b)
{
	b->report = -1;
	return 0;
}

static pid_t sleeper(void)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

int cbx_sandbox_start(const struct cbx_outer *outer, const struct cbx_plan *plan, uint32_t outer_id, int init_sock, int door,
		      int cgroup, const struct cbx_program *program, struct cbx_starting *ret, struct cbx_err *err)
{
	(void)outer, (void)plan, (void)outer_id, (void)cgroup, (void)err;
	ck_assert_ptr_nonnull(program);
	ck_assert_str_eq(program->argv[0], "/bin/python");
	zygote_victim = sleeper();
	zygote_sock = fcntl(init_sock, F_DUPFD_CLOEXEC, 0);
	*ret = (struct cbx_starting){ .pid = getpid(), .pidfd = cbx_pidfd_open(zygote_victim, 0), .report = -1 };
	return 0;
}

int cbx_verify_interpreter(pid_t pid, pid_t init, pid_t zygote, const struct cbx_lockdown *want, pid_t *ret_inside,
			   struct cbx_err *err)
{
	verified = pid;
	ck_assert_int_eq(init, box_victim);
	ck_assert_int_eq(zygote, getpid());
	ck_assert_uint_eq(want->rlimits[RLIMIT_NPROC].hard, 5);
	*ret_inside = 3;
	return refuse_all ? cbx_refuse(err, "zygote", EPERM, "it is not what it should be") : 0;
}

/* ---- doing ---- */

/* Has it ended? Waits that long for it; -1: for ever. */
static bool ended(pid_t pid, int ms)
{
	struct pollfd p = { cbx_pidfd_open(pid, 0), POLLIN, 0 };
	bool r = poll(&p, 1, ms) > 0;

	close(p.fd);
	return r;
}

static bool killed(pid_t pid)
{
	return ended(pid, -1);
}

/* What is not killed lives on; what is has ended by then, unless the machine is busy. */
static bool lives(pid_t pid)
{
	return !ended(pid, 50);
}

static const struct zygote *zygote(void)
{
	return s.nzygotes ? &s.zygotes[0] : NULL;
}

static void start(void)
{
	static const char words[] = "/bin/python\0-I\0\0";
	struct cbx_request q = { .type = CBX_REQUEST_ZYGOTE, .sandbox = ZYGOTE };
	int fd = memfd_create("words", 0);

	signal(SIGPIPE, SIG_IGN);
	ck_assert_int_eq(cbx_write_all(fd, words, sizeof(words)), 0);
	for (size_t i = 0; i < CBX_PROFILES; i++)
		s.outer.filters[i] = (struct cbx_filter){ .insns = &insn, .len = 1 };
	s.outer.zygote_filter = s.outer.filters[0];
	s.all = sandboxes;
	zygote_start(&s, &q, &fd, 1);
	close(fd);
	ck_assert_uint_eq(s.nzygotes, 1);
}

static void box(uint64_t id)
{
	struct sandbox *b = &sandboxes[s.n++];

	if (!box_victim)
		box_victim = sleeper();
	*b = (struct sandbox){ .id = id,
			       .pid = box_victim,
			       .pidfd = cbx_pidfd_open(box_victim, 0),
			       .report = -1,
			       .handed = CBX_HANDED_NONE,
			       .groups = { -1, -1 },
			       .plan = cbx_xcalloc(1, sizeof(*b->plan)) };
	b->plan->landlock = CBX_LANDLOCK_OFF;
	b->plan->processes = 5;
}

static void listen_once(void)
{
	struct pollfd p[2];
	size_t n = zygotes_poll(&s, p);

	poll(p, n, 0);
	zygotes_readable(&s, p, n);
}

static void say(uint32_t type, int32_t value, uint64_t sandbox)
{
	struct cbx_zygote_message m = { .type = type, .value = value, .sandbox = sandbox, .step = 101 };

	memset(m.text, 'x', sizeof(m.text)); /* unterminated */
	memcpy(m.text, "text\33[1m", 8);
	ck_assert_int_eq(cbx_send_fds(zygote_sock, &m, sizeof(m), NULL, 0), 0);
}

/* From a process of its own, as an interpreter does. */
static pid_t say_from_another(uint32_t type, int32_t value, uint64_t sandbox)
{
	pid_t pid = fork();

	if (pid == 0) {
		say(type, value, sandbox);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void be_ready(void)
{
	say(CBX_ZYGOTE_READY, 0, 0);
	listen_once();
	ck_assert_uint_eq(nevents, 1);
	ck_assert_uint_eq(events[0].type, CBX_EVENT_ZYGOTE_READY);
	nevents = 0;
}

static void want_one(uint64_t id)
{
	struct cbx_request q = { .type = CBX_REQUEST_ENTER, .sandbox = id, .zygote = ZYGOTE };
	int fds[CBX_INTERPRETER_FDS];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	zygote_enter(&s, &q, fds, ARRAY_SIZE(fds));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		cbx_close_p(&fds[i]);
}

/* The zygote is asked for an interpreter of sandbox 1. */
static void ask(void)
{
	start();
	be_ready();
	box(1);
	want_one(1);
	ck_assert_uint_eq(nevents, 0);
}

/* It was killed, for a reason in which that stands; codeboxd hears of it when it is reaped, and so does who waited. */
static void is_killed(const char *why, size_t waited)
{
	size_t before = nevents;

	ck_assert(zygote()->killed);
	ck_assert(killed(zygote_victim));
	ck_assert_msg(strstr(zygote()->why.msg, why) != NULL, "\"%s\" does not say \"%s\"", zygote()->why.msg, why);
	ck_assert(zygotes_reaped(&s, getpid(), 9));
	ck_assert_uint_eq(nevents - before, waited + 1);
	for (size_t i = before; i < before + waited; i++) {
		ck_assert_uint_eq(events[i].type, CBX_EVENT_ENTERED);
		ck_assert_int_ne(events[i].err.code, 0);
		ck_assert_int_eq(events[i].pid, 0);
	}
	ck_assert_uint_eq(events[nevents - 1].type, CBX_EVENT_ZYGOTE_GONE);
	ck_assert_uint_eq(events[nevents - 1].sandbox, ZYGOTE);
	ck_assert_uint_eq(s.nzygotes, 0);
}

static size_t descriptors(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* ---- tests ---- */

START_TEST(placed_first)
{
	pid_t pid;

	ask();
	if (_i == 0)
		say(CBX_ZYGOTE_FORKED, 0, 1); /* no pid yet: not more than nothing */
	pid = say_from_another(CBX_ZYGOTE_PLACED, 0, 1);
	listen_once();
	ck_assert_uint_eq(nevents, 0);
	say(CBX_ZYGOTE_FORKED, pid, 1);
	listen_once();
	ck_assert_uint_eq(nevents, 1);
	ck_assert_uint_eq(events[0].type, CBX_EVENT_ENTERED);
	ck_assert_int_eq(events[0].err.code, 0);
	ck_assert_int_eq(events[0].pid, 3);
	ck_assert_int_eq(verified, pid);
	ck_assert(!zygote()->killed && lives(box_victim));
	/* Its end is reported by the number that it has inside. */
	ck_assert(zygotes_reaped(&s, pid, 256));
	ck_assert_uint_eq(events[1].type, CBX_EVENT_EXITED);
	ck_assert_int_eq(events[1].pid, 3);
	ck_assert(!zygotes_reaped(&s, pid, 256));
}
END_TEST

START_TEST(forked_first)
{
	pid_t pid;
	int hold[2];
	char go = 0;

	ask();
	ck_assert_int_eq(pipe(hold), 0);
	pid = fork();
	if (pid == 0) {
		ck_assert_int_eq(read(hold[0], &go, 1), 1);
		say(CBX_ZYGOTE_PLACED, 0, 1);
		_exit(0);
	}
	say(CBX_ZYGOTE_FORKED, pid, 1);
	listen_once();
	ck_assert_uint_eq(nevents, 0);
	ck_assert_int_eq(write(hold[1], "g", 1), 1);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	listen_once();
	ck_assert_uint_eq(nevents, 1);
	ck_assert_int_eq(events[0].err.code, 0);
	ck_assert_int_eq(verified, pid);
}
END_TEST

START_TEST(not_what_it_should_be)
{
	pid_t pid;

	ask();
	refuse_all = true;
	pid = say_from_another(CBX_ZYGOTE_PLACED, 0, 1);
	say(CBX_ZYGOTE_FORKED, pid, 1);
	listen_once();
	ck_assert_uint_eq(nevents, 1);
	ck_assert_int_eq(events[0].err.code, EPERM);
	ck_assert_int_eq(events[0].pid, 0);
	ck_assert(killed(box_victim)); /* something that is not understood is in it */
	is_killed("not what it should be", 0);
	/* Nothing is reported of the interpreter, which nobody knows. */
	nevents = 0;
	ck_assert(zygotes_reaped(&s, pid, 9));
	ck_assert_uint_eq(nevents, 0);
}
END_TEST

START_TEST(they_disagree)
{
	ask();
	say_from_another(CBX_ZYGOTE_PLACED, 0, 1);
	say(CBX_ZYGOTE_FORKED, 1, 1); /* the supervisor's own number, say */
	listen_once();
	ck_assert_int_eq(verified, 0);
	ck_assert_int_eq(events[0].err.code, EPERM);
	ck_assert(killed(box_victim));
	is_killed("disagree", 0);
}
END_TEST

static const struct {
	uint32_t type;
	int32_t value;
	bool other; /* from another process than the zygote */
	unsigned times;
	const char *why;
} wrong[] = {
	{ CBX_ZYGOTE_PLACED, 0, true, 2, "out of turn" },
	{ CBX_ZYGOTE_FORKED, 5, false, 2, "out of turn" },
	{ CBX_ZYGOTE_FORKED, 5, true, 1, "out of turn" },
	{ CBX_ZYGOTE_FORKED, -EPERM, false, 1, "place an interpreter" },
	{ CBX_ZYGOTE_PLACED, -EPERM, true, 1, "place an interpreter" },
	{ CBX_ZYGOTE_READY, 0, false, 1, "ready out of turn" },
	{ CBX_ZYGOTE_READY, 0, true, 1, "ready out of turn" },
	{ CBX_ZYGOTE_ENTER, 0, false, 1, "unknown message" },
	{ 0, 0, false, 1, "unknown message" },
	{ 0xffffffff, 0, true, 1, "unknown message" },
};

START_TEST(wrong_values)
{
	ask();
	for (unsigned i = 0; i < wrong[_i].times; i++)
		if (wrong[_i].other)
			say_from_another(wrong[_i].type, wrong[_i].value, 1);
		else
			say(wrong[_i].type, wrong[_i].value, 1);
	listen_once();
	ck_assert(lives(box_victim));
	is_killed(wrong[_i].why, 1);
}
END_TEST

START_TEST(of_other_sandboxes)
{
	ask();
	say(CBX_ZYGOTE_FORKED, 5, 99); /* may have ended meanwhile */
	listen_once();
	ck_assert(!zygote()->killed);
	box(2); /* there, but nobody asked for it */
	say(CBX_ZYGOTE_FORKED, 5, 2);
	listen_once();
	ck_assert_int_eq(sandboxes[1].placing.state, PLACE_NONE);
	is_killed("was not asked for", 1);
}
END_TEST

START_TEST(unreadable)
{
	struct cbx_zygote_message m[2] = { { .type = CBX_ZYGOTE_FORKED, .sandbox = 1, .value = 5 } };
	int fds[2] = { 0, 0 };
	size_t before;

	ask();
	before = descriptors();
	if (_i == 0)
		ck_assert_int_eq(cbx_send_fds(zygote_sock, m, sizeof(*m) - 1, NULL, 0), 0);
	else if (_i == 1)
		ck_assert_int_eq(cbx_send_fds(zygote_sock, m, sizeof(m), NULL, 0), 0);
	else
		ck_assert_int_eq(cbx_send_fds(zygote_sock, m, sizeof(*m), fds, 2), 0);
	listen_once();
	ck_assert_uint_eq(descriptors(), before - 1); /* its socket is closed; none came in */
	is_killed("cannot be read", 1);
}
END_TEST

START_TEST(not_ready)
{
	start();
	if (_i == 0) {
		say(CBX_ZYGOTE_READY, -ENOENT, 0);
		listen_once();
		is_killed("text", 0);
		ck_assert_ptr_null(strchr(events[0].err.msg, '\33'));
		return;
	}
	if (_i == 1)
		say_from_another(CBX_ZYGOTE_READY, 0, 0);
	else
		say(CBX_ZYGOTE_FORKED, 5, 1);
	box(1);
	listen_once();
	is_killed(_i == 1 ? "out of turn" : "not asked for", 0);
}
END_TEST

START_TEST(asked_too_early)
{
	start();
	box(1);
	want_one(1);
	ck_assert_uint_eq(nevents, 1);
	ck_assert_uint_eq(events[0].type, CBX_EVENT_ENTERED);
	ck_assert_int_eq(events[0].err.code, ENOENT);
	ck_assert(!zygote()->killed);
	/* Once is enough: init starts it. */
	want_one(1);
	ck_assert_uint_eq(nevents, 2);
	ck_assert_int_eq(events[1].err.code, EPROTO);
}
END_TEST

START_TEST(silence)
{
	ask();
	zygotes_check(&s, sandboxes[0].placing.deadline_ms - 1);
	ck_assert(!zygote()->killed);
	zygotes_check(&s, sandboxes[0].placing.deadline_ms);
	is_killed("too long", 1);
}
END_TEST

/* What it says in its last moments counts; then it is gone. */
START_TEST(death)
{
	pid_t pid;

	ask();
	box(2);
	want_one(2);
	pid = say_from_another(CBX_ZYGOTE_PLACED, 0, 2);
	say(CBX_ZYGOTE_FORKED, pid, 2);
	close(zygote_sock);
	ck_assert(zygotes_reaped(&s, getpid(), 11));
	ck_assert_uint_eq(nevents, 3);
	ck_assert_uint_eq(events[0].sandbox, 2);
	ck_assert_int_eq(events[0].err.code, 0);
	ck_assert_uint_eq(events[1].sandbox, 1);
	ck_assert_int_ne(events[1].err.code, 0);
	ck_assert_uint_eq(events[2].type, CBX_EVENT_ZYGOTE_GONE);
	ck_assert_int_eq(events[2].status, 11);
	ck_assert(s.strangers);
	/* Another one cannot be asked for by its number. */
	box(3);
	want_one(3);
	ck_assert_int_eq(events[3].err.code, ENOENT);
}
END_TEST

static int one_by_one(struct cbx_zygote_enter *enter)
{
	int fds[CBX_FDS_MAX];
	size_t n;
	ssize_t r = cbx_recv_fds(zygote_sock, enter, sizeof(*enter), fds, &n);

	for (size_t i = 0; r > 0 && i < n; i++)
		close(fds[i]);
	return r > 0;
}

/* More than the socket holds: they wait, and are asked for by age, whatever the order in which they were wanted. */
START_TEST(a_queue)
{
	static struct cbx_zygote_enter enter;
	size_t waiting = 0;
	uint64_t last = 0;

	start();
	be_ready();
	ck_assert_int_eq(cbx_set_nonblock(zygote_sock, 1), 0);
	for (uint64_t id = 1; id <= SANDBOXES; id++)
		box(id);
	for (uint64_t id = SANDBOXES; id >= 1; id--)
		want_one(id);
	for (size_t i = 0; i < SANDBOXES; i++)
		waiting += sandboxes[i].placing.state == PLACE_WAITING;
	ck_assert_uint_gt(waiting, 0);
	ck_assert_uint_lt(waiting, SANDBOXES);
	for (size_t seen = 0; seen < SANDBOXES; seen++) {
		ck_assert(one_by_one(&enter));
		if (seen < SANDBOXES - waiting)
			ck_assert_uint_eq(enter.sandbox, SANDBOXES - seen);
		else
			ck_assert_uint_gt(enter.sandbox, last);
		last = seen < SANDBOXES - waiting ? 0 : enter.sandbox;
		listen_once();
	}
	ck_assert(!one_by_one(&enter));
	ck_assert_uint_eq(nevents, 0);
}
END_TEST

START_TEST(who_waits_when_it_dies)
{
	size_t before;

	start();
	be_ready();
	box(1);
	before = descriptors();
	for (uint64_t id = 2; id <= SANDBOXES; id++)
		box(id);
	for (uint64_t id = 1; id <= SANDBOXES; id++)
		want_one(id);
	ck_assert_uint_gt(descriptors(), before + SANDBOXES - 1);
	zygote_end(&s, ZYGOTE);
	is_killed("not needed", SANDBOXES);
	/* Of those that waited none is left; gone are its socket and pidfd, too. */
	ck_assert_uint_eq(descriptors(), before + SANDBOXES - 1 - 2);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_loop_test(t, placed_first, 0, 2);
	tcase_add_test(t, forked_first);
	tcase_add_test(t, not_what_it_should_be);
	tcase_add_test(t, they_disagree);
	tcase_add_loop_test(t, wrong_values, 0, (int)ARRAY_SIZE(wrong));
	tcase_add_test(t, of_other_sandboxes);
	tcase_add_loop_test(t, unreadable, 0, 3);
	tcase_add_loop_test(t, not_ready, 0, 3);
	tcase_add_test(t, asked_too_early);
	tcase_add_test(t, silence);
	tcase_add_test(t, death);
	tcase_add_test(t, a_queue);
	tcase_add_test(t, who_waits_when_it_dies);
}

TEST_MAIN("zygotes", add)
