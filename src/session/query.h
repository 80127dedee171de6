/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SESSION_QUERY_H
#define CBX_SESSION_QUERY_H

/* One query, between sql.c, which has it, sqlspec.c, which knows what is asked, and sqlfile.c, which asks files. */
#include "session/commands.h"
#include "session/databases.h"
#include "session/internal.h"
#include "session/jobs.h"
#include "sql/job.h"

#define CBX_QUERY_ANSWER_MAX MIB(4) /* the rows of an answer as JSON, too */

enum cbx_query_step { LOOKING, ASKING, FINISHING, RENAMING, REMOVING, OVER };

struct cbx_sql_query {
	TAILQ_ENTRY(cbx_sql_query) entry;
	struct cbx_engine *engine;
	struct cbx_principal principal;
	struct cbx_via via;
	struct cbx_caller caller;
	char tenant[CBX_NAME_MAX + 1], session_id[CBX_NAME_MAX + 1]; /* "": without one */
	uint64_t session; /* its serial; 0: none */
	struct cbx_op *op;
	enum cbx_query_step step;
	struct cbx_job job;
	bool asked, over;  /* the job is there; it has said all */
	bool schema;	   /* is the answer, not rows */
	const char *format; /* of the file, where a program in the session writes it (sqltable.c); NULL: CSV */
	cJSON *request;	   /* until it is sent */
	char *path, *part; /* of the file, and of it while it is not complete */
	struct cbx_file_op file;
	bool writing, written; /* a piece is under way; part is there */
	uint64_t size;
	cJSON *answer;
	struct cbx_err failure;
	struct event *work, *timer;
	bool done;
	/* Of sqlfile.c. */
	char *query;     /* likewise; NULL: a schema */
	char *asked_of;  /* which database, for those who observe; NULL: it has not begun */
	uint64_t began_ms;
	/* Of its file, while that is kept after the session. */
	struct cbx_keep *keep; /* NULL: it is not being kept */
	cJSON *files, *store;  /* the file alone; the store that the request names, or NULL */
	uint32_t link_s;
	char *database; /* the path of a file of the session; NULL: a connection of the policy is asked */
	struct cbx_command_op command;
	struct cbx_input_op input;
	struct cbx_buf text, said; /* what its program reads, and says */
	/* Of sqltable.c. */
	bool table, feeding; /* the program takes rows; it is about to take some */
	struct event *go_on; /* from the loop: it has taken them */
	uint64_t rows, timeout_ms;
};

/* sql.c. It ends soon, but not before the caller returns: with an error, or, NULL, with its answer. */
void cbx_query_end(struct cbx_sql_query *q, const struct cbx_err *err);
struct cbx_session *cbx_query_session(struct cbx_sql_query *q, struct cbx_err *err);
int cbx_query_error(const cJSON *root, struct cbx_err *err); /* the one that an answer says; 0: none */
void cbx_query_answer_file(struct cbx_sql_query *q,
			   uint64_t rows); /* complete the answer: it is `path`, of `size` bytes */
/* It has its name: whoever waits for news of files learns of it, and it is kept as the policy says; then the query
 * ends. */
void cbx_query_file_made(struct cbx_sql_query *q);

/* As many frames as there are, up to one that has to be waited for. */
void cbx_query_some(struct cbx_sql_query *q);

/* sqlspec.c */
/* Fill in the job, and what the query is known by, from what is asked for and what the policy allows. */
int cbx_query_request(struct cbx_sql_query *q, const struct cbx_query_spec *spec, const struct cbx_policy *p,
		      struct cbx_err *err);
int cbx_query_format(const struct cbx_query_spec *spec, const char **ret, struct cbx_err *err); /* *ret NULL: CSV */
/* The one that holds for a query of this session, or, NULL, of none; the caller's to free. */
struct cbx_policy *cbx_query_policy(const struct cbx_caller *caller, const struct cbx_session *s);

/* sqltable.c. Rows that are CSV become a file of another format, by a program in the session: begin it, when the
 * columns are known; give it a piece, after which it may be feeding; and the end, after which it ends the query. */
int cbx_query_table_begin(struct cbx_sql_query *q, struct cbx_err *err);
void cbx_query_table_give(struct cbx_sql_query *q, const char *p, size_t n);
void cbx_query_table_end(struct cbx_sql_query *q, uint64_t rows);
void cbx_query_table_fed(struct cbx_sql_query *q);

/* sqlfile.c */
/* Start the program that asks files and writes tables, with a line of JSON. */
int cbx_query_program(struct cbx_sql_query *q, const cJSON *line, uint64_t timeout_ms, struct cbx_err *err);
int cbx_query_ask_file(struct cbx_sql_query *q, struct cbx_err *err);
void cbx_query_leave_file(struct cbx_sql_query *q); /* it is not wanted any more, if it is under way */

/* sqlschema.c: whether what its program says is a schema, in form and size. */
bool cbx_query_is_schema(const cJSON *root);

#endif
