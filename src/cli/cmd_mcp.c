/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: bytes between standard input and output and the daemon's MCP socket, and nothing else: no
 * parsing, no allocation beyond two fixed buffers. Each direction is read only when its buffer is empty, so a reader
 * that does not read stops its writer, and neither direction waits for the other.
 *
 * Standard input and output are not switched to non-blocking: other processes may share them. A pipe that polls as
 * writable takes PIPE_BUF bytes without waiting, so no more than that is written at a time.
 *
 * What was sent before the daemon said anything is kept as long as it fits the buffer: when a daemon that was just
 * about to end closes the connection without a word, a new connection (and daemon) gets the same bytes again.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "daemon/control-protocol.h"

#define LINGER_MS  1000	 /* after the end of standard input: of silence, then we end too */
#define PATIENCE_MS 30000 /* likewise, of a daemon that has not said a word: it may only be starting */
#define RECONNECTS 2

struct lane {
	char data[KIB(64)];
	size_t at, len; /* bytes [at, len) wait to be written */
};

static struct lane up, down; /* to the daemon, from the daemon */

struct bridge {
	const struct cbx_dirs *dirs;
	struct cbx_daemon_start start;
	int fd;
	bool in_open;	 /* standard input has not ended */
	bool shut;	 /* our end of the socket is shut down for writing */
	bool heard;	 /* the daemon has said something */
	bool replayable; /* up.data holds everything that was sent on this connection */
	unsigned reconnects;
	uint64_t deadline; /* 0: none */
};

static bool again(int e)
{
	return e == EAGAIN || e == EINTR;
}

static void read_input(struct bridge *b)
{
	ssize_t n;

	/* A full first buffer can no longer be sent a second time. */
	if (b->heard || up.len == sizeof(up.data)) {
		b->replayable = false;
		up.at = up.len = 0;
	}
	n = read(STDIN_FILENO, up.data + up.len, sizeof(up.data) - up.len);
	if (n > 0)
		up.len += (size_t)n;
	else if (n == 0 || !again(errno))
		b->in_open = false;
}

