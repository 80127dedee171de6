/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a command is started by one request, and whoever knows its number reads its output (output.c),
 * gives it input, and ends it, by others. It runs on when its clients leave, but for one that nobody heard of.
 *
 * A piece of input is accepted as a whole, or not at all, and the answer comes when the program's pipe has taken it. So
 * that a client which lost the answer does not give a piece twice, it can say where in the input the piece belongs.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/signals.h"
#include "rest/internal.h"

#define ROWS	24
#define COLUMNS 80

static struct cbx_rest_call *call_of(struct cbx_command_op *op)
{
	return cbx_container_of(op, struct cbx_rest_call, command);
}

bool cbx_rest_command(struct cbx_rest_call *call, struct cbx_command **ret)
{
	struct cbx_session *s;
	struct cbx_err err;

	if (!cbx_rest_session(call, &s))
		return false;
	if (cbx_command_find(s, call->target.execution_id, ret, &err) >= 0)
		return true;
	cbx_rest_not_found(call, err.kind, "Command not found");
	return false;
}

cJSON *cbx_rest_command_json(const struct cbx_command *c)
{
	cJSON *o = cbx_command_describe(c), *output;
	uint64_t from, next;

	cJSON_DeleteItemFromObjectCaseSensitive(o, "execution_id");
	cJSON_DeleteItemFromObjectCaseSensitive(o, "state_kept");
	cbx_json_set_u64(o, "command_id", cbx_command_id(c));
	cbx_json_set_u64(o, "input", cbx_command_given(c));
	if (!cbx_command_kept(c, &from, &next))
		return o;
	output = cbx_json_new_obj();
	cbx_json_set_u64(output, "from", from);
	cbx_json_set_u64(output, "next", next);
	cbx_json_set(o, "output", output);
	return o;
}

static void answer(struct cbx_rest_call *call, const struct cbx_command *c)
{
	cbx_rest_answer(call, 200, cbx_rest_command_json(c));
}

/* ---- its start ---- */

static int take_size(const cJSON *v, bool needed, uint16_t *rows, uint16_t *columns, struct cbx_err *err)
{
	static const char *const keys[] = { "rows", "columns", NULL };
	uint64_t r = *rows, c = *columns;
	int has_rows, has_columns;

	if (cbx_json_only(v, keys, err) < 0 || (has_rows = cbx_json_get_u64(v, "rows", 1, UINT16_MAX, &r, err)) < 0 ||
	    (has_columns = cbx_json_get_u64(v, "columns", 1, UINT16_MAX, &c, err)) < 0)
		return -err->code;
	if (needed && (!has_rows || !has_columns))
		return cbx_refuse(err, "invalid_argument", EINVAL, "missing field: %s", has_rows ? "columns" : "rows");
	*rows = (uint16_t)r;
	*columns = (uint16_t)c;
	return 0;
}

static int take_terminal(const cJSON *body, struct cbx_command_spec *spec, struct cbx_err *err)
{
	const cJSON *v = cbx_json_member(body, "terminal");

	if (!v || cJSON_IsNull(v) || cJSON_IsFalse(v))
		return 0;
	spec->terminal = spec->input = true;
	spec->rows = ROWS;
	spec->columns = COLUMNS;
	if (cJSON_IsTrue(v))
		return 0;
	if (!cJSON_IsObject(v))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "terminal: give true, false, or an object with rows and columns");
	return take_size(v, false, &spec->rows, &spec->columns, err) < 0 ? cbx_wrap(err, "terminal") : 0;
}

static int take_unread(const cJSON *body, struct cbx_command_spec *spec, struct cbx_err *err)
{
	const char *text = "wait";

	if (cbx_json_get_str(body, "unread", &text, err) < 0)
		return -err->code;
	if (strcmp(text, "wait") != 0 && strcmp(text, "forget") != 0)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "unread: \"%.40s\" is unknown; use \"wait\" or \"forget\"", text);
	spec->unread = strcmp(text, "wait") == 0 ? CBX_UNREAD_WAITS : CBX_UNREAD_OLDEST;
	return 0;
}

