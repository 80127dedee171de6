/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SQL_JUDGE_H
#define CBX_SQL_JUDGE_H

/*
 * Whether a text is one statement that only reads. The judge splits it into words, names, strings and comments as the
 * dialect's database does. What databases may split in different ways is refused. It is the first of three layers: the
 * transaction is read-only, too, and its user should be one who can only read.
 */
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum cbx_dialect { CBX_SQL_POSTGRESQL, CBX_SQL_MYSQL, CBX_SQL_SQLSERVER, CBX_SQL_SQLITE, CBX_SQL_DUCKDB };

/*
 * 0: *ret_text is the statement without comments and without a semicolon at its end, *ret_parameters the number of its
 * question marks, which for PostgreSQL have become $1, $2 and so on. Errors have kind "query_refused", and their
 * message ends in the name of the rule: "(rule keyword)".
 */
int cbx_sql_judge(enum cbx_dialect dialect, const char *sql, size_t n, struct cbx_buf *ret_text, size_t *ret_parameters,
		  struct cbx_err *err);

#endif
