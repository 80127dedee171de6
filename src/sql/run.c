/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a statement, and its rows by the driver, one after another, each value in pieces: drivers do
 * not agree on how they say how long a value may be.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "sql/worker.h"

#define NAME_SIZE KIB(1) /* what is read of a column's name; a character may be cut behind what is kept of it */

struct result {
	struct cbx_sql_result out;
	struct cbx_buf value;
};

/* ---- parameters ---- */

struct bound {
	char *text;
	SQLLEN length;
};

int cbx_sql_count_parameters(const struct cbx_sql_job *job, size_t wanted, struct cbx_err *err)
{
	size_t given = (size_t)cJSON_GetArraySize(job->parameters);

	if (given != wanted || given > CBX_SQL_PARAMETERS_MAX)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "parameters: %zu are given; give %zu, one for each ? of the query outside of quotes",
				  given, wanted);
	return 0;
}

int cbx_sql_wrong_parameter(size_t i, struct cbx_err *err)
{
	return cbx_refuse(err, "invalid_argument", EINVAL,
			  "parameters: number %zu has the wrong type; give a string, a number, true, false or null", i);
}

static int bind(struct cbx_sql *s, SQLUSMALLINT i, const cJSON *v, struct bound *b, struct cbx_err *err)
{
	SQLSMALLINT type = SQL_VARCHAR;
	SQLRETURN r;

	if (cJSON_IsNull(v)) {
		b->length = SQL_NULL_DATA;
	} else if (cJSON_IsBool(v)) {
		b->text = cbx_xstrdup(cJSON_IsTrue(v) ? "1" : "0");
		type = s->job->dialect == CBX_SQL_SQLSERVER ? SQL_BIT : SQL_INTEGER;
	} else if (cJSON_IsNumber(v)) {
		_cleanup_buf_ struct cbx_buf text = { 0 };

		cbx_json_print(&text, v);
		type = strpbrk(cbx_buf_str(&text), ".eE") ? SQL_DOUBLE : SQL_BIGINT;
		b->text = cbx_buf_steal(&text);
	} else if (cJSON_IsString(v)) {
		b->text = cbx_xstrdup(v->valuestring);
	} else {
		return cbx_sql_wrong_parameter(i, err);
	}
	if (b->text)
		b->length = (SQLLEN)strlen(b->text);
	r = SQLBindParameter(s->stmt, i, SQL_PARAM_INPUT, SQL_C_CHAR, type, b->length > 0 ? (SQLULEN)b->length : 1, 0,
			     b->text, b->length > 0 ? b->length : 0, &b->length);
	return SQL_SUCCEEDED(r) ? 0
				: cbx_sql_fail(s, SQL_HANDLE_STMT, s->stmt, "query_failed", "bind a parameter", err);
}

static int bind_all(struct cbx_sql *s, size_t wanted, struct bound *bound, struct cbx_err *err)
{
	const cJSON *v;
	int i = 0, r = cbx_sql_count_parameters(s->job, wanted, err);

	cJSON_ArrayForEach(v, s->job->parameters) {
		if (r < 0)
			break;
		r = bind(s, (SQLUSMALLINT)(i + 1), v, &bound[i], err);
		i++;
	}
	return r;
}

/* ---- columns ---- */

static bool is_binary(const struct cbx_sql_column *c)
{
	return c->type == SQL_BINARY || c->type == SQL_VARBINARY || c->type == SQL_LONGVARBINARY;
}

static int describe(struct result *q, SQLUSMALLINT i, struct cbx_err *err)
{
	struct cbx_sql *s = q->out.sql;
	struct cbx_sql_column *c = &q->out.columns[i];
	char name[NAME_SIZE] = "", type_name[NAME_SIZE] = "";
	SQLLEN is_unsigned = 0;
	SQLSMALLINT n, digits = 0;
	SQLULEN size = 0;

	if (!SQL_SUCCEEDED(
		    SQLDescribeCol(s->stmt, i + 1, (SQLCHAR *)name, sizeof(name), &n, &c->type, &size, &digits, NULL)))
		return cbx_sql_fail(s, SQL_HANDLE_STMT, s->stmt, "query_failed", "describe a column", err);
	(void)SQLColAttribute(s->stmt, i + 1, SQL_DESC_TYPE_NAME, type_name, sizeof(type_name), &n, NULL);
	name[sizeof(name) - 1] = type_name[sizeof(type_name) - 1] = '\0';
	(void)SQLColAttribute(s->stmt, i + 1, SQL_DESC_UNSIGNED, NULL, 0, NULL, &is_unsigned);
	cbx_sql_column_name(c, name, type_name);
	cbx_sql_column_kind(c, s->job->dialect, size, digits, is_unsigned == SQL_TRUE);
	return 0;
}

static int describe_all(struct result *q, struct cbx_err *err)
{
	struct cbx_sql *s = q->out.sql;
	SQLSMALLINT n;
	int r;

	if (!SQL_SUCCEEDED(SQLNumResultCols(s->stmt, &n)))
		return cbx_sql_fail(s, SQL_HANDLE_STMT, s->stmt, "query_failed", "count the columns", err);
	r = cbx_sql_result_columns(&q->out, n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < q->out.n; i++)
		r = describe(q, (SQLUSMALLINT)i, err);
	return r;
}