static int check_body(const cJSON *body, struct cbx_command_spec *spec, struct cbx_err *err)
{
	static const char *const keys[] = { "argv",  "environment", "directory", "terminal",
					    "input", "timeout",	    "unread",	 NULL };
	uint64_t timeout_s = 0;

	if (cbx_json_only(body, keys, err) < 0 || cbx_json_get_arr(body, "argv", &spec->argv, err) < 0 ||
	    cbx_json_get_obj(body, "environment", &spec->environment, err) < 0 ||
	    cbx_json_get_str(body, "directory", &spec->directory, err) < 0 || take_terminal(body, spec, err) < 0 ||
	    cbx_json_get_bool(body, "input", &spec->input, err) < 0 ||
	    cbx_json_get_u64(body, "timeout", 1, CBX_TTL_MAX_S, &timeout_s, err) < 0 ||
	    take_unread(body, spec, err) < 0)
		return -err->code;
	spec->timeout_ms = timeout_s * 1000;
	return spec->argv ? 0 : cbx_refuse(err, "invalid_argument", EINVAL, "missing field: argv");
}

static void started(struct cbx_command_op *op, struct cbx_command *c, uint64_t omitted)
{
	cbx_op_cancel(&op->op);
	answer(call_of(op), c);
}

static void not_started(struct cbx_command_op *op, struct cbx_command *c, const struct cbx_err *err)
{
	if (err)
		cbx_rest_fail(call_of(op), err);
	else
		answer(call_of(op), c);
}

int cbx_rest_start_command(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_command_spec spec = { .via = &call->via };
	struct cbx_session *s;
	struct cbx_command *c;
	int r = check_body(call->doc.root, &spec, err);

	if (r < 0 || !cbx_rest_session(call, &s))
		return r;
	call->command =
		(struct cbx_command_op){ .op.ops = &call->caller.ops, .on_start = started, .done = not_started };
	return cbx_session_command(s, &spec, &call->command, &c, err);
}

void cbx_rest_command_left(struct cbx_rest_call *call)
{
	struct cbx_command *c = call->command.command;

	if (call->route->call != cbx_rest_start_command || !cbx_op_pending(&call->command.op))
		return;
	cbx_command_discard(c);
	cbx_command_signal(c, SIGKILL);
}

/* ---- looking at it ---- */

int cbx_rest_list_commands(struct cbx_rest_call *call, struct cbx_err *err)
{
	_cleanup_json_ cJSON *all = NULL;
	struct cbx_session *s;
	struct cbx_command *c;
	const cJSON *one;
	cJSON *o, *list;

	if (!cbx_rest_session(call, &s))
		return 0;
	all = cbx_session_commands(s);
	o = cbx_json_new_obj();
	list = cbx_json_new_arr();
	cJSON_ArrayForEach(one, all)
		if (cbx_command_find(s, cbx_json_u64(one, "execution_id"), &c, err) >= 0)
			cbx_json_push(list, cbx_rest_command_json(c));
	cbx_json_set_str(o, "session_id", cbx_session_id(s));
	cbx_json_set(o, "commands", list);
	cbx_rest_answer(call, 200, o);
	return 0;
}

static void ended(struct cbx_command_op *op, struct cbx_command *c, const struct cbx_err *err)
{
	answer(call_of(op), c);
}

static void time_is_up(struct cbx_rest_call *call)
{
	struct cbx_command *c = call->command.command;

	cbx_op_cancel(&call->command.op);
	answer(call, c);
}

static int wait_for_end(struct cbx_rest_call *call, struct cbx_command *c, struct cbx_err *err)
{
	call->command = (struct cbx_command_op){ .op.ops = &call->caller.ops, .done = ended };
	return cbx_command_watch(c, &call->command, err);
}

int cbx_rest_get_command(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_command *c;
	uint64_t wait_ms;
	int r = cbx_rest_wait(call, &wait_ms, err);

	if (r < 0 || !cbx_rest_command(call, &c))
		return r;
	if (!wait_ms || cbx_command_status(c) > CBX_RUNNING) {
		answer(call, c);
		return 0;
	}
	r = wait_for_end(call, c, err);
	if (r >= 0)
		cbx_rest_timer(call, wait_ms, time_is_up);
	return r;
}

/* ---- input ---- */

static void answer_input(struct cbx_rest_call *call, bool taken)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_u64(o, "input", call->end);
	cbx_json_set_bool(o, "taken", taken);
	cbx_rest_answer(call, taken ? 200 : 202, o);
}

