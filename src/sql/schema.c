/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a database has, by the catalog functions of its driver, or by queries that give the same
 * fields: first the names of its tables, then columns and keys of each, while there is room. Tables behind that have
 * their names alone, and a note says how many. Names are what anybody who may make a table wrote: they are cut, made
 * valid UTF-8, and given back to the driver as arguments, never as SQL.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "sql/worker.h"

#define NAME_SIZE 520 /* 128 characters, as databases have them, are up to 512 bytes */

struct catalog {
	struct cbx_sql *sql;
	const char *of; /* where schemas are not of one database alone: its name */
	char escape;	/* before a character that would be a pattern; 0: there is none */
	cJSON *tables;
	size_t more;		   /* tables that are not in the list */
	const char *const *fields; /* of the row; NULL: the driver's statement has them */
};

struct details {
	const char *schema, *name; /* of the table */
	cJSON *columns, *primary, *foreign;
	size_t count;
};

typedef bool row_fn(struct catalog *c, struct details *d); /* false: that is enough */

/* A field of the row; malloc'd, "" for NULL. */
static char *field(struct catalog *c, SQLUSMALLINT i)
{
	_cleanup_buf_ struct cbx_buf clean = { 0 };
	char text[NAME_SIZE] = "";
	SQLLEN n = 0;

	if (c->fields)
		snprintf(text, sizeof(text), "%s", c->fields[i - 1]);
	else if (!SQL_SUCCEEDED(SQLGetData(c->sql->stmt, i, SQL_C_CHAR, text, sizeof(text), &n)) || n == SQL_NULL_DATA)
		text[0] = '\0';
	cbx_utf8_append(&clean, text, strlen(text));
	return cbx_xstrdup(cbx_buf_str(&clean));
}

/* ---- tables ---- */

static bool is_system(const char *schema, const char *name, const char *type)
{
	static const char *const schemas[] = { "pg_catalog", "pg_toast", "information_schema", "INFORMATION_SCHEMA",
					       "sys" };

	return cbx_find_word(schema, schemas, ARRAY_SIZE(schemas)) >= 0 || cbx_starts_with(type, "SYSTEM") ||
	       (!schema[0] && cbx_starts_with(name, "sqlite_"));
}

static bool table_row(struct catalog *c, struct details *d)
{
	_cleanup_free_ char *schema = field(c, 2), *name = field(c, 3), *type = field(c, 4);
	cJSON *o;

	if (!name[0] || is_system(schema, name, type))
		return true;
	if (cJSON_GetArraySize(c->tables) >= CBX_SQL_SCHEMA_TABLES) {
		c->more++;
		return true;
	}
	for (char *p = type; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	o = cbx_json_new_obj();
	if (schema[0])
		cbx_json_set_str(o, "schema", schema);
	cbx_json_set_str(o, "name", name);
	cbx_json_set_str(o, "type", type);
	cbx_json_push(c->tables, o);
	return true;
}

/* ---- of one table ---- */

static bool column_row(struct catalog *c, struct details *d)
{
	_cleanup_free_ char *schema = field(c, 2), *table = field(c, 3), *name = field(c, 4), *type = field(c, 6),
			    *nullable = field(c, 11);
	cJSON *o;

	if (strcmp(table, d->name) != 0 || strcmp(schema, d->schema) != 0) /* the name was taken for a pattern */
		return true;
	if (++d->count > CBX_SQL_COLUMNS_MAX)
		return false;
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "name", name);
	cbx_json_set_str(o, "type", type);
	cbx_json_set_bool(o, "nullable", strcmp(nullable, "0") != 0);
	cbx_json_push(d->columns, o);
	return true;
}

static bool primary_row(struct catalog *c, struct details *d)
{
	_cleanup_free_ char *name = field(c, 4);

	if (++d->count > CBX_SQL_COLUMNS_MAX)
		return false;
	cbx_json_push_str(d->primary, name);
	return true;
}

