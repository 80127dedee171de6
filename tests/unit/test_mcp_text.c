/* SPDX-License-Identifier: Apache-2.0 */
/* Text as a terminal shows it, cut to a size; raw members of a message. */
#include "mcp_client.h"
#include "render/render.h"
#include "base/jsonscan.h"

START_TEST(screen)
{
	static const char *const cases[][2] = {
		{ "", "" },
		{ "plain\ntext\n", "plain\ntext\n" },
		{ "10%\r20%\r100%\n", "100%\n" },
		{ "long line\rshort", "shortline" },
		{ "long line\r\033[Kshort", "short" },
		{ "crlf\r\nnext\r\n", "crlf\nnext\n" },
		{ "ab\b\bxy\b", "xy" },
		{ "\b\b\ra", "a" },
		{ "\033[1;31mred\033[0m \033]0;title\aend\033]8;;x\033\\.", "red end." },
		{ "\033", "" },
		{ "a\033[", "a" },
		{ "\xe2\x82\xac\xe2\x82\xac\rx", "x\xe2\x82\xac" },
		{ "bell\a", "bell" },
		{ "\033]never closed\nnext", "\nnext" },
	};
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_render_screen(&out, cases[_i][0]);
	ck_assert_str_eq(cbx_buf_str(&out), cases[_i][1]);
}
END_TEST

START_TEST(cut)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	ck_assert_uint_eq(cbx_render_cut(&out, "0123456789", 10, 0, NULL), 0);
	ck_assert_str_eq(out.data, "0123456789");
	out.len = 0;
	ck_assert_uint_eq(cbx_render_cut(&out, "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 4, 0, NULL), 0);
	ck_assert_uint_eq(out.len, 12);
	out.len = 0;
	ck_assert_uint_eq(cbx_render_cut(&out, "\xe2\x82\xac" "1234567\xe2\x82\xac", 4, 100, "they are in F"), 5);
	ck_assert_str_eq(out.data, "\xe2\x82\xac" "1\n[... 105 bytes omitted here; they are in F ...]\n7\xe2\x82\xac");
	out.len = 0;
	ck_assert_uint_eq(cbx_render_cut(&out, "abc", 0, 0, NULL), 3);
}
END_TEST

static struct cbx_raw raw(const char *s)
{
	return (struct cbx_raw){ s, strlen(s) };
}

static void member_is(const char *text, const char *key, const char *value)
{
	_cleanup_free_ char *got = cbx_raw_copy(cbx_raw_member(raw(text), key));

	if (value)
		ck_assert_msg(got && strcmp(got, value) == 0, "%s in %s is %s", key, text, got ? got : "missing");
	else
		ck_assert_ptr_null(got);
}

START_TEST(members)
{
	member_is("{\"a\":1,\"b\":2}", "a", "1");
	member_is("{\"a\":1,\"b\":2}", "b", "2");
	member_is(" { \"a\" : [1,{\"b\":3}] , \"b\" : \"x\\\"}\" } ", "b", "\"x\\\"}\"");
	member_is("{\"a\":{\"b\":1}}", "b", NULL);
	member_is("{\"x\":\"b\",\"b\":-1.5e3}", "b", "-1.5e3");
	member_is("{\"b\":[]}", "b", "[]");
	member_is("{\"b\":{\"c\":\"]\"}}", "b", "{\"c\":\"]\"}");
	member_is("{}", "b", NULL);
	member_is("[\"b\"]", "b", NULL);
	member_is("7", "b", NULL);
	ck_assert_ptr_null(cbx_raw_member((struct cbx_raw){ 0 }, "b").p);
}
END_TEST

START_TEST(elements)
{
	const char *text = " [ 1, \"a,]\" ,{\"x\":[1,2]},[[]],null ] ";
	static const char *const expect[] = { "1", "\"a,]\"", "{\"x\":[1,2]}", "[[]]", "null" };
	size_t pos = 0;

	for (size_t i = 0; i < ARRAY_SIZE(expect); i++) {
		_cleanup_free_ char *got = cbx_raw_copy(cbx_raw_element(raw(text), &pos));

		ck_assert_str_eq(got, expect[i]);
	}
	ck_assert_ptr_null(cbx_raw_element(raw(text), &pos).p);
	pos = 0;
	ck_assert_ptr_null(cbx_raw_element(raw("[ ]"), &pos).p);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_loop_test(t, screen, 0, 14);
	tcase_add_test(t, cut);
	tcase_add_test(t, members);
	tcase_add_test(t, elements);
}

TEST_MAIN("mcp text", add)