/* ---- one value ---- */

static void to_hex(struct cbx_buf *value)
{
	_cleanup_buf_ struct cbx_buf hex = { 0 };
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < value->len; i++) {
		cbx_buf_addc(&hex, digits[(unsigned char)value->data[i] >> 4]);
		cbx_buf_addc(&hex, digits[(unsigned char)value->data[i] & 15]);
	}
	value->len = 0;
	cbx_buf_add(value, hex.data, hex.len);
}

/* Into q->value, binary ones as hexadecimal digits; *ret_null. */
static int get_value(struct result *q, size_t i, bool *ret_null, struct cbx_err *err)
{
	struct cbx_sql *s = q->out.sql;
	bool binary = is_binary(&q->out.columns[i]);
	SQLLEN left;
	SQLRETURN r;

	q->value.len = 0;
	do {
		char *at = cbx_buf_reserve(&q->value, KIB(8));
		size_t room = q->value.cap - q->value.len;

		r = SQLGetData(s->stmt, (SQLUSMALLINT)(i + 1), binary ? SQL_C_BINARY : SQL_C_CHAR, at, (SQLLEN)room,
			       &left);
		if (r == SQL_NO_DATA)
			break;
		if (!SQL_SUCCEEDED(r))
			return cbx_sql_fail(s, SQL_HANDLE_STMT, s->stmt, "query_failed", "read a value", err);
		*ret_null = left == SQL_NULL_DATA;
		if (*ret_null)
			break;
		if (r == SQL_SUCCESS && left >= 0 && (size_t)left <= room - !binary)
			q->value.len += (size_t)left;
		else
			q->value.len += binary ? room : strnlen(at, room - 1);
		if (q->value.len > CBX_SQL_VALUE_MAX)
			return cbx_sql_long_value(&q->out.columns[i], err);
	} while (r == SQL_SUCCESS_WITH_INFO);
	if (binary)
		to_hex(&q->value);
	return 0;
}

/* ---- rows ---- */

static int one_row(struct result *q, struct cbx_err *err)
{
	int r = cbx_sql_result_row(&q->out, err);

	for (size_t i = 0; r >= 0 && i < q->out.n; i++) {
		bool null = false;

		r = get_value(q, i, &null, err);
		if (r >= 0)
			cbx_sql_result_value(&q->out, i, null ? NULL : cbx_buf_str(&q->value), q->value.len);
	}
	return r < 0 ? r : cbx_sql_result_row_end(&q->out, err);
}

/* 1: there are more rows than are answered with. */
static int all_rows(struct result *q, struct cbx_err *err)
{
	struct cbx_sql *s = q->out.sql;
	int r = 0;

	while (r == 0) {
		SQLRETURN got = SQLFetch(s->stmt);

		if (got == SQL_NO_DATA)
			break;
		if (!SQL_SUCCEEDED(got))
			return cbx_sql_fail(s, SQL_HANDLE_STMT, s->stmt, "query_failed", "the query failed", err);
		r = one_row(q, err);
	}
	return r;
}

static int fetch(struct result *q, struct cbx_err *err)
{
	struct cbx_sql *s = q->out.sql;
	int r = describe_all(q, err);

	if (r >= 0)
		r = cbx_sql_result_begin(&q->out, err);
	if (r >= 0)
		r = all_rows(q, err);
	if (r != 0) /* the server has more, which nobody is going to read */
		(void)SQLCancel(s->stmt);
	return r < 0 ? r : cbx_sql_result_end(&q->out, r > 0, err);
}

void cbx_sql_cancel(void *stmt)
{
	(void)SQLCancel(stmt);
}

int cbx_sql_run(struct cbx_sql *s, const char *text, size_t parameters, struct cbx_err *err)
{
	struct result q = { .out.sql = s };
	size_t given = (size_t)cJSON_GetArraySize(s->job->parameters);
	_cleanup_free_ struct bound *bound = cbx_xcalloc(given + 1, sizeof(*bound));
	SQLRETURN got;
	int r = bind_all(s, parameters, bound, err);

	cbx_sql_watch_statement(s, cbx_sql_cancel, s->stmt);
	if (r >= 0) {
		got = SQLExecDirect(s->stmt, (SQLCHAR *)text, (SQLINTEGER)strlen(text));
		if (!SQL_SUCCEEDED(got))
			r = cbx_sql_fail(s, SQL_HANDLE_STMT, s->stmt, "query_failed", "the query failed", err);
	}
	if (r >= 0)
		r = fetch(&q, err);
	if (r < 0)
		(void)cbx_sql_cancelled(s, err); /* that is why */
	cbx_sql_watch_statement(s, NULL, NULL);
	for (size_t i = 0; i < given; i++)
		free(bound[i].text);
	cbx_buf_release(&q.value);
	cbx_sql_result_release(&q.out);
	return r;
}
