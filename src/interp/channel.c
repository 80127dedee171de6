/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: frames go through two pipes, what is printed through two others.
 *
 * Order: the driver puts everything that was printed into the pipes before it sends a frame. So when a frame is seen,
 * the bytes that are in the pipes at that moment (`owed`) are taken before the frame is handled. A program that prints
 * on and on cannot delay a frame for longer than that.
 *
 * Fairness: a turn of the event loop reads one chunk of each pipe, and handles a bounded number of frames and bytes;
 * the rest waits for the next turn, in which others have theirs.
 *
 * Nothing that comes is trusted: it may be any frame at any time. What a correct driver never sends ends the
 * interpreter, with the reason in what is said of its death.
 */
#include "interp/channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/frame.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/timer.h"
#include "box/group.h"
#include "interp/pipes.h"
#include "interp/signals.h"

#define CHUNK		KIB(64)
#define FRAMES_PER_TURN 64
#define BYTES_PER_TURN	KIB(512)
#define LAST_WORDS	MIB(2) /* frames read from a dead interpreter's pipe */

static bool listening(const struct cbx_interp *in)
{
	return in->state == CBX_INTERP_STARTING || in->state == CBX_INTERP_READY;
}

/* The end of its frames, while the process may still be there. */
static void lost_contact(struct cbx_interp *in)
{
	cbx_event_free_p(&in->in);
	cbx_event_free_p(&in->out);
	cbx_close_p(&in->from);
	cbx_close_p(&in->to);
	cbx_interp_expect_end(in);
}

/* Nobody reads what it is sent. What it has said itself is looked at when it has ended (cbx_channel_last_words()). */
static void deaf(struct cbx_interp *in)
{
	cbx_close_p(&in->to);
	in->tx.len = 0;
	if (in->in)
		event_del(in->in);
	cbx_interp_expect_end(in);
}

/* ---- frames to it ---- */

static void send_out(struct cbx_interp *in)
{
	if (in->tx.len && in->box->frozen)
		cbx_interp_thaw(in);
	while (in->to >= 0 && in->tx.len) {
		ssize_t n = write(in->to, in->tx.data, in->tx.len);

		if (n < 0 && errno == EAGAIN) {
			event_add(in->out, NULL);
			return;
		}
		if (n < 0 && errno != EINTR) {
			deaf(in);
			return;
		}
		if (n > 0)
			cbx_buf_drop(&in->tx, (size_t)n);
	}
	if (in->tx.cap > CHUNK)
		cbx_buf_release(&in->tx);
}

static void frames_out(evutil_socket_t fd, short what, void *arg)
{
	send_out(arg);
}

void cbx_interp_send(struct cbx_interp *in, cJSON *frame)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print(&text, frame);
	cJSON_Delete(frame);
	cbx_frame_append(&in->tx, text.data, text.len);
	send_out(in);
}

void cbx_interp_run(struct cbx_interp *in, uint64_t id, cJSON *frame, bool unpaced)
{
	in->cell = in->last_cell = id;
	in->frame_bytes = in->printed = 0;
	in->unpaced = unpaced;
	cbx_json_set_str(frame, "op", "run");
	cbx_json_set_u64(frame, "id", id);
	cbx_interp_send(in, frame);
}

static void is_ready(struct cbx_interp *in)
{
	if (cbx_group_on(in->box) && !in->limited) {
		in->reported = true;
		return;
	}
	event_del(in->timer);
	in->state = CBX_INTERP_READY;
	in->was_ready = true;
	in->failures = 0;
	in->retry_ms = 0;
	cbx_buf_release(&in->noise);
	in->up->ready(in);
}

void cbx_interp_limited(struct cbx_interp *in)
{
	in->limited = true;
	if (in->reported && listening(in)) {
		in->reported = false;
		is_ready(in);
	}
}

/* ---- frames from it ---- */

