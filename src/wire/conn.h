/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_WIRE_CONN_H
#define CBX_WIRE_CONN_H

/*
 * A connection that carries lines, both ways. Nothing here blocks, and a peer that does not read costs at most
 * CBX_CLIENT_QUEUE_MAX bytes: far before that its own requests are no longer read, at that it is closed.
 *
 * The ops are called from the event loop. on_close is the last of them, called exactly once, also after
 * cbx_conn_close(); nothing can be sent from then on. A connection frees itself.
 */
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

struct cbx_conn;

struct cbx_conn_ops {
	void (*on_line)(void *state, char *line, size_t len); /* NUL-terminated, without its newline */
	void (*on_too_long)(void *state);		      /* a line over CBX_MESSAGE_MAX was thrown away */
	void (*on_close)(void *state); /* the peer has gone, or cbx_conn_close(); state is the callee's to free */
	void (*on_stop)(void *state);  /* optional; a last message may be sent */
	/* Optional. The peer will send no more, but may still read: whether it is owed anything. Asked again after all
	 * that is sent from then on; false closes the connection. Without it the end of what comes is the end. */
	bool (*on_end)(void *state);
	/* Optional. The peer has taken something, and less than CBX_STREAM_RESUME is left. */
	void (*on_room)(void *state);
};

/* Takes fd. `gone` is called when the connection is about to be freed. NULL: out of memory, fd is closed. */
struct cbx_conn *cbx_conn_new(struct event_base *base, int fd, const struct cbx_conn_ops *ops, void *state,
			      void (*gone)(void *arg), void *arg);
/* A newline is added. It goes out at the end of this turn of the event loop. Ignored once the connection is closing. */
void cbx_conn_send(struct cbx_conn *conn, const char *line, size_t len);
/* A line, and n bytes behind its newline. */
void cbx_conn_send_bytes(struct cbx_conn *conn, const char *line, size_t len, const void *p, size_t n);
/* Bytes that the peer has not taken yet. */
size_t cbx_conn_pending(const struct cbx_conn *conn);
int cbx_conn_fd(const struct cbx_conn *conn); /* borrowed */
/* No more lines; what is pending is still sent, for a short while. */
void cbx_conn_close(struct cbx_conn *conn);
/* The daemon is about to end: on_stop, unless the connection is closing; cbx_conn_free() follows. */
void cbx_conn_stop(struct cbx_conn *conn);
/* At once: on_close and gone are called before this returns. */
void cbx_conn_free(struct cbx_conn *conn);

#endif
