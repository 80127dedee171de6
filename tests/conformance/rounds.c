/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a tool of the modern era that needs something from its client says so in its result, and is
 * called again with what it asked for. Each row below says what is asked and in which order; the state in between goes
 * to the client and comes back, with a keyed hash over it.
 */
#include <nettle/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fixture.h"

#define ELICIT(text, member, type)                                                                                    \
	"{\"method\":\"elicitation/create\",\"params\":{\"mode\":\"form\",\"message\":\"" text                      \
	"\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"" member "\":{\"type\":\"" type             \
	"\"}},\"required\":[\"" member "\"]}}}"
#define SAMPLE(text, tokens)                                                                                          \
	"{\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":" \
	"\"text\",\"text\":\"" text "\"}}],\"maxTokens\":" tokens "}}"

static const struct input {
	const char *key, *capability, *request;
	const char *member; /* that the answer must have; of an elicitation: its content */
} inputs[] = {
	{ "user_name", "elicitation", ELICIT("What is your name?", "name", "string"), "name" },
	{ "user_context", "elicitation", ELICIT("What context should the prompt use?", "context", "string"), "context" },
	{ "confirm", "elicitation", ELICIT("Please confirm", "ok", "boolean"), "ok" },
	{ "step1", "elicitation", ELICIT("Step 1: What is your name?", "name", "string"), "name" },
	{ "step2", "elicitation", ELICIT("Step 2: What is your favorite color?", "color", "string"), "color" },
	{ "capital_question", "sampling", SAMPLE("What is the capital of France?", "100"), "content" },
	{ "greeting", "sampling", SAMPLE("Generate a greeting", "50"), "content" },
	{ "client_roots", "roots", "{\"method\":\"roots/list\",\"params\":{}}", "roots" },
};

static const struct fixture_round rounds[] = {
	{ .name = "test_streaming_elicitation", .inputs = { "user_name" } },
	{ .name = "test_input_required_result_elicitation", .inputs = { "user_name" } },
	{ .name = "test_input_required_result_sampling", .inputs = { "capital_question" } },
	{ .name = "test_input_required_result_list_roots", .inputs = { "client_roots" } },
	{ .name = "test_input_required_result_request_state", .inputs = { "confirm" }, .state = true },
	{ .name = "test_input_required_result_multiple_inputs",
	  .inputs = { "user_name", "greeting", "client_roots" },
	  .state = true },
	{ .name = "test_input_required_result_multi_round", .inputs = { "step1" }, .next = { "step2" }, .state = true },
	{ .name = "test_input_required_result_tampered_state", .inputs = { "confirm" }, .state = true },
	{ .name = "test_input_required_result_capabilities",
	  .inputs = { "user_name", "greeting", "client_roots" },
	  .by_capability = true },
	{ .name = "test_input_required_result_prompt", .inputs = { "user_context" } },
};

static const struct input *input_of(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(inputs); i++)
		if (strcmp(inputs[i].key, key) == 0)
			return &inputs[i];
	abort();
}

/* "NAME.ROUND.HASH" */
static char *state_of(const char *name, int round)
{
	static char key[33];
	_cleanup_free_ char *plain = cbx_xasprintf("%s.%d", name, round);
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct hmac_sha256_ctx ctx;
	struct cbx_buf b = { 0 };

	if (!key[0])
		cbx_random_name(key, sizeof(key) - 1);
	hmac_sha256_set_key(&ctx, sizeof(key) - 1, (const uint8_t *)key);
	hmac_sha256_update(&ctx, strlen(plain), (const uint8_t *)plain);
	hmac_sha256_digest(&ctx, sizeof(digest), digest);
	cbx_buf_addf(&b, "%s.", plain);
	for (size_t i = 0; i < sizeof(digest); i++)
		cbx_buf_addf(&b, "%02x", digest[i]);
	return cbx_buf_steal(&b);
}

/* The round that the client has answered; 0: none yet; -1: the state is not ours. */
static int round_of(const struct fixture_round *r, const cJSON *params)
{
	const char *given = cbx_json_text(params, "requestState");

	if (!r->state)
		return cJSON_IsObject(cbx_json_member(params, "inputResponses"));
	if (!given)
		return 0;
	for (int i = 1; i <= 2; i++) {
		_cleanup_free_ char *want = state_of(r->name, i);

		if (strcmp(want, given) == 0)
			return i;
	}
	return -1;
}

