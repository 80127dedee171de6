/* SPDX-License-Identifier: Apache-2.0 */
/* From a request to the function of its route. */
#include "rest/rest.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "http/gate.h"
#include "rest/internal.h"

static void client_left(void *arg)
{
	struct cbx_rest_call *call = arg;
	struct cbx_session *s;
	struct cbx_err ignored;

	/* A session whose id nobody has heard is nobody's. */
	if (call->route->call == cbx_rest_create_session && call->target.session_id[0] &&
	    cbx_session_find(&call->caller, call->target.session_id, &s, &ignored) >= 0)
		cbx_session_close(&call->caller, s, "its client left before it was ready");
	cbx_rest_command_left(call);
	cbx_rest_call_free(call);
}

static int read_body(struct cbx_rest_call *call, struct cbx_err *err)
{
	const char *type = cbx_http_header(call->conn, "Content-Type");

	if (!type || strncasecmp(type, "application/json", 16) != 0 || (type[16] && !strchr("; \t", type[16])))
		return cbx_refuse(err, "invalid_argument", EINVAL, "Content-Type: must be application/json");
	if (!call->body_len)
		return cbx_refuse(err, "invalid_argument", EINVAL, "missing body: send a JSON object");
	if (cbx_json_parse_sound(call->body, call->body_len, &call->doc, err) < 0)
		return -err->code;
	if (!cJSON_IsObject(call->doc.root))
		return cbx_refuse(err, "invalid_argument", EINVAL, "the body must be a JSON object");
	return 0;
}

static void begin(struct cbx_rest_call *call)
{
	struct cbx_err err = { 0 };
	int r = cbx_rest_query_check(call->conn->head.query, call->route->query, &err);

	if (r >= 0 && !cbx_rest_path_valid(call->target.path))
		r = cbx_refuse(&err, "invalid_argument", EINVAL,
			       "path: it has an empty part, \".\" or \"..\"; write it without");
	if (r >= 0 && call->route->has_body)
		r = read_body(call, &err);
	if (r >= 0)
		r = call->route->call(call, &err);
	if (r < 0)
		cbx_rest_fail(call, &err);
}

void cbx_rest_request(struct cbx_rest *rest, struct cbx_http_conn *c, const char *body, size_t len)
{
	const struct cbx_rest_route *route;
	struct cbx_rest_call *call;
	struct cbx_rest_target target;
	char allowed[64];

	route = cbx_rest_route_find(cbx_rest_routes, c->head.method, c->head.path, &target, allowed);
	if (!route) {
		if (allowed[0])
			cbx_http_add_header(c, "Allow", allowed);
		cbx_http_gate_refuse(c, allowed[0] ? 405 : 404, allowed[0] ? "wrong_method" : "not_found",
				     allowed[0] ? "Method Not Allowed" : "Not Found");
		return;
	}
	if (route->scope && !cbx_http_gate_scope(c, route->scope))
		return;
	call = cbx_xcalloc(1, sizeof(*call));
	call->rest = rest;
	call->conn = c;
	call->caller = (struct cbx_caller){ .engine = rest->engine, .principal = c->who.principal };
	cbx_http_via(c, "rest", &call->via);
	call->caller.via = &call->via;
	call->route = route;
	call->target = target;
	call->body = body;
	call->body_len = len;
	LIST_INSERT_HEAD(&rest->calls, call, entry);
	cbx_http_conn_watch(c, client_left, call);
	begin(call);
}

bool cbx_rest_open_to_all(const struct cbx_http_head *head)
{
	struct cbx_rest_target target;
	char allowed[64];
	const struct cbx_rest_route *route =
		cbx_rest_route_find(cbx_rest_routes, head->method, head->path, &target, allowed);

	return route && !route->scope;
}

bool cbx_rest_in_pieces(const struct cbx_http_head *head)
{
	struct cbx_rest_target target;
	char allowed[64];
	const struct cbx_rest_route *route;

	if (head->method != CBX_HTTP_POST || cbx_rest_archive_kind(cbx_http_head_field(head, "Content-Type")) == 0)
		return false;
	route = cbx_rest_route_find(cbx_rest_routes, head->method, head->path, &target, allowed);
	return route && route->call == cbx_rest_post_files;
}

void cbx_rest_init(struct cbx_rest *rest)
{
	LIST_INIT(&rest->calls);
}

bool cbx_rest_busy(const struct cbx_rest *rest)
{
	return !LIST_EMPTY(&rest->calls);
}

void cbx_rest_release(struct cbx_rest *rest)
{
	rest->on_idle = NULL;
	while (!LIST_EMPTY(&rest->calls))
		cbx_rest_cut(LIST_FIRST(&rest->calls));
}
