/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what ended executions keep in memory is counted for all tenants together. When it is too much,
 * the tenant that has most of it gives: first its executions that are there for an export only (history.c), then the
 * oldest lose their output, what they showed and their tracebacks; what happened to them stays. So no tenant can take
 * from another what is within that one's share, the whole divided by those who have something; and one that is alone
 * has all of it.
 *
 * A hold is a promise to keep an execution after its end, for a client that is to come back for it. The key makes its
 * name one that nobody can guess, though sessions may have names that people choose. A hold keeps nothing from being
 * closed: it ends with its session. When ended executions of a tenant take up too much memory, those that are held go
 * last, but they go.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "execution/internal.h"

#define DISPLAY_NODES KIB(4) /* of what was shown, beside its values: two objects, with 16 members at most each */

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) : 0;
}

size_t cbx_execution_memory(const struct cbx_execution *x)
{
	return sizeof(*x) + cbx_output_memory(&x->output) + x->display_bytes + x->ndisplays * DISPLAY_NODES +
	       x->files_bytes + (x->code ? x->code_bytes : 0) + text_bytes(x->result) + text_bytes(x->error_name) +
	       text_bytes(x->error_value) + text_bytes(x->error_traceback) + x->message.len + x->note.len;
}

static struct cbx_kept *kept_of(struct cbx_cells *c)
{
	struct cbx_keeping *all = c->keeping;
	struct cbx_kept *k;

	if (c->kept)
		return c->kept;
	LIST_FOREACH(k, &all->tenants, entry)
		if (strcmp(k->tenant, c->tenant) == 0)
			break;
	if (!k) {
		k = cbx_xcalloc(1, sizeof(*k));
		k->all = all;
		snprintf(k->tenant, sizeof(k->tenant), "%s", c->tenant);
		TAILQ_INIT(&k->list);
		TAILQ_INIT(&k->held);
		TAILQ_INIT(&k->past);
		LIST_INSERT_HEAD(&all->tenants, k, entry);
		all->ntenants++;
	}
	k->sessions++;
	return c->kept = k;
}

void cbx_keep_end(struct cbx_cells *c)
{
	struct cbx_kept *k = take_ptr(&c->kept);

	if (!k || --k->sessions)
		return;
	LIST_REMOVE(k, entry);
	k->all->ntenants--;
	free(k);
}

static struct cbx_executions *list_of(const struct cbx_execution *x)
{
	struct cbx_kept *k = x->cells->kept;

	return x->past ? &k->past : x->later ? &k->held : &k->list;
}

static void count(struct cbx_execution *x)
{
	struct cbx_kept *k = kept_of(x->cells);

	x->kept = cbx_execution_memory(x);
	k->bytes += x->kept;
	k->all->bytes += x->kept;
}

/* It has nothing to lose any more. */
static void leave_list(struct cbx_execution *x)
{
	struct cbx_kept *k = x->cells->kept;

	if (!x->kept)
		return;
	if (x->past || !x->stripped)
		TAILQ_REMOVE(list_of(x), x, kept_entry);
	k->bytes -= x->kept;
	k->all->bytes -= x->kept;
	x->kept = 0;
}

static void strip(struct cbx_execution *x)
{
	leave_list(x);
	x->lost = x->ndisplays || x->result || x->error_traceback || cbx_output_total(&x->output);
	cbx_output_drop(&x->output);
	cJSON_Delete(x->displays);
	x->displays = cbx_json_new_arr();
	x->ndisplays = x->display_bytes = 0;
	free(take_ptr(&x->result));
	free(take_ptr(&x->error_traceback));
	x->cells->forgotten += x->code != NULL;
	free(take_ptr(&x->code));
	x->stripped = true;
	count(x);
}

void cbx_keep_drop(struct cbx_execution *x)
{
	struct cbx_cells *c = x->cells;

	TAILQ_REMOVE(&c->past, x, entry);
	c->past_bytes -= x->kept;
	c->forgotten++;
	cbx_execution_free(x);
}

/* Of those who have something to lose, and more than their share; NULL: nobody has. */
static struct cbx_kept *who_has_most(const struct cbx_keeping *all)
{
	struct cbx_kept *k, *most = NULL;

	LIST_FOREACH(k, &all->tenants, entry)
		if ((!TAILQ_EMPTY(&k->past) || !TAILQ_EMPTY(&k->list) || !TAILQ_EMPTY(&k->held)) &&
		    k->bytes > (most ? most->bytes : CBX_OUTPUT_TOTAL_MAX / all->ntenants))
			most = k;
	return most;
}

/* The oldest; of those that are held, none before the others. */
static struct cbx_execution *first_to_lose(struct cbx_kept *k)
{
	struct cbx_execution *x = TAILQ_FIRST(&k->held);

	uint64_t now = cbx_now_ms();

	if (x && !cbx_hold_counts(x, now))
		return x;
	while ((x = TAILQ_FIRST(&k->list)) && cbx_hold_counts(x, now)) {
		TAILQ_REMOVE(&k->list, x, kept_entry);
		TAILQ_INSERT_TAIL(&k->held, x, kept_entry);
		x->later = true;
	}
	return x ? x : TAILQ_FIRST(&k->held);
}

void cbx_keep(struct cbx_execution *x)
{
	struct cbx_keeping *all = x->cells->keeping;
	struct cbx_kept *k;

	count(x);
	TAILQ_INSERT_TAIL(&x->cells->kept->list, x, kept_entry);
	while (all->bytes > CBX_OUTPUT_TOTAL_MAX && (k = who_has_most(all))) {
		if (!TAILQ_EMPTY(&k->past))
			cbx_keep_drop(TAILQ_FIRST(&k->past));
		else
			strip(first_to_lose(k));
	}
}

void cbx_keep_past(struct cbx_execution *x)
{
	struct cbx_cells *c = x->cells;

	TAILQ_REMOVE(list_of(x), x, kept_entry);
	TAILQ_INSERT_TAIL(&c->kept->past, x, kept_entry);
	TAILQ_INSERT_TAIL(&c->past, x, entry);
	c->past_bytes += x->kept;
	x->past = true;
}

void cbx_keep_forget(struct cbx_execution *x)
{
	leave_list(x);
}

int cbx_execution_lost(const struct cbx_execution *x, struct cbx_err *err)
{
	if (!x->lost)
		return 0;
	return cbx_refuse(err, "execution_forgotten", ENOENT,
			  "Its output and what it showed are no longer kept: the ended cells of all sessions keep %zu "
			  "MiB together, each tenant a share, and newer ones needed them; run it again",
			  CBX_OUTPUT_TOTAL_MAX >> 20);
}

/* ---- holds ---- */

static size_t held(const struct cbx_cells *c)
{
	const struct cbx_execution *x;
	uint64_t now = cbx_now_ms();
	size_t n = 0;

	TAILQ_FOREACH(x, &c->ended, entry)
		n += cbx_hold_counts(x, now);
	TAILQ_FOREACH(x, &c->queue, entry)
		n += cbx_hold_counts(x, now);
	return n + (c->running && cbx_hold_counts(c->running, now));
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
		return cbx_refuse(
			err, "too_many_holds", EBUSY,
			"%d executions of session %s are kept for later already; try again when some have expired",
			CBX_HOLDS_MAX, x->cells->id);
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

bool cbx_hold_counts(const struct cbx_execution *x, uint64_t now)
{
	return x->hold && (x->status <= CBX_RUNNING || now < x->end_ms + hold_ms(x));
}
