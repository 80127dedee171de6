/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: run_command starts a program beside the interpreter, and waits as run_code does. It shares its
 * numbers with cells, so that get_execution and interrupt are for both. It is a shell's command line: bash where the
 * image has it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/timer.h"
#include "render/render.h"
#include "tools/internal.h"

/* The one shell that every image with a shell has starts the better one. */
static const char shell[] = "[ -x /bin/bash ] && exec /bin/bash -c \"$1\" bash; eval \"$1\"";

void cbx_tool_command_outcome(struct cbx_tool_call *call, struct cbx_command *c)
{
	_cleanup_json_ cJSON *x = cbx_command_to_json(c), *displays = cbx_json_new_arr();
	_cleanup_buf_ struct cbx_buf result = { 0 };

	cbx_render_execution(&result, &(const struct cbx_render_execution){ .x = x,
									    .displays = displays,
									    .session_id = call->session_id,
									    .notice = call->notice,
									    .name_session = call->default_session,
									    .structured = call->structured,
									    .room = call->room });
	cbx_tool_end_text(call, &result);
}

/* ---- waiting ---- */

static void on_end(struct cbx_command_op *op, struct cbx_command *c, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, command);

	cbx_event_free_p(&call->timer);
	call->command_answer(call, c); /* which says, too, why it could not begin, or did not end by itself */
}

static struct cbx_command *stop(struct cbx_tool_call *call)
{
	cbx_event_free_p(&call->timer);
	if (!cbx_op_pending(&call->command.op))
		return NULL;
	cbx_op_cancel(&call->command.op);
	return call->command.command;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_tool_call *call = arg;
	struct cbx_command *c = stop(call);

	if (c)
		call->command_answer(call, c);
}

int cbx_tool_command_wait(struct cbx_tool_call *call, struct cbx_command *c, uint64_t ms, struct cbx_err *err)
{
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
	int r;

	call->execution_id = cbx_command_id(c);
	snprintf(call->session_id, sizeof(call->session_id), "%s", cbx_session_id(cbx_command_session(c)));
	cbx_tool_started(call);
	if (ms == 0 || cbx_command_status(c) > CBX_RUNNING) {
		call->command_answer(call, c);
		return 0;
	}
	call->command = (struct cbx_command_op){ .op.ops = &call->client->caller.ops, .done = on_end };
	r = cbx_command_watch(c, &call->command, err);
	if (r < 0)
		return r;
	call->timer = event_new(call->client->base, -1, 0, on_timer, call);
	if (call->timer)
		event_add(call->timer, &tv);
	return 0;
}

/* ---- run_command ---- */

struct command_args {
	const char *command, *session_id;
	uint64_t timeout_ms;
	bool background;
};

static int parse(const cJSON *args, struct command_args *ret, struct cbx_err *err)
{
	double timeout = 0;
	int r = cbx_json_get_str(args, "command", &ret->command, err);

	if (r >= 0)
		r = cbx_tool_arg_new_session(args, &ret->session_id, err);
	if (r >= 0)
		r = cbx_json_get_double(args, "timeout", 0.1, CBX_TIMEOUT_MAX_MS / 1000.0, &timeout, err);
	if (r >= 0)
		r = cbx_json_get_bool(args, "background", &ret->background, err);
	if (r < 0)
		return r;
	if (!ret->command || !ret->command[0])
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "missing argument: command; pass a shell's command line as a string");
	ret->timeout_ms = (uint64_t)(timeout * 1000 + 0.5);
	if (!ret->timeout_ms && !ret->background)
		ret->timeout_ms = CBX_TIMEOUT_DEFAULT_MS;
	return 0;
}

void cbx_tool_run_command(struct cbx_tool_call *call, const cJSON *args)
{
	_cleanup_json_ cJSON *argv = cbx_json_new_arr();
	struct cbx_command_spec spec = { .argv = argv };
	struct command_args a = { 0 };
	struct cbx_session *session;
	struct cbx_command *c;
	struct cbx_err err;
	int r = parse(args, &a, &err);

	if (r >= 0)
		r = cbx_tool_session(call, a.session_id, &session, &err);
	if (r >= 0) {
		cbx_json_push_str(argv, "/bin/sh");
		cbx_json_push_str(argv, "-c");
		cbx_json_push_str(argv, shell);
		cbx_json_push_str(argv, "sh");
		cbx_json_push_str(argv, a.command);
		spec.timeout_ms = a.timeout_ms;
		spec.files = true;
		spec.via = call->client->caller.via;
		r = cbx_session_command(session, &spec, NULL, &c, &err);
	}
	if (r >= 0) {
		call->command_answer = cbx_tool_command_outcome;
		r = cbx_tool_command_wait(call, c, a.background ? 0 : CBX_WAIT_MS, &err);
	}
	if (r < 0)
		cbx_tool_refuse(call, &err);
}

void cbx_tool_cancel_command(struct cbx_tool_call *call)
{
	struct cbx_command *c = stop(call);

	if (!c)
		return;
	if (call->made_session)
		cbx_session_close(&call->client->caller, cbx_command_session(c), "the call that made it was cancelled");
	else
		cbx_command_interrupt(c);
}
