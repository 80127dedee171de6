/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the tools that look after a cell which goes on without its run_code, or that was cut short in
 * its answer. Pages of output are counted in bytes as they were printed; they come from memory, or from the file of the
 * session that has what memory has not, as far as it has.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "mcp/internal.h"

struct page {
	uint64_t from;
	struct cbx_output_extent extent; /* when it was asked for */
	enum cbx_status status;
};

static int find_execution(struct cbx_mcp_call *call, const cJSON *args, bool needed, struct cbx_session **ret_session,
			  struct cbx_execution **ret, struct cbx_err *err)
{
	uint64_t id = 0;
	int r = cbx_mcp_arg_session(call, args, ret_session, err);

	if (r >= 0)
		r = cbx_json_get_u64(args, "execution_id", 1, 1ull << 53, &id, err);
	if (r < 0)
		return r;
	if (!id && needed)
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "execution_id: it is missing; pass the number that run_code's answer told");
	if (!id) {
		*ret = cbx_session_running(*ret_session);
		return 0;
	}
	return cbx_execution_find(*ret_session, id, ret, err);
}

/* ---- get_execution ---- */

static cJSON *get_input(void)
{
	static const char *const required[] = { "execution_id", NULL };
	cJSON *props = cbx_json_new_obj(), *p;

	cbx_mcp_schema_session(props);
	p = cbx_mcp_schema_property(props, "execution_id", "integer", "The cell, as run_code's answer told it.");
	cbx_json_set_u64(p, "minimum", 1);
	p = cbx_mcp_schema_property(props, "wait", "number",
				    "Seconds to wait for its end; 0 if left out, more than 45 counts as 45.");
	cbx_json_set_u64(p, "minimum", 0);
	p = cbx_mcp_schema_property(props, "output_from", "integer",
				    "Get a page of the output instead, from this byte on; start with 0 and go on with "
				    "output_next.");
	cbx_json_set_u64(p, "minimum", 0);
	return cbx_mcp_schema_object(props, required, true);
}

static cJSON *get_output(void)
{
	static const char *const required[] = { "status", "session_id", "execution_id", NULL };
	cJSON *schema = cbx_mcp_result_schema(), *props = cJSON_GetObjectItemCaseSensitive(schema, "properties");
	cJSON *names = cbx_json_new_arr();

	cbx_mcp_schema_property(props, "output", "string", "With output_from: the page.");
	cbx_mcp_schema_property(props, "output_from", "integer", "Where it starts, in bytes.");
	cbx_mcp_schema_property(props, "output_next", "integer", "Where the next one starts.");
	cbx_mcp_schema_property(props, "output_total", "integer", "Bytes that have been printed so far.");
	for (size_t i = 0; required[i]; i++)
		cbx_json_push_str(names, required[i]);
	cJSON_ReplaceItemInObjectCaseSensitive(schema, "required", names);
	return schema;
}

/* Without the start of a character at the end whose rest is on the next page. */
static size_t whole_characters(const char *p, size_t n)
{
	for (size_t k = 1; k <= 3 && k < n; k++) {
		unsigned char c = (unsigned char)p[n - k];

		if ((c & 0xc0) == 0x80)
			continue;
		return c >= 0xc2 && cbx_utf8_len(p + n - k, k) == 0 && (size_t)(c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2) > k
			       ? n - k
			       : n;
	}
	return n;
}

static void page_end(struct cbx_mcp_call *call, const char *p, size_t n)
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
		cbx_buf_addf(&text, "go on with output_from %llu]", (unsigned long long)next);
	else
		cbx_buf_adds(&text, page->status <= CBX_RUNNING ? "the cell is still running]" : "that was all]");
	cbx_mcp_call_end(call, cbx_buf_str(&text), s);
}

/* Neither in memory nor in the file: that could not be written in full, or code has cut it. */
static void lost(struct cbx_mcp_call *call)
{
	const struct page *page = call->state;
	const struct cbx_output_extent *e = &page->extent;
	struct cbx_err err;

	if (page->from >= e->in_file && page->from < e->will_be)
		cbx_refuse(&err, "output_pending", EAGAIN,
			   "this part of the output is still being written to its file; ask again in a moment");
	else if (e->kept < e->total)
		cbx_refuse(&err, "output_lost", ENOENT,
			   "this part of the output was not kept; go on with output_from %llu",
			   (unsigned long long)e->kept);
	else
		cbx_refuse(&err, "output_lost", ENOENT, "this part of the output was not kept, and nothing behind it");
	cbx_mcp_call_refuse(call, &err);
}

static void page_read(void *arg, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_mcp_call *call = arg;

	if (call->mcp && err)
		cbx_mcp_call_refuse(call, err);
	else if (call->mcp && reply->value == 0)
		lost(call);
	else if (call->mcp)
		page_end(call, reply->data, (size_t)reply->value);
	cbx_mcp_call_unref(call);
}

static void answer_page(struct cbx_mcp_call *call, struct cbx_execution *x)
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
	if (cbx_session_file_read(cbx_execution_session(x), e->file, page->from, n, page_read, call, &err) < 0)
		cbx_mcp_call_refuse(call, &err);
	else
		call->refs++;
}

