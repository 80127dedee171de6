/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one execution, from its making to its end. Whatever ends it calls cbx_execution_end(). What ran
 * is then over for its interpreter; its own end waits, shortly, until the file of its output is written and init has
 * said which files have changed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/timer.h"
#include "box/box.h"
#include "execution/internal.h"
#include "execution/spill.h"
#include "interp/input.h"

const char *cbx_status_name(enum cbx_status status)
{
	static const char *const names[] = {
		[CBX_QUEUED] = "queued",       [CBX_RUNNING] = "running", [CBX_OK] = "ok",
		[CBX_ERROR] = "error",	       [CBX_TIMEOUT] = "timeout", [CBX_KILLED] = "killed",
		[CBX_CANCELLED] = "cancelled",
	};

	return names[status];
}

/* What its frame has beside the code; NULL: nothing. */
static cJSON *program(const struct cbx_cell_spec *cell)
{
	cJSON *o = cbx_json_new_obj();

	if (cell->input)
		cbx_json_set_bool(o, "input", true);
	if (cell->asks)
		cbx_json_set_bool(o, "asks", true);
	if (cell->argv)
		cbx_json_set(o, "argv", cJSON_Duplicate(cell->argv, 1));
	cbx_json_set_str(o, "file", cell->file);
	cbx_json_set_str(o, "dialect", cell->dialect);
	if (cell->last)
		cbx_json_set_bool(o, "last", true);
	if (cell->rules)
		cbx_json_set(o, "rules", cJSON_Duplicate(cell->rules, 1));
	if (o->child)
		return o;
	cJSON_Delete(o);
	return NULL;
}

/* Its time limit. Somebody who asked for none is not told that the policy has one. */
static void set_limit(struct cbx_execution *x, const struct cbx_cell_spec *cell)
{
	const struct cbx_cells_terms *terms = &x->cells->terms;
	uint64_t wanted = cell->unlimited ? terms->timeout_max_ms : cell->timeout_ms;

	x->timeout_ms = wanted ? wanted : terms->timeout_ms;
	if (x->timeout_ms <= terms->timeout_max_ms)
		return;
	x->timeout_ms = terms->timeout_max_ms;
	cbx_buf_addf(&x->note, "The policy lowered the time limit to %g s. ", (double)x->timeout_ms / 1000);
}

void cbx_execution_times(const struct cbx_execution *x, uint64_t *ret_asked, uint64_t *ret_ended)
{
	*ret_asked = x->asked_wall_ms;
	*ret_ended = x->status > CBX_RUNNING ? x->asked_wall_ms + (x->end_ms - x->asked_ms) : 0;
}

void cbx_execution_use(const struct cbx_execution *x, struct cbx_execution_use *ret)
{
	*ret = (struct cbx_execution_use){ .cpu_us = x->usage.cpu_us, .memory_peak = x->usage.peak };
	if (x->start_ms)
		ret->wait_ms = x->start_ms - x->asked_ms;
	if (x->start_ms && x->end_ms)
		ret->run_ms = x->end_ms - x->start_ms;
}

const char *cbx_execution_refusal(const struct cbx_execution *x)
{
	return x->refused && x->status == CBX_ERROR ? x->error_value : NULL;
}

const char *cbx_execution_head(const struct cbx_execution *x)
{
	return x->head;
}

struct cbx_execution *cbx_execution_new(struct cbx_seat *seat, const struct cbx_cell_spec *cell)
{
	struct cbx_execution *x = cbx_xcalloc(1, sizeof(*x));
	struct cbx_cells *c = seat->cells;

	x->cells = c;
	x->seat = seat;
	x->id = c->next_id++;
	x->status = CBX_QUEUED;
	x->asked_ms = cbx_now_ms();
	x->asked_wall_ms = cbx_wall_ms();
	x->state_kept = true;
	x->code = cbx_xstrdup(cell->code);
	x->code_bytes = strlen(x->code);
	x->dialect = cell->dialect ? cbx_xstrdup(cell->dialect) : NULL;
	memccpy(x->head, cell->file ? cell->file : cell->code, '\0', CBX_CODE_HEAD);
	x->program = program(cell);
	x->streamed = cell->streamed;
	x->wants_input = cell->input || cell->asks;
	x->asks = cell->asks;
	x->link_s = cell->link_s;
	x->store = cell->store ? cJSON_Duplicate(cell->store, 1) : NULL;
	x->ruled = cell->rules;
	x->file = cell->file ? cbx_xstrdup(cell->file) : NULL;
	x->as_program = cell->file || cell->last;
	set_limit(x, cell);
	x->displays = cbx_json_new_arr();
	x->output.head_max = CBX_OUTPUT_HEAD;
	x->output.tail_max = CBX_OUTPUT_TAIL;
	TAILQ_INIT(&x->watchers);
	return x;
}

/* ---- the files that it changed ---- */

static void changes_known(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_execution *x = cbx_container_of(op, struct cbx_execution, changes);

	struct cbx_cells *c = x->cells;

	cbx_changes_read(x, reply, err);
	if (x->files && x->finishing && !c->closed && !x->overdue && c->up->changed && c->up->changed(c, x)) {
		x->keeping = true;
		cbx_timer_set(c->timer, CBX_ARTIFACTS_WAIT_MS);
	}
	cbx_execution_end(x, x->status);
}

uint32_t cbx_execution_link_s(const struct cbx_execution *x)
{
	return x->link_s;
}

const cJSON *cbx_execution_store(const struct cbx_execution *x)
{
	return x->store;
}

void cbx_execution_forget_store(struct cbx_execution *x)
{
	cbx_json_wipe(take_ptr(&x->store));
}

cJSON *cbx_execution_files_open(struct cbx_execution *x)
{
	return x->files;
}

