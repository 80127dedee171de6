/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: init is asked for a process. Where there are control groups it is held until the supervisor has
 * put it under its limits, as an interpreter waits for that before its first cell; then it executes its program.
 * Without them it does so at once. Init reports its end, and then its output is read to the end (streams.c). Then init
 * is asked for the files that have changed since its start, if its client wants to know: also by others, if any ran
 * beside it.
 *
 * All that init says is from inside the sandbox: it can lie about the session's own processes, and no more than that.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/timer.h"
#include "command/state.h"

#define LEAVE_MS 2000 /* from a program's end to that of its terminal */
#define LOOK_MS	 2000 /* for the list of what it has changed */
#define SETTLE_MS 1

/* ---- its end ---- */

static void end(struct cbx_command *c)
{
	struct cbx_commands *all = c->all;

	if (c->state == CBX_COMMAND_ENDED)
		return;
	if (c->state != CBX_COMMAND_WAITING)
		(*all->together)--;
	all->running--;
	all->ended++;
	all->undelivered++;
	c->state = CBX_COMMAND_ENDED;
	if (!c->ended_ms)
		c->ended_ms = cbx_now_ms();
	c->stalled = false;
	event_del(c->timer);
	cbx_ops_cancel(&c->ops);
	if (c->keep)
		all->up->leave(take_ptr(&c->keep));
	cbx_command_streams_close(c);
	cbx_buf_release(&c->request);
	if (c->discarded || !c->kept.tail.len)
		cbx_command_discard(c);
	else if (c->unconfirmed)
		cbx_timer_set(c->timer, CBX_COMMAND_UNREAD_S * 1000ull);
	all->up->ended(all, c, c->began_ms ? c->ended_ms - c->began_ms : 0);
	all->up->news(all);
}

void cbx_command_fail(struct cbx_command *c, const struct cbx_err *err)
{
	if (c->state == CBX_COMMAND_ENDED)
		return;
	c->failure = *err;
	end(c);
}

static void changes_known(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_command *c = cbx_container_of(op, struct cbx_command, look);

	c->files_unknown = err || reply->cut;
	if (!err) {
		if (reply->nentries)
			cbx_files_changed(c->all->box);
		cbx_changes_list(reply, c->all->id, NULL, CBX_COMMAND_FILES, &c->changes);
	}
	c->state = CBX_COMMAND_KEEPING;
	c->keep = c->changes.files && !c->all->closed ? c->all->up->keep(c->all, c) : NULL;
	if (c->keep)
		cbx_timer_set(c->timer, CBX_ARTIFACTS_WAIT_MS);
	else
		end(c);
}

/* Nothing more comes of it. */
static void finish(struct cbx_command *c)
{
	struct cbx_err err;

	if (!c->tells_files || c->all->closed) {
		end(c);
		return;
	}
	c->ended_ms = cbx_now_ms();
	c->state = CBX_COMMAND_LOOKING;
	c->look = (struct cbx_file_op){ .op.ops = &c->ops, .done = changes_known };
	if (cbx_file_changed(c->all->box, c->since_ns, &c->look, &err) >= 0) {
		cbx_timer_set(c->timer, LOOK_MS);
	} else {
		c->files_unknown = true;
		end(c);
	}
}

const cJSON *cbx_command_files(const struct cbx_command *c)
{
	return c->changes.files;
}

cJSON *cbx_command_files_open(struct cbx_command *c)
{
	return c->changes.files;
}

void cbx_command_files_kept(struct cbx_command *c)
{
	end(c);
}

void cbx_command_drained(struct cbx_command *c)
{
	if (c->state == CBX_COMMAND_LEAVING)
		finish(c);
}

static void leave(struct cbx_command *c)
{
	c->state = CBX_COMMAND_LEAVING;
	cbx_timer_set(c->timer, LEAVE_MS);
	cbx_command_streams_look(c); /* it waits for nobody any more */
	if (!c->terminal)
		cbx_command_streams_end(c);
	else if (c->pipe[CBX_STDOUT] < 0)
		finish(c);
}

