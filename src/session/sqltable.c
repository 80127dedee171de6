/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: files of Arrow and Parquet are written by pyarrow in the session, which is where such libraries
 * are to meet hostile bytes. The rows of a database come as CSV all the same, and are passed to the standard input of a
 * program in the sandbox (runtimes/python/query.py), a piece after another, so that nothing gathers here. Its file has
 * no name before it is complete; a query that fails on the way kills it.
 */
#include "base/cleanup.h"
#include "session/query.h"

static void go_on(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_sql_query *q = arg;

	if (q->done)
		return;
	cbx_job_pause(&q->job, false);
	cbx_query_some(q);
}

/* Whoever says so is in the middle of something. */
void cbx_query_table_fed(struct cbx_sql_query *q)
{
	q->text.len = 0;
	q->feeding = false;
	event_active(q->go_on, EV_TIMEOUT, 1);
}

int cbx_query_table_begin(struct cbx_sql_query *q, struct cbx_err *err)
{
	_cleanup_json_ cJSON *line = cbx_json_new_obj();
	cJSON *columns = cbx_json_member(q->answer, "columns"), *c;

	q->go_on = event_new(q->engine->base, -1, 0, go_on, q);
	if (!q->go_on)
		return cbx_fail(err, ENOMEM, "write a file");
	cbx_json_set_str(line, "type", "rows");
	cbx_json_set_str(line, "path", q->path);
	cbx_json_set_str(line, "format", q->format);
	cbx_json_set(line, "columns", cJSON_Duplicate(columns, 1));
	cJSON_ArrayForEach(c, columns)
		cJSON_DeleteItemFromObjectCaseSensitive(c, "kind");
	q->table = q->feeding = true;
	cbx_job_pause(&q->job, true);
	return cbx_query_program(q, line, q->timeout_ms, err);
}

/* A program that takes no more is about to end, and then its answer is why. */
void cbx_query_table_give(struct cbx_sql_query *q, const char *p, size_t n)
{
	struct cbx_err ignored;

	cbx_buf_add(&q->text, p, n);
	if (cbx_command_input(q->command.command, q->text.data, q->text.len, &q->input, &ignored) > 0) {
		q->text.len = 0;
		return;
	}
	q->feeding = true;
	cbx_job_pause(&q->job, true);
}

void cbx_query_table_end(struct cbx_sql_query *q, uint64_t rows)
{
	struct cbx_err ignored;

	q->step = FINISHING;
	q->rows = rows;
	(void)cbx_command_input(q->command.command, NULL, 0, &q->input, &ignored);
}
