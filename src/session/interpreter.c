/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an interpreter is three descriptors (a socket for frames, two pipes for what is printed) and a
 * pid inside the sandbox that only init understands.
 *
 * Order: the driver puts everything that was printed into the pipes before it sends a frame. So when a frame is seen,
 * the bytes that are in the pipes at that moment (`owed`) are taken before the frame is handled. A program that goes on
 * printing cannot delay a frame for longer than that.
 *
 * Fairness: a turn of the event loop reads one chunk of each pipe, and handles a bounded number of frames and bytes;
 * the rest waits for the next turn, in which other sessions have theirs.
 *
 * Death is reported by init (EXITED), by the supervisor (killed for memory), and by the end of the socket, in any
 * order. The end of the socket alone proves nothing, since user code can close it: init gets a moment to say more, then
 * the process is killed. A new interpreter is started on the same files; see execution.c for what is told.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/frame.h"
#include "session/internal.h"

#define CHUNK		KIB(64)
#define FRAMES_PER_TURN 64
#define BYTES_PER_TURN	KIB(512)
#define LAST_WORDS	MIB(2) /* frames read from a dead interpreter's socket */
#define NEWS_WAIT_MS	150    /* for the reason of a death to arrive */

static void conclude(struct cbx_session *s);
static void pump(struct cbx_session *s);

/* ---- frames ---- */

static void send_out(struct cbx_session *s)
{
	struct cbx_interp *in = &s->interp;

	if (in->tx.len)
		cbx_group_thaw(s);
	while (in->sock >= 0 && in->tx.len) {
		ssize_t n = send(in->sock, in->tx.data, in->tx.len, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN) {
			event_add(in->out, NULL);
			return;
		}
		if (n < 0 && errno != EINTR) {
			in->tx.len = 0; /* the reading side sees the end */
			return;
		}
		if (n > 0)
			cbx_buf_drop(&in->tx, (size_t)n);
	}
	if (in->tx.cap > CHUNK)
		cbx_buf_release(&in->tx);
}

static void sock_out(evutil_socket_t fd, short what, void *arg)
{
	send_out(arg);
}

void cbx_interp_send(struct cbx_session *s, cJSON *frame)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_json_print(&text, frame);
	cJSON_Delete(frame);
	cbx_frame_append(&s->interp.tx, text.data, text.len);
	send_out(s);
}

void cbx_interp_fault(struct cbx_session *s, const char *fmt, ...)
{
	struct cbx_interp *in = &s->interp;
	va_list ap;

	if (in->state == CBX_INTERP_NONE || in->fault[0])
		return;
	va_start(ap, fmt);
	vsnprintf(in->fault, sizeof(in->fault), fmt, ap);
	va_end(ap);
	cbx_interp_kill(s);
}

/* The end of the socket, while the process may still be there. */
static void lost_contact(struct cbx_session *s)
{
	struct cbx_interp *in = &s->interp;

	if (in->in)
		event_free(in->in);
	if (in->out)
		event_free(in->out);
	in->in = in->out = NULL;
	cbx_close_p(&in->sock);
	if (in->state == CBX_INTERP_STARTING || in->state == CBX_INTERP_READY) {
		in->state = CBX_INTERP_DYING;
		cbx_timer_set(in->timer, NEWS_WAIT_MS);
	}
}

/* Returns what read() said: 0 at the end of the socket. */
static ssize_t fill(struct cbx_interp *in)
{
	size_t want = CHUNK;
	int there = 0;
	ssize_t n;

	/* What is printed behind a frame must not come before it: the pipes are looked at before the driver can know
	 * that its frame was taken, and no byte of the socket is read that came after that look. */
	if (!in->rx.len && ioctl(in->sock, FIONREAD, &there) == 0 && there > 0) {
		want = (size_t)there < want ? (size_t)there : want;
		cbx_pipes_owe(in);
		in->looked = want;
	}
	do {
		n = read(in->sock, cbx_buf_reserve(&in->rx, want), want);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		in->rx.len += (size_t)n;
		in->rx.data[in->rx.len] = '\0';
		in->frame_bytes += (uint64_t)n;
	}
	return n;
}

static void sock_in(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	struct cbx_interp *in = &s->interp;
	ssize_t n;

	if (in->at_frame) {
		event_del(in->in); /* pump() adds it again */
		return;
	}
	n = fill(in);
	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		lost_contact(s);
		return;
	}
	if (in->frame_bytes > CBX_FRAMES_PER_CELL_MAX) {
		cbx_interp_fault(s, "it sent more than %zu MiB of results and displays during one cell",
				 CBX_FRAMES_PER_CELL_MAX >> 20);
		return;
	}
	pump(s);
}

