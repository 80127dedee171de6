/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: all pipes are ours: made here, and their other ends handed to init. So nothing in a sandbox can
 * change how our ends behave, and none of them ever makes codeboxd wait.
 *
 * Who is attached gets each byte, and sets the pace: while he is slow, nothing is read, and the program waits in the
 * end. While nobody is attached, all is read, at a moderate pace once it is much, and what is kept is bounded.
 *
 * A command can be one that is read by places instead, by clients that come and go: what it prints is kept until a
 * client confirms that it has it, and when it is as much as is kept, the program waits, too. So a connection that is
 * lost loses nothing. Who is attached in the first way has confirmed what was passed to him.
 *
 * Nothing is read before who attaches knows that the command runs, and has the output that was kept: init may be slow
 * to say so, and a program that floods would have filled what is kept by then.
 *
 * Processes that a program leaves behind may hold its pipes for ever. So when it has ended, what is in them at that
 * moment is its own, and is read; what comes later is not. A terminal ends with its program, and its pipe with the
 * terminal: that is waited for, but not for long.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/timer.h"
#include "command/state.h"
#include "interp/pipes.h"

#define CHUNK	KIB(64)
#define PACE_MS 5 /* between two CBX_PIPE_WIDE of one that prints much to nobody */

static const char *const names[CBX_STREAMS] = { "stdout", "stderr" };

static void output(struct cbx_command *c, enum cbx_stream stream, const char *p, size_t n)
{
	struct cbx_command_op *op = (struct cbx_command_op *)c->attached;

	c->printed += n;
	if (op && op->on_output && c->replayed) {
		if (c->unread != CBX_UNREAD_CUT)
			cbx_output_pass(&c->kept, stream, n);
		op->on_output(op, c, names[stream], p, n);
		return;
	}
	cbx_output_feed(&c->kept, stream, p, n, &(const char *){ NULL }, &(size_t){ 0 });
	if (!op || !op->on_news)
		return;
	c->fresh = true;
	c->all->up->news(c->all);
}

bool cbx_command_waits(const struct cbx_command *c)
{
	return c->unread == CBX_UNREAD_WAITS && !c->discarded && c->state < CBX_COMMAND_LEAVING &&
	       c->kept.tail.len >= CBX_COMMAND_UNREAD;
}

static bool rests(const struct cbx_command *c)
{
	return c->held || c->stalled || cbx_command_waits(c);
}

static void stop_reading(struct cbx_command *c)
{
	for (int i = 0; i < CBX_STREAMS; i++)
		if (c->pipes[i])
			event_del(c->pipes[i]);
}

static void go_on(struct cbx_command *c)
{
	for (int i = 0; i < CBX_STREAMS && !rests(c); i++) {
		if (!c->pipes[i])
			continue;
		event_add(c->pipes[i], NULL);
		if (c->last[i])
			event_active(c->pipes[i], EV_READ, 1);
	}
}

static void pace(struct cbx_command *c, size_t n)
{
	if (c->attached || c->printed <= CBX_OUTPUT_RUSH ||
	    c->printed / CBX_PIPE_WIDE == (c->printed - n) / CBX_PIPE_WIDE)
		return;
	stop_reading(c);
	cbx_timer_set(c->pace, PACE_MS);
}

static void pace_event(evutil_socket_t fd, short what, void *arg)
{
	go_on(arg);
}

static void close_stream(struct cbx_command *c, enum cbx_stream stream)
{
	cbx_output_flush(&c->kept, stream, &(const char *){ NULL }, &(size_t){ 0 });
	cbx_event_free_p(&c->pipes[stream]);
	cbx_close_p(&c->pipe[stream]);
}

static bool drained(const struct cbx_command *c)
{
	return c->pipe[CBX_STDOUT] < 0 && c->pipe[CBX_STDERR] < 0;
}

