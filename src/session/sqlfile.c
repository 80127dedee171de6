/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a database that is a file of the session is hostile bytes, so it is read where it is: a program
 * in the sandbox (runtimes/python/query.py) opens it read-only and, for many rows, writes their file. Here its first
 * bytes say which kind it is, the statement is judged, and what the program says, the word of a sandbox, is read
 * strictly.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/query.h"
#include "sql/judge.h"

#define PROGRAM	 CBX_INSIDE_RUNTIMES "/python/query.py"
#define LATE_MS	 10000 /* behind the time limit, which the program keeps itself */
#define NAME_LEN 256   /* of a column */

/* ---- its answer ---- */

static int malformed(struct cbx_err *err)
{
	return cbx_refuse(err, "query_failed", EBADMSG, "the program that asks the database sent a malformed answer");
}

static bool are_columns(const cJSON *columns)
{
	const cJSON *c;

	if (!cJSON_IsArray(columns) || !columns->child || cJSON_GetArraySize(columns) > CBX_SQL_COLUMNS_MAX)
		return false;
	cJSON_ArrayForEach(c, columns) {
		const char *name = cbx_json_text(c, "name"), *type = cbx_json_text(c, "type");

		if (!name || !type || strlen(type) > NAME_LEN || cJSON_GetArraySize(c) != 2)
			return false;
	}
	return true;
}

static bool are_rows(const cJSON *rows, int columns)
{
	const cJSON *row, *v;

	if (!cJSON_IsArray(rows) || cJSON_GetArraySize(rows) > CBX_SQL_INLINE_MAX)
		return false;
	cJSON_ArrayForEach(row, rows) {
		if (!cJSON_IsArray(row) || cJSON_GetArraySize(row) != columns)
			return false;
		cJSON_ArrayForEach(v, row)
			if (cJSON_IsArray(v) || cJSON_IsObject(v))
				return false;
	}
	return true;
}

static int take_schema(struct cbx_sql_query *q, const cJSON *root, struct cbx_err *err)
{
	if (!cbx_query_is_schema(root))
		return malformed(err);
	cJSON_Delete(q->answer);
	q->answer = cJSON_Duplicate(root, 1);
	return 0;
}

static int take_answer(struct cbx_sql_query *q, const cJSON *root, struct cbx_err *err)
{
	cJSON *columns = cbx_json_member(root, "columns"),
	      *rows = cbx_json_member(root, "rows");
	uint64_t count = 0;
	int r = cbx_query_error(root, err);

	if (r < 0)
		return r;
	if (q->schema)
		return take_schema(q, root, err);
	if (q->table) {
		if (cbx_json_get_u64(root, "size", 1, CBX_SQL_RESULT_MAX, &q->size, err) <= 0 || q->step != FINISHING)
			return malformed(err);
		cbx_query_answer_file(q, q->rows);
		return 0;
	}
	if (!are_columns(columns) || cbx_json_get_u64(root, "row_count", 0, CBX_SQL_ROWS_MAX, &count, err) <= 0)
		return malformed(err);
	if (rows && (!are_rows(rows, cJSON_GetArraySize(columns)) || count != (uint64_t)cJSON_GetArraySize(rows)))
		return malformed(err);
	if (!rows && cbx_json_get_u64(root, "size", 1, CBX_SQL_RESULT_MAX, &q->size, err) <= 0)
		return malformed(err);
	cJSON_Delete(q->answer);
	q->answer = cbx_json_new_obj();
	cbx_json_set(q->answer, "columns", cJSON_Duplicate(columns, 1));
	if (!rows) {
		cbx_query_answer_file(q, count);
		return 0;
	}
	cbx_json_set(q->answer, "rows", cJSON_Duplicate(rows, 1));
	cbx_json_set_u64(q->answer, "row_count", count);
	if (cJSON_IsTrue(cbx_json_member(root, "more")))
		cbx_json_set_bool(q->answer, "more", true);
	cbx_json_set_str(q->answer, "delivery", "inline");
	return 0;
}

static int read_answer(struct cbx_sql_query *q, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err ignored;

	if (!q->said.len)
		return cbx_refuse(
			err, "query_failed", EIO,
			"the program that asks the database ended without an answer; it needs Python 3.9 in the image, "
			"and memory in the session");
	if (cbx_json_parse(q->said.data, q->said.len, &doc, &ignored) < 0 || doc.problem.code ||
	    !cJSON_IsObject(doc.root))
		return malformed(err);
	return take_answer(q, doc.root, err);
}

/* ---- its program ---- */

static void printed(struct cbx_command_op *op, struct cbx_command *c, const char *stream, const char *p, size_t n)
{
	struct cbx_sql_query *q = cbx_container_of(op, struct cbx_sql_query, command);
	struct cbx_err err;

	if (q->done || strcmp(stream, "stdout") != 0)
		return;
	cbx_buf_add(&q->said, p, n);
	if (q->said.len > CBX_QUERY_ANSWER_MAX) {
		malformed(&err);
		cbx_query_end(q, &err);
	}
}

static void fed(struct cbx_input_op *op, const struct cbx_err *err)
{
	struct cbx_sql_query *q = cbx_container_of(op, struct cbx_sql_query, input);

	cbx_buf_release(&q->text); /* a program that does not take it ends, and then that is why */
	if (q->table && !err)
		cbx_query_table_fed(q);
}

static void started(struct cbx_command_op *op, struct cbx_command *c, uint64_t omitted)
{
	struct cbx_sql_query *q = cbx_container_of(op, struct cbx_sql_query, command);
	struct cbx_err err;
	int r;

	q->input = (struct cbx_input_op){ .op.ops = &q->caller.ops, .done = fed };
	r = cbx_command_input(c, q->text.data, q->text.len, &q->input, &err);
	if (r < 0 && !q->table)
		cbx_query_end(q, &err);
	else if (q->table && r > 0)
		cbx_query_table_fed(q);
}

