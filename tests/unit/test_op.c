/* SPDX-License-Identifier: Apache-2.0 */
/* An operation ends once: it is carried out, or cancelled, by itself or with all of its caller's. */
#include "base/op.h"
#include "unit_main.h"

struct answer_op {
	struct cbx_op op;
	int answers, value;
};

/* Somebody's record of what is to be answered. */
struct record {
	struct cbx_op *op;
};

static void carry_out(struct record *r, int value)
{
	struct answer_op *a = cbx_op_take(&r->op);

	if (!a)
		return;
	a->answers++;
	a->value = value;
}

START_TEST(ends_once)
{
	struct cbx_ops ops = { 0 };
	struct answer_op a = { .op.ops = &ops };
	struct record r = { 0 };

	ck_assert(!cbx_op_pending(&a.op));
	cbx_op_begin(&a.op, &r.op);
	ck_assert(cbx_op_pending(&a.op));
	carry_out(&r, 7);
	ck_assert(!cbx_op_pending(&a.op));
	ck_assert(LIST_EMPTY(&ops.pending));
	carry_out(&r, 8);
	ck_assert_int_eq(a.answers, 1);
	ck_assert_int_eq(a.value, 7);
	cbx_op_cancel(&a.op); /* there is nothing to cancel */
	cbx_op_begin(&a.op, &r.op);
	carry_out(&r, 9);
	ck_assert_int_eq(a.answers, 2);
}
END_TEST

START_TEST(cancelled)
{
	struct cbx_ops ops = { 0 };
	struct answer_op a = { .op.ops = &ops };
	struct record r = { 0 };

	cbx_op_begin(&a.op, &r.op);
	cbx_op_cancel(&a.op);
	ck_assert(!cbx_op_pending(&a.op));
	ck_assert_ptr_null(r.op);
	carry_out(&r, 7);
	cbx_op_cancel(&a.op);
	ck_assert_int_eq(a.answers, 0);
}
END_TEST

START_TEST(cancelled_with_all)
{
	struct cbx_ops mine = { 0 }, others = { 0 };
	struct answer_op a[3] = { { .op.ops = &mine }, { .op.ops = &others }, { .op.ops = &mine } };
	struct record r[3] = { 0 };

	for (int i = 0; i < 3; i++)
		cbx_op_begin(&a[i].op, &r[i].op);
	cbx_ops_cancel(&mine);
	cbx_ops_cancel(&mine);
	for (int i = 0; i < 3; i++)
		carry_out(&r[i], i);
	ck_assert_int_eq(a[0].answers + a[2].answers, 0);
	ck_assert_int_eq(a[1].answers, 1);
	ck_assert(LIST_EMPTY(&others.pending));
}
END_TEST

START_TEST(found_by_its_member)
{
	struct {
		int before;
		struct answer_op a;
	} whole;

	ck_assert_ptr_eq(cbx_container_of(&whole.a.op, struct answer_op, op), &whole.a);
	ck_assert_ptr_eq(cbx_container_of(&whole.a, __typeof__(whole), a), &whole);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, ends_once);
	tcase_add_test(t, cancelled);
	tcase_add_test(t, cancelled_with_all);
	tcase_add_test(t, found_by_its_member);
}

TEST_MAIN("operations", add)
