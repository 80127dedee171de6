/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: run_code's cells for clients that come back for the result (io.modelcontextprotocol/tasks). */
#include "mcp_modern.h"

#define EXTENSION "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}"
#define PLAIN META
#define TASKS "\"_meta\":{" REVISION ",\"io.modelcontextprotocol/clientCapabilities\":{" EXTENSION "}}"

static cJSON *ask_as(struct client *c, const char *meta, const char *method, const char *more)
{
	_cleanup_free_ char *line =
		cbx_xasprintf("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"%s\",\"params\":{%s%s}}", method, meta, more);

	return client_ask(c, line);
}

static cJSON *create(struct client *c, const char *id)
{
	_cleanup_free_ char *more =
		cbx_xasprintf(",\"name\":\"create_session\",\"arguments\":{\"session_id\":\"%s\"}", id);

	return ask_as(c, PLAIN, "tools/call", more);
}

/* run_code in a session, in the background. */
static cJSON *run_in(struct client *c, const char *meta, const char *session, const char *code)
{
	_cleanup_free_ char *more = cbx_xasprintf(",\"name\":\"run_code\",\"arguments\":{\"session_id\":\"%s\","
						  "\"background\":true,\"code\":\"%s\"}", session, code);

	return ask_as(c, meta, "tools/call", more);
}

static cJSON *run_as(struct client *c, const char *meta, const char *code)
{
	return run_in(c, meta, "s.1", code);
}

static cJSON *about(struct client *c, const char *method, const char *task, const char *more)
{
	_cleanup_free_ char *params = cbx_xasprintf(",\"taskId\":\"%s\"%s", task, more);

	return ask_as(c, TASKS, method, params);
}

static char *new_task(struct client *c, const char *code)
{
	return cbx_xstrdup(str_at(run_as(c, TASKS, code), "result.taskId"));
}

static void check_facts(cJSON *m, const char *base, const char *status)
{
	cJSON *t = at(m, base);

	ck_assert_str_eq(str_at(t, "status"), status);
	ck_assert_str_eq(str_at(t, "createdAt"), "2001-09-09T01:46:40.123Z");
	ck_assert_str_eq(str_at(t, "lastUpdatedAt"), "2001-09-09T01:46:40.123Z");
	ck_assert_int_eq(int_at(t, "ttlMs"), CBX_HOLD_MS);
	ck_assert_int_gt(int_at(t, "pollIntervalMs"), 0);
	ck_assert_ptr_null(at(t, "ttl"));
	ck_assert_uint_lt(strlen(str_at(t, "statusMessage")), 1200);
}

START_TEST(declared)
{
	struct client *c = client_new();
	cJSON *m = ask_as(c, PLAIN, "server/discover", "");

	ck_assert(cJSON_IsObject(cbx_json_member(at(m, "result.capabilities.extensions"),
								   "io.modelcontextprotocol/tasks")));
	m = client_initialize(c, "2025-11-25");
	ck_assert_ptr_null(at(m, "result.capabilities.extensions"));
	client_free(c);
}
END_TEST

START_TEST(only_for_those_who_declare)
{
	struct client *c = client_new();
	cJSON *m;

	create(c, "s.1");
	m = run_as(c, PLAIN, "wait");
	ck_assert_str_eq(str_at(m, "result.resultType"), "complete");
	ck_assert_str_eq(str_at(m, "result.structuredContent.status"), "running");
	m = run_as(c, TASKS, "wait");
	ck_assert_str_eq(str_at(m, "result.resultType"), "task");
	client_free(c);
}
END_TEST

