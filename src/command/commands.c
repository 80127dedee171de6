/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the commands of a session are one list. They wait until the session is ready, since an
 * interpreter that comes from a zygote is placed only where nothing has run. Those that have ended are kept for a later
 * look, some of them. cbx_commands_deliver() reports all news of them, from the session's own event.
 */
#include "command/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/queue.h"
#include "base/timer.h"

void cbx_commands_init(struct cbx_commands *all, struct event_base *base, struct cbx_box *box,
		       const struct cbx_commands_events *up)
{
	all->up = up;
	all->base = base;
	all->box = box;
	TAILQ_INIT(&all->list);
}

static void command_free(struct cbx_command *c)
{
	struct cbx_command_watcher *w;

	while ((w = LIST_FIRST(&c->watchers))) {
		LIST_REMOVE(w, entry);
		free(w);
	}
	cbx_ops_cancel(&c->ops);
	if (c->keep)
		c->all->up->leave(c->keep);
	cJSON_Delete(c->changes.files);
	cbx_command_streams_close(c);
	cbx_output_release(&c->kept);
	cbx_buf_release(&c->request);
	cbx_event_free_p(&c->timer);
	cJSON_Delete(c->argv);
	free(c->directory);
	free(c);
}

void cbx_commands_free(struct cbx_commands *all)
{
	struct cbx_command *c;

	while ((c = TAILQ_FIRST(&all->list))) {
		TAILQ_REMOVE(&all->list, c, entry);
		command_free(c);
	}
}

/* ---- making them ---- */

static int check_room(const struct cbx_commands *all, struct cbx_err *err)
{
	if (all->running >= CBX_COMMANDS_MAX)
		return cbx_refuse(err, "too_many_commands", EAGAIN,
				  "%d commands of session %s run already; wait for one, or end some", CBX_COMMANDS_MAX,
				  all->id);
	if (*all->together >= CBX_COMMANDS_TOGETHER)
		return cbx_refuse(err, "too_many_commands", EAGAIN,
				  "%d commands of all sessions run already; try again later", CBX_COMMANDS_TOGETHER);
	return 0;
}

int cbx_commands_add(struct cbx_commands *all, const struct cbx_command_spec *spec, struct cbx_command_op *op,
		     struct cbx_command **ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf request = { 0 };
	static const size_t kept[] = { [CBX_UNREAD_CUT] = CBX_COMMAND_TAIL,
				       [CBX_UNREAD_WAITS] = CBX_COMMAND_UNREAD_MOST,
				       [CBX_UNREAD_OLDEST] = CBX_COMMAND_UNREAD };
	struct cbx_command *c;
	int r = check_room(all, err);

	if (r >= 0)
		r = cbx_command_words(all, spec, &request, err);
	if (r < 0)
		return r;
	c = cbx_xcalloc(1, sizeof(*c));
	c->all = all;
	c->timer = event_new(all->base, -1, 0, cbx_command_timer, c);
	if (!c->timer) {
		free(c);
		return cbx_fail(err, ENOMEM, "watch a command");
	}
	c->argv = cJSON_Duplicate(spec->argv, 1);
	c->directory = spec->directory ? cbx_xstrdup(spec->directory) : NULL;
	c->request = request;
	request = (struct cbx_buf){ 0 };
	c->anywhere = !spec->directory;
	c->terminal = spec->terminal;
	c->input = spec->input;
	c->tells_files = spec->files;
	c->size = spec->terminal ? CBX_INIT_SIZE(spec->rows, spec->columns) : 0;
	c->timeout_ms = spec->timeout_ms;
	c->pipe[CBX_STDOUT] = c->pipe[CBX_STDERR] = -1;
	c->held = true;
	c->unread = spec->unread;
	c->unconfirmed = spec->unread != CBX_UNREAD_CUT;
	c->kept.head_max = spec->unread == CBX_UNREAD_CUT ? CBX_COMMAND_HEAD : 0;
	c->kept.tail_max = kept[spec->unread];
	LIST_INIT(&c->watchers);
	c->id = (*all->next_id)++;
	TAILQ_INSERT_TAIL(&all->list, c, entry);
	all->running++;
	if (op)
		cbx_command_watch(c, op, err); /* the first */
	if (all->ready)
		cbx_command_begin(c);
	else
		all->up->news(all); /* a session that was made ahead of time is ready, and has not said so */
	*ret = c;
	return 0;
}

