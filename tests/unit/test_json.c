/* SPDX-License-Identifier: Apache-2.0 */
/* The strict JSON reader: what it takes, refuses, and repairs; typed members; building. */
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "unit_main.h"

static const char *const good[] = {
	"null", "true", "false", "0", "-0", "1.5", "-1.25e+10", "1E5", "\"\"", "\"\\u00e9\\n\\/\\\\\\\"\"", "[]", "{}",
	" [ 1 , 2 ] ", "{\"a\":{\"b\":[{}]}}", "\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"", "\t\r\n{}\n", "1e400",
	"{\"\":1}", "\"\x7f\"",
};

START_TEST(accepts)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err;

	ck_assert_msg(cbx_json_parse(good[_i], strlen(good[_i]), &doc, &err) == 0, "%s: %s", good[_i], err.msg);
	ck_assert_int_eq(doc.problem.code, 0);
	ck_assert_ptr_nonnull(doc.root);
}
END_TEST

static const char *const bad[] = {
	"",	     " ",	    "nul",	 "nulll",
	"truefalse", "01",	    "-",	 "+1",
	".5",	     "1.",	    "1e",	 "1e+",
	"0x10",	     "NaN",	    "Infinity",	 "'a'",
	"\"",	     "\"a",	    "\"\\",	 "\"\\x41\"",
	"\"\\u12\"", "\"\\u12g4\"", "\"a\nb\"",	 "\"a\tb\"",
	"[",	     "[1",	    "[1,",	 "[1,]",
	"[,1]",	     "[1 2]",	    "{",	 "{\"a\"",
	"{\"a\":",   "{\"a\":1",    "{\"a\":1,", "{\"a\":1,}",
	"{a:1}",     "{1:1}",	    "{\"a\" 1}", "{\"a\":}",
	"{} {}",     "{}x",	    "1 2",	 "\xef\xbb\xbf{}",
	"// c\n1",   "[1]]",	    "\x01",	 "\xff",
	"}",	     "]",	    ",",
};

START_TEST(refuses)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err = { 0 };

	ck_assert_msg(cbx_json_parse(bad[_i], strlen(bad[_i]), &doc, &err) < 0, "%s", bad[_i]);
	ck_assert_str_eq(err.kind, "invalid_json");
	ck_assert_ptr_null(doc.root);
}
END_TEST

