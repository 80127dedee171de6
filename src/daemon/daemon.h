/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_DAEMON_H
#define CBX_DAEMON_DAEMON_H

/*
 * What the files of codeboxd share.
 *
 *   main.c       options, the order of giving up privileges, the loop
 *   confine.c    what codeboxd itself may do from then on
 *   listeners.c  the two sockets: where they come from, who may connect
 *   lifecycle.c  when the daemon ends: idle, signals, "stop", the supervisor's end
 *   conn.c       lines over a connection
 *   control.c    the control protocol: requests and answers; control_ops.c: each of its methods
 *   mcp_conn.c   MCP over a connection
 */
#include <event2/event.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "base/dirs.h"
#include "base/err.h"
#include "cgroup/tree.h"
#include "daemon/conn.h"
#include "http/http.h"
#include "sandbox/seccomp.h"
#include "session/session.h"

enum cbx_listener_kind { CBX_LISTEN_CONTROL, CBX_LISTEN_MCP, CBX_LISTENERS };

struct cbx_listener {
	struct cbx_daemon *daemon;
	enum cbx_listener_kind kind;
	int fd;
	struct event *event;
	struct event *rest; /* accepting again after descriptors had run out */
	char *path;
	dev_t dev; /* of the socket's file when the daemon started: only that one is ever removed */
	ino_t ino;
};

struct cbx_client_entry {
	TAILQ_ENTRY(cbx_client_entry) entry;
	struct cbx_daemon *daemon;
	struct cbx_conn *conn;
};
TAILQ_HEAD(cbx_client_list, cbx_client_entry);

struct cbx_daemon {
	struct event_base *base;
	struct cbx_policy *policy; /* NULL: it could not be read */
	struct cbx_engine *engine;
	struct cbx_dirs dirs;
	struct cbx_service service;
	struct cbx_cgroup_tree cgroup;
	unsigned freeze_idle_s;
	struct cbx_listener listeners[CBX_LISTENERS];
	struct cbx_http *http; /* NULL: not asked for */
	struct cbx_client_list clients;
	size_t nclients;
	int lock_fd;	  /* <runtime>/lock */
	bool own_sockets; /* their files are removed at the end */
	bool on_terminal; /* standard error is one */
	unsigned idle_s;  /* 0: never ends by itself */
	struct event *idle, *term, *intr, *hup, *rotate;
	int last_words; /* a connection that asked for the end, closed by the end itself; or -1 */
	struct cbx_filter filter; /* between reading it and loading it */
	struct cbx_err filter_trouble; /* code 0: none */
	unsigned filter_rules;	/* of codeboxd's own system call filter; 0: not confined yet */
	unsigned landlock_abi;	/* 0: the kernel has no Landlock */
	int exit_status;
	bool stopping;
};

/* listeners.c */
int cbx_listeners_from_environment(struct cbx_daemon *d,
				   struct cbx_err *err); /* 1: both are there; 0: none was given */
int cbx_listeners_make(struct cbx_daemon *d, struct cbx_err *err);
int cbx_listeners_start(struct cbx_daemon *d, struct cbx_err *err);
int cbx_listeners_accept(struct cbx_daemon *d); /* what is waiting now; how many */
void cbx_listeners_unlink(struct cbx_daemon *d);
void cbx_listeners_close(struct cbx_daemon *d);

/* confine.c: read the list of codeboxd's own system calls, with the ids that it was started with: an installation below
 * root's home is not for the service id to see. What went wrong is told by cbx_daemon_confine(). */
void cbx_daemon_read_filter(struct cbx_daemon *d);
/* Wait for the supervisor, then give up what a server does not need. */
int cbx_daemon_confine(struct cbx_daemon *d, struct cbx_err *err);

/* lifecycle.c */
int cbx_lifecycle_start(struct cbx_daemon *d, struct cbx_err *err);
void cbx_lifecycle_busy(struct cbx_daemon *d);	/* a client came */
void cbx_lifecycle_check(struct cbx_daemon *d); /* a client or session went */
void cbx_lifecycle_stop(struct cbx_daemon *d, int status, const char *why);
void cbx_lifecycle_release(struct cbx_daemon *d);

/* control.c, mcp_conn.c: 0, or -ENOMEM; fd is taken. */
int cbx_control_accept(struct cbx_daemon *d, int fd, struct cbx_client_entry *client);
int cbx_mcp_accept(struct cbx_daemon *d, int fd, struct cbx_client_entry *client);
void cbx_client_gone(void *client); /* the `gone` of both */

#endif
