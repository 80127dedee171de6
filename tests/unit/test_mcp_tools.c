/* SPDX-License-Identifier: Apache-2.0 */
/* The tools on a toy engine: what a model gets to see, sessions that come and go, cancellation, progress. */
#include "mcp_client.h"


START_TEST(list)
{
	static const struct {
		const char *version;
		bool annotations, titles, output;
	} expect[] = {
		{ "2024-11-05", false, false, false },
		{ "2025-03-26", true, false, false },
		{ "2025-06-18", true, true, true },
		{ "2025-11-25", true, true, true },
	};
	struct client *c = client_new();
	cJSON *m, *t;

	client_initialize(c, expect[_i].version);
	m = client_ask(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"\"}}");
	ck_assert_str_eq(str_at(m, "result.tools.0.name"), "run_code");
	cJSON_ArrayForEach(t, at(m, "result.tools")) {
		ck_assert_uint_lt(strlen(str_at(t, "description")), 2048);
		ck_assert_str_eq(str_at(t, "inputSchema.type"), "object");
		ck_assert_ptr_null(at(t, "inputSchema.anyOf"));
		ck_assert_int_eq(!!at(t, "annotations"), expect[_i].annotations);
		ck_assert_int_eq(!!at(t, "title"), expect[_i].titles);
		ck_assert_int_eq(!!at(t, "outputSchema"), expect[_i].output);
	}
	m = client_ask(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"x\"}}");
	ck_assert_int_eq(int_at(m, "error.code"), -32602);
	m = client_ask(c, CALL("2", "run_code", "{\"code\":\"print a\"}"));
	ck_assert_int_eq(!!at(m, "result.structuredContent"), expect[_i].output);
	client_free(c);
}
END_TEST

START_TEST(run)
{
	struct client *c = client_new();
	cJSON *m = client_run(c, "print one\nerror two\nprint three\nvalue 4", NULL);

	ck_assert_str_eq(text(m), "one\ntwo\nthree\n4\n[session_id: fake-1]");
	ck_assert(!true_at(m, "result.isError"));
	ck_assert_str_eq(str_at(m, "result.structuredContent.status"), "ok");
	ck_assert_str_eq(str_at(m, "result.structuredContent.session_id"), "fake-1");
	ck_assert_str_eq(str_at(m, "result.structuredContent.stdout"), "one\nthree\n");
	ck_assert_str_eq(str_at(m, "result.structuredContent.stderr"), "two\n");
	ck_assert_str_eq(str_at(m, "result.structuredContent.result"), "4");
	ck_assert_int_eq(int_at(m, "result.structuredContent.execution_id"), 1);
	ck_assert_int_eq(int_at(client_run(c, "print x", NULL), "result.structuredContent.execution_id"), 2);
	ck_assert_str_eq(text(client_run(c, "", "fake-1")), "(no output)");
	m = client_run(c, "print before\nraise", "fake-1");
	ck_assert(!true_at(m, "result.isError"));
	ck_assert_str_eq(text(m), "before\nTraceback (most recent call last):\n  line 1\nValueError: bad");
	ck_assert_str_eq(str_at(m, "result.structuredContent.error.name"), "ValueError");
	m = client_run(c, "print a\ntime", "fake-1");
	ck_assert(!true_at(m, "result.isError"));
	ck_assert_str_eq(str_at(m, "result.structuredContent.status"), "timeout");
	ck_assert(true_at(m, "result.structuredContent.state_kept"));
	ck_assert_str_eq(text(m), "a\n[time was up after 1 s; variables are kept]");
	m = client_run(c, "die", "fake-1");
	ck_assert(true_at(m, "result.isError"));
	ck_assert_str_eq(str_at(m, "result.structuredContent.status"), "killed");
	client_free(c);
}
END_TEST