/* What was answered to one question, when it is as it should be. */
static const cJSON *answer_of(const char *key, const cJSON *params)
{
	const struct input *in = input_of(key);
	const cJSON *responses = cbx_json_member(params, "inputResponses");
	const cJSON *a = cbx_json_member(responses, key);

	if (strcmp(in->capability, "elicitation") == 0)
		a = cbx_json_member(a, "content");
	return cbx_json_member(a, in->member);
}

static bool may_ask(const struct fixture_round *r, const char *key, const cJSON *params)
{
	const cJSON *meta = cbx_json_member(params, "_meta");
	const cJSON *caps = cbx_json_member(meta, CBX_META "clientCapabilities");

	return !r->by_capability || cbx_json_member(caps, input_of(key)->capability);
}

static char *ask(const struct fixture_round *r, const char *const *keys, size_t n, int round, const cJSON *params)
{
	struct cbx_buf b = { 0 };
	bool first = true;

	cbx_buf_adds(&b, "{\"resultType\":\"input_required\",\"inputRequests\":{");
	for (size_t i = 0; i < n && keys[i]; i++) {
		if (!may_ask(r, keys[i], params))
			continue;
		cbx_buf_addf(&b, "%s\"%s\":%s", first ? "" : ",", keys[i], input_of(keys[i])->request);
		first = false;
	}
	cbx_buf_adds(&b, "}");
	if (r->state) {
		_cleanup_free_ char *state = state_of(r->name, round);

		cbx_buf_addf(&b, ",\"requestState\":\"%s\"", state);
	}
	cbx_buf_addc(&b, '}');
	return cbx_buf_steal(&b);
}

/* Everything that was asked has been answered: say what came. */
static char *complete(const struct fixture_round *r, const cJSON *params)
{
	const char *const *keys = r->next[0] ? r->next : r->inputs;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_free_ char *quoted = NULL;
	bool prompt = strcmp(r->name, "test_input_required_result_prompt") == 0;

	if (strcmp(keys[0], "user_name") == 0 && !keys[1])
		cbx_buf_addf(&text, "Hello, %s!", cJSON_GetStringValue(answer_of(keys[0], params)));
	else
		for (size_t i = 0; i < (r->next[0] ? ARRAY_SIZE(r->next) : ARRAY_SIZE(r->inputs)) && keys[i]; i++) {
			_cleanup_buf_ struct cbx_buf shown = { 0 };
			const cJSON *a = answer_of(keys[i], params);

			if (a)
				cbx_json_print(&shown, a);
			cbx_buf_addf(&text, "%s: %s\n", keys[i], cbx_buf_str(&shown));
		}
	if (r->state)
		cbx_buf_adds(&text, "state-ok");
	quoted = fixture_quote(cbx_buf_str(&text));
	return prompt ? cbx_xasprintf("{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":%s}}]}",
				      quoted)
		      : cbx_xasprintf("{\"content\":[{\"type\":\"text\",\"text\":%s}]}", quoted);
}

char *fixture_round(const char *name, const cJSON *params, const char **ret_error)
{
	const struct fixture_round *r = NULL;
	const char *const *keys;
	size_t n;
	int round;

	for (size_t i = 0; i < ARRAY_SIZE(rounds); i++)
		if (strcmp(rounds[i].name, name) == 0)
			r = &rounds[i];
	if (!r)
		abort();
	round = round_of(r, params);
	if (round < 0) {
		*ret_error = "requestState: it is not what this server has sent";
		return NULL;
	}
	keys = round == 2 ? r->next : r->inputs;
	n = round == 2 ? ARRAY_SIZE(r->next) : ARRAY_SIZE(r->inputs);
	if (round == 0)
		return ask(r, keys, n, 1, params);
	for (size_t i = 0; i < n && keys[i]; i++)
		if (may_ask(r, keys[i], params) && !answer_of(keys[i], params))
			return ask(r, keys, n, round, params);
	if (round == 1 && r->next[0])
		return ask(r, r->next, ARRAY_SIZE(r->next), 2, params);
	return complete(r, params);
}

void fixture_round_call(struct cbx_tool_call *tool, const cJSON *args)
{
	struct cbx_mcp_call *call = fixture_call(tool);
	const char *error = NULL;
	_cleanup_free_ char *result = fixture_round(tool->tool->name, call->params, &error);

	if (result)
		fixture_end(call, result);
	else
		cbx_mcp_call_fail(call, CBX_RPC_INVALID_PARAMS, NULL, error);
}
