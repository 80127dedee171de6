/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: exec_sql has no name of a connection. It asks the database that the headers of its request name,
 * where the policy allows that, else the one of the policy, or of several the one called "default". What comes is that of
 * run_sql, in the form of CodeBoxMCP: each row an object, and a file in input.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "profiles/codeboxmcp-step.h"
#include "session/databases.h"

#define LONG_NAME 300

/* What the members of each row are called: two columns may have one name, two members of an object not. */
static cJSON *members_of(const cJSON *columns)
{
	cJSON *members = cbx_json_new_obj();
	const cJSON *column;
	int i = 0;

	cJSON_ArrayForEach(column, columns) {
		const char *name = cbx_json_text(column, "name");
		char other[LONG_NAME];

		name = name && name[0] ? name : "column";
		snprintf(other, sizeof(other), "%s_%d", name, i++);
		cbx_json_set(members, cbx_json_member(members, name) ? other : name, cJSON_CreateNull());
	}
	return members;
}

static void add_rows(cJSON *o, const cJSON *answer)
{
	_cleanup_json_ cJSON *members = members_of(cbx_json_member(answer, "columns"));
	cJSON *rows = cbx_json_new_arr();
	const cJSON *row, *v;

	cJSON_ArrayForEach(row, cbx_json_member(answer, "rows")) {
		const cJSON *member = members->child;
		cJSON *made = cbx_json_new_obj();

		cJSON_ArrayForEach(v, row) {
			if (!member)
				break;
			cbx_json_set(made, member->string, cJSON_Duplicate(v, 1));
			member = member->next;
		}
		cbx_json_push(rows, made);
	}
	cbx_json_set(o, "rows", rows);
}

/* link: NULL, it is not kept. */
static void add_file(cJSON *o, const char *path, const char *link)
{
	const char *name = path + strlen(CBX_CBM_INPUT "/");
	_cleanup_free_ char *text = cbx_xasprintf(
		"Query returned %llu rows, which are too many for an answer. Results saved to session input folder. Load "
		"it in exec_code with: pd.read_csv(r'%s')",
		(unsigned long long)cbx_json_u64(o, "row_count"), path);

	cbx_json_set_u64(o, "column_count", (uint64_t)cJSON_GetArraySize(cbx_json_member(o, "columns")));
	cbx_json_set_str(o, "file_path", path);
	cbx_json_set_str(o, "file_name", name);
	cbx_json_set_str(o, "message", text);
	cbx_json_set_str(o, "sas_url", link);
}

static void fail(struct cbx_tool_call *call, const struct cbx_err *err)
{
	if (strcmp(err->kind, "no_connection") == 0)
		cbx_cbm_fail_as(call, call->session_id,
				"Database not configured. The policy names none (sql.connections; of several the one "
				"called \"default\" is asked), and the request none that the policy allows "
				"(" CBX_QUERY_STRING " and " CBX_QUERY_PASSWORD ").");
	else
		cbx_cbm_fail(call, err);
}

static void answered(struct cbx_answer_op *op, const cJSON *answer, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, answer_op);
	const char *path = cbx_json_text(answer, "path");
	_cleanup_json_ cJSON *o = NULL;
	cJSON *names;
	const cJSON *v;

	if (err) {
		fail(call, err);
		return;
	}
	o = cbx_cbm_success(call);
	names = cbx_json_new_arr();
	cJSON_ArrayForEach(v, cbx_json_member(answer, "columns"))
		cbx_json_push_str(names, cbx_json_text(v, "name"));
	cbx_json_set_str(o, "delivery", path ? "file" : "inline");
	cbx_json_set(o, "columns", names);
	cbx_json_set_u64(o, "row_count", cbx_json_u64(answer, "row_count"));
	if (path)
		add_file(o, path, cbx_json_text(answer, "link"));
	else
		add_rows(o, answer);
	if (cbx_profile_fits(call, o))
		cbx_profile_end_json(call, take_ptr(&o));
	else
		cbx_cbm_fail_as(call, call->session_id, "The rows are too long for an answer; ask for fewer columns.");
}

static const char *connection_of(const struct cbx_tool_call *call)
{
	_cleanup_json_ cJSON *all = cbx_engine_databases(&call->client->caller);

	return cJSON_GetArraySize(all) > 1 ? "default" : NULL;
}

static void ask(struct cbx_tool_call *call)
{
	struct cbx_cbm_step *s = call->state;
	struct cbx_query_spec spec = { .query = s->code,
				       .directory = CBX_CBM_INPUT,
				       .string = s->string,
				       .password = s->password,
				       .inline_rows = s->inline_rows,
				       .link_s = s->link_s,
				       .store_string = s->store,
				       .container = s->container,
				       .connection = s->string ? NULL : connection_of(call) };
	struct cbx_err err;
	int r = cbx_profile_find(call, &spec.session, &err);

	call->answer_op = (struct cbx_answer_op){ .op.ops = &call->client->caller.ops, .done = answered };
	if (r >= 0)
		r = cbx_engine_query(&call->client->caller, &spec, &call->answer_op, &err);
	if (r < 0)
		fail(call, &err);
}

/* Headers are there while a call begins. */
static int take_headers(struct cbx_tool_call *call, struct cbx_cbm_step *s, struct cbx_err *err)
{
	const struct cbx_tool_client *client = call->client;
	struct cbx_query_spec spec = { 0 };
	int r = client->header ? cbx_query_spec_headers(&spec, client->header, client->header_arg, err) : 0;

	if (r < 0)
		return r;
	s->inline_rows = spec.inline_rows;
	if (spec.string) {
		s->string = cbx_xstrdup(spec.string);
		s->password = cbx_xstrdup(spec.password);
	}
	return 0;
}

void cbx_cbm_exec_sql(struct cbx_tool_call *call, const cJSON *args)
{
	const char *query;
	struct cbx_err err;
	struct cbx_cbm_step *s;
	int64_t link_s;

	if (cbx_cbm_take_id(call, args) < 0)
		return;
	link_s = cbx_cbm_link_seconds(call);
	if (link_s < 0)
		return;
	if (cbx_profile_arg(args, "query", &query, &err) < 0) {
		cbx_cbm_fail(call, &err);
		return;
	}
	if (!query[strspn(query, " \t\r\n\v\f")]) {
		cbx_cbm_fail_as(call, call->session_id, "Query is empty.");
		return;
	}
	s = cbx_cbm_step(call);
	s->code = cbx_xstrdup(query);
	s->link_s = (uint32_t)link_s;
	cbx_cbm_take_store(call);
	if (take_headers(call, s, &err) < 0)
		cbx_cbm_fail(call, &err);
	else if (cbx_cbm_take_limits(call) == 0)
		cbx_cbm_with_session(call, ask);
}
