/* SPDX-License-Identifier: Apache-2.0 */
/* Names, numbers, signals, UTF-8, base64, frames, errors, and the check of a sandbox's plan. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/frame.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/str.h"
#include "sandbox/plan.h"
#include "unit_main.h"

START_TEST(names)
{
	static const char *const good[] = { "a", "A9", "python-3.11_x", "0" };
	static const char *const bad[] = { "",  ".", "..", "-a", "a/b", "a b", "_x", "a\n", "\xc3\xa4",
					   "0123456789012345678901234567890123456789012345678901234567890123" };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert(cbx_name_valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert(!cbx_name_valid(bad[i]));
}
END_TEST

START_TEST(paths)
{
	static const char *const clean[] = { "/", "/a", "/a/b.c", "/..a/b", "/.a" };
	static const char *const unclean[] = { "", "a", "//", "/a/", "/a//b", "/a/./b", "/a/..", "/..", "./a" };

	for (size_t i = 0; i < sizeof(clean) / sizeof(clean[0]); i++)
		ck_assert_msg(cbx_path_clean(clean[i]), "%s", clean[i]);
	for (size_t i = 0; i < sizeof(unclean) / sizeof(unclean[0]); i++)
		ck_assert_msg(!cbx_path_clean(unclean[i]), "%s", unclean[i]);
	ck_assert(cbx_path_within("/var", "/var") && cbx_path_within("/var/x", "/var") && cbx_path_within("/var", "/"));
	ck_assert(!cbx_path_within("/variant", "/var") && !cbx_path_within("/var", "/var/x") && !cbx_path_within("/", "/a"));
}
END_TEST

START_TEST(numbers)
{
	struct cbx_err err = { 0 };
	uint64_t v = 0;

	ck_assert_int_eq(cbx_parse_u64("42", "n", 0, 100, &v, &err), 0);
	ck_assert_uint_eq(v, 42);
	ck_assert_int_lt(cbx_parse_u64("101", "n", 0, 100, &v, &err), 0);
	ck_assert_int_lt(cbx_parse_u64("", "n", 0, 100, &v, &err), 0);
	ck_assert_int_lt(cbx_parse_u64("-1", "n", 0, 100, &v, &err), 0);
	ck_assert_int_lt(cbx_parse_u64(" 1", "n", 0, 100, &v, &err), 0);
	ck_assert_int_lt(cbx_parse_u64("99999999999999999999", "n", 0, UINT64_MAX, &v, &err), 0);
	ck_assert_int_eq(cbx_parse_size("512M", "s", 0, UINT64_MAX, &v, &err), 0);
	ck_assert_uint_eq(v, 512ull << 20);
	ck_assert_int_eq(cbx_parse_size("2GiB", "s", 0, UINT64_MAX, &v, &err), 0);
	ck_assert_uint_eq(v, 2ull << 30);
	ck_assert_int_eq(cbx_parse_size("3kiB", "s", 0, UINT64_MAX, &v, &err), 0);
	ck_assert_uint_eq(v, 3ull << 10);
	ck_assert_int_lt(cbx_parse_size("1X", "s", 0, UINT64_MAX, &v, &err), 0);
	ck_assert_int_lt(cbx_parse_size("1 ", "s", 0, UINT64_MAX, &v, &err), 0);
	ck_assert_int_lt(cbx_parse_size("18446744073709551615T", "s", 0, UINT64_MAX, &v, &err), 0);
	ck_assert_int_eq(cbx_parse_duration_ms("90", "t", 0, UINT64_MAX, &v, &err), 0);
	ck_assert_uint_eq(v, 90000);
	ck_assert_int_eq(cbx_parse_duration_ms("250ms", "t", 0, UINT64_MAX, &v, &err), 0);
	ck_assert_uint_eq(v, 250);
	ck_assert_int_lt(cbx_parse_duration_ms("5x", "t", 0, UINT64_MAX, &v, &err), 0);
	ck_assert(strstr(err.msg, "5x"));
}
END_TEST

START_TEST(utf8)
{
	struct cbx_buf b = { 0 };

	ck_assert(cbx_utf8_valid("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 10));
	ck_assert(!cbx_utf8_valid("\xc0\xaf", 2));	   /* overlong */
	ck_assert(!cbx_utf8_valid("\xed\xa0\x80", 3));	   /* surrogate */
	ck_assert(!cbx_utf8_valid("\xf4\x90\x80\x80", 4)); /* above U+10FFFF */
	ck_assert(!cbx_utf8_valid("\xe2\x82", 2));	   /* cut */
	cbx_utf8_append(&b, "a\xff" "b\0c", 5);
	ck_assert_str_eq(b.data, "a\xef\xbf\xbd" "b\xe2\x90\x80" "c");
	cbx_buf_release(&b);
}
END_TEST