START_TEST(lifecycle)
{
	struct client *c = client_new();
	_cleanup_free_ char *id = NULL;
	cJSON *m;

	create(c, "s.1");
	m = run_as(c, TASKS, "print hello\\nvalue 42");
	check_facts(m, "result", "working");
	ck_assert_ptr_nonnull(strstr(str_at(m, "result.statusMessage"), "session s.1"));
	ck_assert_ptr_null(at(m, "result.content"));
	id = cbx_xstrdup(str_at(m, "result.taskId"));
	m = about(c, "tasks/get", id, "");
	ck_assert_str_eq(str_at(m, "result.resultType"), "complete");
	ck_assert_str_eq(str_at(m, "result.taskId"), id);
	check_facts(m, "result", "working");
	client_settle(c);
	for (int i = 0; i < 2; i++) { /* as often as one likes */
		m = about(c, "tasks/get", id, "");
		ck_assert_str_eq(str_at(m, "result.resultType"), "complete");
		check_facts(m, "result", "completed");
		ck_assert_ptr_nonnull(strstr(str_at(m, "result.result.content.0.text"), "hello\n42"));
		ck_assert_ptr_nonnull(strstr(str_at(m, "result.result.content.0.text"), "session_id: s.1"));
		ck_assert_str_eq(str_at(m, "result.result.structuredContent.status"), "ok");
		ck_assert_str_eq(str_at(m, "result.result.structuredContent.result"), "42");
		ck_assert(!true_at(m, "result.result.isError"));
		ck_assert_str_eq(str_at(m, "result.result.resultType"), "complete");
	}
	client_free(c);
}
END_TEST

/* What code does wrong is a result, never a "failed" task. */
START_TEST(errors_are_results)
{
	struct client *c = client_new();
	_cleanup_free_ char *raised = NULL, *died = NULL, *late = NULL;
	cJSON *m;

	create(c, "s.1");
	raised = new_task(c, "raise");
	died = new_task(c, "die");
	late = new_task(c, "time");
	client_settle(c);
	m = about(c, "tasks/get", raised, "");
	check_facts(m, "result", "completed");
	ck_assert(!true_at(m, "result.result.isError"));
	ck_assert_str_eq(str_at(m, "result.result.structuredContent.error.name"), "ValueError");
	m = about(c, "tasks/get", died, "");
	check_facts(m, "result", "completed");
	ck_assert(true_at(m, "result.result.isError"));
	m = about(c, "tasks/get", late, "");
	check_facts(m, "result", "completed");
	ck_assert_str_eq(str_at(m, "result.result.structuredContent.status"), "timeout");
	client_free(c);
}
END_TEST

START_TEST(cancel)
{
	struct client *c = client_new();
	_cleanup_free_ char *id = NULL;
	cJSON *m;

	create(c, "s.1");
	id = new_task(c, "wait");
	client_settle(c);
	m = about(c, "tasks/cancel", id, "");
	ck_assert_str_eq(str_at(m, "result.resultType"), "complete");
	ck_assert_ptr_null(at(m, "result.taskId"));
	client_settle(c);
	ck_assert_uint_eq(fake_engine_interrupts(c->engine), 1);
	m = about(c, "tasks/get", id, "");
	check_facts(m, "result", "cancelled");
	ck_assert_ptr_null(at(m, "result.result"));
	/* Once more is not an error, and does nothing. */
	ck_assert_ptr_nonnull(at(about(c, "tasks/cancel", id, ""), "result"));
	ck_assert_uint_eq(fake_engine_interrupts(c->engine), 1);
	client_free(c);
}
END_TEST

/* The end of the call, or of its connection, is not the end of the task. */
START_TEST(any_connection)
{
	struct client *c = client_new();
	_cleanup_free_ char *id = NULL;
	cJSON *m;

	create(c, "s.1");
	id = new_task(c, "print later");
	client_send(c, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}");
	cbx_mcp_free(c->mcp);
	client_connect(c);
	client_settle(c);
	m = about(c, "tasks/get", id, "");
	check_facts(m, "result", "completed");
	client_free(c);
}
END_TEST

