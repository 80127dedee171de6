/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the sockets come from whoever started the daemon, as LISTEN_FDS: systemd, or the first codebox
 * command. They are known by the names they are bound to, not by their order. With --foreground the daemon makes them
 * itself, under the run-time directory's lock.
 */
#include "daemon/listeners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/socket.h"
#include "base/str.h"
#include "client/protocol.h"

#define FIRST_FD 3
#define HTTP_SOCKET "http.sock"

static const char *const names[CBX_SOCKETS] = { CBX_CONTROL_SOCKET, CBX_MCP_SOCKET };

static int adopt_http(struct cbx_listeners *ls, int fd, struct cbx_err *err)
{
	if (ls->nhttp == ARRAY_SIZE(ls->http))
		return cbx_refuse(err, "invalid_start", EINVAL,
				  "LISTEN_FDS: too many sockets; name up to %zu for HTTP in the socket unit",
				  ARRAY_SIZE(ls->http));
	cbx_set_cloexec(fd, 1);
	ls->http[ls->nhttp++] = fd;
	return 0;
}

/* Take a descriptor that we were given: it must be a listening stream socket: unix with one of our names, or TCP, for
 * HTTP. */
static int adopt(struct cbx_listeners *ls, int fd, struct cbx_err *err)
{
	struct cbx_address a;
	const char *path = a.at.un.sun_path, *base;
	struct stat st;

	if (cbx_address_of(fd, &a) < 0 || !cbx_is_listening(fd))
		return cbx_refuse(
			err, "invalid_start", EINVAL,
			"LISTEN_FDS: descriptor %d is not a listening socket; use ListenStream in the socket unit", fd);
	if (a.at.any.sa_family == AF_INET || a.at.any.sa_family == AF_INET6)
		return adopt_http(ls, fd, err);
	if (a.at.any.sa_family != AF_UNIX || !path[0])
		return cbx_refuse(err, "invalid_start", EINVAL,
				  "LISTEN_FDS: descriptor %d is of another kind; use unix sockets with a name, or TCP",
				  fd);
	base = strrchr(path, '/');
	base = base ? base + 1 : path;
	if (strcmp(base, HTTP_SOCKET) == 0)
		return adopt_http(ls, fd, err);
	for (size_t i = 0; i < CBX_SOCKETS; i++) {
		struct cbx_daemon_socket *s = &ls->sockets[i];

		if (strcmp(base, names[i]) != 0)
			continue;
		if (s->fd >= 0)
			return cbx_refuse(err, "invalid_start", EINVAL,
					  "LISTEN_FDS: two sockets are named %s; name each once in the socket unit",
					  base);
		s->fd = fd;
		s->path = cbx_xstrdup(path);
		if (stat(path, &st) == 0) {
			s->dev = st.st_dev;
			s->ino = st.st_ino;
		}
		cbx_set_cloexec(fd, 1);
		return 0;
	}
	return cbx_refuse(err, "invalid_start", EINVAL, "LISTEN_FDS: %.100s: unknown name; use %s, %s or %s", path,
			  names[0], names[1], HTTP_SOCKET);
}

int cbx_listeners_from_environment(struct cbx_listeners *ls, struct cbx_err *err)
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
	ls->own = (started && strcmp(started, "1") == 0) || (fdnames && strcmp(fdnames, "control:mcp") == 0);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	unsetenv("CODEBOX_STARTED");
	if (r < 0 || for_pid != (uint64_t)getpid())
		return r < 0 ? r : 0;
	for (int fd = FIRST_FD; fd < FIRST_FD + (int)n; fd++) {
		r = adopt(ls, fd, err);
		if (r < 0)
			return r;
	}
	return 1;
}

int cbx_listeners_make(struct cbx_listeners *ls, const struct cbx_dirs *dirs, const struct cbx_service *service,
		       int lock, struct cbx_err *err)
{
	struct cbx_address a[CBX_SOCKETS];
	int r = 0;

	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
		return cbx_refuse(err, "daemon_running", EWOULDBLOCK,
				  "%s/lock is held: another codeboxd is starting or ending; try again", dirs->runtime);
	for (size_t i = 0; i < CBX_SOCKETS && r >= 0; i++)
		r = cbx_address_unix(&a[i], dirs->runtime, names[i], err);
	/* The control socket, the first, is made last: where that is, the others are. */
	for (size_t i = CBX_SOCKETS; i-- > 0 && r >= 0;) {
		r = cbx_listen(&a[i], service, err);
		if (r >= 0)
			r = adopt(ls, r, err);
	}
	flock(lock, LOCK_UN);
	ls->own = true;
	return r;
}

int cbx_listeners_start(struct cbx_listeners *ls, struct event_base *base,
			void (*const on_accept[CBX_SOCKETS])(void *arg, int fd), void *arg, struct cbx_err *err)
{
	int r = 0;

	for (size_t i = 0; i < CBX_SOCKETS && r >= 0; i++)
		if (ls->sockets[i].fd >= 0)
			r = cbx_listener_new(base, take_fd(&ls->sockets[i].fd), on_accept[i], arg,
					     &ls->sockets[i].listener, err);
	return r;
}

size_t cbx_listeners_accept(struct cbx_listeners *ls)
{
	size_t n = 0;

	for (size_t i = 0; i < CBX_SOCKETS; i++)
		if (ls->sockets[i].listener)
			n += cbx_listener_accept(ls->sockets[i].listener);
	return n;
}

/* Only what is still the file that this daemon had: another one may have come in the meantime. */
void cbx_listeners_unlink(struct cbx_listeners *ls)
{
	for (size_t i = 0; ls->own && i < CBX_SOCKETS; i++) {
		struct cbx_daemon_socket *s = &ls->sockets[i];
		struct stat st;

		if (s->path && lstat(s->path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == s->dev &&
		    st.st_ino == s->ino && unlink(s->path) < 0)
			cbx_debug("cannot remove %s: %s", s->path, strerror(errno));
	}
}

void cbx_listeners_close(struct cbx_listeners *ls)
{
	for (size_t i = 0; i < CBX_SOCKETS; i++) {
		struct cbx_daemon_socket *s = &ls->sockets[i];

		cbx_listener_free(take_ptr(&s->listener));
		cbx_close_p(&s->fd);
		free(take_ptr(&s->path));
	}
}
