/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded record of an execution's output: order, cuts, characters, counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "execution/output.h"
#include "unit_main.h"

static struct cbx_buf passed; /* what feed and flush said is recorded */

static void feed(struct cbx_output *o, enum cbx_stream stream, const char *p, size_t n)
{
	const char *q;
	size_t m;

	cbx_output_feed(o, stream, p, n, &q, &m);
	ck_assert(cbx_utf8_valid(q, m) || !cbx_utf8_valid(p, n));
	cbx_buf_add(&passed, q, m);
}

static void feeds(struct cbx_output *o, enum cbx_stream stream, const char *s)
{
	feed(o, stream, s, strlen(s));
}

static char *text(const struct cbx_output *o, enum cbx_stream stream, const char *where)
{
	struct cbx_buf b = { 0 };

	cbx_output_text(o, stream, where, &b);
	ck_assert(cbx_utf8_valid(cbx_buf_str(&b), b.len));
	return cbx_buf_steal(&b);
}

#define assert_text(o, stream, want)                                                                                   \
	do {                                                                                                           \
		char *_t = text((o), (stream), NULL);                                                                  \
		ck_assert_str_eq(_t, (want));                                                                          \
		free(_t);                                                                                              \
	} while (0)

static void teardown(void)
{
	cbx_buf_release(&passed);
}

START_TEST(order_and_streams)
{
	struct cbx_output o = { .head_max = 100, .tail_max = 100 };

	feeds(&o, CBX_STDOUT, "a\n");
	feeds(&o, CBX_STDERR, "b\n");
	feeds(&o, CBX_STDERR, "c\n");
	feeds(&o, CBX_STDOUT, "d\n");
	assert_text(&o, CBX_STREAMS, "a\nb\nc\nd\n");
	assert_text(&o, CBX_STDOUT, "a\nd\n");
	assert_text(&o, CBX_STDERR, "b\nc\n");
	ck_assert_uint_eq(cbx_output_total(&o), 8);
	ck_assert_uint_eq(cbx_output_omitted(&o), 0);
	cbx_output_release(&o);
}
END_TEST

START_TEST(nothing_is_lost_up_to_the_limit)
{
	struct cbx_output o = { .head_max = 4, .tail_max = 4 };

	feeds(&o, CBX_STDOUT, "abc");
	feeds(&o, CBX_STDERR, "defgh");
	ck_assert_uint_eq(cbx_output_omitted(&o), 0);
	assert_text(&o, CBX_STREAMS, "abcdefgh");
	feeds(&o, CBX_STDOUT, "i");
	ck_assert_uint_eq(cbx_output_omitted(&o), 1);
	assert_text(&o, CBX_STREAMS, "abcd\n[… 1 byte omitted …]\nfghi");
	assert_text(&o, CBX_STDOUT, "abci");
	assert_text(&o, CBX_STDERR, "d\n[… 1 byte omitted …]\nfgh");
	cbx_output_release(&o);
}
END_TEST

START_TEST(a_flood_keeps_head_and_tail)
{
	struct cbx_output o = { .head_max = 1000, .tail_max = 1000 };
	char line[32], *t;
	size_t most = 0;

	for (int i = 0; i < 100000; i++) {
		snprintf(line, sizeof(line), "%06d\n", i);
		feeds(&o, i & 1 ? CBX_STDERR : CBX_STDOUT, line);
		if (cbx_output_memory(&o) > most)
			most = cbx_output_memory(&o);
	}
	ck_assert_uint_lt(most, 20000);
	ck_assert_uint_eq(cbx_output_total(&o), 700000);
	ck_assert_uint_eq(cbx_output_omitted(&o), 698000);
	t = text(&o, CBX_STREAMS, "the rest is in F");
	ck_assert(strncmp(t, "000000\n000001\n", 14) == 0);
	ck_assert_ptr_nonnull(strstr(t, "\n[… 698,000 bytes omitted; the rest is in F …]\n"));
	ck_assert_str_eq(t + strlen(t) - 14, "099998\n099999\n");
	free(t);
	ck_assert_uint_eq(passed.len, 700000);
	cbx_output_trim(&o);
	ck_assert_uint_eq(cbx_output_omitted(&o), 698000);
	cbx_output_release(&o);
}
END_TEST

START_TEST(one_large_piece)
{
	struct cbx_output o = { .head_max = 10, .tail_max = 10 };
	char big[1000];

	memset(big, 'x', sizeof(big));
	memcpy(big, "head", 4);
	memcpy(big + 996, "tail", 4);
	feed(&o, CBX_STDOUT, big, sizeof(big));
	ck_assert_uint_eq(cbx_output_omitted(&o), 980);
	assert_text(&o, CBX_STDOUT, "headxxxxxx\n[… 980 bytes omitted …]\nxxxxxxtail");
	cbx_output_release(&o);
}
END_TEST

/* Every way to cut a text into two reads gives the same text, and never passes on half a character. */
START_TEST(characters_cut_by_reads)
{
	const char s[] = "aä€𝄞z";
	const size_t n = sizeof(s) - 1;

	for (size_t i = 0; i <= n; i++) {
		struct cbx_output o = { .head_max = 100, .tail_max = 100 };
		const char *q;
		size_t m;

		cbx_output_feed(&o, CBX_STDOUT, s, i, &q, &m);
		ck_assert(cbx_utf8_valid(q, m));
		ck_assert_uint_le(i - m, 3);
		feeds(&o, CBX_STDERR, "|");
		cbx_output_feed(&o, CBX_STDOUT, s + i, n - i, &q, &m);
		ck_assert(cbx_utf8_valid(q, m));
		assert_text(&o, CBX_STDOUT, s);
		assert_text(&o, CBX_STDERR, "|");
		cbx_output_release(&o);
	}
}
END_TEST

