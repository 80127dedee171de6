/* SPDX-License-Identifier: Apache-2.0 */
/* A wheel that is copied while it comes: the sum is that of the copy, whatever who fetches it does meanwhile. */
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "installer/install.h"
#include "unit_main.h"

#define REST (300 * 1024u) /* what is before its end */
#define SIZE (REST + CBX_END_BYTES)

static uint8_t whole[SIZE], expected[SHA256_DIGEST_SIZE];
static struct cbx_wheel wheel = { .file = (char *)"a.whl", .size = SIZE };
static struct cbx_arriving *pages;
static struct cbx_copying copying;
static struct cbx_apart fetch;
static int over; /* closed when what fetches ends */

int cbx_check_digest(const struct cbx_wheel *w, const uint8_t *digest, struct cbx_err *err)
{
	return memcmp(digest, expected, sizeof(expected)) == 0 ? 0 : cbx_refuse(err, "wrong_hash", EBADMSG, "%s", w->file);
}

static int file(void)
{
	int fd = memfd_create("wheel", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static void put(size_t at, size_t n)
{
	ck_assert_int_eq(pwrite(copying.from, whole + at, n, (off_t)at), (ssize_t)n);
}

static void overwrite(size_t at)
{
	ck_assert_int_eq(pwrite(copying.from, "other bytes", 11, (off_t)at), 11);
}

static void set_up(void)
{
	struct sha256_ctx c;
	int fds[2];

	for (size_t i = 0; i < SIZE; i++)
		whole[i] = (uint8_t)(i * i >> 7);
	sha256_init(&c);
	sha256_update(&c, SIZE, whole);
	sha256_digest(&c, sizeof(expected), expected);
	pages = mmap(NULL, 2 * sizeof(*pages), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(pages, MAP_FAILED);
	ck_assert_int_eq(pipe(fds), 0);
	fetch.fd = fds[0];
	over = fds[1];
	copying = (struct cbx_copying){
		.wheel = &wheel, .fetch = &fetch, .from = file(), .to = file(), .theirs = &pages[0], .ours = &pages[1]
	};
}

static pid_t begin(void)
{
	pid_t pid = fork();
	struct cbx_err err = { 0 };

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close(over);
		_exit(cbx_arrive(&copying, &err) >= 0 ? 0 : strcmp(err.kind, "wrong_hash") == 0 ? 1 : 2);
	}
	return pid;
}

static void wait_for(uint64_t copied)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	while (pages[1].begun < copied)
		nanosleep(&moment, NULL);
}

/* 0: it is what was promised; 1: it is not; 2: another error. */
static int end(pid_t pid)
{
	int status;

	close(over);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && pages[1].over);
	return WEXITSTATUS(status);
}

START_TEST(as_it_comes)
{
	static uint8_t copy[SIZE];
	pid_t pid;

	put(REST, CBX_END_BYTES);
	pid = begin();
	for (size_t at = 0; at < REST; at += 100 * 1024) {
		put(at, 100 * 1024);
		pages[0].begun = at + 100 * 1024;
		wait_for(at + 100 * 1024);
		ck_assert_uint_eq(pages[1].end, REST);
	}
	ck_assert_int_eq(end(pid), 0);
	ck_assert_int_eq(pread(copying.to, copy, SIZE, 0), SIZE);
	ck_assert_mem_eq(copy, whole, SIZE);
}
END_TEST

/* Who unpacks has read what was there first. */
START_TEST(what_is_changed_later_does_not_count)
{
	pid_t pid;

	put(0, SIZE);
	pid = begin();
	pages[0].begun = REST / 2;
	wait_for(REST / 2);
	overwrite(10);
	overwrite(REST + 10);
	pages[0].begun = REST;
	ck_assert_int_eq(end(pid), 0);
}
END_TEST

START_TEST(what_is_put_right_later_does_not_count)
{
	static const size_t places[] = { 10, REST + 10 };
	pid_t pid;

	put(0, SIZE);
	overwrite(places[_i]);
	pid = begin();
	pages[0].begun = REST / 2;
	wait_for(REST / 2);
	put(0, SIZE);
	pages[0].begun = REST;
	ck_assert_int_eq(end(pid), 1);
}
END_TEST

/* More than there is, less than there was, and nothing more. */
START_TEST(what_fetches_says_anything)
{
	pid_t pid;

	put(0, SIZE);
	pid = begin();
	pages[0].begun = UINT64_MAX;
	pages[0].end = 3;
	wait_for(REST);
	pages[0].begun = 0;
	ck_assert_int_eq(end(pid), 0);
}
END_TEST

START_TEST(it_breaks_off)
{
	pid_t pid;

	put(0, SIZE);
	pid = begin();
	pages[0].begun = REST - 1;
	ck_assert_int_eq(end(pid), 2);
}
END_TEST

START_TEST(there_is_no_end)
{
	pid_t pid;

	put(0, REST);
	pid = begin();
	ck_assert_int_eq(end(pid), 2);
	ck_assert_uint_eq(pages[1].end, 0); /* so nobody begins to unpack it */
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, set_up, NULL);
	tcase_add_test(t, as_it_comes);
	tcase_add_test(t, what_is_changed_later_does_not_count);
	tcase_add_loop_test(t, what_is_put_right_later_does_not_count, 0, 2);
	tcase_add_test(t, what_fetches_says_anything);
	tcase_add_test(t, it_breaks_off);
	tcase_add_test(t, there_is_no_end);
}

TEST_MAIN("arrive", add)
