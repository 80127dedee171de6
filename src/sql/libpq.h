/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SQL_LIBPQ_H
#define CBX_SQL_LIBPQ_H

/*
 * PostgreSQL's own client. It is loaded as a driver is, so nobody needs it who has no PostgreSQL. What its header would
 * say is said here: the ABI of libpq.so.5 has been the same since 2005.
 */
#include "base/err.h"

typedef struct pg_conn PGconn;
typedef struct pg_result PGresult;
typedef struct pg_cancel PGcancel;
typedef void cbx_pq_notice_fn(void *arg, const PGresult *result);

enum { CONNECTION_OK = 0 };
enum { PGRES_COMMAND_OK = 1, PGRES_TUPLES_OK = 2, PGRES_COPY_OUT = 3, PGRES_SINGLE_TUPLE = 9 };
enum { PG_DIAG_SQLSTATE = 'C', PG_DIAG_MESSAGE_PRIMARY = 'M' };

#define CBX_LIBPQ(f)                                                                                                   \
	f(PGconn *, PQconnectdbParams, (const char *const *names, const char *const *values, int expand))              \
	f(int, PQstatus, (const PGconn *))                                                                             \
	f(char *, PQerrorMessage, (const PGconn *))                                                                    \
	f(void, PQfinish, (PGconn *))                                                                                  \
	f(cbx_pq_notice_fn *, PQsetNoticeReceiver, (PGconn *, cbx_pq_notice_fn *, void *arg))                          \
	f(PGresult *, PQexec, (PGconn *, const char *text))                                                            \
	f(PGresult *, PQprepare, (PGconn *, const char *name, const char *text, int n, const unsigned *types))         \
	f(PGresult *, PQdescribePrepared, (PGconn *, const char *name))                                                \
	f(int, PQsendQueryPrepared, (PGconn *, const char *name, int n, const char *const *values, const int *lengths, \
				     const int *formats, int format))                                                  \
	f(int, PQsendQueryParams, (PGconn *, const char *text, int n, const unsigned *types,                           \
				   const char *const *values, const int *lengths, const int *formats, int format))     \
	f(int, PQsetSingleRowMode, (PGconn *))                                                                         \
	f(PGresult *, PQgetResult, (PGconn *))                                                                         \
	f(int, PQgetCopyData, (PGconn *, char **ret, int async))                                                       \
	f(int, PQresultStatus, (const PGresult *))                                                                     \
	f(char *, PQresultErrorField, (const PGresult *, int field))                                                   \
	f(int, PQntuples, (const PGresult *))                                                                          \
	f(int, PQnfields, (const PGresult *))                                                                          \
	f(char *, PQfname, (const PGresult *, int column))                                                             \
	f(unsigned, PQftype, (const PGresult *, int column))                                                           \
	f(int, PQfmod, (const PGresult *, int column))                                                                 \
	f(char *, PQgetvalue, (const PGresult *, int row, int column))                                                 \
	f(int, PQgetlength, (const PGresult *, int row, int column))                                                   \
	f(int, PQgetisnull, (const PGresult *, int row, int column))                                                   \
	f(void, PQclear, (PGresult *))                                                                                 \
	f(void, PQfreemem, (void *))                                                                                   \
	f(PGcancel *, PQgetCancel, (PGconn *))                                                                         \
	f(int, PQcancel, (PGcancel *, char *ret_error, int size))                                                      \
	f(void, PQfreeCancel, (PGcancel *))

#define CBX_LIBPQ_MEMBER(type, name, arguments) type(*name) arguments;
struct cbx_libpq {
	CBX_LIBPQ(CBX_LIBPQ_MEMBER)
};

/* It stays loaded until the process ends. Error "no_driver": it is not installed. */
int cbx_libpq_load(struct cbx_libpq *pq, struct cbx_err *err);

#endif
