/* SPDX-License-Identifier: Apache-2.0 */
/* Files, artifacts, and cells that outlive their call, on a toy engine. */
#include "mcp_client.h"

#define RUN(id, code) CALL(id, "run_code", "{\"background\":true,\"code\":\"" code "\"}")
#define S "result.structuredContent."

START_TEST(background)
{
	struct client *c = client_new();
	cJSON *m = client_ask(c, RUN("1", "print a\\nwait"));

	ck_assert(!true_at(m, "result.isError"));
	ck_assert_str_eq(str_at(m, S "status"), "running");
	ck_assert_int_eq(int_at(m, S "execution_id"), 1);
	ck_assert_ptr_nonnull(strstr(text(m), "[session_id: fake-1, execution_id: 1]"));
	client_send(c, CANCEL("1")); /* has been answered */
	client_settle(c);
	ck_assert_uint_eq(fake_engine_running(c->engine), 1);
	m = client_ask(c, CALL("2", "get_execution", "{\"execution_id\":1}"));
	ck_assert_str_eq(str_at(m, S "status"), "running");
	ck_assert_str_eq(str_at(m, S "stdout"), "a\n");
	ck_assert_int_eq(cJSON_GetArraySize(at(m, S "files")), 0);
	/* A wait that is over, and one that is cancelled: the cell keeps running. */
	client_send(c, CALL("3", "get_execution", "{\"execution_id\":1,\"session_id\":\"fake-1\",\"wait\":0.01}"));
	while (c->seen == c->n)
		event_base_loop(c->base, EVLOOP_ONCE);
	ck_assert_str_eq(str_at(client_next(c), S "status"), "running");
	client_send(c, CALL("4", "get_execution", "{\"execution_id\":1,\"wait\":1e6}"));
	client_send(c, CANCEL("4"));
	ck_assert_ptr_null(client_next(c));
	ck_assert_uint_eq(fake_engine_running(c->engine), 1);
	ck_assert_uint_eq(fake_engine_interrupts(c->engine), 0);
	/* Two that wait, and the end. */
	client_send(c, CALL("5", "get_execution", "{\"execution_id\":1,\"wait\":45}"));
	client_send(c, CALL("6", "interrupt", "{}"));
	m = client_next(c);
	ck_assert_int_eq(int_at(m, "id"), 5);
	ck_assert_str_eq(str_at(m, S "status"), "cancelled");
	m = client_next(c);
	ck_assert_int_eq(int_at(m, "id"), 6);
	ck_assert(true_at(m, S "interrupted"));
	ck_assert_str_eq(str_at(m, S "status"), "cancelled");
	m = client_ask(c, CALL("7", "interrupt", "{}"));
	ck_assert(!true_at(m, S "interrupted"));
	m = client_ask(c, CALL("8", "interrupt", "{\"execution_id\":1}"));
	ck_assert(!true_at(m, S "interrupted"));
	client_free(c);
}
END_TEST

/* However many wait for a cell, it can be stopped. */
START_TEST(interrupt_with_many_waiting)
{
	struct client *c = client_new();
	bool refused = false;
	cJSON *m;

	client_ask(c, RUN("1", "wait"));
	for (int i = 10; i < 50 && !refused; i++) {
		_cleanup_free_ char *line =
			cbx_xasprintf(CALL("%d", "get_execution", "{\"execution_id\":1,\"wait\":45}"), i);

		client_send(c, line);
		m = client_next(c);
		refused = m && true_at(m, "result.isError");
	}
	ck_assert(refused);
	m = client_ask(c, CALL("2", "interrupt", "{}"));
	ck_assert_int_eq(int_at(m, "id"), 2);
	ck_assert(true_at(m, S "interrupted"));
	ck_assert_str_eq(str_at(m, S "status"), "running");
	ck_assert_ptr_nonnull(strstr(text(m), "has not ended yet"));
	m = client_next(c);
	ck_assert_str_eq(str_at(m, S "status"), "cancelled");
	ck_assert_uint_eq(fake_engine_running(c->engine), 0);
	client_free(c);
}
END_TEST

