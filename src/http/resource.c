/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the resource is what the client has asked for, in the words that it used: MCP at /mcp or
 * /mcp/NAME, else all of it. Clients compare, so it begins with --http-url, or else with the name in the Host header,
 * which the gate has judged. The metadata's address has RFC 9728's word between host and path.
 */
#include "http/resource.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "http/gate.h"

#define WELL_KNOWN "/.well-known/oauth-protected-resource"

static const struct cbx_jwt_rules *rules_of(const struct cbx_http_conn *c)
{
	return c->all->gate->tenants ? c->all->gate->tenants->jwt : NULL;
}

static bool is_mcp(const char *path)
{
	return strcmp(path, "/mcp") == 0 || (cbx_starts_with(path, "/mcp/") && cbx_name_valid(path + strlen("/mcp/")));
}

/* "https://box.example.org"; false: the client has named no host that could stand in a text of ours. */
static bool add_origin(const struct cbx_http_conn *c, struct cbx_buf *out)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.:-[]";
	const char *url = c->all->gate->url, *host = cbx_http_header(c, "Host");

	if (url) {
		cbx_buf_adds(out, url);
		return true;
	}
	if (!host || !host[0] || host[strspn(host, plain)])
		return false;
	cbx_buf_addf(out, "http%s://%s", c->door->tls ? "s" : "", host);
	return true;
}

/* Where the path of an origin begins. */
static size_t host_end(const struct cbx_buf *origin)
{
	const char *host = strstr(cbx_buf_str(origin), "://") + 3;

	return (size_t)(host - origin->data) + strcspn(host, "/");
}

void cbx_http_challenge(struct cbx_http_conn *c, const char *error, const char *scope)
{
	_cleanup_buf_ struct cbx_buf out = { 0 }, origin = { 0 };
	const char *comma = " ";

	cbx_buf_adds(&out, "Bearer");
	if (error) {
		cbx_buf_addf(&out, "%serror=\"%s\"", comma, error);
		comma = ", ";
	}
	if (scope) {
		cbx_buf_addf(&out, "%sscope=\"%s\"", comma, scope);
		comma = ", ";
	}
	if (rules_of(c) && add_origin(c, &origin)) {
		size_t host = host_end(&origin);

		cbx_buf_addf(&out, "%sresource_metadata=\"%.*s" WELL_KNOWN "%s%s\"", comma, (int)host, origin.data,
			     origin.data + host, is_mcp(c->head.path) ? c->head.path : "");
	}
	cbx_http_add_header(c, "WWW-Authenticate", cbx_buf_str(&out));
}

/* What stands behind the word, without the path of --http-url; NULL: it is another path. */
static const char *path_of(const struct cbx_http_conn *c)
{
	const char *url = c->all->gate->url, *prefix = url ? strchr(strstr(url, "://") + 3, '/') : NULL, *rest;

	if (!rules_of(c) || !cbx_starts_with(c->head.path, WELL_KNOWN))
		return NULL;
	rest = c->head.path + strlen(WELL_KNOWN);
	if (prefix && cbx_starts_with(rest, prefix))
		rest += strlen(prefix);
	return !rest[0] || is_mcp(rest) ? rest : NULL;
}

bool cbx_http_resource_is(const struct cbx_http_conn *c)
{
	return path_of(c);
}

static void add_scopes(cJSON *o)
{
	cJSON *scopes = cbx_json_new_arr(), *methods = cbx_json_new_arr();

	cbx_json_push_str(scopes, cbx_scopes_name(CBX_SCOPE_READ));
	cbx_json_push_str(scopes, cbx_scopes_name(CBX_SCOPE_RUN));
	cbx_json_set(o, "scopes_supported", scopes);
	cbx_json_push_str(methods, "header");
	cbx_json_set(o, "bearer_methods_supported", methods);
}

void cbx_http_resource_request(struct cbx_http_conn *c)
{
	_cleanup_buf_ struct cbx_buf text = { 0 }, resource = { 0 };
	_cleanup_json_ cJSON *o = NULL;
	cJSON *servers;

	if (c->head.method != CBX_HTTP_GET && c->head.method != CBX_HTTP_HEAD) {
		cbx_http_add_header(c, "Allow", "GET, HEAD");
		cbx_http_gate_refuse(c, 405, "wrong_method", "Method Not Allowed");
		return;
	}
	if (!add_origin(c, &resource)) {
		cbx_http_gate_refuse(c, 400, "wrong_host", "the Host header must be a name or an address");
		return;
	}
	cbx_buf_adds(&resource, path_of(c));
	o = cbx_json_new_obj();
	servers = cbx_json_new_arr();
	cbx_json_set_str(o, "resource", cbx_buf_str(&resource));
	cbx_json_push_str(servers, rules_of(c)->issuer);
	cbx_json_set(o, "authorization_servers", servers);
	add_scopes(o);
	cbx_json_set_str(o, "resource_name", "codebox");
	cbx_json_print(&text, o);
	cbx_http_reply(c, 200, "application/json", text.data, text.len);
}
