/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_OBSERVE_METRICS_H
#define CBX_OBSERVE_METRICS_H

/*
 * What codeboxd counts of its engine and its front ends, and the text of it for Prometheus; codebox-metrics(7)
 * describes each name. There is a bound for how many series there can be: labels are of closed sets, or places in
 * tables that do not grow, whose last place is everybody else's.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/str.h"
#include "execution/execution.h"
#include "session/happened.h"

struct cbx_engine;

#define CBX_HISTOGRAM_BOUNDS 15
struct cbx_histogram {
	uint64_t in[CBX_HISTOGRAM_BOUNDS + 1]; /* each by itself; the last is beyond all bounds */
	uint64_t sum_ms;
};

#define CBX_METRICS_OUTCOMES (CBX_CANCELLED + 1)

struct cbx_tenant_use {
	char name[CBX_NAME_MAX + 1]; /* "": the place is free */
	uint64_t sessions, cells, commands, denied;
	uint64_t cpu_us; /* of sessions that have ended */
	/* as of now, while they are asked for */
	uint64_t live, live_cpu_us, memory;
};

struct cbx_metrics {
	uint64_t made, closed, failed; /* sessions */
	uint64_t cells[CBX_METRICS_OUTCOMES], commands[CBX_METRICS_OUTCOMES];
	uint64_t packages, packages_failed;
	uint64_t queries, queries_failed;
	struct cbx_histogram start, wait, run;
	struct cbx_denials {
		char kind[32];
		uint64_t n;
	} denials[CBX_METRICS_KINDS_MAX];
	/* A place is found by the hash of the name, and those after it. */
	struct cbx_tenant_use tenants[CBX_METRICS_TENANTS_MAX];
	struct cbx_tenant_use others; /* who has found no place */
	uint64_t answers[6];	      /* of HTTP, by the first digit of their status */
};

struct cbx_metrics *cbx_metrics_new(void);
void cbx_metrics_free(struct cbx_metrics *m); /* NULL is accepted */
void cbx_metrics_count(struct cbx_metrics *m, const struct cbx_happened *h);
void cbx_metrics_answered(struct cbx_metrics *m, int status); /* HTTP; NULL is accepted */
/* The text, with what the engine and this process are like now; connections: of HTTP. */
void cbx_metrics_print(struct cbx_metrics *m, const struct cbx_engine *engine, size_t connections, struct cbx_buf *out);

/* For expose.c: the upper bounds of a histogram's buckets. */
extern const unsigned cbx_histogram_ms[CBX_HISTOGRAM_BOUNDS];
struct cbx_tenant_use *cbx_metrics_tenant(struct cbx_metrics *m, const char *name);

#endif
