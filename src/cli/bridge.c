/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: lines between standard input and output and the daemon's MCP socket. What is sent to the daemon,
 * and to the client, are whole lines, so that either may be exchanged for another between two of them. Each direction
 * is read only when its buffer has no whole line, so a reader that does not read stops its writer, and neither
 * direction waits for the other.
 *
 * Standard input and output are not switched to non-blocking: other processes may share them. What cannot be written
 * without waiting (RWF_NOWAIT, which older kernels do not have for pipes) is written when poll says so: a pipe that is
 * writable takes PIPE_BUF bytes.
 *
 * The client outlives the daemon: when that ends, what was asked of it is answered with an error, and with the next
 * message another one is started, which first gets what the client has said before (said.c). A daemon that was just
 * about to end closes the connection without a word: then another gets the same bytes again, as far as they are kept.
 *
 * Each of them gets first, before anything of the client's, what the command line says of the connection's own
 * session.
 */
#include "cli/bridge.h"

#include <errno.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/said.h"
#include "client/protocol.h"
#include "client/reach.h"

#define LINGER_MS  (CBX_WAIT_MS + 30000) /* after the end of standard input: of silence, longer than any call takes */
#define UNREAD_MS  5000			 /* likewise, of a client that is owed output and does not read */
#define RECONNECTS 2			 /* to daemons that say nothing, one after another */
#define CHUNK	   KIB(64)
#define KEPT_MAX   KIB(64) /* of what was sent, to be sent once more */

#define LOST "What ran in its sessions is lost, with their variables and files. "

struct lane {
	struct cbx_buf b;
	size_t at, whole; /* [at, whole) is to be written; what follows is the start of a line */
	bool passing;	  /* in a line that is too long to be held: it is passed on as it comes */
};

struct bridge {
	const struct cbx_dirs *dirs;
	struct cbx_reach reach;
	struct cbx_said said;
	const struct cbx_buf *session;
	struct lane up, down; /* to the daemon, from the daemon */
	struct cbx_buf again; /* what this daemon gets first */
	size_t again_at;
	uint64_t dropped; /* bytes of the client that up holds no longer */
	int fd;		  /* -1: there is no daemon */
	bool in_open;	  /* standard input has not ended */
	bool shut;	  /* our end of the socket is shut down for writing */
	bool heard;	  /* this daemon has said something */
	bool replayable;  /* up holds everything that was sent to it */
	bool skipping;	  /* the rest of a line, whose start was lost */
	bool deaf;	  /* the daemon reads no more; what it has said is still to be passed on */
	bool once;	  /* a daemon has said something, ever */
	bool owed;	  /* an answer was lost after the end of standard input */
	unsigned reconnects;
	uint64_t deadline; /* 0: none */
};

static bool again(int e)
{
	return e == EAGAIN || e == EINTR;
}

static bool pending(const struct lane *l)
{
	return l->at < l->whole;
}

static void lane_drop(struct lane *l)
{
	cbx_buf_drop(&l->b, l->at);
	l->whole -= l->at;
	l->at = 0;
	if (l->b.len == 0 && l->b.cap > 4 * CHUNK)
		cbx_buf_release(&l->b);
}

/* ---- the client ---- */

/* Whole lines among the bytes from `from` on. */
static void take_lines(struct bridge *b, size_t from)
{
	struct lane *l = &b->up;
	const char *nl;

	while ((nl = memchr(l->b.data + from, '\n', l->b.len - from))) {
		size_t end = (size_t)(nl + 1 - l->b.data);

		if (b->skipping) {
			b->dropped += end - l->whole;
			memmove(l->b.data + l->whole, l->b.data + end, l->b.len - end);
			l->b.len -= end - l->whole;
			b->skipping = false;
			from = l->whole;
			continue;
		}
		if (!l->passing)
			cbx_said_up(&b->said, l->b.data + l->whole, end - 1 - l->whole, b->dropped + end);
		l->passing = false;
		l->whole = from = end;
	}
	if (b->skipping) {
		b->dropped += l->b.len - l->whole;
		l->b.len = l->whole;
	}
	if (l->b.len - l->whole > CBX_MESSAGE_MAX)
		l->passing = true;
	if (l->passing)
		l->whole = l->b.len;
}

