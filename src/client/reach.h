/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLIENT_REACH_H
#define CBX_CLIENT_REACH_H

/* A connection to codeboxd, which is started if it does not run. */
#include <stdbool.h>
#include <sys/types.h>

#include "base/dirs.h"
#include "base/err.h"

struct cbx_reach {
	void (*warn)(const char *msg); /* gets what is not a failure: the log cannot be kept; or NULL */
	bool started;		       /* by the last cbx_daemon_reach() */
	off_t log_from;		       /* where the lines of that daemon begin in the log */
};

/*
 * Connect to a socket of the daemon (CBX_CONTROL_SOCKET or CBX_MCP_SOCKET), starting the daemon when none listens.
 * Starting: under a lock in the run-time directory, the starter makes and listens on both sockets and hands them to
 * codeboxd as LISTEN_FDS, the way systemd would; so a connection succeeds at once, and there is one way to be started.
 * Returns a descriptor, or -errno. Without may_start and without a daemon: -ENOENT, kind "no_daemon".
 */
int cbx_daemon_reach(const struct cbx_dirs *dirs, const char *socket_name, bool may_start, struct cbx_reach *reach,
		     struct cbx_err *err);
/* Fill err for a daemon that closed the connection before it said anything: kind "daemon_gone", with the last lines of
 * its log. Returns -ECONNRESET. */
int cbx_daemon_gone(const struct cbx_dirs *dirs, const struct cbx_reach *reach, struct cbx_err *err);

#endif
