/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/handed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

int cbx_handed_to_oom(struct cbx_err *err)
{
	_cleanup_fd_ int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, "1000", 4) != 4 ? cbx_fail(err, errno, "set oom_score_adj") : 0;
}

int cbx_handed_send(int report, int shm, struct cbx_err *err)
{
	/* A kernel without sock_diag has none; then sockets are counted with what they may hold. */
	_cleanup_fd_ int sockets =
		socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	int fds[2] = { shm, sockets };
	int r = cbx_send_fds(report, "w", 1, fds, sockets < 0 ? 1 : 2);

	return r < 0 ? cbx_fail(err, -r, "hand over what shows the sandbox's memory") : 0;
}

void cbx_handed_release(struct cbx_handed *h)
{
	cbx_close_p(&h->landlock);
	cbx_close_p(&h->shm);
	cbx_close_p(&h->sockets);
}

int cbx_sandbox_report(int report, struct cbx_handed *handed, struct cbx_err *err)
{
	struct cbx_err got;
	int fds[CBX_FDS_MAX];
	size_t nfds = 0;
	ssize_t n = cbx_recv_fds(report, &got, sizeof(got), fds, &nfds);

	if (n == -ECONNRESET) /* it has not read all that it was sent; its message is behind that news */
		n = cbx_recv_fds(report, &got, sizeof(got), fds, &nfds);
	if (n == 1 && nfds == 1 && *(char *)&got == 'r' && handed->landlock < 0) {
		handed->landlock = fds[0];
		return 1;
	}
	if (n == 1 && (nfds == 1 || nfds == 2) && *(char *)&got == 'w' && handed->shm < 0) {
		handed->shm = fds[0];
		handed->sockets = nfds == 2 ? fds[1] : -1;
		return 1;
	}
	for (size_t i = 0; n > 0 && i < nfds; i++)
		close(fds[i]);
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(got))
		return cbx_refuse(err, "sandbox", EIO, "the sandbox died while it was set up");
	cbx_err_sanitize(&got);
	*err = got;
	return cbx_wrap(err, "set up the sandbox");
}