static void read_input(struct bridge *b)
{
	struct lane *l = &b->up;
	size_t from;
	ssize_t n;

	/* What was heard of, or is much, is not sent a second time. */
	if (b->heard || l->at > KEPT_MAX || l->passing) {
		b->replayable = b->replayable && (l->at == 0 || b->heard);
		b->dropped += l->at;
		lane_drop(l);
	}
	from = l->b.len;
	n = read(STDIN_FILENO, cbx_buf_reserve(&l->b, CHUNK), CHUNK);
	if (n > 0) {
		l->b.len += (size_t)n;
		take_lines(b, from);
	} else if (n == 0 || !again(errno)) {
		b->in_open = false;
		if (l->b.len > l->whole) { /* a last line without its newline */
			cbx_said_up(&b->said, l->b.data + l->whole, l->b.len - l->whole, b->dropped + l->b.len);
			l->whole = l->b.len;
		}
	}
}

/* As much as there is room for; false: nothing was written. An end is seen by the next turn. */
static bool write_at_once(struct lane *l)
{
	const struct iovec v = { l->b.data + l->at, l->whole - l->at };
	long w = syscall(SYS_pwritev2, STDOUT_FILENO, &v, 1, -1L, -1L, RWF_NOWAIT);

	if (w > 0)
		l->at += (size_t)w;
	return w > 0;
}

/* False: the client reads no more. */
static bool write_output(struct lane *l)
{
	size_t n = l->whole - l->at;
	ssize_t w;

	if (write_at_once(l))
		return true;
	w = write(STDOUT_FILENO, l->b.data + l->at, n < PIPE_BUF ? n : PIPE_BUF);
	if (w < 0)
		return again(errno);
	l->at += (size_t)w;
	return true;
}

/* ---- the daemon ---- */

static bool to_send(const struct bridge *b)
{
	return b->fd >= 0 && !b->deaf && (b->again_at < b->again.len || pending(&b->up));
}

