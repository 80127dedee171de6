/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: a table of tools with constant results, and a few that take their time or look at the client. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fixture.h"

#define STEP_MS 50

char *fixture_quote(const char *text)
{
	_cleanup_json_ cJSON *s = cJSON_CreateString(text);
	struct cbx_buf b = { 0 };

	cbx_json_print(&b, s);
	return cbx_buf_steal(&b);
}

void fixture_end(struct cbx_mcp_call *call, const char *json)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };

	cbx_buf_adds(&b, json);
	cbx_tool_end_text(&call->tool, &b);
}

#define NO_INPUT "{\"type\":\"object\",\"properties\":{}}"

/* ---- constant results ---- */

#define TEXT(t) "{\"type\":\"text\",\"text\":\"" t "\"}"
#define IMAGE	"{\"type\":\"image\",\"data\":\"" FIXTURE_PNG "\",\"mimeType\":\"image/png\"}"

static const struct {
	const char *name, *result;
} constants[] = {
	{ "test_simple_text", "{\"content\":[" TEXT("This is a simple text response for testing.") "]}" },
	{ "test_image_content", "{\"content\":[" IMAGE "]}" },
	{ "test_audio_content",
	  "{\"content\":[{\"type\":\"audio\",\"data\":\"" FIXTURE_WAV "\",\"mimeType\":\"audio/wav\"}]}" },
	{ "test_embedded_resource",
	  "{\"content\":[{\"type\":\"resource\",\"resource\":{\"uri\":\"test://embedded-resource\",\"mimeType\":"
	  "\"text/plain\",\"text\":\"This is an embedded resource content.\"}}]}" },
	{ "test_multiple_content_types",
	  "{\"content\":[" TEXT("Multiple content types test:") "," IMAGE
	  ",{\"type\":\"resource\",\"resource\":{\"uri\":\"test://mixed-content-resource\",\"mimeType\":"
	  "\"application/json\",\"text\":\"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"}}]}" },
	{ "json_schema_2020_12_tool", "{\"content\":[" TEXT("It was called.") "]}" },
	{ "test_error_handling",
	  "{\"content\":[" TEXT("This tool intentionally returns an error for testing") "],\"isError\":true}" },
};

static void constant(struct cbx_tool_call *tool, const cJSON *args)
{
	struct cbx_mcp_call *call = fixture_call(tool);
	for (size_t i = 0; i < ARRAY_SIZE(constants); i++) {
		if (strcmp(constants[i].name, call->tool.tool->name) == 0) {
			fixture_end(call, constants[i].result);
			return;
		}
	}
	abort();
}

/* ---- tools that take their time ---- */

struct steps {
	struct cbx_mcp_call *call;
	struct event *timer;
	char *token; /* NULL: no progress is wanted */
	int step;
};

/* The call has ended, or its client has gone. */
static void steps_free(void *state)
{
	struct steps *s = state;

	event_free(s->timer);
	free(s->token);
	free(s);
}

static void say(struct cbx_mcp_call *call, const char *text)
{
	_cleanup_buf_ struct cbx_buf params = { 0 };

	cbx_buf_addf(&params, "{\"level\":\"info\",\"logger\":\"fixture\",\"data\":\"%s\"}", text);
	cbx_rpc_notify(&call->slot, "notifications/message", &params);
}

static void step(evutil_socket_t fd, short what, void *arg)
{
	static const char *const texts[] = { "Tool execution started", "Tool processing data",
					     "Tool execution completed" };
	struct timeval tv = { .tv_usec = STEP_MS * 1000 };
	struct steps *s = arg;

	if (s->step < 3) {
		if (strcmp(s->call->tool.tool->name, "test_tool_with_logging") == 0) {
			say(s->call, texts[s->step]);
		} else if (s->token) {
			_cleanup_buf_ struct cbx_buf params = { 0 };

			cbx_buf_addf(&params, "{\"progressToken\":%s,\"progress\":%d,\"total\":100}", s->token,
				     s->step * 50);
			cbx_rpc_notify(&s->call->slot, "notifications/progress", &params);
		}
		s->step++;
		event_add(s->timer, &tv);
		return;
	}
	fixture_end(s->call, "{\"content\":[" TEXT("Done in three steps.") "]}");
}

