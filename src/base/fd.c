/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

#define CHUNK 16384

int cbx_write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n) {
		ssize_t w = write(fd, at, n);

		if (w < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		at += w;
		n -= (size_t)w;
	}
	return 0;
}

ssize_t cbx_read_full(int fd, void *p, size_t n)
{
	char *at = p;
	size_t got = 0;

	while (got < n) {
		ssize_t r = read(fd, at + got, n - got);

		if (r < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

int cbx_read_whole(int fd, size_t max, struct cbx_buf *out)
{
	size_t from = out->len;
	ssize_t n;

	do {
		n = cbx_read_full(fd, cbx_buf_reserve(out, CHUNK), CHUNK);
		if (n < 0)
			return (int)n;
		out->len += (size_t)n;
		out->data[out->len] = '\0';
		if (out->len - from > max)
			return -EFBIG;
	} while (n == CHUNK);
	return 0;
}

ssize_t cbx_read_small(int dir, const char *path, char *out, size_t size)
{
	_cleanup_fd_ int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

	if (n < 0)
		return -errno;
	out[n] = '\0';
	return n;
}

ssize_t cbx_read_line(int dir, const char *path, char *out, size_t size)
{
	ssize_t n = cbx_read_small(dir, path, out, size);

	while (n > 0 && out[n - 1] == '\n')
		out[--n] = '\0';
	return n;
}

int cbx_set_nonblock(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

int cbx_set_cloexec(int fd, int on)
{
	return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0 ? -errno : 0;
}

int cbx_send_fds(int sock, const void *p, size_t n, const int *fds, size_t nfds)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * CBX_FDS_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = (void *)p, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t r;

	if (nfds > CBX_FDS_MAX)
		return -EINVAL;
	if (nfds) {
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
	}
	do {
		r = sendmsg(sock, &msg, MSG_NOSIGNAL);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return (size_t)r == n ? 0 : -EMSGSIZE;
}

ssize_t cbx_recv_fds(int sock, void *p, size_t cap, int *ret_fds, size_t *ret_nfds)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * CBX_FDS_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = p, .iov_len = cap };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	size_t nfds = 0;
	ssize_t r;

	*ret_nfds = 0;
	msg.msg_control = control.bytes;
	msg.msg_controllen = sizeof(control.bytes);
	do {
		r = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		nfds = bytes / sizeof(int);
		memcpy(ret_fds, CMSG_DATA(c), nfds * sizeof(int));
	}
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		for (size_t i = 0; i < nfds; i++)
			close(ret_fds[i]);
		return -EBADMSG;
	}
	*ret_nfds = nfds;
	return r;
}

ssize_t cbx_recv_plain(int sock, void *p, size_t cap)
{
	struct iovec iov = { .iov_base = p, .iov_len = cap };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t r;

	do {
		r = recvmsg(sock, &msg, 0);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return -EBADMSG;
	return r;
}
