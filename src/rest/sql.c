/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: one query, of the session in the path or of none, or the tables of a database. A client that
 * leaves cancels either. */
#include "base/cleanup.h"
#include "rest/internal.h"
#include "session/artifacts.h"
#include "session/databases.h"

static const char *header_of(void *conn, const char *name)
{
	return cbx_http_header(conn, name);
}

int cbx_rest_sql(struct cbx_rest_call *call, struct cbx_err *err)
{
	bool of_session = call->target.session_id[0];
	const char *const keys[] = {
		"connection", "query", "parameters", of_session ? "path" : NULL, of_session ? "format" : NULL, NULL
	};
	struct cbx_query_spec spec = { 0 };
	const cJSON *body = call->doc.root;
	int r = cbx_json_only(body, keys, err);

	if (r >= 0)
		r = cbx_json_get_str(body, "connection", &spec.connection, err);
	if (r >= 0)
		r = cbx_json_get_str(body, "query", &spec.query, err);
	if (r >= 0)
		r = cbx_json_get_arr(body, "parameters", &spec.parameters, err);
	if (r >= 0)
		r = cbx_json_get_str(body, "path", &spec.path, err);
	if (r >= 0)
		r = cbx_json_get_str(body, "format", &spec.format, err);
	if (r >= 0)
		r = cbx_query_spec_headers(&spec, header_of, call->conn, err);
	if (r >= 0 && of_session)
		r = cbx_rest_link_seconds(call, &spec.link_s, err);
	if (r < 0)
		return r;
	if (of_session) {
		spec.store_string = cbx_http_header(call->conn, CBX_STORE_STRING);
		spec.container = cbx_http_header(call->conn, CBX_STORE_CONTAINER);
	}
	if (spec.connection) /* the body comes first */
		spec.string = NULL;
	if (of_session && !cbx_rest_session(call, &spec.session))
		return 0;
	return cbx_engine_query(&call->caller, &spec, cbx_rest_answer_op(call), err);
}

int cbx_rest_list_databases(struct cbx_rest_call *call, struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set(o, "databases", cbx_engine_databases(&call->caller));
	cbx_rest_answer(call, 200, o);
	return 0;
}

int cbx_rest_get_database(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_query_spec spec = { .connection = call->target.connection, .schema = true };

	return cbx_engine_query(&call->caller, &spec, cbx_rest_answer_op(call), err);
}

/* Its path is made absolute: a name could be that of a database of the policy. */
int cbx_rest_get_file_database(struct cbx_rest_call *call, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("/workspace/%s", call->target.path);
	struct cbx_query_spec spec = { .connection = path, .schema = true };

	if (!cbx_rest_session(call, &spec.session))
		return 0;
	return cbx_engine_query(&call->caller, &spec, cbx_rest_answer_op(call), err);
}
