/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: PostgreSQL is asked through its own client, libpq, and not through its ODBC driver, which gives
 * some values another form (a time without its zone, infinity as a day in 9999, a UUID in capitals), and which asks for
 * some rows, waits for them, and asks again. Here the server sends while rows are read, and they come as it writes
 * them: one by one, or, where a file is wanted, as CSV already, by COPY. COPY takes no parameters; a query that has
 * some goes the other way.
 *
 * What is said before the query and what is examined stands in connect.c, as for other databases.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "sql/libpq.h"
#include "sql/worker.h"

#define STATEMENT "query" /* its name: one without a name is gone with the next that is sent */

struct cbx_sql_pq {
	struct cbx_libpq f;
	PGconn *conn;
	PGcancel *cancel;
};

/* Takes the result. */
static int fail(struct cbx_sql *s, PGresult *result, const char *kind, const char *what, struct cbx_err *err)
{
	const struct cbx_libpq *f = &s->pq->f;
	const char *said = f->PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY),
		   *state = f->PQresultErrorField(result, PG_DIAG_SQLSTATE);
	int r = cbx_sql_refuse(s, kind, what, said ? said : f->PQerrorMessage(s->pq->conn), state ? state : "08006",
			       err);

	f->PQclear(result);
	return r;
}

/* ---- the connection ---- */

/* What a server says of its own answer need not be so: it may have fewer columns than were asked for. */
static const char *value_of(const struct cbx_libpq *f, const PGresult *result, int row, int column)
{
	return column < f->PQnfields(result) ? f->PQgetvalue(result, row, column) : "";
}

/* As of s->ask. */
static int ask(struct cbx_sql *s, const char *text, struct cbx_buf *ret, struct cbx_err *err)
{
	const struct cbx_libpq *f = &s->pq->f;
	PGresult *result = f->PQexec(s->pq->conn, text);
	int status = f->PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		return fail(s, result, "connection_failed", "prepare the connection", err);
	for (int i = 0; ret && i < f->PQntuples(result); i++)
		cbx_buf_addf(ret, "%s\n", value_of(f, result, i, 0));
	f->PQclear(result);
	return 0;
}

/* What functions of the server say on the way would go to standard error. */
static void no_notice(void *arg, const PGresult *result)
{
}

int cbx_sql_pq_connect(struct cbx_sql *s, const char *sslmode, const char *sslrootcert, struct cbx_err *err)
{
	const struct cbx_sql_job *j = s->job;
	struct cbx_sql_pq *pq = s->pq = cbx_xcalloc(1, sizeof(*pq));
	char port[8];
	const char *const names[] = { "host",	 "port",	"dbname",	   "user", "password",
				      "sslmode", "sslrootcert", "connect_timeout", NULL };
	const char *const values[] = { j->server, port,	       j->database, j->user, j->password,
				       sslmode,	  sslrootcert, "10",	    NULL };
	int r = cbx_libpq_load(&pq->f, err);

	if (r < 0)
		return r;
	snprintf(port, sizeof(port), "%u", j->port ? (unsigned)j->port : 5432);
	/* Not expanded: the name of a database is not a connection string. */
	pq->conn = pq->f.PQconnectdbParams(names, values, 0);
	if (pq->f.PQstatus(pq->conn) != CONNECTION_OK)
		return cbx_sql_refuse(s, "connection_failed", "connect", pq->f.PQerrorMessage(pq->conn), "08001", err);
	pq->f.PQsetNoticeReceiver(pq->conn, no_notice, NULL);
	pq->cancel = pq->f.PQgetCancel(pq->conn);
	s->ask = ask;
	return 0;
}

void cbx_sql_pq_disconnect(struct cbx_sql *s)
{
	struct cbx_sql_pq *pq = s->pq;

	if (pq && pq->cancel)
		pq->f.PQfreeCancel(pq->cancel);
	if (pq && pq->conn)
		pq->f.PQfinish(pq->conn); /* which rolls back */
	free(pq);
}

void cbx_sql_pq_cancel(void *sql)
{
	const struct cbx_sql_pq *pq = ((struct cbx_sql *)sql)->pq;
	char ignored[256];

	(void)pq->f.PQcancel(pq->cancel, ignored, sizeof(ignored));
}

/* ---- parameters ---- */

/* The server finds a type for texts and NULL; of a number and of a truth value it learns the type, so that it comes
 * back as one. */
struct parameters {
	const char *values[CBX_SQL_PARAMETERS_MAX];
	unsigned types[CBX_SQL_PARAMETERS_MAX];
	char *numbers[CBX_SQL_PARAMETERS_MAX]; /* malloc'd */
};

enum { OID_BOOL = 16, OID_INT8 = 20, OID_INT4 = 23, OID_FLOAT8 = 701 };

