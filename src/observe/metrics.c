/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

const unsigned cbx_histogram_ms[CBX_HISTOGRAM_BOUNDS] = { 1,   2,    5,	   10,	 25,	50,    100,   250,
							  500, 1000, 2500, 5000, 10000, 60000, 300000 };

struct cbx_metrics *cbx_metrics_new(void)
{
	struct cbx_metrics *m = cbx_xcalloc(1, sizeof(*m));

	snprintf(m->others.name, sizeof(m->others.name), "(others)"); /* no tenant can be called so */
	return m;
}

void cbx_metrics_free(struct cbx_metrics *m)
{
	free(m);
}

static void add(struct cbx_histogram *h, uint64_t ms)
{
	size_t i = 0;

	while (i < CBX_HISTOGRAM_BOUNDS && ms > cbx_histogram_ms[i])
		i++;
	h->in[i]++;
	h->sum_ms += ms;
}

struct cbx_tenant_use *cbx_metrics_tenant(struct cbx_metrics *m, const char *name)
{
	unsigned hash = 2166136261u; /* FNV-1a */

	for (const char *p = name; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619u;
	for (size_t i = 0; i < CBX_METRICS_TENANTS_MAX; i++) {
		struct cbx_tenant_use *t = &m->tenants[(hash + i) % CBX_METRICS_TENANTS_MAX];

		if (!t->name[0])
			snprintf(t->name, sizeof(t->name), "%s", name);
		if (strcmp(t->name, name) == 0)
			return t;
	}
	return &m->others;
}

static void count_denial(struct cbx_metrics *m, const char *kind)
{
	struct cbx_denials *d = m->denials;

	if (!kind[0])
		kind = "failed";
	for (size_t i = 0; i < CBX_METRICS_KINDS_MAX - 1; i++, d++) {
		if (!d->kind[0])
			snprintf(d->kind, sizeof(d->kind), "%s", kind);
		if (strncmp(d->kind, kind, sizeof(d->kind) - 1) == 0)
			break;
	}
	if (!d->kind[0])
		snprintf(d->kind, sizeof(d->kind), "(others)");
	d->n++;
}

static void count_outcome(uint64_t counts[CBX_METRICS_OUTCOMES], const char *outcome)
{
	for (enum cbx_status s = CBX_OK; s < CBX_METRICS_OUTCOMES; s++)
		counts[s] += strcmp(outcome, cbx_status_name(s)) == 0;
}

static void count_cell(struct cbx_metrics *m, struct cbx_tenant_use *t, const struct cbx_happened *h)
{
	count_outcome(m->cells, h->outcome);
	add(&m->wait, h->wait_ms);
	add(&m->run, h->duration_ms);
	t->cells++;
}

void cbx_metrics_count(struct cbx_metrics *m, const struct cbx_happened *h)
{
	struct cbx_tenant_use nobody = { 0 }, *t = h->tenant ? cbx_metrics_tenant(m, h->tenant) : &nobody;
	bool failed = h->outcome && strcmp(h->outcome, "failed") == 0;

	switch (h->what) {
	case CBX_HAPPENED_MADE:
		m->made++;
		t->sessions++;
		break;
	case CBX_HAPPENED_READY:
		add(&m->start, h->duration_ms);
		break;
	case CBX_HAPPENED_CLOSED:
		*(failed ? &m->failed : &m->closed) += 1;
		t->cpu_us += h->cpu_us;
		break;
	case CBX_HAPPENED_RAN:
		count_cell(m, t, h);
		break;
	case CBX_HAPPENED_EXITED:
		count_outcome(m->commands, h->outcome);
		t->commands++;
		break;
	case CBX_HAPPENED_PACKAGES:
		*(failed ? &m->packages_failed : &m->packages) += 1;
		break;
	case CBX_HAPPENED_QUERY:
		*(strcmp(h->outcome, "ok") == 0 ? &m->queries : &m->queries_failed) += 1;
		break;
	case CBX_HAPPENED_DENIED:
		count_denial(m, h->outcome);
		t->denied++;
		break;
	case CBX_HAPPENED_CELL:
	case CBX_HAPPENED_COMMAND:
	case CBX_HAPPENED_NETWORK:
	case CBX_HAPPENED_INTERRUPTED:
	case CBX_HAPPENED_RESTARTED:
	case CBX_HAPPENINGS:
		break;
	}
}

void cbx_metrics_answered(struct cbx_metrics *m, int status)
{
	if (m && status / 100 < (int)ARRAY_SIZE(m->answers))
		m->answers[status / 100]++;
}
