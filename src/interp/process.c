/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an interpreter is four pipes (frames to it and from it, and the two for what is printed) and a
 * pid inside the sandbox that only init understands. How what comes through the pipes keeps its order: channel.c.
 *
 * Death is reported by init (EXITED), by the supervisor (killed for memory), and by the end of its frames, in any
 * order. That end alone proves nothing, since user code can close it: init gets a moment to say more, then the process
 * is killed.
 *
 * A start that fails is followed by a pause before the next, which doubles: what cannot be started would else be
 * started by every cell.
 */
#include "interp/interp.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/timer.h"
#include "box/box.h"
#include "interp/channel.h"
#include "interp/pipes.h"
#include "interp/signals.h"

#define RETRY_MS     1000 /* after a start that failed; doubled each time ... */
#define RETRY_MAX_MS 60000

static void conclude(struct cbx_interp *in);

/* ---- birth ---- */

void cbx_interp_discard(struct cbx_interp *in)
{
	const size_t lasting = offsetof(struct cbx_interp, state);
	size_t budget = 2 * CBX_PIPE_WIDE;

	if (in->cell) {
		cbx_pipes_owe(in);
		cbx_pipes_pay(in, &budget);
	}
	cbx_channel_close(in);
	cbx_pipes_close(in);
	event_del(in->timer);
	cbx_buf_release(&in->noise);
	memset((char *)in + lasting, 0, sizeof(*in) - lasting);
	in->from = in->to = in->input = in->pipe[CBX_STDOUT] = in->pipe[CBX_STDERR] = -1;
}

uint64_t cbx_interp_pause_ms(const struct cbx_interp *in)
{
	uint64_t now = in->retry_ms ? cbx_now_ms() : 0;

	return in->retry_ms > now ? in->retry_ms - now : 0;
}

bool cbx_interp_may_start(struct cbx_interp *in)
{
	uint64_t left = cbx_interp_pause_ms(in);

	if (left)
		cbx_timer_set(in->timer, left);
	return left == 0;
}

static void start_failed(struct cbx_interp *in, const char *how)
{
	_cleanup_buf_ struct cbx_buf noise = { 0 };
	struct cbx_err err;
	unsigned doubled = in->failures < 16 ? in->failures : 16;
	uint64_t pause = (uint64_t)RETRY_MS << doubled;

	cbx_utf8_append(&noise, cbx_buf_str(&in->noise), in->noise.len);
	cbx_refuse(&err, "interpreter_failed", ECHILD, "the interpreter did not start: %.250s%s%.250s", how,
		   noise.len ? "; it said: " : "", cbx_buf_str(&noise));
	for (char *p = err.msg; *p; p++)
		if (*p == '\n')
			*p = ' ';
	cbx_interp_discard(in);
	in->failures++;
	in->retry_ms = cbx_now_ms() + (pause < RETRY_MAX_MS ? pause : RETRY_MAX_MS);
	cbx_queries_fail(&in->queries, &err);
	in->up->start_failed(in, &err);
}

static void has_pid(struct cbx_interp *in, int64_t pid)
{
	in->pid = pid;
	if (in->state == CBX_INTERP_DYING)
		cbx_interp_signal(in, SIGKILL);
	else
		in->state = CBX_INTERP_STARTING;
	for (unsigned i = 0; i < in->nearly; i++) {
		if (in->early[i].pid == in->pid) {
			cbx_interp_ended(in, in->pid, in->early[i].status);
			return;
		}
	}
	cbx_channel_pump(in); /* a quick one has reported already, and the event loop does not call twice for the same bytes */
}

static void spawned(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		    const struct cbx_err *fault)
{
	struct cbx_interp *in = arg;
	char how[200];

	if (fault || in->state == CBX_INTERP_NONE || in->pid)
		return;
	if (h->value <= 0 || h->value > INT32_MAX) {
		int code = h->value < 0 && h->value > -4096 ? (int)-h->value : EIO;

		snprintf(how, sizeof(how), "%.100s could not be executed: %s", in->program, strerror(code));
		start_failed(in, how);
		return;
	}
	if (cbx_group_on(in->box))
		cbx_link_move(in->box);
	has_pid(in, h->value);
}

bool cbx_interp_placed(struct cbx_interp *in, int64_t pid)
{
	if (in->pid || in->state == CBX_INTERP_NONE)
		return false;
	in->limited = true; /* the supervisor has seen to that */
	has_pid(in, pid);
	return true;
}

