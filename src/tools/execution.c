/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the tools that look after a cell, or a command, which keeps running without its run_code, or
 * that was cut short in its answer. Pages of output are counted in bytes as they were printed; they come from memory,
 * or from the file of the session that has what memory has not, as far as it has.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "tools/internal.h"

struct page {
	uint64_t from;
	struct cbx_output_extent extent; /* when it was asked for */
	enum cbx_status status;
};

/* A cell, or a command: the other is NULL. Both: nothing runs, and none was named. */
struct found {
	struct cbx_execution *x;
	struct cbx_command *c;
};

static int find_execution(struct cbx_tool_call *call, const cJSON *args, bool needed, struct found *ret,
			  struct cbx_err *err)
{
	struct cbx_session *session;
	struct cbx_err ignored;
	uint64_t id = 0;
	int r = cbx_tool_arg_session(call, args, &session, err);

	*ret = (struct found){ 0 };
	if (r >= 0)
		r = cbx_json_get_u64(args, "execution_id", 1, 1ull << 53, &id, err);
	if (r < 0)
		return r;
	if (!id && needed)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "missing argument: execution_id; pass the number from run_code's answer");
	if (!id) {
		ret->x = cbx_session_running(session);
		return 0;
	}
	r = cbx_execution_find(session, id, &ret->x, err);
	return r < 0 && cbx_command_find(session, id, &ret->c, &ignored) >= 0 ? 0 : r;
}

/* ---- get_execution ---- */

/* Without the start of a character at the end whose rest is on the next page. */
static size_t whole_characters(const char *p, size_t n)
{
	for (size_t k = 1; k <= 3 && k < n; k++) {
		unsigned char c = (unsigned char)p[n - k];

		if ((c & 0xc0) == 0x80)
			continue;
		return c >= 0xc2 && cbx_utf8_len(p + n - k, k) == 0 &&
				       (size_t)(c >= 0xf0   ? 4
						: c >= 0xe0 ? 3
							    : 2) > k
			       ? n - k
			       : n;
	}
	return n;
}

static void page_end(struct cbx_tool_call *call, const char *p, size_t n)
{
	struct page *page = call->state;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	cJSON *s = cbx_json_new_obj();
	uint64_t next;

	if (page->from + n < page->extent.total)
		n = whole_characters(p, n);
	next = page->from + n;
	cbx_utf8_append(&text, p, n);
	cbx_json_set_str(s, "status", page->status <= CBX_RUNNING ? "running" : cbx_status_name(page->status));
	cbx_json_set_str(s, "session_id", call->session_id);
	cbx_json_set_u64(s, "execution_id", call->execution_id);
	cbx_json_set_str(s, "output", cbx_buf_str(&text));
	cbx_json_set_u64(s, "output_from", page->from);
	cbx_json_set_u64(s, "output_next", next);
	cbx_json_set_u64(s, "output_total", page->extent.total);
	cbx_buf_addf(&text, "%s[%llu bytes of output from %llu on, of %llu; ", text.len ? "\n" : "",
		     (unsigned long long)n, (unsigned long long)page->from, (unsigned long long)page->extent.total);
	if (next < page->extent.total)
		cbx_buf_addf(&text, "continue with output_from %llu]", (unsigned long long)next);
	else
		cbx_buf_adds(&text, page->status <= CBX_RUNNING ? "the cell is still running]" : "that was all]");
	cbx_tool_end(call, cbx_buf_str(&text), s);
}

/* Neither in memory nor in the file: that could not be written in full, or code has cut it. */
static void lost(struct cbx_tool_call *call)
{
	const struct page *page = call->state;
	const struct cbx_output_extent *e = &page->extent;
	struct cbx_err err;

	if (page->from >= e->in_file && page->from < e->will_be)
		cbx_refuse(&err, "output_pending", EAGAIN,
			   "this part of the output is still being written to its file; ask again in a moment");
	else if (e->kept < e->total)
		cbx_refuse(&err, "output_lost", ENOENT,
			   "this part of the output was not kept; continue with output_from %llu",
			   (unsigned long long)e->kept);
	else
		cbx_refuse(&err, "output_lost", ENOENT,
			   "this part of the output was not kept, nor what follows; omit output_from");
	cbx_tool_refuse(call, &err);
}

static void page_read(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_tool_call *call = cbx_container_of(op, struct cbx_tool_call, file);

	if (err)
		cbx_tool_refuse(call, err);
	else if (reply->len == 0)
		lost(call);
	else
		page_end(call, reply->data, reply->len);
}

static void answer_page(struct cbx_tool_call *call, struct cbx_execution *x)
{
	_cleanup_buf_ struct cbx_buf data = { 0 };
	struct page *page = call->state;
	const struct cbx_output_extent *e = &page->extent;
	struct cbx_err err;
	size_t n;

	page->status = cbx_execution_status(x);
	if (cbx_execution_output(x, page->from, CBX_TEXT_CHARS, &data, &page->extent)) {
		if (page->from > e->total)
			page->from = e->total;
		page_end(call, cbx_buf_str(&data), data.len);
		return;
	}
	if (page->from >= e->in_file) {
		lost(call);
		return;
	}
	n = e->in_file - page->from < CBX_TEXT_CHARS ? (size_t)(e->in_file - page->from) : CBX_TEXT_CHARS;
	call->file = (struct cbx_file_op){ .op.ops = &call->client->caller.ops, .done = page_read };
	if (cbx_session_file_read(cbx_execution_session(x), e->file, page->from, n, &call->file, &err) < 0)
		cbx_tool_refuse(call, &err);
}