void cbx_execution_files_kept(struct cbx_execution *x)
{
	x->keeping = false;
	x->files_bytes += (size_t)cJSON_GetArraySize(x->files) * 600;
	if (x->finishing)
		cbx_execution_end(x, x->status);
}

static void ask_changes(struct cbx_execution *x)
{
	struct cbx_err err;

	x->changes = (struct cbx_file_op){ .op.ops = &x->ops, .done = changes_known };
	x->files_unknown = cbx_file_changed(x->cells->box, x->since_ns, &x->changes, &err) < 0;
}

static void leave_changes(struct cbx_execution *x)
{
	if (!cbx_op_pending(&x->changes.op))
		return;
	cbx_op_cancel(&x->changes.op);
	x->files_unknown = true;
}

/* ---- the end ---- */

static void count_use(struct cbx_execution *x)
{
	struct cbx_box *box = x->cells->box;
	struct cbx_cgroup_usage use;
	bool refused;

	if (!cbx_group_end(box, &x->before, &use, &refused))
		return;
	x->usage = (struct cbx_cell_usage){
		.source = "cgroup",
		.cpu_us = use.cpu_us,
		.has_memory = true,
		.memory = use.memory,
		.peak = use.peak,
		.peak_of = cbx_cgroup_peak_of(&box->group),
		.has_io = use.has_io,
		.io_read = use.io_read,
		.io_written = use.io_written,
	};
	if (refused)
		cbx_buf_addf(&x->note, "New processes or threads were refused: the session's limit of %u was reached. ",
			     box->limits.processes);
}

/* It runs no more. False: that has happened before, since whoever heard its last words closed the session. */
static bool stop_running(struct cbx_execution *x, enum cbx_status status)
{
	cbx_apply_flush(x);
	if (x->status != CBX_RUNNING)
		return false;
	event_del(x->cells->timer);
	count_use(x);
	x->finishing = true;
	x->status = status;
	x->end_ms = cbx_now_ms();
	if (x->cells->closed)
		return true;
	cbx_timer_set(x->cells->timer, CBX_SPILL_WAIT_MS);
	if (!x->no_files)
		ask_changes(x);
	return true;
}

static void leave_queue(struct cbx_execution *x, enum cbx_status status)
{
	TAILQ_REMOVE(&x->cells->queue, x, entry);
	x->cells->nqueued--;
	free(take_ptr(&x->code));
	x->status = status;
	x->start_ms = x->end_ms = cbx_now_ms();
}

static void leave_interpreter(struct cbx_execution *x)
{
	struct cbx_cells *c = x->cells;

	x->finishing = false;
	c->running = NULL;
	event_del(c->timer);
	if (x->feed) {
		struct cbx_err err;

		cbx_refuse(&err, "no_input", EPIPE, "the program has ended; start another");
		x->unread = cbx_feed_close(&x->feed, &err);
	}
	cbx_interp_rest(&x->seat->interp);
	leave_changes(x);
	cbx_output_trim(&x->output);
}

static void spill_idle(void *arg)
{
	struct cbx_execution *x = arg;

	if (x->finishing)
		cbx_execution_end(x, x->status);
}

static bool waits(struct cbx_execution *x)
{
	return cbx_op_pending(&x->changes.op) || x->keeping || (x->spill && !cbx_spill_idle(x->spill, spill_idle, x));
}

void cbx_execution_end(struct cbx_execution *x, enum cbx_status status)
{
	struct cbx_cells *c = x->cells;
	bool ran = x->status != CBX_QUEUED;

	if (!ran)
		leave_queue(x, status);
	else if (!x->finishing && !stop_running(x, status))
		return;
	else if (!c->closed && !x->overdue && waits(x))
		return;
	else
		leave_interpreter(x);
	TAILQ_INSERT_TAIL(&c->ended, x, entry);
	c->nended++;
	c->undelivered++;
	c->up->ended(c, x, ran, ran && !c->closed);
}

void cbx_execution_free(struct cbx_execution *x)
{
	cbx_execution_forget_store(x); /* of one that has not ended */
	cbx_keep_forget(x);
	free(x->code);
	free(x->dialect);
	cJSON_Delete(x->program);
	free(x->file);
	cbx_watch_free(x);
	leave_changes(x);
	cJSON_Delete(x->files);
	if (x->spill)
		cbx_spill_free(x->spill);
	cbx_output_release(&x->output);
	cJSON_Delete(x->displays);
	free(x->result);
	free(x->error_name);
	free(x->error_value);
	free(x->error_traceback);
	cbx_buf_release(&x->message);
	cbx_buf_release(&x->note);
	free(x->hold);
	free(x);
}

/* ---- looking ---- */

uint64_t cbx_execution_id(const struct cbx_execution *x)
{
	return x->id;
}

struct cbx_cells *cbx_execution_cells(const struct cbx_execution *x)
{
	return x->cells;
}

const cJSON *cbx_execution_files(const struct cbx_execution *x)
{
	return x->files;
}

enum cbx_status cbx_execution_status(const struct cbx_execution *x)
{
	return x->finishing ? CBX_RUNNING : x->status;
}

bool cbx_execution_output(const struct cbx_execution *x, uint64_t from, size_t max, struct cbx_buf *out,
			  struct cbx_output_extent *ret)
{
	*ret = (struct cbx_output_extent){ .total = cbx_output_total(&x->output) };
	ret->kept = ret->total - x->output.tail.len;
	if (x->spill)
		cbx_spill_extent(x->spill, ret);
	return from >= ret->total || cbx_output_at(&x->output, from, max, out);
}

const cJSON *cbx_execution_displays(const struct cbx_execution *x)
{
	return x->displays;
}
