/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: rows are fetched one after another, and what a result needs does not grow with it. It is kept as
 * JSON and as CSV until it is too large to be answered with; from then on it is CSV alone, which is sent in pieces.
 * codeboxd reads the next piece when the session's file has the one before, and the socket keeps this process waiting.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/frame.h"
#include "base/limits.h"
#include "sql/worker.h"

#define BOUND_MAX KIB(4) /* bytes of a column that is bound, where its length has a bound */
#define BOUND_ANY KIB(1) /* where it has none; longer values are fetched in pieces */
#define BOUND_ALL MIB(32)
#define ROWSET	  128
#define NAME_SIZE KIB(1) /* what is read of a column's name; a character may be cut behind what is kept of it */

struct cell {
	char *data;
	SQLLEN *lengths;
	size_t size; /* 0: it is not bound */
	bool open;   /* values may be longer */
};

struct result {
	struct cbx_sql *sql;
	struct cbx_sql_column *columns;
	struct cell *cells;
	SQLSMALLINT n;
	SQLULEN fetched; /* rows of the rowset */
	size_t rowset;
	cJSON *rows; /* NULL: it is streamed */
	struct cbx_buf csv, value;
	uint64_t count, bytes, inline_bytes;
};

int cbx_sql_send(struct cbx_sql *s, char type, const void *p, size_t n, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf frame = { 0 };
	_cleanup_buf_ struct cbx_buf body = { 0 };
	int r;

	cbx_buf_addc(&body, type);
	cbx_buf_add(&body, p, n);
	cbx_frame_append(&frame, body.data, body.len);
	r = cbx_write_all(s->sock, frame.data, frame.len);
	return r < 0 ? cbx_fail(err, -r, "answer") : 0;
}

int cbx_sql_send_json(struct cbx_sql *s, char type, cJSON *o, struct cbx_err *err)
{
	_cleanup_json_ cJSON *owned = o;
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print(&text, owned);
	return cbx_sql_send(s, type, text.data, text.len, err);
}

/* ---- parameters ---- */

struct bound {
	char *text;
	SQLLEN length;
};

static int bind(struct cbx_sql *s, SQLUSMALLINT i, const cJSON *v, struct bound *b, struct cbx_err *err)
{
	SQLSMALLINT type = SQL_VARCHAR;
	SQLRETURN r;

	if (cJSON_IsNull(v)) {
		b->length = SQL_NULL_DATA;
	} else if (cJSON_IsBool(v)) {
		b->text = cbx_xstrdup(cJSON_IsTrue(v) ? "1" : "0");
		type = s->job->dialect == CBX_SQL_POSTGRESQL || s->job->dialect == CBX_SQL_SQLSERVER ? SQL_BIT
												     : SQL_INTEGER;
	} else if (cJSON_IsNumber(v)) {
		_cleanup_buf_ struct cbx_buf text = { 0 };

		cbx_json_print(&text, v);
		type = strpbrk(cbx_buf_str(&text), ".eE") ? SQL_DOUBLE : SQL_BIGINT;
		b->text = cbx_buf_steal(&text);
	} else if (cJSON_IsString(v)) {
		b->text = cbx_xstrdup(v->valuestring);
	} else {
		return cbx_refuse(
			err, "invalid_argument", EINVAL,
			"parameters: number %u has the wrong type; give a string, a number, true, false or null", i);
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
	size_t given = (size_t)cJSON_GetArraySize(s->job->parameters);
	const cJSON *v;
	int i = 0, r = 0;

	if (given != wanted)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "parameters: %zu are given; give %zu, one for each ? of the query outside of quotes",
				  given, wanted);
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
	struct cbx_sql *s = q->sql;
	struct cbx_sql_column *c = &q->columns[i];
	struct cell *cell = &q->cells[i];
	char name[NAME_SIZE] = "", type_name[NAME_SIZE] = "";
	SQLLEN display = 0, is_unsigned = 0;
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
	(void)SQLColAttribute(s->stmt, i + 1, SQL_DESC_DISPLAY_SIZE, NULL, 0, NULL, &display);
	/* Characters of UTF-8 have up to four bytes. */
	if (display > 0 && (size_t)display * 4 + 1 <= BOUND_MAX)
		cell->size = (size_t)display * 4 + 1;
	return 0;
}

