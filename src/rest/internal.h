/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_REST_INTERNAL_H
#define CBX_REST_INTERNAL_H

/*
 * What the files of the REST interface share. A call is a request that is being answered. It is freed by its answer, or
 * when its client leaves, and what it waits for in the engine is cancelled with it; executions continue.
 *
 *   serve.c       from a request to the function of its route; route.c: paths and queries; table.c: the routes
 *   call.c        a call from its request to its answer, and errors
 *   about.c       health, readiness, version, the description of all this
 *   sessions.c    sessions; options.c: what a request asks of one, in its body and headers
 *   executions.c  executions; results.c: as JSON; stream.c: as events
 *   commands.c    commands: their start and end, input; output.c: what they print, as events that can be continued
 *   files.c       files; multipart.c: several of them in a body; artifacts.c: those that were kept; sql.c: databases
 *   pack.c        a directory as an archive; unpack.c: and back; tar-write.c, tar-read.c: the format
 */
#include <event2/event.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/json.h"
#include "http/conn.h"
#include "rest/multipart.h"
#include "rest/rest.h"
#include "rest/route.h"
#include "session/artifacts.h"
#include "session/commands.h"
#include "session/session.h"

struct cbx_rest_call {
	LIST_ENTRY(cbx_rest_call) entry;
	struct cbx_rest *rest;
	struct cbx_http_conn *conn;
	struct cbx_caller caller;
	struct cbx_via via; /* of the caller */
	const struct cbx_rest_route *route;
	struct cbx_rest_target target;
	struct cbx_json_doc doc; /* the body, where it is JSON */
	const char *body;	 /* until the route's function returns */
	size_t body_len;
	struct event *timer;
	void (*on_timer)(struct cbx_rest_call *call);
	union {
		struct cbx_ready_op ready;
		struct cbx_watch_op watch;
		struct cbx_file_op file;
		struct cbx_answer_op answer;
		struct cbx_artifact_op artifact;
		struct cbx_command_op command;
		struct cbx_input_op input;
	};
	/* of those that need them */
	bool dependencies;    /* sessions.c: there are some, and so they are called */
	struct cbx_buf data;  /* files.c: what is written */
	const char *from;     /* files.c: the file in it */
	uint64_t offset, end; /* files.c: of what is read or written; commands.c: of input; output.c: up to where
			       that was sent */
	struct cbx_rest_part *parts; /* files.c: several that are written; NULL: one is */
	size_t nparts, part, into;   /* files.c: the next of them, and how long the path of their directory is */
	cJSON *written;		     /* files.c: those that are there */
	struct cbx_rest_pack *pack;  /* pack.c */
	struct cbx_rest_unpack *unpack;		     /* unpack.c */
	void (*release)(struct cbx_rest_call *call); /* of these two; NULL: there is none */
	bool existed;	      /* files.c: before it was written */
	bool behind;	      /* output.c: its client is slow, and there is more */
	bool streaming;	      /* the answer has begun */
	bool ndjson;	      /* stream.c: else events */
	bool cleared;	      /* stream.c: a slow client is to learn that what came before is void */
	uint64_t omitted;     /* stream.c: bytes that a slow client did not get, since then */
};

/* ---- call.c ---- */

void cbx_rest_call_free(struct cbx_rest_call *call);
/* The last thing that is done with a call. */
void cbx_rest_answer(struct cbx_rest_call *call, int status, cJSON *body); /* takes the body */
struct cbx_answer_op *cbx_rest_answer_op(struct cbx_rest_call *call);	   /* whose answer is the call's */
void cbx_rest_answer_text(struct cbx_rest_call *call, const char *type, const struct cbx_buf *text);
void cbx_rest_fail(struct cbx_rest_call *call, const struct cbx_err *err);
void cbx_rest_not_found(struct cbx_rest_call *call, const char *kind, const char *detail);
void cbx_rest_end(struct cbx_rest_call *call); /* its answer was a stream, which ends */
void cbx_rest_cut(struct cbx_rest_call *call); /* an answer that has begun and cannot be completed */
void cbx_rest_timer(struct cbx_rest_call *call, uint64_t ms, void (*on_timer)(struct cbx_rest_call *call));
/* It is an archive's, of which there may be a few at a time. */
int cbx_rest_transfer(struct cbx_rest_call *call, struct cbx_err *err);
/* The session of the path. False: it was answered. */
bool cbx_rest_session(struct cbx_rest_call *call, struct cbx_session **ret);
/* 2026-01-31T12:00:00.123000, of UTC */
void cbx_rest_time(uint64_t ms, char out[32]);
/* "wait" of the query, in milliseconds. */
int cbx_rest_wait(struct cbx_rest_call *call, uint64_t *ret_ms, struct cbx_err *err);

/* ---- options.c ---- */