/* A key of several columns has a row for each. */
static bool foreign_row(struct catalog *c, struct details *d)
{
	_cleanup_free_ char *schema = field(c, 2), *table = field(c, 3), *there = field(c, 4), *here = field(c, 8),
			    *place = field(c, 9);
	cJSON *o = d->foreign->child ? d->foreign->child->prev : NULL; /* the last one */

	if (++d->count > CBX_SQL_COLUMNS_MAX)
		return false;
	if (!o || strcmp(place, "1") == 0) {
		o = cbx_json_new_obj();
		cbx_json_set(o, "columns", cbx_json_new_arr());
		if (schema[0])
			cbx_json_set_str(o, "schema", schema);
		cbx_json_set_str(o, "table", table);
		cbx_json_set(o, "references", cbx_json_new_arr());
		cbx_json_push(d->foreign, o);
	}
	cbx_json_push_str(cbx_json_member(o, "columns"), here);
	if (there[0])
		cbx_json_push_str(cbx_json_member(o, "references"), there);
	return true;
}

/* ---- what is asked ---- */

enum what { TABLES, COLUMNS, PRIMARY_KEYS, FOREIGN_KEYS };

/* clang-format off */
#define RELATIONS \
	"WITH r AS (SELECT c.oid, n.nspname, c.relname, c.relkind, pg_catalog.pg_is_other_temp_schema(n.oid) AS hidden " \
	"FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace) "
#define ATTRIBUTE(a, of, number) \
	"JOIN pg_catalog.pg_attribute " a " ON " a ".attrelid = " of ".oid AND " a ".attnum = " number " "

/* With the fields of SQLTables(), SQLColumns() and so on. */
static const char *const of_postgresql[] = {
	[TABLES] =
		RELATIONS "SELECT NULL, nspname, relname, CASE relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'matview' "
		"WHEN 'f' THEN 'foreign table' ELSE 'table' END "
		"FROM r WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT hidden ORDER BY 4, 2, 3",
	[COLUMNS] =
		RELATIONS "SELECT NULL, r.nspname, r.relname, a.attname, NULL, t.typname, NULL, NULL, NULL, NULL, "
		"CASE WHEN a.attnotnull THEN '0' ELSE '1' END "
		"FROM r JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid "
		"JOIN pg_catalog.pg_type t ON t.oid = a.atttypid "
		"WHERE r.nspname = $1 AND r.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
	[PRIMARY_KEYS] =
		RELATIONS "SELECT NULL, NULL, NULL, a.attname "
		"FROM r JOIN pg_catalog.pg_constraint k ON k.conrelid = r.oid AND k.contype = 'p' "
		"CROSS JOIN LATERAL pg_catalog.unnest(k.conkey) WITH ORDINALITY AS u(here, place) "
		ATTRIBUTE("a", "r", "u.here")
		"WHERE r.nspname = $1 AND r.relname = $2 ORDER BY u.place",
	[FOREIGN_KEYS] =
		RELATIONS "SELECT NULL, f.nspname, f.relname, b.attname, NULL, NULL, NULL, a.attname, u.place "
		"FROM r JOIN pg_catalog.pg_constraint k ON k.conrelid = r.oid AND k.contype = 'f' "
		"JOIN r AS f ON f.oid = k.confrelid "
		"CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(k.conkey), pg_catalog.unnest(k.confkey)) "
		"WITH ORDINALITY AS u(here, there, place) "
		ATTRIBUTE("a", "r", "u.here") ATTRIBUTE("b", "f", "u.there")
		"WHERE r.nspname = $1 AND r.relname = $2 ORDER BY k.conname, u.place",
};
/* clang-format on */

/* As an argument that is a pattern. Drivers differ in how they take an escape that is escaped: any character will do
 * for it, since rows are compared with the name. */
static char *pattern(const struct catalog *c, const char *text)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };

	for (; *text; text++) {
		if (c->escape && (*text == '_' || *text == '%'))
			cbx_buf_addc(&b, c->escape);
		cbx_buf_addc(&b, c->escape && *text == c->escape ? '_' : *text);
	}
	return cbx_xstrdup(cbx_buf_str(&b));
}

static SQLCHAR *given(const char *text)
{
	return text && text[0] ? (SQLCHAR *)text : NULL;
}

#define ARG(text) given(text), SQL_NTS

/* The driver of MariaDB asks for what users who may only SELECT do not see; here they do. Fields as of SQLForeignKeys.
 */
