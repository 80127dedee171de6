/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what is printed comes through two pipes. Normally each is read when it has something; when a
 * frame has come, what was in the pipes at that moment is owed to it, and paid before the frame is handled
 * (interpreter.c).
 *
 * The kernel counts the capacity of all pipes of a user, used or not, and above a soft limit (64 MiB) gives small ones
 * to all programs of that user. So a pipe is wide only while much is printed.
 *
 * Nobody reads hundreds of megabytes, and of most of it only the number is kept. So a cell that goes on and on is read
 * slowly in the end: it waits, as for any slow reader, and processors are there for others.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/internal.h"

#define CHUNK	  KIB(64)
#define NOISE_MAX KIB(4)
#define WIDEN_AT  4096 /* bytes in one read: much is being printed */
#define PACE_MS	  5    /* between two CBX_PIPE_WIDE of a cell that has printed more than CBX_OUTPUT_RUSH */

static void print(struct cbx_session *s, enum cbx_stream stream, const char *p, size_t n)
{
	struct cbx_interp *in = &s->interp;

	if (in->state != CBX_INTERP_SPAWNING && in->state != CBX_INTERP_STARTING) {
		cbx_execution_print(s, stream, p, n);
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
	if (in->printed <= CBX_OUTPUT_RUSH || in->printed / CBX_PIPE_WIDE == before / CBX_PIPE_WIDE)
		return;
	for (int i = 0; i < CBX_STREAMS; i++)
		if (in->pipes[i])
			event_del(in->pipes[i]);
	cbx_timer_set(in->pace, PACE_MS);
}

void cbx_pipes_go_on(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;

	for (int i = 0; i < CBX_STREAMS; i++)
		if (s->interp.pipes[i])
			event_add(s->interp.pipes[i], NULL);
}

/* Read once, at most max bytes. How many there were, or 0 when there is nothing to read now or ever. */
static size_t read_pipe(struct cbx_session *s, enum cbx_stream stream, size_t max)
{
	struct cbx_interp *in = &s->interp;
	static char data[CHUNK]; /* one thread; nothing looks at it again after print() has called out */
	ssize_t n;

	if (in->pipe[stream] < 0)
		return 0;
	n = read(in->pipe[stream], data, max < sizeof(data) ? max : sizeof(data));
	if (n >= WIDEN_AT && in->narrow[stream]) {
		in->narrow[stream] = false;
		(void)fcntl(in->pipe[stream], F_SETPIPE_SZ, (int)CBX_PIPE_WIDE); /* it is only quicker */
	}
	if (n > 0) {
		in->owed[stream] -= (size_t)n < in->owed[stream] ? (size_t)n : in->owed[stream];
		count(in, (size_t)n);
		print(s, stream, data, (size_t)n);
		return (size_t)n;
	}
	in->owed[stream] = 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/* All writers have closed it; the interpreter itself may well go on. */
	event_free(in->pipes[stream]);
	in->pipes[stream] = NULL;
	cbx_close_p(&in->pipe[stream]);
	return 0;
}

void cbx_pipe_stdout(evutil_socket_t fd, short what, void *arg)
{
	read_pipe(arg, CBX_STDOUT, CHUNK);
}

/* When both have something, stdout goes first; the loop reports them in no particular order. */
void cbx_pipe_stderr(evutil_socket_t fd, short what, void *arg)
{
	read_pipe(arg, CBX_STDOUT, CHUNK);
	read_pipe(arg, CBX_STDERR, CHUNK);
}

/* Refused while more is in a pipe: then it stays wide until the end of the next cell. */
void cbx_pipes_narrow(struct cbx_interp *in)
{
	static const int capacity[CBX_STREAMS] = { [CBX_STDOUT] = KIB(32), [CBX_STDERR] = KIB(8) };

	for (int i = 0; i < CBX_STREAMS; i++)
		if (!in->narrow[i] && in->pipe[i] >= 0 && fcntl(in->pipe[i], F_SETPIPE_SZ, capacity[i]) >= 0)
			in->narrow[i] = true;
}

void cbx_pipes_owe(struct cbx_interp *in)
{
	for (int i = 0; i < CBX_STREAMS; i++) {
		int n = 0;

		in->owed[i] = in->pipe[i] >= 0 && ioctl(in->pipe[i], FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
	}
}

bool cbx_pipes_pay(struct cbx_session *s, size_t *budget)
{
	struct cbx_interp *in = &s->interp;

	for (enum cbx_stream i = CBX_STDOUT; i < CBX_STREAMS; i++) {
		while (in->owed[i]) {
			size_t n = read_pipe(s, i, in->owed[i]); /* not what came behind the frame */

			if (n == 0)
				in->owed[i] = 0;
			*budget -= n < *budget ? n : *budget;
			if (*budget == 0)
				return !in->owed[CBX_STDOUT] && !in->owed[CBX_STDERR];
		}
	}
	return true;
}
