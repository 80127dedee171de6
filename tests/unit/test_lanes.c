/* SPDX-License-Identifier: Apache-2.0 */
/* Who counts as one that computes, and how many processors the others get. */
#include <check.h>
#include <stdint.h>

#include "supervisor/lanes.h"
#include "base/limits.h"
#include "unit_main.h"

static struct cbx_lanes machine(int processors)
{
	struct cbx_lanes l;

	cbx_lanes_init(&l);
	l.able = processors > 1;
	CPU_ZERO(&l.all);
	for (int i = 0; i < processors; i++)
		CPU_SET(2 * i, &l.all); /* those between are not ours */
	return l;
}

/* So much of a processor (in thousandths) from each look to the next, looks times. */
static void uses(struct cbx_pace *p, const struct cbx_lanes *l, unsigned share, int looks)
{
	for (int i = 0; i < looks; i++)
		cbx_pace_take(p, l, p->cpu_ns + (uint64_t)share * 1000 * CBX_WATCH_MS,
			      (p->at_ms ? p->at_ms : 1000) + CBX_WATCH_MS);
}

START_TEST(computing)
{
	struct cbx_lanes l = machine(2);
	struct cbx_pace p = { 0 };

	uses(&p, &l, 1000, 1);
	ck_assert(!p.slow); /* of the first look it is not known how long that took */
	uses(&p, &l, 300, 10);
	ck_assert(!p.slow);
	ck_assert_uint_eq(p.share, 300);
	uses(&p, &l, 900, 1);
	ck_assert(p.slow);
	uses(&p, &l, 0, 1); /* a pause is not an end */
	uses(&p, &l, 200, 20);
	ck_assert(p.slow);
	uses(&p, &l, 10, 3);
	ck_assert(p.slow);
	uses(&p, &l, 10, 1);
	ck_assert(!p.slow);
	/* What a child used, and nobody has waited for, is not seen any more. */
	cbx_pace_take(&p, &l, p.cpu_ns - 1000000, p.at_ms + CBX_WATCH_MS);
	ck_assert_uint_eq(p.share, 0);
	/* Two looks one behind the other tell nothing. */
	cbx_pace_take(&p, &l, p.cpu_ns + 1000000, p.at_ms + 1);
	ck_assert_uint_eq(p.share, 0);
	ck_assert(!p.slow);
}
END_TEST

START_TEST(many)
{
	struct cbx_lanes l = machine(2);
	struct cbx_demand d = { 0 };
	struct cbx_pace p[10] = { 0 };

	/* Ten that always want more get a fifth each. */
	for (int i = 0; i < 10; i++) {
		uses(&p[i], &l, 200, 2);
		ck_assert(!p[i].slow);
		cbx_demand_add(&d, &p[i], p[i].at_ms);
	}
	cbx_lanes_divide(&l, &d);
	for (int i = 0; i < 10; i++) {
		uses(&p[i], &l, 200, 1);
		ck_assert(p[i].slow);
	}
}
END_TEST

static struct cbx_demand demand(const struct cbx_lanes *l, unsigned quick_share, int quick)
{
	struct cbx_demand d = { 0 };
	struct cbx_pace slow = { 0 }, other = { 0 };

	uses(&slow, l, 1000, 2);
	cbx_demand_add(&d, &slow, slow.at_ms);
	for (int i = 0; i < quick; i++) {
		other = (struct cbx_pace){ 0 };
		uses(&other, l, quick_share, 2);
		other.used_ms = other.at_ms;
		cbx_demand_add(&d, &other, other.at_ms);
	}
	return d;
}

START_TEST(division)
{
	static const struct {
		int processors, quick;
		unsigned share;
		int expected; /* of the quick; 0: not divided */
	} cases[] = {
		{ 1, 1, 10, 0 },    { 2, 0, 0, 0 },	{ 2, 1, 0, 1 },	    { 2, 2, 300, 1 },	{ 2, 3, 300, 0 },
		{ 3, 2, 300, 1 },   { 8, 1, 10, 1 },	{ 8, 3, 300, 2 },   { 8, 9, 300, 4 },	{ 8, 20, 300, 0 },
	  { 64, 20, 300, 12 }, { 512, 1, 300, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct cbx_lanes l = machine(cases[i].processors);
		struct cbx_demand d = demand(&l, cases[i].share, cases[i].quick);
		cpu_set_t both;

		cbx_lanes_divide(&l, &d);
		ck_assert_int_eq(l.on, cases[i].expected != 0);
		if (!l.on)
			continue;
		ck_assert_int_eq(CPU_COUNT(&l.quick), cases[i].expected);
		CPU_AND(&both, &l.quick, &l.slow);
		ck_assert_int_eq(CPU_COUNT(&both), 0);
		CPU_OR(&both, &l.quick, &l.slow);
		ck_assert(CPU_EQUAL(&both, &l.all));
	}
}
END_TEST

START_TEST(nobody_is_waited_for)
{
	struct cbx_lanes l = machine(2);
	struct cbx_demand d = { 0 };
	struct cbx_pace slow = { 0 }, idle = { 0 };

	uses(&slow, &l, 1000, 2);
	uses(&idle, &l, 10, 2);
	cbx_demand_add(&d, &slow, slow.at_ms);
	cbx_demand_add(&d, &idle, idle.at_ms); /* never used: it waits in the pool */
	cbx_lanes_divide(&l, &d);
	ck_assert(!l.on);
	idle.used_ms = idle.at_ms;
	d = (struct cbx_demand){ .slow = true };
	cbx_demand_add(&d, &idle, idle.at_ms + CBX_LANE_KEEP_MS - 1);
	cbx_lanes_divide(&l, &d);
	ck_assert(l.on);
	d = (struct cbx_demand){ .slow = true };
	cbx_demand_add(&d, &idle, idle.at_ms + CBX_LANE_KEEP_MS);
	cbx_lanes_divide(&l, &d);
	ck_assert(!l.on);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, computing);
	tcase_add_test(t, many);
	tcase_add_test(t, division);
	tcase_add_test(t, nobody_is_waited_for);
}

TEST_MAIN("lanes", add)
