/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/timer.h"

#define ACCEPTS_PER_TURN 16

struct cbx_listener {
	int fd;
	struct event *event, *rest;
	void (*on_accept)(void *arg, int fd);
	void *arg;
	bool paused;
};

static bool exhausted(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
}

size_t cbx_listener_accept(struct cbx_listener *l)
{
	struct timeval second = { .tv_sec = 1 };
	size_t n = 0;

	while (n < ACCEPTS_PER_TURN && !l->paused) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			n++;
			l->on_accept(l->arg, fd);
			continue;
		}
		if (exhausted(errno)) {
			cbx_warn("cannot accept connections now: %s", strerror(errno));
			event_del(l->event);
			event_add(l->rest, &second);
		}
		if (errno != EINTR && errno != ECONNABORTED)
			break;
	}
	return n;
}

static void connected(evutil_socket_t fd, short what, void *arg)
{
	(void)cbx_listener_accept(arg);
}

static void rested(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_listener *l = arg;

	if (!l->paused)
		event_add(l->event, NULL);
}

void cbx_listener_pause(struct cbx_listener *l, bool on)
{
	l->paused = on;
	event_del(l->rest);
	if (on)
		event_del(l->event);
	else
		event_add(l->event, NULL);
}

int cbx_listener_new(struct event_base *base, int fd, void (*on_accept)(void *arg, int fd), void *arg,
		     struct cbx_listener **ret, struct cbx_err *err)
{
	struct cbx_listener *l = cbx_xcalloc(1, sizeof(*l));

	*l = (struct cbx_listener){ .fd = fd, .on_accept = on_accept, .arg = arg };
	l->event = event_new(base, fd, EV_READ | EV_PERSIST, connected, l);
	l->rest = event_new(base, -1, 0, rested, l);
	if (cbx_set_nonblock(fd, 1) < 0 || !l->event || !l->rest || event_add(l->event, NULL) < 0) {
		cbx_listener_free(l);
		return cbx_fail(err, ENOMEM, "watch a listening socket");
	}
	*ret = l;
	return 0;
}

void cbx_listener_free(struct cbx_listener *l)
{
	if (!l)
		return;
	cbx_event_free_p(&l->event);
	cbx_event_free_p(&l->rest);
	close(l->fd);
	free(l);
}