/* Bad arguments, and a word that the answer must hold so that a model can do better. */
static const struct {
	const char *line, *word;
} bad[] = {
	{ CALL("1", "run_code", "{}"), "missing argument: code" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"run_code\"}}",
	  "missing argument: code" },
	{ CALL("1", "run_code", "{\"code\":null}"), "missing argument: code" },
	{ CALL("1", "run_code", "{\"code\":7}"), "code: a string is expected, not 7" },
	{ CALL("1", "run_code", "{\"code\":\"x\",\"timeout\":\"9\"}"), "timeout: a number is expected, not \"9\"" },
	{ CALL("1", "run_code", "{\"code\":\"x\",\"timeout\":0}"), "timeout: 0 is not between 0.1 and 3600" },
	{ CALL("1", "run_code", "{\"code\":\"x\",\"timeout\":1e999}"), "timeout" },
	{ CALL("1", "run_code", "{\"code\":\"x\",\"timeout\":4000}"), "3600" },
	{ CALL("1", "run_code", "{\"code\":\"x\",\"language\":\"ruby\"}"), "\"python\"" },
	{ CALL("1", "run_code", "{\"code\":\"x\",\"langage\":\"python\"}"),
	  "accepted are: code, session_id, timeout, language" },
	{ CALL("1", "run_code", "{\"code\":\"x\",\"session_id\":\"none\"}"), "create_session for a new one" },
	{ CALL("1", "run_code", "{\"code\":\"x\",\"session_id\":\"../../etc\"}"), "session_id: \"../../etc\"" },
	{ CALL("1", "run_code", "{\"code\":\"x\",\"session_id\":3}"), "session_id: a string is expected" },
	{ CALL("1", "create_session", "{\"image\":\"none\"}"), "image: there is no \"none\"" },
	{ CALL("1", "create_session", "{\"memory\":true}"), "memory" },
	{ CALL("1", "create_session", "{\"memory\":1}"), "memory" },
	{ CALL("1", "create_session", "{\"colour\":1}"), "accepted are" },
	{ CALL("1", "create_session", "{\"profile\":\"dev\"}"), "profile" },
	{ CALL("1", "create_session", "{\"landlock\":\"off\"}"), "landlock" },
	{ CALL("1", "create_session", "{\"cgroup\":\"auto\"}"), "cgroup" },
	{ CALL("1", "create_session", "{\"zygote\":\"auto\"}"), "zygote" },
	{ CALL("1", "create_session", "{\"policy\":\"dev\"}"), "policy" },
	{ CALL("1", "close_session", "{}"), "missing argument: session_id" },
	{ CALL("1", "close_session", "{\"session_id\":\"none\"}"), "there is no session \"none\". Call list_sessions" },
	{ CALL("1", "list_sessions", "{\"all\":true}"), "accepted are: cursor" },
};

START_TEST(bad_arguments)
{
	struct client *c = client_new();
	cJSON *m = client_ask(c, bad[_i].line);

	ck_assert_msg(at(m, "result.isError") && true_at(m, "result.isError"), "%s", c->raw[c->n - 1]);
	ck_assert_msg(strstr(text(m), bad[_i].word), "\"%s\" lacks \"%s\"", text(m), bad[_i].word);
	ck_assert_ptr_null(at(m, "result.structuredContent"));
	ck_assert_str_eq(text(client_run(c, "print fine", NULL)), "fine\n[session_id: fake-1]");
	client_free(c);
}
END_TEST

START_TEST(client_faults)
{
	static const char *const faults[] = {
		CALL("1", "none", "{}"),
		CALL("1", "run_code", "[]"),
		CALL("1", "run_code", "\"x\""),
		CALL("1", "run_code", "{\"code\":\"a\\u0000b\"}"),
		CALL("1", "run_code", "{\"code\":\"\\udc00\"}"),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":7}}",
		CALL("1", "run_code", "{\"code\":\"x\"},\"_meta\":{\"progressToken\":{}}"),
	};
	struct client *c = client_new();
	cJSON *m = client_ask(c, faults[_i]);

	ck_assert_int_eq(int_at(m, "error.code"), -32602);
	ck_assert_int_eq(int_at(m, "id"), 1);
	ck_assert_ptr_null(client_next(c));
	client_free(c);
}
END_TEST

START_TEST(code_too_long)
{
	struct client *c = client_new();
	_cleanup_buf_ struct cbx_buf code = { 0 };
	cJSON *m;

	memset(cbx_buf_reserve(&code, CBX_CODE_MAX + 1), 'x', CBX_CODE_MAX + 1);
	code.len = CBX_CODE_MAX + 1;
	code.data[code.len] = '\0';
	m = client_run(c, code.data, NULL);
	ck_assert(true_at(m, "result.isError"));
	ck_assert_ptr_nonnull(strstr(text(m), "code: "));
	client_free(c);
}
END_TEST

