/* SPDX-License-Identifier: Apache-2.0 */
#include "box/naming.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/timer.h"
#include "box/link.h"

struct cbx_naming *cbx_naming_new(void)
{
	struct cbx_naming *n = cbx_xcalloc(1, sizeof(*n));

	n->sock = -1;
	return n;
}

static bool has(const struct cbx_naming *n, const char *path)
{
	for (size_t i = 0; i < n->n; i++)
		if (strcmp(n->paths[i], path) == 0)
			return true;
	return false;
}

void cbx_naming_add(struct cbx_naming *n, const char *path)
{
	if (!path[0] || strlen(path) >= CBX_PATH_MAX || has(n, path))
		return;
	n->paths = cbx_xrealloc(n->paths, (n->n + 1) * sizeof(*n->paths));
	n->names = cbx_xrealloc(n->names, (n->n + 1) * sizeof(*n->names));
	n->paths[n->n] = cbx_xstrdup(path);
	n->names[n->n++] = (struct cbx_host_name){ .error = ETIMEDOUT };
}

/* No more answers come. */
static void finish(struct cbx_naming *n)
{
	n->over = true;
	cbx_event_free_p(&n->in);
	cbx_close_p(&n->sock);
}

/* One question at a time: the other side has room for it. */
static void ask_next(struct cbx_naming *n)
{
	uint64_t now = cbx_now_ms();
	bool asked = n->known < n->n && !n->over &&
		     cbx_send_fds(n->sock, n->paths[n->known], strlen(n->paths[n->known]), NULL, 0) >= 0;

	if (!asked && n->known < n->n)
		finish(n);
	cbx_timer_set(n->end, asked && now < n->until_ms ? n->until_ms - now : 0);
}

static void answer_in(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_naming *n = arg;
	struct cbx_host_name name;
	ssize_t got = cbx_recv_plain(fd, &name, sizeof(name));

	if (got < 0 && (got == -EAGAIN || got == -EINTR))
		return;
	if (got == (ssize_t)sizeof(name) && n->known < n->n) {
		name.name[sizeof(name.name) - 1] = '\0';
		n->names[n->known++] = name;
	} else {
		finish(n);
	}
	ask_next(n);
}

static void end(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_naming *n = arg;

	if (n->known < n->n)
		finish(n);
	n->done(n);
}

int cbx_naming_begin(struct cbx_naming *n, struct cbx_boxes *all, void (*done)(struct cbx_naming *naming), void *arg,
		     struct cbx_err *err)
{
	int pair[2];

	n->done = done;
	n->arg = arg;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make a socket for names of the machine");
	n->sock = pair[0];
	cbx_set_nonblock(n->sock, 1);
	n->in = event_new(all->base, n->sock, EV_READ | EV_PERSIST, answer_in, n);
	n->end = event_new(all->base, -1, 0, end, n);
	if (!n->in || !n->end || event_add(n->in, NULL) < 0) {
		cbx_close_p(&pair[1]);
		return cbx_fail(err, ENOMEM, "wait for names of the machine");
	}
	n->begun = true;
	n->until_ms = cbx_now_ms() + CBX_HOST_NAMES_MS;
	if (!cbx_link_names(all, &pair[1]))
		finish(n);
	ask_next(n);
	cbx_close_p(&pair[1]);
	return 0;
}

void cbx_naming_get(struct cbx_naming *n, const char *path, struct cbx_host_name *ret)
{
	for (size_t i = 0; i < n->n; i++) {
		if (strcmp(n->paths[i], path) == 0) {
			*ret = n->names[i];
			return;
		}
	}
	if (n->begun && !n->over)
		cbx_naming_add(n, path);
	*ret = (struct cbx_host_name){ .error = strlen(path) >= CBX_PATH_MAX ? ENAMETOOLONG : ETIMEDOUT };
}

bool cbx_naming_more(struct cbx_naming *n)
{
	if (!n->begun || n->over || n->known == n->n)
		return false;
	ask_next(n);
	return true;
}

void cbx_naming_free(struct cbx_naming *n)
{
	if (!n)
		return;
	cbx_event_free_p(&n->in);
	cbx_event_free_p(&n->end);
	cbx_close_p(&n->sock);
	for (size_t i = 0; i < n->n; i++)
		free(n->paths[i]);
	free(n->paths);
	free(n->names);
	free(n);
}