/* Returns what read() said: 0 at the end. */
static ssize_t fill(struct cbx_interp *in)
{
	size_t want = CHUNK;
	int there = 0;
	ssize_t n;

	/* What is printed behind a frame must not come before it: the pipes are looked at before the driver can know
	 * that its frame was taken, and no byte of a frame is read that came after that look. What is in rx is the
	 * beginning of a frame, which had its look. */
	if (ioctl(in->from, FIONREAD, &there) == 0 && there > 0) {
		want = (size_t)there < want ? (size_t)there : want;
		cbx_pipes_owe(in);
		in->looked = in->rx.len + want;
	}
	do {
		n = read(in->from, cbx_buf_reserve(&in->rx, want), want);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		cbx_pipe_widen(in->from, &in->from_narrow, (size_t)n);
		in->rx.len += (size_t)n;
		in->rx.data[in->rx.len] = '\0';
		in->frame_bytes += (uint64_t)n;
	}
	return n;
}

static void said_ready(struct cbx_interp *in, const struct cbx_frame *f)
{
	if (in->state != CBX_INTERP_STARTING) {
		cbx_interp_fault(in, "it sent a malformed \"ready\"");
		return;
	}
	snprintf(in->language, sizeof(in->language), "%s", f->language);
	snprintf(in->version, sizeof(in->version), "%s", f->version);
	snprintf(in->kind, sizeof(in->kind), "%s", f->type);
	is_ready(in);
}

/* What a correct driver may send late (a display of a thread that outlived its cell) is ignored. */
static void said_of_cell(struct cbx_interp *in, const struct cbx_frame *f)
{
	bool current = f->id == in->cell;

	if (f->id > in->last_cell) {
		cbx_interp_fault(in, "it sent a \"%s\" about an unknown cell", f->ev);
		return;
	}
	if (f->kind == CBX_FRAME_DONE && !current) {
		cbx_interp_fault(in, "it sent a malformed \"done\"");
		return;
	}
	if (f->kind == CBX_FRAME_DONE)
		in->cell = 0;
	if (current)
		in->up->frame(in, f);
}

/* All that came before it has been taken. Who does not read the answers does not wait for them either, and between the
 * cells an answer would thaw the sandbox. */
static void said_sync(struct cbx_interp *in, const struct cbx_frame *f)
{
	cJSON *answer;

	if (!in->cell || in->tx.len > CHUNK)
		return;
	answer = cbx_json_new_obj();
	cbx_json_set_str(answer, "op", "synced");
	cbx_json_set_u64(answer, "id", f->id);
	cbx_interp_send(in, answer);
}

static void said(struct cbx_interp *in, const struct cbx_frame *f)
{
	if (f->kind == CBX_FRAME_READY)
		said_ready(in, f);
	else if (!in->was_ready)
		cbx_interp_fault(in, "it sent \"%s\" before \"ready\"", f->ev);
	else if (f->kind == CBX_FRAME_SYNC)
		said_sync(in, f);
	else if (f->kind < CBX_FRAME_IS_COMPLETE)
		said_of_cell(in, f);
	else if (cbx_query_answered(&in->queries, f->id, f->kind - CBX_FRAME_IS_COMPLETE + CBX_ASK_IS_COMPLETE, f->json) < 0)
		cbx_interp_fault(in, "it sent an answer that was not asked for, or is malformed");
}

/* Parse and handle the frame at the front of rx. */
static void handle(struct cbx_interp *in, const char *p, size_t n)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_err err = { 0 };
	struct cbx_frame frame;
	int r = cbx_json_parse_most(p, n, CBX_FRAME_VALUES_MAX, &doc, &err);

	cbx_buf_drop(&in->rx, CBX_FRAME_HEADER + n);
	if (in->rx.len == 0 && in->rx.cap > 4 * CHUNK)
		cbx_buf_release(&in->rx);
	if (r < 0)
		cbx_interp_fault(in, "it sent a message that is not JSON (%.200s)", err.msg);
	else if (!cJSON_IsObject(doc.root))
		cbx_interp_fault(in, "it sent a message that is not an object");
	else if (cbx_frame_decode(doc.root, &frame, &err) < 0)
		cbx_interp_fault(in, "%.250s", err.msg);
	else
		said(in, &frame);
}

