/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one function a method, and a table of them with the members that each accepts. Pointers to
 * sessions are never kept: an id is looked up when it is needed. A pointer to an execution is used only while the watch
 * of it is pending.
 */
#include "daemon/control_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "client/protocol.h"
#include "daemon/control_artifacts.h"
#include "daemon/control_commands.h"
#include "daemon/control_files.h"
#include "session/wheels.h"
#include "session/databases.h"

#define OUTPUT_PENDING_MAX MIB(4)  /* more than this unread by a client: its stream omits output */
#define OUTPUT_RESUME	   KIB(64) /* less than this: no longer */

/* ---- the daemon ---- */

static int op_hello(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	const struct cbx_daemon *d = q->control->daemon;
	cJSON *o = cbx_engine_to_json(d->engine), *c = cbx_json_new_obj();

	cbx_json_set_u64(o, "mcp_clients", d->nclients[CBX_SOCKET_MCP]);
	cbx_json_set_u64(c, "seccomp_rules", d->filter_rules);
	cbx_json_set_u64(c, "landlock_abi", d->landlock_abi);
	cbx_json_set(o, "confinement", c);
	cbx_control_answer(q, o, NULL);
	return 0;
}

/* The connection is held open to the very end, so that its closing says that all is over. */
static bool keep_to_the_end(struct cbx_control_request *q)
{
	struct cbx_daemon *d = q->control->daemon;
	int fd = d->nlast_words < CBX_LAST_WORDS ? fcntl(cbx_conn_fd(q->control->conn), F_DUPFD_CLOEXEC, 0) : -1;

	if (fd >= 0)
		d->last_words[d->nlast_words++] = fd;
	return fd >= 0;
}

static int op_stop(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_daemon *d = q->control->daemon;

	(void)keep_to_the_end(q);
	cbx_control_answer(q, NULL, NULL);
	cbx_lifecycle_stop(&d->lifecycle, 0, "a client asked for it");
	return 0;
}

/* Likewise; who waits says nothing more (shutdown(2)), and is not a client any more that would have to leave first. */
static int op_drain(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_lifecycle *lc = &q->control->daemon->lifecycle;

	if (!keep_to_the_end(q))
		return cbx_refuse(err, "busy", EBUSY, "%d clients wait for the end already; end one of them",
				  CBX_LAST_WORDS);
	cbx_control_answer(q, NULL, NULL); /* forgets it */
	cbx_lifecycle_drain(lc);
	return 0;
}

static int op_policy_reload(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	cJSON *o;
	int r = cbx_daemon_reload_policy(q->control->daemon, &o, err);

	if (r >= 0)
		cbx_control_answer(q, o, NULL);
	return r;
}

static int op_tenants_reload(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	cJSON *o;
	int r = cbx_daemon_reload_tenants(q->control->daemon, &o, err);

	if (r >= 0)
		cbx_control_answer(q, o, NULL);
	return r;
}

/* ---- sessions ---- */

static void created(struct cbx_ready_op *op, struct cbx_session *session, const struct cbx_err *err)
{
	struct cbx_control_request *q = cbx_container_of(op, struct cbx_control_request, created);

	cbx_control_answer(q, err ? NULL : cbx_session_to_json(session), err);
}

static int op_session_create(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_session_spec spec;
	struct cbx_session *s;
	int r;

	cbx_session_spec_init(&spec);
	r = cbx_session_spec_parse(a->params, &spec, err);
	q->created = (struct cbx_ready_op){ .op.ops = &q->control->caller.ops, .done = created };
	return r < 0 ? r : cbx_session_create(&q->control->caller, &spec, &q->created, &s, err);
}

static int op_session_list(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set(o, "sessions", cbx_session_list(&q->control->caller));
	cbx_control_answer(q, o, NULL);
	return 0;
}

/* Whoever can connect runs codeboxd, and so sees what all tenants use. */
static int op_session_top(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set(o, "sessions", cbx_session_list_now(&q->control->caller, true));
	cbx_control_answer(q, o, NULL);
	return 0;
}

static void answered(struct cbx_answer_op *op, const cJSON *answer, const struct cbx_err *err)
{
	struct cbx_control_request *q = cbx_container_of(op, struct cbx_control_request, answer);

	cbx_control_answer(q, err ? NULL : cJSON_Duplicate(answer, 1), err);
}

static struct cbx_answer_op *answer_op(struct cbx_control_request *q)
{
	q->answer = (struct cbx_answer_op){ .op.ops = &q->control->caller.ops, .done = answered };
	return &q->answer;
}

