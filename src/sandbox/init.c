/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: pid 1 of a sandbox. It starts processes for codeboxd, reaps everything, reports how what it
 * started has ended, delivers signals, and reads and writes the session's files. It is executed by sandbox/enter.c with
 * no capabilities, under the same system call filter as all that runs here.
 *
 * It is one loop over three descriptors, without any allocation: 3 is the socket to codeboxd, one is a signalfd for
 * SIGCHLD, and one a socket by which processes of the session ask for something (init-ask.c). How processes are
 * started: init-start.c, and init-terminal.c for those with a terminal. When the socket is closed, it ends; the kernel
 * then kills every process of the namespace.
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
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/init-ask.h"
#include "sandbox/init-kill.h"
#include "sandbox/init-start.h"

#define SOCK CBX_INIT_SOCKET

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

/* ---- ending processes ---- */

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct cbx_init_header h = { .type = CBX_INIT_EXITED, .value = status, .arg = (uint64_t)pid };

		if (cbx_init_ended(pid))
			answer(&h, NULL);
	}
}

static int64_t send_signal(const struct cbx_init_header *h)
{
	pid_t pid = (pid_t)h->arg;

	if (h->arg < 2 || h->arg > INT32_MAX || h->value < 1 || h->value >= NSIG)
		return -EINVAL;
	/* The group may have gone on without its leader. */
	if (h->value == SIGKILL)
		cbx_init_kill_session(pid);
	if (kill(-pid, (int)h->value) < 0 && kill(pid, (int)h->value) < 0)
		return -errno;
	return 0;
}

/* ---- requests ---- */

static void handle(struct cbx_init_header *h, char *data, const int *fds, size_t nfds)
{
	static char out[CBX_INIT_MAX];
	struct cbx_init_header a = { .type = h->type, .id = h->id };
	enum cbx_init_step step = CBX_INIT_STEP_EXEC;

	switch (h->type) {
	case CBX_INIT_SPAWN:
		a.value = cbx_init_spawn(h, data, fds, nfds, &step);
		a.arg = step;
		break;
	case CBX_INIT_GO:
		a.value = cbx_init_go(h->arg, &step);
		a.arg = step;
		break;
	case CBX_INIT_RESIZE:
		a.value = cbx_init_resize(h->arg, h->value);
		break;
	case CBX_INIT_KILL:
		a.value = cbx_init_kill_tree(h->arg, h->value);
		break;
	case CBX_INIT_TELL:
		a.value = cbx_init_tell(h, data);
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
		char bytes[CMSG_SPACE(sizeof(int) * CBX_INTERPRETER_FDS)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { in, CBX_INIT_MAX };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	struct cbx_init_header h;
	int fds[CBX_INTERPRETER_FDS];
	size_t nfds = 0;
	ssize_t n = recvmsg(SOCK, &msg, MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < (ssize_t)sizeof(h))
		_exit(0); /* closed, or not our protocol: no client to work for */
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

static void ask(void)
{
	struct cbx_init_header h;
	const char *text;

	if (cbx_init_ask_come(&h, &text))
		answer(&h, text);
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
	(void)cbx_init_ask_open(); /* without it nobody asks */
	answer(&ready, NULL);
	for (;;) {
		struct pollfd p[2 + CBX_INIT_ASKS] = { { SOCK, POLLIN, 0 }, { sigfd, POLLIN, 0 } };

		cbx_init_ask_wait(p + 2);
		if (poll(p, 2 + CBX_INIT_ASKS, -1) < 0 && errno != EINTR)
			return 1;
		if (p[1].revents) {
			if (read(sigfd, &info, sizeof(info)) < 0 && errno != EAGAIN)
				return 1;
			reap();
		}
		if (p[2].revents || p[3].revents)
			ask();
		if (p[0].revents)
			receive();
	}
}