/* Wherever head and tail end, they end between characters. */
START_TEST(characters_cut_by_limits)
{
	for (size_t max = 4; max < 16; max++) {
		struct cbx_output o = { .head_max = max, .tail_max = max };

		for (int i = 0; i < 20; i++)
			feeds(&o, CBX_STDOUT, i % 3 == 0 ? "ä" : i % 3 == 1 ? "€" : "𝄞");
		char *t = text(&o, CBX_STREAMS, NULL);

		ck_assert_ptr_null(strstr(t, "\xef\xbf\xbd"));
		ck_assert_ptr_nonnull(strstr(t, "omitted"));
		free(t);
		ck_assert_uint_ge(cbx_output_omitted(&o) + 2 * max, cbx_output_total(&o));
		cbx_output_release(&o);
	}
}
END_TEST

START_TEST(bytes_that_are_no_text)
{
	struct cbx_output o = { .head_max = 100, .tail_max = 100 };
	const char *q;
	size_t m;

	feed(&o, CBX_STDOUT,
	     "a\xff"
	     "b\0c\xed\xa0\x80\xf0\x9d",
	     10);
	ck_assert_uint_eq(cbx_output_total(&o), 8); /* the last two may still become a character */
	cbx_output_flush(&o, CBX_STDOUT, &q, &m);
	ck_assert_uint_eq(m, 2);
	ck_assert_uint_eq(cbx_output_total(&o), 10);
	assert_text(&o, CBX_STDOUT,
		    "a\xef\xbf\xbd"
		    "b\xe2\x90\x80"
		    "c\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	cbx_output_flush(&o, CBX_STDOUT, &q, &m);
	ck_assert_uint_eq(m, 0);
	cbx_output_release(&o);
}
END_TEST

static void collect(void *arg, enum cbx_stream stream, const char *p, size_t n)
{
	cbx_buf_addc(arg, stream == CBX_STDERR ? 'E' : 'O');
	cbx_buf_add(arg, p, n);
}

START_TEST(replay_and_clear)
{
	struct cbx_output o = { .head_max = 3, .tail_max = 5 };
	struct cbx_buf b = { 0 };

	feeds(&o, CBX_STDOUT, "ab");
	feeds(&o, CBX_STDERR, "cd");
	feeds(&o, CBX_STDOUT, "ef");
	cbx_output_each(&o, collect, &b);
	ck_assert_str_eq(cbx_buf_str(&b), "OabEcEdOef");
	cbx_output_clear(&o);
	ck_assert_uint_eq(cbx_output_total(&o), 0);
	assert_text(&o, CBX_STREAMS, "");
	feeds(&o, CBX_STDOUT, "new");
	assert_text(&o, CBX_STREAMS, "new");
	cbx_buf_release(&b);
	cbx_output_release(&o);
}
END_TEST

START_TEST(read_by_places)
{
	struct cbx_output o = { .tail_max = 8 };
	struct cbx_buf b = { 0 };

	feeds(&o, CBX_STDOUT, "ab");
	feeds(&o, CBX_STDERR, "cd");
	feeds(&o, CBX_STDOUT, "ef");
	cbx_output_since(&o, 1, collect, &b);
	ck_assert_str_eq(cbx_buf_str(&b), "ObEcdOef");
	cbx_buf_release(&b);
	cbx_output_forget(&o, 3);
	ck_assert_uint_eq(cbx_output_omitted(&o), 3);
	cbx_output_since(&o, 0, collect, &b);
	ck_assert_str_eq(cbx_buf_str(&b), "EdOef");
	cbx_buf_release(&b);
	cbx_output_since(&o, 6, collect, &b);
	cbx_output_forget(&o, 2);
	cbx_output_forget(&o, 100);
	ck_assert_uint_eq(cbx_output_omitted(&o), 6);
	cbx_output_pass(&o, CBX_STDOUT, 4);
	feeds(&o, CBX_STDOUT, "0123456789");
	ck_assert_uint_eq(cbx_output_total(&o), 20);
	ck_assert_uint_eq(cbx_output_omitted(&o), 12);
	cbx_output_since(&o, 0, collect, &b);
	ck_assert_str_eq(cbx_buf_str(&b), "O23456789");
	cbx_buf_release(&b);
	cbx_output_release(&o);
}
END_TEST

START_TEST(counts)
{
	char out[32];

	cbx_format_count(0, out);
	ck_assert_str_eq(out, "0");
	cbx_format_count(999, out);
	ck_assert_str_eq(out, "999");
	cbx_format_count(1000, out);
	ck_assert_str_eq(out, "1,000");
	cbx_format_count(UINT64_MAX, out);
	ck_assert_str_eq(out, "18,446,744,073,709,551,615");
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, NULL, teardown);
	tcase_add_test(t, order_and_streams);
	tcase_add_test(t, nothing_is_lost_up_to_the_limit);
	tcase_add_test(t, a_flood_keeps_head_and_tail);
	tcase_add_test(t, one_large_piece);
	tcase_add_test(t, characters_cut_by_reads);
	tcase_add_test(t, characters_cut_by_limits);
	tcase_add_test(t, bytes_that_are_no_text);
	tcase_add_test(t, replay_and_clear);
	tcase_add_test(t, read_by_places);
	tcase_add_test(t, counts);
}

TEST_MAIN("output", add)
