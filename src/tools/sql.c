/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: run_sql answers with rows, as text and as data, or with the name of the file that has them. A
 * call that its client gives up is cancelled on the server, since its operation is (session/sql.c).
 */
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "session/databases.h"
#include "tools/internal.h"

static void add_columns(struct cbx_buf *text, const cJSON *columns, const char *separator, bool types)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, columns) {
		if (v != columns->child)
			cbx_buf_adds(text, separator);
		cbx_escape(text, cbx_json_text(v, "name"));
		if (!types)
			continue;
		cbx_buf_addc(text, ' ');
		cbx_escape(text, cbx_json_text(v, "type"));
	}
}

static void add_value(struct cbx_buf *text, const cJSON *v)
{
	_cleanup_buf_ struct cbx_buf printed = { 0 };

	if (cJSON_IsString(v)) {
		cbx_escape(text, v->valuestring);
		return;
	}
	cbx_json_print(&printed, v);
	cbx_buf_adds(text, cJSON_IsNull(v) ? "NULL" : cbx_buf_str(&printed));
}

static void add_rows(struct cbx_buf *text, const cJSON *answer)
{
	const cJSON *row, *v;

	add_columns(text, cbx_json_member(answer, "columns"), " | ", false);
	cbx_buf_addc(text, '\n');
	cJSON_ArrayForEach(row, cbx_json_member(answer, "rows")) {
		cJSON_ArrayForEach(v, row) {
			if (v != row->child)
				cbx_buf_adds(text, " | ");
			add_value(text, v);
		}
		cbx_buf_addc(text, '\n');
	}
	cbx_buf_addf(text, "%llu rows.", (unsigned long long)cbx_json_u64(answer, "row_count"));
}

/* What becomes of its file, as run_code says it. */
static void add_kept(struct cbx_buf *text, const cJSON *answer)
{
	const char *link = cbx_json_text(answer, "link"), *until = cbx_json_text(answer, "link_expires"),
		   *not_kept = cbx_json_text(answer, "not_kept"), *not_uploaded = cbx_json_text(answer, "not_uploaded");

	if (link)
		cbx_buf_addf(text, " For the user, until %s: %s", until ? until : "", link);
	if (not_kept) {
		cbx_buf_adds(text, " Not kept after the session: ");
		cbx_escape(text, not_kept);
	}
	if (not_uploaded) {
		cbx_buf_adds(text, " Not copied to the object store: ");
		cbx_escape(text, not_uploaded);
	}
}

static const char *reader_of(const char *format)
{
	return strcmp(format, "arrow") == 0 ? "feather" : format;
}

static void answered(struct cbx_answer_op *op, const cJSON *answer, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, answer_op);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	const char *path;

	if (err) {
		cbx_tool_refuse(call, err);
		return;
	}
	path = cbx_json_text(answer, "path");
	if (path) {
		cbx_buf_addf(&text, "%llu rows are in ", (unsigned long long)cbx_json_u64(answer, "row_count"));
		cbx_escape(&text, path);
		cbx_buf_addf(&text, " of session %s. Load it with pandas.read_%s(\"", call->session_id,
			     cbx_json_text(answer, "format") ? reader_of(cbx_json_text(answer, "format")) : "csv");
		cbx_escape(&text, path);
		cbx_buf_adds(&text, "\"). Columns: ");
		add_columns(&text, cbx_json_member(answer, "columns"), ", ", true);
		cbx_buf_addc(&text, '.');
		add_kept(&text, answer);
	} else {
		add_rows(&text, answer);
	}
	if (call->notice)
		cbx_buf_addf(&text, " %s", call->notice);
	cbx_tool_end(call, cbx_buf_str(&text), cJSON_Duplicate(answer, 1));
}

/* As for run_code: a query may come before the first cell. */
void cbx_tool_run_sql(struct cbx_tool_call *call, const cJSON *args)
{
	struct cbx_query_spec spec = { 0 };
	const char *id = NULL;
	struct cbx_err err;
	int r = cbx_json_get_str(args, "session_id", &id, &err);

	if (r >= 0)
		r = cbx_json_get_str(args, "connection", &spec.connection, &err);
	if (r >= 0)
		r = cbx_json_get_str(args, "query", &spec.query, &err);
	if (r >= 0)
		r = cbx_json_get_arr(args, "parameters", &spec.parameters, &err);
	if (r >= 0)
		r = cbx_json_get_str(args, "path", &spec.path, &err);
	if (r >= 0)
		r = cbx_json_get_str(args, "format", &spec.format, &err);
	if (r >= 0)
		r = id || !call->own ? cbx_tool_arg_session(call, args, &spec.session, &err)
				     : cbx_tool_own_session(call, &spec.session, &err);
	call->answer_op = (struct cbx_answer_op){ .op.ops = &call->client->caller.ops, .done = answered };
	if (r >= 0)
		r = cbx_engine_query(&call->client->caller, &spec, &call->answer_op, &err);
	if (r < 0)
		cbx_tool_refuse(call, &err);
}