START_TEST(default_session)
{
	struct client *c = client_new();
	cJSON *m;

	client_run(c, "print a", NULL);
	fake_session_expire(c->engine, "fake-1");
	m = client_run(c, "print b", NULL);
	ck_assert_ptr_nonnull(strstr(text(m), "it was idle for an hour"));
	ck_assert_ptr_nonnull(strstr(text(m), "[session_id: fake-2]"));
	ck_assert_ptr_nonnull(strstr(str_at(m, "result.structuredContent.notice"), "are gone"));
	ck_assert_str_eq(text(client_run(c, "print c", NULL)), "c\n[session_id: fake-2]");
	m = client_run(c, "print d", "fake-1");
	ck_assert(true_at(m, "result.isError"));
	/* Closed on purpose: nothing to report. */
	client_ask(c, CALL("5", "close_session", "{\"session_id\":\"fake-2\"}"));
	ck_assert_str_eq(text(client_run(c, "print e", NULL)), "e\n[session_id: fake-3]");
	/* It ends with the connection, others do not. */
	client_ask(c, CALL("6", "create_session", "{\"session_id\":\"mine\"}"));
	cbx_mcp_free(c->mcp);
	client_connect(c);
	m = client_ask(c, CALL("7", "list_sessions", "{}"));
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.structuredContent.sessions")), 1);
	ck_assert_str_eq(str_at(m, "result.structuredContent.sessions.0.session_id"), "mine");
	ck_assert_str_eq(text(client_run(c, "print f", "mine")), "f");
	client_free(c);
}
END_TEST

START_TEST(sessions)
{
	struct client *c = client_new();
	cJSON *m;

	m = client_ask(c, CALL("1", "list_sessions", "{}"));
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.structuredContent.sessions")), 0);
	m = client_ask(c, CALL("2", "create_session", "{\"session_id\":\"a\",\"memory\":\"512M\"}"));
	ck_assert_str_eq(str_at(m, "result.structuredContent.session_id"), "a");
	m = client_ask(c, CALL("3", "create_session", "{\"session_id\":\"a\"}"));
	ck_assert(true_at(m, "result.isError"));
	m = client_ask(c, CALL("4", "create_session", "{}"));
	ck_assert_str_eq(str_at(m, "result.structuredContent.session_id"), "fake-1");
	ck_assert_ptr_nonnull(strstr(text(m), "Memory 2 GiB"));
	client_run(c, "print x", NULL);
	m = client_ask(c, CALL("5", "list_sessions", "{}"));
	ck_assert_str_eq(text(m),
			 "a: idle, image python, 0 cells run, closed in 3600 s if not used\n"
			 "fake-1: idle, image python, 0 cells run, closed in 3600 s if not used\n"
			 "fake-2: idle, image python, 1 cell run, closed in 3600 s if not used (the default session)");
	ck_assert(true_at(m, "result.structuredContent.sessions.2.default"));
	m = client_ask(c, CALL("5", "close_session", "{\"session_id\":\"a\"}"));
	ck_assert(true_at(m, "result.structuredContent.closed"));
	m = client_ask(c, CALL("6", "close_session", "{\"session_id\":\"a\"}"));
	ck_assert(true_at(m, "result.isError"));
	fake_engine_fail_setup(c->engine, true);
	m = client_ask(c, CALL("7", "create_session", "{\"session_id\":\"b\"}"));
	ck_assert(true_at(m, "result.isError"));
	ck_assert_ptr_nonnull(strstr(text(m), "does not start"));
	client_free(c);
}
END_TEST

START_TEST(create_cancelled)
{
	struct client *c = client_new();
	cJSON *m;

	client_send(c, CALL("2", "create_session", "{\"session_id\":\"a\"}"));
	client_send(c, CANCEL("2"));
	ck_assert_ptr_null(client_next(c));
	m = client_ask(c, CALL("3", "list_sessions", "{}"));
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.structuredContent.sessions")), 0);
	client_send(c, CALL("4", "create_session", "{\"session_id\":\"b\"}"));
	client_free(c);
}
END_TEST