static void stepwise(struct cbx_tool_call *tool, const cJSON *args)
{
	struct cbx_mcp_call *call = fixture_call(tool);
	const cJSON *meta = cbx_json_member(call->params, "_meta");
	const cJSON *token = cbx_json_member(meta, "progressToken");
	struct steps *s = cbx_xcalloc(1, sizeof(*s));

	if (token) {
		struct cbx_buf b = { 0 };

		cbx_json_print(&b, token);
		s->token = cbx_buf_steal(&b);
	}
	s->call = call;
	s->timer = event_new(tool->client->base, -1, 0, step, s);
	tool->state = s;
	tool->release = steps_free;
	step(-1, 0, s);
}

/* Not of the suite but for tests/http: an answer that takes its time, with nothing before it ... */
static void silence_ends(evutil_socket_t fd, short what, void *arg)
{
	fixture_end(arg, "{\"content\":[" TEXT("At last.") "]}");
}

static void silence_free(void *state)
{
	event_free(state);
}

static void silence(struct cbx_tool_call *tool, const cJSON *args)
{
	struct timeval tv = { .tv_sec = 1, .tv_usec = 500000 };

	tool->state = event_new(tool->client->base, -1, 0, silence_ends, fixture_call(tool));
	tool->release = silence_free;
	event_add(tool->state, &tv);
}

/* ... and much more than a client can read at once. */
static void flood(struct cbx_tool_call *tool, const cJSON *args)
{
	struct cbx_mcp_call *call = fixture_call(tool);
	_cleanup_free_ char *text = cbx_xcalloc(1, (64 << 10) + 1);

	memset(text, 'x', 64 << 10);
	for (int i = 0; i < 600 && !call->ended; i++)
		say(call, text);
	fixture_end(call, "{\"content\":[" TEXT("That was it.") "]}");
}

/* One answer, nearly as large as they may be. */
static void large(struct cbx_tool_call *tool, const cJSON *args)
{
	_cleanup_free_ char *text = cbx_xcalloc(1, (800 << 10) + 1), *json = NULL;

	memset(text, 'x', 800 << 10);
	json = cbx_xasprintf("{\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]}", text);
	fixture_end(fixture_call(tool), json);
}

/* ---- what the client can do and wants ---- */

static const cJSON *meta_of(const struct cbx_mcp_call *call, const char *key)
{
	return cbx_json_member(cbx_json_member(call->params, "_meta"), key);
}

static void missing_capability(struct cbx_tool_call *tool, const cJSON *args)
{
	struct cbx_mcp_call *call = fixture_call(tool);
	const cJSON *caps = meta_of(call, CBX_META "clientCapabilities");

	if (cbx_json_member(caps, "sampling")) {
		fixture_end(call, "{\"content\":[" TEXT("The client can sample.") "]}");
	} else {
		cJSON *data = cbx_json_new_obj(), *required = cbx_json_new_obj();

		cbx_json_set(required, "sampling", cbx_json_new_obj());
		cbx_json_set(data, "requiredCapabilities", required);
		cbx_mcp_call_fail(call, CBX_RPC_MISSING_CAPABILITY, data, "the client has not declared sampling");
	}
}

static void logging(struct cbx_tool_call *tool, const cJSON *args)
{
	struct cbx_mcp_call *call = fixture_call(tool);
	if (meta_of(call, CBX_META "logLevel"))
		say(call, "a log message");
	fixture_end(call, "{\"content\":[" TEXT("Logged, if that was wanted.") "]}");
}

/* ---- asking a legacy client ---- */

#define PROMPT_INPUT \
	"{\"type\":\"object\",\"properties\":{\"prompt\":{\"type\":\"string\",\"description\":\"What to ask the model.\"}}," \
	"\"required\":[\"prompt\"],\"additionalProperties\":false}"

#define MESSAGE_INPUT \
	"{\"type\":\"object\",\"properties\":{\"message\":{\"type\":\"string\",\"description\":\"What to ask the user.\"}}," \
	"\"required\":[\"message\"],\"additionalProperties\":false}"

static const char *argument(const cJSON *args, const char *name)
{
	const cJSON *v = cbx_json_member(args, name);

	return cJSON_IsString(v) ? v->valuestring : "";
}

static void sampling(struct cbx_tool_call *tool, const cJSON *args)
{
	struct cbx_mcp_call *call = fixture_call(tool);
	_cleanup_free_ char *text = fixture_quote(argument(args, "prompt"));
	_cleanup_free_ char *params = cbx_xasprintf(
		"{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":%s}}],\"maxTokens\":100}", text);

	fixture_ask(call, "sampling/createMessage", params, "LLM response: ");
}

