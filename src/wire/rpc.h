/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_WIRE_RPC_H
#define CBX_WIRE_RPC_H

/*
 * JSON-RPC 2.0, one connection: messages in, checked, each request with a slot for its answer; answers out, alone or as
 * a batch. Knows no method. What carries the bytes is below (struct cbx_rpc_io), who serves the methods is above
 * (struct cbx_rpc_events).
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/json.h"
#include "wire/codes.h"
#include "base/jsonscan.h"

struct cbx_rpc;
struct cbx_rpc_batch;
struct cbx_rpc_origin;

/* The carrier. A message goes out as one call, below CBX_REPLY_MAX bytes, without a newline. */
struct cbx_rpc_io {
	void (*send)(void *arg, const char *line, size_t len); /* must not free the connection */
	void *arg;
	/*
	 * For a carrier on which every request has a stream of its own (HTTP); both or none. What belongs to a request
	 * that came through cbx_rpc_message() with a stream goes to send_to: its notifications, and its answer, for
	 * which `code` is the code of its JSON-RPC error, or 0; for all else it is CBX_RPC_MORE. After the answer, or
	 * when there will be none, done is called once. Everything else still goes to send. Neither may free the
	 * connection.
	 */
	void (*send_to)(void *arg, void *stream, int code, const char *line, size_t len);
	void (*done)(void *arg, void *stream);
};

/* Where one answer goes. Every slot is ended by exactly one of answer, error and drop. All zero: an answer to nobody.
 */
struct cbx_rpc_slot {
	struct cbx_rpc *rpc;
	char *id;		       /* raw text, owned; NULL: "null" */
	struct cbx_rpc_batch *batch;   /* NULL: a message of its own */
	struct cbx_rpc_origin *origin; /* NULL: the connection itself */
	const void *tag;	       /* of whoever serves it, for before_answer */
};

/* A message that passed the checks. All borrowed for the call. */
struct cbx_rpc_message {
	struct cbx_raw text;
	const char *method;
	const cJSON *params; /* an object, or NULL */
};

struct cbx_rpc_events {
	void (*on_request)(void *arg, const struct cbx_rpc_message *m, struct cbx_rpc_slot *slot); /* takes the slot */
	void (*on_notification)(void *arg, const struct cbx_rpc_message *m);
	void (*on_answer)(void *arg, const cJSON *answer); /* to a request of ours: the whole message */
	bool (*takes_batches)(void *arg);
	/* An answer is about to be sent: others may be sent first. `head`, empty: members, each with a comma behind it,
	 * that its result is to begin with. `result` is printed JSON; NULL: it is an error. */
	void (*before_answer)(void *arg, const struct cbx_rpc_slot *slot, const struct cbx_buf *result,
			      struct cbx_buf *head);
};

struct cbx_rpc {
	struct cbx_rpc_io io;
	const struct cbx_rpc_events *events;
	void *arg;
	LIST_HEAD(, cbx_rpc_origin) origins; /* streams of the carrier */
	struct cbx_rpc_origin *origin;	     /* of the message that is being received */
	bool asked;			     /* it holds a request */
};

void cbx_rpc_init(struct cbx_rpc *rpc, const struct cbx_rpc_io *io, const struct cbx_rpc_events *events, void *arg);
void cbx_rpc_mute(
	struct cbx_rpc *rpc); /* the carrier has gone: nothing is sent any more; slots are still to be ended */

/* One line, without its newline. Blank ones are ignored. */
void cbx_rpc_line(struct cbx_rpc *rpc, const char *line, size_t len);
/* The same for a carrier with streams. False: nothing in it asks for an answer, and done will not be called. True: done
 * is called, before this returns or later. Until then `stream` must stay valid. */
bool cbx_rpc_message(struct cbx_rpc *rpc, const char *text, size_t len, void *stream);
/* The stream has gone: what belongs to it is still carried out, but goes nowhere, and done is not called. */
void cbx_rpc_forget(struct cbx_rpc *rpc, void *stream);
/* There was a line longer than CBX_MESSAGE_MAX, which the carrier has thrown away. */
void cbx_rpc_too_long(struct cbx_rpc *rpc);

void cbx_rpc_answer(struct cbx_rpc_slot *slot, cJSON *result); /* takes result */
void cbx_rpc_answer_text(struct cbx_rpc_slot *slot, const struct cbx_buf *result);
void cbx_rpc_error(struct cbx_rpc_slot *slot, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same with the error's data, which is taken. */
void cbx_rpc_error_data(struct cbx_rpc_slot *slot, int code, cJSON *data, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void cbx_rpc_errorv(struct cbx_rpc_slot *slot, int code, cJSON *data, const char *fmt, va_list ap)
	__attribute__((format(printf, 4, 0)));
void cbx_rpc_drop(struct cbx_rpc_slot *slot);
/* Bytes that an answer's result may have at most. */
size_t cbx_rpc_room(const struct cbx_rpc_slot *slot);
/* A notification that belongs to the request of this slot; a request to the client, in its course: what the client
 * answers is for on_answer. `params` is printed JSON. */
void cbx_rpc_notify(const struct cbx_rpc_slot *slot, const char *method, const struct cbx_buf *params);
void cbx_rpc_request(const struct cbx_rpc_slot *slot, const char *id, const char *method, const struct cbx_buf *params);

/* The message of an error, for carriers that refuse what never came to a connection. `id` is raw text; NULL: "null". */
void cbx_rpc_print_error(struct cbx_buf *out, const char *id, int code, const char *msg);

#endif
