/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SQL_WORKER_H
#define CBX_SQL_WORKER_H

/*
 * Inside of codebox-sql, the one program that talks to databases. Each query is a process of its own:
 *
 *   main.c     takes jobs, and forks for each
 *   confine.c  what the process of a query gives up
 *   judge.c    whether a statement only reads; words.c: what it knows by name
 *   connect.c  from a job to a connection whose transaction is read-only
 *   run.c      the statement, and its rows, by a driver
 *   postgresql.c  the same by PostgreSQL's own client; libpq.c: that library
 *   result.c   what becomes of rows; rows.c: of one value
 *   schema.c   in place of a statement: the tables that there are
 *   watch.c    the thread that cancels
 */
#include <stdbool.h>
#include <stdint.h>
#include <sql.h>
#include <sqlext.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "sandbox/seccomp.h"
#include "sql/job.h"
#include "sql/judge.h"

struct cbx_sql_job {
	cJSON *root; /* borrowed */
	const cJSON *connection, *parameters;
	enum cbx_dialect dialect;
	bool schema; /* is asked for; there is no query */
	bool kinds;  /* of columns are said, and a file has no header */
	const char *query, *server, *database, *user, *password, *tls, *ca, *null;
	uint64_t port, inline_rows, inline_bytes, rows, bytes, timeout_ms;
	enum { CBX_SQL_INLINE, CBX_SQL_AUTO, CBX_SQL_TO_FILE } delivery;
};

struct cbx_sql {
	const struct cbx_sql_job *job;
	int sock;
	SQLHENV env;
	SQLHDBC dbc;
	SQLHSTMT stmt;
	struct cbx_sql_pq *pq; /* in place of these three */
	/* The first column of all rows, a line each, behind what ret has; NULL: it is executed. */
	int (*ask)(struct cbx_sql *s, const char *text, struct cbx_buf *ret, struct cbx_err *err);
	struct cbx_sql_watch *watch;
};

/* confine.c */
int cbx_sql_confine(const struct cbx_filter *filter, const struct cbx_sql_job *job, struct cbx_err *err);

/* connect.c. What has to be done while files can still be written: settings of drivers. */
int cbx_sql_prepare(const struct cbx_sql_job *job, struct cbx_err *err);
/* All of it is undone, and the transaction rolled back, by cbx_sql_disconnect(). */
int cbx_sql_connect(struct cbx_sql *s, struct cbx_err *err);
void cbx_sql_disconnect(struct cbx_sql *s);
/* What the driver says of a handle, without the password. */
int cbx_sql_fail(struct cbx_sql *s, SQLSMALLINT type, SQLHANDLE handle, const char *kind, const char *what,
		 struct cbx_err *err);

/* The same without a driver's handle: `said` is what the driver says. */
int cbx_sql_refuse(struct cbx_sql *s, const char *kind, const char *what, const char *said, const char *state,
		   struct cbx_err *err);

/* postgresql.c: the connection (sslrootcert may be NULL), and a query with n parameters and all that comes of it. */
int cbx_sql_pq_connect(struct cbx_sql *s, const char *sslmode, const char *sslrootcert, struct cbx_err *err);
void cbx_sql_pq_disconnect(struct cbx_sql *s);
int cbx_sql_pq_run(struct cbx_sql *s, const char *text, size_t n, struct cbx_err *err);
void cbx_sql_pq_cancel(void *sql); /* a struct cbx_sql */
/* Each row of a query of ours with n parameters. Fields are text, and NULL is "". false: that is enough. */
#define CBX_SQL_PQ_FIELDS 12
typedef bool cbx_sql_pq_row_fn(void *arg, const char *const fields[CBX_SQL_PQ_FIELDS]);
int cbx_sql_pq_catalog(struct cbx_sql *s, const char *text, const char *const *values, size_t n, cbx_sql_pq_row_fn *row,
		       void *arg, struct cbx_err *err);

/* run.c: execute it and send what comes of it; the last frame is not sent when it fails. */
int cbx_sql_run(struct cbx_sql *s, const char *text, size_t parameters, struct cbx_err *err);
/* As many are given as the query wants. */
int cbx_sql_count_parameters(const struct cbx_sql_job *job, size_t wanted, struct cbx_err *err);
int cbx_sql_wrong_parameter(size_t i, struct cbx_err *err); /* from 1 */

/* schema.c: send it, as the last frame. */
int cbx_sql_schema(struct cbx_sql *s, struct cbx_err *err);

/* rows.c */
struct cbx_sql_column {
	SQLSMALLINT type;
	char name[256], type_name[64]; /* UTF-8 */
	char kind[24];
};
/* As its driver says them: cut to their places, and made valid UTF-8. */
void cbx_sql_column_name(struct cbx_sql_column *c, const char *name, const char *type_name);
/* size, digits: as SQLDescribeCol() has them. */
void cbx_sql_column_kind(struct cbx_sql_column *c, enum cbx_dialect dialect, uint64_t size, int digits,
			 bool is_unsigned);
cJSON *cbx_sql_columns_json(const struct cbx_sql_column *columns, size_t n, bool kinds);
/* p NULL: SQL's NULL. */
void cbx_sql_value_json(cJSON *row, const struct cbx_sql_column *c, const char *p, size_t n);
int cbx_sql_long_value(const struct cbx_sql_column *c, struct cbx_err *err);
/* As RFC 4180 has it; NULL is an empty field, an empty string "". */
void cbx_sql_value_csv(struct cbx_buf *out, const char *p, size_t n);

/* result.c. For each row: _row(), each value in turn or the whole row as text into csv, _row_end(). */
struct cbx_sql_result {
	struct cbx_sql *sql;
	struct cbx_sql_column *columns; /* malloc'd */
	size_t n;
	cJSON *rows, *row; /* NULL: it is a file */
	struct cbx_buf csv;
	size_t before; /* of it: what is there of earlier rows */
	uint64_t count, bytes, inline_bytes;
};
/* Place for n of them. */
int cbx_sql_result_columns(struct cbx_sql_result *q, int n, struct cbx_err *err);
int cbx_sql_result_begin(struct cbx_sql_result *q, struct cbx_err *err); /* the columns are known */
int cbx_sql_result_row(struct cbx_sql_result *q, struct cbx_err *err);
void cbx_sql_result_value(struct cbx_sql_result *q, size_t i, const char *p, size_t n); /* p NULL: SQL's NULL */
/* 0: there is room for the next one. 1: not in an answer. */
int cbx_sql_result_row_end(struct cbx_sql_result *q, struct cbx_err *err);
int cbx_sql_result_end(struct cbx_sql_result *q, bool more, struct cbx_err *err); /* the last frame */
void cbx_sql_result_release(struct cbx_sql_result *q);
int cbx_sql_send(struct cbx_sql *s, char type, const void *p, size_t n, struct cbx_err *err);
int cbx_sql_send_json(struct cbx_sql *s, char type, cJSON *o, struct cbx_err *err); /* takes it */

/* watch.c: cancel the statement when the time is over or nobody waits for it any more. */
int cbx_sql_watch(struct cbx_sql *s, struct cbx_err *err);
/* How to cancel it, from now on, which another thread does; NULL: there is nothing to cancel. */
void cbx_sql_watch_statement(struct cbx_sql *s, void (*cancel)(void *arg), void *arg);
void cbx_sql_cancel(void *stmt); /* a statement of a driver */
/* Why it was cancelled: true, and err is filled. */
bool cbx_sql_cancelled(struct cbx_sql *s, struct cbx_err *err);

#endif