static void ended(struct cbx_command_op *op, struct cbx_command *c, const struct cbx_err *failed)
{
	struct cbx_sql_query *q = cbx_container_of(op, struct cbx_sql_query, command);
	struct cbx_err err;

	if (q->done)
		return;
	if (failed && strcmp(failed->kind, "command_not_found") == 0) {
		cbx_refuse(&err, "no_driver", ENOENT,
			   "%s by Python, which the image of the session does not have; use another image%s",
			   q->table ? "this format is written" : "a file of the session is asked",
			   q->table ? ", or CSV" : "");
		failed = &err;
	} else if (!failed && read_answer(q, &err) < 0) {
		failed = &err;
	}
	if (!failed && cbx_json_text(q->answer, "path"))
		cbx_query_file_made(q);
	else
		cbx_query_end(q, failed);
}

int cbx_query_program(struct cbx_sql_query *q, const cJSON *line, uint64_t timeout_ms, struct cbx_err *err)
{
	struct cbx_session *s = cbx_query_session(q, err);
	_cleanup_json_ cJSON *argv = cbx_json_new_arr();
	struct cbx_command_spec spec = { .argv = argv, .input = true, .ours = true, .via = q->caller.via };
	struct cbx_command *c;

	if (!s)
		return -ENOENT;
	cbx_json_print(&q->text, line);
	cbx_buf_addc(&q->text, '\n');
	spec.timeout_ms = timeout_ms + LATE_MS;
	for (size_t i = 0; i < 3; i++)
		cbx_json_push_str(argv, (const char *[]){ "python3", "-I", PROGRAM }[i]);
	q->command = (struct cbx_command_op){
		.op.ops = &q->caller.ops, .on_start = started, .on_output = printed, .done = ended
	};
	return cbx_session_command(s, &spec, &q->command, &c, err);
}

/* ---- what it is ---- */

static int ask_program(struct cbx_sql_query *q, enum cbx_dialect dialect, struct cbx_err *err)
{
	cbx_json_set_str(q->request, "type", dialect == CBX_SQL_SQLITE ? "sqlite" : "duckdb");
	cbx_json_set_str(q->request, "database", q->database);
	cbx_json_set_str(q->request, "path", q->path);
	return cbx_query_program(q, q->request, q->timeout_ms, err);
}

static int judge(struct cbx_sql_query *q, enum cbx_dialect dialect, struct cbx_err *err)
{
	const char *query = cbx_json_text(q->request, "query");
	_cleanup_buf_ struct cbx_buf text = { 0 };
	size_t wanted = 0;
	int r = cbx_sql_judge(dialect, query, strlen(query), &text, &wanted, err),
	    given = cJSON_GetArraySize(cbx_json_member(q->request, "parameters"));
	const cJSON *v;

	if (r < 0)
		return r;
	if ((size_t)given != wanted)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "parameters: %d are given; give %zu, one for each ? of the query outside of quotes",
				  given, wanted);
	cJSON_ArrayForEach(v, cbx_json_member(q->request, "parameters"))
		if (cJSON_IsArray(v) || cJSON_IsObject(v))
			return cbx_refuse(err, "invalid_argument", EINVAL,
					  "parameters: wrong type; give strings, numbers, true, false or null");
	cJSON_ReplaceItemInObjectCaseSensitive(q->request, "query", cJSON_CreateString(cbx_buf_str(&text)));
	return ask_program(q, dialect, err);
}

/* A schema needs no judge: the program has its statements itself. */
static int ask_as(struct cbx_sql_query *q, enum cbx_dialect dialect, struct cbx_err *err)
{
	return q->schema ? ask_program(q, dialect, err) : judge(q, dialect, err);
}

static void looked(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *failed)
{
	static const char sqlite[16] = "SQLite format 3";
	struct cbx_sql_query *q = cbx_container_of(op, struct cbx_sql_query, file);
	struct cbx_err err;
	int r;

	if (failed && strcmp(failed->kind, "file_not_found") == 0)
		r = cbx_refuse(&err, "no_connection", ENOENT,
			       "connection: \"%.200s\" is not in the policy, and is not a file of session %s; name one "
			       "that is",
			       q->database, q->session_id);
	else if (failed)
		err = *failed, r = -EIO;
	else if (reply->len == sizeof(sqlite) && memcmp(reply->data, sqlite, sizeof(sqlite)) == 0)
		r = ask_as(q, CBX_SQL_SQLITE, &err);
	else if (reply->len == sizeof(sqlite) && memcmp((const char *)reply->data + 8, "DUCK", 4) == 0)
		r = ask_as(q, CBX_SQL_DUCKDB, &err);
	else
		r = cbx_refuse(&err, "no_connection", EINVAL,
			       "connection: the file %.200s is not a database; give one of SQLite or DuckDB",
			       q->database);
	if (r < 0)
		cbx_query_end(q, &err);
}

int cbx_query_ask_file(struct cbx_sql_query *q, struct cbx_err *err)
{
	struct cbx_session *s = cbx_query_session(q, err);

	q->file = (struct cbx_file_op){ .op.ops = &q->caller.ops, .done = looked };
	return s ? cbx_session_file_read(s, q->database, 0, 16, &q->file, err) : -ENOENT;
}

void cbx_query_leave_file(struct cbx_sql_query *q)
{
	if (!cbx_op_pending(&q->command.op))
		return;
	cbx_command_signal(q->command.command, SIGKILL); /* its file has no name yet */
	cbx_op_cancel(&q->command.op);
}
