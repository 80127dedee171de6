/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one connection to the MCP core, above an engine of toys. The input is what a client writes: lines
 * that end with a newline. Between two lines the event loop runs, except where a line is empty, so that requests also
 * pile up. Every message that comes back must be one line of strict JSON below the size that clients take, with the
 * version of JSON-RPC and no more than one of result and error.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "fake_engine.h"
#include "fuzz.h"
#include "mcp/mcp.h"
#include "tools/tools.h"

static void check_message(const cJSON *m)
{
	const cJSON *version = cbx_json_member(m, "jsonrpc");
	bool result = cbx_json_member(m, "result"),
	     error = cbx_json_member(m, "error"),
	     method = cbx_json_member(m, "method");

	must(cJSON_IsObject(m));
	must(cJSON_IsString(version) && strcmp(version->valuestring, "2.0") == 0);
	must(result + error + method == 1);
	must(method || cbx_json_member(m, "id"));
}

/* Ids go back as they came, even one that holds half a surrogate: then nothing else may be at fault. */
static bool id_is_odd(struct cbx_raw message)
{
	struct cbx_raw id = cbx_raw_member(message, "id");
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err = { 0 };

	return id.p && id.p[0] == '"' && cbx_json_parse(id.p, id.n, &doc, &err) == 0 && doc.problem.code;
}

static bool only_ids_are_odd(struct cbx_raw text)
{
	size_t pos = 0;
	bool odd = false;

	if (text.p[0] != '[')
		return id_is_odd(text);
	for (struct cbx_raw m; (m = cbx_raw_element(text, &pos)).p;)
		odd = odd || id_is_odd(m);
	return odd;
}

static void receive(void *arg, const char *line, size_t len)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err = { 0 };
	const cJSON *m;

	must(len > 0 && len < CBX_REPLY_MAX);
	must(!memchr(line, '\n', len));
	must(cbx_json_parse(line, len, &doc, &err) == 0);
	must(!doc.problem.code || only_ids_are_odd((struct cbx_raw){ line, len }));
	if (!cJSON_IsArray(doc.root)) {
		check_message(doc.root);
		return;
	}
	must(doc.root->child);
	cJSON_ArrayForEach (m, doc.root)
		check_message(m);
}

static void settle(struct event_base *base)
{
	for (int i = 0; i < 4; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct cbx_mcp_registry registry = { .tools = cbx_tools };
	static struct event_base *base;
	const char *p = (const char *)data, *end = p + size;
	struct cbx_rpc_io io = { receive, NULL };
	struct cbx_engine *engine;
	struct cbx_mcp *mcp;

	if (!base)
		base = event_base_new();
	engine = fake_engine_new(base);
	mcp = cbx_mcp_new(engine, &fake_principal, base, &io, &registry);
	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((nl ? nl : end) - p);
		char *line = malloc(n + 1);

		/* A block of its own size, so that a read beyond the line is seen. */
		must(line);
		line = realloc(memcpy(line, p, n), n ? n : 1);
		must(line);
		cbx_mcp_line(mcp, line, n);
		free(line);
		p += n + (nl ? 1 : 0);
		if (p < end && *p != '\n')
			settle(base);
	}
	settle(base);
	cbx_mcp_free(mcp);
	settle(base);
	fake_engine_free(engine);
	return 0;
}
