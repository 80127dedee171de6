/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications of changes, in both eras. */
#include "mcp_modern.h"

static const char *subscription(cJSON *m)
{
	cJSON *id = member(m, "params._meta", "io.modelcontextprotocol/subscriptionId");

	ck_assert(cJSON_IsString(id));
	return id->valuestring;
}

static void files_changed(struct client *c, const char *id, const char *uri)
{
	_cleanup_json_ cJSON *files = cbx_json_new_arr();
	cJSON *f = cbx_json_new_obj();

	cbx_json_set_str(f, "uri", uri);
	cbx_json_push(files, f);
	cbx_engine_files_changed(ANOTHER(c), id, files);
}

START_TEST(listen_stream)
{
	struct client *c = client_with_news();
	cJSON *m;

	answer_to(c, CREATE("s"));
	m = client_ask(c, ASK("\"sub\"", "subscriptions/listen",
			      ",\"notifications\":{\"toolsListChanged\":true,\"resourcesListChanged\":true,"
			      "\"resourceSubscriptions\":[\"codebox://sessions/s/files/a%2Ecsv\"]}"));
	ck_assert_str_eq(str_at(m, "method"), "notifications/subscriptions/acknowledged");
	ck_assert_str_eq(subscription(m), "sub");
	ck_assert(true_at(m, "params.notifications.resourcesListChanged"));
	ck_assert_ptr_null(at(m, "params.notifications.toolsListChanged")); /* they never change */
	ck_assert_str_eq(str_at(m, "params.notifications.resourceSubscriptions.0"), "codebox://sessions/s/files/a%2Ecsv");
	/* Another form of the same address is the same file, and the news has the client's own form. */
	files_changed(c, "s", "codebox://sessions/s/files/a.csv");
	files_changed(c, "s", "codebox://sessions/s/files/a.csv");
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/list_changed");
	ck_assert_str_eq(subscription(m), "sub");
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/updated");
	ck_assert_str_eq(str_at(m, "params.uri"), "codebox://sessions/s/files/a%2Ecsv");
	ck_assert_str_eq(subscription(m), "sub");
	client_settle(c);
	ck_assert_uint_eq(c->seen, c->n); /* once for both */
	files_changed(c, "s", "codebox://sessions/s/files/b.csv");
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/list_changed");
	client_settle(c);
	ck_assert_uint_eq(c->seen, c->n);
	cbx_mcp_end_streams(c->mcp);
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "id"), "sub");
	check_complete(m);
	ck_assert_str_eq(member(m, "result._meta", "io.modelcontextprotocol/subscriptionId")->valuestring, "sub");
	files_changed(c, "s", "codebox://sessions/s/files/a.csv");
	client_settle(c);
	ck_assert_uint_eq(c->seen, c->n);
	client_free(c);
}
END_TEST

START_TEST(listen_filter)
{
	struct client *c = client_with_news();
	cJSON *m = client_ask(c, ASK("1", "subscriptions/listen", ",\"notifications\":{}"));
	size_t n;

	ck_assert_str_eq(str_at(m, "method"), "notifications/subscriptions/acknowledged");
	m = client_ask(c, ASK("2", "subscriptions/listen", ",\"notifications\":{\"resourcesListChanged\":true}"));
	ck_assert_str_eq(str_at(m, "method"), "notifications/subscriptions/acknowledged");
	m = client_ask(c, ASK("2", "subscriptions/listen", ",\"notifications\":{}"));
	ck_assert_int_eq(int_at(m, "error.code"), -32600);
	m = answer_to(c, CREATE("s"));
	check_complete(m);
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/list_changed");
	ck_assert_int_eq((int)member(m, "params._meta", "io.modelcontextprotocol/subscriptionId")->valuedouble, 2);
	client_settle(c);
	ck_assert_uint_eq(c->seen, c->n);
	/* A cancelled one is silent, and answered with nothing. */
	client_send(c, CANCEL("2"));
	client_settle(c);
	n = c->n;
	files_changed(c, "s", "codebox://sessions/s/files/a");
	client_settle(c);
	ck_assert_uint_eq(c->n, n);
	client_free(c);
}
END_TEST

