/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a query is a job of codebox-sql. Rows that are few come as one frame of JSON. Many come as
 * pieces of CSV, each of which is written to a file of the session before the next is read, so that nothing gathers
 * here. The file has a hidden name until it is complete; then it gets its own, by which it replaces nothing. A query
 * that fails on the way removes it.
 *
 * Nobody says that an operation was cancelled or a session closed, so a timer looks; what ends the job's socket ends
 * the query on the server. All ends come about in `turn`, so that nothing is called from inside a call.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/frame.h"
#include "base/clock.h"
#include "base/timer.h"
#include "session/artifacts.h"
#include "session/happened.h"
#include "session/kept.h"
#include "session/query.h"

#define LOOK_MS	  200
#define WORKSPACE "/workspace/"

/* ---- ends ---- */

void cbx_query_end(struct cbx_sql_query *q, const struct cbx_err *err)
{
	if (q->done)
		return;
	q->done = true;
	if (err)
		q->failure = *err;
	event_active(q->work, EV_TIMEOUT, 1);
}

/* A password may be in it. */
static void forget_request(struct cbx_sql_query *q)
{
	cbx_json_wipe(take_ptr(&q->request));
}

static void query_free(struct cbx_sql_query *q)
{
	struct cbx_err ignored;
	struct cbx_session *s = q->session ? cbx_query_session(q, &ignored) : NULL;

	if (s)
		s->queries--;
	cbx_query_leave_file(q);
	cbx_ops_cancel(&q->caller.ops);
	if (q->keep)
		cbx_keep_free(q->keep);
	if (q->asked)
		cbx_job_end(&q->job);
	cbx_event_free_p(&q->work);
	cbx_event_free_p(&q->timer);
	cbx_event_free_p(&q->go_on);
	if (q->entry.tqe_prev)
		TAILQ_REMOVE(&q->engine->queries, q, entry);
	forget_request(q);
	cJSON_Delete(q->answer);
	cJSON_Delete(q->files);
	cbx_json_wipe(take_ptr(&q->store));
	free(q->path);
	free(q->part);
	free(q->database);
	free(q->asked_of);
	free(q->query);
	cbx_buf_release(&q->text);
	cbx_buf_release(&q->said);
	free(q);
}

struct cbx_session *cbx_query_session(struct cbx_sql_query *q, struct cbx_err *err)
{
	struct cbx_session *s = cbx_engine_by_id(q->engine, q->tenant, q->session_id);

	if (s && s->serial != q->session) /* another one took its name */
		s = NULL;
	if (!s)
		cbx_refuse(err, "session_expired", ENOENT, "session %s was closed while the database was asked",
			   q->session_id);
	return s;
}

static void file_done(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err);

/* A new one takes the place of one under way: init answers in order, so a removal comes after what it undoes. */
static struct cbx_file_op *file_op(struct cbx_sql_query *q)
{
	cbx_op_cancel(&q->file.op);
	q->file = (struct cbx_file_op){ .op.ops = &q->caller.ops, .done = file_done };
	return &q->file;
}

static bool remove_part(struct cbx_sql_query *q)
{
	struct cbx_err ignored;
	struct cbx_session *s = cbx_query_session(q, &ignored);

	q->step = REMOVING;
	return s && cbx_session_file_remove(s, q->part, file_op(q), &ignored) >= 0;
}

void cbx_query_answer_file(struct cbx_sql_query *q, uint64_t rows)
{
	const cJSON *columns = cbx_json_member(q->answer, "columns");

	cbx_json_set_str(q->answer, "delivery", "file");
	cbx_json_set_str(q->answer, "session_id", q->session_id);
	cbx_json_set_str(q->answer, "path", q->path);
	cbx_json_set_str(q->answer, "format", q->format);
	cbx_json_set_u64(q->answer, "column_count", (uint64_t)cJSON_GetArraySize(columns));
	cbx_json_set_u64(q->answer, "row_count", rows);
	cbx_json_set_u64(q->answer, "size", q->size);
}

