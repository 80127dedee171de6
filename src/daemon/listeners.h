/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_LISTENERS_H
#define CBX_DAEMON_LISTENERS_H

/* The two sockets: where they come from, and what becomes of their names. Who connects is the callers' business. */
#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/dirs.h"
#include "base/err.h"
#include "base/limits.h"
#include "wire/listener.h"

enum cbx_socket_kind { CBX_SOCKET_CONTROL, CBX_SOCKET_MCP, CBX_SOCKETS };

struct cbx_listeners {
	struct cbx_daemon_socket {
		int fd; /* until it is served; -1: there is none */
		char *path;
		dev_t dev; /* of the socket's file when the daemon started: only that one is ever removed */
		ino_t ino;
		struct cbx_listener *listener;
	} sockets[CBX_SOCKETS];
	bool own; /* their files are removed at the end */
	int http[CBX_HTTP_LISTENERS_MAX]; /* others that were passed: of TCP, or named http.sock */
	size_t nhttp;
};
#define CBX_LISTENERS_NONE { .sockets = { { .fd = -1 }, { .fd = -1 } } }

/* 1: at least one is there; 0: none was given. */
int cbx_listeners_from_environment(struct cbx_listeners *ls, struct cbx_err *err);
/* Make them, with the run-time directory's lock. */
int cbx_listeners_make(struct cbx_listeners *ls, const struct cbx_dirs *dirs, const struct cbx_service *service,
		       int lock, struct cbx_err *err);
/* From now on on_accept[kind] gets who connects. */
int cbx_listeners_start(struct cbx_listeners *ls, struct event_base *base,
			void (*const on_accept[CBX_SOCKETS])(void *arg, int fd), void *arg, struct cbx_err *err);
size_t cbx_listeners_accept(struct cbx_listeners *ls); /* what is waiting now; how many */
void cbx_listeners_unlink(struct cbx_listeners *ls);
void cbx_listeners_close(struct cbx_listeners *ls);

#endif
