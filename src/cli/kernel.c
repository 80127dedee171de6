/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-kernel, executed by `codebox kernel`, is what a Jupyter client starts as a kernel. It
 * holds no interpreter: each request becomes one to codeboxd, whose events become messages. While a cell runs,
 * heartbeats and the control socket are served, so that an interrupt is heard; all else waits for its end. The session
 * ends with this process, unless it has a name.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/kernel-wire.h"

#define LOOK_MS	 1000 /* after the parent, which may have died */
#define QUIET_MS 20   /* without more of a stream: what there is goes out */
#define TEXT_MAX 65536

struct kernel {
	struct cbx_wire wire;
	struct cbx_cli_spec spec;
	struct cbx_client client; /* fd -1: there is no daemon */
	char session[CBX_NAME_MAX + 1];
	const char *file;
	struct cbx_buf text; /* of a stream, not sent yet */
	char stream[8];
	uint64_t count, run; /* cells; the request that runs, 0: none */
	uint64_t execution;  /* of that request; 0: it waits, perhaps for a cell of somebody else */
	pid_t parent;
	bool ended, abort;
	bool interrupted; /* before there was an execution */
};

static void status(struct kernel *k, const struct cbx_wire_request *q, const char *state)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "execution_state", state);
	cbx_wire_publish(&k->wire, q, "status", o);
}

static cJSON *ok(void)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "status", "ok");
	return o;
}

static void lose_daemon(struct kernel *k)
{
	if (k->client.fd >= 0)
		cbx_client_close(&k->client);
	k->client.fd = -1;
	k->session[0] = '\0';
}

/* ---- a cell ---- */

static cJSON *run_params(const struct kernel *k, const char *code)
{
	cJSON *params = cbx_json_new_obj();

	if (k->session[0]) {
		cbx_json_set_str(params, "session_id", k->session);
	} else {
		cbx_cli_spec_json(&k->spec, params);
		if (k->spec.session)
			cbx_json_set_bool(params, "create", true);
	}
	cbx_json_set_str(params, "code", code);
	if (k->spec.timeout)
		cbx_json_set_str(params, "timeout", k->spec.timeout);
	else
		cbx_json_set_bool(params, "unlimited", true);
	return params;
}

/* Stretches of a stream are one message: each becomes an output of its own in a notebook. */
static void send_stream(struct kernel *k, const struct cbx_wire_request *q)
{
	cJSON *o;

	if (!k->text.len)
		return;
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "name", k->stream);
	cbx_json_set_str(o, "text", cbx_buf_str(&k->text));
	cbx_wire_publish(&k->wire, q, "stream", o);
	k->text.len = 0;
}

static void add_stream(struct kernel *k, const struct cbx_wire_request *q, const char *stream, const char *text)
{
	if (strcmp(k->stream, stream) != 0 || k->text.len > TEXT_MAX)
		send_stream(k, q);
	snprintf(k->stream, sizeof(k->stream), "%s", stream);
	cbx_buf_adds(&k->text, text);
}

static void on_display(struct kernel *k, const struct cbx_wire_request *q, const cJSON *msg)
{
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(msg, "data");
	cJSON *metadata = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(msg, "metadata"), 1);
	cJSON *o = cbx_json_new_obj(), *transient = cbx_json_new_obj();
	bool result = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(msg, "is_result"));
	bool update = cJSON_GetObjectItemCaseSensitive(metadata, "update");

	cJSON_DeleteItemFromObjectCaseSensitive(metadata, "update");
	cJSON_DeleteItemFromObjectCaseSensitive(metadata, "display_id");
	cbx_json_set_str(transient, "display_id", cbx_json_text(msg, "display_id"));
	cbx_json_set(o, "data", data ? cJSON_Duplicate(data, 1) : cbx_json_new_obj());
	cbx_json_set(o, "metadata", metadata ? metadata : cbx_json_new_obj());
	if (result)
		cbx_json_set_u64(o, "execution_count", k->count);
	cbx_json_set(o, "transient", transient);
	cbx_wire_publish(&k->wire, q, result ? "execute_result" : update ? "update_display_data" : "display_data", o);
}