START_TEST(update)
{
	struct client *c = client_new();
	_cleanup_free_ char *id = NULL;
	cJSON *m;

	create(c, "s.1");
	id = new_task(c, "wait");
	m = about(c, "tasks/update", id, ",\"inputResponses\":{\"never\":{\"action\":\"accept\"}}");
	ck_assert_str_eq(str_at(m, "result.resultType"), "complete");
	ck_assert_int_eq(int_at(about(c, "tasks/update", id, ""), "error.code"), -32602);
	ck_assert_int_eq(int_at(about(c, "tasks/update", id, ",\"inputResponses\":[]"), "error.code"), -32602);
	client_free(c);
}
END_TEST

/* Ids that are nearly right; %s is the right one. */
START_TEST(unknown)
{
	static const char *const methods[] = { "tasks/get", "tasks/update", "tasks/cancel" };
	static const char *const forms[] = { "x%s", "%sx", "", ".", "..", "s.1", "s.1.1", "s.1.1.", "s.1.2.%s", "%s.%s" };
	struct client *c = client_new();
	_cleanup_free_ char *id = NULL;

	create(c, "s.1");
	id = new_task(c, "wait");
	id[strlen(id) - 1] ^= 1;
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		ck_assert_int_eq(int_at(about(c, methods[i], id, ",\"inputResponses\":{}"), "error.code"), -32602);
		ck_assert_int_eq(int_at(ask_as(c, TASKS, methods[i], ""), "error.code"), -32602);
		ck_assert_int_eq(int_at(ask_as(c, TASKS, methods[i], ",\"taskId\":7"), "error.code"), -32602);
	}
	id[strlen(id) - 1] ^= 1;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		_cleanup_buf_ struct cbx_buf text = { 0 };

		for (const char *p = forms[i]; *p; p++) {
			if (p[0] == '%' && p[1] == 's') {
				cbx_buf_adds(&text, id);
				p++;
			} else {
				cbx_buf_addc(&text, *p);
			}
		}
		ck_assert_int_eq(int_at(about(c, "tasks/get", cbx_buf_str(&text), ""), "error.code"), -32602);
	}
	ck_assert_uint_eq(fake_engine_interrupts(c->engine), 0);
	ck_assert_ptr_nonnull(at(about(c, "tasks/get", id, ""), "result"));
	/* A session that has gone takes its tasks with it. */
	ask_as(c, PLAIN, "tools/call", ",\"name\":\"close_session\",\"arguments\":{\"session_id\":\"s.1\"}");
	ck_assert_int_eq(int_at(about(c, "tasks/get", id, ""), "error.code"), -32602);
	client_free(c);
}
END_TEST

START_TEST(missing_capability)
{
	static const char *const methods[] = { "tasks/get", "tasks/update", "tasks/cancel", "subscriptions/listen" };
	struct client *c = client_new();
	_cleanup_free_ char *id = NULL;
	_cleanup_free_ char *more = NULL;

	create(c, "s.1");
	id = new_task(c, "wait");
	more = cbx_xasprintf(",\"taskId\":\"%s\",\"inputResponses\":{},\"notifications\":{\"taskIds\":[\"%s\"]}", id, id);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		cJSON *m = ask_as(c, PLAIN, methods[i], more);

		ck_assert_int_eq(int_at(m, "error.code"), -32021);
		ck_assert(cJSON_IsObject(
			cbx_json_member(at(m, "error.data.requiredCapabilities.extensions"),
							 "io.modelcontextprotocol/tasks")));
	}
	/* The earlier era has no such methods. */
	ck_assert_int_eq(int_at(client_ask(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tasks/get\",\"params\":"
					      "{\"taskId\":\"a\"}}"), "error.code"), -32601);
	client_free(c);
}
END_TEST