/* What reaches a log is one line, whatever it was. */
START_TEST(log_lines)
{
	int fds[2], old = dup(STDERR_FILENO);
	char line[200] = "";

	ck_assert_int_eq(pipe(fds), 0);
	ck_assert(dup2(fds[1], STDERR_FILENO) >= 0);
	cbx_log_open("test", CBX_LOG_INFO, 1);
	cbx_info("%s", "ä\nx\033[2J\302\233\377\177");
	cbx_debug("not this");
	ck_assert(dup2(old, STDERR_FILENO) >= 0);
	ck_assert_int_gt(read(fds[0], line, sizeof(line) - 1), 0);
	ck_assert_str_eq(line, "<6>ä\\x0ax\\x1b[2J\\x9b\\xff\\x7f\n");
	close(fds[0]);
	close(fds[1]);
	close(old);
}
END_TEST

START_TEST(signals)
{
#ifdef __GLIBC__
	for (int sig = -1; sig <= NSIG; sig++) {
		const char *want = sigabbrev_np(sig), *got = cbx_signal_name(sig);

		ck_assert_msg(want && got ? strcmp(want, got) == 0 : want == got, "%d: %s, not %s", sig, got, want);
	}
#endif
	ck_assert_str_eq(cbx_signal_name(SIGKILL), "KILL");
	ck_assert_ptr_null(cbx_signal_name(0));
	ck_assert_ptr_null(cbx_signal_name(NSIG));
}
END_TEST

