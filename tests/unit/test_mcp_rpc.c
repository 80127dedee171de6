/* SPDX-License-Identifier: Apache-2.0 */
/* JSON-RPC and the handshake: what goes in, what must come out, and what must not. */
#include "mcp_client.h"

START_TEST(handshake)
{
	static const char *const versions[][2] = {
		{ "2024-11-05", "2024-11-05" }, { "2025-03-26", "2025-03-26" }, { "2025-06-18", "2025-06-18" },
		{ "2025-11-25", "2025-11-25" }, { "2026-07-28", "2025-11-25" }, { "1999-01-01", "2025-11-25" },
	};
	struct client *c = client_new();
	cJSON *m = client_initialize(c, versions[_i][0]);

	ck_assert_str_eq(str_at(m, "result.protocolVersion"), versions[_i][1]);
	ck_assert_str_eq(str_at(m, "result.serverInfo.name"), "codebox");
	ck_assert(!true_at(m, "result.capabilities.tools.listChanged"));
	ck_assert_uint_lt(strlen(str_at(m, "result.instructions")), 2048);
	ck_assert_ptr_null(client_next(c)); /* notifications/initialized is not answered */
	client_free(c);
}
END_TEST

START_TEST(handshake_faults)
{
	struct client *c = client_new();

	ck_assert_int_eq(
		int_at(client_ask(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}"), "error.code"),
		-32602);
	ck_assert_int_eq(int_at(client_ask(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":"
					      "{\"protocolVersion\":7}}"),
				"error.code"),
			 -32602);
	client_free(c);
}
END_TEST

/* Each line, and the code of the error that answers it (0: no answer; 1: a result), and the id in it. */
static const struct {
	const char *line;
	int code;
	const char *id;
} lines[] = {
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", 1, "1" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"ping\"}", 1, "9007199254740993" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":123456789012345678901234567890,\"method\":\"ping\"}", 1,
	  "123456789012345678901234567890" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":-7,\"method\":\"ping\"}", 1, "-7" },
	{ " {\"jsonrpc\":\"2.0\", \"method\":\"ping\", \"id\" : \"a\\u0062 \\\" c\" } \r", 1, "\"a\\u0062 \\\" c\"" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"ping\"}", 1, "\"\"" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"server/discover\",\"params\":{}}", -32602, "2" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"logging/unknown\",\"params\":{\"level\":\"info\"}}", -32601,
	  "2" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tasks/list\"}", -32601, "2" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600, "null" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600, "null" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1e3,\"method\":\"ping\"}", -32600, "null" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32600, "null" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}", -32600, "null" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", -32600, "null" },
	{ "{\"jsonrpc\":\"1.0\",\"id\":3,\"method\":\"ping\"}", -32600, "3" },
	{ "{\"id\":3,\"method\":\"ping\"}", -32600, "3" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":7}", -32600, "3" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":3}", -32600, "3" },
	{ "{}", -32600, "null" },
	{ "7", -32600, "null" },
	{ "\"ping\"", -32600, "null" },
	{ "null", -32600, "null" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":[1]}", -32602, "3" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":\"x\"}", -32602, "3" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"", -32700, "null" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"} x", -32700, "null" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":03,\"method\":\"ping\"}", -32700, "null" },
	{ "\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}", -32700, "null" },
	{ "hello", -32700, "null" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\",\"params\":{\"a\":\"x\\u0000y\"}}", -32602, "4" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\",\"params\":{\"a\":\"\\ud83d\"}}", -32602, "4" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}", -32602, "4" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\",\"params\":{\"a\":1,\"a\":2}}", -32602, "4" },
	{ "[]", -32600, "null" },
	{ "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600, "null" },
	{ "{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}", 0, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/none\",\"params\":{}}", 0, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":99}}", 0, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}", 0, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"\\u0000\"}}", 0,
	  NULL },
	{ "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":[]}", 0, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}", 0, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":1,\"message\":\"\"}}", 0, NULL },
	{ "", 0, NULL },
	{ " \t\r", 0, NULL },
};

START_TEST(messages)
{
	struct client *c = client_new();
	cJSON *m;

	client_initialize(c, "2025-11-25");
	client_send(c, lines[_i].line);
	m = client_next(c);
	if (lines[_i].code == 0) {
		ck_assert_ptr_null(m);
	} else {
		_cleanup_free_ char *head = cbx_xasprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"%s\":", lines[_i].id,
							  lines[_i].code == 1 ? "result" : "error");

		ck_assert_msg(m != NULL, "no answer to %s", lines[_i].line);
		ck_assert_msg(cbx_starts_with(c->raw[c->n - 1], head), "%s", c->raw[c->n - 1]);
		if (lines[_i].code != 1)
			ck_assert_int_eq(int_at(m, "error.code"), lines[_i].code);
	}
	ck_assert_ptr_null(client_next(c));
	client_free(c);
}
END_TEST

START_TEST(long_ids)
{
	struct client *c = client_new();
	_cleanup_buf_ struct cbx_buf line = { 0 };
	cJSON *m;

	cbx_buf_adds(&line, "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":\"");
	memset(cbx_buf_reserve(&line, 100000), 'x', 100000);
	line.len += 100000;
	line.data[line.len] = '\0';
	cbx_buf_adds(&line, "\"}");
	m = client_ask(c, line.data);
	ck_assert_int_eq(int_at(m, "error.code"), -32600);
	ck_assert(cJSON_IsNull(at(m, "id")));
	client_free(c);
}
END_TEST

