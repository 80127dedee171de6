/* SPDX-License-Identifier: Apache-2.0 */
/* However many tenants and kinds of errors there are, the series of /metrics are bounded, and nothing is lost. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "observe/metrics.h"
#include "unit_main.h"

START_TEST(many_tenants)
{
	struct cbx_metrics *m = cbx_metrics_new();
	char name[24];
	uint64_t sum = 0;

	for (int i = 0; i < CBX_METRICS_TENANTS_MAX + 100; i++) {
		snprintf(name, sizeof(name), "tenant-%d", i);
		cbx_metrics_count(
			m, &(struct cbx_happened){
				   .what = CBX_HAPPENED_RAN, .tenant = name, .outcome = "ok", .duration_ms = 3 });
	}
	for (size_t i = 0; i < CBX_METRICS_TENANTS_MAX; i++)
		sum += m->tenants[i].cells;
	ck_assert_uint_eq(sum, CBX_METRICS_TENANTS_MAX);
	ck_assert_uint_eq(m->others.cells, 100);
	ck_assert_uint_eq(m->cells[CBX_OK], CBX_METRICS_TENANTS_MAX + 100);
	ck_assert_uint_eq(m->run.in[2], CBX_METRICS_TENANTS_MAX + 100); /* above 2, up to 5 */
	ck_assert_uint_eq(m->run.sum_ms, 3 * (CBX_METRICS_TENANTS_MAX + 100));
	ck_assert_uint_eq(m->wait.in[0], CBX_METRICS_TENANTS_MAX + 100);
	ck_assert_ptr_eq(cbx_metrics_tenant(m, "tenant-7"), cbx_metrics_tenant(m, "tenant-7"));
	ck_assert_str_eq(cbx_metrics_tenant(m, "tenant-7")->name, "tenant-7");
	ck_assert_str_eq(cbx_metrics_tenant(m, "another")->name, "(others)");
	cbx_metrics_free(m);
}
END_TEST

START_TEST(many_kinds)
{
	struct cbx_metrics *m = cbx_metrics_new();
	char kind[24];

	for (int i = 0; i < CBX_METRICS_KINDS_MAX + 10; i++) {
		snprintf(kind, sizeof(kind), "kind_%d", i);
		cbx_metrics_count(m, &(struct cbx_happened){ .what = CBX_HAPPENED_DENIED, .outcome = kind, .why = "" });
	}
	cbx_metrics_count(m, &(struct cbx_happened){ .what = CBX_HAPPENED_DENIED, .outcome = "kind_0", .why = "" });
	ck_assert_str_eq(m->denials[0].kind, "kind_0");
	ck_assert_uint_eq(m->denials[0].n, 2);
	ck_assert_str_eq(m->denials[CBX_METRICS_KINDS_MAX - 1].kind, "(others)");
	ck_assert_uint_eq(m->denials[CBX_METRICS_KINDS_MAX - 1].n, 11);
	cbx_metrics_free(m);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, many_tenants);
	tcase_add_test(t, many_kinds);
}

TEST_MAIN("metrics", add)
