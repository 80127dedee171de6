/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_FD_H
#define CBX_BASE_FD_H

/*
 * Descriptors: whole reads and writes, flags, and passing over unix sockets.
 *
 * Every descriptor that this project opens is close-on-exec. Functions here retry EINTR and return -errno.
 */
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/place.h"

int cbx_read_whole(int fd, size_t max, struct cbx_buf *out); /* append all of it: 0, or -errno; -EFBIG: it is longer */
int cbx_write_all(int fd, const void *p, size_t n);       /* 0, or -errno; a short write is retried */
ssize_t cbx_read_full(int fd, void *p, size_t n);         /* bytes read; fewer than n only at end of file */

/*
 * A small file of the kernel's (/proc, /sys, a control group's): what one read gives, a page at least, of which at most
 * size - 1 bytes are taken. There is a NUL behind them. Returns their number, or -errno.
 */
ssize_t cbx_read_small(int dir, const char *path, char *out, size_t size);
ssize_t cbx_read_line(int dir, const char *path, char *out, size_t size); /* without newlines at its end */

int cbx_set_nonblock(int fd, int on);
int cbx_set_cloexec(int fd, int on);

/* One datagram on a SOCK_SEQPACKET socket, with up to CBX_FDS_MAX descriptors. 0, or -errno (-EAGAIN when full). */
int cbx_send_fds(int sock, const void *p, size_t n, const int *fds, size_t nfds);

/*
 * Receive one datagram. *ret_nfds descriptors (close-on-exec, owned by the caller) are put in ret_fds, which has
 * room for CBX_FDS_MAX. Returns its length; 0 at end of file; -EBADMSG when the datagram or its control data was cut
 * off (descriptors received are then closed).
 */
ssize_t cbx_recv_fds(int sock, void *p, size_t cap, int *ret_fds, size_t *ret_nfds);

/*
 * Receive one datagram from a peer that must never send descriptors (anything in a sandbox): no control buffer is
 * offered, so the kernel installs none. Returns its length; 0 at end of file; -EBADMSG when it was cut off or
 * descriptors were attached.
 */
ssize_t cbx_recv_plain(int sock, void *p, size_t cap);

#endif
