/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an interpreter is born with the reading end of a pipe that has no writer, so that reading it is
 * at its end at once. The driver puts it aside. For a cell that has standard input the pipe is opened anew, for
 * writing, by our own descriptor of it (/proc/self/fd), and closing that is the end of the input: so there is an end
 * for each cell, and nothing has to be handed into a sandbox later.
 *
 * It is opened for reading, too: what an earlier cell left in it is taken out first. Our first descriptor shares its
 * flags with the interpreter's, and is only ever a name.
 *
 * One piece at a time is written; whoever gives it learns when the pipe has taken it, and then gives the next. So a
 * program that does not read costs one piece.
 */
#include "interp/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/timer.h"

#define NARROW	 4096
#define WIDE	 KIB(256)
#define LEFTOVER KIB(256) /* read at most, of what is left behind; others can write there, too */
#define PIECE	 KIB(16)

struct cbx_feed {
	int fd;
	struct event *out;
	struct cbx_buf pending;
	size_t written; /* bytes of it */
	struct cbx_op *op; /* of whoever gave what is pending; NULL: nobody waits */
};

int cbx_feed_pipe(int *ret_name, int *ret_theirs, struct cbx_err *err)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe for the interpreter");
	close(pair[1]);
	*ret_theirs = pair[0];
	(void)fcntl(pair[0], F_SETPIPE_SZ, NARROW); /* seldom used, and counted for the user */
	*ret_name = fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
	return *ret_name < 0 ? cbx_fail(err, errno, "make a pipe for the interpreter") : 0;
}

static void taken(struct cbx_feed *feed, const struct cbx_err *err)
{
	struct cbx_input_op *op = cbx_op_take(&feed->op);

	if (op)
		op->done(op, err);
}

static void forget(struct cbx_feed *feed)
{
	cbx_buf_release(&feed->pending);
	feed->written = 0;
}

/* 1: nothing is left. */
static int push(struct cbx_feed *feed)
{
	while (feed->written < feed->pending.len) {
		ssize_t n = write(feed->fd, feed->pending.data + feed->written, feed->pending.len - feed->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		feed->written += (size_t)n;
	}
	forget(feed);
	return 1;
}

static void writable(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_feed *feed = arg;
	struct cbx_err err;
	int r = push(feed);

	if (r == 0) {
		event_add(feed->out, NULL);
	} else if (r > 0) {
		taken(feed, NULL);
	} else {
		forget(feed);
		cbx_fail(&err, -r, "write to the program's standard input");
		taken(feed, &err);
	}
}

int cbx_feed_new(int fd, struct event_base *base, struct cbx_feed **ret, struct cbx_err *err)
{
	struct cbx_feed *feed = cbx_xcalloc(1, sizeof(*feed));

	feed->fd = fd;
	feed->out = event_new(base, fd, EV_WRITE, writable, feed);
	*ret = feed;
	if (feed->out)
		return 0;
	cbx_feed_close(ret, NULL);
	return cbx_fail(err, ENOMEM, "watch the program's standard input");
}

int cbx_feed_open(int name, struct event_base *base, struct cbx_feed **ret, struct cbx_err *err)
{
	char path[40], left[PIECE];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", name);
	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return cbx_fail(err, errno, "open the program's standard input");
	for (size_t got = 0; got < LEFTOVER && read(fd, left, sizeof(left)) > 0; got += sizeof(left))
		;
	(void)fcntl(fd, F_SETPIPE_SZ, (int)WIDE);
	return cbx_feed_new(fd, base, ret, err);
}

size_t cbx_feed_close(struct cbx_feed **at, const struct cbx_err *why)
{
	struct cbx_feed *feed = take_ptr(at);
	int unread = 0;

	if (!feed)
		return 0;
	if (ioctl(feed->fd, FIONREAD, &unread) < 0)
		unread = 0;
	(void)fcntl(feed->fd, F_SETPIPE_SZ, (int)NARROW);
	taken(feed, why);
	cbx_event_free_p(&feed->out);
	close(feed->fd);
	cbx_buf_release(&feed->pending);
	free(feed);
	return unread > 0 ? (size_t)unread : 0;
}

static int check_taken(const struct cbx_feed *feed, struct cbx_err *err)
{
	if (feed->pending.len)
		return cbx_refuse(err, "busy", EBUSY,
				  "standard input: the piece before this one has not been taken; wait until it has");
	return 0;
}

int cbx_feed_finish(struct cbx_feed **feed, struct cbx_err *err)
{
	int r = check_taken(*feed, err);

	if (r < 0)
		return r;
	cbx_feed_close(feed, NULL);
	return 1;
}

int cbx_feed_give(struct cbx_feed *feed, const char *p, size_t n, struct cbx_input_op *op, struct cbx_err *err)
{
	int r = check_taken(feed, err);

	if (r < 0)
		return r;
	if (n > PIECE)
		(void)fcntl(feed->fd, F_SETPIPE_SZ, (int)WIDE); /* it is only quicker */
	cbx_buf_add(&feed->pending, p, n);
	r = push(feed);
	if (r < 0)
		forget(feed);
	if (r < 0)
		return cbx_fail(err, -r, "write to the program's standard input");
	if (r > 0)
		return 1;
	cbx_op_begin(&op->op, &feed->op);
	event_add(feed->out, NULL);
	return 0;
}
