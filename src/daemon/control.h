/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_CONTROL_H
#define CBX_DAEMON_CONTROL_H

/* Inside of the control protocol's server; see control-protocol.h for what is spoken. */
#include <sys/queue.h>

#include "base/json.h"
#include "daemon/daemon.h"

struct cbx_control_request {
	TAILQ_ENTRY(cbx_control_request) entry;
	struct cbx_control *control; /* NULL once the connection has gone; the request is then freed by its callback */
	uint64_t id;
	struct cbx_execution *x; /* run: while it is watched */
	uint64_t skipped;	 /* bytes of output that a slow client was spared */
	uint64_t offset;	 /* file.read */
};
TAILQ_HEAD(cbx_control_requests, cbx_control_request);

struct cbx_control {
	struct cbx_daemon *daemon;
	struct cbx_conn *conn;
	struct cbx_control_requests requests;
	size_t nrequests;
	char own[CBX_NAME_MAX + 1]; /* the session made for this connection; "" */
};

/* control.c: answer and forget a request. result is taken. */
void cbx_control_answer(struct cbx_control_request *q, cJSON *result);
void cbx_control_refuse(struct cbx_control_request *q, const struct cbx_err *err);
void cbx_control_event(struct cbx_control_request *q, cJSON *event); /* taken; "request" is added */

/*
 * control_ops.c: carry out a request that was found well-formed. Returns 0 when it is answered or will be from the
 * event loop, or -errno with the error to be sent.
 */
typedef int (*cbx_control_fn)(struct cbx_control_request *q, const cJSON *params, struct cbx_err *err);
struct cbx_control_method {
	const char *name;
	cbx_control_fn fn;
	const char *keys[12]; /* accepted members of params, NULL behind the last */
	bool spec;            /* and those of cbx_session_spec_parse() */
};
const struct cbx_control_method *cbx_control_find(const char *name);

#endif