/* 0, or -errno when the daemon has gone. */
static int write_daemon(struct bridge *b)
{
	bool first = b->again_at < b->again.len;
	const char *p = first ? b->again.data + b->again_at : b->up.b.data + b->up.at;
	size_t n = first ? b->again.len - b->again_at : b->up.whole - b->up.at;
	ssize_t w = send(b->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (w < 0)
		return again(errno) ? 0 : -errno;
	*(first ? &b->again_at : &b->up.at) += (size_t)w;
	return 0;
}

/* 1: continue; 0: the daemon has closed. */
static int read_daemon(struct bridge *b)
{
	struct lane *l = &b->down;
	size_t from;
	ssize_t n;
	char *nl;

	lane_drop(l);
	from = l->b.len;
	n = recv(b->fd, cbx_buf_reserve(&l->b, CHUNK), CHUNK, MSG_DONTWAIT);
	if (n < 0 && again(errno))
		return 1;
	if (n <= 0)
		return 0;
	l->b.len += (size_t)n;
	b->heard = b->once = true;
	b->reconnects = 0;
	while ((nl = memchr(l->b.data + from, '\n', l->b.len - from))) {
		size_t end = (size_t)(nl + 1 - l->b.data);

		if (l->passing || cbx_said_down(&b->said, l->b.data + l->whole, end - 1 - l->whole)) {
			l->whole = from = end;
		} else {
			memmove(l->b.data + l->whole, l->b.data + end, l->b.len - end);
			l->b.len -= end - l->whole;
			from = l->whole;
		}
		l->passing = false;
	}
	if (l->b.len - l->whole > 2 * CBX_REPLY_MAX)
		l->passing = true;
	if (l->passing)
		l->whole = l->b.len;
	return 1;
}

/* Up to here of what the client sent is lost: the daemon has it, or nobody ever will. */
static void fail_asked(struct bridge *b, uint64_t at, const char *why)
{
	struct lane *l = &b->down;
	size_t n;

	if (!l->passing)
		l->b.len = l->whole; /* the start of a line whose end will not come */
	else
		cbx_buf_addc(&l->b, '\n');
	l->passing = false;
	n = cbx_said_fail(&b->said, at, !b->shut, why, &l->b);
	if (!b->in_open && n)
		b->owed = true;
	l->whole = l->b.len;
}

static void tell(struct bridge *b, const char *text)
{
	cbx_cli_say("%s", text);
	cbx_said_tell(&b->said, text, &b->down.b);
	b->down.whole = b->down.b.len;
}

/* It has said something, so it has done something. The client learns this, and continues with another daemon when it
 * wants something again. */
static void lose_daemon(struct bridge *b)
{
	struct lane *l = &b->up;
	const char *nl;

	cbx_close_p(&b->fd);
	/* A line of which a part was sent was not read: it goes to the next one. */
	nl = l->at && l->at < l->whole ? memrchr(l->b.data, '\n', l->at) : NULL;
	if (l->passing) {
		b->skipping = true;
		b->dropped += l->b.len;
		l->b.len = l->whole = l->at = 0;
		l->passing = false;
	} else if (l->at < l->whole) {
		l->at = nl ? (size_t)(nl + 1 - l->b.data) : 0;
	}
	fail_asked(b, b->dropped + l->at,
		   "codeboxd has ended before it answered: it was stopped or exchanged for another build, or it "
		   "crashed. " LOST "Call again to begin anew.");
	tell(b, "codeboxd has closed the connection; it is started again with the next message. " LOST);
	b->again.len = b->again_at = 0;
}

/* What the client wanted cannot be had; it may try again. */
static void give_up(struct bridge *b, const char *why)
{
	cbx_close_p(&b->fd);
	b->up.at = b->up.whole;
	fail_asked(b, b->dropped + b->up.at, why);
	tell(b, why);
}

/* What a daemon hears first. */
static void hail(struct bridge *b)
{
	b->again.len = b->again_at = 0;
	cbx_buf_add(&b->again, cbx_buf_str(b->session), b->session->len);
}

/* Another daemon, which gets what the last one knew. -1: continue. */
static int begin(struct bridge *b)
{
	struct cbx_err err;

	b->fd = cbx_daemon_reach(b->dirs, CBX_MCP_SOCKET, true, &b->reach, &err);
	if (b->fd < 0) {
		_cleanup_free_ char *why =
			cbx_xasprintf("codeboxd has ended, and cannot be started again: %s", err.msg);

		give_up(b, why);
		return -1;
	}
	b->heard = b->shut = b->deaf = false;
	b->replayable = true;
	b->dropped += b->up.at;
	lane_drop(&b->up);
	hail(b);
	cbx_said_again(&b->said, true, &b->again);
	return -1;
}

/* The daemon closed. -1: continue; else the exit status. */
static int reconnect(struct bridge *b)
{
	struct cbx_err err;

	err.code = 0;
	if (b->heard) {
		lose_daemon(b);
		return -1;
	}
	if (!b->replayable || b->reach.started || b->reconnects++ >= RECONNECTS) {
		cbx_daemon_gone(b->dirs, &b->reach, &err);
	} else {
		close(b->fd);
		b->fd = cbx_daemon_reach(b->dirs, CBX_MCP_SOCKET, true, &b->reach, &err);
		err.code = b->fd < 0 ? err.code : 0;
	}
	if (err.code) {
		if (!b->once)
			return cbx_cli_fail(&err);
		give_up(b, err.msg);
		return -1;
	}
	b->up.at = b->again_at = 0;
	b->shut = b->deaf = false;
	return -1;
}

/* ---- in turn ---- */

static int timeout_ms(const struct bridge *b)
{
	int64_t left;

	if (!b->deadline)
		return -1;
	left = (int64_t)(b->deadline - cbx_now_ms());
	return left > 0 ? (int)left : 0;
}

/* After the end of standard input: whether all is done, -1: not yet. */
static int over(struct bridge *b, bool moved)
{
	if (b->in_open)
		return -1;
	if (b->fd < 0 && !pending(&b->up) && !pending(&b->down))
		return b->owed ? CBX_EXIT_FAILURE : CBX_EXIT_OK;
	if (moved || !b->deadline)
		b->deadline = cbx_now_ms() + (pending(&b->down) ? UNREAD_MS : LINGER_MS);
	if (b->fd >= 0 && !to_send(b) && !b->shut) {
		shutdown(b->fd, SHUT_WR);
		b->shut = true;
	}
	return -1;
}

/* What poll said of the daemon. -1: continue; else the exit status. */
static int daemon_events(struct bridge *b, short revents, bool up_full, bool down_full)
{
	if (!down_full && (revents & (POLLIN | POLLHUP | POLLERR)) && read_daemon(b) == 0) {
		if (b->shut && (b->heard || b->up.whole == 0)) {
			fail_asked(b, UINT64_MAX, "codeboxd has ended before it answered. " LOST);
			cbx_close_p(&b->fd);
			return -1;
		}
		return reconnect(b);
	}
	if (up_full && (revents & (POLLOUT | POLLERR)) && write_daemon(b) < 0 && down_full)
		b->deaf = true;
	return -1;
}

/* One turn: wait, then move what can be moved. -1: continue; else the exit status. */
static int turn(struct bridge *b)
{
	bool up_full = to_send(b), down_full = pending(&b->down);
	struct pollfd p[3] = {
		{ .fd = b->in_open && !up_full && !pending(&b->up) ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = b->fd, .events = (short)((up_full ? POLLOUT : 0) | (down_full ? 0 : POLLIN)) },
		{ .fd = STDOUT_FILENO, .events = (short)(down_full ? POLLOUT : 0) },
	};
	int n, r = -1;

	if (b->fd < 0 && pending(&b->up))
		return begin(b);
	/* With bytes still in our buffer the socket's hang-up is not looked at, or poll would spin on it. */
	if (down_full && !up_full)
		p[1].fd = -1;
	n = poll(p, 3, timeout_ms(b));
	if (n < 0 && errno != EINTR)
		return CBX_EXIT_FAILURE;
	if (n == 0 && b->deadline && cbx_now_ms() >= b->deadline)
		return CBX_EXIT_OK;
	if (n < 0)
		return -1;
	/* No events are asked for, so what poll reports is that no reader is left: by a
	 * pipe as an error, by a socket or a terminal as a hang-up. */
	if (p[2].revents && !(down_full && write_output(&b->down)))
		return CBX_EXIT_OK;
	if (p[0].revents) {
		read_input(b);
		if (to_send(b) && p[1].fd >= 0)
			(void)write_daemon(b); /* most often there is room; an end is seen by the next turn */
	}
	if (b->fd >= 0)
		r = daemon_events(b, p[1].revents, up_full, down_full);
	if (!down_full && pending(&b->down))
		(void)write_at_once(&b->down);
	return r >= 0 ? r : over(b, n > 0);
}

int cbx_bridge_run(const struct cbx_dirs *dirs, const struct cbx_buf *session)
{
	struct bridge b = { .dirs = dirs, .session = session, .in_open = true, .replayable = true };
	struct cbx_err err;
	int r;

	b.reach.warn = cbx_cli_warn;
	cbx_said_init(&b.said);
	hail(&b);
	b.fd = cbx_daemon_reach(dirs, CBX_MCP_SOCKET, true, &b.reach, &err);
	r = b.fd < 0 ? cbx_cli_fail(&err) : -1;
	while (r < 0)
		r = turn(&b);
	cbx_close_p(&b.fd);
	cbx_said_release(&b.said);
	cbx_buf_release(&b.up.b);
	cbx_buf_release(&b.down.b);
	cbx_buf_wipe(&b.again); /* a password may be in it */
	return r;
}