static SQLRETURN foreign_mysql(struct catalog *c, const struct details *d)
{
	static const char query[] =
		"SELECT NULL, NULLIF(referenced_table_schema, table_schema), referenced_table_name, "
		"referenced_column_name, NULL, NULL, NULL, column_name, ordinal_position "
		"FROM information_schema.key_column_usage WHERE referenced_table_name IS NOT NULL AND table_schema = ? "
		"AND table_name = ? ORDER BY constraint_name, ordinal_position";
	const char *const values[] = { c->of, d->name };
	SQLLEN lengths[ARRAY_SIZE(values)];
	SQLHSTMT stmt = c->sql->stmt;
	SQLRETURN r = SQL_SUCCESS;

	for (SQLUSMALLINT i = 0; SQL_SUCCEEDED(r) && i < ARRAY_SIZE(values); i++) {
		lengths[i] = (SQLLEN)strlen(values[i]);
		r = SQLBindParameter(stmt, i + 1, SQL_PARAM_INPUT, SQL_C_CHAR, SQL_VARCHAR, (SQLULEN)lengths[i] + 1, 0,
				     (SQLPOINTER)values[i], lengths[i], &lengths[i]);
	}
	if (SQL_SUCCEEDED(r))
		r = SQLExecDirect(stmt, (SQLCHAR *)query, SQL_NTS);
	(void)SQLFreeStmt(stmt, SQL_RESET_PARAMS);
	return r;
}

static SQLRETURN by_driver(struct catalog *c, enum what what, const struct details *d)
{
	_cleanup_free_ char *schema = d ? pattern(c, d->schema) : NULL, *name = d ? pattern(c, d->name) : NULL;
	SQLHSTMT stmt = c->sql->stmt;

	switch (what) {
	case TABLES:
		return SQLTables(stmt, ARG(c->of), ARG(NULL), ARG(NULL), ARG(NULL));
	case COLUMNS:
		return SQLColumns(stmt, ARG(c->of), ARG(schema), ARG(name), ARG("%"));
	case PRIMARY_KEYS:
		return SQLPrimaryKeys(stmt, ARG(c->of), ARG(d->schema), ARG(d->name));
	default:
		return c->sql->job->dialect == CBX_SQL_MYSQL ? foreign_mysql(c, d)
							     : SQLForeignKeys(stmt, ARG(NULL), ARG(NULL), ARG(NULL),
									      ARG(c->of), ARG(d->schema), ARG(d->name));
	}
}

struct by_query {
	struct catalog *catalog;
	struct details *details;
	row_fn *row;
};

static bool query_row(void *arg, const char *const fields[CBX_SQL_PQ_FIELDS])
{
	const struct by_query *q = arg;

	q->catalog->fields = fields;
	return q->row(q->catalog, q->details);
}

static int every_row(struct catalog *c, enum what what, struct details *d, row_fn *row, struct cbx_err *err)
{
	struct by_query by_query = { .catalog = c, .details = d, .row = row };
	SQLHSTMT stmt = c->sql->stmt;
	bool enough = false;
	SQLRETURN got;
	int r = 0;

	if (c->sql->pq)
		return cbx_sql_pq_catalog(c->sql, of_postgresql[what],
					  (const char *[]){ d ? d->schema : NULL, d ? d->name : NULL }, d ? 2 : 0,
					  query_row, &by_query, err);
	got = by_driver(c, what, d);
	while (!enough && SQL_SUCCEEDED(got)) {
		got = SQLFetch(stmt);
		if (SQL_SUCCEEDED(got))
			enough = !row(c, d);
	}
	if (!SQL_SUCCEEDED(got) && got != SQL_NO_DATA)
		r = cbx_sql_fail(c->sql, SQL_HANDLE_STMT, stmt, "query_failed", "read the schema", err);
	SQLFreeStmt(stmt, SQL_CLOSE);
	return r;
}

/* ---- one table, and all of them ---- */