static void answer_command_page(struct cbx_tool_call *call, struct cbx_command *c)
{
	_cleanup_buf_ struct cbx_buf data = { 0 };
	struct page *page = call->state;

	page->status = cbx_command_status(c);
	if (!cbx_command_output(c, page->from, CBX_TEXT_CHARS, &data, &page->extent)) {
		lost(call);
		return;
	}
	if (page->from > page->extent.total)
		page->from = page->extent.total;
	page_end(call, cbx_buf_str(&data), data.len);
}

void cbx_tool_get_execution(struct cbx_tool_call *call, const cJSON *args)
{
	struct page page = { 0 };
	struct found found;
	struct cbx_err err;
	double wait = 0;
	uint64_t ms;
	int paged = 0, r = cbx_json_get_double(args, "wait", 0, 1e12, &wait, &err);

	if (r >= 0)
		r = find_execution(call, args, true, &found, &err);
	if (r >= 0)
		r = paged = cbx_json_get_u64(args, "output_from", 0, 1ull << 53, &page.from, &err);
	if (r < 0) {
		cbx_tool_refuse(call, &err);
		return;
	}
	call->answer = cbx_tool_outcome;
	call->command_answer = cbx_tool_command_outcome;
	if (paged) {
		call->state = cbx_xcalloc(1, sizeof(page));
		memcpy(call->state, &page, sizeof(page));
		call->release = free;
		call->answer = answer_page;
		call->command_answer = answer_command_page;
	}
	ms = wait * 1000 < CBX_WAIT_MS ? (uint64_t)(wait * 1000) : CBX_WAIT_MS;
	if ((found.x ? cbx_tool_wait(call, found.x, ms, &err) : cbx_tool_command_wait(call, found.c, ms, &err)) < 0)
		cbx_tool_refuse(call, &err);
}

/* ---- interrupt ---- */

#define INTERRUPT_WAIT_MS 30000 /* longer than SIGINT, the grace period and SIGKILL take together */

/* What became of it; json NULL: nothing runs. */
static void tell_interrupted(struct cbx_tool_call *call, const cJSON *json, bool running)
{
	const char *message = cbx_json_text(json, "message");
	_cleanup_free_ char *text = NULL;
	cJSON *s = cbx_json_new_obj();
	const bool *done = call->state;

	cbx_json_set_str(s, "session_id", call->session_id);
	cbx_json_set_bool(s, "interrupted", done && *done);
	if (!json) {
		text = cbx_xasprintf("No cell is running in session %s.", call->session_id);
	} else {
		cbx_json_set_u64(s, "execution_id", call->execution_id);
		cbx_json_set_str(s, "status", cbx_json_text(json, "status"));
		cbx_json_set_bool(s, "state_kept", cJSON_IsTrue(cbx_json_member(json, "state_kept")));
		if (running)
			text = cbx_xasprintf(
				"Execution %llu was interrupted, and has not ended yet; get_execution tells what "
				"becomes of it.",
				(unsigned long long)call->execution_id);
		else if (done && *done)
			text = cbx_xasprintf("%.1000s", message ? message : "The cell was interrupted.");
		else
			text = cbx_xasprintf("Execution %llu had ended already, with status %s.",
					     (unsigned long long)call->execution_id, cbx_json_text(json, "status"));
	}
	cbx_json_set_str(s, "message", text);
	cbx_tool_end(call, text, s);
}

static void answer_interrupt(struct cbx_tool_call *call, struct cbx_execution *x)
{
	_cleanup_json_ cJSON *json = cbx_execution_to_json(x, false);

	tell_interrupted(call, json, cbx_execution_status(x) <= CBX_RUNNING);
}

static void answer_command(struct cbx_tool_call *call, struct cbx_command *c)
{
	_cleanup_json_ cJSON *json = cbx_command_describe(c);

	tell_interrupted(call, json, cbx_command_status(c) <= CBX_RUNNING);
}

static void interrupt_command(struct cbx_tool_call *call, struct cbx_command *c, bool *done)
{
	struct cbx_err err;

	call->command_answer = answer_command;
	*done = cbx_command_status(c) <= CBX_RUNNING;
	if (*done)
		cbx_command_interrupt(c);
	if (cbx_tool_command_wait(call, c, INTERRUPT_WAIT_MS, &err) < 0)
		answer_command(call, c);
}

void cbx_tool_interrupt(struct cbx_tool_call *call, const cJSON *args)
{
	struct cbx_execution *x;
	struct found found;
	struct cbx_err err;
	bool *done;

	if (find_execution(call, args, false, &found, &err) < 0) {
		cbx_tool_refuse(call, &err);
		return;
	}
	x = found.x;
	if (!x && !found.c) {
		tell_interrupted(call, NULL, false);
		return;
	}
	call->state = done = cbx_xcalloc(1, sizeof(*done));
	call->release = free;
	if (found.c) {
		interrupt_command(call, found.c, done);
		return;
	}
	call->answer = answer_interrupt;
	*done = cbx_execution_status(x) <= CBX_RUNNING;
	if (*done)
		cbx_execution_interrupt(&call->client->caller, x);
	if (cbx_tool_wait(call, x, INTERRUPT_WAIT_MS, &err) < 0)
		answer_interrupt(call, x);
}
