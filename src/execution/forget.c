/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: how many ended cells a session remembers, how much memory they take, and for how long, its policy
 * says. What is too many or too much goes when the next one ends, the oldest first (cells.c); it can still be in an
 * export (history.c). What is too old goes by a timer, which there is only where a policy has such a time, and nothing
 * of it stays: neither for an export, nor the file of its output.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/timer.h"
#include "execution/internal.h"
#include "execution/spill.h"
#include "policy/policy.h"

static uint64_t standard(const struct cbx_policy *policy, enum cbx_key key)
{
	uint64_t value;

	cbx_policy_settle(policy, key, false, 0, &value);
	return value;
}

void cbx_cells_settle(struct cbx_cells *c, const struct cbx_policy *policy, uint64_t timeout_ms)
{
	uint64_t ttl = standard(policy, CBX_KEY_RESULTS_TTL);

	c->terms = (struct cbx_cells_terms){
		.timeout_ms = timeout_ms,
		.history = standard(policy, CBX_KEY_HISTORY),
		.results = standard(policy, CBX_KEY_RESULTS),
		.results_count = standard(policy, CBX_KEY_RESULTS_COUNT),
		.results_ttl_ms = ttl < CBX_TTL_MAX_S * 1000ull ? ttl : UINT64_MAX,
		.installs = policy->values[CBX_KEY_INSTALL].ceiling,
	};
	cbx_policy_settle(policy, CBX_KEY_TIMEOUT, true, CBX_TIMEOUT_MAX_MS, &c->terms.timeout_max_ms);
}

/* ---- too old ---- */

static bool is_due(const struct cbx_execution *x, uint64_t ttl, uint64_t now)
{
	return x->delivered && now - x->end_ms >= ttl;
}

static void expire(struct cbx_cells *c, struct cbx_execution *x)
{
	if (x->id > c->expired)
		c->expired = x->id;
	if (x->spill)
		cbx_spill_remove(x->spill);
	if (x->past) {
		cbx_keep_drop(x);
		return;
	}
	TAILQ_REMOVE(&c->ended, x, entry);
	c->nended--;
	c->forgotten += x->code_bytes && !x->stripped;
	cbx_execution_free(x);
}

/* Those that are due; *first: when the next one ended. */
static void expire_of(struct cbx_cells *c, struct cbx_executions *list, uint64_t ttl, uint64_t now, uint64_t *first)
{
	struct cbx_execution *x, *next;

	for (x = TAILQ_FIRST(list); x; x = next) {
		next = TAILQ_NEXT(x, entry);
		if (is_due(x, ttl, now))
			expire(c, x);
		else if (x->end_ms < *first)
			*first = x->end_ms;
	}
}

static void expire_old(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_cells *c = arg;
	uint64_t ttl = c->terms.results_ttl_ms, now = cbx_now_ms(), first = UINT64_MAX;

	expire_of(c, &c->past, ttl, now, &first);
	expire_of(c, &c->ended, ttl, now, &first);
	if (first < UINT64_MAX)
		cbx_timer_set(c->expiry, first + ttl - now);
}

void cbx_watch_age(struct cbx_cells *c)
{
	uint64_t ttl = c->terms.results_ttl_ms;

	if (c->closed)
		return;
	if (!c->expiry)
		c->expiry = event_new(event_get_base(c->timer), -1, 0, expire_old, c);
	if (c->expiry && !evtimer_pending(c->expiry, NULL))
		cbx_timer_set(c->expiry, ttl);
}

/* ---- looking ---- */

int cbx_forgotten(const struct cbx_cells *c, uint64_t id, struct cbx_err *err)
{
	char text[48];

	if (id <= c->expired) {
		cbx_key_format(CBX_KEY_RESULTS_TTL, c->terms.results_ttl_ms, text);
		return cbx_refuse(err, "execution_expired", ENOENT,
				  "execution %llu of session %s has expired: results are kept for %s "
				  "(limits.results_ttl of the policy); run it again",
				  (unsigned long long)id, c->id, text);
	}
	cbx_key_format(CBX_KEY_RESULTS, c->terms.results, text);
	return cbx_refuse(err, "execution_forgotten", ENOENT,
			  "execution %llu of session %s has been forgotten: only the last %llu are kept, and of these "
			  "what fits in %s (limits.results_count and limits.results of the policy); run it again",
			  (unsigned long long)id, c->id, (unsigned long long)c->terms.results_count, text);
}

void cbx_cells_results(const struct cbx_cells *c, cJSON *limits, cJSON *use)
{
	uint64_t ttl = c->terms.results_ttl_ms;
	const struct cbx_execution *x;
	size_t bytes = 0;

	TAILQ_FOREACH(x, &c->ended, entry)
	bytes += cbx_execution_memory(x);
	cbx_json_set_u64(limits, "results_count", c->terms.results_count);
	cbx_json_set_u64(limits, "results_bytes", c->terms.results);
	if (ttl < UINT64_MAX)
		cbx_json_set_double(limits, "results_ttl_s", (double)ttl / 1000);
	cbx_json_set_u64(use, "count", c->nended);
	cbx_json_set_u64(use, "bytes", bytes);
}