static int op_session_info(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	if (!cbx_session_describe(a->session, answer_op(q)))
		cbx_control_answer(q, cbx_session_to_json(a->session), NULL);
	return 0;
}

static int op_session_close(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	cbx_session_close(&q->control->caller, a->session, "on request");
	cbx_control_answer(q, NULL, NULL);
	return 0;
}

static int op_session_restart(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	size_t n = 0;
	int r = cbx_session_restart(&q->control->caller, a->session, a->language, &n, err);
	cJSON *o;

	if (r < 0)
		return r;
	o = cbx_json_new_obj();
	cbx_json_set_u64(o, "ended", n);
	cbx_control_answer(q, o, NULL);
	return 0;
}

/* It ends with this connection; detached: not any more. A connection has one at most, so another one is let go. */
static int op_session_bind(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_control *c = q->control;
	struct cbx_session *before;

	if (c->own[0] && cbx_session_find(&c->caller, c->own, &before, err) == 0)
		cbx_session_bind(before, false);
	cbx_session_bind(a->session, !a->detached);
	snprintf(c->own, sizeof(c->own), "%s", a->detached ? "" : cbx_session_id(a->session));
	cbx_control_answer(q, NULL, NULL);
	return 0;
}

static int op_session_history(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	cJSON *o;
	int r = cbx_session_history(a->session, a->execution, &o, err);

	if (r >= 0)
		cbx_control_answer(q, o, NULL);
	return r;
}

static int op_packages_install(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	return cbx_session_install(&q->control->caller, a->session, a->packages, answer_op(q), err);
}

static int op_packages_lock(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	const cJSON *python = cJSON_GetArrayItem(a->parameters, 0), *machine = cJSON_GetArrayItem(a->parameters, 1);

	if (!cJSON_IsString(python) || !cJSON_IsString(machine))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "parameters: give a version of Python and a machine, as in [\"3.12\", \"aarch64\"]");
	return cbx_session_lock(&q->control->caller, a->session, a->packages, python->valuestring, machine->valuestring,
				answer_op(q), err);
}

static int op_packages_list(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	cJSON *o;
	int r = cbx_session_packages(a->session, &o, err);
	_cleanup_free_ char *path = NULL;

	if (r < 0)
		return r;
	path = cbx_xasprintf("%s/%s", q->control->daemon->packages.sessions, cbx_json_text(o, "directory"));
	cJSON_ReplaceItemInObjectCaseSensitive(o, "directory", cJSON_CreateString(path));
	cbx_control_answer(q, o, NULL);
	return 0;
}

static int op_sql(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_query_spec spec = { .connection = a->connection,
				       .query = a->code,
				       .parameters = a->parameters,
				       .path = a->path,
				       .format = a->format,
				       .session = a->session };

	return cbx_engine_query(&q->control->caller, &spec, answer_op(q), err);
}

static int op_sql_schema(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_query_spec spec = { .connection = a->connection, .schema = true, .session = a->session };

	return cbx_engine_query(&q->control->caller, &spec, answer_op(q), err);
}

/* ---- runs ---- */

static void send_start(struct cbx_control_request *q, struct cbx_execution *x)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "event", "start");
	cbx_json_set_str(o, "session_id", cbx_session_id(cbx_execution_session(x)));
	cbx_json_set_u64(o, "execution_id", cbx_execution_id(x));
	cbx_control_event(q, o);
}

static void send_output(struct cbx_control_request *q, const char *stream, const char *p, size_t n)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "event", "output");
	cbx_json_set_str(o, "stream", stream);
	cbx_json_set_strn(o, "text", p, n);
	cbx_control_event(q, o);
}

static void tell_skipped(struct cbx_control_request *q)
{
	char text[100];

	if (!q->skipped)
		return;
	snprintf(text, sizeof(text), "\n[… %llu bytes were printed faster than they were read …]\n",
		 (unsigned long long)q->skipped);
	q->skipped = 0;
	send_output(q, "stderr", text, strlen(text));
}

/* A client that reads more slowly than a cell prints learns how much it missed; the result has the end of it. */
static void pass_output(struct cbx_control_request *q, const char *stream, const char *p, size_t n)
{
	if (q->raw) {
		cbx_control_bytes(q, stream, p, n);
		return;
	}
	if (q->skipped ? cbx_conn_pending(q->control->conn) >= OUTPUT_RESUME
		       : cbx_conn_pending(q->control->conn) > OUTPUT_PENDING_MAX) {
		q->skipped += n;
		return;
	}
	tell_skipped(q);
	send_output(q, stream, p, n);
}

