/* SPDX-License-Identifier: Apache-2.0 */
#include "base/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define BACKLOG 4096 /* as far as the kernel allows it */

int cbx_address_unix(struct cbx_address *ret, const char *dir, const char *name, struct cbx_err *err)
{
	int n;

	*ret = (struct cbx_address){ .at.un.sun_family = AF_UNIX, .len = sizeof(ret->at.un) };
	n = snprintf(ret->at.un.sun_path, sizeof(ret->at.un.sun_path), "%s/%s", dir, name);
	if (n < 0 || (size_t)n >= sizeof(ret->at.un.sun_path))
		return cbx_refuse(err, "invalid_argument", ENAMETOOLONG,
				  "the run-time directory %s is too long; set CODEBOX_RUNTIME_DIR", dir);
	return 0;
}

void cbx_address_loopback(struct cbx_address *ret, bool v6, uint16_t port)
{
	memset(ret, 0, sizeof(*ret));
	if (v6) {
		ret->at.v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
						    .sin6_port = htons(port),
						    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
		ret->len = sizeof(ret->at.v6);
	} else {
		ret->at.v4 = (struct sockaddr_in){ .sin_family = AF_INET,
						   .sin_port = htons(port),
						   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		ret->len = sizeof(ret->at.v4);
	}
}

int cbx_address_unix_path(struct cbx_address *ret, const char *path, struct cbx_err *err)
{
	*ret = (struct cbx_address){ .at.un.sun_family = AF_UNIX, .len = sizeof(ret->at.un) };
	if (strlen(path) >= sizeof(ret->at.un.sun_path))
		return cbx_refuse(err, "invalid_argument", ENAMETOOLONG,
				  "%.80s...: too long for the name of a socket; use up to %zu bytes", path,
				  sizeof(ret->at.un.sun_path) - 1);
	strcpy(ret->at.un.sun_path, path);
	return 0;
}

int cbx_address_numeric(struct cbx_address *ret, const char *host, bool v6, uint16_t port)
{
	cbx_address_loopback(ret, v6, port);
	return inet_pton(v6 ? AF_INET6 : AF_INET, host,
			 v6 ? (void *)&ret->at.v6.sin6_addr : (void *)&ret->at.v4.sin_addr) == 1
		       ? 0
		       : -EINVAL;
}

bool cbx_sockaddr_is_loopback(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr) >> 24 == 127;
	return sa->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)sa)->sin6_addr);
}

bool cbx_address_is_local(const struct cbx_address *a)
{
	return a->at.any.sa_family == AF_UNIX || cbx_sockaddr_is_loopback(&a->at.any);
}

int cbx_address_of(int fd, struct cbx_address *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->len = sizeof(ret->at) - 1; /* a path ends with a NUL */
	return getsockname(fd, &ret->at.any, &ret->len) < 0 ? -errno : 0;
}

uint16_t cbx_address_port(const struct cbx_address *a)
{
	int family = a->at.any.sa_family;

	return family == AF_INET ? ntohs(a->at.v4.sin_port) : family == AF_INET6 ? ntohs(a->at.v6.sin6_port) : 0;
}

void cbx_address_print(const struct cbx_address *a, char ret[128])
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (a->at.any.sa_family == AF_UNIX) {
		snprintf(ret, 128, "%s", a->at.un.sun_path);
	} else if (a->at.any.sa_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &a->at.v6.sin6_addr, host, sizeof(host));
		snprintf(ret, 128, "[%s]:%u", host, cbx_address_port(a));
	} else {
		(void)inet_ntop(AF_INET, &a->at.v4.sin_addr, host, sizeof(host));
		snprintf(ret, 128, "%s:%u", host, cbx_address_port(a));
	}
}

/* Only what nobody listens on any more is removed: what else lies there is somebody's. */
static int make_way(const struct cbx_address *a, const char *name, struct cbx_err *err)
{
	_cleanup_fd_ int fd = -1;
	struct stat st;

	if (lstat(name, &st) < 0)
		return errno == ENOENT ? 0 : cbx_fail(err, errno, "look at %s", name);
	if (!S_ISSOCK(st.st_mode))
		return cbx_refuse(err, "not_a_socket", EEXIST,
				  "%s is there, and is not a socket; remove it, or name another place", name);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return cbx_fail(err, errno, "make a socket");
	if (connect(fd, &a->at.any, a->len) == 0 || errno == EAGAIN)
		return cbx_refuse(err, "daemon_running", EADDRINUSE,
				  "another process listens on %s; end it, or name another place", name);
	if (errno != ECONNREFUSED)
		return cbx_fail(err, errno, "find out whether a process listens on %s", name);
	if (unlink(name) < 0 && errno != ENOENT)
		return cbx_fail(err, errno, "remove the stale socket %s", name);
	return 0;
}

int cbx_listen(const struct cbx_address *a, const struct cbx_service *service, struct cbx_err *err)
{
	bool local = a->at.any.sa_family == AF_UNIX;
	_cleanup_fd_ int fd = -1;
	char name[128];
	mode_t mask;
	int r;

	cbx_address_print(a, name);
	if (local && make_way(a, name, err) < 0)
		return -err->code;
	fd = socket(a->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return cbx_fail(err, errno, "make a socket");
	if (!local)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	mask = umask(0177);
	r = bind(fd, &a->at.any, a->len);
	umask(mask);
	if (r < 0)
		return cbx_fail(err, errno, "listen on %s", name);
	r = local ? cbx_service_give_socket(service, name, err) : 0;
	if (r >= 0 && listen(fd, BACKLOG) < 0)
		r = cbx_fail(err, errno, "listen on %s", name);
	if (r < 0 && local)
		(void)unlink(name);
	return r < 0 ? r : take_fd(&fd);
}

bool cbx_is_listening(int fd)
{
	int listens = 0, type = 0;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

int cbx_peer_allowed(int fd, const struct cbx_service *service, uid_t *ret_uid)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	*ret_uid = peer.uid;
	return peer.uid == 0 || peer.uid == geteuid() || peer.uid == service->uid;
}