/* Text, the kind of problem, and the tree printed again. */
static const struct {
	const char *text, *kind, *printed;
} faulty[] = {
	{ "\"a\\u0000b\"", "invalid_string", "\"a\xef\xbf\xbd" "b\"" },
	{ "\"\\ud83d\"", "invalid_string", "\"\xef\xbf\xbd\"" },
	{ "\"\\ud83d\\u0041\"", "invalid_string", "\"\xef\xbf\xbd" "A\"" },
	{ "\"\\ud83dxx\"", "invalid_string", "\"\xef\xbf\xbdxx\"" },
	{ "\"\\ude00\\ud83d\"", "invalid_string", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
	{ "[\"\xff\",\"\xc0\x80\",\"ok\"]", "invalid_string",
	  "[\"\xef\xbf\xbd\",\"\xef\xbf\xbd\xef\xbf\xbd\",\"ok\"]" },
	{ "\"\xed\xa0\x80\"", "invalid_string", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
	{ "\"\xe2\x82\"", "invalid_string", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
	{ "{\"k\\u0000\":1}", "invalid_string", "{\"k\xef\xbf\xbd\":1}" },
	{ "{\"a\":1,\"b\":2,\"a\":3}", "duplicate_key", "{\"a\":1,\"b\":2,\"a\":3}" },
	{ "{\"a\":1,\"\\u0061\":2}", "duplicate_key", "{\"a\":1,\"a\":2}" },
	{ "{\"\":1,\"a\":2,\"\":3}", "duplicate_key", "{\"\":1,\"a\":2,\"\":3}" },
	{ "[{\"x\":{\"y\":1,\"y\":1}}]", "duplicate_key", "[{\"x\":{\"y\":1,\"y\":1}}]" },
};

START_TEST(repairs)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf out = { 0 };
	struct cbx_err err;

	ck_assert_int_eq(cbx_json_parse(faulty[_i].text, strlen(faulty[_i].text), &doc, &err), 0);
	ck_assert_int_ne(doc.problem.code, 0);
	ck_assert_str_eq(doc.problem.kind, faulty[_i].kind);
	cbx_json_print(&out, doc.root);
	ck_assert_str_eq(out.data, faulty[_i].printed);
}
END_TEST

/* What is read is printed again: the same value, in the form that is ours. */
static const char *const printed[][2] = {
	{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u001f\\u007f\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u001f\x7f\"" },
	{ "\"\\u00e9\\u20ac\\ud83d\\ude00\\uDBFF\\uDFFF\"", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\"" },
	{ "\"a\xc3\xa9\\nb\"", "\"a\xc3\xa9\\nb\"" },
	{ " { \"a\\tb\" : [ true , false , null , { } , [ ] ] } ", "{\"a\\tb\":[true,false,null,{},[]]}" },
	{ "0", "0" }, { "-0", "0" }, { "-17", "-17" }, { "999999999999999", "999999999999999" },
	{ "1e3", "1000" }, { "1E15", "1e+15" }, { "1000000000000000", "1e+15" }, { "0.1", "0.1" }, { "-1.5e-7", "-1.5e-07" },
	{ "0.30000000000000004", "0.30000000000000004" }, { "9007199254740993", "9007199254740992" },
	{ "1.7976931348623157e308", "1.7976931348623157e+308" }, { "1e400", "null" },
	{ "0.1000000000000000000000000000000000000000000000000000000000000000000000000000000000", "0.1" },
};

START_TEST(prints)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf out = { 0 };
	struct cbx_err err;

	ck_assert_int_eq(cbx_json_parse(printed[_i][0], strlen(printed[_i][0]), &doc, &err), 0);
	ck_assert_int_eq(doc.problem.code, 0);
	cbx_json_print(&out, doc.root);
	ck_assert_str_eq(out.data, printed[_i][1]);
}
END_TEST

/* Member by member, without a tree; what a model must not get is made visible. */
START_TEST(writes)
{
	_cleanup_json_ cJSON *list = cbx_json_new_arr();
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_json_push_str(list, "\x1b[31mred\x1b[0m");
	cbx_buf_addc(&out, '{');
	cbx_json_write_str(&out, "s", "one\ntwo {");
	cbx_json_write_str(&out, "omitted", NULL);
	cbx_json_write(&out, "omitted", NULL);
	cbx_json_write(&out, "list", list);
	cbx_json_write_key(&out, "o");
	cbx_buf_addc(&out, '{');
	cbx_json_write_u64(&out, "n", UINT64_MAX);
	cbx_buf_adds(&out, "}}");
	ck_assert_str_eq(out.data, "{\"s\":\"one\\ntwo {\",\"list\":[\"red\"],\"o\":{\"n\":18446744073709551615}}");
}
END_TEST

START_TEST(nul_byte)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err;

	ck_assert_int_lt(cbx_json_parse("{}\0", 3, &doc, &err), 0);
	ck_assert_int_lt(cbx_json_parse("\"a\0b\"", 5, &doc, &err), 0);
	ck_assert_int_eq(cbx_json_parse("[1]tail", 3, &doc, &err), 0); /* no byte behind len is looked at */
}
END_TEST

/* Each member and element is one, and what holds them, too. */
START_TEST(values)
{
	static const char text[] = "{\"a\":[1,\"[,]\",{}],\"b\":null}";
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err = { 0 };

	ck_assert_int_lt(cbx_json_parse_most(text, strlen(text), 5, &doc, &err), 0);
	ck_assert_str_eq(err.kind, "invalid_json");
	ck_assert_ptr_nonnull(strstr(err.msg, "too many values"));
	ck_assert_ptr_null(doc.root);
	ck_assert_int_eq(cbx_json_parse_most(text, strlen(text), 6, &doc, &err), 0);
	ck_assert_ptr_nonnull(doc.root);
}
END_TEST

START_TEST(depth)
{
	char text[2 * CBX_JSON_DEPTH_MAX + 8];
	struct cbx_err err;

	for (int over = 0; over < 2; over++) {
		_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
		size_t n = CBX_JSON_DEPTH_MAX + (size_t)over;

		memset(text, '[', n);
		memset(text + n, ']', n);
		ck_assert_int_eq(cbx_json_parse(text, 2 * n, &doc, &err) < 0, over);
	}
}
END_TEST