static bool listening(const struct cbx_interp *in)
{
	return in->state == CBX_INTERP_STARTING || in->state == CBX_INTERP_READY;
}

/* Parse and handle the frame at the front of rx. */
static void handle(struct cbx_session *s, const char *p, size_t n)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	struct cbx_interp *in = &s->interp;
	struct cbx_err err = { 0 };
	int r = cbx_json_parse_most(p, n, CBX_FRAME_VALUES_MAX, &doc, &err);

	cbx_buf_drop(&in->rx, CBX_FRAME_HEADER + n);
	if (in->rx.len == 0 && in->rx.cap > 4 * CHUNK)
		cbx_buf_release(&in->rx);
	if (r < 0)
		cbx_interp_fault(s, "it sent a message that is not JSON (%.200s)", err.msg);
	else if (!cJSON_IsObject(doc.root))
		cbx_interp_fault(s, "it sent a message that is not an object");
	else
		cbx_frame_handle(s, doc.root);
}

static void pump(struct cbx_session *s)
{
	struct cbx_interp *in = &s->interp;
	size_t budget = BYTES_PER_TURN;

	for (int i = 0; listening(in); i++) {
		struct cbx_err err = { 0 };
		const char *p;
		bool paid;
		size_t n;
		int r = cbx_frame_peek(&in->rx, CBX_FRAME_MAX, &p, &n, &err);

		if (r < 0)
			cbx_interp_fault(s, "it sent a %s", err.msg);
		if (r <= 0)
			break;
		if (!in->at_frame) {
			in->at_frame = true;
			if (in->looked < CBX_FRAME_HEADER + n)
				cbx_pipes_owe(in);
			in->looked -= CBX_FRAME_HEADER + n < in->looked ? CBX_FRAME_HEADER + n : in->looked;
		}
		paid = cbx_pipes_pay(s, &budget);
		if (!listening(in))
			break; /* a watcher closed the session */
		if (!paid || i == FRAMES_PER_TURN || budget == 0) {
			event_active(in->pump, EV_TIMEOUT, 1);
			return;
		}
		in->at_frame = false;
		budget -= n < budget ? n : budget;
		handle(s, p, n);
	}
	if (listening(in) && in->in && !event_pending(in->in, EV_READ, NULL))
		event_add(in->in, NULL);
}

static void pump_event(evutil_socket_t fd, short what, void *arg)
{
	pump(arg);
}

/* ---- birth ---- */

static void free_events(struct cbx_interp *in)
{
	struct event **events[] = { &in->in,   &in->out,  &in->pipes[0], &in->pipes[1],
				    &in->pace, &in->pump, &in->timer };

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		if (*events[i])
			event_free(*events[i]);
		*events[i] = NULL;
	}
}

void cbx_interp_discard(struct cbx_session *s)
{
	struct cbx_interp *in = &s->interp;
	unsigned failures = in->failures, signals = in->signals;
	size_t budget = 2 * CBX_PIPE_WIDE;

	if (s->running && !s->running->finishing) {
		cbx_pipes_owe(in);
		cbx_pipes_pay(s, &budget);
	}
	free_events(in);
	cbx_close_p(&in->sock);
	cbx_close_p(&in->pipe[CBX_STDOUT]);
	cbx_close_p(&in->pipe[CBX_STDERR]);
	cbx_buf_release(&in->rx);
	cbx_buf_release(&in->tx);
	cbx_buf_release(&in->noise);
	memset(in, 0, sizeof(*in));
	in->sock = in->pipe[0] = in->pipe[1] = -1;
	in->failures = failures;
	in->signals = signals;
}