void cbx_channel_pump(struct cbx_interp *in)
{
	size_t budget = BYTES_PER_TURN;

	for (int i = 0; listening(in); i++) {
		struct cbx_err err = { 0 };
		const char *p;
		bool paid;
		size_t n;
		int r = cbx_frame_peek(&in->rx, CBX_FRAME_MAX, &p, &n, &err);

		if (r < 0)
			cbx_interp_fault(in, "it sent a %s", err.msg);
		if (r <= 0)
			break;
		if (!in->at_frame) {
			in->at_frame = true;
			if (in->looked < CBX_FRAME_HEADER + n)
				cbx_pipes_owe(in);
			in->looked -= CBX_FRAME_HEADER + n < in->looked ? CBX_FRAME_HEADER + n : in->looked;
		}
		if (in->stalled)
			return; /* cbx_interp_stall() continues */
		paid = cbx_pipes_pay(in, &budget);
		if (!listening(in))
			break; /* a callback has discarded it */
		if (in->stalled)
			return;
		if (!paid || i == FRAMES_PER_TURN || budget == 0) {
			event_active(in->pump, EV_TIMEOUT, 1);
			return;
		}
		in->at_frame = false;
		budget -= n < budget ? n : budget;
		handle(in, p, n);
	}
	if (listening(in) && in->in && !event_pending(in->in, EV_READ, NULL))
		event_add(in->in, NULL);
}

static void pump_event(evutil_socket_t fd, short what, void *arg)
{
	cbx_channel_pump(arg);
}

static void frames_in(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_interp *in = arg;
	ssize_t n;

	/* One that is killed may write on for as long as its end takes: nothing of that is kept. */
	if (in->at_frame || !listening(in)) {
		event_del(in->in); /* cbx_channel_pump() adds it again */
		return;
	}
	n = fill(in);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		lost_contact(in);
	else if (in->frame_bytes > CBX_FRAMES_PER_CELL_MAX)
		cbx_interp_fault(in, "it sent more than %zu MiB of results and displays during one cell",
				 CBX_FRAMES_PER_CELL_MAX >> 20);
	else
		cbx_channel_pump(in);
}

void cbx_interp_stall(struct cbx_interp *in, bool on)
{
	if (cbx_pipes_stall(in, on) && !on && in->pump)
		event_active(in->pump, EV_TIMEOUT, 1);
}

void cbx_interp_rest(struct cbx_interp *in)
{
	cbx_interp_stall(in, false);
	cbx_pipes_narrow(in);
}

/* What it managed to say before it died: frames first seen now, after all that is in the pipes. */
void cbx_channel_last_words(struct cbx_interp *in)
{
	size_t budget = 2 * CBX_PIPE_WIDE, got = 0;
	const char *p;
	size_t n;

	cbx_pipes_owe(in);
	cbx_pipes_pay(in, &budget);
	if (in->fault[0] || in->from < 0)
		return;
	while (got < LAST_WORDS && in->from >= 0) {
		struct cbx_err err = { 0 };
		ssize_t k = fill(in);

		if (k <= 0)
			break;
		got += (size_t)k;
		while (!in->fault[0] && cbx_frame_peek(&in->rx, CBX_FRAME_MAX, &p, &n, &err) > 0)
			handle(in, p, n);
	}
}

int cbx_channel_open(struct cbx_interp *in, struct cbx_err *err)
{
	in->in = event_new(in->base, in->from, EV_READ | EV_PERSIST, frames_in, in);
	in->out = event_new(in->base, in->to, EV_WRITE, frames_out, in);
	in->pump = event_new(in->base, -1, 0, pump_event, in);
	if (!in->in || !in->out || !in->pump || event_add(in->in, NULL) < 0)
		return cbx_fail(err, ENOMEM, "watch the interpreter");
	return 0;
}

void cbx_channel_close(struct cbx_interp *in)
{
	cbx_event_free_p(&in->in);
	cbx_event_free_p(&in->out);
	cbx_event_free_p(&in->pump);
	cbx_buf_release(&in->rx);
	cbx_buf_release(&in->tx);
}
