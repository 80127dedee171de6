/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_OP_H
#define CBX_BASE_OP_H

/*
 * Operations: how a call is answered that cannot be answered at once.
 *
 * The struct is the caller's, the first member of a typed one that also has the function to be called:
 *
 *	struct page { struct cbx_file_op read; … };
 *	page->read = (struct cbx_file_op){ .op.ops = &caller->ops, .done = page_read };
 *	r = cbx_session_file_read(session, path, 0, max, &page->read, &err);
 *
 * A call that fails leaves the operation as it was, and calls nothing. Else the operation is pending: it is in the list
 * of its caller, and stays where it is, until `done` is called, once and never from inside the call; or until it is
 * cancelled, after which nothing is called. When `done` is called it is not pending any more: it may be freed, or used
 * for the next call. Cancelling takes no work back: a file that is being written is written.
 *
 * Whoever carries it out keeps the one pointer to it, which cancelling makes NULL. So neither side needs to know if the
 * other is still there.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct cbx_op;

/* The pending ones of one caller. All zero: none. */
struct cbx_ops {
	LIST_HEAD(, cbx_op) pending;
};

struct cbx_op {
	struct cbx_ops *ops; /* set by the caller; the list outlives what is pending in it */
	LIST_ENTRY(cbx_op) entry;
	struct cbx_op **held; /* the only pointer to it, of whoever carries it out; NULL: not pending */
};

/* ---- for callers ---- */

static inline bool cbx_op_pending(const struct cbx_op *op)
{
	return op->held;
}

void cbx_op_cancel(struct cbx_op *op);	  /* does nothing when it is not pending */
void cbx_ops_cancel(struct cbx_ops *ops); /* all of them */

/* One that is answered with JSON, or an error: the other is NULL. */
struct cJSON;
struct cbx_err;
struct cbx_answer_op {
	struct cbx_op op;
	void (*done)(struct cbx_answer_op *op, const struct cJSON *answer, const struct cbx_err *err);
};

/* The struct that a member is part of: how `done` finds what it is for. */
#define cbx_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

/* ---- for those who carry them out ---- */

/* From now on it is pending. *held is where it will be looked for, and does not move. */
void cbx_op_begin(struct cbx_op *op, struct cbx_op **held);
/* It ends: what *held was, for `done` to be called; NULL when it was cancelled or has ended. *held is NULL then. */
void *cbx_op_take(struct cbx_op **held);

#endif