static void get(struct cbx_mcp_call *call, const cJSON *args)
{
	struct page page = { 0 };
	struct cbx_session *session;
	struct cbx_execution *x = NULL;
	struct cbx_err err;
	double wait = 0;
	int paged = 0, r = cbx_json_get_double(args, "wait", 0, 1e12, &wait, &err);

	if (r >= 0)
		r = find_execution(call, args, true, &session, &x, &err);
	if (r >= 0)
		r = paged = cbx_json_get_u64(args, "output_from", 0, 1ull << 53, &page.from, &err);
	if (r < 0) {
		cbx_mcp_call_refuse(call, &err);
		return;
	}
	call->answer = cbx_mcp_outcome;
	if (paged) {
		call->state = cbx_xcalloc(1, sizeof(page));
		memcpy(call->state, &page, sizeof(page));
		call->release = free;
		call->answer = answer_page;
	}
	if (cbx_mcp_wait(call, x, wait * 1000 < CBX_WAIT_MS ? (uint64_t)(wait * 1000) : CBX_WAIT_MS, &err) < 0)
		cbx_mcp_call_refuse(call, &err);
}

const struct cbx_mcp_tool cbx_mcp_get_execution = {
	.name = "get_execution",
	.title = "Look at a cell",
	.description =
		"See how a cell is doing that run_code answered with status \"running\" (it took long, or was started "
		"with background), and get its result once it has ended: the same answer as run_code's. With wait it "
		"is answered as soon as the cell has ended, or when the time is over. The last 16 cells of a session "
		"are kept, or fewer when what they showed is large.\n\n"
		"When an answer says that output was omitted, output_from pages through it: start with 0, go on with "
		"the answer's output_next until that is output_total. Where a part was not kept, the answer says where "
		"to go on.",
	.hints = CBX_TOOL_READ_ONLY | CBX_TOOL_IDEMPOTENT,
	.input = get_input,
	.output = get_output,
	.call = get,
	.cancel = cbx_mcp_wait_cancel,
};

/* ---- interrupt ---- */

#define INTERRUPT_WAIT_MS 30000 /* longer than SIGINT, the grace period and SIGKILL take together */

static cJSON *interrupt_input(void)
{
	cJSON *props = cbx_json_new_obj(), *p;

	cbx_mcp_schema_session(props);
	p = cbx_mcp_schema_property(props, "execution_id", "integer", "The cell; left out: the one that runs now.");
	cbx_json_set_u64(p, "minimum", 1);
	return cbx_mcp_schema_object(props, NULL, true);
}

static cJSON *interrupt_output(void)
{
	static const char *const required[] = { "session_id", "interrupted", NULL };
	cJSON *p = cbx_json_new_obj();

	cbx_mcp_schema_property(p, "session_id", "string", "The session.");
	cbx_mcp_schema_property(p, "interrupted", "boolean", "False: there was nothing to interrupt.");
	cbx_mcp_schema_property(p, "execution_id", "integer", "The cell.");
	cbx_mcp_schema_property(p, "status", "string", "Its status after that.");
	cbx_mcp_schema_property(p, "state_kept", "boolean", "Whether the session's variables are still there.");
	cbx_mcp_schema_property(p, "message", "string", "What happened.");
	return cbx_mcp_schema_object(p, required, true);
}

/* What became of it; x NULL: nothing runs. */
static void answer_interrupt(struct cbx_mcp_call *call, struct cbx_execution *x)
{
	_cleanup_json_ cJSON *json = x ? cbx_execution_to_json(x, false) : NULL;
	const char *message = cbx_mcp_str_of(json, "message");
	_cleanup_free_ char *text = NULL;
	cJSON *s = cbx_json_new_obj();
	const bool *done = call->state;

	cbx_json_set_str(s, "session_id", call->session_id);
	cbx_json_set_bool(s, "interrupted", done && *done);
	if (!x) {
		text = cbx_xasprintf("No cell is running in session %s.", call->session_id);
	} else {
		cbx_json_set_u64(s, "execution_id", call->execution_id);
		cbx_json_set_str(s, "status", cbx_mcp_str_of(json, "status"));
		cbx_json_set_bool(s, "state_kept", cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "state_kept")));
		if (cbx_execution_status(x) <= CBX_RUNNING)
			text = cbx_xasprintf(
				"Execution %llu was interrupted, and has not ended yet; get_execution tells what "
				"becomes of it.",
				(unsigned long long)call->execution_id);
		else if (done && *done)
			text = cbx_xasprintf("%.1000s", message ? message : "The cell was interrupted.");
		else
			text = cbx_xasprintf("Execution %llu had ended already, with status %s.",
					     (unsigned long long)call->execution_id, cbx_mcp_str_of(json, "status"));
	}
	cbx_json_set_str(s, "message", text);
	cbx_mcp_call_end(call, text, s);
}

static void interrupt(struct cbx_mcp_call *call, const cJSON *args)
{
	struct cbx_session *session;
	struct cbx_execution *x = NULL;
	struct cbx_err err;
	bool *done;

	if (find_execution(call, args, false, &session, &x, &err) < 0) {
		cbx_mcp_call_refuse(call, &err);
		return;
	}
	if (!x) {
		answer_interrupt(call, NULL);
		return;
	}
	call->state = done = cbx_xcalloc(1, sizeof(*done));
	call->release = free;
	call->answer = answer_interrupt;
	*done = cbx_execution_status(x) <= CBX_RUNNING;
	if (*done)
		cbx_execution_interrupt(x);
	if (cbx_mcp_wait(call, x, INTERRUPT_WAIT_MS, &err) < 0)
		answer_interrupt(call, x);
}

const struct cbx_mcp_tool cbx_mcp_interrupt = {
	.name = "interrupt",
	.title = "Interrupt a cell",
	.description =
		"Stop a cell that runs (or waits for its turn): it gets a KeyboardInterrupt, as from Ctrl-C, and is "
		"killed when it does not end within a few seconds. Variables and files are kept, except that a kill "
		"loses the variables; the answer says which it was.",
	.hints = CBX_TOOL_IDEMPOTENT,
	.input = interrupt_input,
	.output = interrupt_output,
	.call = interrupt,
	.cancel = cbx_mcp_wait_cancel,
};