static int describe_all(struct result *q, struct cbx_err *err)
{
	struct cbx_sql *s = q->sql;
	int r = 0;

	if (!SQL_SUCCEEDED(SQLNumResultCols(s->stmt, &q->n)))
		return cbx_sql_fail(s, SQL_HANDLE_STMT, s->stmt, "query_failed", "count the columns", err);
	if (q->n < 1 || q->n > CBX_SQL_COLUMNS_MAX)
		return cbx_refuse(err, "query_failed", ERANGE, "the result has %d columns; from 1 to %d are possible",
				  q->n, CBX_SQL_COLUMNS_MAX);
	q->columns = cbx_xcalloc((size_t)q->n, sizeof(*q->columns));
	q->cells = cbx_xcalloc((size_t)q->n, sizeof(*q->cells));
	for (SQLSMALLINT i = 0; r >= 0 && i < q->n; i++)
		r = describe(q, (SQLUSMALLINT)i, err);
	return r;
}

/* Whether many rows can be fetched at once: not for drivers that cannot read a longer value of one of them afterwards.
 */
static bool fits_rowset(struct result *q)
{
	enum cbx_dialect dialect = q->sql->job->dialect;
	bool all = dialect == CBX_SQL_POSTGRESQL || dialect == CBX_SQL_SQLSERVER;
	size_t bytes = 0;

	for (SQLSMALLINT i = 0; i < q->n; i++) {
		struct cell *c = &q->cells[i];

		/* Its driver says 255 of texts whose length has no bound, and the length of the longest so far of others. */
		c->open = dialect == CBX_SQL_POSTGRESQL;
		if (c->open && !c->size)
			c->size = BOUND_ANY;
		all &= c->size > 0 && !is_binary(&q->columns[i]);
		bytes += c->size * ROWSET;
	}
	return all && bytes <= BOUND_ALL;
}

/* Else one by one, and each value in pieces. */
static int prepare(struct result *q, struct cbx_err *err)
{
	struct cbx_sql *s = q->sql;
	bool all = fits_rowset(q);

	q->rowset = 1;
	q->fetched = 1;
	if (all && SQL_SUCCEEDED(SQLSetStmtAttr(s->stmt, SQL_ATTR_ROW_ARRAY_SIZE, (SQLPOINTER)ROWSET, 0)) &&
	    SQL_SUCCEEDED(SQLSetStmtAttr(s->stmt, SQL_ATTR_ROWS_FETCHED_PTR, &q->fetched, 0)))
		q->rowset = ROWSET;
	for (SQLSMALLINT i = 0; i < q->n; i++) {
		struct cell *c = &q->cells[i];

		if (q->rowset == 1) {
			c->size = 0;
			continue;
		}
		c->data = cbx_xcalloc(q->rowset, c->size);
		c->lengths = cbx_xcalloc(q->rowset, sizeof(*c->lengths));
		if (!SQL_SUCCEEDED(SQLBindCol(s->stmt, (SQLUSMALLINT)(i + 1), SQL_C_CHAR, c->data, (SQLLEN)c->size,
					      c->lengths)))
			return cbx_sql_fail(s, SQL_HANDLE_STMT, s->stmt, "query_failed", "bind a column", err);
	}
	cbx_buf_reserve(&q->value, KIB(16));
	return 0;
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
static int get_value(struct result *q, SQLSMALLINT i, bool *ret_null, struct cbx_err *err)
{
	struct cbx_sql *s = q->sql;
	bool binary = is_binary(&q->columns[i]);
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
			return cbx_refuse(err, "result_too_large", EFBIG,
					  "%s: a value has more than %zu bytes; ask for a part of it",
					  q->columns[i].name, (size_t)CBX_SQL_VALUE_MAX);
	} while (r == SQL_SUCCESS_WITH_INFO);
	if (binary)
		to_hex(&q->value);
	return 0;
}

/* One that was bound: 1, unless it is longer than the place for it. */
static int bound_value(struct result *q, size_t row, SQLSMALLINT i, const char **ret, size_t *ret_n,
		       struct cbx_err *err)
{
	const struct cell *c = &q->cells[i];
	SQLLEN length = c->lengths[row];

