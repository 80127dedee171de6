/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd starts this program with the first query, before which it is a process that waits
 * (session/jobs.c). It takes jobs from its one socket, each a socket of its own, and forks for each: such a process
 * reads its job, which has the password, confines itself, asks the database and ends. As root the program becomes the
 * service's account first. It has no environment: drivers find nothing there that an operator did not mean for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "packages/job.h"
#include "sandbox/worker.h"
#include "sql/worker.h"

static int read_numbers(struct cbx_sql_job *job, struct cbx_err *err)
{
	static const char *const deliveries[] = { "inline", "auto", "file" };
	int delivery = cbx_find_word(cbx_json_text(job->root, "delivery"), deliveries, ARRAY_SIZE(deliveries));

	job->port = cbx_json_u64(job->connection, "port");
	job->inline_rows = cbx_json_u64(job->root, "inline_rows");
	job->inline_bytes = cbx_json_u64(job->root, "inline_bytes");
	job->rows = cbx_json_u64(job->root, "rows");
	job->bytes = cbx_json_u64(job->root, "bytes");
	job->timeout_ms = cbx_json_u64(job->root, "timeout_ms");
	if (delivery < 0)
		return cbx_refuse(err, "protocol", EINVAL, "the job says no delivery");
	job->delivery = (unsigned)delivery;
	return 0;
}

static int read_job(cJSON *root, struct cbx_sql_job *job, struct cbx_err *err)
{
	static const char *const types[] = { [CBX_SQL_POSTGRESQL] = "postgresql",
					     [CBX_SQL_MYSQL] = "mysql",
					     [CBX_SQL_SQLSERVER] = "sqlserver",
					     [CBX_SQL_SQLITE] = "sqlite" };
	const cJSON *c = cbx_json_member(root, "connection");
	int type = cbx_find_word(cbx_json_text(c, "type"), types, ARRAY_SIZE(types));

	*job = (struct cbx_sql_job){ .root = root,
				     .connection = c,
				     .parameters = cbx_json_member(root, "parameters"),
				     .schema = cJSON_IsTrue(cbx_json_member(root, "schema")),
				     .kinds = cJSON_IsTrue(cbx_json_member(root, "kinds")),
				     .query = cbx_json_text(root, "query"),
				     .server = cbx_json_text(c, "server"),
				     .database = cbx_json_text(c, "database"),
				     .user = cbx_json_text(c, "user"),
				     .tls = cbx_json_text(c, "tls"),
				     .ca = cbx_json_text(c, "ca"),
				     .password = cbx_json_text(root, "password"),
				     .null = cbx_json_text(root, "null") };
	if (type < 0 || (!job->query && !job->schema) || !job->database ||
	    (type != CBX_SQL_SQLITE && (!job->server || !job->tls)))
		return cbx_refuse(err, "protocol", EINVAL, "the job is not complete");
	job->dialect = (unsigned)type;
	return read_numbers(job, err);
}

static int serve(struct cbx_sql *s, const struct cbx_filter *filter, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 }, query = { 0 };
	struct cbx_sql_job job;
	size_t parameters = 0;
	int r = cbx_read_whole(s->sock, CBX_JOB_MAX, &text);

	if (r < 0)
		return cbx_fail(err, -r, "read a job");
	r = cbx_json_parse(cbx_buf_str(&text), text.len, &doc, err);
	cbx_buf_wipe(&text);
	if (r >= 0)
		r = read_job(doc.root, &job, err);
	s->job = &job;
	if (r >= 0)
		r = cbx_sql_prepare(&job, err);
	if (r >= 0)
		r = cbx_sql_confine(filter, &job, err);
	if (r >= 0 && !job.schema)
		r = cbx_sql_judge(job.dialect, job.query, strlen(job.query), &query, &parameters, err);
	if (r >= 0)
		r = cbx_sql_watch(s, err);
	if (r >= 0)
		r = cbx_sql_connect(s, err);
	if (r >= 0 && job.schema)
		return cbx_sql_schema(s, err);
	if (r < 0)
		return r;
	return s->pq ? cbx_sql_pq_run(s, cbx_buf_str(&query), parameters, err)
		     : cbx_sql_run(s, cbx_buf_str(&query), parameters, err);
}

/* The process of one query. */
static void begin(int sock, void *filter)
{
	struct cbx_sql s = { .sock = sock };
	struct cbx_err err = { 0 }, ignored;

	if (serve(&s, filter, &err) < 0) {
		_cleanup_json_ cJSON *o = cbx_json_of_error(&err);
		_cleanup_buf_ struct cbx_buf text = { 0 };

		cbx_json_print(&text, o);
		(void)cbx_sql_send(&s, CBX_SQL_END, text.data, text.len, &ignored);
	}
	cbx_sql_disconnect(&s);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct cbx_filter filter = { 0 };
	struct cbx_err err;

	if (argc != 1 || fcntl(CBX_JOB_SOCKET, F_GETFD) < 0) {
		fprintf(stderr, "codebox-sql is started by codeboxd; see codeboxd(8).\n");
		return 2;
	}
	if (cbx_worker_begin("sql", &filter, &err) < 0) {
		fprintf(stderr, "codebox-sql: %s\n", err.msg);
		return 1;
	}
	clearenv();
	setlocale(LC_ALL, "C.UTF-8");
	cbx_worker_take_jobs(CBX_JOB_SOCKET, begin, &filter); /* queries see by themselves that codeboxd has gone */
	return 0;
}
