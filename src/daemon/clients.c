/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: every client's user is checked with the kernel's word for it, since a directory's mode is easily
 * changed by accident. A connection belongs to its entry here until it has gone.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/socket.h"
#include "daemon/control_ops.h"
#include "daemon/daemon.h"
#include "daemon/mcp_conn.h"

static void gone(void *arg)
{
	struct cbx_client_entry *client = arg;
	struct cbx_daemon *d = client->daemon;

	TAILQ_REMOVE(&d->clients, client, entry);
	d->nclients[client->kind]--;
	free(client);
	cbx_lifecycle_check(&d->lifecycle);
}

static bool may_connect(const struct cbx_daemon *d, int fd)
{
	uid_t uid = 0;
	int r = cbx_peer_allowed(fd, &d->service, &uid);

	if (r == 0)
		cbx_warn("refused a connection of user %u", (unsigned)uid);
	return r > 0;
}

static bool have_room(const struct cbx_daemon *d, int fd, enum cbx_socket_kind kind)
{
	static const char text[] = "{\"id\":null,\"error\":{\"kind\":\"too_many_clients\",\"message\":"
				   "\"codeboxd has as many connections as it allows; close one and try again\"}}\n";

	if (cbx_daemon_clients(d) < CBX_CLIENTS_MAX)
		return true;
	if (kind == CBX_SOCKET_CONTROL && send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		cbx_debug("a client over the limit did not get its answer");
	cbx_warn("refused a connection: there are %d already", CBX_CLIENTS_MAX);
	return false;
}

static void serve(struct cbx_daemon *d, int fd, enum cbx_socket_kind kind)
{
	struct cbx_client_entry *client;

	if (!may_connect(d, fd) || !have_room(d, fd, kind)) {
		close(fd);
		return;
	}
	client = cbx_xcalloc(1, sizeof(*client));
	client->daemon = d;
	client->kind = kind;
	client->conn = kind == CBX_SOCKET_CONTROL
			       ? cbx_control_accept(d, cbx_control_methods, fd, gone, client)
			       : cbx_mcp_accept(d, fd, gone, client);
	if (!client->conn) {
		free(client);
		return;
	}
	TAILQ_INSERT_TAIL(&d->clients, client, entry);
	d->nclients[kind]++;
}

static void serve_control(void *arg, int fd)
{
	serve(arg, fd, CBX_SOCKET_CONTROL);
}

static void serve_mcp(void *arg, int fd)
{
	serve(arg, fd, CBX_SOCKET_MCP);
}

int cbx_clients_listen(struct cbx_daemon *d, struct cbx_err *err)
{
	static void (*const serve_kind[CBX_SOCKETS])(void *arg, int fd) = { serve_control, serve_mcp };

	return cbx_listeners_start(&d->listeners, d->base, serve_kind, d, err);
}

void cbx_clients_end(struct cbx_daemon *d)
{
	struct cbx_client_entry *client;

	while ((client = TAILQ_FIRST(&d->clients))) {
		cbx_conn_stop(client->conn);
		cbx_conn_free(client->conn);
	}
}