static void timer_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_interp *in = arg;
	struct cbx_err err;

	if (in->state == CBX_INTERP_NONE) {
		in->up->settled(in);
	} else if (in->exited) {
		conclude(in);
	} else if (in->state != CBX_INTERP_DYING) {
		cbx_interp_fault(in, "it did not report within %d s", CBX_START_TIMEOUT_MS / 1000);
	} else if (!in->killed) {
		cbx_interp_fault(in, "it closed descriptor 3 or 4, its connection to codebox");
	} else {
		cbx_refuse(&err, "sandbox_failed", ETIMEDOUT, "the interpreter was killed but did not end within %d s",
			   CBX_KILL_WAIT_S);
		in->up->stuck(in, &err);
	}
}

int cbx_interp_start(struct cbx_interp *in, const struct cbx_launch *launch, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_SPAWN };
	_cleanup_json_ cJSON *first = launch->first;
	int fds[CBX_INTERPRETER_FDS] = { -1, -1, -1, -1, -1 };
	int r;

	cbx_interp_discard(in);
	r = cbx_pipes_make(in, fds, err);
	if (r >= 0)
		r = cbx_pipes_watch(in, err);
	if (r >= 0)
		r = cbx_channel_open(in, err);
	if (r < 0) {
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			cbx_close_p(&fds[i]);
		cbx_interp_discard(in);
		return r;
	}
	in->state = CBX_INTERP_SPAWNING;
	in->program = launch->spawn->data;
	if (!launch->watched)
		cbx_timer_set(in->timer, CBX_START_TIMEOUT_MS);
	if (first)
		cbx_interp_send(in, take_ptr(&first));
	if (launch->zygote) {
		cbx_link_enter(in->box, launch->zygote, fds);
		return 0;
	}
	r = cbx_init_ask(in->box, &h, launch->spawn->data, launch->spawn->len, NULL, 0, fds, ARRAY_SIZE(fds), true,
			 spawned, in, err);
	if (r < 0)
		cbx_interp_discard(in);
	return r;
}

int cbx_interp_init(struct cbx_interp *in, struct event_base *base, struct cbx_box *box,
		    const struct cbx_interp_events *up)
{
	in->base = base;
	in->box = box;
	in->up = up;
	cbx_queries_init(&in->queries);
	in->from = in->to = in->input = in->pipe[CBX_STDOUT] = in->pipe[CBX_STDERR] = -1;
	in->timer = event_new(base, -1, 0, timer_event, in);
	return in->timer ? 0 : -ENOMEM;
}

void cbx_interp_free(struct cbx_interp *in)
{
	if (!in->timer)
		return;
	cbx_interp_discard(in);
	cbx_queries_free(&in->queries);
	cbx_event_free_p(&in->timer);
}

/* ---- death ---- */

/* Killed, and not by us: for memory? False: somebody may yet say. */
static bool know_killer(struct cbx_interp *in)
{
	bool own = true;

	cbx_link_poll(in->box->all);
	if (in->state == CBX_INTERP_NONE || in->oom)
		return true;
	in->oom = cbx_group_killed(in->box, &own, &in->oom_files);
	in->oom_outside = in->oom && !own;
	return in->oom || cbx_group_on(in->box);
}

void cbx_interp_ended(struct cbx_interp *in, int64_t pid, int status)
{
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
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !in->killed && !in->oom && !know_killer(in))
		cbx_timer_set(in->timer, CBX_NEWS_WAIT_MS);
	else if (in->state != CBX_INTERP_NONE)
		conclude(in);
}

bool cbx_interp_oom(struct cbx_interp *in, int64_t pid, enum cbx_oom why)
{
	if (in->state == CBX_INTERP_NONE || pid != in->pid)
		return false;
	in->oom = true;
	in->oom_outside = why == CBX_OOM_TOGETHER;
	in->oom_opened = why == CBX_OOM_FILES;
	return true;
}

static void conclude(struct cbx_interp *in)
{
	struct cbx_err err;
	char how[400];

	in->exited = true;
	in->stalled = false;
	cbx_channel_last_words(in);
	if (in->state == CBX_INTERP_NONE)
		return;
	cbx_interp_how(in, how, sizeof(how));
	if (!in->was_ready) {
		start_failed(in, how);
		return;
	}
	in->cell = 0; /* all that it printed has been read */
	in->up->died(in, how);
	if (in->state == CBX_INTERP_NONE)
		return;
	cbx_interp_discard(in);
	cbx_refuse(&err, "interpreter_died", ECHILD, "the interpreter died before it could answer: %s", how);
	cbx_queries_fail(&in->queries, &err);
	in->up->settled(in);
}