/* Where no more can be promised, the answer is the one that others get. */
START_TEST(too_many)
{
	struct client *c = client_new();
	cJSON *m;

	create(c, "s.1");
	for (int i = 0; i < CBX_HOLDS_MAX; i++)
		ck_assert_str_eq(str_at(run_as(c, TASKS, "wait"), "result.resultType"), "task");
	m = run_as(c, TASKS, "wait");
	ck_assert_str_eq(str_at(m, "result.resultType"), "complete");
	ck_assert_str_eq(str_at(m, "result.structuredContent.status"), "running");
	client_free(c);
}
END_TEST

/* The image files that a cell wrote are in a task's result, as they are in run_code's. */
START_TEST(images)
{
	struct client *c = client_new();
	_cleanup_free_ char *id = NULL;
	cJSON *m;

	create(c, "s.1");
	id = new_task(c, "png plot.png 3000");
	client_settle(c);
	m = about(c, "tasks/get", id, "");
	ck_assert_str_eq(str_at(m, "result.result.content.1.type"), "image");
	ck_assert(true_at(m, "result.result.structuredContent.files.0.sent"));
	client_free(c);
}
END_TEST

static cJSON *listen_to(struct client *c, const char *id, const char *ids)
{
	_cleanup_free_ char *line =
		cbx_xasprintf("{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"subscriptions/listen\",\"params\":{" TASKS
			      ",\"notifications\":{\"taskIds\":%s}}}", id, ids);

	return client_ask(c, line);
}

START_TEST(notifications)
{
	struct client *c = client_new();
	_cleanup_free_ char *over = NULL, *going = NULL, *ids = NULL;
	cJSON *m;

	create(c, "s.1");
	over = new_task(c, "value 1");
	client_settle(c);
	going = new_task(c, "wait");
	client_settle(c);
	ids = cbx_xasprintf("[\"%s\",\"no.1.such\",\"%s\"]", over, going);
	m = listen_to(c, "sub", ids);
	ck_assert_str_eq(str_at(m, "method"), "notifications/subscriptions/acknowledged");
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "params.notifications.taskIds")), 2);
	ck_assert_str_eq(str_at(m, "params.notifications.taskIds.1"), going);
	m = client_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/tasks");
	ck_assert_str_eq(str_at(m, "params.taskId"), over);
	ck_assert_str_eq(cbx_json_member(at(m, "params._meta"), "io.modelcontextprotocol/subscriptionId")
				 ->valuestring, "sub");
	check_facts(m, "params", "completed");
	ck_assert_str_eq(str_at(m, "params.result.structuredContent.result"), "1");
	ck_assert_ptr_null(at(m, "params.resultType"));
	ck_assert_ptr_null(client_next(c));
	about(c, "tasks/cancel", going, "");
	m = client_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/tasks");
	ck_assert_str_eq(str_at(m, "params.taskId"), going);
	check_facts(m, "params", "cancelled");
	ck_assert_ptr_null(client_next(c));
	client_free(c);
}
END_TEST

/* A stream that was cancelled hears nothing; one whose session ends hears that. */
START_TEST(notifications_end)
{
	struct client *c = client_new();
	_cleanup_free_ char *id = NULL, *ids = NULL;
	cJSON *m;

	create(c, "s.1");
	id = new_task(c, "wait");
	client_settle(c);
	ids = cbx_xasprintf("[\"%s\",\"%s\"]", id, id);
	listen_to(c, "gone", ids);
	client_send(c, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"gone\"}}");
	ids[strlen(id) + 3] = ']';
	ids[strlen(id) + 4] = '\0';
	listen_to(c, "stays", ids);
	fake_session_expire(c->engine, "s.1");
	m = client_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/tasks");
	ck_assert_str_eq(cbx_json_member(at(m, "params._meta"), "io.modelcontextprotocol/subscriptionId")
				 ->valuestring, "stays");
	check_facts(m, "params", "completed");
	ck_assert(true_at(m, "params.result.isError"));
	ck_assert_ptr_null(client_next(c));
	ck_assert_int_eq(int_at(listen_to(c, "bad", "[7]"), "error.code"), -32602);
	ck_assert_int_eq(int_at(listen_to(c, "bad", "\"x\""), "error.code"), -32602);
	client_free(c);
}
END_TEST

