/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: pid 1 of a sandbox. It starts processes for codeboxd, reaps everything, reports how what it
 * started has ended, delivers signals, and reads and writes the session's files. It is executed by sandbox/enter.c with
 * no capabilities, under the same system call filter as all that runs here.
 *
 * It is one loop over two descriptors, without any allocation: 3 is the socket to codeboxd, the other a signalfd for
 * SIGCHLD. When the socket is closed, it ends; the kernel then kills every process of the namespace.
 *
 * Processes of the session have its uid. They cannot kill it (pid 1 of a namespace is immune to its own), and cannot
 * look into it, since it is not dumpable.
 */
#include "sandbox/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOCK 3
#define STARTED_MAX 64

static const char workspace[] = "/workspace";

static void answer(struct cbx_init_header *h, const char *data)
{
	struct iovec iov[2] = { { h, sizeof(*h) }, { (void *)data, h->len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = h->len ? 2 : 1 };
	ssize_t n;

	do {
		n = sendmsg(SOCK, &msg, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		_exit(0); /* codeboxd has gone */
}

/* ---- starting processes ---- */

/* In the forked child. Returns only on failure, with errno set. */
static void run(char **argv, char **envp, const int *fds, size_t nfds)
{
	int high[4];
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (setsid() < 0 || chdir(workspace) < 0)
		return;
	umask(022);
	/* First out of the way, then into place: a source may be a target. */
	for (size_t i = 0; i < nfds; i++)
		if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 64)) < 0)
			return;
	for (size_t i = 0; i < nfds; i++)
		if (dup2(high[i], (int)i) < 0)
			return;
	/* What is left, the pipe that reports an error included, is close-on-exec. */
	if (nfds == 3 && fcntl(SOCK, F_SETFD, FD_CLOEXEC) < 0)
		return;
	if (strchr(argv[0], '/'))
		execve(argv[0], argv, envp);
	else
		execvpe(argv[0], argv, envp);
}

static int64_t spawn(const struct cbx_init_header *h, char *data, const int *fds, size_t nfds)
{
	char *argv[CBX_INIT_WORDS_MAX], *envp[CBX_INIT_WORDS_MAX], *p = data;
	int report[2], code = 0;
	pid_t pid;

	if (nfds < 3 || nfds > 4 || cbx_init_split(&p, data + h->len, argv) < 1 ||
	    cbx_init_split(&p, data + h->len, envp) < 0)
		return -EINVAL;
	if (pipe2(report, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		int up = fcntl(report[1], F_DUPFD_CLOEXEC, 128);

		run(argv, envp, fds, nfds);
		code = errno;
		if (write(up, &code, sizeof(code)) < 0)
			_exit(126);
		_exit(127);
	}
	code = pid < 0 ? errno : 0;
	close(report[1]);
	/* End of file: the exec has closed the pipe. */
	if (pid > 0 && read(report[0], &code, sizeof(code)) != (ssize_t)sizeof(code))
		code = 0;
	close(report[0]);
	if (code && pid > 0)
		waitpid(pid, NULL, 0);
	return code ? -code : pid;
}

/* ---- ending them ---- */

/* Pids that codeboxd was told of and has not been told the end of. */
static pid_t started[STARTED_MAX];

static int remember(pid_t pid)
{
	for (int i = 0; i < STARTED_MAX; i++)
		if (!started[i]) {
			started[i] = pid;
			return 0;
		}
	return -1;
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < STARTED_MAX; i++)
			if (started[i] == pid) {
				struct cbx_init_header h = { .type = CBX_INIT_EXITED, .value = status,
							     .arg = (uint64_t)pid };

				started[i] = 0;
				answer(&h, NULL);
			}
}

static void kill_session(pid_t leader)
{
	char buf[8192];
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	if (proc < 0)
		return;
	while ((n = syscall(SYS_getdents64, proc, buf, sizeof(buf))) > 0)
		for (long at = 0; at < n;) {
			struct {
				uint64_t ino;
				int64_t off;
				unsigned short len;
				unsigned char type;
				char name[];
			} *d = (void *)(buf + at);
			pid_t pid = (pid_t)strtol(d->name, NULL, 10);

			if (pid > 1 && getsid(pid) == leader)
				kill(pid, SIGKILL);
			at += d->len;
		}
	close(proc);
}

static int64_t send_signal(const struct cbx_init_header *h)
{
	pid_t pid = (pid_t)h->arg;

	if (h->arg < 2 || h->arg > INT32_MAX || h->value < 1 || h->value >= NSIG)
		return -EINVAL;
	/* The group may have gone on without its leader. */
	if (h->value == SIGKILL)
		kill_session(pid);
	if (kill(-pid, (int)h->value) < 0 && kill(pid, (int)h->value) < 0)
		return -errno;
	return 0;
}

/* ---- requests ---- */

static void handle(struct cbx_init_header *h, char *data, const int *fds, size_t nfds)
{
	static char out[CBX_INIT_MAX];
	struct cbx_init_header a = { .type = h->type, .id = h->id };

	switch (h->type) {
	case CBX_INIT_SPAWN:
		a.value = spawn(h, data, fds, nfds);
		if (a.value > 0 && remember((pid_t)a.value) < 0) {
			kill((pid_t)a.value, SIGKILL);
			a.value = -EAGAIN;
		}
		break;
	case CBX_INIT_SIGNAL:
		a.value = send_signal(h);
		break;
	default:
		cbx_init_file(h, data, &a, out);
		break;
	}
	answer(&a, out);
}

static void receive(void)
{
	static char in[CBX_INIT_MAX + 1];
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 4)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { in, CBX_INIT_MAX };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	struct cbx_init_header h;
	int fds[4];
	size_t nfds = 0;
	ssize_t n = recvmsg(SOCK, &msg, MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < (ssize_t)sizeof(h))
		_exit(0); /* closed, or not our protocol: nobody to work for */
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			nfds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			memcpy(fds, CMSG_DATA(c), nfds * sizeof(int));
		}
	memcpy(&h, in, sizeof(h));
	if (h.len != (size_t)n - sizeof(h) || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		_exit(1);
	in[n] = '\0';
	handle(&h, in + sizeof(h), fds, nfds);
	for (size_t i = 0; i < nfds; i++)
		close(fds[i]);
}

int main(void)
{
	struct cbx_init_header ready = { .type = CBX_INIT_READY };
	struct signalfd_siginfo info;
	sigset_t mask;
	int sigfd;

	if (getpid() != 1 || prctl(PR_SET_DUMPABLE, 0) < 0 || fcntl(SOCK, F_SETFD, FD_CLOEXEC) < 0)
		return 1;
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigfd = sigprocmask(SIG_BLOCK, &mask, NULL) < 0 ? -1 : signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sigfd < 0)
		return 1;
	answer(&ready, NULL);
	for (;;) {
		struct pollfd p[2] = { { SOCK, POLLIN, 0 }, { sigfd, POLLIN, 0 } };

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return 1;
		if (p[1].revents) {
			if (read(sigfd, &info, sizeof(info)) < 0 && errno != EAGAIN)
				return 1;
			reap();
		}
		if (p[0].revents)
			receive();
	}
}
