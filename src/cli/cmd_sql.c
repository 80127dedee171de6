/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: one request. Which databases there are is the policy's to say, and codeboxd asks them. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/cli.h"

#define WIDTH_MAX 60 /* of a column on a terminal */

struct options {
	const char *session, *output, *format;
	cJSON *parameters;
	bool json, schema;
};

/* A number, true, false and null are what they are in JSON, as is text in quotes; all else is text. */
static int add_parameter(void *list, const char *text)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err ignored;

	if (cbx_json_parse(text, strlen(text), &doc, &ignored) < 0 || doc.problem.code || cJSON_IsObject(doc.root) ||
	    cJSON_IsArray(doc.root))
		cbx_json_push_str(list, text);
	else if (cJSON_IsNumber(doc.root)) /* as it was typed */
		cbx_json_push(list, cJSON_CreateRaw(text));
	else
		cbx_json_push(list, take_ptr(&doc.root));
	return 0;
}

/* ---- the answer ---- */

static void value_text(struct cbx_buf *out, const cJSON *v)
{
	_cleanup_buf_ struct cbx_buf printed = { 0 };

	if (cJSON_IsString(v)) {
		cbx_escape(out, v->valuestring);
	} else if (cJSON_IsNull(v)) {
		cbx_buf_adds(out, "NULL");
	} else {
		cbx_json_print(&printed, v);
		cbx_buf_adds(out, cbx_buf_str(&printed));
	}
}

static const cJSON *cell_of(const cJSON *row, bool header)
{
	return header ? cbx_json_member(row, "name") : row;
}

static void widen(const cJSON *row, bool header, size_t *widths, size_t n)
{
	const cJSON *v;
	size_t i = 0;

	cJSON_ArrayForEach(v, row) {
		_cleanup_buf_ struct cbx_buf text = { 0 };
		size_t width;

		value_text(&text, cell_of(v, header));
		width = cbx_utf8_count(cbx_buf_str(&text), text.len);
		if (i < n && width > widths[i])
			widths[i] = width < WIDTH_MAX ? width : WIDTH_MAX;
		i++;
	}
}

static void put(struct cbx_buf *out, const cJSON *row, bool header, const size_t *widths, size_t n)
{
	const cJSON *v;
	size_t i = 0;

	cJSON_ArrayForEach(v, row) {
		_cleanup_buf_ struct cbx_buf text = { 0 };
		size_t width;

		value_text(&text, cell_of(v, header));
		width = cbx_utf8_count(cbx_buf_str(&text), text.len);
		cbx_buf_adds(out, cbx_buf_str(&text));
		for (; v->next && i < n && width < widths[i]; width++)
			cbx_buf_addc(out, ' ');
		cbx_buf_adds(out, v->next ? "  " : "\n");
		i++;
	}
}

static int show_rows(const cJSON *result)
{
	const cJSON *columns = cbx_json_member(result, "columns"),
		    *rows = cbx_json_member(result, "rows"), *row;
	size_t n = (size_t)cJSON_GetArraySize(columns);
	_cleanup_free_ size_t *widths = cbx_xcalloc(n + 1, sizeof(*widths));
	_cleanup_buf_ struct cbx_buf out = { 0 };

	widen(columns, true, widths, n);
	cJSON_ArrayForEach(row, rows)
		widen(row, false, widths, n);
	put(&out, columns, true, widths, n);
	cJSON_ArrayForEach(row, rows)
		put(&out, row, false, widths, n);
	if (cJSON_IsTrue(cbx_json_member(result, "more")))
		cbx_cli_say("there are more rows; --session and --output write all of them to a file");
	return cbx_cli_out(cbx_buf_str(&out), out.len);
}

static int show_file(const cJSON *result)
{
	char size[32];

	cbx_format_size(cbx_json_u64(result, "size"), size);
	return cbx_cli_tell("%llu rows, %s, in %s of session %s", (unsigned long long)cbx_json_u64(result, "row_count"),
			    size, cbx_json_str(result, "path"), cbx_json_str(result, "session_id"));
}