static int take_parameter(struct parameters *p, size_t i, const cJSON *v, struct cbx_err *err)
{
	if (cJSON_IsBool(v)) {
		p->types[i] = OID_BOOL;
		p->values[i] = cJSON_IsTrue(v) ? "true" : "false";
	} else if (cJSON_IsNumber(v)) {
		_cleanup_buf_ struct cbx_buf text = { 0 };

		cbx_json_print(&text, v);
		p->values[i] = p->numbers[i] = cbx_buf_steal(&text);
		p->types[i] = strpbrk(p->values[i], ".eE")				   ? OID_FLOAT8
			      : v->valuedouble >= INT32_MIN && v->valuedouble <= INT32_MAX ? OID_INT4
											   : OID_INT8;
	} else if (cJSON_IsString(v)) {
		p->values[i] = v->valuestring;
	} else if (!cJSON_IsNull(v)) {
		return cbx_sql_wrong_parameter(i + 1, err);
	}
	return 0;
}

static int take_parameters(const struct cbx_sql *s, size_t wanted, struct parameters *p, struct cbx_err *err)
{
	const cJSON *v;
	size_t i = 0;
	int r = cbx_sql_count_parameters(s->job, wanted, err);

	cJSON_ArrayForEach(v, s->job->parameters) {
		if (r >= 0)
			r = take_parameter(p, i++, v, err);
	}
	return r;
}

static void release_parameters(struct parameters *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->numbers); i++)
		free(p->numbers[i]);
}

/* ---- columns ---- */

/* Types that results have most often: their numbers, which are the same in every database, and what ODBC calls them. */
static const struct type {
	unsigned oid;
	const char *name;
	SQLSMALLINT type;
} types[] = {
	{ OID_BOOL, "bool", SQL_BIT },
	{ 17, "bytea", SQL_LONGVARBINARY },
	{ OID_INT8, "int8", SQL_BIGINT },
	{ 21, "int2", SQL_SMALLINT },
	{ OID_INT4, "int4", SQL_INTEGER },
	{ 25, "text", SQL_LONGVARCHAR },
	{ 26, "oid", SQL_INTEGER },
	{ 700, "float4", SQL_REAL },
	{ OID_FLOAT8, "float8", SQL_DOUBLE },
	{ 1042, "bpchar", SQL_CHAR },
	{ 1043, "varchar", SQL_VARCHAR },
	{ 1082, "date", SQL_TYPE_DATE },
	{ 1114, "timestamp", SQL_TYPE_TIMESTAMP },
	{ 1184, "timestamptz", SQL_VARCHAR },
	{ 1700, "numeric", SQL_NUMERIC },
	{ 3802, "jsonb", SQL_VARCHAR },
};

static const struct type *find_type(unsigned oid)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (types[i].oid == oid)
			return &types[i];
	return NULL;
}

/* Of a type that is not among them: an earlier column's, or the database is asked. */
static int other_type(const struct cbx_sql_result *q, const PGresult *described, int i, struct cbx_buf *name,
		      struct cbx_err *err)
{
	const struct cbx_libpq *f = &q->sql->pq->f;
	unsigned oid = f->PQftype(described, i);
	_cleanup_free_ char *text = cbx_xasprintf("SELECT typname FROM pg_catalog.pg_type WHERE oid = %u", oid);
	int r;

	for (int k = 0; k < i; k++)
		if (f->PQftype(described, k) == oid) {
			cbx_buf_adds(name, q->columns[k].type_name);
			return 0;
		}
	r = q->sql->ask(q->sql, text, name, err);
	if (r >= 0 && name->len)
		name->data[--name->len] = '\0'; /* the end of its line */
	return r;
}

static int describe_column(struct cbx_sql_result *q, const PGresult *described, int i, struct cbx_err *err)
{
	const struct cbx_libpq *f = &q->sql->pq->f;
	const struct type *type = find_type(f->PQftype(described, i));
	struct cbx_sql_column *column = &q->columns[i];
	_cleanup_buf_ struct cbx_buf name = { 0 };
	/* Of a number with a bound (numeric.h of the server): its digits in all, and those behind the point, which may
	 * be below 0. */
	int mod = f->PQfmod(described, i), bound = mod >= 4 ? mod - 4 : 0, digits = ((bound & 0x7ff) ^ 1024) - 1024;
	int r = type ? 0 : other_type(q, described, i, &name, err);

	if (r < 0)
		return r;
	column->type = type ? type->type : SQL_VARCHAR;
	cbx_sql_column_name(column, f->PQfname(described, i), type ? type->name : cbx_buf_str(&name));
	cbx_sql_column_kind(column, CBX_SQL_POSTGRESQL, (uint64_t)bound >> 16, digits, false);
	return 0;
}