START_TEST(base64)
{
	static const char *const bad[] = { "A", "AA=A", "AB==", "AAB=", "====", "A===", "AA*A", "AAA\n", "    ", "AAAA\n\n\n\n", "AA==AA==" };
	struct cbx_buf e = { 0 }, d = { 0 };
	unsigned char raw[256];

	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = (unsigned char)(i * 7);
	for (size_t n = 0; n <= sizeof(raw); n++) {
		e.len = d.len = 0;
		cbx_base64_encode(&e, raw, n);
		ck_assert_int_eq(cbx_base64_decode(&d, cbx_buf_str(&e), e.len), 0);
		ck_assert_uint_eq(d.len, n);
		ck_assert_int_eq(memcmp(cbx_buf_str(&d), raw, n), 0);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_int_eq(cbx_base64_decode(&d, bad[i], strlen(bad[i])), -EINVAL);
	cbx_buf_release(&e);
	cbx_buf_release(&d);
}
END_TEST

START_TEST(frames)
{
	struct cbx_buf b = { 0 };
	struct cbx_err err = { 0 };
	const char *p;
	size_t n;

	cbx_frame_append(&b, "hello", 5);
	b.len = 3;
	ck_assert_int_eq(cbx_frame_peek(&b, 100, &p, &n, &err), 0);
	b.len = 8;
	ck_assert_int_eq(cbx_frame_peek(&b, 100, &p, &n, &err), 0);
	b.len = 9;
	ck_assert_int_eq(cbx_frame_peek(&b, 100, &p, &n, &err), 1);
	ck_assert_uint_eq(n, 5);
	ck_assert_int_eq(memcmp(p, "hello", 5), 0);
	ck_assert_int_eq(cbx_frame_peek(&b, 4, &p, &n, &err), -EMSGSIZE);
	b.len = 0;
	cbx_buf_add(&b, "\xff\xff\xff\xff", 4); /* refused before anything is allocated for it */
	ck_assert_int_eq(cbx_frame_peek(&b, 100, &p, &n, &err), -EMSGSIZE);
	cbx_buf_release(&b);
}
END_TEST

START_TEST(descriptors_from_a_sandbox_are_refused)
{
	int pair[2], fd = 0, fds[CBX_FDS_MAX];
	size_t n;
	char b[8];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(cbx_send_fds(pair[0], "x", 1, &fd, 1), 0);
	ck_assert_int_eq((int)cbx_recv_plain(pair[1], b, sizeof(b)), -EBADMSG);
	ck_assert_int_eq(cbx_send_fds(pair[0], "x", 1, &fd, 1), 0);
	ck_assert_int_eq((int)cbx_recv_fds(pair[1], b, sizeof(b), fds, &n), 1);
	ck_assert_uint_eq(n, 1);
	close(fds[0]);
	ck_assert_int_eq(cbx_send_fds(pair[0], "0123456789", 10, NULL, 0), 0);
	ck_assert_int_eq((int)cbx_recv_plain(pair[1], b, sizeof(b)), -EBADMSG); /* cut off */
	close(pair[0]);
	ck_assert_int_eq((int)cbx_recv_plain(pair[1], b, sizeof(b)), 0);
	close(pair[1]);
}
END_TEST

START_TEST(errors)
{
	struct cbx_err err = { 0 };

	ck_assert_int_eq(cbx_fail(&err, ENOENT, "open %s", "x"), -ENOENT);
	ck_assert_str_eq(err.kind, "system");
	cbx_wrap(&err, "load");
	ck_assert(cbx_starts_with(err.msg, "load: open x: "));
	memset(&err, 0xff, sizeof(err));
	cbx_err_sanitize(&err);
	ck_assert_int_eq(err.code, EIO);
	ck_assert_uint_lt(strlen(err.msg), sizeof(err.msg));
}
END_TEST

static struct cbx_plan good_plan(void)
{
	struct cbx_plan p = { .version = CBX_PLAN_VERSION, .nlayers = 2, .image = "python", .hostname = "codebox",
			      .memory_bytes = CBX_MEMORY_DEFAULT, .disk_bytes = CBX_DISK_DEFAULT, .disk_inodes = 1000,
			      .processes = 10 };

	strcpy(p.layers[0].source, "rootfs");
	strcpy(p.layers[0].target, "/");
	strcpy(p.layers[1].source, "host:/usr");
	strcpy(p.layers[1].target, "/usr");
	return p;
}

START_TEST(plans)
{
	struct cbx_err err = { 0 };
	struct cbx_plan p = good_plan();

	ck_assert_int_eq(cbx_plan_check(&p, &err), 0);
#define REFUSED(change)                                              \
	do {                                                         \
		p = good_plan();                                     \
		change;                                              \
		ck_assert_int_eq(cbx_plan_check(&p, &err), -EINVAL); \
	} while (0)
	REFUSED(p.version = 0);
	REFUSED(strcpy(p.image, "../x"));
	REFUSED(memset(p.image, 'a', sizeof(p.image)));
	REFUSED(p.nlayers = 0);
	REFUSED(p.nlayers = 99);
	REFUSED(strcpy(p.layers[0].source, "host:/etc"));
	REFUSED(strcpy(p.layers[0].source, "/etc"));
	REFUSED(strcpy(p.layers[1].target, "/usr/../etc"));
	REFUSED(strcpy(p.layers[1].target, "/"));
	REFUSED(strcpy(p.layers[1].target, "usr"));
	REFUSED(strcpy(p.layers[1].target, "/usr/"));
	REFUSED(p.memory_bytes = 1);
	REFUSED(p.disk_bytes = UINT64_MAX);
	REFUSED(p.disk_inodes = UINT64_MAX);
	REFUSED(p.processes = 0);
	REFUSED(p.profile = CBX_PROFILES);
	REFUSED(p.landlock = CBX_LANDLOCK_MODES);
	REFUSED(p.flags = CBX_PLAN_FLAGS + 1);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, names);
	tcase_add_test(t, paths);
	tcase_add_test(t, numbers);
	tcase_add_test(t, signals);
	tcase_add_test(t, utf8);
	tcase_add_test(t, log_lines);
	tcase_add_test(t, base64);
	tcase_add_test(t, frames);
	tcase_add_test(t, descriptors_from_a_sandbox_are_refused);
	tcase_add_test(t, errors);
	tcase_add_test(t, plans);
}

TEST_MAIN("base", add)
