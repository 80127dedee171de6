/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: resources, prompts, completion and log levels as the suite expects them, as whole results. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "fixture.h"

#define TTL_MS 60000

static void end(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, const char *json, bool cached)
{
	cJSON *result = cJSON_Parse(json);

	if (cached)
		cbx_mcp_set_caching(result, m->rev, TTL_MS, true);
	cbx_rpc_answer(slot, result);
}

static const char *param(const struct cbx_mcp_message *m, const char *key)
{
	const char *s = cbx_json_text(m->params, key);

	return s ? s : "";
}

/* ---- resources ---- */

static void resources_list(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	end(m, slot,
	    "{\"resources\":[{\"uri\":\"test://static-text\",\"name\":\"static-text\",\"description\":\"A text.\","
	    "\"mimeType\":\"text/plain\"},{\"uri\":\"test://static-binary\",\"name\":\"static-binary\",\"description\":"
	    "\"An image.\",\"mimeType\":\"image/png\"},{\"uri\":\"test://watched-resource\",\"name\":"
	    "\"watched-resource\",\"description\":\"One to subscribe to.\",\"mimeType\":\"text/plain\"}]}",
	    true);
}

static void templates_list(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	end(m, slot,
	    "{\"resourceTemplates\":[{\"uriTemplate\":\"test://template/{id}/data\",\"name\":\"template\","
	    "\"description\":\"A template.\",\"mimeType\":\"application/json\"}]}",
	    true);
}

static void resources_read(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const char *uri = param(m, "uri");
	size_t n = strlen(uri);
	_cleanup_free_ char *json = NULL;

	if (strcmp(uri, "test://static-text") == 0 || strcmp(uri, "test://watched-resource") == 0) {
		json = cbx_xasprintf("{\"contents\":[{\"uri\":\"%s\",\"mimeType\":\"text/plain\",\"text\":"
				     "\"This is the content of the static text resource.\"}]}",
				     uri);
	} else if (strcmp(uri, "test://static-binary") == 0) {
		json = cbx_xasprintf("{\"contents\":[{\"uri\":\"%s\",\"mimeType\":\"image/png\",\"blob\":\"%s\"}]}", uri,
				     FIXTURE_PNG);
	} else if (cbx_starts_with(uri, "test://template/") && cbx_ends_with(uri, "/data") && n > 21) {
		_cleanup_free_ char *text = cbx_xasprintf(
			"{\"id\":\"%.*s\",\"templateTest\":true,\"data\":\"Data for ID: %.*s\"}", (int)(n - 21), uri + 16,
			(int)(n - 21), uri + 16);
		_cleanup_free_ char *quoted = fixture_quote(text);
		_cleanup_free_ char *quoted_uri = fixture_quote(uri);

		json = cbx_xasprintf("{\"contents\":[{\"uri\":%s,\"mimeType\":\"application/json\",\"text\":%s}]}",
				     quoted_uri, quoted);
	}
	if (json) {
		end(m, slot, json, true);
	} else {
		cJSON *data = cbx_json_new_obj();

		cbx_json_set_str(data, "uri", uri);
		cbx_rpc_error_data(slot, m->rev->modern ? CBX_RPC_INVALID_PARAMS : CBX_RPC_RESOURCE_NOT_FOUND,
				   data, "Resource not found");
	}
}

static void nothing(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	if (m->rev->modern)
		cbx_rpc_error(slot, CBX_RPC_NO_METHOD, "Method not found: %.100s", m->method);
	else
		cbx_rpc_answer(slot, cbx_json_new_obj());
}

/* ---- prompts ---- */

static void prompts_list(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	end(m, slot,
	    "{\"prompts\":[{\"name\":\"test_simple_prompt\",\"description\":\"Without arguments.\"},"
	    "{\"name\":\"test_prompt_with_arguments\",\"description\":\"With two.\",\"arguments\":["
	    "{\"name\":\"arg1\",\"description\":\"The first.\",\"required\":true},"
	    "{\"name\":\"arg2\",\"description\":\"The second.\",\"required\":true}]},"
	    "{\"name\":\"test_prompt_with_embedded_resource\",\"description\":\"With a resource.\",\"arguments\":["
	    "{\"name\":\"resourceUri\",\"description\":\"Its address.\",\"required\":true}]},"
	    "{\"name\":\"test_prompt_with_image\",\"description\":\"With an image.\"},"
	    "{\"name\":\"test_input_required_result_prompt\",\"description\":\"That asks first.\"}]}",
	    true);
}

#define USER(content) "{\"role\":\"user\",\"content\":{" content "}}"

static void prompts_get(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	const cJSON *args = cbx_json_member(m->params, "arguments");
	const char *name = param(m, "name"), *a = cbx_json_text(args, "arg1"), *b = cbx_json_text(args, "arg2");
	const char *uri = cbx_json_text(args, "resourceUri"), *error = "Unknown prompt";
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *json = NULL;

	if (strcmp(name, "test_simple_prompt") == 0) {
		json = cbx_xstrdup("{\"messages\":[" USER(
			"\"type\":\"text\",\"text\":\"This is a simple prompt for testing.\"") "]}");
	} else if (strcmp(name, "test_prompt_with_arguments") == 0) {
		_cleanup_free_ char *plain =
			cbx_xasprintf("Prompt with arguments: arg1='%s', arg2='%s'", a ? a : "", b ? b : "");

		text = fixture_quote(plain);
		json = cbx_xasprintf("{\"messages\":[" USER("\"type\":\"text\",\"text\":%s") "]}", text);
	} else if (strcmp(name, "test_prompt_with_embedded_resource") == 0) {
		text = fixture_quote(uri ? uri : "");
		json = cbx_xasprintf(
			"{\"messages\":[" USER(
				"\"type\":\"resource\",\"resource\":{\"uri\":%s,\"mimeType\":\"text/plain\",\"text\":"
				"\"Embedded resource content for testing.\"}") ","
			USER("\"type\":\"text\",\"text\":\"Please process the embedded resource above.\"") "]}",
			text);
	} else if (strcmp(name, "test_prompt_with_image") == 0) {
		json = cbx_xstrdup(
			"{\"messages\":[" USER("\"type\":\"image\",\"data\":\"" FIXTURE_PNG
					       "\",\"mimeType\":\"image/png\"") ","
			USER("\"type\":\"text\",\"text\":\"Please analyze the image above.\"") "]}");
	} else if (strcmp(name, "test_input_required_result_prompt") == 0) {
		json = fixture_round(name, m->params, &error);
	}
	if (json)
		end(m, slot, json, false);
	else
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "%s", error);
}

static void complete(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	end(m, slot, "{\"completion\":{\"values\":[\"paris\",\"park\",\"party\"],\"total\":3,\"hasMore\":false}}", false);
}

static void set_level(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	static const char levels[] = " debug info notice warning error critical alert emergency ";
	_cleanup_free_ char *wanted = cbx_xasprintf(" %s ", param(m, "level"));

	if (m->rev->modern || (strstr(levels, wanted) && strlen(wanted) > 2))
		nothing(m, slot);
	else
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "unknown level");
}

const struct cbx_mcp_method fixture_methods[] = {
	{ "resources/list", resources_list },
	{ "resources/templates/list", templates_list },
	{ "resources/read", resources_read },
	{ "resources/subscribe", nothing },
	{ "resources/unsubscribe", nothing },
	{ "prompts/list", prompts_list },
	{ "prompts/get", prompts_get },
	{ "completion/complete", complete },
	{ "logging/setLevel", set_level },
	{ NULL, NULL },
};