static void file_kept(struct cbx_session *s, void *arg)
{
	static const char *const about[] = { "artifact_id",  "kept_until", "link",
					     "link_expires", "not_kept",   "not_uploaded" };
	struct cbx_sql_query *q = arg;

	cbx_keep_free(take_ptr(&q->keep));
	for (size_t i = 0; i < ARRAY_SIZE(about); i++)
		cbx_json_set_str(q->answer, about[i], cbx_json_text(q->files->child, about[i]));
	cbx_query_end(q, NULL);
}

static void session_gone(void *arg, const char *why)
{
	struct cbx_sql_query *q = arg;
	struct cbx_err err;

	cbx_keep_free(take_ptr(&q->keep));
	cbx_refuse(&err, "session_expired", ENOENT, "session %s was closed while the result was kept: %.300s",
		   q->session_id, why);
	cbx_query_end(q, &err);
}

/* A file elsewhere than in the workspace is not kept, as that of a cell is not. */
void cbx_query_file_made(struct cbx_sql_query *q)
{
	struct cbx_kept_files kept = {
		.store = q->store, .link_s = q->link_s, .done = file_kept, .gone = session_gone, .arg = q
	};
	struct cbx_err ignored;
	struct cbx_session *s = cbx_query_session(q, &ignored);
	const char *path = q->path + (cbx_starts_with(q->path, WORKSPACE) ? strlen(WORKSPACE) : 0);
	cJSON *file = cbx_json_new_obj();

	q->step = OVER;
	q->files = kept.list = cbx_json_new_arr();
	cbx_json_set_str(file, "path", path);
	cbx_json_push(q->files, file);
	if (s && path[0] != '/') {
		cbx_engine_files_news(s, q->files);
		cbx_json_set_u64(file, "size", q->size);
		cbx_json_set_str(file, "mime_type", cbx_mime_by_name(path));
		q->keep = cbx_keep_files(s, &kept);
	}
	if (!q->keep)
		cbx_query_end(q, NULL);
}

/* Who asked which database what, and what came of it. */
static void tell(const struct cbx_sql_query *q, const struct cbx_err *err)
{
	const struct cbx_observer *o = q->engine->config.observer;
	struct cbx_happened h = { .what = CBX_HAPPENED_QUERY,
				  .tenant = q->tenant,
				  .via = q->caller.via,
				  .session_id = q->session_id[0] ? q->session_id : NULL,
				  .database = q->asked_of,
				  .code = q->query,
				  .outcome = err->code ? err->kind : "ok",
				  .why = err->code ? err->msg : NULL,
				  .duration_ms = cbx_now_ms() - q->began_ms };

	if (o)
		o->happened(o->arg, &h);
}

static void turn(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_sql_query *q = arg;
	struct cbx_answer_op *op;
	struct cbx_err err;
	cJSON *answer;

	if (q->asked) {
		cbx_job_end(&q->job);
		q->asked = false;
	}
	if (q->failure.code && q->written && !q->writing && q->step != REMOVING && remove_part(q)) {
		q->written = false;
		q->done = false; /* until it is gone */
		return;
	}
	if (q->writing) { /* what it brings is not wanted any more */
		cbx_ops_cancel(&q->caller.ops);
		q->writing = false;
		event_active(q->work, EV_TIMEOUT, 1);
		return;
	}
	cbx_query_leave_file(q);
	op = cbx_op_take(&q->op);
	err = q->failure;
	answer = err.code ? NULL : take_ptr(&q->answer);
	tell(q, &err);
	query_free(q);
	if (op)
		op->done(op, answer, err.code ? &err : NULL);
	cJSON_Delete(answer);
}

static void look(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_sql_query *q = arg;
	struct cbx_err err;

	if (q->op && (!q->session_id[0] || cbx_query_session(q, &err)))
		return;
	if (!q->op)
		cbx_refuse(&err, "cancelled", ECANCELED, "the query was cancelled");
	cbx_query_end(q, &err);
}