/* Of the execution, not of what else may run in the session; before there is one, when there is. */
static void stop_cell(struct kernel *k)
{
	cJSON *params;
	struct cbx_err err;

	k->interrupted = k->run && !k->execution;
	if (!k->execution)
		return;
	params = cbx_json_new_obj();
	cbx_json_set_str(params, "session_id", k->session);
	cbx_json_set_u64(params, "execution_id", k->execution);
	(void)cbx_client_send(&k->client, "interrupt", params, NULL, &err);
}

static void on_event(struct kernel *k, const struct cbx_wire_request *q, const cJSON *msg)
{
	const char *event = cbx_cli_str(msg, "event"), *session = cbx_cli_str(msg, "session_id");

	if (cbx_json_number(msg, "request", 0) != (double)k->run)
		return;
	if (strcmp(event, "start") == 0 && cbx_name_valid(session)) {
		memcpy(k->session, session, strlen(session) + 1);
		k->execution = (uint64_t)cbx_json_number(msg, "execution_id", 0);
		if (k->interrupted)
			stop_cell(k);
	} else if (strcmp(event, "output") == 0) {
		add_stream(k, q, cbx_cli_str(msg, "stream"), cbx_cli_str(msg, "text"));
	} else if (strcmp(event, "display") == 0) {
		send_stream(k, q);
		on_display(k, q, msg);
	} else if (strcmp(event, "clear") == 0) {
		cJSON *o = cbx_json_new_obj();

		send_stream(k, q);
		cbx_json_set_bool(o, "wait", cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(msg, "wait")));
		cbx_wire_publish(&k->wire, q, "clear_output", o);
	}
}

static void serve_control(struct kernel *k);

/* 1: it has ended, with *ret; 0: not yet. */
static int step(struct kernel *k, const struct cbx_wire_request *q, cJSON **ret, struct cbx_err *err)
{
	zmq_pollitem_t p[] = { { .socket = k->wire.control, .events = ZMQ_POLLIN },
			       { .socket = k->wire.heartbeat, .events = ZMQ_POLLIN },
			       { .fd = k->client.fd, .events = ZMQ_POLLIN } };
	bool there = cbx_client_pending(&k->client);
	_cleanup_json_ cJSON *msg = NULL;
	int r;

	r = zmq_poll(p, ARRAY_SIZE(p), there ? 0 : k->text.len ? QUIET_MS : LOOK_MS);
	if (r < 0 && errno != EINTR)
		return cbx_fail(err, errno, "wait for codeboxd");
	if (r == 0 && !there)
		send_stream(k, q);
	if (p[1].revents)
		cbx_wire_echo(&k->wire);
	if (p[0].revents)
		serve_control(k);
	if (k->ended || getppid() != k->parent)
		return cbx_refuse(err, "ended", EINTR, "the kernel was shut down");
	if (!there && !p[2].revents)
		return 0;
	r = cbx_client_recv(&k->client, &msg, err);
	if (r == 0)
		return cbx_refuse(err, "daemon_gone", ECONNRESET,
				  "codeboxd has ended, and the session with it; run the cells again");
	if (r < 0)
		return r;
	r = cbx_client_answer(msg, k->run, ret, err);
	if (r == 0)
		on_event(k, q, msg);
	return r;
}

static int run_code(struct kernel *k, const struct cbx_wire_request *q, const char *code, cJSON **ret,
		    struct cbx_err *err)
{
	int r = k->client.fd < 0 ? cbx_cli_client(true, &k->client, err) : 1;

