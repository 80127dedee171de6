/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_CLIENT_H
#define CBX_CLI_CLIENT_H

/*
 * A client of codeboxd: find or start the daemon, connect, and speak the control protocol (daemon/control-protocol.h),
 * blocking. Used by the codebox command and by codebox-image.
 */
#include <stdbool.h>

#include "base/buf.h"
#include "base/dirs.h"
#include "base/err.h"
#include "base/json.h"

/* What a start left to know: whether this call started the daemon, and where in the log file its lines begin. */
struct cbx_daemon_start {
	bool started;
	off_t log_from;
};

/*
 * Connect to a socket of the daemon (CBX_CONTROL_SOCKET or CBX_MCP_SOCKET), starting the daemon when nobody listens.
 * Starting: under a lock in the run-time directory, the starter makes and listens on both sockets and hands them to
 * codeboxd as LISTEN_FDS, the way systemd would; so a connection succeeds at once, and there is one way to be started.
 * Returns a descriptor, or -errno. Without may_start and without a daemon: -ENOENT, kind "no_daemon".
 */
int cbx_daemon_reach(const struct cbx_dirs *dirs, const char *socket_name, int may_start,
		     struct cbx_daemon_start *ret_start, struct cbx_err *err);
/* Fill err for a daemon that closed the connection before it said anything: kind "daemon_gone", with the last lines of
 * its log. Returns -ECONNRESET. */
int cbx_daemon_gone(const struct cbx_dirs *dirs, const struct cbx_daemon_start *start, struct cbx_err *err);

/* Told about what is no failure, such as a log file that cannot be written. NULL (the default): nobody is. */
extern void (*cbx_daemon_warn)(const char *msg);

struct cbx_client {
	int fd;
	struct cbx_buf in;
	uint64_t next_id;
};

int cbx_client_open(const struct cbx_dirs *dirs, struct cbx_client *c, struct cbx_err *err);
/* Only to a daemon that runs already: -ENOENT, kind "no_daemon", when there is none. */
int cbx_client_open_running(const struct cbx_dirs *dirs, struct cbx_client *c, struct cbx_err *err);
void cbx_client_close(struct cbx_client *c);
/* Send a request (params is consumed, may be NULL); *ret_id is its id. */
int cbx_client_send(struct cbx_client *c, const char *method, cJSON *params, uint64_t *ret_id, struct cbx_err *err);
/* Next message, whatever it is; waits. 1: message; 0: end of file. Owned by the caller. */
int cbx_client_recv(struct cbx_client *c, cJSON **ret, struct cbx_err *err);
/* Whether a whole message is in the buffer already, so that waiting for the descriptor would miss it. */
bool cbx_client_pending(const struct cbx_client *c);
/* Is this the answer to request id? 1: yes, with the result (owned by the caller); 0: no; negative: yes, an error. */
int cbx_client_answer(cJSON *msg, uint64_t id, cJSON **ret, struct cbx_err *err);
/* Send and wait for the answer, ignoring events: 0 with the result (owned by the caller), or the daemon's error. */
int cbx_client_call(struct cbx_client *c, const char *method, cJSON *params, cJSON **ret, struct cbx_err *err);

#endif
