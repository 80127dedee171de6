/* SPDX-License-Identifier: Apache-2.0 */
/* What epoll watches for the process. */
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proxy/proxy.h"

void watch_set(struct proxy *p, struct watch *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };
	int op = !events ? EPOLL_CTL_DEL : w->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (w->fd < 0 || events == w->events)
		return;
	if (epoll_ctl(p->epoll, op, w->fd, &e) < 0)
		_exit(1); /* a sandbox without a proxy has no network */
	w->events = events;
}

void watch_end(struct watch *w)
{
	w->events = 0;
	cbx_close_p(&w->fd);
}

void watch_close(struct proxy *p, struct watch *w)
{
	watch_set(p, w, 0);
	cbx_close_p(&w->fd);
}
