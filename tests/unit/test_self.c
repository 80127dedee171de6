/* SPDX-License-Identifier: Apache-2.0 */
/* What codebox's own processes may do once they have confined themselves. Each thing is tried in a child that is confined
 * and in one that is not: what fails in both proves nothing, and fails the test. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandbox/self.h"
#include "sandbox/worker.h"

static char dir[] = "/tmp/cbxselfXXXXXX";
static int listening; /* TCP, on the loopback address */

/* ---- things to try: 0, or an errno ---- */

static int result(long r)
{
	return r < 0 ? errno : 0;
}

static int try_exec(void)
{
	char name[] = "true", *argv[] = { name, NULL };

	execv("/bin/true", argv);
	return errno;
}

static int try_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return result(pid);
}

static int try_ptrace(void)
{
	return result(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int try_inet(void)
{
	return result(socket(AF_INET, SOCK_STREAM, 0));
}

static int try_netlink(void)
{
	return result(socket(AF_NETLINK, SOCK_RAW, 0));
}

static int try_unix(void)
{
	return result(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int try_kill(void)
{
	return result(kill(getppid(), 0));
}

static int try_memory_of_another(void)
{
	char c, *at = dir;
	long r = syscall(SYS_process_vm_readv, getpid(), &(struct { void *p; size_t n; }){ &c, 1 }, 1,
			 &(struct { void *p; size_t n; }){ at, 1 }, 1, 0);

	return result(r);
}

static int try_namespace(void)
{
	return result(unshare(CLONE_NEWUSER));
}

static int try_keys(void)
{
	return result(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL));
}

static int try_passwd(void)
{
	return result(open("/etc/passwd", O_RDONLY));
}

static int try_tmp(void)
{
	return result(open("/tmp", O_RDONLY | O_TMPFILE | O_RDWR, 0600));
}

static int try_allowed_read(void)
{
	return result(openat(AT_FDCWD, "/dev/null", O_RDONLY));
}

static int try_allowed_write(void)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s/new", dir) < 0)
		return ENOMEM;
	return result(open(path, O_CREAT | O_WRONLY, 0600)) ?: result(unlink(path));
}

static int try_write_where_reading_is_allowed(void)
{
	return result(open("/dev/null", O_WRONLY));
}

static int try_connect(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		return errno;
	getsockname(listening, (struct sockaddr *)&a, &n);
	return result(connect(fd, (struct sockaddr *)&a, n));
}

static int try_core(void)
{
	struct rlimit rl;

	return getrlimit(RLIMIT_CORE, &rl) < 0 ? errno : rl.rlim_max == 0 ? EPERM : 0;
}

/* ---- in a child ---- */

enum how { FREE, FILTER, LANDLOCK, KEEPER, FETCHER };

/* As codebox-store, which keeps artifacts in one directory; or codebox-upload and codebox-pull, which read the network.
 */
static int become_worker(enum how how, struct cbx_err *err)
{
	_cleanup_fd_ int fd = how == KEEPER ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	const struct cbx_worker w = { .dir = fd,
				      .network = how == FETCHER,
				      .file_bytes = CBX_WORKER_ANY,
				      .descriptors = 64,
				      .memory_bytes = CBX_WORKER_ANY,
				      .cpu_s = CBX_WORKER_ANY };
	struct cbx_filter filter = { 0 };
	int r = cbx_filter_compile(SYSCALLS_DIR, how == KEEPER ? "artifacts" : "registry", &filter, err);

	return r < 0 ? r : cbx_worker_confine(&w, &filter, err);
}

static int in_child(int (*fn)(void), enum how how)
{
	const struct cbx_self_path paths[] = { { dir, true }, { "/dev/null", false }, { "/nonexistent", true } };
	struct cbx_filter filter = { 0 };
	struct cbx_err err = { 0 };
	int status;
	pid_t pid = fork();

	ck_assert(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (how == FILTER && (cbx_filter_compile(SYSCALLS_DIR, "codeboxd", &filter, &err) < 0 ||
				      cbx_self_filter(&filter, &err) < 0))
			_exit(250);
		if (how == LANDLOCK) {
			if (cbx_self_landlock(paths, ARRAY_SIZE(paths), &err) <= 0)
				_exit(251);
		}
		if ((how == KEEPER || how == FETCHER) && become_worker(how, &err) < 0)
			_exit(252);
		_exit(fn());
	}
	ck_assert(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + status;
}

static const struct {
	const char *name;
	int (*fn)(void);
} filtered[] = {
	{ "exec", try_exec },	      { "fork", try_fork },
	{ "ptrace", try_ptrace },     { "AF_INET", try_inet },
	{ "AF_NETLINK", try_netlink }, { "AF_UNIX", try_unix },
	{ "kill", try_kill },	      { "process_vm_readv", try_memory_of_another },
	{ "unshare", try_namespace }, { "keyctl", try_keys },
};

START_TEST(the_filter_refuses)
{
	int r;

	ck_assert_msg(in_child(filtered[_i].fn, FREE) == 0, "%s fails anyway", filtered[_i].name);
	r = in_child(filtered[_i].fn, FILTER);
	/* fork is clone in C libraries that have no other way; clone3 answers ENOSYS */
	ck_assert_msg(r == EPERM || r == ENOSYS, "%s: %d", filtered[_i].name, r);
}
END_TEST

START_TEST(the_filter_lets_files_be_used)
{
	ck_assert_int_eq(in_child(try_allowed_read, FILTER), 0);
	ck_assert_int_eq(in_child(try_allowed_write, FILTER), 0);
}
END_TEST

static const struct {
	const char *name;
	int (*fn)(void);
	int expected;
	int since; /* version of Landlock's interface */
} landlocked[] = {
	{ "open /etc/passwd", try_passwd, EACCES, 1 },
	{ "make a file in /tmp", try_tmp, EACCES, 1 },
	{ "exec", try_exec, EACCES, 1 },
	{ "write where reading is allowed", try_write_where_reading_is_allowed, EACCES, 1 },
	{ "read where reading is allowed", try_allowed_read, 0, 1 },
	{ "make a file where that is allowed", try_allowed_write, 0, 1 },
	{ "connect", try_connect, EACCES, 4 },
};

START_TEST(landlock_refuses)
{
	int r;

	ck_assert_msg(in_child(landlocked[_i].fn, FREE) == 0, "%s fails anyway", landlocked[_i].name);
	r = in_child(landlocked[_i].fn, LANDLOCK);
	ck_assert_msg(r == landlocked[_i].expected, "%s: %d", landlocked[_i].name, r);
}
END_TEST

static const struct {
	const char *name;
	int (*fn)(void);
	enum how how;
	bool by_landlock; /* else by the filter, or a limit */
	bool may;
} workers[] = {
	{ "keeper: read another file", try_passwd, KEEPER, true, false },
	{ "keeper: make a file in another directory", try_tmp, KEEPER, true, false },
	{ "keeper: make a file in its own", try_allowed_write, KEEPER, true, true },
	{ "keeper: exec", try_exec, KEEPER, false, false },
	{ "keeper: AF_INET", try_inet, KEEPER, false, false },
	{ "keeper: AF_UNIX", try_unix, KEEPER, false, false },
	{ "keeper: ptrace", try_ptrace, KEEPER, false, false },
	{ "keeper: kill", try_kill, KEEPER, false, false },
	{ "fetcher: read what names are looked up in", try_passwd, FETCHER, true, true },
	{ "fetcher: make a file", try_allowed_write, FETCHER, true, false },
	{ "fetcher: make a file without a name", try_tmp, FETCHER, true, false },
	{ "fetcher: connect", try_connect, FETCHER, true, true },
	{ "fetcher: exec", try_exec, FETCHER, false, false },
	{ "fetcher: fork", try_fork, FETCHER, false, false },
	{ "fetcher: AF_NETLINK", try_netlink, FETCHER, false, false },
	{ "fetcher: ptrace", try_ptrace, FETCHER, false, false },
	{ "fetcher: leave a core", try_core, FETCHER, false, false },
};

START_TEST(workers_have_what_their_job_needs)
{
	int r;

	if (CBX_SANITIZED && !workers[_i].by_landlock) /* their libraries call what no filter allows: there is none */
		return;
	ck_assert_msg(workers[_i].fn == try_core || in_child(workers[_i].fn, FREE) == 0, "%s fails anyway",
		      workers[_i].name);
	r = in_child(workers[_i].fn, workers[_i].how);
	if (workers[_i].may)
		ck_assert_msg(r == 0, "%s: %d", workers[_i].name, r);
	else if (workers[_i].by_landlock)
		ck_assert_msg(r == EACCES, "%s: %d", workers[_i].name, r);
	else
		ck_assert_msg(r == EPERM || r == ENOSYS || r == EAFNOSUPPORT, "%s: %d", workers[_i].name, r);
}
END_TEST

START_TEST(a_bad_list_is_refused)
{
	struct cbx_filter filter = { 0 };
	struct cbx_err err = { 0 };

	ck_assert_int_eq(cbx_filter_compile(SYSCALLS_DIR, "no-such-list", &filter, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "no-such-list"));
}
END_TEST

int main(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	Suite *s = suite_create("self");
	TCase *t = tcase_create("self");
	SRunner *r;
	int failed, here = 0;
	long abi = syscall(444 /* landlock_create_ruleset */, NULL, 0, 1 /* ask for the version */);

	/* What this kernel's Landlock cannot do is not tried; the table is in the order of versions. */
	while (here < (int)ARRAY_SIZE(landlocked) && landlocked[here].since <= abi)
		here++;
	if (!mkdtemp(dir))
		return 99;
	listening = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listening, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listening, 16) < 0)
		return 99;
	tcase_add_loop_test(t, the_filter_refuses, 0, ARRAY_SIZE(filtered));
	tcase_add_test(t, the_filter_lets_files_be_used);
	if (here)
		tcase_add_loop_test(t, landlock_refuses, 0, here);
	if (here)
		tcase_add_loop_test(t, workers_have_what_their_job_needs, 0, ARRAY_SIZE(workers));
	tcase_add_test(t, a_bad_list_is_refused);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_set_tap(r, "-");
	srunner_run_all(r, CK_SILENT);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	rmdir(dir);
	return failed ? 1 : 0;
}
