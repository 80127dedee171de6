/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that codebox-proxy adds: rules that have some, requests with them, answers that show them. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/network.h"
#include "proxy/head.h"
#include "proxy/secrets.h"
#include "proxy/within.h"
#include "unit_main.h"

#define ONE "{\"header\":\"X\",\"environment\":\"A_KEY\"}"

static void parse(const char *text, struct cbx_network *ret)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err = { 0 };

	ck_assert_int_eq(cbx_json_parse(text, strlen(text), &doc, &err), 0);
	ck_assert_msg(cbx_network_parse(doc.root, ret, NULL, &err) == 0, "%s", err.msg);
}

static const struct cbx_net_rule *allows(const struct cbx_network *net, const char *name, uint16_t port, const char *path, bool tls)
{
	struct cbx_host host;
	struct cbx_net_target t = { &host, port, path ? "GET" : NULL, path, tls };

	ck_assert_ptr_null(cbx_host_parse(name, strlen(name), &host));
	return cbx_network_allows(net, &t, NULL);
}

START_TEST(rules)
{
	static const struct {
		const char *text, *word;
	} bad[] = {
		{ "{\"host\":\"*.a.b\",\"secrets\":[" ONE "]}", "not the name of one host" },
		{ "{\"host\":\"*\",\"secrets\":[" ONE "]}", "not the name of one host" },
		{ "{\"host\":\"1.2.3.4\",\"secrets\":[" ONE "]}", "not the name of one host" },
		{ "{\"host\":\"a\",\"secrets\":[]}", "give a list" },
		{ "{\"host\":\"a\",\"secrets\":[1]}", "give objects" },
		{ "{\"host\":\"a\",\"secrets\":[{\"header\":\"X:\",\"environment\":\"A\"}]}", "name of a header" },
		{ "{\"host\":\"a\",\"secrets\":[{\"header\":\"content-length\",\"environment\":\"A\"}]}",
		  "name of a header" },
		{ "{\"host\":\"a\",\"secrets\":[{\"header\":\"X\",\"environment\":\"A=B\"}]}", "name of a variable" },
		{ "{\"host\":\"a\",\"secrets\":[{\"header\":\"X\",\"key\":\"A\"}]}", "unknown key" },
		{ "{\"host\":\"a\",\"secrets\":[" ONE "," ONE "]}", "two for the header" },
		{ "{\"host\":\"a\",\"secrets\":[{\"header\":\"A\",\"environment\":\"A\"},{\"header\":\"B\","
		  "\"environment\":\"A\"},"
		  "{\"header\":\"C\",\"environment\":\"A\"},{\"header\":\"D\",\"environment\":\"A\"},{\"header\":\"E\","
		  "\"environment\":\"A\"}]"
		  "}",
		  "too many" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_free_ char *text = cbx_xasprintf("{\"allow\":[%s]}", bad[i].text);
		_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
		struct cbx_network net;
		struct cbx_err err = { 0 };

		ck_assert_int_eq(cbx_json_parse(text, strlen(text), &doc, &err), 0);
		ck_assert_msg(cbx_network_parse(doc.root, &net, NULL, &err) < 0, "%s", text);
		ck_assert_msg(strstr(err.msg, bad[i].word), "%s: %s", text, err.msg);
	}
}
END_TEST

START_TEST(what_they_allow)
{
	struct cbx_network net, both, other;

	parse("{\"allow\":[{\"host\":\"a\",\"paths\":[\"/v1/\"],\"secrets\":[" ONE "]},"
	      "{\"host\":\"b\",\"plain\":true,\"secrets\":[" ONE "]},\"c\"]}",
	      &net);
	ck_assert(allows(&net, "a", 443, "/v1/x", true));
	ck_assert(!allows(&net, "a", 443, "/v2", true));
	ck_assert(!allows(&net, "a", 443, "/v1/x", false)); /* in the clear */
	ck_assert(!allows(&net, "a", 80, "/v1/x", false));
	ck_assert(!allows(&net, "a", 443, NULL, false)); /* a tunnel, which nobody reads */
	ck_assert(allows(&net, "b", 80, "/", false));
	ck_assert(allows(&net, "b", 443, "/", true));
	ck_assert(!allows(&net, "b", 443, NULL, false));
	ck_assert(allows(&net, "c", 443, NULL, false));

	/* What adds something comes first, wherever it stands. */
	parse("{\"allow\":[\"*\",{\"host\":\"b\",\"secrets\":[" ONE "]}]}", &other);
	ck_assert_uint_eq(allows(&other, "b", 443, "/", true)->nsecrets, 1);
	ck_assert_uint_eq(allows(&other, "c", 443, "/", true)->nsecrets, 0);
	cbx_network_release(&other);

	/* With a policy that says the same, all of that; with one that adds nothing, or another secret, nothing. */
	cbx_network_narrow(&both, &net, &net);
	ck_assert(allows(&both, "a", 443, "/v1/x", true) && !allows(&both, "a", 443, NULL, false));
	ck_assert_uint_eq(both.rules[0].nsecrets, 1);
	cbx_network_release(&both);
	parse("{\"allow\":[\"*\",{\"host\":\"b\",\"secrets\":[{\"header\":\"X\",\"environment\":\"B_KEY\"}]}]}",
	      &other);
	cbx_network_narrow(&both, &net, &other);
	ck_assert(!allows(&both, "a", 443, "/v1/x", true) && !allows(&both, "a", 443, NULL, false));
	ck_assert(!allows(&both, "b", 443, "/", true) && allows(&both, "c", 443, NULL, false));
	cbx_network_release(&both);
	cbx_network_release(&other);
	/* By plain HTTP if both say so. */
	parse("{\"allow\":[{\"host\":\"b\",\"ports\":[80,443],\"secrets\":[" ONE "]}]}", &other);
	cbx_network_narrow(&both, &net, &other);
	ck_assert(allows(&both, "b", 443, "/", true) && !allows(&both, "b", 80, "/", false));
	cbx_network_release(&both);
	cbx_network_release(&other);
	cbx_network_release(&net);
}
END_TEST

START_TEST(requests)
{
	static const char text[] = "GET /x HTTP/1.1\r\nHost: a\r\nx-key: mine\r\nX_Key: mine\r\nX-Keys: "
				   "1\r\nAccept-Encoding: gzip\r\n\r\n",
			  absolute[] = "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n";
	const struct cbx_added added = { "X-Key", "X-Key: ours" };
	_cleanup_buf_ struct cbx_buf out = { 0 };
	struct cbx_head h;

	ck_assert_int_eq(cbx_head_parse(absolute, strlen(absolute), 443, &h), -400);
	ck_assert_int_gt(cbx_head_parse(text, strlen(text), 443, &h), 0);
	ck_assert_uint_eq(h.port, 443);
	cbx_head_write(&h, &added, 1, &out);
	ck_assert_str_eq(out.data,
			 "GET /x HTTP/1.1\r\nHost: a\r\nX-Keys: 1\r\nX-Key: ours\r\nAccept-Encoding: identity\r\n"
			 "Connection: close\r\n\r\n");
	cbx_head_release(&h);
}
END_TEST

/* However an answer is cut into pieces, no secret gets out of it, and nothing else is lost. */
START_TEST(answers)
{
	static const char whole[] = "a secret-1 b secresecret-1secret-22 secret-",
			  hidden[] = "a ******** b secre***************** secret-";
	struct secret all[] = { { .value = (char *)"secret-1" }, { .value = (char *)"secret-22" }, { .value = NULL } };
	const struct secrets secrets = { all, 3, 9 };

	for (size_t piece = 1; piece <= sizeof(whole); piece++) {
		_cleanup_buf_ struct cbx_buf hold = { 0 }, out = { 0 };

		for (size_t at = 0; at < sizeof(whole) - 1; at += piece) {
			size_t n = sizeof(whole) - 1 - at, ready;

			cbx_buf_add(&hold, whole + at, n < piece ? n : piece);
			ready = secrets_hide(&secrets, hold.data, hold.len, false);
			cbx_buf_add(&out, hold.data, ready);
			cbx_buf_drop(&hold, ready);
		}
		ck_assert_uint_eq(secrets_hide(&secrets, hold.data, hold.len, true), hold.len);
		cbx_buf_add(&out, hold.data, hold.len);
		ck_assert_str_eq(out.data, hidden);
	}
}
END_TEST

/* By how long it takes nobody learns whether a guess that a server repeats is the beginning of a secret. */
START_TEST(what_is_held_back)
{
	static const char *const guesses[] = { "x secret-", "x terces-", "x secretx", "x 9999999" };
	struct secret all[] = { { .value = (char *)"secret-1" } };
	const struct secrets secrets = { all, 1, 8 };

	for (size_t i = 0; i < ARRAY_SIZE(guesses); i++) {
		char text[16];

		strcpy(text, guesses[i]);
		ck_assert_uint_eq(secrets_hide(&secrets, text, 9, false), 2);
		ck_assert_uint_eq(secrets_hide(&secrets, text, 9, true), 9);
		ck_assert_str_eq(text, guesses[i]);
		strcpy(text + 7, "-\n");
		ck_assert_uint_eq(secrets_hide(&secrets, text, 9, false), 9);
	}
}
END_TEST

static void release(struct secrets *secrets)
{
	for (size_t i = 0; i < secrets->n; i++) {
		free((char *)secrets->all[i].added.line);
		free(secrets->all[i].value);
		free(secrets->all[i].why);
	}
	free(secrets->all);
	memset(secrets, 0, sizeof(*secrets));
}

START_TEST(what_codeboxd_sends)
{
#define SENT(s) s, sizeof(s) - 1
	static const struct {
		const char *text;
		size_t n;
	} bad[] = { { SENT("v12345678\0v\0") },
		    { SENT("v12345678\0v\0w") },
		    { SENT("v12345678\0v\0x\0") },
		    { SENT("v12345678\0v\0wz\0w\0") },
		    { SENT("") } };
	struct cbx_added added[4];
	struct secrets secrets = { 0 };
	struct cbx_network net;
	const char *why;

	parse("{\"allow\":[{\"host\":\"a\",\"secrets\":[" ONE ",{\"header\":\"Y\",\"environment\":\"SHORT\"}]},"
	      "\"b\",{\"host\":\"c\",\"secrets\":[{\"header\":\"Z\",\"file\":\"/z\",\"value\":\"a {} b\"}]}]}",
	      &net);
	ck_assert(secrets_take(&net, SENT("v12345678\0v1234567\0v/+a.b-=_~\0"), &secrets));
	ck_assert_uint_eq(secrets_added(&secrets, &net.rules[0], added, &why), 2);
	ck_assert_str_eq(added[0].line, "X: 12345678");
	ck_assert_msg(why && strstr(why, "SHORT: it is shorter"), "%s", why);
	ck_assert_uint_eq(secrets_added(&secrets, &net.rules[1], added, &why), 0);
	ck_assert_uint_eq(secrets_added(&secrets, &net.rules[2], added, &why), 1);
	ck_assert_str_eq(added[0].line, "Z: a /+a.b-=_~ b");
	ck_assert_uint_eq(secrets.longest, 9);
	release(&secrets);
	ck_assert(secrets_take(&net, SENT("vwith spaces\0v1234567\r\0wnot there\0"), &secrets));
	ck_assert(strstr(secrets.all[0].why, "spaces") && strstr(secrets.all[1].why, "spaces"));
	ck_assert(strstr(secrets.all[2].why, "/z: not there"));
	release(&secrets);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ck_assert_msg(!secrets_take(&net, bad[i].text, bad[i].n, &secrets), "%zu", i);
		release(&secrets);
	}
	cbx_network_release(&net);
}
END_TEST

START_TEST(statuses)
{
	char why[256];

	ck_assert_int_eq(within_status("", 0, why), 0);
	ck_assert_int_eq(within_status("\0x", 2, why), 1);
	ck_assert_int_eq(within_status("\3ab", 3, why), 0);
	ck_assert_int_eq(within_status("\3a\nb", 4, why), -1);
	ck_assert_str_eq(why, "a?b");
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, rules);
	tcase_add_test(t, what_they_allow);
	tcase_add_test(t, requests);
	tcase_add_test(t, answers);
	tcase_add_test(t, what_is_held_back);
	tcase_add_test(t, what_codeboxd_sends);
	tcase_add_test(t, statuses);
}

TEST_MAIN("secrets", add)
