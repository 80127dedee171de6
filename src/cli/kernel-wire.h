/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_KERNEL_WIRE_H
#define CBX_CLI_KERNEL_WIRE_H

/* Jupyter's messages on ZeroMQ sockets: signed, and each an answer to another. */
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define CBX_KERNEL_IDS_MAX 8

struct cbx_wire {
	void *zmq, *shell, *control, *input, *iopub, *heartbeat;
	struct cbx_buf key; /* of the signatures; empty: there are none */
	char session[33];
	char name[24]; /* one for a session of codebox: the same for the same connection file */
	uint64_t serial;
};

/* What a client has asked for. */
struct cbx_wire_request {
	void *socket;
	struct cbx_buf ids[CBX_KERNEL_IDS_MAX];
	size_t nids;
	struct cbx_buf header; /* its text */
	struct cbx_json_doc header_doc, content_doc;
	const char *type;     /* borrowed, as content is */
	const cJSON *content; /* an object */
};

/* By the connection file of a Jupyter client. */
int cbx_wire_open(const char *file, struct cbx_wire *w, struct cbx_err *err);
void cbx_wire_close(struct cbx_wire *w);
/* The next request of a socket. 1; 0: there is none, or it was not one, or not signed by this client: dropped. */
int cbx_wire_receive(struct cbx_wire *w, void *socket, struct cbx_wire_request *ret);
void cbx_wire_release(struct cbx_wire_request *q);
/* Send a message that belongs to the request: to who asked, to all (iopub), or to who
 * asked where he types (stdin). Takes content. */
void cbx_wire_reply(struct cbx_wire *w, const struct cbx_wire_request *q, const char *type, cJSON *content);
void cbx_wire_publish(struct cbx_wire *w, const struct cbx_wire_request *q, const char *type, cJSON *content);
void cbx_wire_ask(struct cbx_wire *w, const struct cbx_wire_request *q, const char *type, cJSON *content);
void cbx_wire_echo(struct cbx_wire *w); /* a heartbeat */

#endif
