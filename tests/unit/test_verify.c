/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor asks the kernel about an interpreter that a zygote has made: one that is as it should be, and
 * others that lack one thing each. They are children in a user namespace of their own. */
#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/verify.h"
#include "unit_main.h"

#define FILES 100

/* What is omitted, or done besides. */
enum lack {
	NOTHING,
	A_NAME, /* that looks like lines of /proc/PID/status */
	PARENT,
	ONE_THREAD,
	BOUNDING_SET,
	CAPABILITIES,
	NO_NEW_PRIVS,
	FILTER,
	LIMIT,
	USER,
	UTS,
	IPC,
	CGROUP,
	NET,
	CHILDREN,
	ROOT,
};

static void *nothing(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void load_filter(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(2);
}

static void be(enum lack lack)
{
	const int spaces[] = { [USER] = CLONE_NEWUSER,	   [UTS] = CLONE_NEWUTS, [IPC] = CLONE_NEWIPC,
			       [CGROUP] = CLONE_NEWCGROUP, [NET] = CLONE_NEWNET, [CHILDREN] = CLONE_NEWPID };
	struct rlimit files = { FILES, lack == LIMIT ? FILES + 1 : FILES };
	cap_t none = cap_init();
	pthread_t thread;

	if (lack >= USER && lack < ROOT && unshare(spaces[lack]) < 0)
		_exit(2);
	if (lack == ROOT && chroot("/proc") < 0)
		_exit(2);
	if (lack == A_NAME)
		prctl(PR_SET_NAME, "\nPPid:\t1\nx");
	for (int cap = 0; lack != BOUNDING_SET && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			_exit(2);
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		_exit(2);
	if (lack != NO_NEW_PRIVS && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(2);
	if (lack != FILTER)
		load_filter();
	if (lack != CAPABILITIES && cap_set_proc(none) < 0)
		_exit(2);
	if (lack == ONE_THREAD && pthread_create(&thread, NULL, nothing, NULL) != 0)
		_exit(2);
}

static pid_t make(enum lack lack, bool plain)
{
	int ready[2];
	pid_t pid, made = 0;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (lack == PARENT && fork() > 0)
			for (;;)
				pause();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!plain)
			be(lack);
		made = getpid();
		if (write(ready[1], &made, sizeof(made)) != sizeof(made))
			_exit(2);
		for (;;)
			pause();
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &made, sizeof(made)), sizeof(made));
	close(ready[0]);
	return made;
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	ck_assert_msg(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s: %s", path, strerror(errno));
}

/* One in which a child may make another. */
static void user_namespace(void)
{
	char uid[32], gid[32];

	snprintf(uid, sizeof(uid), "0 %u 1\n", (unsigned)geteuid());
	snprintf(gid, sizeof(gid), "0 %u 1\n", (unsigned)getegid());
	ck_assert_msg(unshare(CLONE_NEWUSER) == 0, "no user namespace: %s", strerror(errno));
	put("/proc/self/setgroups", "deny");
	put("/proc/self/uid_map", uid);
	put("/proc/self/gid_map", gid);
}

static int verify(enum lack lack, pid_t *ret, pid_t *ret_inside, struct cbx_err *err)
{
	static struct cbx_lockdown want = { .rlimit_mask = 1u << RLIMIT_NOFILE,
					    .rlimits[RLIMIT_NOFILE] = { FILES, FILES } };
	pid_t init, zygote;

	user_namespace();
	init = make(NOTHING, true);
	zygote = make(NOTHING, true);
	*ret = make(lack, false);
	return cbx_verify_interpreter(*ret, init, zygote, &want, ret_inside, err);
}

START_TEST(as_it_should_be)
{
	struct cbx_err err = { 0 };
	pid_t pid, inside = 0;

	ck_assert_msg(verify(_i ? A_NAME : NOTHING, &pid, &inside, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(inside, pid); /* there is no pid namespace between */
}
END_TEST

static const struct {
	enum lack lack;
	const char *why;
} lacks[] = {
	{ PARENT, "is not the supervisor's child" },
	{ ONE_THREAD, "more than one thread" },
	{ BOUNDING_SET, "has capabilities" },
	{ CAPABILITIES, "has capabilities" },
	{ NO_NEW_PRIVS, "no_new_privs" },
	{ FILTER, "system call filter" },
	{ LIMIT, "resource limits" },
	{ USER, "ns/user" },
	{ UTS, "ns/uts" },
	{ IPC, "ns/ipc" },
	{ CGROUP, "ns/cgroup" },
	{ NET, "ns/net" },
	{ CHILDREN, "ns/pid_for_children" },
	{ ROOT, "(root)" },
};

START_TEST(one_thing_less)
{
	struct cbx_err err = { 0 };
	pid_t pid, inside = 0;

	ck_assert_int_lt(verify(lacks[_i].lack, &pid, &inside, &err), 0);
	ck_assert_msg(strstr(err.msg, lacks[_i].why) != NULL, "\"%s\" does not say \"%s\"", err.msg, lacks[_i].why);
}
END_TEST

/* A zygote with as many filters as the interpreter: it has loaded none of its own. */
START_TEST(the_zygotes_filter)
{
	struct cbx_lockdown want = { 0 };
	struct cbx_err err = { 0 };
	pid_t pid, inside;

	user_namespace();
	pid = make(NOTHING, false);
	ck_assert_int_lt(cbx_verify_interpreter(pid, pid, pid, &want, &inside, &err), 0);
	ck_assert(strstr(err.msg, "system call filter") != NULL);
}
END_TEST

START_TEST(one_that_has_ended)
{
	struct cbx_lockdown want = { 0 };
	struct cbx_err err = { 0 };
	pid_t pid = make(NOTHING, true), inside;

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert_int_lt(cbx_verify_interpreter(pid, getpid(), getpid(), &want, &inside, &err), 0);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_loop_test(t, as_it_should_be, 0, 2);
	tcase_add_loop_test(t, one_thing_less, 0, (int)ARRAY_SIZE(lacks));
	tcase_add_test(t, the_zygotes_filter);
	tcase_add_test(t, one_that_has_ended);
}

TEST_MAIN("verify", add)
