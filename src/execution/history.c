/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a session has run, for an export of it. An execution keeps its code when its policy says
 * so; when it is forgotten, as newer ones have ended, it moves into the list `past` of its cells as it is, and the
 * oldest there are freed for what does not fit into the policy's "history". So a cell costs nothing for it while it
 * runs: everything here happens when one is forgotten, or asked for.
 *
 * The history of all sessions is within the memory of ended executions (keep.c), and is the first to go there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "execution/internal.h"
#include "execution/spill.h"
#include "interp/bundle.h"

void cbx_history_add(struct cbx_execution *x)
{
	struct cbx_cells *c = x->cells;
	uint64_t max = c->terms.history;

	if (!x->code || !max) {
		c->forgotten += x->code_bytes && !x->stripped;
		cbx_execution_free(x);
		return;
	}
	cbx_keep_past(x);
	while (c->past_bytes > max)
		cbx_keep_drop(TAILQ_FIRST(&c->past));
}

/* ---- what an execution printed and showed, in order ---- */

struct outputs {
	const struct cbx_execution *x;
	cJSON *list;
	const cJSON *next; /* display */
	uint64_t done;	   /* bytes of what was printed */
	bool whole;	   /* none of them was omitted, or the gap has been shown */
};

static void add_text(struct outputs *o, enum cbx_stream stream, const char *p, size_t n)
{
	cJSON *one;

	if (!n)
		return;
	one = cbx_json_new_obj();
	cbx_json_set_str(one, "stream", stream == CBX_STDERR ? "stderr" : "stdout");
	cbx_json_set_strn(one, "text", p, n);
	cbx_json_push(o->list, one);
}

/* What was shown before this number of bytes was printed. */
static void add_displays(struct outputs *o, uint64_t until)
{
	for (; o->next && cbx_bundle_place(o->next) <= until; o->next = o->next->next) {
		cJSON *one = cJSON_Duplicate(o->next, 1);

		cJSON_DeleteItemFromObjectCaseSensitive(one, "at");
		cbx_json_push(o->list, one);
	}
}

static void add_gap(struct outputs *o)
{
	uint64_t omitted = cbx_output_omitted(&o->x->output);
	char count[32], text[200];

	cbx_format_count(omitted, count);
	snprintf(text, sizeof(text), "\n[… %s bytes omitted%s%s …]\n", count, o->x->spill ? "; " : "",
		 o->x->spill ? cbx_spill_where(o->x->spill) : "");
	add_text(o, CBX_STDOUT, text, strlen(text));
	o->done += omitted;
	o->whole = true;
}

static void add_run(void *arg, enum cbx_stream stream, const char *p, size_t n)
{
	struct outputs *o = arg;
	uint64_t end;

	if (!o->whole && o->done == o->x->output.head.len)
		add_gap(o);
	end = o->done + n;
	while (o->done < end) {
		uint64_t at = o->next ? cbx_bundle_place(o->next) : end;
		size_t part = (size_t)((at < end ? at : end) - o->done);

		if (at > o->done) {
			add_text(o, stream, p, part);
			p += part;
			o->done += part;
		}
		add_displays(o, o->done);
	}
}

static cJSON *outputs_of(const struct cbx_execution *x)
{
	struct outputs o = { .x = x, .list = cbx_json_new_arr(), .next = x->displays ? x->displays->child : NULL };

	o.whole = !cbx_output_omitted(&x->output);
	add_displays(&o, 0);
	cbx_output_each(&x->output, add_run, &o);
	add_displays(&o, UINT64_MAX);
	return o.list;
}

cJSON *cbx_execution_entry(const struct cbx_execution *x)
{
	static const char *const others[] = { "session_id",	"stdout", "stderr", "output", "displays",
					      "display_places", "result", "usage",  "files",  "files_omitted" };
	cJSON *o = cbx_execution_to_json(x, false);
	const struct cbx_runtime *rt = x->seat->runtime;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		cJSON_DeleteItemFromObjectCaseSensitive(o, others[i]);
	cbx_json_set_str(o, "language", x->dialect ? x->dialect : rt ? rt->language : NULL);
	cbx_json_set_str(o, "code", x->code);
	cbx_json_set_str(o, "file", x->file);
	cbx_json_set_u64(o, "asked_ms", x->asked_wall_ms);
	cbx_json_set(o, "outputs", outputs_of(x));
	return o;
}

/* ---- a page ---- */

static int by_id(const void *a, const void *b)
{
	const struct cbx_execution *const *x = a, *const *y = b;

	return (*x)->id < (*y)->id ? -1 : (*x)->id > (*y)->id;
}

static size_t collect(const struct cbx_executions *list, uint64_t after, const struct cbx_execution **ret)
{
	const struct cbx_execution *x;
	size_t n = 0;

	TAILQ_FOREACH(x, list, entry) {
		if (x->id <= after || !x->code)
			continue;
		if (ret)
			ret[n] = x;
		n++;
	}
	return n;
}

void cbx_cells_history(struct cbx_cells *c, uint64_t after, cJSON *ret)
{
	size_t n = collect(&c->past, after, NULL) + collect(&c->ended, after, NULL), i, bytes = 0;
	const struct cbx_execution *open = c->running ? c->running : TAILQ_FIRST(&c->queue);
	_cleanup_free_ const struct cbx_execution **all = cbx_xcalloc(n + 1, sizeof(*all));
	cJSON *list = cbx_json_new_arr();

	n = collect(&c->past, after, all);
	n += collect(&c->ended, after, all + n);
	qsort(all, n, sizeof(*all), by_id);
	for (i = 0; i < n && (i == 0 || bytes + cbx_execution_memory(all[i]) <= CBX_HISTORY_PAGE); i++) {
		bytes += cbx_execution_memory(all[i]);
		cbx_json_push(list, cbx_execution_entry(all[i]));
	}
	cbx_json_set(ret, "cells", list);
	cbx_json_set_bool(ret, "more", i < n);
	cbx_json_set_u64(ret, "forgotten", c->forgotten);
	if (open)
		cbx_json_set_u64(ret, "next", open->id);
}
