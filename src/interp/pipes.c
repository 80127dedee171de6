/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what is printed comes through two pipes. Normally each is read when it has something; when a
 * frame has come, what was in the pipes at that moment is owed to it, and paid before the frame is handled (channel.c).
 *
 * The kernel counts the capacity of all pipes of a user, used or not, and above a soft limit (64 MiB) gives small ones
 * to all programs of that user. So a pipe is wide only while much is printed.
 *
 * Nobody reads hundreds of megabytes, and of most of it only the number is kept. So a cell that prints on and on is read
 * slowly in the end: it waits, as for any slow reader, and processors are there for others.
 */
#include "interp/pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/timer.h"
#include "interp/input.h"

#define CHUNK	  KIB(64)
#define NOISE_MAX KIB(4)
#define WIDEN_AT  4096 /* bytes in one read: much is being printed */
#define PACE_MS	  5    /* between two CBX_PIPE_WIDE of a cell that has printed more than CBX_OUTPUT_RUSH */

static void print(struct cbx_interp *in, enum cbx_stream stream, const char *p, size_t n)
{
	if (in->state != CBX_INTERP_SPAWNING && in->state != CBX_INTERP_STARTING) {
		in->up->printed(in, stream, p, n);
		return;
	}
	cbx_buf_add(&in->noise, p, n);
	if (in->noise.len > NOISE_MAX)
		cbx_buf_drop(&in->noise, in->noise.len - NOISE_MAX);
}

static void count(struct cbx_interp *in, size_t n)
{
	uint64_t before = in->printed;

	in->printed += n;
	if (in->unpaced || in->printed <= CBX_OUTPUT_RUSH ||
	    in->printed / CBX_PIPE_WIDE == before / CBX_PIPE_WIDE)
		return;
	for (int i = 0; i < CBX_STREAMS; i++)
		if (in->pipes[i])
			event_del(in->pipes[i]);
	cbx_timer_set(in->pace, PACE_MS);
}

static void read_again(struct cbx_interp *in)
{
	for (int i = 0; i < CBX_STREAMS && !in->stalled; i++)
		if (in->pipes[i])
			event_add(in->pipes[i], NULL);
}

static void pace_event(evutil_socket_t fd, short what, void *arg)
{
	read_again(arg);
}

void cbx_pipe_widen(int fd, bool *narrow, size_t got)
{
	if (got < WIDEN_AT || !*narrow)
		return;
	*narrow = false;
	(void)fcntl(fd, F_SETPIPE_SZ, (int)CBX_PIPE_WIDE); /* it is only quicker */
}

/* A dead interpreter has nobody to wait: what it left is taken as it is. */
bool cbx_pipes_stall(struct cbx_interp *in, bool on)
{
	if (in->stalled == on || (on && (in->exited || in->state != CBX_INTERP_READY)))
		return false;
	in->stalled = on;
	if (!on)
		read_again(in);
	for (int i = 0; i < CBX_STREAMS && on; i++)
		if (in->pipes[i])
			event_del(in->pipes[i]);
	return true;
}

/* Read once, at most max bytes. How many there were, or 0 when there is nothing to read now or ever. */
static size_t read_pipe(struct cbx_interp *in, enum cbx_stream stream, size_t max)
{
	/* Its own: a callback that gets its output may close it, and then the rest of its pipes is read. */
	_cleanup_free_ char *data = NULL;
	size_t want = max < CHUNK ? max : CHUNK;
	ssize_t n;

	if (in->pipe[stream] < 0)
		return 0;
	data = cbx_xrealloc(NULL, want);
	n = read(in->pipe[stream], data, want);
	if (n > 0) {
		cbx_pipe_widen(in->pipe[stream], &in->narrow[stream], (size_t)n);
		in->owed[stream] -= (size_t)n < in->owed[stream] ? (size_t)n : in->owed[stream];
		count(in, (size_t)n);
		print(in, stream, data, (size_t)n);
		return (size_t)n;
	}
	in->owed[stream] = 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/* All writers have closed it; the interpreter itself may well run on. */
	cbx_event_free_p(&in->pipes[stream]);
	cbx_close_p(&in->pipe[stream]);
	return 0;
}

static void stdout_event(evutil_socket_t fd, short what, void *arg)
{
	read_pipe(arg, CBX_STDOUT, CHUNK);
}

