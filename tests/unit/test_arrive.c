/* SPDX-License-Identifier: Apache-2.0 */
/* A wheel that is copied while it comes: the sum is that of the copy, whatever who fetches it does meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "installer/install.h"
#include "unit_main.h"

#define REST (300 * 1024u) /* what is before its end */
#define SIZE (REST + CBX_END_BYTES)

static uint8_t whole[SIZE], expected[SHA256_DIGEST_SIZE];
static struct cbx_wheel wheel = { .file = (char *)"a.whl", .size = SIZE };
static struct cbx_arriving *page;
static struct cbx_copying copying;
static int to; /* the end of the pipe that whoever fetches has */

int cbx_check_digest(const struct cbx_wheel *w, const uint8_t *digest, struct cbx_err *err)
{
	return memcmp(digest, expected, sizeof(expected)) == 0
		       ? 0
		       : cbx_refuse(err, "wrong_hash", EBADMSG, "%s is another file", w->file);
}

static void send_part(size_t at, size_t n)
{
	ck_assert_int_eq(cbx_write_all(to, whole + at, n), 0);
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
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	ck_assert_int_eq(pipe(fds), 0);
	to = fds[1];
	copying = (struct cbx_copying){
		.wheel = &wheel, .from = fds[0], .to = memfd_create("wheel", MFD_CLOEXEC), .arriving = page
	};
	ck_assert_int_ge(copying.to, 0);
}

static struct cbx_apart begin(void)
{
	struct cbx_apart p = { .pid = fork() };
	struct cbx_err err = { 0 };

	ck_assert_int_ge(p.pid, 0);
	if (p.pid == 0) {
		close(to);
		_exit(cbx_arrive(&copying, &err) >= 0 ? 0 : strcmp(err.kind, "wrong_hash") == 0 ? 1 : 2);
	}
	return p;
}

/* 0: it is what was promised, or nothing; 1: it is not; 2: another error. */
static int end(struct cbx_apart p)
{
	int status;

	close(to);
	ck_assert_int_eq(waitpid(p.pid, &status, 0), p.pid);
	ck_assert(WIFEXITED(status) && page->over);
	return WEXITSTATUS(status);
}

static void wait_for(uint64_t begun)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	while (!page->end || page->begun < begun)
		nanosleep(&moment, NULL);
}

START_TEST(as_it_comes)
{
	static uint8_t copy[SIZE];
	struct cbx_apart p = begin();

	ck_assert_uint_eq(page->end, 0);
	send_part(REST, CBX_END_BYTES);
	wait_for(0);
	ck_assert_uint_eq(page->end, REST);
	for (size_t at = 0; at < REST; at += 100 * 1024) {
		ck_assert_uint_eq(page->begun, at);
		send_part(at, 100 * 1024);
		wait_for(at + 100 * 1024);
		ck_assert_int_eq(pread(copying.to, copy, at + 100 * 1024, 0), (ssize_t)at + 100 * 1024);
		ck_assert_mem_eq(copy, whole, at + 100 * 1024);
	}
	ck_assert_int_eq(end(p), 0);
	ck_assert_int_eq(pread(copying.to, copy, SIZE, 0), SIZE);
	ck_assert_mem_eq(copy, whole, SIZE);
}
END_TEST

/* In its end, where that begins, in the rest. */
START_TEST(other_bytes)
{
	static const size_t places[] = { SIZE - 1, REST, REST - 1, 0 };
	struct cbx_apart p = begin();

	whole[places[_i]] ^= 1;
	send_part(REST, CBX_END_BYTES);
	send_part(0, REST);
	ck_assert_int_eq(end(p), 1);
}
END_TEST

START_TEST(the_right_ones_behind_others_do_not_count)
{
	struct cbx_apart p = begin();

	whole[0] ^= 1;
	send_part(REST, CBX_END_BYTES);
	send_part(0, REST);
	wait_for(REST);
	whole[0] ^= 1;
	(void)signal(SIGPIPE, SIG_IGN); /* it is gone by now, or reads on */
	(void)cbx_write_all(to, whole, SIZE);
	ck_assert_int_eq(end(p), 1);
}
END_TEST

START_TEST(it_breaks_off)
{
	struct cbx_apart p = begin();

	send_part(REST, CBX_END_BYTES - (_i == 0));
	if (_i == 2)
		send_part(0, REST - 1);
	ck_assert_int_eq(end(p), 2);
	ck_assert_uint_eq(page->end, _i == 0 ? 0 : REST); /* without an end nobody begins to unpack it */
}
END_TEST

START_TEST(it_does_not_come_in_parts)
{
	ck_assert_int_eq(end(begin()), 0);
	ck_assert_uint_eq(page->end, 0);
}
END_TEST

/* What fetches is not stopped by that. */
START_TEST(there_is_no_room)
{
	struct cbx_apart p;

	close(copying.to);
	copying.to = open("/dev/full", O_RDWR | O_CLOEXEC);
	p = begin();
	send_part(REST, CBX_END_BYTES);
	send_part(0, REST);
	ck_assert_int_eq(end(p), 2);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, set_up, NULL);
	tcase_add_test(t, as_it_comes);
	tcase_add_loop_test(t, other_bytes, 0, 4);
	tcase_add_test(t, the_right_ones_behind_others_do_not_count);
	tcase_add_loop_test(t, it_breaks_off, 0, 3);
	tcase_add_test(t, it_does_not_come_in_parts);
	tcase_add_test(t, there_is_no_room);
}

TEST_MAIN("arrive", add)
