/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a client that gave a progress token hears from its call every CBX_PROGRESS_MAX_MS, and sooner
 * when the code prints, but never more often than every CBX_PROGRESS_MIN_MS. One timer does both: it is set to the
 * later moment after each message, and pulled forward by output. `progress` is the time since the call in seconds,
 * which only grows; the message is the newest line that is not blank: a finished one where there is a new one. Carriage
 * returns end a line, too: progress bars are drawn that way.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "mcp/call.h"
#include "render/render.h"

#define LINE_MAX_BYTES 1024
#define LINE_CHARS     200
#define LOOK_BACK      4096 /* of one chunk of output only so much of its end can matter */

struct cbx_mcp_progress {
	char *token;
	struct event *timer;
	uint64_t start_ms, sent_ms;
	uint64_t last; /* progress sent, in ms */
	bool due;      /* output has come since the last message */
	bool fresh;    /* newest has changed since then */
	char stream;
	struct cbx_buf line;   /* the line that is being written */
	struct cbx_buf newest; /* the last one that was finished and not blank */
};

static void arm(struct cbx_mcp_progress *g, uint64_t in_ms)
{
	struct timeval tv = { .tv_sec = (time_t)(in_ms / 1000), .tv_usec = (suseconds_t)(in_ms % 1000 * 1000) };

	event_add(g->timer, &tv);
}

static bool blank(const struct cbx_buf *b)
{
	for (size_t i = 0; i < b->len; i++)
		if (!strchr(" \t\r\n", b->data[i]))
			return false;
	return true;
}

/* The newest line as valid text without control characters. */
static void line_text(const struct cbx_mcp_progress *g, struct cbx_buf *out)
{
	const struct cbx_buf *src = g->fresh || blank(&g->line) ? &g->newest : &g->line;
	_cleanup_buf_ struct cbx_buf clean = { 0 };
	_cleanup_buf_ struct cbx_buf shown = { 0 };
	size_t at = 0;

	cbx_utf8_append(&clean, src->data, src->len);
	cbx_render_screen(&shown, cbx_buf_str(&clean));
	for (int chars = 0; at < shown.len && chars < LINE_CHARS; chars++) {
		size_t k = cbx_utf8_len(shown.data + at, shown.len - at);

		if ((unsigned char)shown.data[at] < 0x20)
			cbx_buf_addc(out, ' ');
		else
			cbx_buf_add(out, shown.data + at, k);
		at += k;
	}
}

static void send_progress(struct cbx_mcp_call *call)
{
	struct cbx_mcp_progress *g = call->progress;
	_cleanup_buf_ struct cbx_buf params = { 0 };
	uint64_t now = cbx_now_ms(), elapsed = now - g->start_ms;

	if (elapsed <= g->last)
		elapsed = g->last + 1;
	g->last = elapsed;
	g->sent_ms = now;
	g->due = false;
	cbx_buf_addf(&params, "{\"progressToken\":%s,\"progress\":%llu.%03u", g->token,
		     (unsigned long long)(elapsed / 1000), (unsigned)(elapsed % 1000));
	if (call->rev->progress_message) {
		_cleanup_buf_ struct cbx_buf text = { 0 };
		_cleanup_buf_ struct cbx_buf quoted = { 0 };
		_cleanup_json_ cJSON *s = NULL;

		line_text(g, &text);
		g->fresh = false;
		if (!text.len)
			cbx_buf_addf(&text, "running for %llu s", (unsigned long long)(elapsed / 1000));
		s = cJSON_CreateString(cbx_buf_str(&text));
		cbx_json_print_clean(&quoted, s);
		cbx_buf_addf(&params, ",\"message\":%s", cbx_buf_str(&quoted));
	}
	cbx_buf_addc(&params, '}');
	cbx_rpc_notify(&call->slot, "notifications/progress", &params);
	arm(g, CBX_PROGRESS_MAX_MS);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	send_progress(arg);
}

int cbx_mcp_progress_start(struct cbx_mcp_call *call, const struct cbx_mcp_message *m, struct cbx_err *err)
{
	struct cbx_raw params = cbx_raw_member(m->text, "params");
	struct cbx_raw token = cbx_raw_member(cbx_raw_member(params, "_meta"), "progressToken");
	struct cbx_mcp_progress *g;

	if (!token.p)
		return 0;
	if (!cbx_raw_is_token(token))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "_meta.progressToken: a string or a whole number is expected");
	g = cbx_xcalloc(1, sizeof(*g));
	g->token = cbx_raw_copy(token);
	g->timer = event_new(call->mcp->client.base, -1, 0, on_timer, call);
	g->start_ms = g->sent_ms = cbx_now_ms();
	call->progress = g;
	arm(g, CBX_PROGRESS_MAX_MS);
	return 0;
}

static void end_line(struct cbx_mcp_progress *g)
{
	if (!blank(&g->line)) {
		g->newest.len = 0;
		cbx_buf_add(&g->newest, g->line.data, g->line.len);
		g->fresh = true;
	}
	g->line.len = 0;
}

static void take(struct cbx_mcp_progress *g, const char *stream, const char *p, size_t n)
{
	if (g->stream != stream[3]) { /* stdOut or stdErr: their lines are not one line */
		end_line(g);
		g->stream = stream[3];
	}
	if (n > LOOK_BACK) {
		p += n - LOOK_BACK;
		n = LOOK_BACK;
		g->line.len = 0;
	}
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n' || p[i] == '\r')
			end_line(g);
		else if (g->line.len < LINE_MAX_BYTES)
			cbx_buf_addc(&g->line, p[i]);
	}
}

void cbx_mcp_progress_output(struct cbx_mcp_call *call, const char *stream, const char *p, size_t n)
{
	struct cbx_mcp_progress *g = call->progress;
	uint64_t now = cbx_now_ms(), due;

	if (!g || !n)
		return;
	take(g, stream, p, n);
	if (g->due)
		return; /* the timer is set already */
	due = g->sent_ms + CBX_PROGRESS_MIN_MS;
	if (g->fresh && (g->last == 0 || now >= due)) {
		send_progress(call);
	} else { /* a line that has only begun is given time to end */
		g->due = true;
		arm(g, due > now ? due - now : CBX_PROGRESS_MIN_MS);
	}
}

void cbx_mcp_progress_stop(struct cbx_mcp_call *call)
{
	struct cbx_mcp_progress *g = call->progress;

	if (!g)
		return;
	event_free(g->timer);
	free(g->token);
	cbx_buf_release(&g->line);
	cbx_buf_release(&g->newest);
	free(g);
	call->progress = NULL;
}