static int read_table(struct catalog *c, struct details *d, struct cbx_err *err)
{
	int r = every_row(c, COLUMNS, d, column_row, err);

	d->count = d->count > CBX_SQL_COLUMNS_MAX ? d->count : 0;
	if (r >= 0)
		r = every_row(c, PRIMARY_KEYS, d, primary_row, err);
	if (r >= 0)
		r = every_row(c, FOREIGN_KEYS, d, foreign_row, err);
	return r;
}

static size_t printed(const cJSON *o)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print(&text, o);
	return text.len;
}

/* 1: there was no room for columns and keys. */
static int add_table(struct catalog *c, cJSON *table, size_t room, size_t *bytes, struct cbx_err *err)
{
	const char *schema = cbx_json_text(table, "schema");
	_cleanup_json_ cJSON *columns = cbx_json_new_arr(), *primary = cbx_json_new_arr(),
			     *foreign = cbx_json_new_arr();
	struct details d = { .schema = schema ? schema : "",
			     .name = cbx_json_text(table, "name"),
			     .columns = columns,
			     .primary = primary,
			     .foreign = foreign };
	size_t n;
	int r = read_table(c, &d, err);

	if (r < 0)
		return r;
	n = printed(columns) + printed(primary) + printed(foreign);
	if (d.count > CBX_SQL_COLUMNS_MAX || n > room)
		return 1;
	*bytes += n;
	cbx_json_set(table, "columns", take_ptr(&columns));
	cbx_json_set(table, "primary_key", take_ptr(&primary));
	cbx_json_set(table, "foreign_keys", take_ptr(&foreign));
	return 0;
}

static int read_tables(struct catalog *c, cJSON *answer, struct cbx_err *err)
{
	size_t bytes = 0, bare = 0;
	cJSON *table, *next;

	for (table = c->tables->child; table; table = next) {
		size_t name = printed(table);
		int r = 1;

		next = table->next;
		if (bytes + name > CBX_SQL_SCHEMA_BYTES) {
			cJSON_Delete(cJSON_DetachItemViaPointer(c->tables, table));
			c->more++;
			continue;
		}
		bytes += name;
		if (bytes < CBX_SQL_SCHEMA_BYTES / 4 * 3)
			r = add_table(c, table, CBX_SQL_SCHEMA_BYTES / 4 * 3 - bytes, &bytes, err);
		if (r < 0)
			return r;
		bare += (size_t)r;
	}
	if (bare || c->more) {
		_cleanup_free_ char *note = cbx_xasprintf(
			"the schema is larger than an answer: %zu tables are named without columns, and %zu more are "
			"omitted; SELECT * FROM a table LIMIT 1 shows its columns",
			bare, c->more);

		cbx_json_set_bool(answer, "truncated", true);
		cbx_json_set_str(answer, "note", note);
	}
	return 0;
}

int cbx_sql_schema(struct cbx_sql *s, struct cbx_err *err)
{
	bool is_catalog = s->job->dialect == CBX_SQL_MYSQL || s->job->dialect == CBX_SQL_SQLSERVER;
	struct catalog c = { .sql = s, .of = is_catalog ? s->job->database : NULL };
	_cleanup_json_ cJSON *answer = cbx_json_new_obj();
	SQLCHAR escape[4] = "";
	SQLSMALLINT n;
	int r;

	cbx_json_set_str(answer, "type", cbx_json_text(s->job->connection, "type"));
	c.tables = cbx_json_new_arr();
	cbx_json_set(answer, "tables", c.tables);
	if (s->dbc && SQL_SUCCEEDED(SQLGetInfo(s->dbc, SQL_SEARCH_PATTERN_ESCAPE, escape, sizeof(escape), &n)))
		c.escape = (char)escape[0];
	if (s->pq)
		cbx_sql_watch_statement(s, cbx_sql_pq_cancel, s);
	else
		cbx_sql_watch_statement(s, cbx_sql_cancel, s->stmt);
	r = every_row(&c, TABLES, NULL, table_row, err);
	if (r >= 0)
		r = read_tables(&c, answer, err);
	if (r < 0)
		(void)cbx_sql_cancelled(s, err); /* that is why */
	cbx_sql_watch_statement(s, NULL, NULL);
	return r < 0 ? r : cbx_sql_send_json(s, CBX_SQL_RESULT, take_ptr(&answer), err);
}