/* A stream that was cancelled after its task's session was closed, and another made that has a cell of this number. */
START_TEST(notifications_id_used_again)
{
	struct client *c = client_new();
	_cleanup_free_ char *id = NULL, *ids = NULL;

	create(c, "s.1");
	id = new_task(c, "wait");
	client_settle(c);
	ids = cbx_xasprintf("[\"%s\"]", id);
	listen_to(c, "sub", ids);
	fake_session_expire(c->engine, "s.1");
	client_send(c, CREATE("s.1"));
	client_send(c, ASK("1", "tools/call",
			   ",\"name\":\"run_code\",\"arguments\":{\"session_id\":\"s.1\",\"code\":\"wait\"}"));
	client_send(c, CANCEL("\"sub\""));
	ck_assert_int_eq(int_at(client_next(c), "id"), 90);
	ck_assert_ptr_null(client_next(c));
	ck_assert_uint_eq(fake_engine_running(c->engine), 1);
	client_free(c);
}
END_TEST

START_TEST(many_in_one_stream)
{
	struct client *c = client_new();
	_cleanup_buf_ struct cbx_buf ids = { 0 };
	cJSON *m;

	for (int i = 0; i < CBX_STREAM_TASKS_MAX + 8; i++) {
		_cleanup_free_ char *session = cbx_xasprintf("s.%d", i / CBX_HOLDS_MAX), *id = NULL;

		if (i % CBX_HOLDS_MAX == 0)
			create(c, session);
		id = cbx_xstrdup(str_at(run_in(c, TASKS, session, "value 1"), "result.taskId"));
		/* Each twice: it is reported once. */
		cbx_buf_addf(&ids, "%s\"%s\",\"%s\"", i ? "," : "[", id, id);
	}
	client_settle(c);
	cbx_buf_addc(&ids, ']');
	m = listen_to(c, "sub", cbx_buf_str(&ids));
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "params.notifications.taskIds")), CBX_STREAM_TASKS_MAX);
	client_free(c);
}
END_TEST

/* So many that no client means it are refused, and not looked for one by one. */
START_TEST(too_many_in_one_stream)
{
	struct client *c = client_new();
	_cleanup_buf_ struct cbx_buf ids = { 0 };
	cJSON *m;

	for (int i = 0; i < CBX_SUBSCRIPTIONS_MAX; i++)
		cbx_buf_addf(&ids, "%s\"no.1.such\"", i ? "," : "[");
	cbx_buf_addc(&ids, ']');
	m = listen_to(c, "more", cbx_buf_str(&ids));
	ck_assert_str_eq(str_at(m, "method"), "notifications/subscriptions/acknowledged");
	ids.data[ids.len - 1] = ',';
	cbx_buf_adds(&ids, "\"no.1.such\"]");
	m = listen_to(c, "most", cbx_buf_str(&ids));
	ck_assert_int_eq(int_at(m, "error.code"), -32602);
	ck_assert_ptr_nonnull(strstr(str_at(m, "error.message"), "taskIds: there are too many"));
	client_free(c);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, declared);
	tcase_add_test(t, only_for_those_who_declare);
	tcase_add_test(t, lifecycle);
	tcase_add_test(t, errors_are_results);
	tcase_add_test(t, cancel);
	tcase_add_test(t, any_connection);
	tcase_add_test(t, update);
	tcase_add_test(t, unknown);
	tcase_add_test(t, missing_capability);
	tcase_add_test(t, too_many);
	tcase_add_test(t, images);
	tcase_add_test(t, notifications);
	tcase_add_test(t, notifications_end);
	tcase_add_test(t, notifications_id_used_again);
	tcase_add_test(t, many_in_one_stream);
	tcase_add_test(t, too_many_in_one_stream);
}

TEST_MAIN("mcp_tasks", add_tests)