START_TEST(listen_bad)
{
	static const char *const bad[] = {
		"",
		",\"notifications\":[]",
		",\"notifications\":{\"toolsListChanged\":1}",
		",\"notifications\":{\"resourceSubscriptions\":{}}",
		",\"notifications\":{\"resourceSubscriptions\":[7]}",
	};
	_cleanup_buf_ struct cbx_buf many = { 0 };
	struct client *c = client_new();

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_int_eq(int_at(ask(c, "subscriptions/listen", bad[i]), "error.code"), -32602);
	for (int i = 0; i < CBX_SUBSCRIPTIONS_MAX; i++)
		cbx_buf_addf(&many, "%s\"codebox://sessions/%08000d\"",
			     i ? "," : ",\"notifications\":{\"resourceSubscriptions\":[", i);
	cbx_buf_adds(&many, "]}");
	ck_assert_int_eq(int_at(ask(c, "subscriptions/listen", many.data), "error.code"), -32602);
	many.len = 0;
	for (int i = 0; i < CBX_SUBSCRIPTIONS_MAX + 1; i++)
		cbx_buf_addf(&many, "%s\"codebox://sessions\"",
			     i ? "," : ",\"notifications\":{\"resourceSubscriptions\":[");
	cbx_buf_adds(&many, "]}");
	ck_assert_ptr_nonnull(strstr(str_at(ask(c, "subscriptions/listen", many.data), "error.message"), "too many"));
	for (int i = 0; i < CBX_STREAMS_MAX; i++) {
		_cleanup_free_ char *line = cbx_xasprintf("{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"subscriptions/listen\","
							  "\"params\":{" META ",\"notifications\":{}}}", i);

		ck_assert_ptr_nonnull(at(client_ask(c, line), "method"));
	}
	ck_assert_int_eq(int_at(client_ask(c, ASK("99", "subscriptions/listen", ",\"notifications\":{}")), "error.code"),
			 -32600);
	client_free(c);
}
END_TEST

START_TEST(legacy_subscribe)
{
	struct client *c = client_with_news();
	cJSON *m;

	client_initialize(c, "2025-06-18");
	m = client_ask(c, OLD("1", "resources/subscribe", "\"uri\":\"codebox://sessions/s/files/a\""));
	ck_assert_int_eq(int_at(m, "error.code"), -32002);
	answer_to(c, OLD("2", "tools/call", "\"name\":\"create_session\",\"arguments\":{\"session_id\":\"s\"}"));
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/list_changed");
	ck_assert_ptr_null(at(m, "params._meta"));
	client_ask(c, OLD("3", "resources/subscribe", "\"uri\":\"codebox://sessions/s/files/a\""));
	client_ask(c, OLD("4", "resources/subscribe", "\"uri\":\"codebox://sessions/s\""));
	files_changed(c, "s", "codebox://sessions/s/files/a");
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/list_changed");
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/updated");
	ck_assert_str_eq(str_at(m, "params.uri"), "codebox://sessions/s/files/a");
	client_ask(c, OLD("5", "resources/unsubscribe", "\"uri\":\"codebox://sessions/s/files/a\""));
	fake_session_expire(c->engine, "s");
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/list_changed");
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "params.uri"), "codebox://sessions/s");
	client_settle(c);
	ck_assert_uint_eq(c->seen, c->n);
	client_free(c);
}
END_TEST

/* Sessions that belong to one connection are not news to another. */
START_TEST(news_of_others)
{
	struct client *c = client_with_news();
	struct cbx_session_spec spec;
	struct cbx_session *s;
	struct timeval tv = { 0, 100000 };
	struct cbx_err err;
	cJSON *m;

	client_initialize(c, "2025-11-25");
	cbx_session_spec_init(&spec);
	spec.one_shot = true;
	cbx_session_create(ANOTHER(c), &spec, NULL, &s, &err);
	files_changed(c, "fake-1", "codebox://sessions/fake-1/files/a");
	event_base_loopexit(c->base, &tv);
	event_base_dispatch(c->base);
	ck_assert_uint_eq(c->seen, c->n);
	/* Its own are. */
	answer_to(c, OLD("1", "tools/call", "\"name\":\"run_code\",\"arguments\":{\"code\":\"print a\"}"));
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/list_changed");
	files_changed(c, "fake-2", "codebox://sessions/fake-2/files/a");
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/list_changed");
	/* What was asked for by its address is news, whoever's it is. */
	client_ask(c, OLD("2", "resources/subscribe", "\"uri\":\"codebox://sessions/fake-1/files/a\""));
	files_changed(c, "fake-1", "codebox://sessions/fake-1/files/a");
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/updated");
	event_base_loopexit(c->base, &tv);
	event_base_dispatch(c->base);
	ck_assert_uint_eq(c->seen, c->n);
	client_free(c);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, listen_stream);
	tcase_add_test(t, listen_filter);
	tcase_add_test(t, listen_bad);
	tcase_add_test(t, legacy_subscribe);
	tcase_add_test(t, news_of_others);
}

TEST_MAIN("mcp_news", add_tests)