static void send_display(struct cbx_control_request *q, const cJSON *bundle)
{
	cJSON *o = cJSON_Duplicate(bundle, 1);

	cbx_json_set_str(o, "event", "display");
	cbx_control_event(q, o);
}

static void send_clear(struct cbx_control_request *q, bool at_once)
{
	cJSON *o = cbx_json_new_obj();

	q->skipped = 0;
	cbx_json_set_str(o, "event", "clear");
	cbx_json_set_bool(o, "wait", !at_once);
	cbx_control_event(q, o);
}

static void answer_run(struct cbx_control_request *q, struct cbx_execution *x)
{
	const struct cbx_err *failure = cbx_session_failure(cbx_execution_session(x));

	if (!failure)
		tell_skipped(q);
	cbx_control_answer(q, failure ? NULL : cbx_execution_to_json(x, false), failure);
}

static void send_ask(struct cbx_control_request *q, const char *prompt, bool password)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "event", "ask");
	cbx_json_set_str(o, "prompt", prompt);
	cbx_json_set_bool(o, "password", password);
	cbx_control_event(q, o);
}

static void run_progress(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress)
{
	struct cbx_control_request *q = cbx_container_of(op, struct cbx_control_request, run);

	if (progress->what == CBX_STARTED)
		send_start(q, x);
	else if (progress->what == CBX_PRINTED)
		pass_output(q, progress->stream, progress->p, progress->n);
	else if (progress->what == CBX_CLEARED)
		send_clear(q, progress->at_once);
	else if (progress->what == CBX_SHOWN)
		send_display(q, progress->bundle);
	else if (progress->what == CBX_ENDED)
		answer_run(q, x);
	else if (progress->what == CBX_ASKED && !q->watches)
		send_ask(q, progress->prompt, progress->password);
}

int cbx_control_session(struct cbx_control *c, bool create, struct cbx_session_spec *spec, struct cbx_session **ret,
			struct cbx_err *err)
{
	bool named = spec->id[0];
	int r;

	if (named) {
		r = cbx_session_find(&c->caller, spec->id, ret, err);
		if (r >= 0)
			return cbx_session_same(*ret, spec, err); /* a run changes no settings */
		if (!create)
			return r;
	} else {
		if (c->own[0] && cbx_session_find(&c->caller, c->own, ret, err) == 0)
			return cbx_session_same(*ret, spec, err);
		spec->one_shot = true;
	}
	r = cbx_session_create(&c->caller, spec, NULL, ret, err);
	if (r >= 0 && !named)
		snprintf(c->own, sizeof(c->own), "%s", cbx_session_id(*ret));
	return r;
}

/* What a program is given: a list of texts. */
static int check_argv(const cJSON *argv, struct cbx_err *err)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, argv)
		if (!cJSON_IsString(v))
			return cbx_refuse(err, "invalid_argument", EINVAL, "argv: give a list of strings");
	return 0;
}

/* The name of a file in the workspace itself. */
static int check_file(const char *name, struct cbx_err *err)
{
	char whole[PATH_MAX];

	if (name && (snprintf(whole, sizeof(whole), "/%s", name) >= (int)sizeof(whole) || !cbx_path_clean(whole)))
		return cbx_refuse(
			err, "invalid_argument", EINVAL,
			"file: give the name of a file, or its path in the workspace without \".\", \"..\" and "
			"empty parts");
	return 0;
}

static int check_cell(const struct cbx_control_args *a, struct cbx_err *err)
{
	int r = check_argv(a->argv, err);

	if (r >= 0)
		r = check_file(a->file, err);
	if (r >= 0 && strlen(a->code) > (a->file ? (CBX_CODE_MAX + 2) / 3 * 4 : CBX_CODE_MAX))
		r = cbx_refuse(err, "code_too_long", EMSGSIZE,
			       "code: %zu bytes are more than the %zu allowed; write data to a file of the session and "
			       "read it from there",
			       strlen(a->code), CBX_CODE_MAX);
	return r;
}

