/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what ended executions keep in memory is counted for all sessions together. When it is too much,
 * the oldest lose their output and what they showed; what happened to them stays. Before these, those go that are there
 * for an export only (history.c).
 *
 * A hold is a promise to keep an execution after its end, for a client that was told to come back for it. The key makes
 * its name one that nobody can guess, though sessions may have names that people choose. A hold keeps nothing from
 * being closed: it ends with its session. When ended executions take up too much memory, those that are held go last,
 * but they go.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "execution/internal.h"

size_t cbx_execution_memory(const struct cbx_execution *x)
{
	return sizeof(*x) + cbx_output_memory(&x->output) + x->display_bytes + x->files_bytes +
	       (x->code ? x->code_bytes : 0);
}

/* It has nothing to lose any more. */
static void leave_list(struct cbx_execution *x)
{
	struct cbx_kept *kept = x->cells->kept;

	if (!x->kept)
		return;
	if (x->past)
		TAILQ_REMOVE(&kept->past, x, kept_entry);
	else if (!x->stripped)
		TAILQ_REMOVE(&kept->list, x, kept_entry);
	kept->bytes -= x->kept;
	x->kept = 0;
}

static void strip(struct cbx_execution *x)
{
	struct cbx_kept *kept = x->cells->kept;

	leave_list(x);
	cbx_output_drop(&x->output);
	cJSON_Delete(x->displays);
	x->displays = cbx_json_new_arr();
	x->ndisplays = x->display_bytes = 0;
	x->cells->forgotten += x->code != NULL;
	free(take_ptr(&x->code));
	x->stripped = true;
	x->kept = cbx_execution_memory(x);
	kept->bytes += x->kept;
}

void cbx_keep_drop(struct cbx_execution *x)
{
	struct cbx_cells *c = x->cells;

	TAILQ_REMOVE(&c->past, x, entry);
	c->past_bytes -= x->kept;
	c->forgotten++;
	cbx_execution_free(x);
}

void cbx_keep(struct cbx_execution *x)
{
	struct cbx_kept *kept = x->cells->kept;

	x->kept = cbx_execution_memory(x);
	kept->bytes += x->kept;
	TAILQ_INSERT_TAIL(&kept->list, x, kept_entry);
	while (kept->bytes > CBX_OUTPUT_TOTAL_MAX && !TAILQ_EMPTY(&kept->past))
		cbx_keep_drop(TAILQ_FIRST(&kept->past));
	while (kept->bytes > CBX_OUTPUT_TOTAL_MAX && !TAILQ_EMPTY(&kept->list))
		strip(TAILQ_FIRST(&kept->list));
}

void cbx_keep_past(struct cbx_execution *x)
{
	struct cbx_cells *c = x->cells;

	TAILQ_REMOVE(&c->kept->list, x, kept_entry);
	TAILQ_INSERT_TAIL(&c->kept->past, x, kept_entry);
	TAILQ_INSERT_TAIL(&c->past, x, entry);
	c->past_bytes += x->kept;
	x->past = true;
}

void cbx_keep_forget(struct cbx_execution *x)
{
	leave_list(x);
}

/* ---- holds ---- */

static size_t held(const struct cbx_cells *c)
{
	const struct cbx_execution *x;
	size_t n = 0;

	TAILQ_FOREACH(x, &c->ended, entry)
		n += cbx_hold_counts(x);
	TAILQ_FOREACH(x, &c->queue, entry)
		n += cbx_hold_counts(x);
	return n + (c->running && cbx_hold_counts(c->running));
}

/* The policy may say less. */
static uint64_t hold_ms(const struct cbx_execution *x)
{
	uint64_t ttl = x->cells->terms.results_ttl_ms;

	return ttl < CBX_HOLD_MS ? ttl : CBX_HOLD_MS;
}

int cbx_execution_hold(struct cbx_execution *x, struct cbx_err *err)
{
	if (x->hold)
		return 0;
	if (held(x->cells) >= CBX_HOLDS_MAX)
		return cbx_refuse(err, "too_many_holds", EBUSY,
				  "%d executions of session %s are kept for later already", CBX_HOLDS_MAX,
				  x->cells->id);
	x->hold = cbx_xcalloc(1, sizeof(*x->hold));
	cbx_random_name(x->hold->key, CBX_HOLD_KEY);
	x->hold->wall_ms = cbx_wall_ms();
	x->hold->clock_ms = cbx_now_ms();
	return 0;
}

bool cbx_execution_held(const struct cbx_execution *x, struct cbx_hold *ret)
{
	uint64_t age;

	if (!x->hold)
		return false;
	age = x->status > CBX_RUNNING && x->end_ms > x->hold->clock_ms ? x->end_ms - x->hold->clock_ms : 0;
	ret->key = x->hold->key;
	ret->created_ms = x->hold->wall_ms;
	ret->updated_ms = x->hold->wall_ms + age;
	ret->kept_ms = (x->status > CBX_RUNNING ? age : cbx_now_ms() - x->hold->clock_ms) + hold_ms(x);
	return true;
}

bool cbx_hold_counts(const struct cbx_execution *x)
{
	return x->hold && (x->status <= CBX_RUNNING || cbx_now_ms() < x->end_ms + hold_ms(x));
}