/* What POST /sessions says, as the spec of a session; *ret_doc, owned by the caller, holds what the spec borrows. */
int cbx_rest_session_spec(struct cbx_rest_call *call, struct cbx_session_spec *spec, cJSON **ret_doc,
			  struct cbx_err *err);
/* X-Exec-Timeout, and "timeout" of the body, which comes first. */
int cbx_rest_cell_timeout(struct cbx_rest_call *call, uint64_t *ret_ms, struct cbx_err *err);
/* X-Blob-SAS-Expiry-Hours, in seconds; 0: it is not there. */
int cbx_rest_link_seconds(struct cbx_rest_call *call, uint32_t *ret, struct cbx_err *err);

/* ---- files.c ---- */

/* The operation of the next file request. */
struct cbx_file_op *cbx_rest_file_op(struct cbx_rest_call *call,
				     void (*done)(struct cbx_file_op *op, const struct cbx_file_reply *reply,
						  const struct cbx_err *err));
static inline struct cbx_rest_call *cbx_rest_call_of_file(struct cbx_file_op *op)
{
	return cbx_container_of(op, struct cbx_rest_call, file);
}
/* What target.path is, of `end` bytes, is news; told, with others before it, later. */
void cbx_rest_add_news(struct cbx_rest_call *call);
void cbx_rest_tell_news(struct cbx_rest_call *call);

/* ---- pack.c, unpack.c ---- */

int cbx_rest_pack(struct cbx_rest_call *call, struct cbx_err *err);
/* Of a Content-Type: 't': tar, 'z': compressed by gzip; 0: neither. */
char cbx_rest_archive_kind(const char *type);
int cbx_rest_unpack(struct cbx_rest_call *call, struct cbx_err *err);

/* ---- executions.c ---- */

/* The execution of the path; detail: that there never was one. False: it was answered. */
bool cbx_rest_execution(struct cbx_rest_call *call, const char *detail, struct cbx_execution **ret);

/* ---- stream.c ---- */

void cbx_rest_stream_begin(struct cbx_rest_call *call);
/* more: further lines of a server-sent event, or "". Takes the object. */
void cbx_rest_stream_event(struct cbx_rest_call *call, const char *type, const char *more, cJSON *o);
cJSON *cbx_rest_event_of(const char *type);

/* ---- commands.c ---- */

/* The command of the path. False: it was answered. */
bool cbx_rest_command(struct cbx_rest_call *call, struct cbx_command **ret);
cJSON *cbx_rest_command_json(const struct cbx_command *c);
void cbx_rest_command_left(struct cbx_rest_call *call); /* its client */

/* ---- results.c ---- */

const char *cbx_rest_status(const struct cbx_execution *x);	    /* initializing, running, completed, error */
void cbx_rest_set_request(cJSON *o, const struct cbx_execution *x); /* "request_id" */
cJSON *cbx_rest_status_json(const struct cbx_execution *x);
cJSON *cbx_rest_results_json(const struct cbx_execution *x);
cJSON *cbx_rest_execution_json(const struct cbx_execution *x);
cJSON *cbx_rest_summary_json(const struct cbx_execution *x); /* one of a list */

/* ---- the functions of the routes ---- */

typedef int cbx_rest_fn(struct cbx_rest_call *call, struct cbx_err *err);
cbx_rest_fn cbx_rest_health, cbx_rest_ready, cbx_rest_version, cbx_rest_openapi, cbx_rest_metrics;
cbx_rest_fn cbx_rest_create_session, cbx_rest_list_sessions, cbx_rest_get_session, cbx_rest_delete_session,
	cbx_rest_restart_session, cbx_rest_install_packages, cbx_rest_get_log;
cbx_rest_fn cbx_rest_execute, cbx_rest_get_execution, cbx_rest_get_status, cbx_rest_get_results, cbx_rest_stream,
	cbx_rest_interrupt, cbx_rest_list_executions;
cbx_rest_fn cbx_rest_list_artifacts, cbx_rest_get_artifact, cbx_rest_delete_artifact;
cbx_rest_fn cbx_rest_list_files, cbx_rest_get_file, cbx_rest_put_file, cbx_rest_post_files, cbx_rest_delete_file;
cbx_rest_fn cbx_rest_start_command, cbx_rest_list_commands, cbx_rest_get_command, cbx_rest_delete_command,
	cbx_rest_command_output, cbx_rest_command_input, cbx_rest_end_command_input, cbx_rest_resize_command,
	cbx_rest_signal_command;
cbx_rest_fn cbx_rest_list_images;
cbx_rest_fn cbx_rest_sql, cbx_rest_list_databases, cbx_rest_get_database, cbx_rest_get_file_database;

extern const struct cbx_rest_route cbx_rest_routes[];

#endif