	*ret = length == SQL_NULL_DATA ? NULL : c->data + row * c->size;
	*ret_n = *ret && length > 0 ? (size_t)length : 0;
	if (length != SQL_NO_TOTAL && *ret_n < c->size)
		return 1;
	if (!c->open)
		return cbx_refuse(err, "query_failed", EOVERFLOW, "%s: the driver gave a value longer than it had said",
				  q->columns[i].name);
	if (!SQL_SUCCEEDED(SQLSetPos(q->sql->stmt, row + 1, SQL_POSITION, SQL_LOCK_NO_CHANGE)))
		return cbx_sql_fail(q->sql, SQL_HANDLE_STMT, q->sql->stmt, "query_failed", "read a long value", err);
	return 0;
}

static int one_value(struct result *q, size_t row, SQLSMALLINT i, cJSON *json, struct cbx_err *err)
{
	const char *p = NULL;
	size_t n = 0;
	bool null = false;
	int r = q->cells[i].data ? bound_value(q, row, i, &p, &n, err) : 0;

	if (r == 0) {
		r = get_value(q, i, &null, err);
		p = null ? NULL : cbx_buf_str(&q->value);
		n = q->value.len;
	}
	if (r < 0)
		return r;
	if (json)
		cbx_sql_value_json(json, &q->columns[i], p, n);
	if (p && q->columns[i].type == SQL_BIT && n == 1) {
		p = *p == '0' ? "false" : "true";
		n = strlen(p);
	}
	if (!p && q->sql->job->null)
		cbx_buf_adds(&q->csv, q->sql->job->null);
	else
		cbx_sql_value_csv(&q->csv, p, n);
	return 0;
}

/* ---- rows ---- */

static int flush(struct result *q, size_t least, struct cbx_err *err)
{
	size_t at = 0;
	int r = 0;

	while (r >= 0 && q->csv.len - at >= least && q->csv.len > at) {
		size_t n = q->csv.len - at < CBX_SQL_PIECE ? q->csv.len - at : CBX_SQL_PIECE;

		r = cbx_sql_send(q->sql, CBX_SQL_DATA, q->csv.data + at, n, err);
		at += n;
		q->bytes += n;
	}
	cbx_buf_drop(&q->csv, at);
	if (r >= 0 && q->bytes > q->sql->job->bytes)
		return cbx_refuse(err, "result_too_large", EFBIG,
				  "the result has more than %llu bytes, the limit of the policy (sql.result_size); "
				  "nothing of it was "
				  "kept: ask for less",
				  (unsigned long long)q->sql->job->bytes);
	return r;
}

/* From now on it is a file. */
static int begin_file(struct result *q, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf rows = { 0 };
	cJSON *o = cbx_json_new_obj();

	cJSON_Delete(take_ptr(&q->rows));
	cbx_json_set(o, "columns", cbx_sql_columns_json(q->columns, (size_t)q->n, q->sql->job->kinds));
	if (q->sql->job->kinds)
		return cbx_sql_send_json(q->sql, CBX_SQL_FILE, o, err);
	cbx_buf_add(&rows, q->csv.data, q->csv.len);
	q->csv.len = 0;
	for (SQLSMALLINT i = 0; i < q->n; i++) {
		if (i)
			cbx_buf_addc(&q->csv, ',');
		cbx_sql_value_csv(&q->csv, q->columns[i].name, strlen(q->columns[i].name));
	}
	cbx_buf_adds(&q->csv, "\r\n");
	cbx_buf_add(&q->csv, rows.data, rows.len);
	return cbx_sql_send_json(q->sql, CBX_SQL_FILE, o, err);
}

/* Of a row in an answer, which has it twice, as JSON and as text: more than in a file, where a NULL is nothing, and a
 * control character one byte. */
static size_t inline_size(const char *csv, size_t len, SQLSMALLINT columns)
{
	size_t size = len + 4 * (size_t)columns;

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)csv[i] < ' ' || csv[i] == '\\' || csv[i] == 127)
			size += 5;
	return size;
}

