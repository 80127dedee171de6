/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a service manager that gave us a socket by NOTIFY_SOCKET, as systemd does for Type=notify,
 * learns of the start, of reloads and of the end, and by a timer of the event loop that the loop turns. The socket is
 * connected before codeboxd confines itself, since it can connect to nothing then. What is not taken is lost: nobody
 * waits here.
 *
 * Variables of the manager are not for the programs that are started next. Nor is its socket for a codeboxd that a
 * codebox command starts: it is that of whoever runs the command.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "base/timer.h"
#include "daemon/daemon.h"
#include "session/session.h"

static int connect_to(const char *name)
{
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	size_t n = strlen(name);

	if (fd < 0)
		return -errno;
	if ((name[0] != '/' && name[0] != '@') || n >= sizeof(at.sun_path))
		return -EINVAL;
	memcpy(at.sun_path, name, n);
	if (name[0] == '@')
		at.sun_path[0] = '\0';
	if (connect(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
		return -errno;
	return take_fd(&fd);
}

void cbx_notify_open(struct cbx_daemon_notify *n, bool mine)
{
	const char *name = getenv("NOTIFY_SOCKET"), *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t whose = 0, every = 0;
	struct cbx_err ignored;

	if (name && mine) {
		n->fd = connect_to(name);
		if (n->fd < 0)
			cbx_warn("NOTIFY_SOCKET: connect to %.120s: %s; the service manager is not told of the start",
				 name, strerror(-n->fd));
	}
	if (n->fd >= 0 && usec && cbx_parse_u64(usec, "WATCHDOG_USEC", 1, UINT64_MAX / 2, &every, &ignored) == 0 &&
	    (!pid ||
	     (cbx_parse_u64(pid, "WATCHDOG_PID", 1, INT32_MAX, &whose, &ignored) == 0 && whose == (uint64_t)getpid())))
		n->watchdog_us = every;
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

void cbx_notify(const struct cbx_daemon_notify *n, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int r;

	if (n->fd < 0)
		return;
	va_start(ap, fmt);
	r = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (r < 0)
		text = NULL;
	else if (send(n->fd, text, (size_t)r, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		cbx_debug("the service manager did not take \"%s\": %s", text, strerror(errno));
}

void cbx_notify_reloading(const struct cbx_daemon_notify *n)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	cbx_notify(n, "RELOADING=1\nMONOTONIC_USEC=%llu",
		   (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000);
}

void cbx_notify_ready(const struct cbx_daemon *d)
{
	cbx_notify(&d->notify, "READY=1\nSTATUS=%zu sessions%s", cbx_engine_sessions(d->engine),
		   d->lifecycle.draining ? "; it ends after the last" : "");
}

static void turns(evutil_socket_t fd, short what, void *arg)
{
	const struct cbx_daemon *d = arg;

	cbx_notify(&d->notify, "WATCHDOG=1\nSTATUS=%zu sessions%s", cbx_engine_sessions(d->engine),
		   d->lifecycle.draining ? "; it ends after the last" : "");
}

int cbx_notify_watch(struct cbx_daemon *d, struct cbx_err *err)
{
	uint64_t half = d->notify.watchdog_us / 2;
	struct timeval every = { .tv_sec = (time_t)(half / 1000000), .tv_usec = (suseconds_t)(half % 1000000) };

	if (!half)
		return 0;
	d->notify.timer = event_new(d->base, -1, EV_PERSIST, turns, d);
	if (!d->notify.timer || event_add(d->notify.timer, &every) < 0)
		return cbx_fail(err, ENOMEM, "watch the event loop");
	return 0;
}

void cbx_notify_release(struct cbx_daemon_notify *n)
{
	cbx_event_free_p(&n->timer);
	cbx_close_p(&n->fd);
}