/* Once. */
static void read_stream(struct cbx_command *c, enum cbx_stream stream)
{
	_cleanup_free_ char *data = NULL;
	size_t want = c->last[stream] && c->owed[stream] < CHUNK ? c->owed[stream] : CHUNK;
	ssize_t n = 0;

	if (c->pipe[stream] < 0)
		return;
	if (want) {
		data = cbx_xrealloc(NULL, want);
		n = read(c->pipe[stream], data, want);
		if (n < 0 && (errno == EINTR || (errno == EAGAIN && !c->last[stream])))
			return;
	}
	if (n > 0) {
		cbx_pipe_widen(c->pipe[stream], &c->narrow[stream], (size_t)n);
		c->owed[stream] -= (size_t)n < c->owed[stream] ? (size_t)n : c->owed[stream];
		pace(c, (size_t)n);
		output(c, stream, data, (size_t)n);
		if (cbx_command_waits(c))
			stop_reading(c);
	} else {
		close_stream(c, stream);
	}
	if (n > 0 && c->last[stream] && c->pipes[stream])
		event_active(c->pipes[stream], EV_READ, 1);
	if (drained(c))
		cbx_command_drained(c);
}

static void stdout_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_command *c = arg;

	if (!rests(c))
		read_stream(c, CBX_STDOUT);
}

/* When both have something, stdout goes first; the loop reports them in no particular order. */
static void stderr_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_command *c = arg;

	if (!rests(c) && c->pipes[CBX_STDOUT] && !c->last[CBX_STDOUT])
		read_stream(c, CBX_STDOUT);
	if (!rests(c))
		read_stream(c, CBX_STDERR);
}

/* ---- making them ---- */

static int open_output(struct cbx_command *c, enum cbx_stream stream, int *theirs, struct cbx_err *err)
{
	static const event_callback_fn fns[CBX_STREAMS] = { stdout_event, stderr_event };
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe for the command");
	c->pipe[stream] = pair[0];
	*theirs = pair[1];
	cbx_set_nonblock(pair[0], 1);
	c->narrow[stream] = fcntl(pair[0], F_SETPIPE_SZ, (int)KIB(stream == CBX_STDOUT ? 32 : 8)) >= 0;
	c->pipes[stream] = event_new(c->all->base, pair[0], EV_READ | EV_PERSIST, fns[stream], c);
	return c->pipes[stream] ? 0 : cbx_fail(err, ENOMEM, "watch a command");
}

static int open_input(struct cbx_command *c, int *theirs, struct cbx_err *err)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe for the command");
	*theirs = pair[0];
	(void)fcntl(pair[1], F_SETPIPE_SZ, (int)KIB(c->terminal ? 4 : 16));
	if (c->input) {
		cbx_set_nonblock(pair[1], 1);
		return cbx_feed_new(pair[1], c->all->base, &c->feed, err);
	}
	close(pair[1]);
	return 0;
}

int cbx_command_streams_open(struct cbx_command *c, int theirs[3], size_t *ret_n, struct cbx_err *err)
{
	int r = open_input(c, &theirs[0], err);

	*ret_n = c->terminal ? 2 : 3;
	if (r >= 0)
		r = open_output(c, CBX_STDOUT, &theirs[1], err);
	if (r >= 0 && !c->terminal)
		r = open_output(c, CBX_STDERR, &theirs[2], err);
	c->pace = event_new(c->all->base, -1, 0, pace_event, c);
	return r >= 0 && !c->pace ? cbx_fail(err, ENOMEM, "watch a command") : r;
}

/* ---- their end ---- */

void cbx_command_streams_end(struct cbx_command *c)
{
	cbx_feed_close(&c->feed, NULL);
	for (int i = 0; i < CBX_STREAMS; i++) {
		int n = 0;

		if (c->pipe[i] < 0)
			continue;
		if (ioctl(c->pipe[i], FIONREAD, &n) < 0 || n < 0)
			n = 0;
		c->owed[i] = (size_t)n;
		c->last[i] = true;
	}
	go_on(c);
	if (drained(c))
		cbx_command_drained(c);
}

void cbx_command_streams_close(struct cbx_command *c)
{
	cbx_feed_close(&c->feed, NULL);
	for (int i = 0; i < CBX_STREAMS; i++)
		close_stream(c, i);
	cbx_event_free_p(&c->pace);
}

/* ---- who looks ---- */

