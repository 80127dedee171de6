/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/op.h"

void cbx_op_begin(struct cbx_op *op, struct cbx_op **held)
{
	assert(!op->held && op->ops);
	op->held = held;
	*held = op;
	LIST_INSERT_HEAD(&op->ops->pending, op, entry);
}

void cbx_op_cancel(struct cbx_op *op)
{
	if (!op->held)
		return;
	*op->held = NULL;
	op->held = NULL;
	LIST_REMOVE(op, entry);
}

void *cbx_op_take(struct cbx_op **held)
{
	struct cbx_op *op = *held;

	if (op)
		cbx_op_cancel(op);
	return op;
}

void cbx_ops_cancel(struct cbx_ops *ops)
{
	while (!LIST_EMPTY(&ops->pending))
		cbx_op_cancel(LIST_FIRST(&ops->pending));
}