/* It never came to "ready". The first time that ends the session; later, what waits for it is told. */
static void start_failed(struct cbx_session *s, const char *how)
{
	struct cbx_interp *in = &s->interp;
	struct cbx_execution *x;
	struct cbx_err err;
	_cleanup_buf_ struct cbx_buf noise = { 0 };

	cbx_utf8_append(&noise, cbx_buf_str(&in->noise), in->noise.len);
	cbx_refuse(&err, "interpreter_failed", ECHILD, "the interpreter did not start: %.250s%s%.250s", how,
		   noise.len ? "; it said: " : "", cbx_buf_str(&noise));
	for (char *p = err.msg; *p; p++)
		if (*p == '\n')
			*p = ' ';
	if (s->state == CBX_STARTING) {
		cbx_session_fail(s, &err);
		return;
	}
	cbx_interp_discard(s);
	in->failures++;
	while ((x = TAILQ_FIRST(&s->queue))) {
		cbx_buf_addf(
			&x->message,
			"The cell did not run: %s. The session's files are still there; run a cell to try again, or "
			"create a new session.",
			err.msg);
		cbx_execution_end(x, CBX_KILLED);
	}
	cbx_session_drop_queries(s, &err);
	cbx_session_work(s);
}

static void has_pid(struct cbx_session *s, int64_t pid)
{
	struct cbx_interp *in = &s->interp;

	in->pid = pid;
	if (in->state == CBX_INTERP_DYING)
		cbx_interp_signal(s, SIGKILL);
	else
		in->state = CBX_INTERP_STARTING;
	for (unsigned i = 0; i < in->nearly; i++) {
		if (in->early[i].pid == in->pid) {
			cbx_interp_ended(s, in->pid, in->early[i].status);
			return;
		}
	}
	pump(s); /* a quick one has reported already, and the event loop does not call twice for the same bytes */
}

static void spawned(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		    const struct cbx_err *fault)
{
	struct cbx_session *s = arg;
	struct cbx_interp *in = &s->interp;
	char how[200];

	if (fault || s->state == CBX_CLOSING || in->pid)
		return;
	if (h->value <= 0 || h->value > INT32_MAX) {
		int code = h->value < 0 && h->value > -4096 ? (int)-h->value : EIO;

		snprintf(how, sizeof(how), "%.100s could not be executed: %s", s->spawn.data, strerror(code));
		start_failed(s, how);
		return;
	}
	cbx_group_gather(s);
	has_pid(s, h->value);
}

void cbx_interp_placed(struct cbx_session *s, int64_t pid, const struct cbx_err *err)
{
	struct cbx_interp *in = &s->interp;
	struct cbx_err why;

	if (!s->warm || in->pid || in->state == CBX_INTERP_NONE)
		return;
	if (!err) {
		cbx_zygote_served(s);
		cbx_group_limited(s); /* the supervisor has seen to that */
		has_pid(s, pid);
		return;
	}
	cbx_session_note(s, "its interpreter starts the slow way: %.300s", err->msg);
	/* `used` is set. */
	if (cbx_interp_start(s, &why) < 0)
		cbx_session_fail(s, &why);
}

static void timer_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	struct cbx_interp *in = &s->interp;
	struct cbx_err err;

	if (in->exited) {
		conclude(s);
	} else if (in->state != CBX_INTERP_DYING) {
		cbx_interp_fault(s, "it did not report within %d s", CBX_START_TIMEOUT_MS / 1000);
	} else if (!in->killed) {
		cbx_interp_fault(s, "it closed descriptor %d, its connection to codebox", 3);
	} else {
		cbx_refuse(&err, "sandbox_failed", ETIMEDOUT, "the interpreter was killed but did not end within %d s",
			   CBX_KILL_WAIT_S);
		cbx_session_fail(s, &err);
	}
}

