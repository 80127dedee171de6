/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one function a method, and a table of them with the members that each accepts. Pointers to
 * sessions are never kept: an id is looked up when it is needed. A pointer to an execution is used only while the watch
 * of it is pending.
 */
#include "daemon/control_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "client/protocol.h"
#include "session/wheels.h"
#include "session/databases.h"

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

static int reload(struct cbx_control_request *q, int (*fn)(struct cbx_daemon *d, cJSON **ret, struct cbx_err *err),
		  struct cbx_err *err)
{
	cJSON *o;
	int r = fn(q->control->daemon, &o, err);

	if (r >= 0)
		cbx_control_answer(q, o, NULL);
	return r;
}

static int op_policy_reload(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	return reload(q, cbx_daemon_reload_policy, err);
}

static int op_tenants_reload(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	return reload(q, cbx_daemon_reload_tenants, err);
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
	spec.language = a->language;
	spec.file = a->file;
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

/* ---- code that does not run ---- */

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
	{ "session.create", op_session_create, .takes = CBX_ARG_LANGUAGE | CBX_ARG_FILE, .spec = true },
	{ "session.list", op_session_list },
	{ "session.top", op_session_top },
	{ "session.info", op_session_info, SESSION },
	{ "session.close", op_session_close, SESSION },
	{ "session.restart", op_session_restart, SESSION, CBX_ARG_LANGUAGE },
	{ "session.bind", op_session_bind, SESSION, CBX_ARG_DETACHED },
	{ "session.history", op_session_history, SESSION, CBX_ARG_EXECUTION },
	{ "watch", cbx_control_watch, SESSION | CBX_ARG_EXECUTION, CBX_ARG_RAW | CBX_ARG_INPUT },
	{ "packages.install", op_packages_install, SESSION | CBX_ARG_PACKAGES },
	{ "packages.lock", op_packages_lock, SESSION | CBX_ARG_PACKAGES | CBX_ARG_PARAMETERS },
	{ "packages.list", op_packages_list, SESSION },
	{ "sql", op_sql, CBX_ARG_CODE,
	  CBX_ARG_SESSION_ID | CBX_ARG_CONNECTION | CBX_ARG_PARAMETERS | CBX_ARG_PATH | CBX_ARG_FORMAT },
	{ "sql.schema", op_sql_schema, 0, CBX_ARG_SESSION_ID | CBX_ARG_CONNECTION },
	{ "run", cbx_control_run, CBX_ARG_CODE,
	  CBX_ARG_CREATE | CBX_ARG_RAW | CBX_ARG_INPUT | CBX_ARG_ARGV | CBX_ARG_FILE | CBX_ARG_LAST |
		  CBX_ARG_UNLIMITED | CBX_ARG_LANGUAGE | CBX_ARG_ASKS | CBX_ARG_DETACHED,
	  .spec = true },
	{ "artifact.list", cbx_control_artifact_list },
	{ "artifact.read", cbx_control_artifact_read, CBX_ARG_ARTIFACT, CBX_ARG_OFFSET | CBX_ARG_LENGTH },
	{ "artifact.link", cbx_control_artifact_link, CBX_ARG_ARTIFACT, CBX_ARG_LENGTH },
	{ "artifact.remove", cbx_control_artifact_remove, CBX_ARG_ARTIFACT },
	{ "input", cbx_control_input, CBX_ARG_REQUEST | CBX_ARG_DATA },
	{ "interrupt", cbx_control_interrupt, SESSION, CBX_ARG_EXECUTION },
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