void cbx_commands_ready(struct cbx_commands *all)
{
	struct cbx_command *c;

	if (all->ready || all->closed)
		return;
	all->ready = true;
	TAILQ_FOREACH(c, &all->list, entry)
		if (c->state == CBX_COMMAND_WAITING)
			cbx_command_begin(c);
}

int cbx_commands_find(struct cbx_commands *all, uint64_t id, struct cbx_command **ret, struct cbx_err *err)
{
	struct cbx_command *c;

	TAILQ_FOREACH(c, &all->list, entry) {
		if (c->id == id) {
			*ret = c;
			return 0;
		}
	}
	return cbx_refuse(err, "execution_not_found", ENOENT,
			  "session %s has no command %llu (of those that have ended the last %d are kept); pass the "
			  "number of one that runs",
			  all->id, (unsigned long long)id, CBX_COMMANDS_ENDED);
}

/* ---- telling of them ---- */

int cbx_command_watch(struct cbx_command *c, struct cbx_command_op *op, struct cbx_err *err)
{
	struct cbx_command_watcher *w, *next;
	bool attaches = op->on_output || op->on_news;

	if (op->on_news && c->unread == CBX_UNREAD_CUT)
		return cbx_refuse(err, "not_kept", EBUSY,
				  "command %llu: what it prints goes to the client that started it; start it with its "
				  "output kept (unread) to read it from elsewhere",
				  (unsigned long long)c->id);
	LIST_FOREACH_SAFE(w, &c->watchers, entry, next)
	{
		if (w->op)
			continue;
		LIST_REMOVE(w, entry);
		free(w);
		c->nwatchers--;
	}
	if (attaches ? c->attached && c->replaced : c->nwatchers >= CBX_WATCHERS_MAX)
		return cbx_refuse(err, "too_many_watchers", EBUSY, "too many look at command %llu; try again later",
				  (unsigned long long)c->id);
	op->command = c;
	if (attaches) {
		struct cbx_op *before = cbx_op_take(&c->attached);

		if (before)
			cbx_op_begin(before, &c->replaced);
		c->held = true;
		c->replayed = false;
		c->fresh = true;
		cbx_op_begin(&op->op, &c->attached);
		cbx_command_streams_resume(c);
	} else {
		w = cbx_xcalloc(1, sizeof(*w));
		cbx_op_begin(&op->op, &w->op);
		LIST_INSERT_HEAD(&c->watchers, w, entry);
		c->nwatchers++;
	}
	if (c->delivered) { /* once more */
		c->delivered = false;
		c->all->undelivered++;
	}
	c->all->up->news(c->all);
	return 0;
}

static bool has_run(const struct cbx_command *c)
{
	return c->state >= CBX_COMMAND_RUNNING && !c->failure.code;
}

static void tell_replaced(struct cbx_command *c)
{
	struct cbx_command_op *op = cbx_op_take(&c->replaced);
	struct cbx_err err;

	if (!op)
		return;
	cbx_refuse(&err, "taken_over", EBUSY, "command %llu is attached elsewhere now; attach again to take it back",
		   (unsigned long long)c->id);
	op->done(op, c, &err);
}

static void tell_watchers(struct cbx_command *c, bool over)
{
	const struct cbx_err *failure = c->failure.code ? &c->failure : NULL;
	struct cbx_command_watcher *w, *next;

	LIST_FOREACH_SAFE(w, &c->watchers, entry, next)
	{
		struct cbx_command_op *op = (struct cbx_command_op *)w->op;

		if (op && has_run(c) && !w->started && op->on_start)
			op->on_start(op, c, 0);
		w->started = true;
		if (!over)
			continue;
		op = cbx_op_take(&w->op);
		LIST_REMOVE(w, entry);
		free(w);
		c->nwatchers--;
		if (op)
			op->done(op, c, failure);
	}
}