/* Our ends into *in, the interpreter's into theirs[0..3] as its descriptors 0 to 3. */
static int make_descriptors(struct cbx_interp *in, int theirs[4], struct cbx_err *err)
{
	int pair[2];

	theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (theirs[0] < 0)
		return cbx_fail(err, errno, "open /dev/null");
	for (int i = 0; i < CBX_STREAMS; i++) {
		if (pipe2(pair, O_CLOEXEC) < 0)
			return cbx_fail(err, errno, "make a pipe for the interpreter");
		in->pipe[i] = pair[0];
		theirs[1 + i] = pair[1];
		cbx_set_nonblock(pair[0], 1);
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make a socket for the interpreter");
	in->sock = pair[0];
	theirs[3] = pair[1];
	cbx_set_nonblock(pair[0], 1);
	cbx_pipes_narrow(in);
	return 0;
}

static int make_events(struct cbx_session *s, struct cbx_err *err)
{
	struct cbx_interp *in = &s->interp;
	struct event_base *base = s->engine->base;

	in->in = event_new(base, in->sock, EV_READ | EV_PERSIST, sock_in, s);
	in->out = event_new(base, in->sock, EV_WRITE, sock_out, s);
	in->pipes[0] = event_new(base, in->pipe[0], EV_READ | EV_PERSIST, cbx_pipe_stdout, s);
	in->pipes[1] = event_new(base, in->pipe[1], EV_READ | EV_PERSIST, cbx_pipe_stderr, s);
	in->pace = event_new(base, -1, 0, cbx_pipes_go_on, s);
	in->pump = event_new(base, -1, 0, pump_event, s);
	in->timer = event_new(base, -1, 0, timer_event, s);
	if (!in->in || !in->out || !in->pipes[0] || !in->pipes[1] || !in->pace || !in->pump || !in->timer ||
	    event_add(in->in, NULL) < 0 || event_add(in->pipes[0], NULL) < 0 || event_add(in->pipes[1], NULL) < 0)
		return cbx_fail(err, ENOMEM, "watch the interpreter");
	return 0;
}

int cbx_interp_start(struct cbx_session *s, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_SPAWN };
	struct cbx_interp *in = &s->interp;
	int fds[4] = { -1, -1, -1, -1 };
	int r;

	cbx_interp_discard(s);
	r = make_descriptors(in, fds, err);
	if (r >= 0)
		r = make_events(s, err);
	if (r < 0) {
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			cbx_close_p(&fds[i]);
		cbx_interp_discard(s);
		return r;
	}
	in->state = CBX_INTERP_SPAWNING;
	if (s->state == CBX_LIVE)
		cbx_timer_set(in->timer, CBX_START_TIMEOUT_MS);
	s->warm = !s->used && cbx_zygote_enter(s, fds);
	s->used = true;
	if (s->warm)
		return 0;
	r = cbx_init_ask(s, &h, s->spawn.data, s->spawn.len, NULL, 0, fds, ARRAY_SIZE(fds), true, spawned, s, err);
	if (r < 0)
		cbx_interp_discard(s);
	return r;
}

void cbx_interp_is_ready(struct cbx_session *s)
{
	struct cbx_interp *in = &s->interp;

	if (cbx_group_on(s) && !in->limited) {
		in->reported = true;
		return;
	}
	event_del(in->timer);
	in->state = CBX_INTERP_READY;
	in->was_ready = true;
	in->failures = 0;
	cbx_buf_release(&in->noise);
	cbx_session_ready(s);
}

/* ---- signals and death ---- */

static void signalled(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		      const struct cbx_err *fault)
{
	struct cbx_session *s = arg;
	struct cbx_interp *in = &s->interp;

	in->signals--;
	if (fault || s->state == CBX_CLOSING)
		return;
	if (h->value < 0 && in->killed && !in->exited && in->state == CBX_INTERP_DYING) {
		/* No such process any more, and nobody has told of its end (yet). */
		in->exited = true;
		cbx_timer_set(in->timer, NEWS_WAIT_MS);
	}
	cbx_session_work(s);
}

void cbx_interp_signal(struct cbx_session *s, int sig)
{
	struct cbx_interp *in = &s->interp;
	struct cbx_init_header h = { .type = CBX_INIT_SIGNAL, .arg = (uint64_t)in->pid, .value = sig };
	struct cbx_err err;

	if (in->pid <= 0 || in->exited)
		return;
	cbx_group_thaw(s);
	in->signals++;
	if (cbx_init_ask(s, &h, NULL, 0, NULL, 0, NULL, 0, true, signalled, s, &err) < 0)
		in->signals--;
}

void cbx_interp_kill(struct cbx_session *s)
{
	struct cbx_interp *in = &s->interp;

	if (in->state == CBX_INTERP_NONE || in->killed || in->exited)
		return;
	in->killed = true;
	in->state = CBX_INTERP_DYING;
	cbx_timer_set(in->timer, CBX_KILL_WAIT_S * 1000);
	cbx_interp_signal(s, SIGKILL);
}

void cbx_interp_ended(struct cbx_session *s, int64_t pid, int status)
{
	struct cbx_interp *in = &s->interp;

	if (in->state == CBX_INTERP_NONE || in->status_known)
		return;
	if (in->pid == 0) {
		in->early[in->nearly % ARRAY_SIZE(in->early)].pid = pid;
		in->early[in->nearly % ARRAY_SIZE(in->early)].status = status;
		if (in->nearly < ARRAY_SIZE(in->early))
			in->nearly++;
		return;
	}
	if (pid != in->pid)
		return;
	in->exited = in->status_known = true;
	in->status = status;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !in->killed && !in->oom) {
		cbx_link_poll(s->engine);
		if (s->state == CBX_CLOSING)
			return;
		cbx_group_interpreter_killed(s);
		if (!in->oom && !cbx_group_on(s)) {
			cbx_timer_set(in->timer, NEWS_WAIT_MS);
			return;
		}
	}
	conclude(s);
}