static int op_run(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_cell_spec cell = { .code = a->code,
				      .language = a->language,
				      .file = a->file,
				      .argv = a->argv,
				      .input = a->input,
				      .asks = a->asks,
				      .last = a->last,
				      .unlimited = a->unlimited,
				      .streamed = a->raw };
	struct cbx_session_spec spec;
	struct cbx_execution *x;
	struct cbx_session *s;
	int r = check_cell(a, err);

	cbx_session_spec_init(&spec);
	spec.timeout_ms = 0;
	if (r >= 0)
		r = cbx_session_spec_parse(a->params, &spec, err);
	cell.timeout_ms = spec.timeout_ms; /* this run's, 0 where none is given; not the session's */
	spec.timeout_ms = 0;
	if (r >= 0 && cell.timeout_ms && cell.unlimited)
		r = cbx_refuse(err, "invalid_argument", EINVAL, "timeout and unlimited: give one of them, not both");
	if (r >= 0)
		r = cbx_control_session(q->control, a->create, &spec, &s, err);
	if (r < 0)
		return r;
	q->raw = a->raw;
	q->detached = a->detached;
	cell.via = q->control->caller.via;
	q->run = (struct cbx_watch_op){
		.op.ops = &q->control->caller.ops,
		.on_progress = run_progress,
	};
	return cbx_session_start(s, &cell, &q->run, &x, err);
}

/* The cell as it is so far, then what it does from here on. It does not end with this connection. */
static int op_watch(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_execution *x;
	int r = cbx_execution_find(a->session, a->execution, &x, err);
	cJSON *o;

	if (r < 0)
		return r;
	q->watches = true;
	q->raw = a->raw;
	q->feeds = a->input;
	q->run = (struct cbx_watch_op){
		.op.ops = &q->control->caller.ops,
		.on_progress = run_progress,
	};
	r = cbx_execution_watch(x, &q->run, err);
	if (r < 0)
		return r;
	o = cbx_execution_entry(x);
	cbx_json_set_str(o, "event", "cell");
	cbx_control_event(q, o);
	return 0;
}

static void input_taken(struct cbx_input_op *op, const struct cbx_err *err)
{
	struct cbx_control_request *q = cbx_container_of(op, struct cbx_control_request, input);

	cbx_control_answer(q, NULL, err);
}

static int op_input(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf data = { 0 };
	struct cbx_control_request *run;
	int r;

	TAILQ_FOREACH(run, &q->control->requests, entry)
		if (((cbx_op_pending(&run->run.op) && (run->feeds || !run->watches)) || cbx_op_pending(&run->command.op)) &&
		    run->id == a->request)
			break;
	if (!run)
		return cbx_refuse(err, "no_input", EPIPE, "request: no cell or command runs for %" PRIu64 "; start one",
				  a->request);
	r = cbx_control_decode(&data, a, CBX_CONTROL_INPUT, err);
	q->input = (struct cbx_input_op){ .op.ops = &q->control->caller.ops, .done = input_taken };
	if (r >= 0 && cbx_op_pending(&run->command.op))
		r = cbx_command_input(run->command.command, data.data, data.len, &q->input, err);
	else if (r >= 0)
		r = cbx_execution_input(run->run.x, data.data, data.len, &q->input, err);
	if (r > 0)
		cbx_control_answer(q, NULL, NULL);
	return r < 0 ? r : 0;
}

static int op_interrupt(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_execution *x = cbx_session_running(a->session);
	struct cbx_caller *caller = &q->control->caller;

	if (a->given & CBX_ARG_EXECUTION && cbx_execution_find(a->session, a->execution, &x, err) < 0)
		return -err->code;
	cbx_control_answer(q, NULL, NULL); /* and q is gone */
	if (x)
		cbx_execution_interrupt(caller, x);
	return 0;
}

static int op_is_complete(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	return cbx_session_is_complete(a->session, a->language, a->code, answer_op(q), err);
}

/* The cursor; the end, if none is given. */
static int cursor_of(const struct cbx_control_args *a, uint64_t *ret, struct cbx_err *err)
{
	*ret = strlen(a->code);
	return cbx_json_get_u64(a->params, "cursor", 0, CBX_CODE_MAX, ret, err);
}

static int op_inspect(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	uint64_t cursor;
	int r = cursor_of(a, &cursor, err);

	return r < 0 ? r : cbx_session_inspect(a->session, a->language, a->code, cursor, answer_op(q), err);
}

static int op_complete(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	uint64_t cursor;
	int r = cursor_of(a, &cursor, err);

	return r < 0 ? r : cbx_session_complete(a->session, a->language, a->code, cursor, answer_op(q), err);
}

/* ---- the table ---- */

#define SESSION CBX_ARG_SESSION_ID
#define COMMAND (CBX_ARG_SESSION_ID | CBX_ARG_EXECUTION)
#define PATH	(CBX_ARG_SESSION_ID | CBX_ARG_PATH)

