/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-kernel, executed by `codebox kernel`, is what a Jupyter client starts as a kernel. It
 * holds no interpreter: each request becomes one to codeboxd, whose events become messages. While a cell runs,
 * heartbeats, the control socket and what the user types are served, so that an interrupt is heard; all else waits for
 * its end.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "client/protocol.h"
#include "cli/kernel.h"

#define LOOK_MS	 1000 /* after the parent, which may have died */
#define QUIET_MS 20   /* without more of a stream: what there is goes out */
#define TEXT_MAX 65536
#define HELD_MAX 10000 /* requests; those behind them wait in their socket, and run */

static void status(struct kernel *k, const struct cbx_wire_request *q, const char *state)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "execution_state", state);
	cbx_wire_publish(&k->wire, q, "status", o);
}

/* ---- a cell ---- */

static cJSON *run_params(const struct kernel *k, const char *code, bool asks)
{
	cJSON *params = cbx_json_new_obj();

	cbx_cli_spec_json(&k->spec, params);
	cJSON_DeleteItemFromObjectCaseSensitive(params, "session_id");
	cbx_json_set_str(params, "session_id", k->session);
	cbx_json_set_str(params, "code", code);
	cbx_json_set_str(params, "language", cbx_cli_cell_language(k->language, code));
	if (asks)
		cbx_json_set_bool(params, "asks", true);
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
	const cJSON *data = cbx_json_member(msg, "data");
	cJSON *metadata = cJSON_Duplicate(cbx_json_member(msg, "metadata"), 1);
	cJSON *o = cbx_json_new_obj(), *transient = cbx_json_new_obj();
	bool result = cJSON_IsTrue(cbx_json_member(msg, "is_result"));
	bool update = cbx_json_member(metadata, "update");

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

/* ---- what the user types ---- */

static void ask_user(struct kernel *k, const struct cbx_wire_request *q, const cJSON *msg)
{
	struct cbx_wire_request late;
	cJSON *o = cbx_json_new_obj();

	while (cbx_wire_receive(&k->wire, k->wire.input, &late) > 0)
		cbx_wire_release(&late);
	send_stream(k, q);
	cbx_json_set_str(o, "prompt", cbx_json_str(msg, "prompt"));
	cbx_json_set_bool(o, "password", cJSON_IsTrue(cbx_json_member(msg, "password")));
	cbx_wire_ask(&k->wire, q, "input_request", o);
}

/* The answer: a line of the cell's input. */
static int serve_input(struct kernel *k, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf line = { 0 }, data = { 0 };
	struct cbx_wire_request q;
	cJSON *params;
	int r = 0;

	if (cbx_wire_receive(&k->wire, k->wire.input, &q) > 0 && strcmp(q.type, "input_reply") == 0) {
		cbx_buf_adds(&line, cbx_json_str(q.content, "value"));
		if (line.len >= CBX_CONTROL_INPUT) {
			cbx_cli_say("what was typed is longer than the %d bytes of one line; its end is dropped",
				    CBX_CONTROL_INPUT);
			line.len = CBX_CONTROL_INPUT - 1;
		}
		cbx_buf_addc(&line, '\n');
		cbx_base64_encode(&data, line.data, line.len);
		params = cbx_json_new_obj();
		cbx_json_set_u64(params, "request", k->run);
		cbx_json_set_str(params, "data", cbx_buf_str(&data));
		r = cbx_client_send(&k->client, "input", params, NULL, err);
	}
	cbx_wire_release(&q);
	return r;
}

static void on_event(struct kernel *k, const struct cbx_wire_request *q, const cJSON *msg)
{
	const char *event = cbx_json_str(msg, "event"), *session = cbx_json_str(msg, "session_id");

	if (cbx_json_number(msg, "request", 0) != (double)k->run)
		return;
	if (strcmp(event, "start") == 0 && cbx_name_valid(session)) {
		memcpy(k->session, session, strlen(session) + 1);
		k->execution = (uint64_t)cbx_json_number(msg, "execution_id", 0);
		if (k->interrupted)
			stop_cell(k);
	} else if (strcmp(event, "output") == 0) {
		add_stream(k, q, cbx_json_str(msg, "stream"), cbx_json_str(msg, "text"));
	} else if (strcmp(event, "display") == 0) {
		send_stream(k, q);
		on_display(k, q, msg);
	} else if (strcmp(event, "clear") == 0) {
		cJSON *o = cbx_json_new_obj();

		send_stream(k, q);
		cbx_json_set_bool(o, "wait", cJSON_IsTrue(cbx_json_member(msg, "wait")));
		cbx_wire_publish(&k->wire, q, "clear_output", o);
	} else if (strcmp(event, "ask") == 0) {
		ask_user(k, q, msg);
	}
}

static void serve_control(struct kernel *k);

/* 1: it has ended, with *ret; 0: not yet. */
static int step(struct kernel *k, const struct cbx_wire_request *q, cJSON **ret, struct cbx_err *err)
{
	zmq_pollitem_t p[] = { { .socket = k->wire.control, .events = ZMQ_POLLIN },
			       { .socket = k->wire.heartbeat, .events = ZMQ_POLLIN },
			       { .fd = k->client.fd, .events = ZMQ_POLLIN },
			       { .socket = k->wire.input, .events = ZMQ_POLLIN } };
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
	if (p[3].revents && serve_input(k, err) < 0)
		return -err->code;
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
	bool asks = cJSON_IsTrue(cbx_json_member(q->content, "allow_stdin"));
	int r = cbx_kernel_begin(k, err);

	if (r < 0)
		return r;
	k->execution = 0;
	k->interrupted = false;
	r = cbx_client_send(&k->client, "run", run_params(k, code, asks), &k->run, err);
	for (bool sent = r >= 0; sent && r >= 0;) {
		r = step(k, q, ret, err);
		if (r > 0)
			break;
	}
	k->run = k->execution = 0;
	send_stream(k, q);
	if (r < 0 && (strcmp(err->kind, "daemon_gone") == 0 || strcmp(err->kind, "ended") == 0))
		cbx_kernel_lose(k);
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
	const cJSON *error = cbx_json_member(x, "error");
	const char *state = cbx_json_str(x, "status"), *message = cbx_json_str(x, "message");
	bool raised = cJSON_IsObject(error);
	cJSON *o;

	if (!raised && strcmp(state, "ok") == 0)
		return NULL;
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "ename", raised ? cbx_json_str(error, "name") : state);
	cbx_json_set_str(o, "evalue", raised ? cbx_json_str(error, "value") : message);
	cbx_json_set(o, "traceback", lines_of(raised ? cbx_json_str(error, "traceback") : message));
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

/* What was asked for before a cell failed is not run after it. It is taken before anybody hears of the failure: what a
 * client sends then, it wants. */
static void hold_back(struct kernel *k)
{
	zmq_pollitem_t p = { .socket = k->wire.shell, .events = ZMQ_POLLIN };

	while (k->nheld < HELD_MAX && zmq_poll(&p, 1, 0) > 0) {
		k->held = cbx_xrealloc(k->held, (k->nheld + 1) * sizeof(*k->held));
		k->nheld += (size_t)cbx_wire_receive(&k->wire, k->wire.shell, &k->held[k->nheld]);
	}
}

static void execute(struct kernel *k, const struct cbx_wire_request *q)
{
	const char *code = cbx_json_str(q->content, "code");
	bool silent = cJSON_IsTrue(cbx_json_member(q->content, "silent"));
	bool stop = !cJSON_IsFalse(cbx_json_member(q->content, "stop_on_error"));
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
	if (!silent && !cJSON_IsFalse(cbx_json_member(q->content, "store_history")))
		cbx_kernel_remember(k, code);
	if (code[strspn(code, " \t\r\n")])
		error = run_code(k, q, code, &x, &err) < 0 ? failure(&err) : error_of(x);
	cbx_json_set_str(reply, "status", error ? "error" : "ok");
	cbx_json_set_u64(reply, "execution_count", k->count);
	cbx_json_set(reply, "user_expressions", cbx_json_new_obj());
	cbx_json_set(reply, "payload", cbx_json_new_arr());
	if (error) {
		const cJSON *v;

		if (stop)
			hold_back(k);
		cJSON_ArrayForEach(v, error)
			cbx_json_set(reply, v->string, cJSON_Duplicate(v, 1));
		cbx_wire_publish(&k->wire, q, "error", error);
	}
	cbx_wire_reply(&k->wire, q, "execute_reply", reply);
}

/* ---- the other requests ---- */

static void reply_with(struct kernel *k, const struct cbx_wire_request *q, const char *type, const char *json)
{
	cbx_wire_reply(&k->wire, q, type, cJSON_Parse(json));
}

static void interrupt(struct kernel *k, const struct cbx_wire_request *q)
{
	stop_cell(k);
	cbx_wire_reply(&k->wire, q, "interrupt_reply", cbx_kernel_ok());
}

static void shut_down(struct kernel *k, const struct cbx_wire_request *q)
{
	bool again = cJSON_IsTrue(cbx_json_member(q->content, "restart"));
	cJSON *o = cbx_kernel_ok();

	if (again)
		cbx_kernel_hand_over(k);
	cbx_json_set_bool(o, "restart", again);
	cbx_wire_reply(&k->wire, q, "shutdown_reply", o);
	k->ended = true;
}

static void serve(struct kernel *k, const struct cbx_wire_request *q)
{
	status(k, q, "busy");
	if (strcmp(q->type, "kernel_info_request") == 0)
		cbx_kernel_info(k, q);
	else if (strcmp(q->type, "execute_request") == 0 && q->socket == k->wire.shell && k->abort)
		reply_with(k, q, "execute_reply", "{\"status\":\"aborted\"}");
	else if (strcmp(q->type, "execute_request") == 0 && q->socket == k->wire.shell)
		execute(k, q);
	else if (strcmp(q->type, "complete_request") == 0)
		cbx_kernel_complete(k, q);
	else if (strcmp(q->type, "is_complete_request") == 0)
		cbx_kernel_is_complete(k, q);
	else if (strcmp(q->type, "inspect_request") == 0)
		cbx_kernel_inspect(k, q);
	else if (strcmp(q->type, "history_request") == 0)
		cbx_kernel_history(k, q);
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

static void serve_shell(struct kernel *k)
{
	struct cbx_wire_request q;

	if (cbx_wire_receive(&k->wire, k->wire.shell, &q))
		serve(k, &q);
	cbx_wire_release(&q);
	k->abort = true;
	for (size_t i = 0; i < k->nheld; i++) {
		serve(k, &k->held[i]);
		cbx_wire_release(&k->held[i]);
	}
	k->abort = false;
	free(take_ptr(&k->held));
	k->nheld = 0;
}

static int serve_all(struct kernel *k, struct cbx_err *err)
{
	while (!k->ended && getppid() == k->parent) {
		zmq_pollitem_t p[] = { { .socket = k->wire.shell, .events = ZMQ_POLLIN },
				       { .socket = k->wire.control, .events = ZMQ_POLLIN },
				       { .socket = k->wire.heartbeat, .events = ZMQ_POLLIN } };

		if (zmq_poll(p, ARRAY_SIZE(p), LOOK_MS) < 0 && errno != EINTR)
			return cbx_fail(err, errno, "wait for requests");
		if (p[2].revents)
			cbx_wire_echo(&k->wire);
		if (p[1].revents)
			serve_control(k);
		if (p[0].revents && !k->ended)
			serve_shell(k);
	}
	return 0;
}

static int parse_options(int argc, char **argv, struct kernel *k)
{
	static const struct option options[] = { CBX_CLI_SESSION_OPTIONS,
						 { "language", required_argument, NULL, 'l' },
						 { 0 } };
	int c, r = 0;

	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "+:f:l:v:", options, NULL)) >= 0) {
		if (c == 'f')
			k->file = optarg;
		else if (c == 'l')
			k->language = optarg;
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
	cbx_kernel_lose(&k);
	cbx_wire_close(&k.wire);
	cbx_buf_release(&k.text);
	cJSON_Delete(k.history);
	cbx_cli_spec_release(&k.spec);
	return r;
}