/* ---- frames ---- */

static int malformed(struct cbx_err *err)
{
	return cbx_refuse(err, "query_failed", EBADMSG, "the process that asks the database sent a malformed answer");
}

int cbx_query_error(const cJSON *root, struct cbx_err *err)
{
	const char *kind = cbx_json_text(root, "kind");
	int code;

	if (!kind)
		return 0;
	code = strcmp(kind, "query_refused") == 0 || strcmp(kind, "unsafe_user") == 0 ? EPERM
	       : strcmp(kind, "invalid_argument") == 0				      ? EINVAL
	       : strcmp(kind, "timeout") == 0					      ? ETIMEDOUT
	       : strcmp(kind, "result_too_large") == 0				      ? EFBIG
										      : EIO;
	return cbx_json_error(root, kind, code, err);
}

static int rename_part(struct cbx_sql_query *q, struct cbx_err *err)
{
	struct cbx_session *s = cbx_query_session(q, err);

	q->step = RENAMING;
	return s ? cbx_session_file_rename(s, q->part, q->path, file_op(q), err) : -ENOENT;
}

static int write_piece(struct cbx_sql_query *q, const char *p, size_t n, struct cbx_err *err)
{
	struct cbx_session *s = cbx_query_session(q, err);
	int r = s ? cbx_session_file_write(s, q->part, q->size, q->written ? 0 : CBX_FILE_TRUNCATE, p, n, file_op(q),
					   err)
		  : -ENOENT;

	if (r < 0)
		return r;
	q->writing = q->written = true;
	q->size += n;
	cbx_job_pause(&q->job, true);
	return 0;
}

static int take_json(struct cbx_sql_query *q, char type, const char *p, size_t n, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err ignored;
	int r = cbx_json_parse(p, n, &doc, &ignored);

	if (r < 0 || !cJSON_IsObject(doc.root))
		return malformed(err);
	r = cbx_query_error(doc.root, err);
	if (r < 0)
		return r;
	if (type == CBX_SQL_RESULT && !q->answer) {
		q->answer = take_ptr(&doc.root);
		if (!q->schema)
			cbx_json_set_str(q->answer, "delivery", "inline");
		cbx_query_end(q, NULL);
	} else if (type == CBX_SQL_FILE && !q->answer && q->path) {
		q->answer = take_ptr(&doc.root);
		return q->format ? cbx_query_table_begin(q, err) : 0;
	} else if (type == CBX_SQL_END && q->answer && q->table) {
		cbx_query_table_end(q, cbx_json_u64(doc.root, "row_count"));
		return 0;
	} else if (type == CBX_SQL_END && q->answer && q->written) {
		cbx_query_answer_file(q, cbx_json_u64(doc.root, "row_count"));
		return rename_part(q, err);
	} else {
		return malformed(err);
	}
	return 0;
}

static int take_frame(struct cbx_sql_query *q, const char *p, size_t n, struct cbx_err *err)
{
	if (!n)
		return malformed(err);
	if (p[0] != CBX_SQL_DATA)
		return take_json(q, p[0], p + 1, n - 1, err);
	if (!q->answer || !q->path || n < 2 || n > CBX_SQL_PIECE + 1)
		return malformed(err);
	if (!q->table)
		return write_piece(q, p + 1, n - 1, err);
	cbx_query_table_give(q, p + 1, n - 1);
	return 0;
}

static void cut_short(struct cbx_sql_query *q)
{
	struct cbx_err err;

	cbx_refuse(&err, "query_failed", EIO,
		   "the process that asks the database ended without an answer; the result may need more memory than "
		   "it may have");
	cbx_query_end(q, &err);
}

