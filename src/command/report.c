/* SPDX-License-Identifier: Apache-2.0 */
/* A command as JSON, with the members that an execution has: who shows one can show the other. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "command/state.h"
#include "interp/interp.h"

uint64_t cbx_command_id(const struct cbx_command *c)
{
	return c->id;
}

enum cbx_status cbx_command_status(const struct cbx_command *c)
{
	if (c->state == CBX_COMMAND_WAITING)
		return CBX_QUEUED;
	if (c->state != CBX_COMMAND_ENDED)
		return CBX_RUNNING;
	if (c->interrupted)
		return CBX_CANCELLED;
	if (c->timed_out)
		return CBX_TIMEOUT;
	if (c->failure.code)
		return c->refused ? CBX_ERROR : CBX_KILLED;
	if (WIFSIGNALED(c->status))
		return CBX_KILLED;
	return WEXITSTATUS(c->status) ? CBX_ERROR : CBX_OK;
}

uint64_t cbx_command_given(const struct cbx_command *c)
{
	return c->given;
}

bool cbx_command_terminal(const struct cbx_command *c)
{
	return c->terminal;
}

/* As a shell says it: 128 and the signal. */
static int exit_code(const struct cbx_command *c)
{
	if (c->refused)
		return strcmp(c->failure.kind, "command_not_found") == 0 ? 127 : 126;
	return WIFSIGNALED(c->status) ? 128 + WTERMSIG(c->status) : WEXITSTATUS(c->status);
}

static void set_message(cJSON *o, const struct cbx_command *c, enum cbx_status status)
{
	char text[600] = "";

	if (c->failure.code)
		snprintf(text, sizeof(text), "%s", c->failure.msg);
	else if (status == CBX_TIMEOUT)
		snprintf(text, sizeof(text), "The command was ended: it ran for longer than %.1f s.",
			 (double)c->timeout_ms / 1000);
	else if (status == CBX_CANCELLED)
		snprintf(text, sizeof(text), "The command was interrupted.");
	else if (c->oom)
		cbx_interp_oom_text(c->oom_why, c->all->box->limits.memory_bytes, text, sizeof(text));
	else if (status == CBX_KILLED)
		snprintf(text, sizeof(text), "The command was ended by signal %d (%s).", WTERMSIG(c->status),
			 strsignal(WTERMSIG(c->status)));
	else if (status == CBX_ERROR)
		snprintf(text, sizeof(text), "The command ended with exit status %d.", exit_code(c));
	if (c->oom && !c->failure.code) {
		_cleanup_free_ char *why = cbx_xstrdup(text);

		snprintf(text, sizeof(text), "The command was killed because %.500s.", why);
	}
	if (c->files_unknown)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "%sNot all files that the command changed could be found in time.", text[0] ? " " : "");
	if (text[0])
		cbx_json_set_str(o, "message", text);
}

cJSON *cbx_command_describe(const struct cbx_command *c)
{
	enum cbx_status status = cbx_command_status(c);
	uint64_t end = c->ended_ms ? c->ended_ms : cbx_now_ms();
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "session_id", c->all->id);
	cbx_json_set_u64(o, "execution_id", c->id);
	cbx_json_set_str(o, "status", cbx_status_name(status));
	cbx_json_set_bool(o, "state_kept", true);
	if (status > CBX_RUNNING && (c->refused || (c->status_known && !c->failure.code)))
		cbx_json_set_u64(o, "exit_code", (uint64_t)exit_code(c));
	set_message(o, c, status);
	cbx_json_set_u64(o, "duration_ms", c->began_ms ? end - c->began_ms : 0);
	cbx_json_set(o, "argv", cJSON_Duplicate(c->argv, 1));
	if (c->directory)
		cbx_json_set_str(o, "directory", c->directory);
	cbx_json_set_bool(o, "terminal", c->terminal);
	cbx_json_set_bool(o, "attached", c->attached != NULL);
	return o;
}

static void set_text(cJSON *o, const char *key, const struct cbx_command *c, enum cbx_stream stream)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_output_text(&c->kept, stream, NULL, &text);
	cbx_json_set_strn(o, key, cbx_buf_str(&text), text.len);
}

cJSON *cbx_command_to_json(const struct cbx_command *c)
{
	uint64_t omitted = cbx_output_omitted(&c->kept);
	cJSON *o = cbx_command_describe(c);

	set_text(o, "stdout", c, CBX_STDOUT);
	set_text(o, "stderr", c, CBX_STDERR);
	set_text(o, "output", c, CBX_STREAMS);
	cbx_json_set(o, "displays", cbx_json_new_arr());
	cbx_json_set(o, "files",
		     c->changes.files ? cJSON_Duplicate(c->changes.files, 1) : cbx_json_new_arr());
	if (c->changes.omitted)
		cbx_json_set_u64(o, "files_omitted", c->changes.omitted);
	if (omitted) {
		cJSON *v = cbx_json_new_obj();

		cbx_json_set_u64(v, "bytes", omitted);
		cbx_json_set(o, "omitted", v);
	}
	return o;
}

bool cbx_command_output(const struct cbx_command *c, uint64_t from, size_t max, struct cbx_buf *out,
			struct cbx_output_extent *ret)
{
	ret->total = cbx_output_total(&c->kept);
	ret->file = NULL;
	ret->in_file = ret->will_be = 0;
	ret->kept = ret->total - c->kept.tail.len;
	return from > ret->total || cbx_output_at(&c->kept, from, max, out);
}
