/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an execution has a list of watchers, each with the operation of whoever watches. Their callbacks
 * may add and cancel watches, of this execution, too: the watcher of a cancelled one stays in the list, without an
 * operation, until no watcher is being called. One that is added meanwhile hears of the next event first, since it comes
 * at the end of the list and the walk ends where the list ended when it began.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/queue.h"
#include "execution/internal.h"

struct cbx_watcher {
	TAILQ_ENTRY(cbx_watcher) entry;
	struct cbx_op *op; /* NULL: it was cancelled */
};

/* Those whose watch was cancelled go; how many are left. */
static size_t sweep(struct cbx_execution *x)
{
	struct cbx_watcher *w, *next;
	size_t n = 0;

	TAILQ_FOREACH_SAFE(w, &x->watchers, entry, next)
	{
		if (w->op) {
			n++;
		} else if (!x->calling) {
			TAILQ_REMOVE(&x->watchers, w, entry);
			free(w);
		}
	}
	return n;
}

int cbx_execution_watch(struct cbx_execution *x, struct cbx_watch_op *op, struct cbx_err *err)
{
	struct cbx_watcher *w;

	if (x->delivered)
		return cbx_refuse(err, "ended", EALREADY, "execution %llu has ended", (unsigned long long)x->id);
	if (sweep(x) >= CBX_WATCHERS_MAX)
		return cbx_refuse(err, "too_many_watchers", EBUSY,
				  "%d calls wait for execution %llu already; wait until one has been answered",
				  CBX_WATCHERS_MAX, (unsigned long long)x->id);
	w = cbx_xcalloc(1, sizeof(*w));
	op->x = x;
	cbx_op_begin(&op->op, &w->op);
	TAILQ_INSERT_TAIL(&x->watchers, w, entry);
	return 0;
}

/* Calls begin: the last of those that are watchers now; NULL: there is none, and calls do not begin. */
static struct cbx_watcher *begin(struct cbx_execution *x)
{
	struct cbx_watcher *last = TAILQ_LAST(&x->watchers, cbx_watchers);

	x->calling += last != NULL;
	return last;
}

/* The next of them with an operation, after one of them (NULL: from the first); NULL: calls end. */
static struct cbx_watch_op *next(struct cbx_execution *x, struct cbx_watcher **at, const struct cbx_watcher *last)
{
	while (last && *at != last) {
		*at = *at ? TAILQ_NEXT(*at, entry) : TAILQ_FIRST(&x->watchers);
		if ((*at)->op)
			return (struct cbx_watch_op *)(*at)->op;
	}
	if (last && --x->calling == 0)
		sweep(x);
	return NULL;
}

void cbx_watch_tell(struct cbx_execution *x, const struct cbx_progress *progress)
{
	struct cbx_watcher *last = begin(x), *at = NULL;
	struct cbx_watch_op *op;

	while ((op = next(x, &at, last)))
		op->on_progress(op, x, progress);
}

void cbx_watch_end(struct cbx_execution *x)
{
	struct cbx_watcher *last = begin(x), *at = NULL;
	struct cbx_watch_op *op;

	while ((op = next(x, &at, last))) {
		cbx_op_cancel(&op->op);
		op->on_progress(op, x, &(struct cbx_progress){ .what = CBX_ENDED });
	}
}

void cbx_watch_free(struct cbx_execution *x)
{
	struct cbx_watcher *w;

	while ((w = TAILQ_FIRST(&x->watchers))) {
		cbx_op_take(&w->op);
		TAILQ_REMOVE(&x->watchers, w, entry);
		free(w);
	}
}
