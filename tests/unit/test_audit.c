/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log itself: its longest lines, floods, a disk that is full, and what a reader makes of the file. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "observe/audit.h"
#include "observe/chain.h"
#include "unit_main.h"

static char dir[] = "/tmp/test_audit.XXXXXX", path[64];

static struct cbx_audit *opened(bool code)
{
	struct cbx_audit *a = NULL;
	struct cbx_err err = { 0 };

	ck_assert_msg(cbx_audit_open(path, code, &a, &err) >= 0, "%s", err.msg);
	return a;
}

/* Its lines follow each other; how many they are. */
static uint64_t verified(struct cbx_chain *ret)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_err err = { 0 };
	bool open = false;

	memset(ret, 0, sizeof(*ret));
	ck_assert_ptr_ne(f, NULL);
	ck_assert_int_ge(cbx_read_whole(fileno(f), MIB(64), &text), 0);
	ck_assert_msg(cbx_chain_read_all(ret, text.data, text.len, false, &open, &err) >= 0, "%s", err.msg);
	return ret->lines;
}

static void fresh(void)
{
	if (!path[0]) {
		ck_assert_ptr_ne(mkdtemp(dir), NULL);
		snprintf(path, sizeof(path), "%s/log", dir);
	}
	(void)unlink(path);
}

START_TEST(long_lines)
{
	_cleanup_free_ char *code = cbx_xcalloc(1, CBX_CODE_MAX + 1);
	struct cbx_chain chain;
	struct cbx_audit *a;
	struct stat st;

	fresh();
	a = opened(true);
	memset(code, 1, CBX_CODE_MAX); /* \u0001 of each */
	for (int i = 0; i < 4; i++)
		cbx_audit_write(a, &(struct cbx_happened){ .what = CBX_HAPPENED_CELL, .tenant = "t", .code = code });
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_gt((uint64_t)st.st_size, 4 * 6 * CBX_CODE_MAX);
	ck_assert_uint_lt((uint64_t)st.st_size, 4 * CBX_AUDIT_LINE_MAX);
	cbx_audit_close(a);
	a = opened(true); /* beyond what is read of the end */
	cbx_audit_close(a);
	ck_assert_uint_eq(verified(&chain), 8);
}
END_TEST

START_TEST(floods)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_DENIED, .outcome = "unauthorized", .why = "no" };
	struct cbx_chain chain;
	struct cbx_audit *a;

	fresh();
	a = opened(false);
	for (int i = 0; i < 50 * CBX_AUDIT_FEW; i++)
		cbx_audit_write(a, &h);
	ck_assert_uint_lt(cbx_audit_lines(a), 25 * CBX_AUDIT_FEW);
	for (int t = 0; t < 2; t++) { /* those with a token have rates of their own, whatever others do */
		uint64_t before = cbx_audit_lines(a);

		h.tenant = t ? "beta" : "acme";
		h.outcome = "too_many_requests";
		for (int i = 0; i < 50 * CBX_AUDIT_FEW; i++)
			cbx_audit_write(a, &h);
		ck_assert_uint_ge(cbx_audit_lines(a) - before, CBX_AUDIT_FEW);
		ck_assert_uint_lt(cbx_audit_lines(a) - before, 25 * CBX_AUDIT_FEW);
	}
	h.outcome = "insufficient_scope"; /* all else is written in any case */
	for (int i = 0; i < 100; i++)
		cbx_audit_write(a, &h);
	ck_assert_uint_ge(cbx_audit_lines(a), 100 + 3 * CBX_AUDIT_FEW);
	cbx_audit_close(a);
	verified(&chain);
}
END_TEST

START_TEST(a_full_disk)
{
	struct cbx_happened h = { .what = CBX_HAPPENED_MADE, .tenant = "t", .session_id = "s" };
	struct rlimit all, little;
	struct cbx_chain chain;
	struct cbx_audit *a;
	struct stat st;

	fresh();
	a = opened(false);
	ck_assert_int_eq(stat(path, &st), 0);
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &all), 0);
	little = all;
	for (int i = 0; i < 3; i++) { /* the middle of a line; nothing; a newline alone */
		little.rlim_cur = (rlim_t)st.st_size + (i == 0 ? 20 : i == 1 ? 20 : 21);
		ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &little), 0);
		cbx_audit_write(a, &h);
		ck_assert_uint_eq(cbx_audit_lost(a), i + 1);
	}
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &all), 0);
	cbx_audit_write(a, &h);
	ck_assert_uint_eq(cbx_audit_lost(a), 0);
	cbx_audit_close(a);
	ck_assert_uint_eq(verified(&chain), 3);
	ck_assert_uint_eq(chain.torn, 1);
	(void)unlink(path);
	(void)rmdir(dir);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, long_lines);
	tcase_add_test(t, floods);
	tcase_add_test(t, a_full_disk);
}

TEST_MAIN("audit", add)
