/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_CONTROL_H
#define CBX_DAEMON_CONTROL_H

/* Inside of the control protocol's server; see client/protocol.h for what is spoken. */
#include <sys/queue.h>

#include "base/json.h"
#include "daemon/daemon.h"
#include "session/artifacts.h"
#include "session/commands.h"

enum cbx_control_arg {
	CBX_ARG_SESSION_ID = 1ull << 0,
	CBX_ARG_PATH = 1ull << 1,
	CBX_ARG_CODE = 1ull << 2,
	CBX_ARG_FILE = 1ull << 3,
	CBX_ARG_DATA = 1ull << 4,
	CBX_ARG_OFFSET = 1ull << 5,
	CBX_ARG_LENGTH = 1ull << 6,
	CBX_ARG_SKIP = 1ull << 7,
	CBX_ARG_CURSOR = 1ull << 8,
	CBX_ARG_EXECUTION = 1ull << 9,
	CBX_ARG_REQUEST = 1ull << 10,
	CBX_ARG_APPEND = 1ull << 11,
	CBX_ARG_TRUNCATE = 1ull << 12,
	CBX_ARG_EXECUTABLE = 1ull << 13,
	CBX_ARG_CREATE = 1ull << 14,
	CBX_ARG_RAW = 1ull << 15,
	CBX_ARG_INPUT = 1ull << 16,
	CBX_ARG_LAST = 1ull << 17,
	CBX_ARG_UNLIMITED = 1ull << 18,
	CBX_ARG_ARGV = 1ull << 19,
	CBX_ARG_LANGUAGE = 1ull << 20,
	CBX_ARG_DIRECTORY = 1ull << 21,
	CBX_ARG_VARIABLES = 1ull << 22,
	CBX_ARG_TERMINAL = 1ull << 23,
	CBX_ARG_ROWS = 1ull << 24,
	CBX_ARG_COLUMNS = 1ull << 25,
	CBX_ARG_DETACHED = 1ull << 26,
	CBX_ARG_SIGNAL = 1ull << 27,
	CBX_ARG_PACKAGES = 1ull << 28,
	CBX_ARG_CONNECTION = 1ull << 29,
	CBX_ARG_PARAMETERS = 1ull << 30,
	CBX_ARG_ARTIFACT = 1ull << 31,
	CBX_ARG_ASKS = 1ull << 32,
	CBX_ARG_FORMAT = 1ull << 33,
};

/* What a request brings, for as long as its method is called. What is not given is 0. */
struct cbx_control_args {
	uint64_t given; /* of enum cbx_control_arg */
	struct cbx_session *session;
	const char *session_id, *path, *code, *file, *data, *language, *directory, *connection, *artifact_id, *format;
	uint64_t offset, length, skip, cursor, execution, request, rows, columns, signal;
	bool append, truncate, executable, create, raw, input, last, unlimited, terminal, detached, asks;
	const cJSON *argv, *variables, *packages, *parameters;
	const cJSON *params; /* all of it, for cbx_session_spec_parse() */
};

struct cbx_control_request;

/* Carry out a request that was found well-formed. 0: it is answered, or will be from the event loop; -errno with the
 * error to be sent. */
typedef int cbx_control_fn(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err);

struct cbx_control_method {
	const char *name; /* NULL ends a table */
	cbx_control_fn *fn;
	uint64_t needs, takes; /* of enum cbx_control_arg; a session that is needed is looked up */
	bool spec;	       /* the members of cbx_session_spec_parse(), too */
};

struct cbx_control_request {
	TAILQ_ENTRY(cbx_control_request) entry;
	struct cbx_control *control;
	uint64_t id;
	/* What its method waits for is one of these. */
	union {
		struct cbx_ready_op created;
		struct cbx_answer_op answer;
		struct cbx_file_op file;
		struct cbx_input_op input;
		struct cbx_artifact_op artifact;
	};
	struct cbx_watch_op run;
	struct cbx_command_op command;
	bool starts; /* command: it was started for this connection, and ends with it */
	cJSON *(*describe)(const struct cbx_control_request *q,
			   const struct cbx_file_reply *reply); /* for the client */
	bool runs;						/* run: while its connection is being closed */
	bool watches;						/* run: of a cell that somebody else asked for */
	bool detached;						/* run: it keeps running without its connection */
	bool feeds;						/* watch: it may bring the cell's input */
	bool raw;						/* run: output goes as bytes, and all of it */
	bool stalled;	  /* run, command: its pipes are not read, since the client is slow */
	uint64_t skipped; /* bytes of output that a slow client was spared */
	uint64_t offset;  /* file.read; artifact.link: seconds */
};
TAILQ_HEAD(cbx_control_requests, cbx_control_request);

struct cbx_control {
	struct cbx_daemon *daemon;
	const struct cbx_control_method *methods;
	struct cbx_caller caller;
	struct cbx_conn *conn;
	struct cbx_control_requests requests;
	size_t nrequests;
	char own[CBX_NAME_MAX + 1]; /* the session made for this connection; "" */
};

/* The session that a run is for, made when that is allowed; without a name the connection's own. */
int cbx_control_session(struct cbx_control *c, bool create, struct cbx_session_spec *spec, struct cbx_session **ret,
			struct cbx_err *err);
/* As cbx_conn_new(). */
struct cbx_conn *cbx_control_accept(struct cbx_daemon *d, const struct cbx_control_method *methods, int fd,
				    void (*gone)(void *arg), void *arg);
/* Answer and forget a request: by a result, which is taken; by an error; NULL, NULL: by {}. */
void cbx_control_answer(struct cbx_control_request *q, cJSON *result, const struct cbx_err *err);
void cbx_control_bytes(struct cbx_control_request *q, const char *stream, const char *p, size_t n); /* an event of raw */
void cbx_control_event(struct cbx_control_request *q, cJSON *event); /* taken; "request" is added */
/* The bytes of "data", base64 of at most that many. */
int cbx_control_decode(struct cbx_buf *ret, const struct cbx_control_args *a, size_t max, struct cbx_err *err);

/* ---- methods, for the table of control_ops.c ---- */

/* control_artifacts.c */
cbx_control_fn cbx_control_artifact_list, cbx_control_artifact_remove, cbx_control_artifact_read,
	cbx_control_artifact_link;
/* control_cells.c */
cbx_control_fn cbx_control_run, cbx_control_watch, cbx_control_input, cbx_control_interrupt;
/* control_commands.c */
cbx_control_fn cbx_control_command_start, cbx_control_command_attach, cbx_control_command_detach,
	cbx_control_command_resize, cbx_control_command_kill, cbx_control_command_list;
/* control_files.c */
cbx_control_fn cbx_control_file_read, cbx_control_file_write, cbx_control_file_stat, cbx_control_file_list,
	cbx_control_file_mkdir, cbx_control_file_remove;

#endif
