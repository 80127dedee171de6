/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory that takes long to count: processes with very many mappings. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
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

/* Count all, a few at a time, as the supervisor has it done. */
static uint64_t count_all(struct cbx_known *known)
{
	const struct cbx_process *p;
	struct cbx_set sets[5];
	bool whole = false;

	cbx_watch_look(getpid(), 0, true, &look);
	cbx_watch_count(known, &look);
	while (!whole) {
		size_t n = cbx_watch_next(known, &p, 5);

		ck_assert_uint_gt(n, 0);
		for (size_t i = 0; i < n; i++)
			sets[i] = cbx_watch_proportional(p[i].as);
		whole = cbx_watch_counted(known, sets, n, 1);
	}
	cbx_watch_look(getpid(), 0, true, &look);
	ck_assert(cbx_watch_conclude(known, &look, 0));
	return known->bytes;
}

static bool below(uint64_t limit, const struct cbx_known *known)
{
	uint64_t most;
	bool r;

	cbx_watch_look(getpid(), 0, true, &look);
	r = cbx_watch_below(&look, 0, limit, known, &most);
	ck_assert(r == (most <= limit));
	return r;
}

START_TEST(long_counts_go_on)
{
	uint64_t pages = (uint64_t)MAPPINGS / 2 * (uint64_t)sysconf(_SC_PAGESIZE), limit = pages + MIB_(64);
	struct cbx_known known = { 0 };
	struct cbx_set set = { .proportional = UINT64_MAX };
	const struct cbx_process *p;
	uint64_t bytes, tables = 0;

	share();
	/* Together they hold little more than the pages once; one by one all of them. */
	ck_assert(!below(limit, &known));
	for (size_t i = 0; i < look.n; i++)
		tables += look.all[i].tables;
	ck_assert_uint_gt(tables, 0);
	limit += tables;
	bytes = count_all(&known);
	cbx_watch_forget(&known);
	ck_assert_uint_le(bytes, limit);
	ck_assert_uint_gt(bytes, pages / 2);
	ck_assert_uint_gt(known.cost_ms, 1);
	/* Nothing has changed, so for a while that is known. What no process has mapped is added to it. */
	ck_assert(below(limit, &known));
	ck_assert(!cbx_watch_below(&look, limit, limit, &known, &bytes));

	/* What cannot be counted counts as if nothing were shared. */
	cbx_watch_count(&known, &look);
	ck_assert_uint_eq(cbx_watch_next(&known, &p, SIZE_MAX), SHARERS);
	for (size_t i = 0; i < SHARERS; i++)
		ck_assert(cbx_watch_counted(&known, &set, 1, 0) == (i == SHARERS - 1));
	ck_assert(cbx_watch_conclude(&known, &look, 0));
	ck_assert_uint_gt(known.bytes, limit);

	/* What has ended meanwhile is not counted twice; or, where that is much, all are again. */
	cbx_watch_count(&known, &look);
	set = cbx_watch_proportional(known.count->all[0].as);
	ck_assert_uint_le(set.proportional, set.resident);
	ck_assert(!cbx_watch_counted(&known, &set, 1, 0));
	end(0, SHARERS / 2);
	for (size_t i = 1; i < SHARERS; i++) {
		set = cbx_watch_proportional(known.count->all[i].as);
		ck_assert(cbx_watch_counted(&known, &set, 1, 0) == (i == SHARERS - 1));
	}
	ck_assert_uint_eq(known.count->all[0].bytes, 0);
	cbx_watch_look(getpid(), 0, true, &look);
	ck_assert(!cbx_watch_conclude(&known, &look, pages));
	ck_assert_uint_eq(cbx_watch_next(&known, &p, SIZE_MAX), SHARERS / 2);
	for (size_t i = 0; i < SHARERS / 2; i++) {
		set = cbx_watch_proportional(known.count->all[i].as);
		cbx_watch_counted(&known, &set, 1, 0);
	}
	ck_assert(cbx_watch_conclude(&known, &look, pages));
	ck_assert_uint_le(known.bytes, limit);
	ck_assert_uint_gt(known.bytes, pages / 2);

	/* Who is always gone by then counts with all that was mapped, after some rounds. */
	cbx_watch_count(&known, &look);
	for (int round = 0; round < CBX_WATCH_ROUNDS; round++) {
		while (!cbx_watch_counted(&known, &set, 1, 0))
			known.count->all[known.done].started++; /* another one */
		ck_assert(!cbx_watch_conclude(&known, &look, 0));
	}
	while (!cbx_watch_counted(&known, &set, 1, 0))
		;
	known.count->all[0].started++;
	ck_assert(cbx_watch_conclude(&known, &look, look.all[0].bytes * 3));
	bytes = known.bytes;
	cbx_watch_count(&known, &look);
	known.rounds = CBX_WATCH_ROUNDS;
	while (!cbx_watch_counted(&known, &set, 1, 0))
		;
	known.count->all[0].started++;
	ck_assert(cbx_watch_conclude(&known, &look, 0));
	ck_assert_uint_ge(known.bytes, bytes + look.all[0].bytes);

	/* Few have little, however that is counted. */
	cbx_watch_forget(&known);
	end(SHARERS / 2, SHARERS);
	ck_assert(below(limit, &known));
}
END_TEST