static int prepare(struct cbx_sql_result *q, const char *text, size_t n, const struct parameters *p,
		   struct cbx_err *err)
{
	struct cbx_sql *s = q->sql;
	const struct cbx_libpq *f = &s->pq->f;
	PGresult *result = f->PQprepare(s->pq->conn, STATEMENT, text, (int)n, p->types);
	int r;

	if (f->PQresultStatus(result) == PGRES_COMMAND_OK) {
		f->PQclear(result);
		result = f->PQdescribePrepared(s->pq->conn, STATEMENT);
	}
	if (f->PQresultStatus(result) != PGRES_COMMAND_OK)
		return fail(s, result, "query_failed", "the query failed", err);
	r = cbx_sql_result_columns(q, f->PQnfields(result), err);
	for (int i = 0; r >= 0 && i < (int)q->n; i++)
		r = describe_column(q, result, i, err);
	f->PQclear(result);
	return r;
}

/* ---- rows, one by one ---- */

static int one_value(struct cbx_sql_result *q, const PGresult *row, int i, struct cbx_err *err)
{
	const struct cbx_libpq *f = &q->sql->pq->f;
	const char *p = f->PQgetisnull(row, 0, i) ? NULL : f->PQgetvalue(row, 0, i);
	size_t n = (size_t)f->PQgetlength(row, 0, i);

	if (n > CBX_SQL_VALUE_MAX)
		return cbx_sql_long_value(&q->columns[i], err);
	if (p && q->columns[i].type == SQL_BIT)
		p = *p == 't' ? "1" : "0";
	if (p && q->columns[i].type == SQL_LONGVARBINARY && n >= 2) { /* \x */
		p += 2;
		n -= 2;
	}
	cbx_sql_result_value(q, (size_t)i, p, n);
	return 0;
}

static int one_row(void *arg, const PGresult *row, struct cbx_err *err)
{
	struct cbx_sql_result *q = arg;
	int r = cbx_sql_result_row(q, err);

	for (int i = 0; r >= 0 && i < (int)q->n; i++)
		r = one_value(q, row, i, err);
	return r < 0 ? r : cbx_sql_result_row_end(q, err);
}

/* What was sent is answered row by row. 1: the function wanted no more of them. */
static int single_rows(struct cbx_sql *s, int (*row)(void *arg, const PGresult *row, struct cbx_err *err), void *arg,
		       struct cbx_err *err)
{
	const struct cbx_libpq *f = &s->pq->f;
	int r = f->PQsetSingleRowMode(s->pq->conn) ? 0 : fail(s, NULL, "query_failed", "the query failed", err);

	while (r == 0) {
		PGresult *result = f->PQgetResult(s->pq->conn);
		int status = f->PQresultStatus(result);

		if (status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK)
			return fail(s, result, "query_failed", "the query failed", err);
		if (status == PGRES_SINGLE_TUPLE)
			r = row(arg, result, err);
		f->PQclear(result);
		if (status == PGRES_TUPLES_OK) { /* the end; another query may follow */
			f->PQclear(f->PQgetResult(s->pq->conn));
			return r;
		}
	}
	cbx_sql_pq_cancel(s); /* the server has more, which nobody is going to read */
	return r;
}

/* 1: there are more rows than are answered with. */
static int rows(struct cbx_sql_result *q, size_t n, const struct parameters *p, struct cbx_err *err)
{
	struct cbx_sql *s = q->sql;
	int r = cbx_sql_result_begin(q, err);

	if (r < 0)
		return r;
	if (!s->pq->f.PQsendQueryPrepared(s->pq->conn, STATEMENT, (int)n, p->values, NULL, NULL, 0))
		return fail(s, NULL, "query_failed", "the query failed", err);
	return single_rows(s, one_row, q, err);
}

/* ---- rows, as the text of a file ---- */

/* standard_conforming_strings is on. */
static void add_literal(struct cbx_buf *b, const char *text)
{
	cbx_buf_addc(b, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			cbx_buf_addc(b, '\'');
		cbx_buf_addc(b, *text);
	}
	cbx_buf_addc(b, '\'');
}

/* The server has taken the query for a whole statement (prepare()), so it cannot end the parenthesis that it is put in.
 */
