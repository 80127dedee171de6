/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the methods beside tools, as the Python SDK serves them: resources that are text, each made by a
 * function when it is read, and no prompts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/request.h"
#include "profiles/internal.h"

#define ID "{session_id}"

static const struct cbx_profile *of(const struct cbx_mcp_message *m)
{
	return cbx_container_of(m->mcp->registry, const struct cbx_profile, registry);
}

static cJSON *describe(const struct cbx_profile *p, bool templates)
{
	cJSON *list = cbx_json_new_arr();

	for (const struct cbx_profile_resource *r = p->resources; r->uri; r++) {
		cJSON *o;

		if (cbx_ends_with(r->uri, ID) != templates)
			continue;
		o = cbx_json_new_obj();
		cbx_json_set_str(o, "name", r->name);
		cbx_json_set_str(o, templates ? "uriTemplate" : "uri", r->uri);
		cbx_json_set_str(o, "description", r->description);
		cbx_json_set_str(o, "mimeType", "text/plain");
		cbx_json_push(list, o);
	}
	return list;
}

static void answer_list(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot, const char *key, cJSON *list)
{
	_cleanup_json_ cJSON *result = cbx_json_new_obj();

	cbx_json_set(result, key, list);
	cbx_mcp_set_caching(result, m->rev, CBX_TTL_LIST_MS, true);
	if (cbx_mcp_check_no_cursor(m, slot))
		cbx_rpc_answer(slot, take_ptr(&result));
}

static void list(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	answer_list(m, slot, "resources", describe(of(m), false));
}

static void templates(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	answer_list(m, slot, "resourceTemplates", describe(of(m), true));
}

static void prompts(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	answer_list(m, slot, "prompts", cbx_json_new_arr());
}

/* The text of the resource; NULL: there is none of that address. */
static char *text_of(const struct cbx_mcp_message *m, const char *uri)
{
	for (const struct cbx_profile_resource *r = of(m)->resources; r->uri; r++) {
		size_t n = strlen(r->uri) - (cbx_ends_with(r->uri, ID) ? strlen(ID) : 0);

		if (!r->uri[n] && strcmp(r->uri, uri) == 0)
			return r->text(m->mcp, NULL);
		if (r->uri[n] && strncmp(r->uri, uri, n) == 0 && uri[n] && !strchr(uri + n, '/'))
			return r->text(m->mcp, uri + n);
	}
	return NULL;
}

static void read_one(const struct cbx_mcp_message *m, struct cbx_rpc_slot *slot)
{
	_cleanup_free_ char *text = NULL;
	cJSON *result, *contents, *c;
	const char *uri = NULL;
	struct cbx_err err;

	if (cbx_json_get_str(m->params, "uri", &uri, &err) < 0 || !uri) {
		cbx_rpc_error(slot, CBX_RPC_INVALID_PARAMS, "Invalid params: uri: a string is expected");
		return;
	}
	text = text_of(m, uri);
	if (!text) {
		cbx_rpc_error(slot, m->rev->modern ? CBX_RPC_INVALID_PARAMS : CBX_RPC_RESOURCE_NOT_FOUND,
			      "Unknown resource: %.200s", uri);
		return;
	}
	result = cbx_json_new_obj();
	contents = cbx_json_new_arr();
	c = cbx_json_new_obj();
	cbx_json_set_str(c, "uri", uri);
	cbx_json_set_str(c, "mimeType", "text/plain");
	cbx_json_set_str(c, "text", text);
	cbx_json_push(contents, c);
	cbx_json_set(result, "contents", contents);
	cbx_mcp_set_caching(result, m->rev, 0, false);
	cbx_rpc_answer(slot, result);
}

const struct cbx_mcp_method cbx_profile_methods[] = {
	{ "resources/list", list },
	{ "resources/templates/list", templates },
	{ "resources/read", read_one },
	{ "prompts/list", prompts },
	{ NULL, NULL },
};

cJSON *cbx_profile_capabilities(const struct cbx_mcp_revision *rev)
{
	return cJSON_Parse(
		"{\"experimental\":{},\"prompts\":{\"listChanged\":false},"
		"\"resources\":{\"subscribe\":false,\"listChanged\":false},\"tools\":{\"listChanged\":false}}");
}
