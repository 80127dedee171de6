/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_INTERP_INPUT_H
#define CBX_INTERP_INPUT_H

/*
 * The standard input of a cell that has one.
 */
#include <event2/event.h>
#include <stddef.h>

#include "base/err.h"
#include "base/op.h"

/* Input was taken, or cannot be. */
struct cbx_input_op {
	struct cbx_op op;
	void (*done)(struct cbx_input_op *op, const struct cbx_err *err); /* calls nothing of the engine */
};

struct cbx_feed;

/* The pipe of an interpreter: its end into *ret_theirs, and a name for it, never to be read or changed, into
 * *ret_name. */
int cbx_feed_pipe(int *ret_name, int *ret_theirs, struct cbx_err *err);
/* For one cell, by that name. What an earlier one did not read is forgotten. */
int cbx_feed_open(int name, struct event_base *base, struct cbx_feed **ret, struct cbx_err *err);
/* Into a pipe that has this one use; takes fd, its end to write to. */
int cbx_feed_new(int fd, struct event_base *base, struct cbx_feed **ret, struct cbx_err *err);
/* 1: the pipe took all of it. 0: it takes time, and the operation is pending. Error: "busy". */
int cbx_feed_give(struct cbx_feed *feed, const char *p, size_t n, struct cbx_input_op *op, struct cbx_err *err);
/* The end of the input: what the pipe holds can still be read. Returns 1; error: "busy". */
int cbx_feed_finish(struct cbx_feed **feed, struct cbx_err *err);
/* The end of the cell. NULL-safe; whoever waits learns why. How many bytes were left in the pipe. */
size_t cbx_feed_close(struct cbx_feed **feed, const struct cbx_err *why);

#endif
