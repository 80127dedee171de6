/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: two forks and a new session part the daemon from its starter, so that neither a terminal's
 * hang-up nor a client killing its process group reaches it. The last process arranges its descriptors (standard input
 * from /dev/null, output to the log, the sockets at 3 and 4) and executes codeboxd. A close-on-exec pipe tells the
 * starter how that went: end of file is success, an errno is a failure.
 *
 * Where systemd manages this user's processes, the daemon is put into a scope of its own by systemd-run, which
 * registers itself as a scope and then executes its command in the same process. Desktops end an application by ending
 * its scope; and a scope can have a control group delegated. systemd-run says nothing on success, so its command is a
 * one-line shell that writes a byte into a second pipe and becomes codeboxd. When that byte does not come in time, or
 * systemd-run ends, codeboxd is executed without a scope: it works, with less.
 */
#include "client/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/syscalls.h"
#include "policy/policy.h"

#define SCOPE_TIMEOUT_MS 10000 /* a machine that is only busy gets its scope */

enum { FD_CONTROL = 3, FD_MCP = 4, FD_NOTE = 5, FD_REPORT = 6 };

char *cbx_daemon_log_path(const struct cbx_dirs *dirs)
{
	return cbx_xasprintf("%s/codeboxd.log", dirs->state);
}

static const char *daemon_path(void)
{
	const char *v = getenv("CODEBOX_DAEMON");

	return v && v[0] == '/' ? v : CBX_SBIN_DIR "/codeboxd";
}

/* The log file, rotated when it has grown; -1 where there can be none. */
static int open_log(const struct cbx_dirs *dirs, off_t *ret_size, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_daemon_log_path(dirs);
	_cleanup_free_ char *old = cbx_xasprintf("%s.1", path);
	struct stat st;
	int fd;

	*ret_size = 0;
	if (cbx_dirs_make_private(dirs->state, 0700, err) < 0)
		return -1;
	if (lstat(path, &st) == 0 && (uint64_t)st.st_size > CBX_LOG_FILE_MAX)
		(void)rename(path, old);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0) {
		cbx_fail(err, errno, "open %s", path);
		return -1;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		cbx_refuse(err, "unsafe_file", EINVAL, "%s is not a regular file; remove it", path);
		close(fd);
		return -1;
	}
	*ret_size = st.st_size;
	return fd;
}