	if (r <= 0) {
		k->client.fd = -1;
		return r < 0 ? r : cbx_refuse(err, "no_daemon", ENOENT, "there is no codeboxd");
	}
	k->execution = 0;
	k->interrupted = false;
	r = cbx_client_send(&k->client, "run", run_params(k, code), &k->run, err);
	for (bool sent = r >= 0; sent && r >= 0;) {
		r = step(k, q, ret, err);
		if (r > 0)
			break;
	}
	k->run = k->execution = 0;
	send_stream(k, q);
	if (r < 0 && (strcmp(err->kind, "daemon_gone") == 0 || strcmp(err->kind, "ended") == 0))
		lose_daemon(k);
	else if (r < 0 && (strcmp(err->kind, "session_not_found") == 0 || strcmp(err->kind, "session_expired") == 0))
		k->session[0] = '\0';
	return r < 0 ? r : 0;
}

static cJSON *lines_of(const char *text)
{
	cJSON *list = cbx_json_new_arr();

	while (*text) {
		size_t n = strcspn(text, "\n");
		_cleanup_free_ char *line = cbx_xasprintf("%.*s", (int)n, text);

		cbx_json_push_str(list, line);
		text += n + (text[n] == '\n');
	}
	return list;
}

/* {"ename","evalue","traceback"}; NULL: there is none. */
static cJSON *error_of(const cJSON *x)
{
	const cJSON *error = cJSON_GetObjectItemCaseSensitive(x, "error");
	const char *state = cbx_cli_str(x, "status"), *message = cbx_cli_str(x, "message");
	bool raised = cJSON_IsObject(error);
	cJSON *o;

	if (!raised && strcmp(state, "ok") == 0)
		return NULL;
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "ename", raised ? cbx_cli_str(error, "name") : state);
	cbx_json_set_str(o, "evalue", raised ? cbx_cli_str(error, "value") : message);
	cbx_json_set(o, "traceback", lines_of(raised ? cbx_cli_str(error, "traceback") : message));
	return o;
}

static cJSON *failure(const struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "ename", err->kind);
	cbx_json_set_str(o, "evalue", err->msg);
	cbx_json_set(o, "traceback", lines_of(err->msg));
	return o;
}

static void execute(struct kernel *k, const struct cbx_wire_request *q)
{
	const char *code = cbx_cli_str(q->content, "code");
	bool silent = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(q->content, "silent"));
	bool stop = !cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(q->content, "stop_on_error"));
	cJSON *input = cbx_json_new_obj(), *reply = cbx_json_new_obj(), *error = NULL;
	_cleanup_json_ cJSON *x = NULL;
	struct cbx_err err;

	k->count += !silent;
	cbx_json_set_str(input, "code", code);
	cbx_json_set_u64(input, "execution_count", k->count);
	if (silent)
		cJSON_Delete(input);
	else
		cbx_wire_publish(&k->wire, q, "execute_input", input);
	if (code[strspn(code, " \t\r\n")])
		error = run_code(k, q, code, &x, &err) < 0 ? failure(&err) : error_of(x);
	cbx_json_set_str(reply, "status", error ? "error" : "ok");
	cbx_json_set_u64(reply, "execution_count", k->count);
	cbx_json_set(reply, "user_expressions", cbx_json_new_obj());
	cbx_json_set(reply, "payload", cbx_json_new_arr());
	if (error) {
		const cJSON *v;

		cJSON_ArrayForEach(v, error)
			cbx_json_set(reply, v->string, cJSON_Duplicate(v, 1));
		cbx_wire_publish(&k->wire, q, "error", error);
		k->abort = stop;
	}
	cbx_wire_reply(&k->wire, q, "execute_reply", reply);
}

/* ---- the other requests ---- */