void cbx_query_some(struct cbx_sql_query *q)
{
	struct cbx_job *j = &q->job;
	struct cbx_err err;
	const char *p;
	size_t n;
	int r = 0;

	while (r >= 0 && !q->done && !q->writing && !q->feeding && q->step == ASKING) {
		r = cbx_frame_peek(&j->got, CBX_QUERY_ANSWER_MAX, &p, &n, &err);
		if (r <= 0)
			break;
		r = take_frame(q, p, n, &err);
		cbx_buf_drop(&j->got, CBX_FRAME_HEADER + n);
	}
	if (r < 0)
		cbx_query_end(q, &err);
	else if (q->over && !q->done && !q->writing && !q->feeding && q->step == ASKING)
		cut_short(q);
}

static void some(struct cbx_job *j)
{
	cbx_query_some(cbx_container_of(j, struct cbx_sql_query, job));
}

static void job_done(struct cbx_job *j)
{
	struct cbx_sql_query *q = cbx_container_of(j, struct cbx_sql_query, job);

	q->over = true;
	cbx_query_some(q);
}

static int ask(struct cbx_sql_query *q, struct cbx_err *err)
{
	int r;

	q->step = ASKING;
	q->job.done = job_done;
	q->job.some = some;
	q->job.max = CBX_QUERY_ANSWER_MAX + KIB(128);
	r = cbx_job_begin(q->engine->sql_jobs, &q->job, q->request, err);
	forget_request(q);
	q->asked = r >= 0;
	return r;
}

static void file_done(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *failed)
{
	struct cbx_sql_query *q = cbx_container_of(op, struct cbx_sql_query, file);
	struct cbx_err err = { 0 };

	q->writing = false;
	switch (q->step) {
	case LOOKING: /* whether the file is there */
		if (!failed)
			cbx_refuse(&err, "file_exists", EEXIST,
				   "%.300s: it exists already; remove it first, or give another name", q->path);
		else if (strcmp(failed->kind, "file_not_found") != 0)
			err = *failed;
		if (!err.code)
			(void)ask(q, &err);
		break;
	case ASKING:
		if (failed) {
			err = *failed;
			break;
		}
		cbx_job_pause(&q->job, false);
		cbx_query_some(q);
		return;
	case RENAMING:
		q->written = failed;
		if (failed)
			cbx_query_end(q, failed);
		else
			cbx_query_file_made(q);
		return;
	default:
		cbx_query_end(q, NULL);
		return;
	}
	if (err.code)
		cbx_query_end(q, &err);
}

/* ---- begin ---- */

static int name_file(struct cbx_sql_query *q, const struct cbx_query_spec *spec, struct cbx_err *err)
{
	const char *slash, *base, *in = spec->directory;
	char random[9];

	cbx_random_name(random, 8);
	q->path = spec->path ? cbx_xstrdup(spec->path)
			     : cbx_xasprintf("%s%ssql_result_%s.%s", in ? in : "", in ? "/" : "", random,
					     q->format ? q->format : "csv");
	slash = strrchr(q->path, '/');
	base = slash ? slash + 1 : q->path;
	if (!*base || strlen(base) > 200 || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "path: give the name of a file of the session, of up to 200 bytes");
	q->part = cbx_xasprintf("%.*s.%s.%s.part", (int)(base - q->path), q->path, base, random);
	return 0;
}

static int check(const struct cbx_caller *caller, const struct cbx_query_spec *spec, struct cbx_err *err)
{
	const char *tenant = spec->session ? spec->session->tenant : caller->principal->tenant;
	const struct cbx_sql_query *q;
	size_t n = 0, own = 0;

	if (!spec->query && !spec->schema)
		return cbx_refuse(err, "invalid_argument", EINVAL, "missing argument: query");
	if (spec->path && !spec->session)
		return cbx_refuse(err, "invalid_argument", EINVAL, "path: name the session whose file it is to be");
	if (spec->parameters &&
	    (!cJSON_IsArray(spec->parameters) || cJSON_GetArraySize(spec->parameters) > CBX_SQL_PARAMETERS_MAX))
		return cbx_refuse(err, "invalid_argument", EINVAL, "parameters: give a list of up to %d values",
				  CBX_SQL_PARAMETERS_MAX);
	TAILQ_FOREACH(q, &caller->engine->queries, entry) {
		n++;
		own += strcmp(q->tenant, tenant) == 0;
	}
	if (n >= CBX_SQL_QUERIES_MAX)
		return cbx_refuse(err, "busy", EBUSY, "%d queries run at once; try again later", CBX_SQL_QUERIES_MAX);
	if (own >= CBX_SQL_QUERIES_OWN && strcmp(tenant, "local") != 0)
		return cbx_refuse(err, "busy", EBUSY, "%d queries of yours run at once; try again later", CBX_SQL_QUERIES_OWN);
	return 0;
}

