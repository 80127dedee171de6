/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: as in control_ops.c. A run is answered at the cell's end, and its output comes as events. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "client/protocol.h"
#include "daemon/control.h"

#define OUTPUT_PENDING_MAX MIB(4)  /* more than this unread by a client: its stream omits output */
#define OUTPUT_RESUME	   KIB(64) /* less than this: no longer */

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

int cbx_control_run(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
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
	spec.language = a->language;
	spec.file = a->file;
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
int cbx_control_watch(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
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

int cbx_control_input(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf data = { 0 };
	struct cbx_control_request *run;
	int r;

	TAILQ_FOREACH(run, &q->control->requests, entry)
		if (((cbx_op_pending(&run->run.op) && (run->feeds || !run->watches)) ||
		     cbx_op_pending(&run->command.op)) &&
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

int cbx_control_interrupt(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
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