/* ---- a schema ---- */

static void put_list(struct cbx_buf *out, const cJSON *names)
{
	const cJSON *v;

	cbx_buf_addc(out, '(');
	cJSON_ArrayForEach(v, names) {
		if (v != names->child)
			cbx_buf_adds(out, ", ");
		value_text(out, v);
	}
	cbx_buf_addc(out, ')');
}

static void put_name(struct cbx_buf *out, const cJSON *o, const char *name)
{
	const char *schema = cbx_json_text(o, "schema");

	if (schema) {
		cbx_escape(out, schema);
		cbx_buf_addc(out, '.');
	}
	cbx_escape(out, cbx_json_str(o, name));
}

static void put_column(struct cbx_buf *out, const cJSON *column, const cJSON *primary, size_t width)
{
	_cleanup_buf_ struct cbx_buf name = { 0 };

	cbx_escape(&name, cbx_json_str(column, "name"));
	cbx_buf_addf(out, "  %s", cbx_buf_str(&name));
	for (size_t n = cbx_utf8_count(cbx_buf_str(&name), name.len); n < width; n++)
		cbx_buf_addc(out, ' ');
	cbx_buf_adds(out, "  ");
	cbx_escape(out, cbx_json_str(column, "type"));
	if (!cJSON_IsTrue(cbx_json_member(column, "nullable")))
		cbx_buf_adds(out, ", not null");
	if (cbx_json_lists(primary, cbx_json_str(column, "name")))
		cbx_buf_adds(out, ", primary key");
	cbx_buf_addc(out, '\n');
}

static void put_table(struct cbx_buf *out, const cJSON *table)
{
	const cJSON *columns = cbx_json_member(table, "columns"),
		    *primary = cbx_json_member(table, "primary_key"), *v;
	size_t width = 0;

	put_name(out, table, "name");
	cbx_buf_adds(out, " (");
	cbx_escape(out, cbx_json_str(table, "type"));
	cbx_buf_adds(out, ")\n");
	cJSON_ArrayForEach(v, columns) {
		_cleanup_buf_ struct cbx_buf name = { 0 };
		size_t n;

		cbx_escape(&name, cbx_json_str(v, "name"));
		n = cbx_utf8_count(cbx_buf_str(&name), name.len);
		width = n > width ? n : width;
	}
	cJSON_ArrayForEach(v, columns)
		put_column(out, v, primary, width < WIDTH_MAX ? width : WIDTH_MAX);
	cJSON_ArrayForEach(v, cbx_json_member(table, "foreign_keys")) {
		cbx_buf_adds(out, "  ");
		put_list(out, cbx_json_member(v, "columns"));
		cbx_buf_adds(out, " references ");
		put_name(out, v, "table");
		if (cJSON_GetArraySize(cbx_json_member(v, "references"))) {
			cbx_buf_addc(out, ' ');
			put_list(out, cbx_json_member(v, "references"));
		}
		cbx_buf_addc(out, '\n');
	}
}

static int show_schema(const cJSON *result)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	const cJSON *table;

	cJSON_ArrayForEach(table, cbx_json_member(result, "tables"))
		put_table(&out, table);
	if (cbx_json_text(result, "note"))
		cbx_cli_say("%s", cbx_json_text(result, "note"));
	return cbx_cli_out(cbx_buf_str(&out), out.len);
}

/* ---- the request ---- */

