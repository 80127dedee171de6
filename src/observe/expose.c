/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus' text format, version 0.0.4: for each name its help and type, then a line for each series. Label values
 * are names of tenants, kinds of errors and words of our own: none of them has anything that would have to be escaped.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "observe/metrics.h"
#include "session/session.h"

static void head(struct cbx_buf *out, const char *name, const char *type, const char *help)
{
	cbx_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void line(struct cbx_buf *out, const char *name, const char *label, const char *value, uint64_t n)
{
	if (label)
		cbx_buf_addf(out, "%s{%s=\"%s\"} %llu\n", name, label, value, (unsigned long long)n);
	else
		cbx_buf_addf(out, "%s %llu\n", name, (unsigned long long)n);
}

static void one(struct cbx_buf *out, const char *name, const char *type, const char *help, uint64_t n)
{
	head(out, name, type, help);
	line(out, name, NULL, NULL, n);
}

static void add_seconds(struct cbx_buf *out, const char *name, const char *tenant, uint64_t us)
{
	cbx_buf_addf(out, "%s%s%s%s %llu.%06llu\n", name, tenant ? "{tenant=\"" : "", tenant ? tenant : "",
		     tenant ? "\"}" : "", (unsigned long long)us / 1000000, (unsigned long long)us % 1000000);
}

static void histogram(struct cbx_buf *out, const char *name, const char *help, const struct cbx_histogram *h)
{
	uint64_t n = 0;

	head(out, name, "histogram", help);
	for (size_t i = 0; i < CBX_HISTOGRAM_BOUNDS; i++) {
		n += h->in[i];
		cbx_buf_addf(out, "%s_bucket{le=\"%g\"} %llu\n", name, cbx_histogram_ms[i] / 1000.0,
			     (unsigned long long)n);
	}
	n += h->in[CBX_HISTOGRAM_BOUNDS];
	cbx_buf_addf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %llu.%03llu\n%s_count %llu\n", name,
		     (unsigned long long)n, name, (unsigned long long)h->sum_ms / 1000,
		     (unsigned long long)h->sum_ms % 1000, name, (unsigned long long)n);
}

static void outcomes(struct cbx_buf *out, const char *name, const char *help,
		     const uint64_t counts[CBX_METRICS_OUTCOMES])
{
	head(out, name, "counter", help);
	for (enum cbx_status s = CBX_OK; s < CBX_METRICS_OUTCOMES; s++)
		line(out, name, "status", cbx_status_name(s), counts[s]);
}

/* ---- sessions and tenants ---- */

struct survey {
	struct cbx_metrics *m;
	uint64_t states[CBX_LOAD_BUSY + 1];
};

static void survey_one(void *arg, const struct cbx_session_load *load)
{
	struct survey *s = arg;
	struct cbx_tenant_use *t = cbx_metrics_tenant(s->m, load->tenant);

	s->states[load->state]++;
	t->live++;
	t->live_cpu_us += load->cpu_us;
	t->memory += load->memory_bytes;
}

static void survey_all(struct cbx_metrics *m, const struct cbx_engine *engine, struct survey *ret)
{
	*ret = (struct survey){ .m = m };
	for (size_t i = 0; i <= CBX_METRICS_TENANTS_MAX; i++) {
		struct cbx_tenant_use *t = i < CBX_METRICS_TENANTS_MAX ? &m->tenants[i] : &m->others;

		t->live = t->live_cpu_us = t->memory = 0;
	}
	cbx_engine_loads(engine, survey_one, ret);
}

static void sessions(struct cbx_buf *out, const struct cbx_metrics *m, const struct survey *s)
{
	static const char *const states[] = {
		[CBX_LOAD_STARTING] = "starting", [CBX_LOAD_IDLE] = "idle", [CBX_LOAD_BUSY] = "busy"
	};

	head(out, "codebox_sessions", "gauge", "Sessions that there are, by state.");
	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		line(out, "codebox_sessions", "state", states[i], s->states[i]);
	one(out, "codebox_sessions_created_total", "counter", "Sessions that were begun.", m->made);
	head(out, "codebox_sessions_closed_total", "counter", "Sessions that have ended.");
	line(out, "codebox_sessions_closed_total", "outcome", "closed", m->closed);
	line(out, "codebox_sessions_closed_total", "outcome", "failed", m->failed);
	histogram(out, "codebox_session_start_seconds", "From the request for a session until it was ready.",
		  &m->start);
}

/* One name, for all tenants: `at` is where the number is in struct cbx_tenant_use. */
static void per_tenant(struct cbx_buf *out, const struct cbx_metrics *m, const char *name, const char *type,
		       const char *help, size_t at)
{
	head(out, name, type, help);
	for (size_t i = 0; i <= CBX_METRICS_TENANTS_MAX; i++) {
		const struct cbx_tenant_use *t = i < CBX_METRICS_TENANTS_MAX ? &m->tenants[i] : &m->others;

		if (t->name[0])
			line(out, name, "tenant", t->name, *(const uint64_t *)(const void *)((const char *)t + at));
	}
}

