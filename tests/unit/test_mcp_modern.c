/* SPDX-License-Identifier: Apache-2.0 */
/* The era without a handshake, and what both eras have beside tools: resources, prompts, completion, notifications. */
#include "mcp_client.h"

#define REVISION "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\""
#define CAPS "\"io.modelcontextprotocol/clientCapabilities\":{}"
#define META "\"_meta\":{" REVISION "," CAPS "}"
#define ASK(id, method, more) \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":{" META more "}}"
#define OLD(id, method, params) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":{" params "}}"
#define CANCEL(id) "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"
#define CREATE(id) ASK("90", "tools/call", ",\"name\":\"create_session\",\"arguments\":{\"session_id\":\"" id "\"}")
#define CLOSE(id) ASK("91", "tools/call", ",\"name\":\"close_session\",\"arguments\":{\"session_id\":\"" id "\"}")

/* A member whose name has dots in it. */
static cJSON *member(cJSON *m, const char *path, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(at(m, path), name);
}

static struct client *client_with_news(void)
{
	struct client *c = client_new();

	c->news = true;
	return c;
}

static cJSON *ask(struct client *c, const char *method, const char *more)
{
	_cleanup_free_ char *line = cbx_xasprintf(
		"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"%s\",\"params\":{" META "%s}}", method, more);

	return client_ask(c, line);
}

/* What is due from timers, too: notifications are sent a moment after what they tell of. */
static cJSON *wait_next(struct client *c)
{
	while (c->seen == c->n)
		event_base_loop(c->base, EVLOOP_ONCE);
	return c->got[c->seen++];
}

/* The answer to a request, whenever notifications come: those stay to be looked at. */
static cJSON *answer_to(struct client *c, const char *line)
{
	cJSON *found;
	char *raw;
	size_t i = c->n;

	client_send(c, line);
	for (;; i++) {
		while (i == c->n)
			event_base_loop(c->base, EVLOOP_ONCE);
		if (!at(c->got[i], "method"))
			break;
	}
	found = c->got[i];
	raw = c->raw[i];
	memmove(&c->got[c->seen + 1], &c->got[c->seen], (i - c->seen) * sizeof(found));
	memmove(&c->raw[c->seen + 1], &c->raw[c->seen], (i - c->seen) * sizeof(raw));
	c->got[c->seen] = found;
	c->raw[c->seen++] = raw;
	return found;
}

static void check_complete(cJSON *m)
{
	ck_assert_str_eq(str_at(m, "result.resultType"), "complete");
	ck_assert_str_eq(cJSON_GetObjectItemCaseSensitive(
				 member(m, "result._meta", "io.modelcontextprotocol/serverInfo"), "name")->valuestring,
			 "codebox");
}

static void check_caching(cJSON *m, const char *scope)
{
	ck_assert_int_ge(int_at(m, "result.ttlMs"), 0);
	ck_assert_str_eq(str_at(m, "result.cacheScope"), scope);
}

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
	ck_assert_int_ge(cbx_session_find(c->engine, "fake-1", &s, &err), 0);
	ck_assert_int_ge(cbx_session_find(c->engine, "fake-2", &s, &err), 0);
	ck_assert_int_lt(cbx_session_find(c->engine, "fake-3", &s, &err), 0);
	client_connect(c);
	client_free(c);
}
END_TEST

/* Nobody was told of the session that a cancelled call has made. */
START_TEST(cancel)
{
	struct client *c = client_new();
	struct cbx_session *s;
	struct cbx_err err;
	size_t n;

	client_send(c, ASK("\"x\"", "tools/call", ",\"name\":\"run_code\",\"arguments\":{\"code\":\"wait\"}"));
	client_settle(c);
	ck_assert_int_ge(cbx_session_find(c->engine, "fake-1", &s, &err), 0);
	n = c->n;
	client_send(c, CANCEL("\"x\""));
	client_settle(c);
	ck_assert_uint_eq(c->n, n);
	ck_assert_int_lt(cbx_session_find(c->engine, "fake-1", &s, &err), 0);
	/* One that was named stays. */
	client_ask(c, CREATE("mine"));
	n = c->n;
	client_send(c, ASK("5", "tools/call",
			   ",\"name\":\"run_code\",\"arguments\":{\"code\":\"wait\",\"session_id\":\"mine\"}"));
	client_settle(c);
	client_send(c, CANCEL("5"));
	client_settle(c);
	ck_assert_uint_eq(c->n, n);
	ck_assert_int_ge(cbx_session_find(c->engine, "mine", &s, &err), 0);
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

/* ---- resources ---- */

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
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.resources")), 5);
	ck_assert_str_eq(str_at(m, "result.resources.0.uri"), "codebox://sessions");
	ck_assert_str_eq(str_at(m, "result.resources.1.uri"), "codebox://sessions/alpha");
	ck_assert_str_eq(str_at(m, "result.resources.2.uri"), "codebox://sessions/alpha/files/p.png");
	ck_assert_str_eq(str_at(m, "result.resources.2.name"), "p.png");
	ck_assert_str_eq(str_at(m, "result.resources.2.mimeType"), "image/png");
	ck_assert_int_eq(int_at(m, "result.resources.2.size"), 5);
	ck_assert_str_eq(str_at(m, "result.resources.4.uri"), "codebox://sessions/beta/files/dir/a%20b%C3%A9%FF.csv");
	ck_assert_str_eq(str_at(m, "result.resources.4.mimeType"), "text/csv");
	ck_assert_ptr_null(at(m, "result.nextCursor"));
	m = client_ask(c, OLD("1", "resources/list", ""));
	ck_assert_int_eq(cJSON_GetArraySize(at(m, "result.resources")), 6); /* its own */
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
	ck_assert_uint_eq(total, 1 + 4 * 61);
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
		if (path)
			ck_assert_uint_ge(strlen(str_at(m, path)), cases[i].n);
		else
			ck_assert_int_eq(int_at(m, "error.code"), -32603);
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

/* ---- notifications ---- */

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
	cbx_engine_files_changed(c->engine, id, files);
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
	/* Another form of the same address is the same file, and it is told in the client's own form. */
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
	struct client *c = client_new();

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_int_eq(int_at(ask(c, "subscriptions/listen", bad[i]), "error.code"), -32602);
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

/* Sessions that belong to one connection are no news to another. */
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
	cbx_session_create(c->engine, &spec, NULL, NULL, &s, &err);
	event_base_loopexit(c->base, &tv);
	event_base_dispatch(c->base);
	ck_assert_uint_eq(c->seen, c->n);
	/* Its own are. */
	answer_to(c, OLD("1", "tools/call", "\"name\":\"run_code\",\"arguments\":{\"code\":\"print a\"}"));
	m = wait_next(c);
	ck_assert_str_eq(str_at(m, "method"), "notifications/resources/list_changed");
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
	tcase_add_test(t, resources_list);
	tcase_add_test(t, resources_pages);
	tcase_add_test(t, resources_read);
	tcase_add_loop_test(t, not_found, 0, (int)ARRAY_SIZE(no_such));
	tcase_add_test(t, read_large);
	tcase_add_test(t, jobs);
	tcase_add_test(t, prompts);
	tcase_add_test(t, completion);
	tcase_add_test(t, listen_stream);
	tcase_add_test(t, listen_filter);
	tcase_add_test(t, listen_bad);
	tcase_add_test(t, legacy_subscribe);
	tcase_add_test(t, news_of_others);
}

TEST_MAIN("mcp_modern", add_tests)
