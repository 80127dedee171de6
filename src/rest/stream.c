/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a stream begins with all that there is of the execution, so that it does not matter when a
 * client comes, or comes back; then it has what happens, and at the end the results. Each event is one line of JSON, as
 * a line, or as a server-sent event, whichever the client takes. Of output and displays that a client does not read
 * in time its stream omits some, and says how much: neither does the execution wait for the client, nor memory grow.
 * The results have it.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "rest/internal.h"

static void spell_event(struct cbx_buf *out, const struct cbx_rest_call *call, const char *type, const char *more,
			cJSON *o)
{
	_cleanup_json_ cJSON *owned = o;

	if (!call->ndjson)
		cbx_buf_addf(out, "event: %s\n%sdata: ", type, more);
	cbx_json_print(out, owned);
	cbx_buf_adds(out, call->ndjson ? "\n" : "\n\n");
}

void cbx_rest_stream_event(struct cbx_rest_call *call, const char *type, const char *more, cJSON *o)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	spell_event(&out, call, type, more, o);
	cbx_http_stream_send(call->conn, out.data, out.len);
}

static void send_event(struct cbx_rest_call *call, const char *type, cJSON *o)
{
	cbx_rest_stream_event(call, type, "", o);
}

cJSON *cbx_rest_event_of(const char *type)
{
	cJSON *o = cbx_json_new_obj();

	cbx_json_set_str(o, "type", type);
	return o;
}

static void keep_alive(struct cbx_rest_call *call)
{
	if (call->ndjson)
		send_event(call, "keepalive", cbx_rest_event_of("keepalive"));
	else
		cbx_http_stream_send(call->conn, ":\n\n", 3);
	cbx_rest_timer(call, CBX_HTTP_KEEPALIVE_S * 1000ull, keep_alive);
}

/* What there was no room for: that all before is void, once for any number of times, and then how much is missing. */
static void catch_up(struct cbx_rest_call *call)
{
	cJSON *o;

	if (call->cleared)
		send_event(call, "clear", cbx_rest_event_of("clear"));
	call->cleared = false;
	if (!call->omitted)
		return;
	o = cbx_rest_event_of("omitted");
	cbx_json_set_u64(o, "bytes", call->omitted);
	call->omitted = 0;
	send_event(call, "omitted", o);
}

static bool has_room(const struct cbx_rest_call *call, size_t n)
{
	return cbx_http_unsent(call->conn) + n <= CBX_REST_UNSENT_MAX;
}

static void send_output(struct cbx_rest_call *call, const char *stream, const char *p, size_t n)
{
	cJSON *o;

	if (!n)
		return;
	if (!has_room(call, n)) {
		call->omitted += n;
		return;
	}
	catch_up(call);
	o = cbx_rest_event_of("output");
	cbx_json_set_str(o, "stream", stream);
	cbx_json_set_strn(o, "text", p, n);
	send_event(call, "output", o);
}

static void send_display(struct cbx_rest_call *call, const cJSON *bundle)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	cJSON *o = cbx_rest_event_of("display");

	cbx_json_set_bool(o, "is_result", cJSON_IsTrue(cbx_json_member(bundle, "is_result")));
	cbx_json_set(o, "data", cJSON_Duplicate(cbx_json_member(bundle, "data"), 1));
	spell_event(&out, call, "display", "", o);
	if (!has_room(call, 0)) {
		call->omitted += out.len;
		return;
	}
	catch_up(call);
	cbx_http_stream_send(call->conn, out.data, out.len);
}

static void send_end(struct cbx_rest_call *call, struct cbx_execution *x)
{
	cJSON *o;

	catch_up(call);
	o = cbx_rest_event_of("end");
	cbx_rest_set_request(o, x);
	cbx_json_set(o, "results", cbx_rest_results_json(x));
	send_event(call, "end", o);
	cbx_rest_end(call);
}

/* ---- what happens ---- */

static void on_progress(struct cbx_watch_op *op, struct cbx_execution *x, const struct cbx_progress *progress)
{
	struct cbx_rest_call *call = cbx_container_of(op, struct cbx_rest_call, watch);

	switch (progress->what) {
	case CBX_STARTED:
		send_event(call, "start", cbx_rest_event_of("start"));
		break;
	case CBX_PRINTED:
		send_output(call, progress->stream, progress->p, progress->n);
		break;
	case CBX_CLEARED:
		call->omitted = 0;
		call->cleared = true;
		if (has_room(call, 0))
			catch_up(call);
		break;
	case CBX_SHOWN:
		send_display(call, progress->bundle);
		break;
	case CBX_JUDGED:
	case CBX_ASKED:
		break;
	case CBX_ENDED:
		send_end(call, x);
		break;
	}
}

/* What there is so far. */
static void replay(struct cbx_rest_call *call, struct cbx_execution *x)
{
	_cleanup_json_ cJSON *whole = NULL;
	const char *text;
	const cJSON *d;

	if (cbx_execution_status(x) == CBX_QUEUED)
		return;
	whole = cbx_execution_to_json(x, false);
	send_event(call, "start", cbx_rest_event_of("start"));
	text = cbx_json_text(whole, "output");
	send_output(call, "both", text ? text : "", text ? strlen(text) : 0);
	cJSON_ArrayForEach(d, cbx_execution_displays(x))
		send_display(call, d);
}

void cbx_rest_stream_begin(struct cbx_rest_call *call)
{
	call->ndjson = cbx_http_head_accepts(&call->conn->head, "application/x-ndjson");
	call->streaming = true;
	cbx_http_add_header(call->conn, "Cache-Control", "no-cache, no-transform");
	cbx_http_add_header(call->conn, "X-Accel-Buffering", "no");
	cbx_http_stream_begin(call->conn, 200, call->ndjson ? "application/x-ndjson" : "text/event-stream", -1);
	cbx_rest_timer(call, CBX_HTTP_KEEPALIVE_S * 1000ull, keep_alive);
}

int cbx_rest_stream(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_execution *x;
	bool over;

	if (!cbx_rest_execution(call, "Request not found", &x))
		return 0;
	over = cbx_execution_status(x) > CBX_RUNNING;
	call->watch = (struct cbx_watch_op){ .op.ops = &call->caller.ops, .on_progress = on_progress };
	if (!over && cbx_execution_watch(x, &call->watch, err) < 0) {
		if (strcmp(err->kind, "ended") != 0)
			return -err->code;
		over = true;
	}
	cbx_rest_stream_begin(call);
	replay(call, x);
	if (over)
		send_end(call, x);
	return 0;
}
