/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: connecting is tried first and costs nothing else when a daemon is there. Otherwise the run-time
 * directory's lock decides who starts one: whoever holds it tries once more, removes what is left of an earlier daemon,
 * listens on both sockets and launches codeboxd with them. Everybody else finds listening sockets as soon as they
 * exist, long before codeboxd has got as far as accepting, so no client waits for a start, and none has to guess when
 * it is over.
 *
 * A daemon that ends on its own takes the same lock before it removes its sockets. A client that connected just before
 * sees the connection close before a byte was said, and connects again (cbx_client_open, the MCP bridge).
 *
 * Nobody else may answer in the daemon's place, nor lead a client to another service by a link. So the run-time
 * directory's owner and mode are checked, the socket is looked up below the descriptor that was checked, and the peer
 * must be ourselves, root or the service id before it is sent a byte: for a listening socket the kernel reports who
 * called listen(2).
 */
#include "client/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/socket.h"
#include "client/launch.h"
#include "client/protocol.h"

#define CONNECT_TIMEOUT_S 10 /* a daemon that accepts nothing for this time is stuck */
#define LOCK_TIMEOUT_MS	  15000
#define LOCK_POLL_MS	  3

static int check_peer(int fd, const struct cbx_service *service, const char *dir, struct cbx_err *err)
{
	uid_t uid = 0;
	int r = cbx_peer_allowed(fd, service, &uid);

	if (r < 0)
		return cbx_fail(err, -r, "ask who listens in %s", dir);
	if (!r)
		return cbx_refuse(err, "unsafe_peer", EPERM,
				  "user %u listens in %s, not you; set CODEBOX_RUNTIME_DIR to a directory of your own",
				  (unsigned)uid, dir);
	return 0;
}

/* connect(2) to a name below the run-time directory, once that is known to be safe. 0 or -errno. */
static int connect_below(int fd, const struct cbx_dirs *dirs, const char *name, const struct cbx_service *service,
			 struct cbx_err *err)
{
	_cleanup_fd_ int dir = cbx_service_open_dir(service, dirs->runtime, err);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int r;

	if (dir < 0)
		return dir;
	/* There is no connectat(2). */
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/%s", dir, name);
	do {
		r = connect(fd, (struct sockaddr *)&addr, sizeof(addr));
	} while (r < 0 && errno == EINTR);
	if (r < 0 && errno == EAGAIN)
		return cbx_refuse(err, "daemon_stuck", ETIMEDOUT,
				  "codeboxd has accepted no connection on %s/%s for %d s; stop that process and try again",
				  dirs->runtime, name, CONNECT_TIMEOUT_S);
	return r < 0 ? cbx_fail(err, errno, "connect to %s/%s", dirs->runtime, name) : 0;
}

/* A descriptor; -ENOENT or -ECONNREFUSED when no process listens. */
static int try_connect(const struct cbx_dirs *dirs, const char *name, const struct cbx_service *service,
		       struct cbx_err *err)
{
	struct timeval limit = { .tv_sec = CONNECT_TIMEOUT_S }, none = { 0 };
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return cbx_fail(err, errno, "make a socket");
	/* A full backlog makes connect(2) wait; the send time-out bounds that. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	r = connect_below(fd, dirs, name, service, err);
	if (r < 0)
		return r;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	r = check_peer(fd, service, dirs->runtime, err);
	return r < 0 ? r : take_fd(&fd);
}

static bool nobody_listens(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED;
}

static int listen_on(const struct cbx_dirs *dirs, const char *name, const struct cbx_service *service,
		     struct cbx_err *err)
{
	struct cbx_address a;
	int r = cbx_address_unix(&a, dirs->runtime, name, err);

	return r < 0 ? r : cbx_listen(&a, service, err);
}

static void remove_sockets(const struct cbx_dirs *dirs)
{
	static const char *const names[] = { CBX_CONTROL_SOCKET, CBX_MCP_SOCKET };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = cbx_xasprintf("%s/%s", dirs->runtime, names[i]);

		(void)unlink(path);
	}
}

/* With the lock held and no listener. */
static int start_daemon(const struct cbx_dirs *dirs, const struct cbx_service *service, struct cbx_reach *reach,
			struct cbx_err *err)
{
	_cleanup_fd_ int control = -1, mcp = -1;
	struct cbx_err log = { 0 };
	int r;