void cbx_command_exited(struct cbx_command *c, int status)
{
	bool own = true;
	uint64_t files;

	if (c->status_known)
		return;
	c->status_known = true;
	c->status = status;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && c->sent != SIGKILL && !c->oom) {
		c->oom = cbx_group_killed(c->all->box, &own, &files);
		c->oom_why = own ? CBX_OOM_SESSION : CBX_OOM_TOGETHER;
	}
	if (c->state == CBX_COMMAND_RUNNING || c->state == CBX_COMMAND_HELD)
		leave(c); /* init says first whether it could execute its program */
}

/* ---- signals ---- */

static void answered(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		     const struct cbx_err *fault)
{
	struct cbx_command *c = arg;

	c->asked--;
	c->all->up->news(c->all); /* it may be forgotten now */
}

static void ask(struct cbx_command *c, uint32_t type, int64_t value)
{
	struct cbx_init_header h = { .type = type, .arg = (uint64_t)c->pid, .value = value };
	struct cbx_err err;

	if (c->pid <= 0 || c->status_known || c->state == CBX_COMMAND_ENDED || cbx_group_thaw(c->all->box, &err) < 0)
		return;
	if (cbx_init_ask(c->all->box, &h, NULL, 0, NULL, 0, NULL, 0, true, answered, c, &err) >= 0)
		c->asked++;
}

void cbx_command_signal(struct cbx_command *c, int sig)
{
	struct cbx_err err;

	if (sig == SIGKILL)
		c->sent = sig;
	if (c->state == CBX_COMMAND_WAITING) {
		cbx_refuse(&err, "cancelled", ECANCELED, "it was ended before it began");
		cbx_command_fail(c, &err);
		return;
	}
	if (c->pid == 0)
		c->early = sig;
	ask(c, CBX_INIT_KILL, sig);
}

void cbx_command_hang_up(struct cbx_command *c)
{
	cbx_feed_close(&c->feed, NULL);
	cbx_command_streams_resume(c);
	cbx_command_signal(c, SIGHUP);
}

static void end_by(struct cbx_command *c, int sig)
{
	if (c->state >= CBX_COMMAND_LEAVING || c->sent)
		return;
	cbx_command_signal(c, sig);
	c->sent = sig;
	if (c->state != CBX_COMMAND_ENDED)
		cbx_timer_set(c->timer, CBX_GRACE_MS);
}

void cbx_command_interrupt(struct cbx_command *c)
{
	c->interrupted |= c->state <= CBX_COMMAND_LEAVING;
	end_by(c, SIGINT);
}

void cbx_command_resize(struct cbx_command *c, uint16_t rows, uint16_t columns)
{
	c->size = CBX_INIT_SIZE(rows, columns);
	if (c->terminal)
		ask(c, CBX_INIT_RESIZE, (int64_t)c->size);
}

void cbx_command_timer(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_command *c = arg;

	if (c->state == CBX_COMMAND_WAITING) {
		cbx_command_begin(c);
	} else if (c->state == CBX_COMMAND_ENDED) {
		cbx_command_discard(c);
	} else if (c->state > CBX_COMMAND_LEAVING) {
		c->files_unknown |= c->state == CBX_COMMAND_LOOKING;
		end(c);
	} else if (c->state == CBX_COMMAND_LEAVING) {
		if (c->stalled)
			cbx_timer_set(c->timer, LEAVE_MS);
		else
			cbx_command_streams_end(c);
	} else if (c->sent) {
		cbx_command_signal(c, SIGKILL);
	} else {
		c->timed_out = true;
		end_by(c, SIGTERM);
	}
}

/* ---- its start ---- */

static void refused(struct cbx_command *c, int64_t value, uint64_t step)
{
	int code = value < 0 && value > -4096 ? (int)-value : EIO;
	const cJSON *first = cJSON_GetArrayItem(c->argv, 0);
	const char *what = cJSON_IsString(first) ? first->valuestring : "";
	struct cbx_err err;

	if (step == CBX_INIT_STEP_DIRECTORY)
		cbx_refuse(&err, "command_not_executable", code, "directory: \"%.300s\": %s; name one that is there",
			   c->directory ? c->directory : "/workspace", strerror(code));
	else if (step == CBX_INIT_STEP_TERMINAL)
		cbx_refuse(&err, "no_terminal", code,
			   "terminal: the session has none to give: %s; up to %d are open at once, and none in the "
			   "profile strict",
			   strerror(code), CBX_TERMINALS);
	else if (step == CBX_INIT_STEP_PROCESS)
		cbx_refuse(&err, "too_many_commands", code,
			   "no process can be started in session %s: %s; end some that run", c->all->id,
			   strerror(code));
	else if (code == ENOENT)
		cbx_refuse(&err, "command_not_found", code,
			   "\"%.300s\": not found in the session; give a program of its image, or its path", what);
	else
		cbx_refuse(&err, "command_not_executable", code, "\"%.300s\": cannot be executed: %s", what,
			   strerror(code));
	c->refused = true;
	cbx_command_fail(c, &err);
}

