/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_TESTS_MCP_CLIENT_H
#define CBX_TESTS_MCP_CLIENT_H

/* A client of the MCP core in the same process: lines in, parsed messages out. */
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "fake_engine.h"
#include "mcp/mcp.h"
#include "tools/tools.h"
#include "unit_main.h"

#define CALL(id, name, args)                                                                                           \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" name                    \
	"\",\"arguments\":" args "}}"
#define CANCEL(id) "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "}}"

struct client {
	struct event_base *base;
	struct cbx_engine *engine;
	struct cbx_mcp *mcp;
	cJSON *got[2048]; /* messages in the order of their coming */
	char *raw[2048];
	size_t n, seen;
	bool news; /* notifications/resources/list_changed are among them */
};

/* Somebody else of the same user's. */
#define ANOTHER(c) (&(struct cbx_caller){ .engine = (c)->engine, .principal = &fake_principal })

static inline void client_receive(void *arg, const char *line, size_t len)
{
	struct client *c = arg;
	struct cbx_json_doc doc;
	struct cbx_err err;

	ck_assert_uint_lt(len, CBX_REPLY_MAX);
	ck_assert_ptr_null(memchr(line, '\n', len));
	ck_assert_msg(cbx_json_parse(line, len, &doc, &err) == 0, "%s in %.*s", err.msg, (int)(len < 300 ? len : 300),
		      line);
	ck_assert_msg(doc.problem.code == 0, "%s", doc.problem.msg);
	if (!c->news && strstr(line, "\"notifications/resources/list_changed\"")) {
		cbx_json_doc_release(&doc);
		return;
	}
	ck_assert_uint_lt(c->n, ARRAY_SIZE(c->got));
	c->got[c->n] = doc.root;
	c->raw[c->n] = cbx_xcalloc(1, len + 1);
	memcpy(c->raw[c->n++], line, len);
	free(doc.id);
}

static inline void client_connect(struct client *c)
{
	struct cbx_rpc_io io = { .send = client_receive, .arg = c };

	static const struct cbx_mcp_registry registry = { .tools = cbx_tools };

	c->mcp = cbx_mcp_new(c->engine, &fake_principal, c->base, &io, &registry);
}

static inline struct client *client_new(void)
{
	struct client *c = cbx_xcalloc(1, sizeof(*c));

	c->base = event_base_new();
	c->engine = fake_engine_new(c->base);
	client_connect(c);
	return c;
}

static inline void client_free(struct client *c)
{
	cbx_mcp_free(c->mcp);
	event_base_loop(c->base, EVLOOP_NONBLOCK);
	fake_engine_free(c->engine);
	event_base_free(c->base);
	for (size_t i = 0; i < c->n; i++) {
		cJSON_Delete(c->got[i]);
		free(c->raw[i]);
	}
	free(c);
}

static inline void client_send(struct client *c, const char *line)
{
	cbx_mcp_line(c->mcp, line, strlen(line));
}

/* Let everything that is due happen. */
static inline void client_settle(struct client *c)
{
	for (int i = 0; i < 20; i++)
		event_base_loop(c->base, EVLOOP_NONBLOCK);
}

/* The next message that was not looked at yet; NULL: none. */
static inline cJSON *client_next(struct client *c)
{
	if (c->seen == c->n)
		client_settle(c);
	return c->seen < c->n ? c->got[c->seen++] : NULL;
}

static inline cJSON *client_ask(struct client *c, const char *line)
{
	cJSON *m;

	client_send(c, line);
	m = client_next(c);
	ck_assert_msg(m != NULL, "no answer to %.200s", line);
	return m;
}

/* A member at a path such as "result.content.0.text". */
static inline cJSON *at(cJSON *j, const char *path)
{
	_cleanup_free_ char *p = cbx_xstrdup(path);
	char *save = NULL;

	for (char *key = strtok_r(p, ".", &save); key && j; key = strtok_r(NULL, ".", &save))
		j = cJSON_IsArray(j) ? cJSON_GetArrayItem(j, atoi(key)) : cbx_json_member(j, key);
	return j;
}

static inline const char *str_at(cJSON *j, const char *path)
{
	cJSON *v = at(j, path);

	ck_assert_msg(cJSON_IsString(v), "no string at %s in %s", path, cJSON_PrintUnformatted(j));
	return v->valuestring;
}

static inline int int_at(cJSON *j, const char *path)
{
	cJSON *v = at(j, path);

	ck_assert_msg(cJSON_IsNumber(v), "no number at %s in %s", path, cJSON_PrintUnformatted(j));
	return (int)v->valuedouble;
}

static inline const char *text(cJSON *m)
{
	return str_at(m, "result.content.0.text");
}

static inline bool true_at(cJSON *j, const char *path)
{
	cJSON *v = at(j, path);

	ck_assert_msg(cJSON_IsBool(v), "no boolean at %s in %s", path, cJSON_PrintUnformatted(j));
	return cJSON_IsTrue(v);
}

static inline cJSON *client_initialize(struct client *c, const char *version)
{
	_cleanup_free_ char *line = cbx_xasprintf("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
						  "\"protocolVersion\":\"%s\",\"capabilities\":{},"
						  "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}",
						  version);
	cJSON *m = client_ask(c, line);

	client_send(c, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	return m;
}

/* Send tools/call run_code; `more` is further members of params, such as ",\"_meta\":{…}". */
static inline void client_run_async(struct client *c, const char *id, const char *code, const char *session,
				    const char *more)
{
	_cleanup_json_ cJSON *args = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_free_ char *line = NULL;

	cbx_json_set_str(args, "code", code);
	cbx_json_set_str(args, "session_id", session);
	cbx_json_print(&text, args);
	line = cbx_xasprintf(
		"{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{\"name\":\"run_code\","
		"\"arguments\":%s%s}}",
		id, text.data, more ? more : "");
	client_send(c, line);
}

static inline cJSON *client_run(struct client *c, const char *code, const char *session)
{
	cJSON *m;

	client_run_async(c, "77", code, session, NULL);
	m = client_next(c);
	ck_assert_ptr_nonnull(m);
	return m;
}

#endif