	/* Of a daemon that is being killed, one may still answer when the other does not. */
	remove_sockets(dirs);
	control = listen_on(dirs, CBX_CONTROL_SOCKET, service, err);
	if (control < 0)
		return control;
	mcp = listen_on(dirs, CBX_MCP_SOCKET, service, err);
	r = mcp < 0 ? mcp : cbx_daemon_launch(dirs, (int[2]){ control, mcp }, &reach->log_from, &log, err);
	if (log.code && reach->warn) {
		_cleanup_free_ char *msg = cbx_xasprintf("the daemon's log is not kept: %s", log.msg);

		reach->warn(msg);
	}
	if (r < 0)
		remove_sockets(dirs);
	return r;
}

/*
 * Get the lock, or a connection while waiting for it. 1: a connection is in *ret_fd; 0: the lock is held.
 */
static int lock_or_connect(const struct cbx_dirs *dirs, const char *name, const struct cbx_service *service, int lock,
			   int *ret_fd, struct cbx_err *err)
{
	uint64_t deadline = cbx_now_ms() + LOCK_TIMEOUT_MS;

	for (;;) {
		struct timespec pause = { .tv_nsec = LOCK_POLL_MS * 1000000 };
		bool locked = flock(lock, LOCK_EX | LOCK_NB) == 0;
		int fd;

		if (!locked && errno != EWOULDBLOCK && errno != EINTR)
			return cbx_fail(err, errno, "lock %s/lock", dirs->runtime);
		fd = try_connect(dirs, name, service, err);
		if (fd >= 0) {
			*ret_fd = fd;
			return 1;
		}
		if (!nobody_listens(fd))
			return fd;
		if (locked)
			return 0;
		if (cbx_now_ms() > deadline)
			return cbx_refuse(err, "daemon_stuck", ETIMEDOUT,
					  "another process has held %s/lock for %d s without starting codeboxd; end it "
					  "and try again",
					  dirs->runtime, LOCK_TIMEOUT_MS / 1000);
		nanosleep(&pause, NULL);
	}
}

int cbx_daemon_reach(const struct cbx_dirs *dirs, const char *socket_name, bool may_start, struct cbx_reach *reach,
		     struct cbx_err *err)
{
	struct cbx_service service;
	_cleanup_fd_ int lock = -1;
	int fd = -1, r;

	*reach = (struct cbx_reach){ .warn = reach->warn };
	r = cbx_service_init(&service, err);
	if (r < 0)
		return r;
	fd = try_connect(dirs, socket_name, &service, err);
	if (fd >= 0 || !nobody_listens(fd))
		return fd;
	if (!may_start)
		return cbx_refuse(err, "no_daemon", ENOENT,
				  "codeboxd is not running; a command that needs it, such as codebox run, starts it");
	r = cbx_service_make_dir(&service, dirs->runtime, 0700, err);
	if (r < 0)
		return r;
	lock = cbx_service_open_lock(&service, dirs->runtime, err);
	if (lock < 0)
		return lock;
	r = lock_or_connect(dirs, socket_name, &service, lock, &fd, err);
	if (r != 0)
		return r < 0 ? r : fd;
	r = start_daemon(dirs, &service, reach, err);
	if (r < 0)
		return r;
	reach->started = true;
	fd = try_connect(dirs, socket_name, &service, err);
	/* Listening sockets that are closed already: codeboxd has ended within these microseconds. */
	return fd >= 0 ? fd : nobody_listens(fd) ? cbx_daemon_gone(dirs, reach, err) : fd;
}

/* The log's last lines, at most `max` bytes, from a position on; on one line, control characters replaced. */
static void log_tail(const char *path, off_t from, size_t max, char *out)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	ssize_t n;
	char *p;

	out[0] = '\0';
	if (end <= from)
		return;
	if (end - from > (off_t)max)
		from = end - (off_t)max;
	n = pread(fd, out, max, from);
	if (n <= 0) {
		out[0] = '\0';
		return;
	}
	while (n && out[n - 1] == '\n')
		n--;
	out[n] = '\0';
	for (p = out; *p; p++)
		if (*p == '\n')
			*p = '|';
		else if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
}

int cbx_daemon_gone(const struct cbx_dirs *dirs, const struct cbx_reach *reach, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_daemon_log_path(dirs);
	char tail[401] = "";

	if (reach->started)
		log_tail(path, reach->log_from, sizeof(tail) - 1, tail);
	if (tail[0])
		return cbx_refuse(err, "daemon_gone", ECONNRESET,
				  "codeboxd ended as soon as it was started; its log: %s", tail);
	return cbx_refuse(err, "daemon_gone", ECONNRESET,
			  "codeboxd closed the connection without an answer; its log is %s", path);
}