static void input_taken(struct cbx_input_op *op, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_container_of(op, struct cbx_rest_call, input);

	if (err)
		cbx_rest_fail(call, err);
	else
		answer_input(call, true);
}

static void input_waits(struct cbx_rest_call *call)
{
	cbx_op_cancel(&call->input.op);
	answer_input(call, false);
}

static int check_offset(struct cbx_rest_call *call, const struct cbx_command *c, struct cbx_err *err)
{
	char text[24];
	uint64_t offset, given = cbx_command_given(c);
	int r = cbx_rest_query(call->conn->head.query, "offset", text, sizeof(text), err);

	if (r > 0)
		r = cbx_parse_u64(text, "offset", 0, 1ull << 53, &offset, err);
	else
		return r;
	return r < 0 || offset == given
		       ? r
		       : cbx_refuse(err, "wrong_offset", EBUSY,
				    "offset: %" PRIu64 " bytes of input were accepted so far; continue there", given);
}

int cbx_rest_command_input(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_command *c;
	int r = 0;

	if (call->body_len > CBX_REST_INPUT_MAX)
		return cbx_refuse(err, "too_large", EFBIG, "the body is %zu bytes; give up to %d at a time",
				  call->body_len, (int)CBX_REST_INPUT_MAX);
	if (!cbx_rest_command(call, &c))
		return 0;
	r = check_offset(call, c, err);
	if (r < 0)
		return r;
	call->end = cbx_command_given(c) + call->body_len;
	call->input = (struct cbx_input_op){ .op.ops = &call->caller.ops, .done = input_taken };
	r = call->body_len ? cbx_command_input(c, call->body, call->body_len, &call->input, err) : 1;
	if (r > 0)
		answer_input(call, true);
	else if (r == 0)
		cbx_rest_timer(call, CBX_REST_WAIT_MS, input_waits);
	return r;
}

int cbx_rest_end_command_input(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_command *c;
	int r;

	if (!cbx_rest_command(call, &c))
		return 0;
	r = cbx_command_input(c, NULL, 0, NULL, err);
	if (r >= 0)
		answer(call, c);
	return r;
}

/* ---- what is done to it ---- */

int cbx_rest_resize_command(struct cbx_rest_call *call, struct cbx_err *err)
{
	uint16_t rows = 0, columns = 0;
	struct cbx_command *c;
	int r = take_size(call->doc.root, true, &rows, &columns, err);

	if (r < 0 || !cbx_rest_command(call, &c))
		return r;
	if (!cbx_command_terminal(c))
		return cbx_refuse(err, "no_terminal", EBUSY,
				  "command %" PRIu64 " has no terminal; start it with \"terminal\"", cbx_command_id(c));
	cbx_command_resize(c, rows, columns);
	answer(call, c);
	return 0;
}

/* "INT", "SIGINT", or its number. */
static int take_signal(const cJSON *body, int *ret, struct cbx_err *err)
{
	static const char *const keys[] = { "signal", NULL };
	const cJSON *v = cbx_json_member(body, "signal");
	uint64_t number = 0;

	if (cbx_json_only(body, keys, err) < 0)
		return -err->code;
	if (cJSON_IsString(v))
		number = (uint64_t)cbx_signal_by_name(v->valuestring);
	else if (cbx_json_get_u64(body, "signal", 1, NSIG - 1, &number, err) < 0)
		return -err->code;
	*ret = (int)number;
	return number ? 0
		      : cbx_refuse(err, "invalid_argument", EINVAL,
				   "signal: give a name such as \"INT\", or a number from 1 to %d", NSIG - 1);
}

int cbx_rest_signal_command(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_command *c;
	int sig, r = take_signal(call->doc.root, &sig, err);

	if (r < 0 || !cbx_rest_command(call, &c))
		return r;
	cbx_command_signal(c, sig);
	answer(call, c);
	return 0;
}

int cbx_rest_delete_command(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_command *c;
	int r = 0;

	if (!cbx_rest_command(call, &c))
		return 0;
	cbx_command_discard(c);
	if (cbx_command_status(c) > CBX_RUNNING) {
		answer(call, c);
		return 0;
	}
	cbx_command_signal(c, SIGKILL);
	r = wait_for_end(call, c, err);
	return r;
}
