/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory that takes long to count: processes with very many mappings. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "supervisor/watch.h"
#include "unit_main.h"

#define MAPPINGS 60000 /* vm.max_map_count is 65530 */
#define SHARERS	 16
#define MIB_(n)	 ((uint64_t)(n) << 20)

static pid_t sharers[SHARERS];
static struct cbx_look look;

/* Processes that share what this one has mapped: half of MAPPINGS pages, and a mapping for each. */
static void share(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = MAPPINGS * page;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	madvise(p, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < MAPPINGS; i += 2) {
		p[i * page] = 1;
		ck_assert_int_eq(mprotect(p + i * page, page, PROT_READ), 0);
	}
	for (int i = 0; i < SHARERS; i++) {
		sharers[i] = fork();
		ck_assert_int_ge(sharers[i], 0);
		if (sharers[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	munmap(p, size);
}

static void end(int from, int to)
{
	for (int i = from; i < to; i++) {
		kill(sharers[i], SIGKILL);
		waitpid(sharers[i], NULL, 0);
	}
}

static uint64_t measure(uint64_t limit, struct cbx_known *known)
{
	struct cbx_usage use;

	cbx_watch_look(getpid(), 0, &look);
	cbx_watch_measure(&look, limit, known, &use);
	ck_assert(use.bytes <= limit || use.largest.pid > 0);
	return use.bytes;
}

START_TEST(long_counts_go_on)
{
	uint64_t pages = (uint64_t)MAPPINGS / 2 * (uint64_t)sysconf(_SC_PAGESIZE), limit = pages + MIB_(64);
	struct cbx_known known = { 0 };
	unsigned calls = 0;

	share();
	/* Together they hold little more than the pages once; one by one all of them. */
	do {
		ck_assert_uint_le(measure(limit, &known), limit);
		calls++;
	} while (known.count);
	ck_assert_uint_gt(calls, 1);
	ck_assert_uint_gt(known.bytes, pages / 2);
	/* Nothing has changed, so for a while nothing is counted. */
	ck_assert_uint_eq(measure(limit, &known), known.bytes);
	ck_assert_ptr_null(known.count);

	/* Too much is told when as much has been counted, and what has ended is not counted twice. */
	known = (struct cbx_known){ 0 };
	calls = 0;
	while (measure(pages / 2, &known) <= pages / 2)
		calls++;
	ck_assert_uint_gt(calls, 0);
	ck_assert_ptr_null(known.count);
	known = (struct cbx_known){ 0 };
	measure(limit, &known);
	ck_assert_ptr_nonnull(known.count);
	end(0, SHARERS / 2);
	do
		ck_assert_uint_le(measure(limit, &known), limit);
	while (known.count);

	/* A count that nobody needs any more is given up. */
	known = (struct cbx_known){ 0 };
	measure(limit, &known);
	end(SHARERS / 2, SHARERS);
	ck_assert_uint_lt(measure(limit, &known), limit);
	ck_assert_ptr_null(known.count);
}
END_TEST

static void add(TCase *tcase)
{
	tcase_add_test(tcase, long_counts_go_on);
}

TEST_MAIN("watch", add)
