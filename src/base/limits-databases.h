/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_LIMITS_DATABASES_H
#define CBX_BASE_LIMITS_DATABASES_H

/* Ceilings of databases. limits.h, which includes this file, says what the form is. */

/* Databases that are asked (policy, session, sql). */
#define CBX_SQL_CONNECTIONS_MAX 64       /* policy: named connections; more: error [unit/test_sql.c:policies] */
#define CBX_SQL_STRING_MAX 2048          /* policy: bytes of a connection string; more: error [unit/test_sql.c:strings] */
#define CBX_SQL_ROWS_MAX 1000000000ull   /* policy: most that "rows" may say; more: error
					 * [unit/test_sql.c:policies] */
#define CBX_SQL_ROWS_DEFAULT 20000000ull /* sql: rows of a result, unless a policy says otherwise; more: error
					 * [integration/sql.py:limits] */
#define CBX_SQL_INLINE_MAX 10000         /* policy: most that "inline_rows" may say; more: error
					 * [unit/test_sql.c:policies] */
#define CBX_SQL_INLINE_DEFAULT 100       /* sql: rows of an answer, unless a policy says otherwise; more: a file
					 * [integration/sql.py:a_file_of_the_session] */
#define CBX_SQL_INLINE_BYTES KIB(128)    /* sql: bytes of the rows of an answer, about; more: a file
					 * [integration/sql.py:limits] */
#define CBX_SQL_RESULT_MIN KIB(1)        /* policy: least that "result_size" may say; less: error
					 * [unit/test_sql.c:policies] */
#define CBX_SQL_RESULT_MAX GIB(64)       /* policy: most that "result_size" may say; more: error
					 * [unit/test_sql.c:policies] */
#define CBX_SQL_RESULT_DEFAULT GIB(4)    /* sql: bytes of a file, unless a policy says otherwise; more: error
					 * [integration/sql.py:limits] */
#define CBX_SQL_TIMEOUT_MAX_MS 3600000   /* policy: most that "query_timeout" may say; more: error
					 * [unit/test_sql.c:policies] */
#define CBX_SQL_TIMEOUT_DEFAULT_MS 60000 /* sql: time of a query, unless a policy says otherwise; then it is cancelled
					 * [integration/sql.py:limits] */
#define CBX_SQL_CANCEL_MS 5000           /* sql: for an answer to a cancellation; then the connection is closed
					 * [integration/sqlends.py:the_network_stalls] */
#define CBX_SQL_TEXT_MAX KIB(64)         /* sql: bytes of a query; more: error [unit/test_sql.c:limits] */
#define CBX_SQL_COLUMNS_MAX 1000         /* sql: columns of a result; more: error [integration/sql.py:limits] */
#define CBX_SQL_SCHEMA_TABLES 500        /* sql: tables of a schema that are named; more: a note says how many
					 * [integration/sqlschema.py:a_large_schema] */
#define CBX_SQL_SCHEMA_BYTES KIB(128)    /* sql: bytes of a schema; three quarters of it for tables with columns; more:
					 * a note says how many [integration/sqlschema.py:a_large_schema] */
#define CBX_SQL_VALUE_MAX MIB(16)        /* sql: bytes of one value; more: error [integration/sql.py:limits] */
#define CBX_SQL_ROW_MAX MIB(64)          /* sql: bytes of a row that the database itself writes as CSV; more: error
					 * [integration/sqlvalues.py:limits] */
#define CBX_SQL_PARAMETERS_MAX 100       /* sql: parameters of a query; more: error
					 * [integration/sql.py:parameters_are_bound] */
#define CBX_SQL_MEMORY_MAX GIB(1)        /* sql: addresses of the process of a query; more: it fails */
#define CBX_SQL_QUERIES_MAX 16           /* sql: queries at once; more: error "busy" [integration/sql.py:limits] */
#define CBX_SQL_QUERIES_OWN 4            /* sql: queries of one tenant at once; more: likewise
					 * [http/audit.py:who_asked_which_database] */
#define CBX_SECRET_MAX KIB(4)            /* policy: bytes of a password; more: it is not taken
					 * [integration/sql.py:passwords] */

#endif