START_TEST(background_ends)
{
	struct client *c = client_new();
	cJSON *m;

	/* The session closes under a wait. */
	client_ask(c, RUN("1", "wait"));
	client_send(c, CALL("2", "get_execution", "{\"execution_id\":1,\"wait\":45}"));
	client_send(c, CALL("3", "close_session", "{\"session_id\":\"fake-1\"}"));
	ck_assert_int_eq(int_at(client_next(c), "id"), 3);
	m = client_next(c);
	ck_assert_int_eq(int_at(m, "id"), 2);
	ck_assert_str_eq(str_at(m, S "status"), "killed");
	/* The client goes while it waits. */
	client_ask(c, CALL("4", "create_session", "{\"session_id\":\"keep\"}"));
	client_ask(c, CALL("5", "run_code", "{\"background\":true,\"session_id\":\"keep\",\"code\":\"wait\"}"));
	client_send(c, CALL("6", "get_execution", "{\"session_id\":\"keep\",\"execution_id\":1,\"wait\":45}"));
	client_send(c, CALL("7", "interrupt", "{\"session_id\":\"none\"}"));
	ck_assert(true_at(client_next(c), "result.isError"));
	cbx_mcp_free(c->mcp);
	client_settle(c);
	ck_assert_uint_eq(fake_engine_running(c->engine), 1);
	client_connect(c);
	client_free(c);
}
END_TEST

START_TEST(pages)
{
	struct client *c = client_new();
	_cleanup_buf_ struct cbx_buf all = { 0 };
	cJSON *m;
	int at_byte = 0;

	m = client_run(c, "fill 19999 x\nprint \xe2\x82\xac\nfill 25000 y", NULL);
	ck_assert_ptr_nonnull(strstr(text(m), "output_from 0"));
	for (int i = 0; i < 10; i++) {
		_cleanup_free_ char *line = cbx_xasprintf(CALL("1", "get_execution", "{\"execution_id\":1,\"output_from\":%d}"),
							  at_byte);

		m = client_ask(c, line);
		ck_assert_int_eq(int_at(m, S "output_from"), at_byte);
		cbx_buf_adds(&all, str_at(m, S "output"));
		at_byte = int_at(m, S "output_next");
		if (at_byte == int_at(m, S "output_total"))
			break;
	}
	ck_assert_int_eq(at_byte, 19999 + 4 + 25000);
	ck_assert_uint_eq(all.len, 19999 + 4 + 25000);
	ck_assert_ptr_nonnull(strstr(all.data, "x\xe2\x82\xac\ny"));
	m = client_ask(c, CALL("1", "get_execution", "{\"execution_id\":1,\"output_from\":99999999}"));
	ck_assert_int_eq(int_at(m, S "output_from"), at_byte);
	/* Not in memory, and the file is not there either. */
	client_run(c, "fill 200000 z", NULL);
	m = client_ask(c, CALL("1", "get_execution", "{\"execution_id\":2,\"output_from\":150000}"));
	ck_assert(true_at(m, "result.isError"));
	fake_session_put(c->engine, "fake-1", ".codebox/outputs/1.txt", "from the file", 13);
	m = client_ask(c, CALL("1", "get_execution", "{\"execution_id\":2,\"output_from\":100000}"));
	ck_assert_ptr_null(at(m, S "stdout"));
	client_free(c);
}
END_TEST

/* The file has only the first 180,000 bytes at their place, memory has the last 10,000. */
START_TEST(pages_with_a_gap)
{
	struct client *c = client_new();
	_cleanup_free_ char *file = memset(cbx_xcalloc(1, 190001), 'f', 190000);
	cJSON *m;

	client_run(c, "fill 300000 z", NULL);
	fake_session_put(c->engine, "fake-1", ".codebox/outputs/1.txt", file, 190000);
	m = client_ask(c, CALL("1", "get_execution", "{\"execution_id\":1,\"output_from\":179990}"));
	ck_assert_str_eq(str_at(m, S "output"), "ffffffffff");
	ck_assert_int_eq(int_at(m, S "output_next"), 180000);
	m = client_ask(c, CALL("1", "get_execution", "{\"execution_id\":1,\"output_from\":180000}"));
	ck_assert(true_at(m, "result.isError"));
	ck_assert_ptr_nonnull(strstr(text(m), "still being written"));
	m = client_ask(c, CALL("1", "get_execution", "{\"execution_id\":1,\"output_from\":181000}"));
	ck_assert(true_at(m, "result.isError"));
	ck_assert_ptr_nonnull(strstr(text(m), "not kept"));
	ck_assert_ptr_nonnull(strstr(text(m), "output_from 290000"));
	m = client_ask(c, CALL("1", "get_execution", "{\"execution_id\":1,\"output_from\":290000}"));
	ck_assert_int_eq(int_at(m, S "output_next"), 300000);
	ck_assert_str_eq(str_at(m, S "output") + 9999, "z");
	client_free(c);
}
END_TEST