static void tell_news(struct cbx_command *c)
{
	struct cbx_command_op *op = (struct cbx_command_op *)c->attached;

	if (!op || !op->on_news || !c->replayed || !c->fresh)
		return;
	c->fresh = false;
	op->on_news(op, c);
}

/* No callback frees the command, or ends this loop. */
static void tell(struct cbx_command *c)
{
	const struct cbx_err *failure = c->failure.code ? &c->failure : NULL;
	bool over = c->state == CBX_COMMAND_ENDED;
	struct cbx_command_op *op;

	tell_replaced(c);
	if (has_run(c) && c->attached && !c->replayed)
		cbx_command_replay(c);
	if (has_run(c) && c->held) {
		c->held = false;
		cbx_command_streams_look(c);
	}
	tell_news(c);
	if (over && !c->delivered) {
		c->delivered = true;
		c->all->undelivered--;
	}
	if (has_run(c) || over)
		tell_watchers(c, over);
	if (over && (op = cbx_op_take(&c->attached)))
		op->done(op, c, failure);
}

/* Those that nobody asks init for any more, the oldest first. */
static void forget_old(struct cbx_commands *all)
{
	struct cbx_command *c, *next;

	TAILQ_FOREACH_SAFE(c, &all->list, entry, next) {
		if (all->ended <= CBX_COMMANDS_ENDED)
			return;
		if (c->state != CBX_COMMAND_ENDED || !c->delivered || c->asked || c->attached || c->replaced)
			continue;
		TAILQ_REMOVE(&all->list, c, entry);
		all->ended--;
		command_free(c);
	}
}

void cbx_commands_deliver(struct cbx_commands *all)
{
	struct cbx_command *c;

	TAILQ_FOREACH(c, &all->list, entry)
		tell(c);
	forget_old(all);
}

/* ---- what is heard of them ---- */

bool cbx_commands_exited(struct cbx_commands *all, int64_t pid, int status)
{
	struct cbx_command *c;

	TAILQ_FOREACH(c, &all->list, entry) {
		if (c->pid == pid && c->state < CBX_COMMAND_LEAVING && !c->status_known) {
			cbx_command_exited(c, status);
			return true;
		}
	}
	return false;
}

bool cbx_commands_oom(struct cbx_commands *all, int64_t pid, enum cbx_oom why)
{
	struct cbx_command *c;

	TAILQ_FOREACH(c, &all->list, entry) {
		if (c->pid == pid && c->state < CBX_COMMAND_ENDED) {
			c->oom = true;
			c->oom_why = why;
			return true;
		}
	}
	return false;
}

void cbx_commands_limited(struct cbx_commands *all, const struct cbx_err *err)
{
	struct cbx_command *c;

	TAILQ_FOREACH(c, &all->list, entry)
		cbx_command_limited(c, err);
}

void cbx_commands_close(struct cbx_commands *all, const struct cbx_err *why)
{
	struct cbx_command *c;

	all->closed = true;
	TAILQ_FOREACH(c, &all->list, entry)
		cbx_command_fail(c, why);
}

size_t cbx_commands_unread(const struct cbx_commands *all)
{
	const struct cbx_command *c;
	size_t n = 0;

	TAILQ_FOREACH(c, &all->list, entry)
		n += c->unconfirmed;
	return n;
}

bool cbx_commands_let_go(struct cbx_commands *all)
{
	struct cbx_command *c;

	TAILQ_FOREACH(c, &all->list, entry) {
		if (c->state == CBX_COMMAND_ENDED && c->unconfirmed && !c->attached) {
			cbx_command_discard(c);
			return true;
		}
	}
	return false;
}

bool cbx_commands_used(const struct cbx_commands *all)
{
	const struct cbx_command_watcher *w;
	const struct cbx_command *c;

	TAILQ_FOREACH(c, &all->list, entry) {
		if (c->state == CBX_COMMAND_ENDED)
			continue;
		if (c->attached)
			return true;
		LIST_FOREACH(w, &c->watchers, entry)
			if (w->op)
				return true;
	}
	return false;
}
