/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_DATABASES_H
#define CBX_SESSION_DATABASES_H

/* Databases that the policy names are asked, for a session or for none. */
#include "session/session.h"

struct cbx_query_spec {
	/* Of the policy, else the path of a file of SQLite or DuckDB in the session; NULL: the only one of the policy.
	 */
	const char *connection;
	/* Instead: what a request says of a server that the policy lets it name, as ODBC has it, and the password there;
	 * NULL: nothing. */
	const char *string, *password;
	bool schema; /* is asked for; then there are only a connection and, for one that is a file, a session */
	const char *query;
	const cJSON *parameters; /* an array of strings, numbers, true, false and null; NULL: none */
	/* Of a file of the session, which is made; NULL: one is made if the rows are too many for the answer. */
	const char *path;
	const char *directory; /* where such a file is made; NULL: in the workspace */
	const char *format;    /* of a file: "csv" (NULL: this), or "arrow" or "parquet", by the session's pyarrow */
	/* As of cbx_cell_spec: of the link to such a file, and the store that it goes to. */
	uint32_t link_s;
	const char *store_string, *container;
	uint64_t inline_rows;  /* of an answer, if the policy does not say fewer; 0: as it says */
	const char *null; /* what stands for NULL in that file; NULL: an empty field */
	/* Whose policy counts; NULL: that of the caller, and rows that are too many are omitted. */
	struct cbx_session *session;
};

/* What headers of a request say: of a server, the first two, both or neither, and of the rows of an answer. Borrowed.
 * header: NULL for one that is not there. */
#define CBX_QUERY_STRING   "X-Db-Connection-String"
#define CBX_QUERY_PASSWORD "X-Db-Password"
#define CBX_QUERY_INLINE   "X-Sql-Max-Inline-Rows"
int cbx_query_spec_headers(struct cbx_query_spec *spec, const char *(*header)(void *arg, const char *name), void *arg,
			   struct cbx_err *err);

/*
 * Ask a database. Answer: {"delivery":"inline","columns":[{"name","type"}],"rows":[[…]],"row_count","more"?} or
 * {"delivery":"file","session_id","path","columns","column_count","row_count","size"}, with what artifacts.h says of
 * files that are kept. Cancelling the operation cancels the query. A schema is answered as in sql/job.h. Errors:
 * "query_refused" (it does not only read), "query_failed", "connection_failed", "no_connection", "unsafe_user",
 * "no_driver", "timeout", "result_too_large", "file_exists", "busy" and others; no file is left then.
 */
int cbx_engine_query(struct cbx_caller *caller, const struct cbx_query_spec *spec, struct cbx_answer_op *op,
		     struct cbx_err *err);
/* Those that this caller may ask: [{"name","type"}]. */
cJSON *cbx_engine_databases(const struct cbx_caller *caller);
/* At the engine's end: what is under way is given up, and nobody is called. */
void cbx_engine_end_queries(struct cbx_engine *engine);

#endif
