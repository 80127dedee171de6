/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a hold is a promise to keep an execution after its end, for a client that was told to come back
 * for it. The key makes its name one that nobody can guess, though sessions may have names that people choose. A hold
 * keeps nothing from being closed: it ends with its session. When ended executions take up too much memory, those that
 * are held go last, but they go.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "session/internal.h"

static uint64_t wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static size_t held(const struct cbx_session *s)
{
	const struct cbx_execution *x;
	size_t n = 0;

	TAILQ_FOREACH(x, &s->ended, entry)
	n += cbx_hold_counts(x);
	TAILQ_FOREACH(x, &s->queue, entry)
	n += cbx_hold_counts(x);
	return n + (s->running && cbx_hold_counts(s->running));
}

int cbx_execution_hold(struct cbx_execution *x, struct cbx_err *err)
{
	if (x->hold)
		return 0;
	if (held(x->session) >= CBX_HOLDS_MAX)
		return cbx_refuse(err, "too_many_holds", EBUSY,
				  "%d executions of session %s are kept for later already", CBX_HOLDS_MAX,
				  x->session->spec.id);
	x->hold = cbx_xcalloc(1, sizeof(*x->hold));
	cbx_random_name(x->hold->key, CBX_HOLD_KEY);
	x->hold->wall_ms = wall_ms();
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
	ret->kept_ms = (x->status > CBX_RUNNING ? age : cbx_now_ms() - x->hold->clock_ms) + CBX_HOLD_MS;
	return true;
}

bool cbx_hold_counts(const struct cbx_execution *x)
{
	return x->hold && (x->status <= CBX_RUNNING || cbx_now_ms() < x->end_ms + CBX_HOLD_MS);
}
