/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the sockets come from whoever started the daemon, as LISTEN_FDS: systemd, or the first codebox
 * command. They are told apart by the names they are bound to, not by their order. With --foreground the daemon makes
 * them itself, under the run-time directory's lock. Every client's user is checked with the kernel's word for it, since
 * a directory's mode is easily changed by accident.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/control-protocol.h"
#include "daemon/daemon.h"

#define FIRST_FD	 3
#define ACCEPTS_PER_TURN 16
#define BACKLOG		 128

static const char *const names[CBX_LISTENERS] = { CBX_CONTROL_SOCKET, CBX_MCP_SOCKET };

/* Take a descriptor that we were given: it must be a listening unix stream socket with one of our names. */
static int adopt(struct cbx_daemon *d, int fd, struct cbx_err *err)
{
	struct sockaddr_un addr = { 0 };
	socklen_t len = sizeof(addr) - 1, intlen = sizeof(int);
	int listening = 0;
	const char *base;
	struct stat st;

	if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0 || addr.sun_family != AF_UNIX || !addr.sun_path[0] ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &intlen) < 0 || !listening)
		return cbx_refuse(err, "invalid_start", EINVAL,
				  "LISTEN_FDS: descriptor %d is not a listening unix socket", fd);
	base = strrchr(addr.sun_path, '/');
	base = base ? base + 1 : addr.sun_path;
	for (size_t i = 0; i < CBX_LISTENERS; i++) {
		struct cbx_listener *l = &d->listeners[i];

		if (strcmp(base, names[i]) != 0)
			continue;
		if (l->fd >= 0)
			return cbx_refuse(err, "invalid_start", EINVAL, "LISTEN_FDS: two sockets are named %s", base);
		l->fd = fd;
		l->path = cbx_xstrdup(addr.sun_path);
		if (stat(l->path, &st) == 0) {
			l->dev = st.st_dev;
			l->ino = st.st_ino;
		}
		cbx_set_cloexec(fd, 1);
		return 0;
	}
	return cbx_refuse(err, "invalid_start", EINVAL, "LISTEN_FDS: %.100s is neither %s nor %s", addr.sun_path,
			  names[0], names[1]);
}

int cbx_listeners_from_environment(struct cbx_daemon *d, struct cbx_err *err)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS"), *fdnames = getenv("LISTEN_FDNAMES");
	const char *started = getenv("CODEBOX_STARTED");
	uint64_t n = 0, for_pid = 0;
	int r;

	if (!pid || !fds)
		return 0;
	r = cbx_parse_u64(pid, "LISTEN_PID", 1, INT32_MAX, &for_pid, err);
	if (r >= 0)
		r = cbx_parse_u64(fds, "LISTEN_FDS", 1, 16, &n, err);
	/* A codebox command unlinks what is left of an earlier daemon and expects us to tidy up; systemd keeps
	 * listening on its sockets and starts us again. */
	d->own_sockets = (started && strcmp(started, "1") == 0) || (fdnames && strcmp(fdnames, "control:mcp") == 0);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	unsetenv("CODEBOX_STARTED");
	if (r < 0 || for_pid != (uint64_t)getpid())
		return r < 0 ? r : 0;
	for (int fd = FIRST_FD; fd < FIRST_FD + (int)n && r >= 0; fd++)
		r = adopt(d, fd, err);
	if (r < 0)
		return r;
	return d->listeners[CBX_LISTEN_CONTROL].fd >= 0 || d->listeners[CBX_LISTEN_MCP].fd >= 0;
}

/* A socket of its own, and the address of the one called that. */
static int prepare(const struct cbx_daemon *d, const char *name, struct sockaddr_un *addr, struct cbx_err *err)
{
	int fd, n;

	addr->sun_family = AF_UNIX;
	n = snprintf(addr->sun_path, sizeof(addr->sun_path), "%s/%s", d->dirs.runtime, name);
	if (n < 0 || (size_t)n >= sizeof(addr->sun_path))
		return cbx_refuse(err, "invalid_argument", ENAMETOOLONG, "%s is too long for a socket's name",
				  d->dirs.runtime);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd >= 0 ? fd : cbx_fail(err, errno, "make a socket");
}

static int nobody_listens(const struct cbx_daemon *d, const char *name, struct cbx_err *err)
{
	struct sockaddr_un addr = { 0 };
	_cleanup_fd_ int fd = prepare(d, name, &addr, err);

	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return cbx_refuse(err, "daemon_running", EADDRINUSE, "another codeboxd listens on %s", addr.sun_path);
	return 0;
}

