/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLIENT_CLIENT_H
#define CBX_CLIENT_CLIENT_H

/*
 * A client of codeboxd: find or start the daemon, connect, and speak the control protocol (client/protocol.h),
 * blocking. Used by the codebox command, codebox-repl and codebox-image.
 *
 *   client.c   requests and answers
 *   reach.c    a connection to the daemon, which is started if it does not run
 *   launch.c   the start
 *   remote.c   files of a session
 */
#include <stdbool.h>

#include "base/buf.h"
#include "base/dirs.h"
#include "base/err.h"
#include "base/json.h"

struct cbx_client {
	int fd;
	struct cbx_buf in;
	uint64_t next_id;
};

/* If none runs, a daemon is started; without may_start: -ENOENT, kind "no_daemon". warn: see struct cbx_reach. */
int cbx_client_open(const struct cbx_dirs *dirs, bool may_start, void (*warn)(const char *msg), struct cbx_client *c,
		    struct cbx_err *err);
void cbx_client_close(struct cbx_client *c);
/* Send a request (params is consumed, may be NULL); *ret_id is its id. */
int cbx_client_send(struct cbx_client *c, const char *method, cJSON *params, uint64_t *ret_id, struct cbx_err *err);
/* Next message, whatever it is; waits. 1: message; 0: end of file. Owned by the caller. */
int cbx_client_recv(struct cbx_client *c, cJSON **ret, struct cbx_err *err);
/* Of the bytes behind a message that announced them, some, at most max; waits for them. 0: end of file. */
ssize_t cbx_client_bytes(struct cbx_client *c, char *p, size_t max, struct cbx_err *err);
/* Whether a whole message is in the buffer already, so that waiting for the descriptor would miss it. */
bool cbx_client_pending(const struct cbx_client *c);
/* Is this the answer to request id? 1: yes, with the result (owned by the caller); 0: no; negative: yes, an error. */
int cbx_client_answer(cJSON *msg, uint64_t id, cJSON **ret, struct cbx_err *err);
/* Send and wait for the answer, ignoring events: 0 with the result (owned by the caller), or the daemon's error. */
int cbx_client_call(struct cbx_client *c, const char *method, cJSON *params, cJSON **ret, struct cbx_err *err);

#endif