/* What a client asked about goes into an error's data, unless it is as long as a message may not be. */
START_TEST(long_questions)
{
	struct client *c = client_new();
	_cleanup_buf_ struct cbx_buf line = { 0 };
	cJSON *m = NULL;

	for (int i = 0; i < 2; i++) {
		size_t n = i ? CBX_REPLY_MAX : 100;

		cbx_buf_drop(&line, line.len);
		cbx_buf_adds(&line, "{\"jsonrpc\":\"2.0\",\"method\":\"resources/read\",\"id\":1,\"params\":{\"uri\":\"");
		memset(cbx_buf_reserve(&line, n), 'x', n);
		line.len += n;
		line.data[line.len] = '\0';
		cbx_buf_adds(&line, "\"}}");
		m = client_ask(c, line.data);
		ck_assert_int_eq(int_at(m, "error.code"), -32002);
		ck_assert_int_eq(!at(m, "error.data"), i);
	}
	client_free(c);
}
END_TEST

START_TEST(too_long)
{
	struct client *c = client_new();

	cbx_mcp_too_long(c->mcp);
	ck_assert_int_eq(int_at(client_next(c), "error.code"), -32600);
	client_free(c);
}
END_TEST

START_TEST(before_initialize)
{
	struct client *c = client_new();

	ck_assert_ptr_nonnull(at(client_ask(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"), "result"));
	ck_assert_int_eq(int_at(client_ask(c, "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"server/discover\"}"),
				"error.code"),
			 -32602);
	ck_assert_int_eq(
		cJSON_GetArraySize(
			at(client_ask(c, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}"), "result.tools")),
		15);
	client_free(c);
}
END_TEST

START_TEST(batches)
{
	struct client *c = client_new();
	cJSON *m;

	client_initialize(c, "2025-03-26");
	m = client_ask(c, "[{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"ping\"}, 7,\n"
			  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/none\"},"
			  "{\"jsonrpc\":\"2.0\",\"id\":\"]},{\\\"\",\"method\":\"none\"},[],"
			  "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"initialize\",\"params\":{}}]");
	ck_assert_int_eq(cJSON_GetArraySize(m), 5);
	ck_assert(cbx_starts_with(c->raw[c->n - 1], "[{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"result\":{}},"));
	ck_assert_int_eq(int_at(m, "1.error.code"), -32600);
	ck_assert_str_eq(str_at(m, "2.id"), "]},{\"");
	ck_assert_int_eq(int_at(m, "2.error.code"), -32601);
	ck_assert_int_eq(int_at(m, "3.error.code"), -32600);
	ck_assert_int_eq(int_at(m, "4.error.code"), -32600);
	m = client_ask(c, "[]");
	ck_assert_int_eq(int_at(m, "error.code"), -32600);
	client_send(c, "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/none\"}]");
	ck_assert_ptr_null(client_next(c));
	client_free(c);
}
END_TEST

/* Fills a batch with n copies of a message. */
static void batch_of(struct client *c, size_t n, const char *fmt)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };

	for (size_t i = 0; i < n; i++)
		cbx_buf_addf(&line, "%c{\"jsonrpc\":\"2.0\",\"id\":%zu,%s}", i ? ',' : '[', i, fmt);
	cbx_buf_addc(&line, ']');
	client_send(c, line.data);
}

START_TEST(batch_calls)
{
	struct client *c = client_new();
	cJSON *m;

	client_initialize(c, "2025-03-26");
	batch_of(c, CBX_BATCH_MAX + 1, "\"method\":\"ping\"");
	ck_assert_int_eq(int_at(client_next(c), "error.code"), -32600);
	/* Answers that are too long together are cut one by one, and still arrive in one array. */
	batch_of(c, CBX_BATCH_MAX, "\"method\":\"tools/call\",\"params\":{\"name\":\"run_code\",\"arguments\":"
				   "{\"code\":\"fill 300000 x\"}}");
	ck_assert_uint_eq(c->seen, c->n); /* nothing before all have ended */
	m = client_next(c);
	ck_assert_int_eq(cJSON_GetArraySize(m), CBX_BATCH_MAX);
	ck_assert_ptr_nonnull(strstr(str_at(m, "63.result.content.0.text"), "bytes omitted"));
	/* A cancelled call has no answer, and the batch does not wait for it. */
	client_send(
		c,
		"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"run_code\",\"arguments\":"
		"{\"code\":\"wait\"}}},{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]");
	ck_assert_ptr_null(client_next(c));
	client_send(c, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}");
	m = client_next(c);
	ck_assert_int_eq(cJSON_GetArraySize(m), 1);
	ck_assert_int_eq(int_at(m, "0.id"), 2);
	/* A connection that goes in the middle of one leaves nothing behind. */
	client_send(
		c,
		"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"run_code\",\"arguments\":"
		"{\"code\":\"wait\"}}},{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]");
	client_free(c);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_loop_test(t, handshake, 0, 6);
	tcase_add_test(t, handshake_faults);
	tcase_add_loop_test(t, messages, 0, ARRAY_SIZE(lines));
	tcase_add_test(t, long_ids);
	tcase_add_test(t, long_questions);
	tcase_add_test(t, too_long);
	tcase_add_test(t, before_initialize);
	tcase_add_test(t, batches);
	tcase_add_test(t, batch_calls);
}

TEST_MAIN("mcp rpc", add)