static void tenants(struct cbx_buf *out, const struct cbx_metrics *m)
{
	static const char cpu[] = "codebox_tenant_cpu_seconds_total";

	per_tenant(out, m, "codebox_tenant_sessions", "gauge", "Sessions that a tenant has.",
		   offsetof(struct cbx_tenant_use, live));
	per_tenant(out, m, "codebox_tenant_sessions_created_total", "counter", "Sessions that a tenant has begun.",
		   offsetof(struct cbx_tenant_use, sessions));
	per_tenant(out, m, "codebox_tenant_cells_total", "counter", "Cells of a tenant that have ended.",
		   offsetof(struct cbx_tenant_use, cells));
	per_tenant(out, m, "codebox_tenant_commands_total", "counter", "Commands of a tenant that have ended.",
		   offsetof(struct cbx_tenant_use, commands));
	per_tenant(out, m, "codebox_tenant_denials_total", "counter", "What a tenant asked for and was refused.",
		   offsetof(struct cbx_tenant_use, denied));
	per_tenant(out, m, "codebox_tenant_memory_bytes", "gauge",
		   "Memory of a tenant's sessions, as it was when each was looked at last.",
		   offsetof(struct cbx_tenant_use, memory));
	head(out, cpu, "counter", "Processor time of a tenant's sessions, as of when each was looked at last.");
	for (size_t i = 0; i <= CBX_METRICS_TENANTS_MAX; i++) {
		const struct cbx_tenant_use *t = i < CBX_METRICS_TENANTS_MAX ? &m->tenants[i] : &m->others;

		if (t->name[0])
			add_seconds(out, cpu, t->name, t->cpu_us + t->live_cpu_us);
	}
}

/* ---- codeboxd itself ---- */

static void answers(struct cbx_buf *out, const struct cbx_metrics *m, size_t connections)
{
	static const char *const classes[] = { NULL, "1xx", "2xx", "3xx", "4xx", "5xx" };

	one(out, "codebox_http_connections", "gauge", "Connections of HTTP.", connections);
	head(out, "codebox_http_responses_total", "counter", "Answers to requests over HTTP, by class of status.");
	for (size_t i = 2; i < ARRAY_SIZE(classes); i++)
		line(out, "codebox_http_responses_total", "class", classes[i], m->answers[i]);
}

static void denials(struct cbx_buf *out, const struct cbx_metrics *m)
{
	head(out, "codebox_denials_total", "counter", "What was asked for and refused, by kind of error.");
	for (size_t i = 0; i < CBX_METRICS_KINDS_MAX && m->denials[i].kind[0]; i++)
		line(out, "codebox_denials_total", "kind", m->denials[i].kind, m->denials[i].n);
}

static void process(struct cbx_buf *out, const struct cbx_engine *engine)
{
	_cleanup_json_ cJSON *o = cbx_engine_to_json(engine);
	const cJSON *pool = cbx_json_member(o, "pool");
	const cJSON *ready = cbx_json_member(pool, "ready");
	const cJSON *fds = cbx_json_member(o, "descriptors");
	struct timespec cpu = { 0 };
	_cleanup_fclose_ FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long size, resident;

	head(out, "codebox_build_info", "gauge", "The version, as a label.");
	line(out, "codebox_build_info", "version", PACKAGE_VERSION, 1);
	one(out, "codebox_ready", "gauge", "1: sessions can be made; 0: see codebox doctor.",
	    cbx_engine_settled(engine) && !cbx_engine_trouble(engine));
	if (ready)
		one(out, "codebox_pool_sessions", "gauge", "Sessions that are kept ready for those who ask next.",
		    (uint64_t)ready->valuedouble);
	if (fds)
		one(out, "process_open_fds", "gauge", "Open descriptors of codeboxd.", (uint64_t)fds->valuedouble);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	head(out, "process_cpu_seconds_total", "counter", "Processor time of codeboxd, without its sessions.");
	add_seconds(out, "process_cpu_seconds_total", NULL,
		    (uint64_t)cpu.tv_sec * 1000000 + (uint64_t)cpu.tv_nsec / 1000);
	if (f && fscanf(f, "%llu %llu", &size, &resident) == 2)
		one(out, "process_resident_memory_bytes", "gauge", "Resident memory of codeboxd.",
		    resident * (uint64_t)sysconf(_SC_PAGESIZE));
}

void cbx_metrics_print(struct cbx_metrics *m, const struct cbx_engine *engine, size_t connections, struct cbx_buf *out)
{
	struct survey s;

	survey_all(m, engine, &s);
	process(out, engine);
	sessions(out, m, &s);
	outcomes(out, "codebox_cells_total", "Cells that have ended, by status.", m->cells);
	histogram(out, "codebox_cell_wait_seconds", "Time of cells in their session's queue.", &m->wait);
	histogram(out, "codebox_cell_duration_seconds", "Time from a cell's start to its end.", &m->run);
	outcomes(out, "codebox_commands_total", "Commands that have ended, by status.", m->commands);
	head(out, "codebox_package_installs_total", "counter", "Installations of packages into sessions.");
	line(out, "codebox_package_installs_total", "outcome", "ok", m->packages);
	line(out, "codebox_package_installs_total", "outcome", "failed", m->packages_failed);
	head(out, "codebox_queries_total", "counter", "Queries of databases.");
	line(out, "codebox_queries_total", "outcome", "ok", m->queries);
	line(out, "codebox_queries_total", "outcome", "failed", m->queries_failed);
	denials(out, m);
	answers(out, m, connections);
	tenants(out, m);
}