static int ask(const struct options *o, const char *connection, const char *query)
{
	cJSON *params = cbx_json_new_obj();
	_cleanup_json_ cJSON *result = NULL;
	struct cbx_client client;
	struct cbx_err err;
	int r;

	cbx_json_set_str(params, "connection", connection);
	cbx_json_set_str(params, "code", query);
	cbx_json_set_str(params, "session_id", o->session);
	cbx_json_set_str(params, "path", o->output);
	cbx_json_set_str(params, "format", o->format);
	if (o->parameters)
		cbx_json_set(params, "parameters", o->parameters);
	r = cbx_cli_client(true, &client, &err);
	if (r < 0) {
		cJSON_Delete(params);
		return cbx_cli_fail(&err);
	}
	r = cbx_client_call(&client, o->schema ? "sql.schema" : "sql", params, &result, &err);
	cbx_client_close(&client);
	if (r < 0)
		return cbx_cli_fail(&err);
	if (o->json)
		return cbx_cli_print_json(result);
	if (o->schema)
		return show_schema(result);
	return cbx_json_text(result, "path") ? show_file(result) : show_rows(result);
}

static int run_sql(int argc, char **argv)
{
	struct options o = { 0 };
	_cleanup_json_ cJSON *parameters = cbx_json_new_arr();
	const struct cbx_cli_option options[] = { { "param", .take = add_parameter, .arg = parameters },
						  { "session", .value = &o.session },
						  { "output", .value = &o.output },
						  { "format", .value = &o.format },
						  { "schema", .flag = &o.schema },
						  { "json", .flag = &o.json },
						  { 0 } };
	int r = cbx_cli_options("sql", argc, argv, options);

	if (r)
		return r;
	if (o.schema && (o.output || o.format || cJSON_GetArraySize(parameters) || argc - optind > 1))
		return cbx_cli_usage("sql", "--schema: give a connection alone, as in codebox sql --schema shop, or "
					    "codebox sql --schema --session work data.db");
	if (o.schema)
		return ask(&o, argv[optind], NULL);
	if (argc - optind != 2)
		return cbx_cli_usage("sql",
				     "give a connection of the policy and a query, as in codebox sql shop 'SELECT 1'");
	if (o.output && !o.session)
		return cbx_cli_usage("sql", "--output: name the session whose file it is to be, as in --session work");
	if (o.format && !o.session)
		return cbx_cli_usage("sql", "--format: name the session whose file it is to be, as in --session work");
	o.parameters = take_ptr(&parameters);
	return ask(&o, argv[optind], argv[optind + 1]);
}

static const char help[] =
	"Usage: codebox sql [--param VALUE]... [--session NAME [--output FILE] [--format FORMAT]] [--json]\n"
	"                   CONNECTION QUERY\n"
	"       codebox sql --schema [--session NAME] [--json] [CONNECTION]\n"
	"\n"
	"Ask a database that the policy names (sql.connections; see codebox-policy(5)). A query is one statement that "
	"only\n"
	"reads: SELECT or WITH. It runs in a read-only transaction, which is rolled back.\n"
	"\n"
	"A connection that the policy does not have is a file of SQLite or DuckDB of the session, which needs no "
	"policy.\n"
	"\n"
	"Few rows are printed. With a session, more of them become a CSV file of the session.\n"
	"\n"
	"Options:\n"
	"  --param VALUE    the value of the next ? in the query: a number, true, false, null, or text; text that "
	"looks like\n"
	"                   one of those in quotes, as in '\"5\"'\n"
	"  --session NAME   the session that has the database, or gets the file\n"
	"  --output FILE    write all rows to this new file of the session, however few\n"
	"  --format FORMAT  of the file: csv (default), or arrow or parquet, which the session's pyarrow writes\n"
	"  --schema         the tables of a database, with columns and keys; without CONNECTION of the only one\n"
	"  --json           one line of JSON, with names and types of the columns\n"
	"\n"
	"Examples:\n"
	"  codebox sql shop 'SELECT id, name FROM customers WHERE city = ?' --param Oslo\n"
	"  codebox sql shop 'SELECT * FROM orders' --session work --output orders.csv\n"
	"  codebox sql --schema shop\n"
	"  codebox sql --schema --session work data.db\n"
	"  codebox sql --session work data.db 'SELECT count(*) FROM t'\n";

const struct cbx_command cbx_cmd_sql = {
	.name = "sql",
	.summary = "ask a database of the policy, read-only",
	.help = help,
	.run = run_sql,
};
