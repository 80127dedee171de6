/* SPDX-License-Identifier: Apache-2.0 */
/* The era without a handshake. */
#include "mcp_modern.h"

START_TEST(discover)
{
	struct client *c = client_new();
	cJSON *m = client_ask(c, ASK("\"p-1\"", "server/discover", ""));

	ck_assert_str_eq(str_at(m, "id"), "p-1");
	check_complete(m);
	check_caching(m, "public");
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.supportedVersions")), 1);
	ck_assert_str_eq(str_at(m, "result.supportedVersions.0"), "2026-07-28");
	ck_assert(true_at(m, "result.capabilities.resources.subscribe"));
	ck_assert(true_at(m, "result.capabilities.resources.listChanged"));
	ck_assert(!true_at(m, "result.capabilities.tools.listChanged"));
	ck_assert_ptr_nonnull(at(m, "result.capabilities.prompts"));
	ck_assert_ptr_nonnull(at(m, "result.capabilities.completions"));
	ck_assert_ptr_null(at(m, "result.capabilities.logging"));
	ck_assert_uint_lt(strlen(str_at(m, "result.instructions")), 2048);
	ck_assert_ptr_null(strstr(str_at(m, "result.instructions"), "connection"));
	client_free(c);
}
END_TEST

/* Requests that name the era and are not as it asks. */
static const struct {
	const char *meta;
	int code;
} wrong[] = {
	{ "\"_meta\":{" REVISION "}", -32602 },
	{ "\"_meta\":{" CAPS "}", -32602 },
	{ "\"_meta\":{" REVISION ",\"io.modelcontextprotocol/clientCapabilities\":[]}", -32602 },
	{ "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":7," CAPS "}", -32602 },
	{ "\"_meta\":{" REVISION "," CAPS ",\"io.modelcontextprotocol/clientInfo\":\"me\"}", -32602 },
	{ "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2031-01-01\"," CAPS "}", -32022 },
	{ "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2025-11-25\"," CAPS "}", -32022 },
};

START_TEST(bad_meta)
{
	struct client *c = client_new();
	_cleanup_free_ char *line = cbx_xasprintf(
		"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\",\"params\":{%s}}", wrong[_i].meta);
	cJSON *m = client_ask(c, line);

	ck_assert_int_eq(int_at(m, "error.code"), wrong[_i].code);
	ck_assert_int_eq(int_at(m, "id"), 3);
	if (wrong[_i].code == -32022) {
		ck_assert_str_eq(str_at(m, "error.data.supported.0"), "2026-07-28");
		ck_assert_ptr_nonnull(strstr(wrong[_i].meta, str_at(m, "error.data.requested")));
	}
	client_free(c);
}
END_TEST

START_TEST(era_by_method)
{
	struct client *c = client_new();

	ck_assert_int_eq(int_at(client_ask(c, OLD("1", "server/discover", "")), "error.code"), -32602);
	ck_assert_int_eq(int_at(client_ask(c, OLD("1", "subscriptions/listen", "")), "error.code"), -32602);
	ck_assert_ptr_nonnull(at(client_ask(c, OLD("1", "ping", "")), "result"));
	cbx_mcp_set_modern(c->mcp);
	ck_assert_int_eq(int_at(client_ask(c, OLD("1", "ping", "")), "error.code"), -32602);
	client_free(c);
}
END_TEST

START_TEST(removed)
{
	static const char *const methods[] = { "initialize",	      "ping",		       "logging/setLevel",
					       "resources/subscribe", "resources/unsubscribe", "tasks/list",
					       "no/such" };
	struct client *c = client_new();

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		ck_assert_int_eq(int_at(ask(c, methods[i], ",\"uri\":\"codebox://sessions\""), "error.code"), -32601);
	client_free(c);
}
END_TEST

START_TEST(lists)
{
	static const struct {
		const char *method, *member, *scope;
	} all[] = {
		{ "tools/list", "result.tools", "public" },
		{ "prompts/list", "result.prompts", "public" },
		{ "resources/list", "result.resources", "private" },
		{ "resources/templates/list", "result.resourceTemplates", "public" },
	};
	struct client *c = client_new();

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		cJSON *m = ask(c, all[i].method, "");

		check_complete(m);
		check_caching(m, all[i].scope);
		ck_assert_int_ge(cJSON_GetArraySize(at(m, all[i].member)), 1);
		ck_assert_int_eq(int_at(ask(c, all[i].method, ",\"cursor\":\"?\""), "error.code"), -32602);
	}
	client_free(c);
}
END_TEST

/* Legacy answers have nothing of the modern era in them. */
START_TEST(legacy_is_clean)
{
	static const char *const methods[] = { "tools/list", "prompts/list", "resources/list", "ping",
					       "resources/templates/list" };
	struct client *c = client_new();
	cJSON *m = client_initialize(c, "2025-11-25");

	ck_assert(true_at(m, "result.capabilities.resources.subscribe"));
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		_cleanup_free_ char *line = cbx_xasprintf("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\"}", methods[i]);

		m = client_ask(c, line);
		ck_assert_ptr_nonnull(at(m, "result"));
		ck_assert_ptr_null(at(m, "result.resultType"));
		ck_assert_ptr_null(at(m, "result._meta"));
		ck_assert_ptr_null(at(m, "result.ttlMs"));
	}
	client_free(c);
}
END_TEST