static int make_one(struct cbx_daemon *d, const char *name, struct cbx_err *err)
{
	struct sockaddr_un addr = { 0 };
	_cleanup_fd_ int fd = prepare(d, name, &addr, err);

	if (fd < 0)
		return fd;
	(void)unlink(addr.sun_path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return cbx_fail(err, errno, "make the socket %s", addr.sun_path);
	/* The directory is the service id's; so is the socket, or it could not remove it at its end. */
	if (cbx_service_give_socket(&d->service, addr.sun_path, err) < 0)
		return -err->code;
	if (listen(fd, BACKLOG) < 0)
		return cbx_fail(err, errno, "listen on %s", addr.sun_path);
	return adopt(d, take_fd(&fd), err);
}

/* Called with the umask at 077. */
int cbx_listeners_make(struct cbx_daemon *d, struct cbx_err *err)
{
	int r = 0;

	if (d->lock_fd < 0 || flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return cbx_refuse(err, "daemon_running", EWOULDBLOCK,
				  "%s/lock is held: another codeboxd is starting or ending", d->dirs.runtime);
	for (size_t i = 0; i < CBX_LISTENERS && r >= 0; i++)
		r = nobody_listens(d, names[i], err);
	/* The control socket, the first, is made last: where that is, the others are. */
	for (size_t i = CBX_LISTENERS; i-- > 0 && r >= 0;)
		r = make_one(d, names[i], err);
	flock(d->lock_fd, LOCK_UN);
	d->own_sockets = r >= 0;
	return r;
}

void cbx_client_gone(void *arg)
{
	struct cbx_client_entry *client = arg;
	struct cbx_daemon *d = client->daemon;

	TAILQ_REMOVE(&d->clients, client, entry);
	d->nclients--;
	free(client);
	cbx_lifecycle_check(d);
}

static bool may_connect(const struct cbx_daemon *d, int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	if (peer.uid == 0 || peer.uid == geteuid() || peer.uid == d->service.uid)
		return true;
	cbx_warn("refused a connection of user %u", (unsigned)peer.uid);
	return false;
}

static void serve(struct cbx_listener *l, int fd)
{
	struct cbx_daemon *d = l->daemon;
	struct cbx_client_entry *client;
	int r;

	if (!may_connect(d, fd)) {
		close(fd);
		return;
	}
	if (d->nclients >= CBX_CLIENTS_MAX) {
		static const char text[] =
			"{\"id\":null,\"error\":{\"kind\":\"too_many_clients\",\"message\":"
			"\"codeboxd has as many connections as it allows; close one and try again\"}}\n";

		if (l->kind == CBX_LISTEN_CONTROL && send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			cbx_debug("a client over the limit could not be told so");
		cbx_warn("refused a connection: there are %d already", CBX_CLIENTS_MAX);
		close(fd);
		return;
	}
	client = cbx_xcalloc(1, sizeof(*client));
	client->daemon = d;
	r = l->kind == CBX_LISTEN_CONTROL ? cbx_control_accept(d, fd, client) : cbx_mcp_accept(d, fd, client);
	if (r < 0) {
		free(client);
		return;
	}
	TAILQ_INSERT_TAIL(&d->clients, client, entry);
	d->nclients++;
	cbx_lifecycle_busy(d);
}

/* How many were accepted; -1 when there was nothing to accept. */
static int accept_some(struct cbx_listener *l)
{
	int n = 0;

	while (l->fd >= 0 && n < ACCEPTS_PER_TURN) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			serve(l, fd);
			n++;
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			struct timeval tv = { .tv_sec = 1 };

			cbx_warn("cannot accept connections now: %s", strerror(errno));
			event_del(l->event);
			event_add(l->rest, &tv);
		}
		if (errno != EINTR && errno != ECONNABORTED)
			break;
	}
	return n;
}

static void listener_event(evutil_socket_t fd, short what, void *arg)
{
	accept_some(arg);
}

static void listener_rested(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_listener *l = arg;

	event_add(l->event, NULL);
}

int cbx_listeners_accept(struct cbx_daemon *d)
{
	int n = 0;

	for (size_t i = 0; i < CBX_LISTENERS; i++)
		n += accept_some(&d->listeners[i]);
	return n;
}

int cbx_listeners_start(struct cbx_daemon *d, struct cbx_err *err)
{
	for (size_t i = 0; i < CBX_LISTENERS; i++) {
		struct cbx_listener *l = &d->listeners[i];

		l->daemon = d;
		l->kind = (enum cbx_listener_kind)i;
		if (l->fd < 0)
			continue;
		cbx_set_nonblock(l->fd, 1);
		l->event = event_new(d->base, l->fd, EV_READ | EV_PERSIST, listener_event, l);
		l->rest = event_new(d->base, -1, 0, listener_rested, l);
		if (!l->event || !l->rest || event_add(l->event, NULL) < 0)
			return cbx_fail(err, ENOMEM, "watch %s", l->path);
	}
	return 0;
}

/* Only what is still the file that this daemon had: another one may have come in the meantime. */
void cbx_listeners_unlink(struct cbx_daemon *d)
{
	for (size_t i = 0; d->own_sockets && i < CBX_LISTENERS; i++) {
		struct cbx_listener *l = &d->listeners[i];
		struct stat st;

		if (l->path && lstat(l->path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == l->dev &&
		    st.st_ino == l->ino && unlink(l->path) < 0)
			cbx_debug("cannot remove %s: %s", l->path, strerror(errno));
	}
}

void cbx_listeners_close(struct cbx_daemon *d)
{
	for (size_t i = 0; i < CBX_LISTENERS; i++) {
		struct cbx_listener *l = &d->listeners[i];

		if (l->event)
			event_free(l->event);
		if (l->rest)
			event_free(l->rest);
		l->event = l->rest = NULL;
		cbx_close_p(&l->fd);
		free(take_ptr(&l->path));
	}
}
