/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a command prints is a sequence of bytes with places, and each event says up to which place
 * it reaches. A client that continues at a place has all before it: only then is that forgotten. As much as is kept for
 * a client that may have to come again is as much as one answer holds: then the answer ends, "more" says where the next
 * one is to begin, and the program waits meanwhile if it has printed as much again. So a connection may break at any
 * time, and behind any proxy, and nothing is lost; browsers do all this by themselves (Last-Event-ID).
 *
 * One client reads at a time: the newest.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "rest/internal.h"

#define PIECE KIB(32)

static void send_at(struct cbx_rest_call *call, const char *type, const char *more, cJSON *o)
{
	char lines[64];

	snprintf(lines, sizeof(lines), "id: %" PRIu64 "\n%s", call->offset, more);
	cbx_json_set_u64(o, "next", call->offset);
	cbx_rest_stream_event(call, type, lines, o);
}

/* Of bytes that are too many for one event: no character is cut. */
static size_t piece(const char *p, size_t n)
{
	size_t k = PIECE;

	if (n <= PIECE)
		return n;
	while (k > PIECE - 3 && ((unsigned char)p[k] & 0xc0) == 0x80)
		k--;
	return k;
}

static void send_piece(struct cbx_rest_call *call, const char *stream, const char *p, size_t n)
{
	cJSON *o = cbx_rest_event_of("output");
	_cleanup_buf_ struct cbx_buf data = { 0 };

	cbx_json_set_str(o, "stream", stream);
	if (cbx_utf8_valid(p, n) && !memchr(p, '\0', n)) {
		cbx_json_set_strn(o, "text", p, n);
	} else {
		cbx_base64_encode(&data, p, n);
		cbx_json_set_str(o, "data", data.data);
	}
	call->offset += n;
	send_at(call, "output", "", o);
}

static void send_run(void *arg, const char *stream, const char *p, size_t n)
{
	struct cbx_rest_call *call = arg;

	while (n && !call->behind) {
		size_t k = piece(p, n);

		call->behind = cbx_http_unsent(call->conn) > CBX_REST_UNSENT_MAX;
		if (!call->behind)
			send_piece(call, stream, p, k);
		p += k;
		n -= k;
	}
}

static void send_end(struct cbx_rest_call *call, const struct cbx_command *c)
{
	cJSON *o = cbx_rest_event_of("end");

	cbx_json_set(o, "command", cbx_rest_command_json(c));
	send_at(call, "end", "", o);
	cbx_rest_end(call);
}

/* What there is to send; the call may be gone then. */
static void send_more(struct cbx_rest_call *call, const struct cbx_command *c)
{
	uint64_t from, end;
	cJSON *o;

	(void)cbx_command_kept(c, &from, &end);
	if (from > call->offset) {
		o = cbx_rest_event_of("omitted");
		cbx_json_set_u64(o, "bytes", from - call->offset);
		call->offset = from;
		send_at(call, "omitted", "", o);
	}
	call->behind = false;
	cbx_command_since(c, call->offset, send_run, call);
	if (call->behind)
		return; /* drained() continues */
	if (cbx_command_status(c) > CBX_RUNNING) {
		send_end(call, c);
	} else if (cbx_command_waits(c)) {
		send_at(call, "more", "retry: 0\n", cbx_rest_event_of("more"));
		cbx_rest_end(call);
	}
}

static void drained(void *arg)
{
	struct cbx_rest_call *call = arg;
	struct cbx_command *c;
	struct cbx_session *s;
	struct cbx_err ignored;

	if (!call->behind)
		return;
	if (cbx_session_find(&call->caller, call->target.session_id, &s, &ignored) < 0 ||
	    cbx_command_find(s, call->target.execution_id, &c, &ignored) < 0)
		cbx_rest_cut(call); /* it has gone, and the rest of its output, too */
	else
		send_more(call, c);
}

static void on_news(struct cbx_command_op *op, struct cbx_command *c)
{
	struct cbx_rest_call *call = cbx_container_of(op, struct cbx_rest_call, command);

	if (!call->behind)
		send_more(call, c);
}

static void done(struct cbx_command_op *op, struct cbx_command *c, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_container_of(op, struct cbx_rest_call, command);

	if (!err || strcmp(err->kind, "taken_over") != 0) {
		on_news(op, c);
		return;
	}
	send_at(call, "taken_over", "", cbx_rest_event_of("taken_over"));
	cbx_rest_end(call);
}

/* "from" of the query, else Last-Event-ID, else where what is kept begins. */
static int take_place(struct cbx_rest_call *call, const struct cbx_command *c, struct cbx_err *err)
{
	const char *last = cbx_http_header(call->conn, "Last-Event-ID"), *what = "from";
	char text[24] = "";
	uint64_t from, end;
	int r = cbx_rest_query(call->conn->head.query, "from", text, sizeof(text), err);

	(void)cbx_command_kept(c, &from, &end);
	if (r == 0 && last) {
		what = "Last-Event-ID";
		snprintf(text, sizeof(text), "%s", last);
		r = 1;
	}
	if (r > 0)
		r = cbx_parse_u64(text, what, 0, 1ull << 53, &from, err);
	if (r < 0)
		return r;
	if (from > end)
		return cbx_refuse(err, "no_such_place", ERANGE,
				  "%s: the command has printed %" PRIu64 " bytes so far; give a number up to that",
				  what, end);
	call->offset = from;
	return 0;
}

int cbx_rest_command_output(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_command *c;
	int r;

	if (!cbx_rest_command(call, &c))
		return 0;
	r = take_place(call, c, err);
	if (r < 0)
		return r;
	if (call->conn->head.method == CBX_HTTP_HEAD) {
		cbx_rest_stream_begin(call);
		cbx_rest_end(call);
		return 0;
	}
	call->command = (struct cbx_command_op){ .op.ops = &call->caller.ops, .on_news = on_news, .done = done };
	r = cbx_command_watch(c, &call->command, err);
	if (r < 0)
		return r;
	cbx_command_confirm(c, call->offset);
	cbx_rest_stream_begin(call);
	cbx_http_conn_drain(call->conn, drained);
	return 0;
}