/* When both have something, stdout goes first; the loop reports them in no particular order. */
static void stderr_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_interp *in = arg;

	read_pipe(in, CBX_STDOUT, CHUNK);
	if (!in->stalled)
		read_pipe(in, CBX_STDERR, CHUNK);
}

static void narrow(int fd, bool *narrow, int capacity)
{
	if (!*narrow && fd >= 0 && fcntl(fd, F_SETPIPE_SZ, capacity) >= 0)
		*narrow = true;
}

/* Refused while more is in a pipe: then it stays wide until the end of the next cell. */
void cbx_pipes_narrow(struct cbx_interp *in)
{
	static const int capacity[CBX_STREAMS] = { [CBX_STDOUT] = KIB(32), [CBX_STDERR] = KIB(8) };

	for (int i = 0; i < CBX_STREAMS; i++)
		narrow(in->pipe[i], &in->narrow[i], capacity[i]);
	narrow(in->from, &in->from_narrow, KIB(16));
	if (in->to >= 0 && !in->was_ready) /* what we send waits in our own memory */
		(void)fcntl(in->to, F_SETPIPE_SZ, KIB(8));
}

void cbx_pipes_owe(struct cbx_interp *in)
{
	for (int i = 0; i < CBX_STREAMS; i++) {
		int n = 0;

		in->owed[i] = in->pipe[i] >= 0 && ioctl(in->pipe[i], FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
	}
}

bool cbx_pipes_pay(struct cbx_interp *in, size_t *budget)
{
	for (enum cbx_stream i = CBX_STDOUT; i < CBX_STREAMS; i++) {
		while (in->owed[i]) {
			size_t n = read_pipe(in, i, in->owed[i]); /* not what came behind the frame */

			if (n == 0)
				in->owed[i] = 0;
			*budget -= n < *budget ? n : *budget;
			if (*budget == 0 || in->stalled)
				return !in->owed[CBX_STDOUT] && !in->owed[CBX_STDERR];
		}
	}
	return true;
}

/* ---- making and closing them ---- */

/* Our end into *ours, which is the one to read if theirs is to be written, and never makes us wait. */
static int make_pipe(int *ours, int *theirs, bool read, struct cbx_err *err)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe for the interpreter");
	*ours = pair[!read];
	*theirs = pair[read];
	cbx_set_nonblock(*ours, 1);
	return 0;
}

int cbx_pipes_make(struct cbx_interp *in, int theirs[CBX_INTERPRETER_FDS], struct cbx_err *err)
{
	int r;

	if ((r = cbx_feed_pipe(&in->input, &theirs[0], err)) < 0 ||
	    (r = make_pipe(&in->pipe[CBX_STDOUT], &theirs[1], true, err)) < 0 ||
	    (r = make_pipe(&in->pipe[CBX_STDERR], &theirs[2], true, err)) < 0 ||
	    (r = make_pipe(&in->to, &theirs[3], false, err)) < 0 ||
	    (r = make_pipe(&in->from, &theirs[4], true, err)) < 0)
		return r;
	cbx_pipes_narrow(in);
	return 0;
}

int cbx_pipes_watch(struct cbx_interp *in, struct cbx_err *err)
{
	in->pipes[CBX_STDOUT] = event_new(in->base, in->pipe[CBX_STDOUT], EV_READ | EV_PERSIST, stdout_event, in);
	in->pipes[CBX_STDERR] = event_new(in->base, in->pipe[CBX_STDERR], EV_READ | EV_PERSIST, stderr_event, in);
	in->pace = event_new(in->base, -1, 0, pace_event, in);
	if (!in->pipes[CBX_STDOUT] || !in->pipes[CBX_STDERR] || !in->pace ||
	    event_add(in->pipes[CBX_STDOUT], NULL) < 0 || event_add(in->pipes[CBX_STDERR], NULL) < 0)
		return cbx_fail(err, ENOMEM, "watch the interpreter");
	return 0;
}

void cbx_pipes_close(struct cbx_interp *in)
{
	cbx_event_free_p(&in->pipes[CBX_STDOUT]);
	cbx_event_free_p(&in->pipes[CBX_STDERR]);
	cbx_event_free_p(&in->pace);
	cbx_close_p(&in->from);
	cbx_close_p(&in->to);
	cbx_close_p(&in->input);
	cbx_close_p(&in->pipe[CBX_STDOUT]);
	cbx_close_p(&in->pipe[CBX_STDERR]);
}