/* systemd's manager of this user's processes; fills `runtime` with its run-time directory. */
static bool have_manager(char *runtime, size_t size)
{
	static const char *const sockets[] = { "systemd/private", "bus" };
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	char path[256];

	if (geteuid() == 0)
		return access("/run/systemd/private", F_OK) == 0;
	if (xdg && xdg[0] == '/')
		snprintf(runtime, size, "%s", xdg);
	else
		snprintf(runtime, size, "/run/user/%u", (unsigned)geteuid());
	/* A bus alone may belong to no systemd at all. */
	snprintf(path, sizeof(path), "%s/systemd", runtime);
	if (access(path, F_OK) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		snprintf(path, sizeof(path), "%s/%s", runtime, sockets[i]);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

static void set_listen_pid(void)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_PID", pid, 1);
}

/* Becomes systemd-run; returns only when that could not be executed. */
static void exec_scope(const char *runtime)
{
	static const char script[] = "echo >&5 && exec 5>&- && exec \"$0\"";
	const char *argv[16];
	size_t n = 0;
	char bus[256];

	argv[n++] = "systemd-run";
	if (geteuid() != 0) {
		argv[n++] = "--user";
		setenv("XDG_RUNTIME_DIR", runtime, 0);
		snprintf(bus, sizeof(bus), "unix:path=%s/bus", runtime);
		setenv("DBUS_SESSION_BUS_ADDRESS", bus, 0);
	}
	argv[n++] = "--scope";
	argv[n++] = "--quiet";
	argv[n++] = "--collect";
	argv[n++] = "--description=codeboxd, sandboxes for code";
	argv[n++] = "-p";
	argv[n++] = "Delegate=yes";
	argv[n++] = "--";
	argv[n++] = "/bin/sh";
	argv[n++] = "-c";
	argv[n++] = script;
	argv[n++] = daemon_path();
	argv[n] = NULL;
	set_listen_pid();
	execvp(argv[0], (char *const *)argv);
	execv("/usr/bin/systemd-run", (char *const *)argv);
}

/* True when codeboxd runs in a scope. */
static bool launch_in_scope(void)
{
	struct pollfd p = { .events = POLLIN };
	char runtime[200], byte;
	bool up = false;
	int note[2];
	pid_t pid;

	if (!have_manager(runtime, sizeof(runtime)) || pipe2(note, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0) {
		/* Anything but the note and the sockets is close-on-exec. */
		if (dup2(note[1], FD_NOTE) == FD_NOTE && cbx_set_cloexec(FD_NOTE, 0) == 0)
			exec_scope(runtime);
		_exit(127);
	}
	close(note[1]);
	p.fd = note[0];
	if (pid > 0 && poll(&p, 1, SCOPE_TIMEOUT_MS) == 1)
		up = read(note[0], &byte, 1) == 1;
	close(note[0]);
	if (pid > 0 && !up) {
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return up;
}

static void default_signals(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		(void)sigaction(s, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Descriptors first go out of the way of the numbers that they are to have. */
static int arrange_fds(const int fds[2], int log, int report)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), r;
	const int from[5] = { null, log >= 0 ? log : null, fds[0], fds[1], report };
	static const int to[5] = { 0, 1, FD_CONTROL, FD_MCP, FD_REPORT };

	r = cbx_place_fds(from, to, ARRAY_SIZE(from));
	if (r < 0)
		return r;
	if (dup2(1, 2) < 0 || cbx_set_cloexec(FD_REPORT, 1) < 0)
		return -errno;
	close(FD_NOTE);
	cbx_close_range(FD_REPORT + 1, ~0u, 0);
	return 0;
}

/* A policy that is named by a path from here is to be found from "/", too. One that is not there is for codeboxd to
 * say. */
static void keep_policy(void)
{
	const char *policy = getenv("CODEBOX_POLICY");
	_cleanup_free_ char *real = policy && cbx_policy_is_path(policy) ? realpath(policy, NULL) : NULL;

	if (real)
		setenv("CODEBOX_POLICY", real, 1);
}

/* In the last child: becomes codeboxd, or leaves an errno in the report pipe. */
static void become_daemon(const struct cbx_dirs *dirs, const int fds[2], int log, int report)
{
	int code = -arrange_fds(fds, log, report);

	if (code == 0) {
		default_signals();
		umask(077);
		setenv("LISTEN_FDS", "2", 1);
		setenv("LISTEN_FDNAMES", "control:mcp", 1);
		setenv("CODEBOX_RUNTIME_DIR", dirs->runtime, 1); /* where these sockets are, whatever it would choose */
		keep_policy();
		report = FD_REPORT;
		if (chdir("/") < 0 || launch_in_scope())
			_exit(0);
		set_listen_pid();
		execl(daemon_path(), "codeboxd", (char *)NULL);
		code = errno;
	}
	(void)cbx_write_all(report, &code, sizeof(code));
	_exit(127);
}

int cbx_daemon_launch(const struct cbx_dirs *dirs, const int fds[2], off_t *ret_log_from,
		      struct cbx_err *ret_log, struct cbx_err *err)
{
	_cleanup_fd_ int log = -1, in = -1, out = -1;
	int report[2], code = 0, status;
	pid_t pid;

	log = open_log(dirs, ret_log_from, ret_log);
	if (pipe2(report, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe");
	in = report[0];
	out = report[1];
	pid = fork();
	if (pid < 0)
		return cbx_fail(err, errno, "start codeboxd");
	if (pid == 0) {
		setsid();
		pid = fork();
		if (pid == 0)
			become_daemon(dirs, fds, log, out);
		code = errno;
		if (pid < 0)
			(void)cbx_write_all(out, &code, sizeof(code));
		_exit(0);
	}
	close(take_fd(&out));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (cbx_read_full(in, &code, sizeof(code)) == (ssize_t)sizeof(code))
		return cbx_fail(err, code, "start codeboxd: execute %s", daemon_path());
	return 0;
}
