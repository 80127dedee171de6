/* SPDX-License-Identifier: Apache-2.0 */
/* What both eras have for people: resources, prompts, completion. */
#include "mcp_modern.h"

START_TEST(resources_list)
{
	struct client *c = client_new();
	cJSON *m;

	client_ask(c, CREATE("beta"));
	client_ask(c, CREATE("alpha"));
	fake_session_put(c->engine, "beta", "dir/a b\xc3\xa9\xff.csv", "x", 1);
	fake_session_put(c->engine, "alpha", "p.png", "12345", 5);
	client_run(c, "print own", NULL); /* a legacy default session: not of the modern era */
	m = ask(c, "resources/list", "");
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.resources")), 6);
	ck_assert_str_eq(str_at(m, "result.resources.0.uri"), "codebox://sessions");
	ck_assert_str_eq(str_at(m, "result.resources.2.uri"), "codebox://sessions/alpha");
	ck_assert_str_eq(str_at(m, "result.resources.3.uri"), "codebox://sessions/alpha/files/p.png");
	ck_assert_str_eq(str_at(m, "result.resources.3.name"), "p.png");
	ck_assert_str_eq(str_at(m, "result.resources.3.mimeType"), "image/png");
	ck_assert_int_eq(int_at(m, "result.resources.3.size"), 5);
	ck_assert_str_eq(str_at(m, "result.resources.5.uri"), "codebox://sessions/beta/files/dir/a%20b%C3%A9%FF.csv");
	ck_assert_str_eq(str_at(m, "result.resources.5.mimeType"), "text/csv");
	ck_assert_ptr_null(at(m, "result.nextCursor"));
	m = client_ask(c, OLD("1", "resources/list", ""));
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.resources")), 7); /* its own */
	client_free(c);
}
END_TEST

/* More than one answer can tell of: each page is one, and together they are all. */
START_TEST(many_sessions)
{
	struct client *c = client_new();
	char more[160] = "", uri[160] = "codebox://sessions";
	size_t total = 0, pages = 0;
	cJSON *m;

	for (int s = 0; s < 700; s++) {
		_cleanup_free_ char *call = cbx_xasprintf(
			",\"name\":\"create_session\",\"arguments\":{\"session_id\":\"session-%d\"}", s);

		ask(c, "tools/call", call);
	}
	do {
		_cleanup_free_ char *call = cbx_xasprintf(",\"name\":\"list_sessions\",\"arguments\":{%s}", more);

		m = ask(c, "tools/call", call);
		total += (size_t)cJSON_GetArraySize(at(m, "result.structuredContent.sessions"));
		if (at(m, "result.structuredContent.next_cursor"))
			snprintf(more, sizeof(more), "\"cursor\":\"%s\"",
				 str_at(m, "result.structuredContent.next_cursor"));
		pages++;
	} while (at(m, "result.structuredContent.next_cursor") && pages < 20);
	ck_assert_uint_eq(total, 700);
	ck_assert_uint_eq(pages, 7);
	total = pages = 0;
	for (bool on = true; on && pages < 20; pages++) {
		_cleanup_free_ char *params = cbx_xasprintf(",\"uri\":\"%s\"", uri);
		_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
		struct cbx_err err;
		const char *text;

		m = ask(c, "resources/read", params);
		text = str_at(m, "result.contents.0.text");
		ck_assert_int_eq(cbx_json_parse(text, strlen(text), &doc, &err), 0);
		total += (size_t)cJSON_GetArraySize(cJSON_GetObjectItem(doc.root, "sessions"));
		on = cJSON_GetObjectItem(doc.root, "next");
		if (on)
			snprintf(uri, sizeof(uri), "%s", cJSON_GetStringValue(cJSON_GetObjectItem(doc.root, "next")));
	}
	ck_assert_uint_eq(total, 700);
	ck_assert_uint_eq(pages, 7);
	m = ask(c, "resources/read", ",\"uri\":\"codebox://sessions?after=../x\"");
	ck_assert_ptr_nonnull(at(m, "error"));
	client_free(c);
}
END_TEST