void cbx_interp_oom(struct cbx_session *s, int64_t pid)
{
	struct cbx_interp *in = &s->interp;
	char limit[32];

	if (in->state != CBX_INTERP_NONE && pid == in->pid) {
		in->oom = true;
		return;
	}
	cbx_format_size(s->spec.memory_bytes, limit);
	if (s->running && s->running->note.len < 1000)
		cbx_buf_addf(&s->running->note,
			     "Process %lld was killed because the session's memory limit of %s was exceeded. ",
			     (long long)pid, limit);
}

void cbx_interp_how(const struct cbx_session *s, char *out, size_t n)
{
	const struct cbx_interp *in = &s->interp;
	char limit[32], files[32], more[100] = "";

	cbx_format_size(s->spec.memory_bytes, limit);
	cbx_format_size(in->oom_files, files);
	if (in->oom_files > s->spec.memory_bytes / 10)
		snprintf(more, sizeof(more), " (of which the session's files hold %s: delete what is not needed)",
			 files);
	if (in->oom_outside)
		snprintf(out, n,
			 "it was killed because the machine, or the group of sessions as a whole, ran out of memory");
	else if (in->oom)
		snprintf(out, n, "it was killed because the session's memory limit of %s was exceeded%s", limit, more);
	else if (in->fault[0])
		snprintf(out, n, "it was killed by codebox because %s", in->fault);
	else if (!in->status_known)
		snprintf(out, n, "it ended for an unknown reason");
	else if (WIFEXITED(in->status))
		snprintf(out, n, "it ended with exit code %d (os._exit or C code)", WEXITSTATUS(in->status));
	else if (WIFSIGNALED(in->status) && WTERMSIG(in->status) == SIGKILL)
		snprintf(out, n, "it was killed by signal 9 (SIGKILL): by its own code, or because memory ran out");
	else if (WIFSIGNALED(in->status))
		snprintf(out, n, "it was killed by signal %d (SIG%s, %s)", WTERMSIG(in->status),
			 sigabbrev_np(WTERMSIG(in->status)) ? sigabbrev_np(WTERMSIG(in->status)) : "?",
			 strsignal(WTERMSIG(in->status)));
	else
		snprintf(out, n, "it ended with status %d", in->status);
}

/* What it managed to say before it died: frames first seen now, after all that is in the pipes. */
static void last_words(struct cbx_session *s)
{
	struct cbx_interp *in = &s->interp;
	size_t budget = 2 * CBX_PIPE_WIDE, got = 0;
	const char *p;
	size_t n;

	cbx_pipes_owe(in);
	cbx_pipes_pay(s, &budget);
	if (in->fault[0] || in->sock < 0)
		return;
	while (got < LAST_WORDS && in->sock >= 0) {
		struct cbx_err err = { 0 };
		ssize_t k = fill(in);

		if (k <= 0)
			break;
		got += (size_t)k;
		while (!in->fault[0] && cbx_frame_peek(&in->rx, CBX_FRAME_MAX, &p, &n, &err) > 0)
			handle(s, p, n);
	}
}

static void conclude(struct cbx_session *s)
{
	struct cbx_interp *in = &s->interp;
	struct cbx_err err;
	char how[400];

	last_words(s);
	if (s->state == CBX_CLOSING)
		return;
	cbx_interp_how(s, how, sizeof(how));
	if (!in->was_ready) {
		start_failed(s, how);
		return;
	}
	if (s->shape) {
		cbx_refuse(&err, "interpreter_died", ECHILD, "its interpreter died: %s", how);
		cbx_session_fail(s, &err);
		return;
	}
	if (s->running && !s->running->finishing)
		cbx_execution_interpreter_died(s);
	else if (s->lost.len == 0)
		cbx_buf_addf(&s->lost, "Between the cells the interpreter died: %s. ", how);
	cbx_interp_discard(s);
	in->again = true;
	cbx_refuse(&err, "interpreter_died", ECHILD, "the interpreter died before it could answer: %s", how);
	cbx_session_drop_queries(s, &err);
	cbx_session_work(s);
}
