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
 *   run.c      the statement, and its rows; rows.c: as JSON and as CSV
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

/* run.c: execute it and send what comes of it; the last frame is not sent when it fails. */
int cbx_sql_run(struct cbx_sql *s, const char *text, size_t parameters, struct cbx_err *err);
int cbx_sql_send(struct cbx_sql *s, char type, const void *p, size_t n, struct cbx_err *err);
int cbx_sql_send_json(struct cbx_sql *s, char type, cJSON *o, struct cbx_err *err); /* takes it */

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
/* As RFC 4180 has it; NULL is an empty field, an empty string "". */
void cbx_sql_value_csv(struct cbx_buf *out, const char *p, size_t n);

/* watch.c: cancel the statement when the time is over or nobody waits for it any more. */
int cbx_sql_watch(struct cbx_sql *s, struct cbx_err *err);
void cbx_sql_watch_statement(struct cbx_sql *s, SQLHSTMT stmt); /* this one, from now on; SQL_NULL_HSTMT: none */
/* Why it was cancelled: true, and err is filled. */
bool cbx_sql_cancelled(struct cbx_sql *s, struct cbx_err *err);

#endif