static void kernel_info(struct kernel *k, const struct cbx_wire_request *q)
{
	cJSON *o = ok();

	cbx_json_set_str(o, "protocol_version", "5.3");
	cbx_json_set_str(o, "implementation", "codebox");
	cbx_json_set_str(o, "implementation_version", PACKAGE_VERSION);
	cbx_json_set_str(o, "banner", "Python in a sandbox of codebox " PACKAGE_VERSION);
	cbx_json_set(o, "help_links", cbx_json_new_arr());
	cbx_json_set(
		o, "language_info",
		cJSON_Parse(
			"{\"name\":\"python\",\"version\":\"3\",\"mimetype\":\"text/x-python\","
			"\"file_extension\":\".py\",\"pygments_lexer\":\"ipython3\",\"nbconvert_exporter\":\"python\","
			"\"codemirror_mode\":{\"name\":\"ipython\",\"version\":3}}"));
	cbx_wire_reply(&k->wire, q, "kernel_info_reply", o);
}

/* The answer of codeboxd; NULL: there is no session, or it cannot say. */
static cJSON *ask(struct kernel *k, const char *method, cJSON *params)
{
	cJSON *result = NULL;
	struct cbx_err err;

	if (k->client.fd < 0 || !k->session[0] || k->run) {
		cJSON_Delete(params);
		return NULL;
	}
	cbx_json_set_str(params, "session_id", k->session);
	return cbx_client_call(&k->client, method, params, &result, &err) < 0 ? NULL : result;
}

static void complete(struct kernel *k, const struct cbx_wire_request *q)
{
	cJSON *params = cbx_json_new_obj(), *o = ok();
	double cursor = cbx_json_number(q->content, "cursor_pos", 0);
	_cleanup_json_ cJSON *found = NULL;
	const cJSON *matches;

	cbx_json_set_str(params, "code", cbx_cli_str(q->content, "code"));
	cbx_json_set_u64(params, "cursor", cursor > 0 ? (uint64_t)cursor : 0);
	found = ask(k, "complete", params);
	matches = cJSON_GetObjectItemCaseSensitive(found, "matches");
	cbx_json_set(o, "matches", matches ? cJSON_Duplicate(matches, 1) : cbx_json_new_arr());
	cbx_json_set_u64(o, "cursor_start", (uint64_t)cbx_json_number(found, "start", cursor));
	cbx_json_set_u64(o, "cursor_end", (uint64_t)cbx_json_number(found, "end", cursor));
	cbx_json_set(o, "metadata", cbx_json_new_obj());
	cbx_wire_reply(&k->wire, q, "complete_reply", o);
}

static void is_complete(struct kernel *k, const struct cbx_wire_request *q)
{
	cJSON *params = cbx_json_new_obj(), *o = cbx_json_new_obj();
	_cleanup_json_ cJSON *said = NULL;
	const char *state;

	cbx_json_set_str(params, "code", cbx_cli_str(q->content, "code"));
	said = ask(k, "is_complete", params);
	state = cbx_json_text(said, "status");
	cbx_json_set_str(o, "status", state ? state : "unknown");
	if (state && strcmp(state, "incomplete") == 0)
		cbx_json_set_str(o, "indent", cbx_cli_str(said, "indent"));
	cbx_wire_reply(&k->wire, q, "is_complete_reply", o);
}

static void reply_with(struct kernel *k, const struct cbx_wire_request *q, const char *type, const char *json)
{
	cbx_wire_reply(&k->wire, q, type, cJSON_Parse(json));
}

static void interrupt(struct kernel *k, const struct cbx_wire_request *q)
{
	stop_cell(k);
	cbx_wire_reply(&k->wire, q, "interrupt_reply", ok());
}

static void shut_down(struct kernel *k, const struct cbx_wire_request *q)
{
	cJSON *o = ok();

	cbx_json_set_bool(o, "restart", cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(q->content, "restart")));
	cbx_wire_reply(&k->wire, q, "shutdown_reply", o);
	k->ended = true;
}