static struct cbx_sql_query *query_new(struct cbx_caller *caller, struct cbx_session *s)
{
	struct cbx_sql_query *q = cbx_xcalloc(1, sizeof(*q));

	q->engine = caller->engine;
	snprintf(q->tenant, sizeof(q->tenant), "%s", s ? s->tenant : caller->principal->tenant);
	snprintf(q->principal.tenant, sizeof(q->principal.tenant), "%s", q->tenant);
	if (caller->via)
		q->via = *caller->via;
	q->caller = (struct cbx_caller){ .engine = q->engine,
					 .principal = &q->principal,
					 .via = caller->via ? &q->via : NULL };
	q->job.fd = -1;
	q->began_ms = cbx_now_ms();
	q->work = event_new(q->engine->base, -1, 0, turn, q);
	q->timer = event_new(q->engine->base, -1, EV_PERSIST, look, q);
	return q;
}

static int begin(struct cbx_sql_query *q, const struct cbx_query_spec *spec, const struct cbx_policy *p,
		 struct cbx_err *err)
{
	struct timeval tv = { .tv_usec = LOOK_MS * 1000 };
	struct cbx_session *s = spec->session;
	int r = q->work && q->timer && event_add(q->timer, &tv) == 0 ? 0 : cbx_fail(err, ENOMEM, "watch a query");

	if (r >= 0)
		r = cbx_query_request(q, spec, p, err);
	if (r >= 0 && s) {
		q->session = s->serial;
		s->queries++;
		snprintf(q->session_id, sizeof(q->session_id), "%s", s->spec.id);
		q->link_s = spec->link_s;
		r = name_file(q, spec, err);
	}
	if (r >= 0 && s && (spec->store_string || spec->container))
		r = cbx_artifact_store(s, spec->store_string, spec->container, &q->store, err);
	if (r >= 0 && q->database)
		return cbx_query_ask_file(q, err);
	if (r >= 0 && spec->path)
		return cbx_session_file_stat(s, q->path, file_op(q), err);
	return r < 0 ? r : ask(q, err);
}

int cbx_engine_query(struct cbx_caller *caller, const struct cbx_query_spec *spec, struct cbx_answer_op *op,
		     struct cbx_err *err)
{
	const char *format;
	struct cbx_policy *p;
	struct cbx_sql_query *q;
	int r = check(caller, spec, err);

	if (r >= 0)
		r = cbx_query_format(spec, &format, err);
	if (r < 0)
		return r;
	p = cbx_query_policy(caller, spec->session);
	q = query_new(caller, spec->session);
	q->format = format;
	r = begin(q, spec, p, err);
	cbx_policy_free(p);
	if (r < 0) {
		query_free(q);
		return r;
	}
	TAILQ_INSERT_TAIL(&q->engine->queries, q, entry);
	if (spec->session)
		cbx_session_touch(spec->session);
	cbx_op_begin(&op->op, &q->op);
	return 0;
}

void cbx_engine_end_queries(struct cbx_engine *e)
{
	struct cbx_sql_query *q, *next;

	TAILQ_FOREACH_SAFE(q, &e->queries, entry, next) {
		if (q->op)
			cbx_op_cancel(q->op);
		query_free(q);
	}
}