START_TEST(resources_pages)
{
	struct client *c = client_new();
	char path[32], more[128] = "";
	size_t total = 0, pages = 0;
	cJSON *m;

	for (int s = 0; s < 4; s++) {
		_cleanup_free_ char *call = cbx_xasprintf(
			",\"name\":\"create_session\",\"arguments\":{\"session_id\":\"s%d\"}", s);
		char id[8];

		ask(c, "tools/call", call);
		snprintf(id, sizeof(id), "s%d", s);
		for (int i = 0; i < 60; i++) {
			snprintf(path, sizeof(path), "f%d", i);
			fake_session_put(c->engine, id, path, "x", 1);
		}
	}
	do {
		m = ask(c, "resources/list", more);
		total += (size_t)cJSON_GetArraySize(at(m, "result.resources"));
		pages++;
		if (at(m, "result.nextCursor"))
			snprintf(more, sizeof(more), ",\"cursor\":\"%s\"", str_at(m, "result.nextCursor"));
	} while (at(m, "result.nextCursor") && pages < 10);
	ck_assert_uint_eq(total, 2 + 4 * 61);
	ck_assert_uint_eq(pages, 2);
	/* A session that has gone does not make its cursor a bad one. */
	client_ask(c, CLOSE("s1"));
	m = ask(c, "resources/list", ",\"cursor\":\"after:s1\"");
	ck_assert_str_eq(str_at(m, "result.resources.0.uri"), "codebox://sessions/s2");
	/* One session cannot fill the list. */
	for (int i = 0; i < 1000; i++) {
		snprintf(path, sizeof(path), "g%d", i);
		fake_session_put(c->engine, "s3", path, "x", 1);
	}
	m = ask(c, "resources/list", ",\"cursor\":\"after:s2\"");
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.resources")), 1 + CBX_LIST_FILES_MAX);
	client_free(c);
}
END_TEST

static cJSON *read_uri(struct client *c, bool modern, const char *uri)
{
	_cleanup_free_ char *line = cbx_xasprintf(
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{%s\"uri\":\"%s\"}}",
		modern ? META "," : "", uri);

	return client_ask(c, line);
}

START_TEST(resources_read)
{
	struct client *c = client_new();
	cJSON *m;

	client_ask(c, CREATE("s"));
	fake_session_put(c->engine, "s", "a b.csv", "x,y\n1,\xc3\xa9\n", 9);
	fake_session_put(c->engine, "s", "b.bin", "\0\1\xff", 3);
	fake_session_put(c->engine, "s", "empty", "", 0);
	m = read_uri(c, true, "codebox://sessions/s/files/a%20b.csv");
	check_complete(m);
	check_caching(m, "private");
	ck_assert_str_eq(str_at(m, "result.contents.0.uri"), "codebox://sessions/s/files/a%20b.csv");
	ck_assert_str_eq(str_at(m, "result.contents.0.mimeType"), "text/csv");
	ck_assert_str_eq(str_at(m, "result.contents.0.text"), "x,y\n1,\xc3\xa9\n");
	ck_assert_ptr_null(at(m, "result.contents.0.blob"));
	m = read_uri(c, true, "codebox://sessions/s/files//workspace/b.bin");
	ck_assert_str_eq(str_at(m, "result.contents.0.blob"), "AAH/");
	ck_assert_ptr_null(at(m, "result.contents.0.text"));
	m = read_uri(c, false, "codebox://sessions/s/files/empty");
	ck_assert_str_eq(str_at(m, "result.contents.0.text"), "");
	ck_assert_str_eq(str_at(m, "result.contents.0.mimeType"), "text/plain");
	ck_assert_ptr_null(at(m, "result.ttlMs"));
	m = read_uri(c, true, "codebox://sessions");
	ck_assert_ptr_nonnull(strstr(str_at(m, "result.contents.0.text"), "\"session_id\":\"s\""));
	ck_assert_str_eq(str_at(m, "result.contents.0.mimeType"), "application/json");
	m = read_uri(c, true, "codebox://sessions/s");
	ck_assert_ptr_nonnull(strstr(str_at(m, "result.contents.0.text"), "\"memory_bytes\":"));
	client_free(c);
}
END_TEST

static const char *const no_such[] = {
	"codebox://sessions/s/files/none", "codebox://sessions/t/files/a",  "codebox://sessions/t",
	"codebox://sessions/",		   "codebox://sessions/s/files/",   "codebox://sessions/s/files/%00",
	"codebox://sessions/s/files/%2",   "codebox://sessions/../files/a", "codebox://sessions/s/file/a",
	"codebox://sessionsx",		   "file:///etc/passwd",	    "",
};

START_TEST(not_found)
{
	struct client *c = client_new();
	cJSON *m;

	client_ask(c, CREATE("s"));
	m = read_uri(c, true, no_such[_i]);
	ck_assert_int_eq(int_at(m, "error.code"), -32602);
	ck_assert_str_eq(str_at(m, "error.data.uri"), no_such[_i]);
	m = read_uri(c, false, no_such[_i]);
	ck_assert_int_eq(int_at(m, "error.code"), -32002);
	ck_assert_str_eq(str_at(m, "error.data.uri"), no_such[_i]);
	client_free(c);
}
END_TEST

/* No message over the limit, whatever is in a file. */
START_TEST(read_large)
{
	static const struct {
		size_t n;
		char fill;
		const char *form; /* NULL: refused */
	} cases[] = {
		{ 600000, 'a', "text" }, { 900000, 'a', "text" }, { 600000, '\xff', "blob" }, { 692000, '\xff', NULL },
		{ 600000, '\1', "blob" }, { 5000000, 'a', NULL },
	};
	struct client *c = client_new();

	client_ask(c, CREATE("s"));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct cbx_buf data = { 0 };
		_cleanup_free_ char *path = NULL;
		cJSON *m;

		memset(cbx_buf_reserve(&data, cases[i].n), cases[i].fill, cases[i].n);
		fake_session_put(c->engine, "s", "big", data.data, cases[i].n);
		for (int k = 0; k < 100 && c->seen == c->n; k++) {
			if (k == 0)
				client_send(c, ASK("1", "resources/read", ",\"uri\":\"codebox://sessions/s/files/big\""));
			client_settle(c);
		}
		m = client_next(c);
		ck_assert_ptr_nonnull(m);
		ck_assert_uint_lt(strlen(c->raw[c->seen - 1]), CBX_REPLY_MAX);
		path = cases[i].form ? cbx_xasprintf("result.contents.0.%s", cases[i].form) : NULL;
		if (path) {
			ck_assert_uint_ge(strlen(str_at(m, path)), cases[i].n);
		} else {
			const char *why = str_at(m, "error.message");
			double kib = 0;

			/* The ceiling that is named is one that this file is above. */
			ck_assert_int_eq(int_at(m, "error.code"), -32603);
			ck_assert_int_eq(sscanf(strstr(why, "about"), "about %lf KiB of any file", &kib), 1);
			ck_assert_double_gt(kib * 1024, 600000);
			ck_assert_double_lt(kib * 1024, (double)cases[i].n);
		}
	}
	client_free(c);
}
END_TEST