static void serve(struct kernel *k, const struct cbx_wire_request *q)
{
	status(k, q, "busy");
	if (strcmp(q->type, "kernel_info_request") == 0)
		kernel_info(k, q);
	else if (strcmp(q->type, "execute_request") == 0 && q->socket == k->wire.shell && k->abort)
		reply_with(k, q, "execute_reply", "{\"status\":\"aborted\"}");
	else if (strcmp(q->type, "execute_request") == 0 && q->socket == k->wire.shell)
		execute(k, q);
	else if (strcmp(q->type, "complete_request") == 0)
		complete(k, q);
	else if (strcmp(q->type, "is_complete_request") == 0)
		is_complete(k, q);
	else if (strcmp(q->type, "inspect_request") == 0)
		reply_with(k, q, "inspect_reply", "{\"status\":\"ok\",\"found\":false,\"data\":{},\"metadata\":{}}");
	else if (strcmp(q->type, "history_request") == 0)
		reply_with(k, q, "history_reply", "{\"status\":\"ok\",\"history\":[]}");
	else if (strcmp(q->type, "comm_info_request") == 0)
		reply_with(k, q, "comm_info_reply", "{\"status\":\"ok\",\"comms\":{}}");
	else if (strcmp(q->type, "interrupt_request") == 0)
		interrupt(k, q);
	else if (strcmp(q->type, "shutdown_request") == 0)
		shut_down(k, q);
	status(k, q, "idle");
}

static void serve_control(struct kernel *k)
{
	struct cbx_wire_request q;

	if (cbx_wire_receive(&k->wire, k->wire.control, &q))
		serve(k, &q);
	cbx_wire_release(&q);
}

/* What was asked for before a cell failed is not run after it. */
static void serve_shell(struct kernel *k)
{
	struct cbx_wire_request q;

	if (cbx_wire_receive(&k->wire, k->wire.shell, &q))
		serve(k, &q);
	cbx_wire_release(&q);
}

static int serve_all(struct kernel *k, struct cbx_err *err)
{
	while (!k->ended && getppid() == k->parent) {
		zmq_pollitem_t p[] = { { .socket = k->wire.shell, .events = ZMQ_POLLIN },
				       { .socket = k->wire.control, .events = ZMQ_POLLIN },
				       { .socket = k->wire.heartbeat, .events = ZMQ_POLLIN } };

		if (zmq_poll(p, ARRAY_SIZE(p), k->abort ? 0 : LOOK_MS) < 0 && errno != EINTR)
			return cbx_fail(err, errno, "wait for requests");
		if (p[2].revents)
			cbx_wire_echo(&k->wire);
		if (p[1].revents)
			serve_control(k);
		if (p[0].revents && !k->ended)
			serve_shell(k);
		else
			k->abort = false;
	}
	return 0;
}

static int parse_options(int argc, char **argv, struct kernel *k)
{
	static const struct option options[] = { CBX_CLI_SESSION_OPTIONS, { 0 } };
	int c, r = 0;

	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "+:f:v:", options, NULL)) >= 0) {
		if (c == 'f')
			k->file = optarg;
		else
			r = cbx_cli_spec_option("kernel", &k->spec, c, argv);
	}
	if (r)
		return r;
	if (optind < argc || !k->file)
		return cbx_cli_usage("kernel", "%s",
				     optind < argc
					     ? "unexpected argument: it takes options only"
					     : "missing argument: -f FILE, the connection file of a Jupyter client");
	return cbx_cli_spec_check("kernel", &k->spec);
}

int main(int argc, char **argv)
{
	struct kernel k = { .client.fd = -1, .parent = getppid() };
	struct cbx_err err;
	int r = parse_options(argc, argv, &k);

	if (r == 0) {
		signal(SIGINT, SIG_IGN); /* the client asks for an interrupt by a message */
		signal(SIGPIPE, SIG_IGN);
		if (cbx_wire_open(k.file, &k.wire, &err) < 0 || serve_all(&k, &err) < 0)
			r = cbx_cli_fail(&err);
	}
	lose_daemon(&k);
	cbx_wire_close(&k.wire);
	cbx_buf_release(&k.text);
	cbx_cli_spec_release(&k.spec);
	return r;
}