const struct cbx_control_method cbx_control_methods[] = {
	{ "hello", op_hello },
	{ "stop", op_stop },
	{ "drain", op_drain },
	{ "policy.reload", op_policy_reload },
	{ "tenants.reload", op_tenants_reload },
	{ "session.create", op_session_create, .spec = true },
	{ "session.list", op_session_list },
	{ "session.top", op_session_top },
	{ "session.info", op_session_info, SESSION },
	{ "session.close", op_session_close, SESSION },
	{ "session.restart", op_session_restart, SESSION, CBX_ARG_LANGUAGE },
	{ "session.bind", op_session_bind, SESSION, CBX_ARG_DETACHED },
	{ "session.history", op_session_history, SESSION, CBX_ARG_EXECUTION },
	{ "watch", op_watch, SESSION | CBX_ARG_EXECUTION, CBX_ARG_RAW | CBX_ARG_INPUT },
	{ "packages.install", op_packages_install, SESSION | CBX_ARG_PACKAGES },
	{ "packages.lock", op_packages_lock, SESSION | CBX_ARG_PACKAGES | CBX_ARG_PARAMETERS },
	{ "packages.list", op_packages_list, SESSION },
	{ "sql", op_sql, CBX_ARG_CODE,
	  CBX_ARG_SESSION_ID | CBX_ARG_CONNECTION | CBX_ARG_PARAMETERS | CBX_ARG_PATH | CBX_ARG_FORMAT },
	{ "sql.schema", op_sql_schema, 0, CBX_ARG_SESSION_ID | CBX_ARG_CONNECTION },
	{ "run", op_run, CBX_ARG_CODE,
	  CBX_ARG_CREATE | CBX_ARG_RAW | CBX_ARG_INPUT | CBX_ARG_ARGV | CBX_ARG_FILE | CBX_ARG_LAST |
		  CBX_ARG_UNLIMITED | CBX_ARG_LANGUAGE | CBX_ARG_ASKS | CBX_ARG_DETACHED,
	  .spec = true },
	{ "artifact.list", cbx_control_artifact_list },
	{ "artifact.read", cbx_control_artifact_read, CBX_ARG_ARTIFACT, CBX_ARG_OFFSET | CBX_ARG_LENGTH },
	{ "artifact.link", cbx_control_artifact_link, CBX_ARG_ARTIFACT, CBX_ARG_LENGTH },
	{ "artifact.remove", cbx_control_artifact_remove, CBX_ARG_ARTIFACT },
	{ "input", op_input, CBX_ARG_REQUEST | CBX_ARG_DATA },
	{ "interrupt", op_interrupt, SESSION, CBX_ARG_EXECUTION },
	{ "is_complete", op_is_complete, SESSION | CBX_ARG_CODE, CBX_ARG_LANGUAGE },
	{ "complete", op_complete, SESSION | CBX_ARG_CODE, CBX_ARG_CURSOR | CBX_ARG_LANGUAGE },
	{ "inspect", op_inspect, SESSION | CBX_ARG_CODE, CBX_ARG_CURSOR | CBX_ARG_LANGUAGE },
	{ "command.start", cbx_control_command_start, 0,
	  CBX_ARG_ARGV | CBX_ARG_CREATE | CBX_ARG_INPUT | CBX_ARG_DIRECTORY | CBX_ARG_VARIABLES | CBX_ARG_TERMINAL |
		  CBX_ARG_ROWS | CBX_ARG_COLUMNS | CBX_ARG_DETACHED,
	  .spec = true },
	{ "command.attach", cbx_control_command_attach, COMMAND, CBX_ARG_ROWS | CBX_ARG_COLUMNS },
	{ "command.detach", cbx_control_command_detach, CBX_ARG_REQUEST },
	{ "command.resize", cbx_control_command_resize, COMMAND | CBX_ARG_ROWS | CBX_ARG_COLUMNS },
	{ "command.kill", cbx_control_command_kill, COMMAND, CBX_ARG_SIGNAL },
	{ "command.list", cbx_control_command_list, SESSION },
	{ "file.read", cbx_control_file_read, PATH, CBX_ARG_OFFSET | CBX_ARG_LENGTH },
	{ "file.write", cbx_control_file_write, PATH | CBX_ARG_DATA,
	  CBX_ARG_OFFSET | CBX_ARG_APPEND | CBX_ARG_TRUNCATE | CBX_ARG_EXECUTABLE },
	{ "file.stat", cbx_control_file_stat, PATH },
	{ "file.list", cbx_control_file_list, SESSION, CBX_ARG_PATH | CBX_ARG_SKIP },
	{ "file.mkdir", cbx_control_file_mkdir, PATH },
	{ "file.remove", cbx_control_file_remove, PATH },
	{ NULL },
};