/* Requests that wait for files can be cancelled, and outlive neither answer nor connection. */
START_TEST(jobs)
{
	struct client *c = client_new();
	size_t n;

	client_ask(c, CREATE("s"));
	fake_session_put(c->engine, "s", "f", "x", 1);
	n = c->n;
	client_send(c, ASK("1", "resources/read", ",\"uri\":\"codebox://sessions/s/files/f\""));
	client_send(c, CANCEL("1"));
	client_settle(c);
	ck_assert_uint_eq(c->n, n);
	for (int i = 0; i < CBX_JOBS_MAX + 1; i++)
		client_send(c, ASK("1", "resources/read", ",\"uri\":\"codebox://sessions/s/files/f\""));
	ck_assert_uint_eq(c->n, n + 1);
	ck_assert_int_eq(int_at(c->got[n], "error.code"), -32603);
	client_settle(c);
	ck_assert_uint_eq(c->n, n + 1 + CBX_JOBS_MAX);
	client_send(c, ASK("1", "resources/list", ""));
	client_send(c, ASK("2", "resources/read", ",\"uri\":\"codebox://sessions/s/files/f\""));
	client_free(c); /* with the callbacks still to come */
}
END_TEST

/* ---- prompts, completion ---- */

START_TEST(prompts)
{
	struct client *c = client_new();
	cJSON *m = ask(c, "prompts/list", "");

	ck_assert_str_eq(str_at(m, "result.prompts.0.name"), "analyze_data");
	ck_assert_str_eq(str_at(m, "result.prompts.0.arguments.0.name"), "file");
	ck_assert(true_at(m, "result.prompts.0.arguments.0.required"));
	m = ask(c, "prompts/get",
		",\"name\":\"analyze_data\",\"arguments\":{\"file\":\"d%s.csv\",\"question\":\"who?\"}");
	check_complete(m);
	ck_assert_str_eq(str_at(m, "result.messages.0.role"), "user");
	ck_assert_ptr_nonnull(strstr(str_at(m, "result.messages.0.content.text"), "d%s.csv"));
	ck_assert_ptr_nonnull(strstr(str_at(m, "result.messages.0.content.text"), "who?"));
	m = ask(c, "prompts/get", ",\"name\":\"plot_data\",\"arguments\":{\"file\":\"f\",\"session_id\":\"s-1\"}");
	ck_assert_ptr_nonnull(strstr(str_at(m, "result.messages.0.content.text"), "\"s-1\""));
	m = ask(c, "prompts/get", ",\"name\":\"analyze_data\"");
	ck_assert_int_eq(int_at(m, "error.code"), -32602);
	m = ask(c, "prompts/get", ",\"name\":\"analyze_data\",\"arguments\":{\"file\":7}");
	ck_assert_int_eq(int_at(m, "error.code"), -32602);
	ck_assert_int_eq(int_at(ask(c, "prompts/get", ",\"name\":\"nope\""), "error.code"), -32602);
	client_free(c);
}
END_TEST

