/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy's side of codebox-tls: its start, and connections handed to it. */
#include "proxy/within.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/syscalls.h"
#include "proxy/tls-protocol.h"

static _Noreturn void become(int program, int sock, const char *role, int lists)
{
	char *argv[] = { (char *)"codebox-tls", (char *)role, (char *)"/proc/self/fd/5", NULL }, *none[] = { NULL };
	const int from[] = { sock, program, lists }, to[] = { 3, 4, 5 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (cbx_place_fds(from, to, 3) < 0 || cbx_set_cloexec(4, 1) < 0)
		_exit(127);
	cbx_close_range(6, ~0u, 0);
	syscall(SYS_execveat, 4, "", argv, none, AT_EMPTY_PATH);
	_exit(127);
}

int within_start(int program, const char *role, int lists, struct cbx_buf *hello, struct cbx_err *err)
{
	_cleanup_fd_ int ours = -1, theirs = -1;
	int pair[2];
	ssize_t n;
	pid_t pid;

	if (program < 0)
		return cbx_refuse(err, "network", ENOENT, "codebox-tls is not installed; secrets need it");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make the socket to codebox-tls");
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid == 0)
		become(program, theirs, role, lists);
	cbx_close_p(&theirs);
	n = pid < 0 ? -1 : recv(ours, cbx_buf_reserve(hello, CBX_TLS_PEM_MAX), CBX_TLS_PEM_MAX, 0);
	if (n <= 0)
		return cbx_refuse(err, "network", EIO, "codebox-tls, which secrets need, did not start");
	hello->len += (size_t)n;
	cbx_set_nonblock(ours, 1);
	return take_fd(&ours);
}

int within_hand(int sock, const char *host, int fd, const struct cbx_buf *first)
{
	_cleanup_buf_ struct cbx_buf m = { 0 };
	struct cbx_tls_request q = { .len = first ? (uint32_t)first->len : 0 };
	_cleanup_fd_ int theirs = -1, ours = -1;
	int pair[2], r;

	if (q.len > CBX_TLS_FIRST_MAX || sock < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -EIO;
	ours = pair[0];
	theirs = pair[1];
	snprintf(q.host, sizeof(q.host), "%s", host);
	cbx_buf_add(&m, &q, sizeof(q));
	if (q.len)
		cbx_buf_add(&m, first->data, first->len);
	r = cbx_send_fds(sock, m.data, m.len, (int[]){ fd, theirs }, 2);
	return r < 0 ? r : take_fd(&ours);
}

int within_status(const char *p, size_t n, char why[256])
{
	size_t len = n ? (unsigned char)p[0] : 0;

	if (!n || n < 1 + len)
		return 0;
	if (!len)
		return 1;
	memcpy(why, p + 1, len);
	why[len] = '\0';
	for (char *c = why; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return -1;
}

bool within_is_tls(const struct cbx_buf *in)
{
	return in->len && in->data[0] == 22;
}