/* Count those who are next, and look who is there then. */
static bool counted(struct cbx_known *known, size_t n, uint64_t enough)
{
	const struct cbx_process *p;
	struct cbx_set set;

	ck_assert_uint_eq(cbx_watch_next(known, &p, SIZE_MAX), n);
	for (size_t i = 0; i < n; i++) {
		set = cbx_watch_proportional(p[i].as);
		ck_assert(cbx_watch_counted(known, &set, 1, 0) == (i == n - 1));
	}
	cbx_watch_look(getpid(), 0, true, &look);
	return cbx_watch_conclude(known, &look, enough);
}

START_TEST(who_comes_and_who_goes)
{
	uint64_t pages = (uint64_t)MAPPINGS / 2 * (uint64_t)sysconf(_SC_PAGESIZE), tables = 0;
	struct cbx_known known = { 0 };
	const struct cbx_process *p;
	pid_t one;

	share();
	one = sharers[0];
	cbx_watch_look(getpid(), 0, true, &look);
	for (size_t i = 0; i < look.n; i++)
		tables += look.all[i].tables;
	/* One comes while the others are counted: it is counted, and they are not again. */
	cbx_watch_count(&known, &look);
	known.count->n--;
	ck_assert(!counted(&known, SHARERS - 1, 0));
	ck_assert_uint_eq(cbx_watch_next(&known, &p, SIZE_MAX), 1);
	ck_assert(counted(&known, 1, 0));
	ck_assert_uint_gt(known.bytes, pages / 2);
	ck_assert_uint_le(known.bytes, pages + tables + MIB_(64));

	/* Somebody always does: he is what was added since, until he is counted. */
	cbx_watch_count(&known, &look);
	known.count->n--;
	known.rounds = CBX_WATCH_ROUNDS;
	ck_assert(counted(&known, SHARERS - 1, 0));
	ck_assert_uint_le(known.bytes, pages + tables + MIB_(64));
	ck_assert_uint_ge(cbx_watch_most(&look, 0, &known), known.bytes + pages);

	/* Who goes leaves the others his part, and no more than that. */
	cbx_watch_count(&known, &look);
	known.rounds = CBX_WATCH_ROUNDS;
	for (size_t i = 0; i < SHARERS; i++) {
		struct cbx_set set;

		ck_assert_uint_gt(cbx_watch_next(&known, &p, SIZE_MAX), 0);
		set = cbx_watch_proportional(p->as);
		cbx_watch_counted(&known, &set, 1, 0);
	}
	end(0, 1);
	cbx_watch_look(getpid(), 0, true, &look);
	ck_assert_uint_eq(look.n, SHARERS - 1);
	ck_assert(cbx_watch_conclude(&known, &look, 0));
	ck_assert_uint_gt(known.bytes, pages);
	ck_assert_uint_le(known.bytes, pages + tables + MIB_(64));
	ck_assert_int_ne(known.count->all[0].pid, one);

	/* Of who was about to go already, nobody knows what he had: as much as any of the others. */
	cbx_watch_count(&known, &look);
	known.rounds = CBX_WATCH_ROUNDS;
	known.count->leaving = 2;
	ck_assert(counted(&known, SHARERS - 1, 0));
	ck_assert_uint_gt(known.bytes, 2 * pages);
	ck_assert_uint_le(known.bytes, 3 * (pages + tables + MIB_(64)));
	cbx_watch_forget(&known);
	end(1, SHARERS);
}
END_TEST

START_TEST(who_is_killed_has_nothing)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		for (;;)
			pause();
	cbx_watch_look(getpid(), 0, true, &look);
	ck_assert_uint_eq(look.n, 1);
	ck_assert_uint_gt(look.all[0].bytes, 0);
	ck_assert_uint_gt(look.all[0].files, 0);
	ck_assert(!look.all[0].dying);
	/* It cannot get to its end: it stands still while it is traced. */
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACEEXIT), 0);
	kill(pid, SIGKILL);
	while (waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WSTOPPED | WNOWAIT) < 0 && errno == EINTR)
		;
	cbx_watch_look(getpid(), 0, true, &look);
	ck_assert_uint_eq(look.n, 1);
	ck_assert(look.all[0].dying);
	ck_assert_uint_eq(look.all[0].bytes, 0);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	waitpid(pid, NULL, 0);
}
END_TEST

static void add(TCase *tcase)
{
	tcase_add_test(tcase, long_counts_go_on);
	tcase_add_test(tcase, who_comes_and_who_goes);
	tcase_add_test(tcase, who_is_killed_has_nothing);
}

TEST_MAIN("watch", add)