START_TEST(artifacts)
{
	struct client *c = client_new();
	cJSON *m;

	client_initialize(c, "2025-11-25");
	m = client_run(c, "write a/b.csv 1,2\nwrite odd\x01name x\nprint done", NULL);
	ck_assert_ptr_nonnull(
		strstr(text(m), "done\n[file written: a/b.csv, 3 bytes, text/csv]\n[file written: odd\\x01name"));
	ck_assert_str_eq(str_at(m, "result.content.1.type"), "resource_link");
	ck_assert_str_eq(str_at(m, "result.content.1.uri"), "codebox://sessions/fake-1/files/a/b.csv");
	ck_assert_str_eq(str_at(m, "result.content.1.name"), "b.csv");
	ck_assert_int_eq(int_at(m, "result.content.1.size"), 3);
	ck_assert_str_eq(str_at(m, S "files.1.uri"), "codebox://sessions/fake-1/files/odd%01name");
	/* Small images go inline, unless the cell showed one. */
	m = client_run(c, "png plot.png 150000\nwrite fake.png text\npng big.png 900000", NULL);
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.content")), 4);
	ck_assert_str_eq(str_at(m, "result.content.1.type"), "image");
	ck_assert_uint_eq(strlen(str_at(m, "result.content.1.data")), 200000);
	ck_assert_str_eq(str_at(m, "result.content.2.type"), "resource_link");
	ck_assert(true_at(m, S "files.0.sent"));
	ck_assert(!true_at(m, S "files.1.sent"));
	ck_assert(!true_at(m, S "files.2.sent"));
	m = client_run(c, "png plot.png 1000\nshow image/png 500", NULL);
	ck_assert(!true_at(m, S "files.0.sent"));
	ck_assert(true_at(m, S "images.0.sent"));
	m = client_run(c, "png 1.png 9\npng 2.png 9\npng 3.png 9\npng 4.png 9\npng 5.png 9", NULL);
	ck_assert(!true_at(m, S "files.0.sent"));
	/* Cancelled while the image is fetched. */
	client_run_async(c, "9", "png plot.png 150000", NULL, NULL);
	for (int i = 0; i < 3; i++)
		event_base_loop(c->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	client_send(c, CANCEL("9"));
	client_settle(c);
	client_run_async(c, "10", "png plot.png 150000", NULL, NULL);
	event_base_loop(c->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	client_free(c);
}
END_TEST

START_TEST(artifacts_old)
{
	struct client *c = client_new();
	cJSON *m;

	client_initialize(c, "2025-03-26");
	m = client_run(c, "write a.csv 1,2\npng b.png 100", NULL);
	ck_assert_str_eq(text(m), "[file written: a.csv, 3 bytes, text/csv]\n[file written: b.png, 100 bytes, image/png]\n"
				  "[session_id: fake-1]");
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.content")), 2);
	ck_assert_str_eq(str_at(m, "result.content.1.type"), "image");
	client_free(c);
}
END_TEST

/* Page by page a client sees all names, whether it looks at the text or at the structure. */
START_TEST(long_names)
{
	struct client *c = client_new();
	char path[256], shown[300 + 1] = "";
	int offset = 0, asked = 0, listed = 0;
	cJSON *m;
	bool more;

	client_run(c, "print x", NULL);
	for (int i = 0; i < 300; i++) {
		/* Not all of one length, and some of characters that are several bytes. */
		snprintf(path, sizeof(path), "%03d-%0*d%s", i, 40 + i % 7 * 20, 0, i % 3 ? "" : "\xc3\xa9\xe2\x82\xac");
		fake_session_put(c->engine, "fake-1", path, "x", 1);
	}
	do {
		_cleanup_free_ char *line = cbx_xasprintf(CALL("1", "list_files", "{\"offset\":%d}"), offset);
		int here = 0;

		m = client_ask(c, line);
		ck_assert_ptr_null(strstr(text(m), "omitted"));
		ck_assert_uint_le(cbx_utf8_count(text(m), strlen(text(m))), CBX_TEXT_CHARS + 100);
		for (const char *p = text(m); *p; p += strcspn(p, "\n"), p += *p == '\n') {
			if (p[0] == '[')
				continue;
			ck_assert_int_lt(atoi(p), 300);
			shown[atoi(p)]++;
			here++;
		}
		ck_assert_int_eq(here, cJSON_GetArraySize(at(m, S "files")));
		listed += here;
		more = at(m, S "next_offset");
		if (more)
			ck_assert_int_eq(int_at(m, S "next_offset"), listed);
		offset = listed;
	} while (more && ++asked < 10);
	ck_assert_int_gt(asked, 0);
	for (int i = 0; i < 300; i++)
		ck_assert_msg(shown[i] == 1, "%d is shown %d times", i, shown[i]);
	for (int i = 0; i <= CBX_LIST_MAX; i++) {
		snprintf(path, sizeof(path), "short/%d", i);
		fake_session_put(c->engine, "fake-1", path, "x", 1);
	}
	m = client_ask(c, CALL("1", "list_files", "{\"path\":\"short\"}"));
	ck_assert_int_eq(cJSON_GetArraySize(at(m, S "files")), CBX_LIST_MAX);
	ck_assert_int_eq(int_at(m, S "next_offset"), CBX_LIST_MAX);
	client_free(c);
}
END_TEST

START_TEST(files)
{
	struct client *c = client_new();
	cJSON *m = client_ask(c, CALL("1", "write_file", "{\"path\":\"d/a.txt\",\"content\":\"h\xc3\xa9llo\"}"));

	ck_assert_msg(!true_at(m, "result.isError"), "%s", c->raw[c->n - 1]);
	ck_assert_int_eq(int_at(m, S "written"), 6);
	ck_assert_str_eq(str_at(m, S "uri"), "codebox://sessions/fake-1/files/d/a.txt");
	client_ask(c, CALL("1", "write_file", "{\"path\":\"/workspace/d/a.txt\",\"content\":\"!\",\"append\":true}"));
	m = client_ask(c, CALL("2", "read_file", "{\"path\":\"d/a.txt\"}"));
	ck_assert_str_eq(text(m), "h\xc3\xa9llo!");
	ck_assert_str_eq(str_at(m, S "encoding"), "text");
	m = client_ask(c, CALL("2", "read_file", "{\"path\":\"d/a.txt\",\"length\":2}"));
	ck_assert_str_eq(str_at(m, S "content"), "h");
	ck_assert_int_eq(int_at(m, S "next_offset"), 1);
	m = client_ask(c, CALL("2", "read_file", "{\"path\":\"codebox://sessions/fake-1/files/d/a%2Etxt\",\"offset\":3}"));
	ck_assert_str_eq(str_at(m, S "content"), "llo!");
	m = client_ask(c, CALL("3", "upload_file", "{\"filename\":\"b\",\"content_base64\":\"AP8=\"}"));
	ck_assert_int_eq(int_at(m, S "written"), 2);
	m = client_ask(c, CALL("4", "read_file", "{\"path\":\"b\"}"));
	ck_assert_str_eq(str_at(m, S "encoding"), "base64");
	ck_assert_str_eq(str_at(m, S "content"), "AP8=");
	m = client_ask(c, CALL("5", "list_files", "{}"));
	ck_assert_int_eq(cJSON_GetArraySize(at(m, S "files")), 1);
	m = client_ask(c, CALL("5", "list_files", "{\"recursive\":true}"));
	ck_assert_str_eq(str_at(m, S "files.0.path"), "d/a.txt");
	ck_assert_str_eq(str_at(m, S "files.1.path"), "b");
	m = client_ask(c, CALL("5", "list_files", "{\"path\":\"d\"}"));
	ck_assert_str_eq(str_at(m, S "files.0.path"), "d/a.txt");
	m = client_ask(c, CALL("6", "session_info", "{}"));
	ck_assert(true_at(m, S "default"));
	/* Control characters take six bytes each: cut until it fits (client_receive checks it). */
	client_run(c, "fill 1 x", NULL);
	{
		_cleanup_buf_ struct cbx_buf b = { 0 };

		memset(cbx_buf_reserve(&b, 500000), 1, 500000);
		fake_session_put(c->engine, "fake-1", "ones", b.data, 500000);
	}
	m = client_ask(c, CALL("7", "read_file", "{\"path\":\"ones\",\"length\":400000}"));
	ck_assert_int_gt(int_at(m, S "length"), 10000);
	ck_assert_int_eq(int_at(m, S "next_offset"), int_at(m, S "length"));
	/* Nobody said how much. */
	client_ask(c, CALL("7", "write_file", "{\"path\":\"long\",\"content\":\"\"}"));
	{
		_cleanup_buf_ struct cbx_buf b = { 0 };

		memset(cbx_buf_reserve(&b, 500000), 'x', 500000);
		fake_session_put(c->engine, "fake-1", "long", b.data, 500000);
	}
	m = client_ask(c, CALL("7", "read_file", "{\"path\":\"long\"}"));
	ck_assert_int_eq(int_at(m, S "length"), CBX_READ_DEFAULT);
	/* Cancelled half-way. */
	client_send(c, CALL("8", "read_file", "{\"path\":\"ones\",\"length\":150000}"));
	client_send(c, CALL("9", "write_file", "{\"path\":\"x\",\"content\":\"x\"}"));
	client_send(c, CALL("10", "list_files", "{}"));
	client_send(c, CANCEL("8"));
	client_send(c, CANCEL("9"));
	client_send(c, CANCEL("10"));
	ck_assert_ptr_null(client_next(c));
	client_send(c, CALL("11", "read_file", "{\"path\":\"ones\",\"length\":150000}"));
	client_free(c);
}
END_TEST

static const struct {
	const char *line, *word;
} bad[] = {
	{ CALL("1", "read_file", "{}"), "missing argument: path" },
	{ CALL("1", "read_file", "{\"path\":\"none\"}"), "Call list_files" },
	{ CALL("1", "read_file", "{\"path\":\"a\",\"encoding\":\"x\"}"), "\"base64\"" },
	{ CALL("1", "read_file", "{\"path\":\"a\",\"length\":0}"), "length" },
	{ CALL("1", "read_file", "{\"path\":\"codebox://sessions/other/files/a\"}"),
	  "there is no session \"other\". " },
	{ CALL("1", "read_file", "{\"path\":\"codebox://sessions/fake-1/files/%00\"}"), "not the address" },
	{ CALL("1", "write_file", "{\"path\":\"a\"}"), "missing argument: content" },
	{ CALL("1", "write_file", "{\"path\":\"a\",\"content\":\"x\",\"encoding\":\"base64\"}"), "not base64" },
	{ CALL("1", "upload_file", "{\"filename\":\"a\",\"url\":\"http://example.com/\"}"), "network policy" },
	{ CALL("1", "upload_file", "{\"filename\":\"a\"}"), "missing argument: content_base64" },
	{ CALL("1", "upload_file", "{\"filename\":\"a\",\"url\":\"ftp://example.com/\"}"), "http:// or https://" },
	{ CALL("1", "upload_file", "{\"filename\":\"a\",\"url\":\"http://a/\",\"content_base64\":\"\"}"), "give one" },
	{ CALL("1", "list_files", "{\"path\":\"a\"}"), "Not a directory" },
	{ CALL("1", "list_files", "{\"recursive\":1}"), "recursive" },
	{ CALL("1", "get_execution", "{}"), "missing argument: execution_id" },
	{ CALL("1", "get_execution", "{\"execution_id\":7}"), "there is no 7" },
	{ CALL("1", "get_execution", "{\"execution_id\":1,\"wait\":-1}"), "wait" },
	{ CALL("1", "session_info", "{\"session_id\":\"none\"}"), "there is no session \"none\". Call list_sessions" },
	{ CALL("1", "run_code", "{\"code\":\"x\",\"background\":\"yes\"}"), "background" },
};

START_TEST(bad_arguments)
{
	struct client *c = client_new();
	cJSON *m;

	ck_assert(true_at(client_ask(c, CALL("0", "read_file", "{\"path\":\"a\"}")), "result.isError"));
	client_run(c, "write a text", NULL);
	m = client_ask(c, bad[_i].line);
	ck_assert_msg(true_at(m, "result.isError"), "%s", c->raw[c->n - 1]);
	ck_assert_msg(strstr(text(m), bad[_i].word), "\"%s\" lacks \"%s\"", text(m), bad[_i].word);
	client_free(c);
}
END_TEST

START_TEST(disk_full)
{
	struct client *c = client_new();
	_cleanup_buf_ struct cbx_buf line = { 0 };
	cJSON *m;

	cbx_buf_adds(&line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"write_file\","
			    "\"arguments\":{\"path\":\"a\",\"content\":\"");
	memset(cbx_buf_reserve(&line, FAKE_DISK + 1), 'x', FAKE_DISK + 1);
	line.len += FAKE_DISK + 1;
	cbx_buf_adds(&line, "\"}}}");
	m = client_ask(c, line.data);
	ck_assert(true_at(m, "result.isError"));
	ck_assert_ptr_nonnull(strstr(text(m), "No space left"));
	ck_assert_ptr_nonnull(strstr(text(m), "bytes had been written"));
	client_free(c);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, background);
	tcase_add_test(t, interrupt_with_many_waiting);
	tcase_add_test(t, background_ends);
	tcase_add_test(t, pages);
	tcase_add_test(t, pages_with_a_gap);
	tcase_add_test(t, artifacts);
	tcase_add_test(t, artifacts_old);
	tcase_add_test(t, long_names);
	tcase_add_test(t, files);
	tcase_add_loop_test(t, bad_arguments, 0, ARRAY_SIZE(bad));
	tcase_add_test(t, disk_full);
}

TEST_MAIN("mcp files", add)