START_TEST(tool_call)
{
	struct client *c = client_new();
	cJSON *m = ask(c, "tools/call", ",\"name\":\"run_code\",\"arguments\":{\"code\":\"print a\"}");

	check_complete(m);
	ck_assert(!true_at(m, "result.isError"));
	ck_assert_str_eq(str_at(m, "result.structuredContent.stdout"), "a\n");
	ck_assert_int_eq(int_at(ask(c, "tools/call", ",\"name\":\"nope\""), "error.code"), -32602);
	m = ask(c, "tools/call", ",\"name\":\"run_code\",\"arguments\":{}");
	check_complete(m);
	ck_assert(true_at(m, "result.isError"));
	client_free(c);
}
END_TEST

/* A session is never implied: each call without one makes its own, tells it, and leaves it behind. */
START_TEST(no_default_session)
{
	struct client *c = client_new();
	cJSON *m = ask(c, "tools/call", ",\"name\":\"run_code\",\"arguments\":{\"code\":\"print a\"}");
	struct cbx_session *s;
	struct cbx_err err;

	ck_assert_str_eq(str_at(m, "result.structuredContent.session_id"), "fake-1");
	ck_assert_ptr_nonnull(strstr(str_at(m, "result.content.0.text"), "fake-1"));
	m = ask(c, "tools/call", ",\"name\":\"run_code\",\"arguments\":{\"code\":\"print b\"}");
	ck_assert_str_eq(str_at(m, "result.structuredContent.session_id"), "fake-2");
	m = ask(c, "tools/call", ",\"name\":\"list_sessions\"");
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.structuredContent.sessions")), 2);
	ck_assert(!true_at(m, "result.structuredContent.sessions.0.default"));
	/* The same connection's legacy default session is another one, and no business of the modern era. */
	m = client_run(c, "print c", NULL);
	ck_assert_str_eq(str_at(m, "result.structuredContent.session_id"), "fake-3");
	m = ask(c, "tools/call", ",\"name\":\"list_sessions\"");
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.structuredContent.sessions")), 2);
	cbx_mcp_free(c->mcp);
	ck_assert_int_ge(cbx_session_find(ANOTHER(c), "fake-1", &s, &err), 0);
	ck_assert_int_ge(cbx_session_find(ANOTHER(c), "fake-2", &s, &err), 0);
	ck_assert_int_lt(cbx_session_find(ANOTHER(c), "fake-3", &s, &err), 0);
	client_connect(c);
	client_free(c);
}
END_TEST

/* Nobody knows of the session that a cancelled call has made. */
START_TEST(cancel)
{
	struct client *c = client_new();
	struct cbx_session *s;
	struct cbx_err err;
	size_t n;

	client_send(c, ASK("\"x\"", "tools/call", ",\"name\":\"run_code\",\"arguments\":{\"code\":\"wait\"}"));
	client_settle(c);
	ck_assert_int_ge(cbx_session_find(ANOTHER(c), "fake-1", &s, &err), 0);
	n = c->n;
	client_send(c, CANCEL("\"x\""));
	client_settle(c);
	ck_assert_uint_eq(c->n, n);
	ck_assert_int_lt(cbx_session_find(ANOTHER(c), "fake-1", &s, &err), 0);
	/* One that was named stays. */
	client_ask(c, CREATE("mine"));
	n = c->n;
	client_send(c, ASK("5", "tools/call",
			   ",\"name\":\"run_code\",\"arguments\":{\"code\":\"wait\",\"session_id\":\"mine\"}"));
	client_settle(c);
	client_send(c, CANCEL("5"));
	client_settle(c);
	ck_assert_uint_eq(c->n, n);
	ck_assert_int_ge(cbx_session_find(ANOTHER(c), "mine", &s, &err), 0);
	client_free(c);
}
END_TEST

START_TEST(progress)
{
	struct client *c = client_new();
	cJSON *m;

	client_send(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"_meta\":{" REVISION "," CAPS
		       ",\"progressToken\":9007199254740993},\"name\":\"run_code\",\"arguments\":{\"code\":"
		       "\"print step 1\\nprint x\"}}}");
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/progress");
	ck_assert_ptr_nonnull(strstr(c->raw[c->seen - 1], "\"progressToken\":9007199254740993"));
	ck_assert_str_eq(str_at(m, "params.message"), "step 1");
	while (at(m, "method"))
		m = wait_next(c);
	check_complete(m);
	client_free(c);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, discover);
	tcase_add_loop_test(t, bad_meta, 0, (int)ARRAY_SIZE(wrong));
	tcase_add_test(t, era_by_method);
	tcase_add_test(t, removed);
	tcase_add_test(t, lists);
	tcase_add_test(t, legacy_is_clean);
	tcase_add_test(t, tool_call);
	tcase_add_test(t, no_default_session);
	tcase_add_test(t, cancel);
	tcase_add_test(t, progress);
}

TEST_MAIN("mcp_modern", add_tests)