/* 0, or -errno when the daemon has gone. */
static int write_daemon(struct bridge *b)
{
	ssize_t n = send(b->fd, up.data + up.at, up.len - up.at, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return again(errno) ? 0 : -errno;
	up.at += (size_t)n;
	return 0;
}

/* 1: goes on; 0: the daemon has closed. */
static int read_daemon(struct bridge *b)
{
	ssize_t n = recv(b->fd, down.data, sizeof(down.data), MSG_DONTWAIT);

	if (n < 0 && again(errno))
		return 1;
	if (n <= 0)
		return 0;
	down.at = 0;
	down.len = (size_t)n;
	b->heard = true;
	return 1;
}

/* False: the client reads no more. */
static bool write_output(void)
{
	size_t n = down.len - down.at;
	ssize_t w = write(STDOUT_FILENO, down.data + down.at, n < PIPE_BUF ? n : PIPE_BUF);

	if (w < 0)
		return again(errno);
	down.at += (size_t)w;
	return true;
}

/* The daemon closed before it said a word: try another. 0, or an exit status. */
static int reconnect(struct bridge *b)
{
	struct cbx_err err;

	if (b->heard) {
		cbx_cli_say("codeboxd has closed the connection");
		return CBX_EXIT_FAILURE;
	}
	if (!b->replayable || b->start.started || b->reconnects++ >= RECONNECTS) {
		cbx_daemon_gone(b->dirs, &b->start, &err);
		return cbx_cli_fail(&err);
	}
	close(b->fd);
	b->fd = cbx_daemon_reach(b->dirs, CBX_MCP_SOCKET, 1, &b->start, &err);
	if (b->fd < 0)
		return cbx_cli_fail(&err);
	up.at = 0;
	b->shut = false;
	return 0;
}

/* It was sent something, and has said nothing yet. */
static bool unheard(const struct bridge *b)
{
	return !b->heard && (up.len || !b->replayable);
}

static int timeout_ms(const struct bridge *b)
{
	int64_t left = (int64_t)(b->deadline - cbx_now_ms());

	return !b->deadline ? -1 : left > 0 ? (int)left : 0;
}

/* One turn: wait, then move what can be moved. -1: go on; else the exit status. */
static int turn(struct bridge *b)
{
	bool up_full = up.at < up.len, down_full = down.at < down.len;
	struct pollfd p[3] = {
		{ .fd = b->in_open && !up_full ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = b->fd, .events = (short)((up_full ? POLLOUT : 0) | (down_full ? 0 : POLLIN)) },
		{ .fd = STDOUT_FILENO, .events = (short)(down_full ? POLLOUT : 0) },
	};
	int n, r = 0;

	/* With bytes still in our buffer the socket's hang-up is not looked at, or poll would spin on it. */
	if (down_full && !up_full)
		p[1].fd = -1;
	n = poll(p, 3, timeout_ms(b));
	if (n < 0 && errno != EINTR)
		return CBX_EXIT_FAILURE;
	if (n == 0 && b->deadline && cbx_now_ms() >= b->deadline)
		return CBX_EXIT_OK;
	/* Without bytes for it nothing is asked of it, so what is told is that nobody is left to read an answer: by a
	 * pipe as an error, by a socket or a terminal as a hang-up. */
	if (p[2].revents && !(down_full && write_output()))
		return CBX_EXIT_OK;
	if (p[0].revents) {
		read_input(b);
		if (up.at < up.len && p[1].fd >= 0)
			(void)write_daemon(b); /* most often there is room; an end is seen by the next turn */
	}
	if (!down_full && (p[1].revents & (POLLIN | POLLHUP | POLLERR)) && read_daemon(b) == 0) {
		if (!b->in_open && (b->heard || up.len == 0))
			return CBX_EXIT_OK;
		r = reconnect(b);
	} else if (up_full && (p[1].revents & (POLLOUT | POLLERR)) && write_daemon(b) < 0 && down_full) {
		up.at = up.len; /* its last words are still to be passed on; then end of file is seen */
	}
	if (r > 0)
		return r;
	if (!b->in_open && (n > 0 || !b->deadline))
		b->deadline = cbx_now_ms() + (unheard(b) ? PATIENCE_MS : LINGER_MS);
	if (!b->in_open && up.at == up.len && !b->shut) {
		shutdown(b->fd, SHUT_WR);
		b->shut = true;
	}
	return -1;
}

static int run_mcp(int argc, char **argv)
{
	struct bridge b = { .in_open = true, .replayable = true };
	struct cbx_dirs dirs;
	struct cbx_err err;
	int r;

	if (argc > 1)
		return cbx_cli_usage("mcp", "%s: codebox mcp takes no arguments", argv[1]);
	signal(SIGPIPE, SIG_IGN);
	if (cbx_dirs_init(&dirs, &err) < 0)
		return cbx_cli_fail(&err);
	b.dirs = &dirs;
	b.fd = cbx_daemon_reach(&dirs, CBX_MCP_SOCKET, 1, &b.start, &err);
	if (b.fd < 0) {
		r = cbx_cli_fail(&err);
		cbx_dirs_release(&dirs);
		return r;
	}
	do {
		r = turn(&b);
	} while (r < 0);
	cbx_close_p(&b.fd);
	cbx_dirs_release(&dirs);
	return r;
}

static const char help[] =
	"Usage: codebox mcp\n"
	"\n"
	"Connects standard input and output with codeboxd, which speaks the Model Context Protocol. This is the\n"
	"command that an MCP client starts; it is of little use at a terminal. It ends when its input ends. Where\n"
	"sandboxes cannot be made it starts nevertheless, and every tool answers with the reason and remedy.\n"
	"\n"
	"Examples:\n"
	"  codebox register claude-desktop      into Claude Desktop's configuration\n"
	"  claude mcp add codebox -- codebox mcp\n";

const struct cbx_command cbx_cmd_mcp = {
	.name = "mcp",
	.summary = "serve the Model Context Protocol on standard input and output",
	.help = help,
	.run = run_mcp,
};