START_TEST(no_sandbox)
{
	struct client *c = client_new();

	fake_engine_break(c->engine);
	ck_assert_ptr_nonnull(at(client_initialize(c, "2025-11-25"), "result"));
	ck_assert_ptr_nonnull(
		at(client_ask(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"), "result.tools.3"));
	for (int i = 0; i < 4; i++) {
		static const char *const calls[] = {
			CALL("1", "run_code", "{\"code\":\"1\"}"),
			CALL("1", "create_session", "{}"),
			CALL("1", "list_sessions", "{}"),
			CALL("1", "close_session", "{\"session_id\":\"a\"}"),
		};
		cJSON *m = client_ask(c, calls[i]);

		ck_assert(true_at(m, "result.isError"));
		ck_assert_ptr_nonnull(strstr(text(m), "run sysctl user.max_user_namespaces=10000"));
	}
	client_free(c);
}
END_TEST

START_TEST(cancellation)
{
	struct client *c = client_new();
	cJSON *m;

	client_run_async(c, "\"a\"", "wait", NULL, NULL);
	client_run_async(c, "2", "wait", NULL, NULL);
	ck_assert_ptr_null(client_next(c));
	ck_assert_uint_eq(fake_engine_running(c->engine), 2);
	/* While code runs, everything else is answered. */
	ck_assert_ptr_nonnull(at(client_ask(c, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}"), "result"));
	m = client_ask(c, CALL("2", "list_sessions", "{}"));
	ck_assert_int_eq(int_at(m, "error.code"), -32600); /* its id is taken */
	client_send(c, CANCEL("\"2\""));
	client_send(c, CANCEL("\"b\""));
	client_settle(c);
	ck_assert_uint_eq(fake_engine_running(c->engine), 2);
	client_send(c, CANCEL("\"a\""));
	client_settle(c);
	ck_assert_uint_eq(fake_engine_running(c->engine), 1);
	client_send(c, CANCEL("2"));
	client_settle(c);
	ck_assert_uint_eq(fake_engine_running(c->engine), 0);
	ck_assert_ptr_null(client_next(c));
	/* Cancelled before it started, and answered already: both without effect on what follows. */
	client_run_async(c, "3", "print x", NULL, NULL);
	client_send(c, CANCEL("3"));
	ck_assert_ptr_null(client_next(c));
	m = client_run(c, "print y", NULL);
	client_send(c, CANCEL("77"));
	ck_assert_ptr_null(client_next(c));
	ck_assert_str_eq(text(m), "y\n[session_id: fake-1]");
	client_free(c);
}
END_TEST

START_TEST(disconnect)
{
	struct client *c = client_new();

	client_ask(c, CALL("1", "create_session", "{\"session_id\":\"keep\"}"));
	client_run_async(c, "2", "wait", NULL, NULL);
	client_run_async(c, "3", "wait", "keep", ",\"_meta\":{\"progressToken\":1}");
	client_run_async(c, "4", "print queued", "keep", NULL);
	client_settle(c);
	cbx_mcp_free(c->mcp);
	client_settle(c);
	ck_assert_uint_eq(fake_engine_running(c->engine), 0);
	ck_assert_uint_ge(fake_engine_interrupts(c->engine), 2);
	c->seen = c->n;
	client_connect(c);
	ck_assert_str_eq(text(client_run(c, "print there", "keep")), "there");
	client_free(c);
}
END_TEST

START_TEST(closed_while_running)
{
	struct client *c = client_new();
	cJSON *m, *other;

	client_ask(c, CALL("1", "create_session", "{\"session_id\":\"s\"}"));
	client_run_async(c, "2", "wait", "s", NULL);
	client_settle(c);
	m = client_ask(c, CALL("3", "close_session", "{\"session_id\":\"s\"}"));
	other = client_next(c);
	ck_assert_int_eq(int_at(m, "id"), 3);
	ck_assert_int_eq(int_at(other, "id"), 2);
	ck_assert(true_at(other, "result.isError"));
	ck_assert_str_eq(str_at(other, "result.structuredContent.status"), "killed");
	/* Closed and, before it has said so, cancelled. */
	client_ask(c, CALL("4", "create_session", "{\"session_id\":\"t\"}"));
	client_run_async(c, "5", "wait", "t", NULL);
	client_settle(c);
	client_send(c, CALL("6", "close_session", "{\"session_id\":\"t\"}"));
	client_send(c, CANCEL("5"));
	ck_assert_int_eq(int_at(client_next(c), "id"), 6);
	ck_assert_ptr_null(client_next(c));
	client_free(c);
}
END_TEST

/* A closed session's id is another's before the ends of its cells are reported: who waits for those has nothing to do
 * with the cells of the same numbers there. */
START_TEST(id_used_again)
{
	struct client *c = client_new();
	cJSON *m;

	client_ask(c, CALL("1", "create_session", "{\"session_id\":\"s\"}"));
	client_run_async(c, "2", "wait", "s", NULL);
	client_run_async(c, "3", "wait", "s", NULL);
	client_settle(c);
	client_send(c, CALL("4", "close_session", "{\"session_id\":\"s\"}"));
	client_send(c, CALL("5", "create_session", "{\"session_id\":\"s\"}"));
	client_run_async(c, "6", "wait", "s", NULL);
	client_run_async(c, "7", "wait", "s", NULL);
	client_send(c, CANCEL("2"));
	ck_assert_int_eq(int_at(client_next(c), "id"), 4);
	m = client_next(c);
	ck_assert_int_eq(int_at(m, "id"), 3);
	ck_assert_str_eq(str_at(m, "result.structuredContent.status"), "killed");
	ck_assert_int_eq(int_at(client_next(c), "id"), 5);
	ck_assert_ptr_null(client_next(c));
	ck_assert_uint_eq(fake_engine_interrupts(c->engine), 0);
	ck_assert_uint_eq(fake_engine_running(c->engine), 2);
	client_free(c);
}
END_TEST

/* The same for a session that was not ready yet. */
START_TEST(id_created_again)
{
	struct client *c = client_new();
	cJSON *m;

	client_send(c, CALL("1", "create_session", "{\"session_id\":\"s\"}"));
	client_send(c, CALL("2", "close_session", "{\"session_id\":\"s\"}"));
	client_send(c, CALL("3", "create_session", "{\"session_id\":\"s\"}"));
	client_send(c, CANCEL("1"));
	ck_assert_int_eq(int_at(client_next(c), "id"), 2);
	m = client_next(c);
	ck_assert_int_eq(int_at(m, "id"), 3);
	ck_assert(!true_at(m, "result.isError"));
	ck_assert_str_eq(text(client_run(c, "print there", "s")), "there");
	client_free(c);
}
END_TEST

/* A session that was made with the id of a connection's own, which had ended, stays as others do. */
START_TEST(own_id_used_again)
{
	struct client *c = client_new();
	cJSON *m;

	ck_assert_str_eq(text(client_run(c, "print a", NULL)), "a\n[session_id: fake-1]");
	fake_session_expire(c->engine, "fake-1");
	m = client_ask(c, CALL("1", "create_session", "{\"session_id\":\"fake-1\"}"));
	ck_assert(!true_at(m, "result.isError"));
	cbx_mcp_free(c->mcp);
	client_settle(c);
	client_connect(c);
	ck_assert_str_eq(text(client_run(c, "print there", "fake-1")), "there");
	client_free(c);
}
END_TEST

START_TEST(many_calls)
{
	struct client *c = client_new();
	cJSON *m;

	/* No more in one session than can wait for their turn there. */
	for (int i = 0; i < CBX_CALLS_MAX; i++) {
		_cleanup_free_ char *id = cbx_xasprintf("%d", i), *session = cbx_xasprintf("s%d", i / CBX_QUEUE_MAX);
		_cleanup_free_ char *create = cbx_xasprintf(CALL("\"c\"", "create_session", "{\"session_id\":\"%s\"}"),
							    session);

		if (i % CBX_QUEUE_MAX == 0)
			client_ask(c, create);
		client_run_async(c, id, "wait", session, NULL);
	}
	ck_assert_ptr_null(client_next(c));
	m = client_ask(c, CALL("\"one more\"", "list_sessions", "{}"));
	ck_assert(true_at(m, "result.isError"));
	ck_assert_ptr_nonnull(strstr(text(m), "256 calls"));
	client_send(c, CANCEL("7"));
	m = client_ask(c, CALL("\"again\"", "list_sessions", "{}"));
	ck_assert(!true_at(m, "result.isError"));
	client_free(c);
}
END_TEST

START_TEST(progress)
{
	struct client *c = client_new();
	double last = -1;
	cJSON *m;

	client_initialize(c, "2025-11-25");
	client_run_async(c, "1", "raw first\\nsecond\\x1b[31m red\\x1b[0m\\x07 \\xff\\r\\n\\n  \\n\nwait", NULL,
			 ",\"_meta\":{\"progressToken\":9007199254740993}");
	m = client_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/progress");
	ck_assert_str_eq(str_at(m, "params.message"), "second red \xef\xbf\xbd");
	ck_assert_ptr_nonnull(strstr(c->raw[c->n - 1], "\"progressToken\":9007199254740993,"));
	last = at(m, "params.progress")->valuedouble;
	ck_assert(last >= 0);
	client_send(c, CANCEL("1"));
	ck_assert_ptr_null(client_next(c));
	/* A hundred lines at once are one message now and one later, and none after the answer. */
	client_run_async(c, "2", "print a\nprint b\nprint c\nwait", NULL,
			 ",\"_meta\":{\"progressToken\":\"t\\u0041\"}");
	m = client_next(c);
	ck_assert_ptr_nonnull(strstr(c->raw[c->n - 1], "\"progressToken\":\"t\\u0041\","));
	last = at(m, "params.progress")->valuedouble;
	ck_assert_ptr_null(client_next(c));
	while (c->seen == c->n)
		event_base_loop(c->base, EVLOOP_ONCE);
	m = client_next(c);
	ck_assert_str_eq(str_at(m, "params.message"), "c");
	ck_assert(at(m, "params.progress")->valuedouble > last);
	/* Without output there is a message after a while. */
	while (c->seen == c->n)
		event_base_loop(c->base, EVLOOP_ONCE);
	last = at(m, "params.progress")->valuedouble;
	ck_assert(at(client_next(c), "params.progress")->valuedouble > last);
	client_free(c);
}
END_TEST

START_TEST(progress_old)
{
	struct client *c = client_new();
	cJSON *m;

	client_initialize(c, "2024-11-05");
	client_run_async(c, "1", "print a", NULL, ",\"_meta\":{\"progressToken\":0}");
	m = client_next(c);
	ck_assert_int_eq(int_at(m, "params.progressToken"), 0);
	ck_assert_ptr_null(at(m, "params.message"));
	ck_assert_ptr_nonnull(at(client_next(c), "result"));
	client_free(c);
}
END_TEST

START_TEST(output_sizes)
{
	_cleanup_buf_ struct cbx_buf value = { 0 };
	struct client *c = client_new();
	cJSON *m = client_run(c, "fill 30000 x\nprint \xe2\x82\xac end", NULL);
	const char *t = text(m);

	cbx_buf_addf(&value, "value %0*d", 2 * CBX_VALUE_CHARS, 7);
	ck_assert_uint_lt(strlen(t), CBX_TEXT_CHARS + 400);
	ck_assert_ptr_nonnull(strstr(t, "bytes omitted here; print less"));
	ck_assert_ptr_nonnull(strstr(t, "\xe2\x82\xac end\n"));
	ck_assert_int_eq(int_at(m, "result.structuredContent.omitted.bytes"), 30006 - CBX_TEXT_CHARS);
	m = client_run(c, cbx_buf_str(&value), NULL);
	ck_assert_uint_lt(strlen(text(m)), CBX_VALUE_CHARS + 400);
	ck_assert_uint_gt(strlen(text(m)), CBX_VALUE_CHARS - 400);
	/* Control characters take six bytes each: still below the limit (client_receive checks it). */
	m = client_run(c, "raw \\x01\nfill 120000 \x01", NULL);
	ck_assert_ptr_nonnull(strstr(text(m), "bytes omitted"));
	client_free(c);
}
END_TEST

/* All text blocks, each with a line of its own for an image. */
static const char *whole(cJSON *m, int *ret_images)
{
	static char out[65536];
	size_t n = 0;
	cJSON *b;

	*ret_images = 0;
	cJSON_ArrayForEach (b, at(m, "result.content")) {
		const char *t = cJSON_GetStringValue(cJSON_GetObjectItem(b, "text"));

		*ret_images += !t;
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s", n ? "\n" : "", t ? t : "IMAGE");
		ck_assert_uint_lt(n, sizeof(out));
	}
	return out;
}

START_TEST(images)
{
	int n;
	struct client *c = client_new();
	cJSON *m = client_run(c, "print a\nshow image/png 5000", NULL);

	ck_assert_str_eq(whole(m, &n), "a\n[image/png, 4.9 KiB, 640 x 480 pixels]\nIMAGE\n[session_id: fake-1]");
	ck_assert_str_eq(str_at(m, "result.content.1.type"), "image");
	ck_assert_str_eq(str_at(m, "result.content.1.mimeType"), "image/png");
	ck_assert_int_eq(int_at(m, "result.structuredContent.images.0.bytes"), 5000);
	ck_assert(true_at(m, "result.structuredContent.images.0.sent"));
	/* Eight of 150 kB: not all fit; which do not is said. */
	m = client_run(c, "show image/png 150000\nshow image/png 150000\nshow image/png 150000\nshow image/png 150000\n"
			  "show image/png 150000\nshow image/png 150000\nshow image/png 150000\nshow image/png 150000",
		       NULL);
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.structuredContent.images")), 8);
	ck_assert_ptr_nonnull(strstr(whole(m, &n), "too large to send"));
	ck_assert_int_ge(n, 3);
	ck_assert_int_lt(n, 6);
	m = client_run(c, "show image/png 3000000\nshow image/jpeg 500\nshow image/svg+xml 100\nprint b", NULL);
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.content")), 1);
	ck_assert_ptr_nonnull(strstr(text(m), "[image/png, 2.9 MiB: too large"));
	ck_assert_ptr_nonnull(strstr(text(m), "[image/jpeg, 500 bytes: damaged, not sent]"));
	ck_assert_ptr_nonnull(strstr(text(m), "[image/svg+xml, "));
	/* A smaller copy is taken where the whole is too large, and only there. */
	m = client_run(c, "show-two 3000000 90000\nshow-two 5000 4000", NULL);
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.content")), 5);
	ck_assert_str_eq(str_at(m, "result.content.1.mimeType"), "image/jpeg");
	ck_assert_str_eq(str_at(m, "result.content.3.mimeType"), "image/png");
	ck_assert_ptr_nonnull(strstr(text(m), "[image/png, 2.9 MiB: too large to send, a smaller copy is sent instead"));
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.structuredContent.images")), 2);
	ck_assert_str_eq(str_at(m, "result.structuredContent.images.0.mime_type"), "image/jpeg");
	ck_assert(true_at(m, "result.structuredContent.images.0.sent"));
	m = client_run(c, "show-text image/png !!!!\nshow-text text/markdown **bold**\nshow-text text/html <b>x</b>",
		       NULL);
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.content")), 1);
	ck_assert_ptr_nonnull(strstr(text(m), "damaged"));
	ck_assert_ptr_nonnull(strstr(text(m), "**bold**\nx\n"));
	client_free(c);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_loop_test(t, list, 0, 4);
	tcase_add_test(t, run);
	tcase_add_loop_test(t, bad_arguments, 0, ARRAY_SIZE(bad));
	tcase_add_loop_test(t, client_faults, 0, 8);
	tcase_add_test(t, code_too_long);
	tcase_add_test(t, default_session);
	tcase_add_test(t, sessions);
	tcase_add_test(t, create_cancelled);
	tcase_add_test(t, no_sandbox);
	tcase_add_test(t, cancellation);
	tcase_add_test(t, disconnect);
	tcase_add_test(t, closed_while_running);
	tcase_add_test(t, id_used_again);
	tcase_add_test(t, id_created_again);
	tcase_add_test(t, own_id_used_again);
	tcase_add_test(t, many_calls);
	tcase_add_test(t, progress);
	tcase_add_test(t, progress_old);
	tcase_add_test(t, output_sizes);
	tcase_add_test(t, images);
}

TEST_MAIN("mcp tools", add)