void cbx_command_streams_resume(struct cbx_command *c)
{
	if (!c->stalled)
		return;
	c->stalled = false;
	go_on(c);
}

void cbx_command_streams_look(struct cbx_command *c)
{
	if (!rests(c))
		go_on(c);
}

void cbx_command_stall(struct cbx_command *c, bool on)
{
	if (!on) {
		cbx_command_streams_resume(c);
	} else if (c->attached && !c->stalled) {
		c->stalled = true;
		stop_reading(c);
	}
}

static void replay_run(void *arg, enum cbx_stream stream, const char *p, size_t n)
{
	struct cbx_command *c = arg;
	struct cbx_command_op *op = (struct cbx_command_op *)c->attached;

	if (op)
		op->on_output(op, c, names[stream], p, n);
}

/* What was passed on keeps its place among what is to come. */
static void passed(struct cbx_command *c)
{
	if (c->unread == CBX_UNREAD_CUT) {
		cbx_output_clear(&c->kept);
		return;
	}
	cbx_output_forget(&c->kept, cbx_output_total(&c->kept));
	cbx_command_streams_look(c);
}

void cbx_command_replay(struct cbx_command *c)
{
	struct cbx_command_op *op = (struct cbx_command_op *)c->attached;

	c->replayed = op->on_news;
	if (c->replayed && op->on_start)
		op->on_start(op, c, 0);
	if (c->replayed)
		return;
	for (enum cbx_stream i = CBX_STDOUT; i < CBX_STREAMS; i++)
		cbx_output_flush(&c->kept, i, &(const char *){ NULL }, &(size_t){ 0 });
	if (op->on_start)
		op->on_start(op, c, cbx_output_omitted(&c->kept));
	cbx_output_each(&c->kept, replay_run, c);
	c->replayed = true;
	if (c->attached)
		passed(c);
}

int cbx_command_input(struct cbx_command *c, const char *p, size_t n, struct cbx_input_op *op, struct cbx_err *err)
{
	struct cbx_err ignored;
	int r;

	if (!c->feed)
		return cbx_refuse(err, "no_input", EPIPE,
				  "command %llu takes no input: it has ended, or was started without; start one with "
				  "standard input",
				  (unsigned long long)c->id);
	(void)cbx_group_thaw(c->all->box, &ignored);
	r = n ? cbx_feed_give(c->feed, p, n, op, err) : cbx_feed_finish(&c->feed, err);
	if (r >= 0)
		c->given += n;
	return r;
}

/* ---- what is read by places ---- */

bool cbx_command_kept(const struct cbx_command *c, uint64_t *ret_from, uint64_t *ret_end)
{
	*ret_from = cbx_output_omitted(&c->kept);
	*ret_end = cbx_output_total(&c->kept);
	return c->unread != CBX_UNREAD_CUT;
}

struct reading {
	void (*fn)(void *arg, const char *stream, const char *p, size_t n);
	void *arg;
};

static void read_run(void *arg, enum cbx_stream stream, const char *p, size_t n)
{
	const struct reading *rd = arg;

	rd->fn(rd->arg, names[stream], p, n);
}

void cbx_command_since(const struct cbx_command *c, uint64_t from,
		       void (*fn)(void *arg, const char *stream, const char *p, size_t n), void *arg)
{
	cbx_output_since(&c->kept, from, read_run, &(struct reading){ fn, arg });
}

void cbx_command_confirm(struct cbx_command *c, uint64_t before)
{
	if (c->unread == CBX_UNREAD_CUT)
		return;
	cbx_output_forget(&c->kept, before);
	if (c->state == CBX_COMMAND_ENDED && !c->kept.tail.len)
		c->unconfirmed = false;
	cbx_command_streams_look(c);
}

void cbx_command_discard(struct cbx_command *c)
{
	if (c->unread == CBX_UNREAD_CUT)
		return;
	c->discarded = true;
	cbx_output_forget(&c->kept, cbx_output_total(&c->kept));
	c->unconfirmed = c->state != CBX_COMMAND_ENDED;
	cbx_command_streams_look(c);
}