static void runs(struct cbx_command *c)
{
	c->state = CBX_COMMAND_RUNNING;
	c->began_ms = cbx_now_ms();
	if (!c->sent && c->timeout_ms)
		cbx_timer_set(c->timer, c->timeout_ms);
	if (c->status_known)
		leave(c);
	c->all->up->news(c->all);
}

/* Answers SPAWN and GO. */
static void went(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		 const struct cbx_err *fault)
{
	struct cbx_command *c = arg;
	bool go = c->state == CBX_COMMAND_GOING;

	c->asked--;
	c->all->up->news(c->all);
	if (c->state == CBX_COMMAND_ENDED)
		return;
	if (fault) {
		cbx_command_fail(c, fault);
	} else if (go ? h->value != 0 && !c->status_known : h->value <= 0 || h->value > INT32_MAX) {
		refused(c, h->value, h->arg);
	} else if (go) {
		runs(c);
	} else {
		c->pid = h->value;
		if (cbx_group_on(c->all->box)) {
			c->state = CBX_COMMAND_HELD;
			cbx_link_move(c->all->box);
		} else {
			runs(c);
		}
		if (c->early)
			ask(c, CBX_INIT_KILL, c->early);
	}
}

void cbx_command_limited(struct cbx_command *c, const struct cbx_err *fault)
{
	struct cbx_init_header h = { .type = CBX_INIT_GO, .arg = (uint64_t)c->pid };
	struct cbx_err err;

	if (c->state != CBX_COMMAND_HELD)
		return;
	if (fault) {
		ask(c, CBX_INIT_KILL, SIGKILL);
		cbx_command_fail(c, fault);
	} else if (cbx_init_ask(c->all->box, &h, NULL, 0, NULL, 0, NULL, 0, true, went, c, &err) < 0) {
		cbx_command_fail(c, &err);
	} else {
		c->asked++;
		c->state = CBX_COMMAND_GOING;
	}
}

void cbx_command_begin(struct cbx_command *c)
{
	struct cbx_init_header h = { .type = CBX_INIT_SPAWN,
				     .arg = c->size | (uint64_t)cJSON_GetArraySize(c->argv) << CBX_INIT_WORDS };
	int fds[3] = { -1, -1, -1 };
	struct cbx_err err;
	size_t n;
	int r;

	if (c->tells_files && !cbx_files_settled(c->all->box)) {
		cbx_timer_set(c->timer, SETTLE_MS); /* or the files of the cell before it would be its own, too */
		return;
	}
	r = cbx_group_thaw(c->all->box, &err);
	(*c->all->together)++;
	c->state = CBX_COMMAND_ASKED;
	c->began_ms = cbx_now_ms();
	c->since_ns = cbx_wall_ns(CLOCK_REALTIME_COARSE);
	if (r >= 0)
		r = cbx_command_streams_open(c, fds, &n, &err);
	if (r < 0) {
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			cbx_close_p(&fds[i]);
		cbx_command_fail(c, &err);
		return;
	}
	h.value = (c->terminal ? CBX_INIT_SPAWN_TERMINAL : 0) | (c->anywhere ? CBX_INIT_SPAWN_ANYWHERE : 0) |
		  (cbx_group_on(c->all->box) ? CBX_INIT_SPAWN_HELD : 0);
	c->all->up->began(c->all);
	r = cbx_init_ask(c->all->box, &h, c->request.data, c->request.len, NULL, 0, fds, n, false, went, c, &err);
	cbx_buf_release(&c->request);
	if (r < 0)
		cbx_command_fail(c, &err);
	else
		c->asked++;
}
