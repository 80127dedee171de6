/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an execution has a list of watchers. Their callbacks may add and remove watchers, of this
 * execution, too: while any is being called, one that leaves is only marked, and freed when the outermost call is over.
 * A watcher that is added meanwhile hears of the next event first, since it comes at the end of the list and the walk
 * ends where the list ended when it began.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "session/internal.h"

int cbx_execution_watch(struct cbx_execution *x, const struct cbx_watch *watch, struct cbx_err *err)
{
	struct cbx_watcher *w;

	if (x->delivered)
		return cbx_refuse(err, "ended", EALREADY, "execution %llu has ended", (unsigned long long)x->id);
	if (x->nwatchers >= CBX_WATCHERS_MAX)
		return cbx_refuse(err, "too_many_watchers", EBUSY,
				  "%d calls wait for execution %llu already; wait until one has been answered",
				  CBX_WATCHERS_MAX, (unsigned long long)x->id);
	w = cbx_xcalloc(1, sizeof(*w));
	w->watch = *watch;
	TAILQ_INSERT_TAIL(&x->watchers, w, entry);
	x->nwatchers++;
	return 0;
}

static void sweep(struct cbx_execution *x)
{
	struct cbx_watcher *w, *next;

	if (x->calling)
		return;
	TAILQ_FOREACH_SAFE(w, &x->watchers, entry, next)
	{
		if (!w->off)
			continue;
		TAILQ_REMOVE(&x->watchers, w, entry);
		free(w);
	}
}

bool cbx_execution_unwatch(struct cbx_execution *x, const void *arg)
{
	struct cbx_watcher *w;

	TAILQ_FOREACH(w, &x->watchers, entry)
	if (w->watch.arg == arg && !w->off)
		break;
	if (!w)
		return false;
	w->off = true;
	x->nwatchers--;
	sweep(x);
	return true;
}

/* Call fn for those that are watchers now. */
static void each(struct cbx_execution *x, void (*fn)(struct cbx_execution *x, const struct cbx_watch *w, void *arg),
		 void *arg)
{
	struct cbx_watcher *last = TAILQ_LAST(&x->watchers, cbx_watchers), *w;

	if (!last)
		return;
	x->calling++;
	for (w = TAILQ_FIRST(&x->watchers);; w = TAILQ_NEXT(w, entry)) {
		if (!w->off)
			fn(x, &w->watch, arg);
		if (w == last)
			break;
	}
	x->calling--;
	sweep(x);
}

static void start(struct cbx_execution *x, const struct cbx_watch *w, void *arg)
{
	if (w->on_start)
		w->on_start(w->arg, x);
}

void cbx_watch_start(struct cbx_execution *x)
{
	each(x, start, NULL);
}

struct printed {
	const char *stream, *p;
	size_t n;
};

static void output(struct cbx_execution *x, const struct cbx_watch *w, void *arg)
{
	const struct printed *o = arg;

	if (w->on_output)
		w->on_output(w->arg, x, o->stream, o->p, o->n);
}

void cbx_watch_output(struct cbx_execution *x, enum cbx_stream stream, const char *p, size_t n)
{
	struct printed o = { stream == CBX_STDOUT ? "stdout" : "stderr", p, n };

	each(x, output, &o);
}

struct shown {
	const cJSON *bundle;
	bool is_result;
};

static void display(struct cbx_execution *x, const struct cbx_watch *w, void *arg)
{
	const struct shown *d = arg;

	if (w->on_display)
		w->on_display(w->arg, x, d->bundle, d->is_result);
}

void cbx_watch_display(struct cbx_execution *x, const cJSON *bundle, bool is_result)
{
	struct shown d = { bundle, is_result };

	each(x, display, &d);
}

static void end(struct cbx_execution *x, const struct cbx_watch *w, void *arg)
{
	struct cbx_watch copy = *w;

	cbx_execution_unwatch(x, copy.arg);
	if (copy.on_end)
		copy.on_end(copy.arg, x);
}

void cbx_watch_end(struct cbx_execution *x)
{
	each(x, end, NULL);
}

void cbx_watch_free(struct cbx_execution *x)
{
	struct cbx_watcher *w;

	while ((w = TAILQ_FIRST(&x->watchers))) {
		TAILQ_REMOVE(&x->watchers, w, entry);
		free(w);
	}
}