static void copy_statement(const struct cbx_sql_result *q, const char *text, struct cbx_buf *copy)
{
	_cleanup_buf_ struct cbx_buf list = { 0 }, names = { 0 };
	bool as_it_is = true;

	for (size_t i = 0; i < q->n; i++) {
		bool bit = q->columns[i].type == SQL_BIT, binary = q->columns[i].type == SQL_LONGVARBINARY;

		as_it_is &= !bit && !binary;
		cbx_buf_addf(&list, "%s%sq.c%zu%s", i ? ", " : "",
			     bit      ? "pg_catalog.text("
			     : binary ? "pg_catalog.encode("
				      : "",
			     i,
			     bit      ? ")"
			     : binary ? ", 'hex')"
				      : "");
		cbx_buf_addf(&names, "%sc%zu", i ? ", " : "", i);
	}
	if (as_it_is)
		cbx_buf_addf(copy, "COPY (%s", text);
	else
		cbx_buf_addf(copy, "COPY (SELECT %s FROM (%s) AS q(%s)", cbx_buf_str(&list), text, cbx_buf_str(&names));
	cbx_buf_adds(copy, ") TO STDOUT WITH (FORMAT csv");
	if (q->sql->job->null) {
		cbx_buf_adds(copy, ", NULL ");
		add_literal(copy, q->sql->job->null);
	}
	cbx_buf_adds(copy, ")");
}

/* All of it but the end of its line is as results have it. */
static int one_line(struct cbx_sql_result *q, const char *line, size_t n, struct cbx_err *err)
{
	int r = cbx_sql_result_row(q, err);

	if (r >= 0 && n > CBX_SQL_ROW_MAX)
		return cbx_refuse(err, "result_too_large", EFBIG, "a row has more than %zu bytes; ask for a part of it",
				  (size_t)CBX_SQL_ROW_MAX);
	if (r < 0)
		return r;
	cbx_buf_add(&q->csv, line, line[n - 1] == '\n' ? n - 1 : n);
	return cbx_sql_result_row_end(q, err);
}

static int lines(struct cbx_sql_result *q, const char *text, struct cbx_err *err)
{
	struct cbx_sql *s = q->sql;
	const struct cbx_libpq *f = &s->pq->f;
	_cleanup_buf_ struct cbx_buf copy = { 0 };
	PGresult *result;
	char *line;
	int n = 0, r;

	copy_statement(q, text, &copy);
	result = f->PQexec(s->pq->conn, cbx_buf_str(&copy));
	if (f->PQresultStatus(result) != PGRES_COPY_OUT)
		return fail(s, result, "query_failed", "the query failed", err);
	f->PQclear(result);
	r = cbx_sql_result_begin(q, err);
	while (r >= 0 && (n = f->PQgetCopyData(s->pq->conn, &line, 0)) > 0) {
		r = one_line(q, line, (size_t)n, err);
		f->PQfreemem(line);
	}
	if (r < 0) {
		cbx_sql_pq_cancel(s);
		return r;
	}
	result = f->PQgetResult(s->pq->conn);
	if (n != -1 || f->PQresultStatus(result) != PGRES_COMMAND_OK)
		return fail(s, result, "query_failed", "the query failed", err);
	f->PQclear(result);
	return 0;
}

int cbx_sql_pq_run(struct cbx_sql *s, const char *text, size_t n, struct cbx_err *err)
{
	struct cbx_sql_result q = { .sql = s };
	struct parameters p = { 0 };
	int r = take_parameters(s, n, &p, err);

	cbx_sql_watch_statement(s, cbx_sql_pq_cancel, s);
	if (r >= 0)
		r = prepare(&q, text, n, &p, err);
	if (r >= 0)
		r = s->job->delivery == CBX_SQL_TO_FILE && !n ? lines(&q, text, err) : rows(&q, n, &p, err);
	if (r >= 0)
		r = cbx_sql_result_end(&q, r > 0, err);
	if (r < 0)
		(void)cbx_sql_cancelled(s, err); /* that is why */
	cbx_sql_watch_statement(s, NULL, NULL);
	release_parameters(&p);
	cbx_sql_result_release(&q);
	return r;
}

/* ---- its catalog ---- */

struct catalog_row {
	struct cbx_sql *sql;
	cbx_sql_pq_row_fn *row;
	void *arg;
	bool enough;
};

static int catalog_row(void *arg, const PGresult *result, struct cbx_err *err)
{
	struct catalog_row *c = arg;
	const struct cbx_libpq *f = &c->sql->pq->f;
	const char *fields[CBX_SQL_PQ_FIELDS];

	for (int i = 0; i < CBX_SQL_PQ_FIELDS; i++)
		fields[i] = value_of(f, result, 0, i);
	/* The rest is read, too: to cancel it would end the transaction. */
	c->enough = c->enough || !c->row(c->arg, fields);
	return 0;
}

int cbx_sql_pq_catalog(struct cbx_sql *s, const char *text, const char *const *values, size_t n, cbx_sql_pq_row_fn *row,
		       void *arg, struct cbx_err *err)
{
	struct catalog_row c = { .sql = s, .row = row, .arg = arg };

	if (!s->pq->f.PQsendQueryParams(s->pq->conn, text, (int)n, NULL, values, NULL, NULL, 0))
		return fail(s, NULL, "query_failed", "read the schema", err);
	return single_rows(s, catalog_row, &c, err);
}