START_TEST(ids)
{
	static const char *const cases[][2] = {
		{ "{\"id\":1}", "1" },
		{ "{\"id\" : 9007199254740993 , \"x\":1}", "9007199254740993" },
		{ "{\"a\":{\"id\":3},\"id\":\"\\u0041\"}", "\"\\u0041\"" },
		{ "{\"id\":null}", "null" },
		{ "{\"id\":{\"id\":1}}", "{\"id\":1}" },
		{ "{\"a\":{\"id\":3}}", NULL },
		{ "[{\"id\":3}]", NULL },
		{ "{\"Id\":3}", NULL },
		{ "{\"id\":7,\"x\":\"\\u0000\"}", "7" },
	};
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err;

	ck_assert_int_eq(cbx_json_parse(cases[_i][0], strlen(cases[_i][0]), &doc, &err), 0);
	if (cases[_i][1])
		ck_assert_str_eq(doc.id, cases[_i][1]);
	else
		ck_assert_ptr_null(doc.id);
}
END_TEST

START_TEST(many_members)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_err err;

	for (int i = 0; i < 200000; i++)
		cbx_buf_addf(&text, "%c\"k%d\":0", i ? ',' : '{', i);
	cbx_buf_adds(&text, ",\"k7\":1}");
	ck_assert_int_eq(cbx_json_parse(text.data, text.len, &doc, &err), 0);
	ck_assert_str_eq(doc.problem.kind, "duplicate_key");
	ck_assert_ptr_nonnull(strstr(doc.problem.msg, "\"k7\""));
}
END_TEST

static cJSON *tree(struct cbx_json_doc *doc, const char *text)
{
	struct cbx_err err;

	ck_assert_int_eq(cbx_json_parse(text, strlen(text), doc, &err), 0);
	return doc->root;
}

START_TEST(members)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	cJSON *o = tree(
		&doc,
		"{\"s\":\"x\",\"n\":5,\"f\":1.5,\"neg\":-1,\"big\":1e300,\"b\":true,\"o\":{},\"a\":[],\"z\":null}");
	const char *s = "kept";
	const cJSON *j = NULL;
	uint64_t n = 9;
	double d = 0;
	bool b = false;
	struct cbx_err err;

	ck_assert_int_eq(cbx_json_get_str(o, "none", &s, &err), 0);
	ck_assert_int_eq(cbx_json_get_str(o, "z", &s, &err), 0);
	ck_assert_str_eq(s, "kept");
	ck_assert_int_eq(cbx_json_get_str(o, "S", &s, &err), 0); /* names are case-sensitive */
	ck_assert_int_eq(cbx_json_get_str(o, "s", &s, &err), 1);
	ck_assert_str_eq(s, "x");
	ck_assert_int_lt(cbx_json_get_str(o, "n", &s, &err), 0);
	ck_assert_str_eq(err.kind, "invalid_argument");
	ck_assert_str_eq(err.msg, "n: a string is expected, not 5");
	ck_assert_int_eq(cbx_json_get_u64(o, "n", 0, 5, &n, &err), 1);
	ck_assert_uint_eq(n, 5);
	ck_assert_int_lt(cbx_json_get_u64(o, "n", 0, 4, &n, &err), 0);
	ck_assert_int_lt(cbx_json_get_u64(o, "n", 6, 9, &n, &err), 0);
	ck_assert_int_lt(cbx_json_get_u64(o, "f", 0, 9, &n, &err), 0);
	ck_assert_int_lt(cbx_json_get_u64(o, "neg", 0, 9, &n, &err), 0);
	ck_assert_int_lt(cbx_json_get_u64(o, "big", 0, UINT64_MAX, &n, &err), 0);
	ck_assert_int_lt(cbx_json_get_u64(o, "s", 0, 9, &n, &err), 0);
	ck_assert_uint_eq(n, 5);
	ck_assert_int_eq(cbx_json_get_double(o, "f", 0, 2, &d, &err), 1);
	ck_assert(fabs(d - 1.5) < 1e-12);
	ck_assert_int_lt(cbx_json_get_double(o, "f", 2, 3, &d, &err), 0);
	ck_assert_int_eq(cbx_json_get_bool(o, "b", &b, &err), 1);
	ck_assert(b);
	ck_assert_int_lt(cbx_json_get_bool(o, "n", &b, &err), 0);
	ck_assert_int_eq(cbx_json_get_obj(o, "o", &j, &err), 1);
	ck_assert_int_lt(cbx_json_get_obj(o, "a", &j, &err), 0);
	ck_assert_int_eq(cbx_json_get_arr(o, "a", &j, &err), 1);
	ck_assert_int_lt(cbx_json_get_arr(o, "o", &j, &err), 0);
	ck_assert_int_eq(cbx_json_get_str(NULL, "s", &s, &err), 0);
}
END_TEST