#define PROMPT ",\"ref\":{\"type\":\"ref/prompt\",\"name\":\"analyze_data\"},"
#define TEMPLATE ",\"ref\":{\"type\":\"ref/resource\",\"uri\":\"codebox://sessions/{session_id}/files/{+path}\"},"
#define OF_S ",\"context\":{\"arguments\":{\"session_id\":\"s\"}}"

START_TEST(completion)
{
	struct client *c = client_new();
	char path[32];
	cJSON *m;

	client_ask(c, CREATE("s"));
	client_ask(c, CREATE("t"));
	fake_session_put(c->engine, "s", "data/b.csv", "x", 1);
	fake_session_put(c->engine, "s", "data/a.csv", "x", 1);
	fake_session_put(c->engine, "s", "other\xff", "x", 1);
	m = ask(c, "completion/complete", TEMPLATE "\"argument\":{\"name\":\"session_id\",\"value\":\"\"}");
	check_complete(m);
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.completion.values")), 2);
	m = ask(c, "completion/complete", PROMPT "\"argument\":{\"name\":\"session_id\",\"value\":\"t\"}");
	ck_assert_str_eq(str_at(m, "result.completion.values.0"), "t");
	ck_assert(!true_at(m, "result.completion.hasMore"));
	m = ask(c, "completion/complete", PROMPT "\"argument\":{\"name\":\"file\",\"value\":\"data/\"}" OF_S);
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.completion.values")), 2);
	ck_assert_str_eq(str_at(m, "result.completion.values.0"), "data/a.csv");
	m = ask(c, "completion/complete", TEMPLATE "\"argument\":{\"name\":\"path\",\"value\":\"o\"}" OF_S);
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.completion.values")), 0); /* no valid text */
	m = ask(c, "completion/complete", TEMPLATE "\"argument\":{\"name\":\"path\",\"value\":\"\"}");
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.completion.values")), 0);
	m = ask(c, "completion/complete", PROMPT "\"argument\":{\"name\":\"question\",\"value\":\"\"}");
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.completion.values")), 0);
	for (int i = 0; i < 150; i++) {
		snprintf(path, sizeof(path), "n%03d", i);
		fake_session_put(c->engine, "s", path, "x", 1);
	}
	m = ask(c, "completion/complete", TEMPLATE "\"argument\":{\"name\":\"path\",\"value\":\"n\"}" OF_S);
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.completion.values")), 100);
	ck_assert(true_at(m, "result.completion.hasMore"));
	ck_assert_int_eq(int_at(m, "result.completion.total"), 150);
	m = ask(c, "completion/complete",
		",\"ref\":{\"type\":\"ref/prompt\",\"name\":\"no\"},\"argument\":{\"name\":\"a\",\"value\":\"\"}");
	ck_assert_int_eq(int_at(m, "error.code"), -32602);
	ck_assert_int_eq(int_at(ask(c, "completion/complete", PROMPT "\"argument\":{}"), "error.code"), -32602);
	client_free(c);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, resources_list);
	tcase_add_test(t, resources_pages);
	tcase_add_test(t, many_sessions);
	tcase_add_test(t, resources_read);
	tcase_add_loop_test(t, not_found, 0, (int)ARRAY_SIZE(no_such));
	tcase_add_test(t, read_large);
	tcase_add_test(t, jobs);
	tcase_add_test(t, prompts);
	tcase_add_test(t, completion);
}

TEST_MAIN("mcp_resources", add_tests)
