/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: as in control_ops.c. A request that is attached to a command is answered at the command's end.
 * When its connection goes first, without a word, the command is hung up if it was started by that request, as when a
 * terminal is closed; one that was merely looked at runs on.
 */
#include "daemon/control.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>

#include "base/cleanup.h"

static struct cbx_control_request *request_of(struct cbx_command_op *op)
{
	return cbx_container_of(op, struct cbx_control_request, command);
}

static void command_started(struct cbx_command_op *op, struct cbx_command *c, uint64_t omitted)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "event", "start");
	cbx_json_set_str(o, "session_id", cbx_session_id(cbx_command_session(c)));
	cbx_json_set_u64(o, "execution_id", cbx_command_id(c));
	if (omitted)
		cbx_json_set_u64(o, "omitted", omitted);
	cbx_control_event(request_of(op), o);
}

static void command_output(struct cbx_command_op *op, struct cbx_command *c, const char *stream, const char *p,
			   size_t n)
{
	cbx_control_bytes(request_of(op), stream, p, n);
}

static void command_ended(struct cbx_command_op *op, struct cbx_command *c, const struct cbx_err *err)
{
	cbx_control_answer(request_of(op), err ? NULL : cbx_command_describe(c), err);
}

/* It runs, and that is all that was asked for. */
static void detached_started(struct cbx_command_op *op, struct cbx_command *c, uint64_t omitted)
{
	cbx_op_cancel(&op->op);
	cbx_control_answer(request_of(op), cbx_command_describe(c), NULL);
}

static struct cbx_command_op *watch(struct cbx_control_request *q, bool detached)
{
	q->command = (struct cbx_command_op){ .op.ops = &q->control->caller.ops,
					      .on_start = detached ? detached_started : command_started,
					      .on_output = detached ? NULL : command_output,
					      .done = command_ended };
	return &q->command;
}

static int check_size(const struct cbx_control_args *a, struct cbx_err *err)
{
	if (a->rows > UINT16_MAX || a->columns > UINT16_MAX)
		return cbx_refuse(err, "invalid_argument", EINVAL, "rows, columns: give numbers up to %d", UINT16_MAX);
	return 0;
}

int cbx_control_command_start(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_command_spec command = { .argv = a->argv,
					    .environment = a->variables,
					    .directory = a->directory,
					    .input = a->input,
					    .terminal = a->terminal,
					    .rows = (uint16_t)a->rows,
					    .columns = (uint16_t)a->columns };
	struct cbx_session_spec spec;
	struct cbx_session *s;
	struct cbx_command *c;
	int r = check_size(a, err);

	cbx_session_spec_init(&spec);
	if (r >= 0)
		r = cbx_session_spec_parse(a->params, &spec, err);
	if (r >= 0)
		r = cbx_control_session(q->control, a->create, &spec, &s, err);
	if (r >= 0 && !command.argv && !(command.argv = cbx_session_program(s)))
		r = cbx_refuse(err, "invalid_argument", EINVAL,
			       "argv: the image of session %s names no program to run; give one", cbx_session_id(s));
	if (r < 0)
		return r;
	q->starts = !a->detached;
	command.via = q->control->caller.via;
	return cbx_session_command(s, &command, watch(q, a->detached), &c, err);
}

static int find(const struct cbx_control_args *a, struct cbx_command **ret, struct cbx_err *err)
{
	int r = check_size(a, err);

	return r < 0 ? r : cbx_command_find(a->session, a->execution, ret, err);
}

int cbx_control_command_attach(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_command *c;
	int r = find(a, &c, err);

	if (r >= 0 && (a->rows || a->columns))
		cbx_command_resize(c, (uint16_t)a->rows, (uint16_t)a->columns);
	return r < 0 ? r : cbx_command_watch(c, watch(q, false), err);
}

/* The request that is attached is answered, too: with the command as it is. */
int cbx_control_command_detach(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_control_request *r;

	TAILQ_FOREACH(r, &q->control->requests, entry)
		if (r->id == a->request && cbx_op_pending(&r->command.op))
			break;
	if (!r)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "request: %" PRIu64 " is not attached to a command; attach first", a->request);
	cbx_op_cancel(&r->command.op);
	cbx_command_stall(r->command.command, false);
	cbx_control_answer(r, cbx_command_describe(r->command.command), NULL);
	cbx_control_answer(q, NULL, NULL);
	return 0;
}

int cbx_control_command_resize(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	struct cbx_command *c;
	int r = find(a, &c, err);

	if (r < 0)
		return r;
	cbx_command_resize(c, (uint16_t)a->rows, (uint16_t)a->columns);
	cbx_control_answer(q, NULL, NULL);
	return 0;
}

int cbx_control_command_kill(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	uint64_t sig = a->given & CBX_ARG_SIGNAL ? a->signal : SIGKILL;
	struct cbx_command *c;
	int r = find(a, &c, err);

	if (r >= 0 && (sig < 1 || sig >= NSIG))
		r = cbx_refuse(err, "invalid_argument", EINVAL, "signal: give a number from 1 to %d", NSIG - 1);
	if (r < 0)
		return r;
	cbx_command_signal(c, (int)sig);
	cbx_control_answer(q, NULL, NULL);
	return 0;
}

int cbx_control_command_list(struct cbx_control_request *q, const struct cbx_control_args *a, struct cbx_err *err)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set(o, "commands", cbx_session_commands(a->session));
	cbx_control_answer(q, o, NULL);
	return 0;
}