START_TEST(infinite)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	cJSON *o = tree(&doc, "{\"x\":1e400}");
	uint64_t n = 0;
	double d = 0;
	struct cbx_err err;

	ck_assert_int_lt(cbx_json_get_double(o, "x", 0, 1e308, &d, &err), 0);
	ck_assert_int_lt(cbx_json_get_u64(o, "x", 0, UINT64_MAX, &n, &err), 0);
}
END_TEST

START_TEST(only)
{
	static const char *const keys[] = { "a", "b", NULL };
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err;

	ck_assert_int_eq(cbx_json_only(tree(&doc, "{\"b\":1}"), keys, &err), 0);
	cbx_json_doc_release(&doc);
	ck_assert_int_lt(cbx_json_only(tree(&doc, "{\"b\":1,\"c\":2}"), keys, &err), 0);
	ck_assert_str_eq(err.msg, "unknown member \"c\"; accepted are: a, b");
}
END_TEST

/* A message that shows a value cuts it between characters. */
START_TEST(cut_values)
{
	struct cbx_json_doc doc = { 0 };
	struct cbx_err err = { 0 };
	struct cbx_buf text = { 0 };
	uint64_t n = 0;

	for (int pad = 0; pad < 4; pad++) {
		text.len = 0;
		cbx_buf_addf(&text, "{\"n\":\"%.*s", pad, "xxx");
		for (int i = 0; i < 60; i++)
			cbx_buf_adds(&text, "\xe2\x82\xac");
		cbx_buf_adds(&text, "\"}");
		ck_assert_int_eq(cbx_json_parse(text.data, text.len, &doc, &err), 0);
		ck_assert_int_lt(cbx_json_get_u64(doc.root, "n", 0, 9, &n, &err), 0);
		ck_assert(cbx_utf8_valid(err.msg, strlen(err.msg)));
		cbx_json_doc_release(&doc);
	}
	cbx_buf_release(&text);
}
END_TEST

START_TEST(building)
{
	_cleanup_json_ cJSON *o = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf out = { 0 };
	cJSON *a = cbx_json_new_arr();

	cbx_json_set_u64(o, "u", UINT64_MAX);
	cbx_json_set_i64(o, "i", INT64_MIN);
	cbx_json_set_double(o, "d", 0.5);
	cbx_json_set_u64(o, "zero", 0);
	cbx_json_set_thousandths(o, "m", 1002034);
	cbx_json_set_str(o, "s", "a\nb\xff\x01");
	cbx_json_set_str(o, "left out", NULL);
	cbx_json_set_strn(o, "z", "a\0b", 3);
	cbx_json_set_bool(o, "t", true);
	cbx_json_set_null(o, "n");
	cbx_json_push_str(a, "x");
	cbx_json_push(a, cbx_json_new_obj());
	cbx_json_set(o, "a", a);
	cbx_json_print(&out, o);
	ck_assert_str_eq(out.data, "{\"u\":18446744073709551615,\"i\":-9223372036854775808,\"d\":0.5,"
				   "\"zero\":0,\"m\":1002.034,"
				   "\"s\":\"a\\nb\xef\xbf\xbd\\u0001\",\"z\":\"a\xe2\x90\x80"
				   "b\",\"t\":true,\"n\":null,"
				   "\"a\":[\"x\",{}]}");
}
END_TEST

static void add(TCase *t)
{
	tcase_add_loop_test(t, accepts, 0, ARRAY_SIZE(good));
	tcase_add_loop_test(t, refuses, 0, ARRAY_SIZE(bad));
	tcase_add_loop_test(t, repairs, 0, ARRAY_SIZE(faulty));
	tcase_add_loop_test(t, prints, 0, ARRAY_SIZE(printed));
	tcase_add_test(t, writes);
	tcase_add_test(t, nul_byte);
	tcase_add_test(t, depth);
	tcase_add_test(t, values);
	tcase_add_loop_test(t, ids, 0, 9);
	tcase_add_test(t, many_members);
	tcase_add_test(t, members);
	tcase_add_test(t, infinite);
	tcase_add_test(t, only);
	tcase_add_test(t, building);
	tcase_add_test(t, cut_values);
}

TEST_MAIN("json", add)