/* 0: there is room for the next one. 1: not in an answer. */
static int one_row(struct result *q, size_t row, struct cbx_err *err)
{
	const struct cbx_sql_job *job = q->sql->job;
	_cleanup_json_ cJSON *json = q->rows ? cbx_json_new_arr() : NULL;
	size_t before = q->csv.len;
	int r = 0;

	if (q->count >= job->rows)
		return cbx_refuse(err, "result_too_large", EFBIG,
				  "the result has more than %llu rows, the limit of the policy (sql.rows); nothing of "
				  "it was kept: "
				  "add a LIMIT",
				  (unsigned long long)job->rows);
	for (SQLSMALLINT i = 0; r >= 0 && i < q->n; i++) {
		if (i)
			cbx_buf_addc(&q->csv, ',');
		r = one_value(q, row, i, json, err);
	}
	/* One empty field alone would be an empty line, which readers take for none. */
	if (r >= 0 && q->n == 1 && q->csv.len == before && !job->kinds)
		cbx_buf_adds(&q->csv, "\"\"");
	if (r < 0)
		return r;
	if (q->rows)
		q->inline_bytes += inline_size(cbx_buf_str(&q->csv) + before, q->csv.len - before, q->n);
	cbx_buf_adds(&q->csv, "\r\n");
	if (q->rows && (q->count >= job->inline_rows || q->inline_bytes > job->inline_bytes)) {
		if (job->delivery == CBX_SQL_INLINE) {
			q->csv.len = before;
			return 1;
		}
		r = begin_file(q, err);
	}
	q->count++;
	if (q->rows)
		cbx_json_push(q->rows, take_ptr(&json));
	else if (r >= 0)
		r = flush(q, CBX_SQL_PIECE, err);
	return r;
}

/* 1: there are more rows than are answered with. */
static int all_rows(struct result *q, struct cbx_err *err)
{
	struct cbx_sql *s = q->sql;
	int r = 0;

	while (r == 0) {
		SQLRETURN got = SQLFetch(s->stmt);

		if (got == SQL_NO_DATA)
			break;
		if (!SQL_SUCCEEDED(got))
			return cbx_sql_fail(s, SQL_HANDLE_STMT, s->stmt, "query_failed", "the query failed", err);
		for (size_t i = 0; r == 0 && i < q->fetched; i++)
			r = one_row(q, i, err);
	}
	return r;
}

static int answer(struct result *q, bool more, struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_u64(o, "row_count", q->count);
	if (!q->rows)
		return cbx_sql_send_json(q->sql, CBX_SQL_END, o, err);
	cbx_json_set(o, "columns", cbx_sql_columns_json(q->columns, (size_t)q->n, false));
	cbx_json_set(o, "rows", take_ptr(&q->rows));
	if (more)
		cbx_json_set_bool(o, "more", true);
	return cbx_sql_send_json(q->sql, CBX_SQL_RESULT, o, err);
}

static int fetch(struct result *q, struct cbx_err *err)
{
	struct cbx_sql *s = q->sql;
	bool more;
	int r = describe_all(q, err);

	if (r >= 0)
		r = prepare(q, err);
	if (r >= 0 && s->job->delivery == CBX_SQL_TO_FILE)
		r = begin_file(q, err);
	else if (r >= 0)
		q->rows = cbx_json_new_arr();
	if (r >= 0)
		r = all_rows(q, err);
	more = r > 0;
	if (more || r < 0) /* the server has more, which nobody is going to read */
		(void)SQLCancel(s->stmt);
	if (r >= 0 && !q->rows)
		r = flush(q, 1, err);
	return r < 0 ? r : answer(q, more, err);
}

int cbx_sql_run(struct cbx_sql *s, const char *text, size_t parameters, struct cbx_err *err)
{
	struct result q = { .sql = s };
	size_t given = (size_t)cJSON_GetArraySize(s->job->parameters);
	_cleanup_free_ struct bound *bound = cbx_xcalloc(given + 1, sizeof(*bound));
	SQLRETURN got;
	int r = bind_all(s, parameters, bound, err);

	cbx_sql_watch_statement(s, s->stmt);
	if (r >= 0) {
		got = SQLExecDirect(s->stmt, (SQLCHAR *)text, (SQLINTEGER)strlen(text));
		if (!SQL_SUCCEEDED(got))
			r = cbx_sql_fail(s, SQL_HANDLE_STMT, s->stmt, "query_failed", "the query failed", err);
	}
	if (r >= 0)
		r = fetch(&q, err);
	if (r < 0)
		(void)cbx_sql_cancelled(s, err); /* that is why */
	cbx_sql_watch_statement(s, SQL_NULL_HSTMT);
	for (size_t i = 0; i < given; i++)
		free(bound[i].text);
	for (SQLSMALLINT i = 0; q.cells && i < q.n; i++) {
		free(q.cells[i].data);
		free(q.cells[i].lengths);
	}
	free(q.cells);
	free(q.columns);
	cJSON_Delete(q.rows);
	cbx_buf_release(&q.csv);
	cbx_buf_release(&q.value);
	return r;
}
