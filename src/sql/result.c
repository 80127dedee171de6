/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a result needs does not grow with it. It is kept as JSON and as CSV until it is too large
 * to be answered with; from then on it is CSV alone, which is sent in pieces. codeboxd reads the next piece when the
 * session's file has the one before, and the socket keeps this process waiting.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/frame.h"
#include "base/limits.h"
#include "sql/worker.h"

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

static int flush(struct cbx_sql_result *q, size_t least, struct cbx_err *err)
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

/* ---- the result ---- */

/* From now on it is a file. */
static int begin_file(struct cbx_sql_result *q, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf rows = { 0 };
	cJSON *o = cbx_json_new_obj();

	cJSON_Delete(take_ptr(&q->rows));
	cJSON_Delete(take_ptr(&q->row));
	cbx_json_set(o, "columns", cbx_sql_columns_json(q->columns, q->n, q->sql->job->kinds));
	if (q->sql->job->kinds)
		return cbx_sql_send_json(q->sql, CBX_SQL_FILE, o, err);
	cbx_buf_add(&rows, q->csv.data, q->csv.len);
	q->csv.len = 0;
	for (size_t i = 0; i < q->n; i++) {
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
static size_t inline_size(const char *csv, size_t len, size_t columns)
{
	size_t size = len + 4 * columns;

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)csv[i] < ' ' || csv[i] == '\\' || csv[i] == 127)
			size += 5;
	return size;
}

int cbx_sql_result_columns(struct cbx_sql_result *q, int n, struct cbx_err *err)
{
	if (n < 1 || n > CBX_SQL_COLUMNS_MAX)
		return cbx_refuse(err, "query_failed", ERANGE, "the result has %d columns; from 1 to %d are possible",
				  n, CBX_SQL_COLUMNS_MAX);
	q->n = (size_t)n;
	q->columns = cbx_xcalloc(q->n, sizeof(*q->columns));
	return 0;
}

int cbx_sql_result_begin(struct cbx_sql_result *q, struct cbx_err *err)
{
	if (q->sql->job->delivery == CBX_SQL_TO_FILE)
		return begin_file(q, err);
	q->rows = cbx_json_new_arr();
	return 0;
}

int cbx_sql_result_row(struct cbx_sql_result *q, struct cbx_err *err)
{
	if (q->count >= q->sql->job->rows)
		return cbx_refuse(err, "result_too_large", EFBIG,
				  "the result has more than %llu rows, the limit of the policy (sql.rows); nothing of "
				  "it was kept: "
				  "add a LIMIT",
				  (unsigned long long)q->sql->job->rows);
	q->before = q->csv.len;
	if (q->rows)
		q->row = cbx_json_new_arr();
	return 0;
}

void cbx_sql_result_value(struct cbx_sql_result *q, size_t i, const char *p, size_t n)
{
	if (i)
		cbx_buf_addc(&q->csv, ',');
	if (q->row)
		cbx_sql_value_json(q->row, &q->columns[i], p, n);
	if (p && q->columns[i].type == SQL_BIT && n == 1) {
		p = *p == '0' ? "false" : "true";
		n = strlen(p);
	}
	if (!p && q->sql->job->null)
		cbx_buf_adds(&q->csv, q->sql->job->null);
	else
		cbx_sql_value_csv(&q->csv, p, n);
}

int cbx_sql_result_row_end(struct cbx_sql_result *q, struct cbx_err *err)
{
	const struct cbx_sql_job *job = q->sql->job;
	int r = 0;

	/* One empty field alone would be an empty line, which readers take for none. */
	if (q->n == 1 && q->csv.len == q->before && !job->kinds)
		cbx_buf_adds(&q->csv, "\"\"");
	if (q->rows)
		q->inline_bytes += inline_size(cbx_buf_str(&q->csv) + q->before, q->csv.len - q->before, q->n);
	cbx_buf_adds(&q->csv, "\r\n");
	if (q->rows && (q->count >= job->inline_rows || q->inline_bytes > job->inline_bytes)) {
		if (job->delivery == CBX_SQL_INLINE) {
			q->csv.len = q->before;
			return 1;
		}
		r = begin_file(q, err);
	}
	q->count++;
	if (q->rows)
		cbx_json_push(q->rows, take_ptr(&q->row));
	else if (r >= 0)
		r = flush(q, CBX_SQL_PIECE, err);
	return r;
}

int cbx_sql_result_end(struct cbx_sql_result *q, bool more, struct cbx_err *err)
{
	int r = q->rows ? 0 : flush(q, 1, err);
	cJSON *o;

	if (r < 0)
		return r;
	o = cbx_json_new_obj();
	cbx_json_set_u64(o, "row_count", q->count);
	if (!q->rows)
		return cbx_sql_send_json(q->sql, CBX_SQL_END, o, err);
	cbx_json_set(o, "columns", cbx_sql_columns_json(q->columns, q->n, false));
	cbx_json_set(o, "rows", take_ptr(&q->rows));
	if (more)
		cbx_json_set_bool(o, "more", true);
	return cbx_sql_send_json(q->sql, CBX_SQL_RESULT, o, err);
}

void cbx_sql_result_release(struct cbx_sql_result *q)
{
	free(q->columns);
	cJSON_Delete(q->rows);
	cJSON_Delete(q->row);
	cbx_buf_release(&q->csv);
}