static void elicitation(struct cbx_tool_call *tool, const cJSON *args)
{
	struct cbx_mcp_call *call = fixture_call(tool);
	_cleanup_free_ char *text = fixture_quote(argument(args, "message"));
	_cleanup_free_ char *params = cbx_xasprintf(
		"{\"message\":%s,\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"username\":{\"type\":\"string\","
		"\"description\":\"User's response\"},\"email\":{\"type\":\"string\",\"description\":\"User's email "
		"address\"}},\"required\":[\"username\",\"email\"]}}",
		text);

	fixture_ask(call, "elicitation/create", params, "User response: ");
}

static void elicitation_defaults(struct cbx_tool_call *tool, const cJSON *args)
{
	struct cbx_mcp_call *call = fixture_call(tool);
	fixture_ask(call, "elicitation/create",
		    "{\"message\":\"Please check these values\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"
		    "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
		    "\"age\":{\"type\":\"integer\",\"default\":30},"
		    "\"score\":{\"type\":\"number\",\"default\":95.5},"
		    "\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],\"default\":\"active\"},"
		    "\"verified\":{\"type\":\"boolean\",\"default\":true}},\"required\":[]}}",
		    "Elicitation completed: ");
}

static void elicitation_enums(struct cbx_tool_call *tool, const cJSON *args)
{
	struct cbx_mcp_call *call = fixture_call(tool);
	fixture_ask(
		call, "elicitation/create",
		"{\"message\":\"Please choose\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"
		"\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\",\"option3\"]},"
		"\"titledSingle\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"value1\",\"title\":\"First Option\"},"
		"{\"const\":\"value2\",\"title\":\"Second Option\"},{\"const\":\"value3\",\"title\":\"Third Option\"}]},"
		"\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
		"\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
		"\"untitledMulti\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\","
		"\"option3\"]}},"
		"\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"value1\",\"title\":\"First Choice\"},"
		"{\"const\":\"value2\",\"title\":\"Second Choice\"},{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}},"
		"\"required\":[]}}",
		"Elicitation completed: ");
}

/* A schema with the keywords of JSON Schema 2020-12 that must come through as they are. */
static const char schema_input[] =
	"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","
	"\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{"
	"\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},"
	"\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},"
	"\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},"
	"\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},"
	"\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],"
	"\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},\"required\":[\"contactMethod\"]},"
	"\"then\":{\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},"
	"\"additionalProperties\":false}";

/* ---- the table ---- */

#define TOOL(n, in, fn) &(const struct cbx_tool){ .name = n, .title = n, .description = "For tests.", \
						      .input = in, .call = fn }

const struct cbx_tool *const fixture_tools[] = {
	TOOL("test_simple_text", NO_INPUT, constant),
	TOOL("test_image_content", NO_INPUT, constant),
	TOOL("test_audio_content", NO_INPUT, constant),
	TOOL("test_embedded_resource", NO_INPUT, constant),
	TOOL("test_multiple_content_types", NO_INPUT, constant),
	TOOL("test_error_handling", NO_INPUT, constant),
	TOOL("test_tool_with_logging", NO_INPUT, stepwise),
	TOOL("test_tool_with_progress", NO_INPUT, stepwise),
	TOOL("test_sampling", PROMPT_INPUT, sampling),
	TOOL("test_elicitation", MESSAGE_INPUT, elicitation),
	TOOL("test_elicitation_sep1034_defaults", NO_INPUT, elicitation_defaults),
	TOOL("test_elicitation_sep1330_enums", NO_INPUT, elicitation_enums),
	TOOL("test_missing_capability", NO_INPUT, missing_capability),
	TOOL("test_logging_tool", NO_INPUT, logging),
	TOOL("test_streaming_elicitation", NO_INPUT, fixture_round_call),
	TOOL("test_input_required_result_elicitation", NO_INPUT, fixture_round_call),
	TOOL("test_input_required_result_sampling", NO_INPUT, fixture_round_call),
	TOOL("test_input_required_result_list_roots", NO_INPUT, fixture_round_call),
	TOOL("test_input_required_result_request_state", NO_INPUT, fixture_round_call),
	TOOL("test_input_required_result_multiple_inputs", NO_INPUT, fixture_round_call),
	TOOL("test_input_required_result_multi_round", NO_INPUT, fixture_round_call),
	TOOL("test_input_required_result_tampered_state", NO_INPUT, fixture_round_call),
	TOOL("test_input_required_result_capabilities", NO_INPUT, fixture_round_call),
	TOOL("json_schema_2020_12_tool", schema_input, constant),
	TOOL("silence", NO_INPUT, silence),
	TOOL("flood", NO_INPUT, flood),
	TOOL("large", NO_INPUT, large),
	NULL,
};
