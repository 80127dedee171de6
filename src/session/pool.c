/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an entry of the pool is a session that was begun before anybody asked for it: it has a sandbox
 * and an interpreter that waits for its first cell, but no id, no timers, and it is in no list. A request that needs
 * exactly what an entry was made from gets it, ready or on its way; any other request, and every request while there is
 * no such entry, is built on demand by the same code. No user code has run in an entry, and a session never comes back.
 *
 * What an entry was made from is its shape: the plan, the interpreter's arguments and environment, what else a client
 * asked for, and which image was under the image's name then; all compared byte by byte. A few shapes are kept, in the
 * order of their last use. How many entries a shape should have follows from how often it was asked for lately.
 *
 * Entries must cost nobody anything. They are made one at a time, when no session is being made and no cell runs (or
 * after a while, when that is always so), not when memory is short, and not when sessions need the room: then they are
 * given up. They go when nobody has asked for their shape for a while, and never keep the daemon from ending. A failure
 * to make one is reported once, and the next attempt is later each time.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/timer.h"
#include "session/pool.h"
#include "session/zygotes.h"

#define QUIET_MS    15	   /* from the last thing that was waited for to the start of an entry */
#define POSTPONE_MS 500	   /* so long an entry waits for others at most */
#define TICK_MS	    15000  /* between two looks at what is not needed any more, at most */
#define DECAY_MS    30000. /* an old request counts e times less */
#define RETRY_MS    1000   /* after a failure; doubled each time ... */
#define RETRY_MAX_MS 300000

struct cbx_pool_shape {
	TAILQ_ENTRY(cbx_pool_shape) entry;
	struct cbx_session_spec spec; /* without what each session has for itself */
	struct cbx_plan plan;
	struct cbx_buf spawn;
	struct cbx_image_mark mark;
	char tenant[CBX_NAME_MAX + 1]; /* in whose control group it is: it can never leave that */
	uint32_t tenant_weight;
	size_t n;	     /* entries */
	double demand;	     /* requests, the old ones weighing less; as of ... */
	uint64_t wanted_ms;  /* ... the last one */
	uint64_t not_before; /* after a failure */
	uint64_t retry_ms;
};

struct cbx_pool {
	struct cbx_engine *engine;
	TAILQ_HEAD(cbx_pool_shapes, cbx_pool_shape) shapes; /* the last used one first */
	size_t nshapes;
	struct cbx_sessions entries; /* oldest first */
	size_t n;
	struct event *timer;
	int meminfo; /* opened at the start: codeboxd confines itself to what it needs then */
	bool wanting;		  /* an entry is to be made */
	uint64_t wanting_since;
	uint64_t taken, missed, failed;
};

/* ---- shapes ---- */

/* A key that is not taken out here separates shapes: a new one can make the pool useless, but never wrong. */
static struct cbx_session_spec common(const struct cbx_session_spec *spec)
{
	struct cbx_session_spec c = *spec;

	memset(c.id, 0, sizeof(c.id));
	c.timeout_ms = 0;
	c.ttl_s = c.idle_s = 0;
	c.given = 0;
	c.one_shot = false;
	return c;
}

static bool same(const struct cbx_pool_shape *shape, const struct cbx_session *s, const struct cbx_plan *plan)
{
	struct cbx_session_spec spec = common(&s->spec);

	return strcmp(shape->tenant, s->box.tenant) == 0 && memcmp(&shape->plan, plan, sizeof(*plan)) == 0 &&
	       memcmp(&shape->mark, &s->image_mark, sizeof(shape->mark)) == 0 &&
	       memcmp(&shape->spec, &spec, sizeof(spec)) == 0 && shape->spawn.len == s->spawn.len &&
	       memcmp(shape->spawn.data, s->spawn.data, s->spawn.len) == 0;
}

static void close_entries(struct cbx_pool *p, const struct cbx_pool_shape *shape, size_t keep, const char *why)
{
	struct cbx_session *s, *next;

	TAILQ_FOREACH_SAFE(s, &p->entries, entry, next)
	if (s->shape == shape && shape->n > keep)
		cbx_session_close(NULL, s, why);
}

static void shape_free(struct cbx_pool *p, struct cbx_pool_shape *shape)
{
	close_entries(p, shape, 0, "no longer needed");
	TAILQ_REMOVE(&p->shapes, shape, entry);
	p->nshapes--;
	cbx_buf_release(&shape->spawn);
	free(shape);
}

static struct cbx_pool_shape *shape_for(struct cbx_pool *p, const struct cbx_session *s, const struct cbx_plan *plan)
{
	struct cbx_pool_shape *shape;

	TAILQ_FOREACH(shape, &p->shapes, entry)
	if (same(shape, s, plan))
		break;
	if (shape) {
		TAILQ_REMOVE(&p->shapes, shape, entry);
	} else {
		if (p->nshapes == CBX_POOL_SHAPES_MAX)
			shape_free(p, TAILQ_LAST(&p->shapes, cbx_pool_shapes));
		shape = cbx_xcalloc(1, sizeof(*shape));
		shape->spec = common(&s->spec);
		shape->plan = *plan;
		shape->mark = s->image_mark;
		memcpy(shape->tenant, s->box.tenant, sizeof(shape->tenant));
		cbx_buf_add(&shape->spawn, s->spawn.data, s->spawn.len);
		shape->wanted_ms = cbx_now_ms();
		p->nshapes++;
	}
	shape->tenant_weight = s->box.tenant_weight;
	TAILQ_INSERT_HEAD(&p->shapes, shape, entry);
	return shape;
}

static double demand(const struct cbx_pool_shape *shape, uint64_t now)
{
	return shape->demand * exp(-(double)(now - shape->wanted_ms) / DECAY_MS);
}

/* rank: 0 is the shape used last. Where there may be fewer entries than shapes, the last used ones have them. */
static size_t target(const struct cbx_pool *p, const struct cbx_pool_shape *shape, size_t rank, uint64_t now)
{
	size_t n = 1 + (size_t)(demand(shape, now) / 4), max = p->engine->config.pool_max;

	if (rank >= max || now - shape->wanted_ms >= p->engine->config.pool_idle_ms)
		return 0;
	return n < max - rank ? n : max - rank;
}

/* ---- making entries ---- */

/* So many sandboxes can there be at once: a range of ids may be smaller than the ceiling. */
static size_t sandboxes_max(const struct cbx_engine *e)
{
	size_t most = e->policy->values[CBX_KEY_SESSIONS].ceiling, ids = e->boxes.link.facts.ids;

	return ids > 1 && ids - 1 < most ? ids - 1 : most;
}

/* Memory that the machine has for programs; UINT64_MAX: it cannot be found out. */
static uint64_t available(const struct cbx_pool *p)
{
	char text[512], *at;
	ssize_t n = p->meminfo < 0 ? -1 : pread(p->meminfo, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return UINT64_MAX;
	text[n] = '\0';
	at = strstr(text, "\nMemAvailable:");
	return at ? strtoull(at + strlen("\nMemAvailable:"), NULL, 10) * 1024 : UINT64_MAX;
}

static bool has_room(const struct cbx_pool *p)
{
	const struct cbx_engine *e = p->engine;

	return p->n < e->config.pool_max && e->registry.live + e->registry.closing + 2 * p->n + 2 <= sandboxes_max(e) &&
	       e->boxes.link.state != CBX_LINK_DOWN && !e->trouble->code && available(p) >= CBX_POOL_FREE_MIN;
}

static bool one_is_starting(const struct cbx_pool *p)
{
	const struct cbx_session *s;

	TAILQ_FOREACH(s, &p->entries, entry)
	if (s->state == CBX_STARTING)
		return true;
	return false;
}

static void failed(struct cbx_pool *p, struct cbx_pool_shape *shape, const char *why)
{
	_cleanup_free_ char *text = NULL;

	p->failed++;
	if (!shape->retry_ms && p->engine->config.on_note) {
		text = cbx_xasprintf("a session could not be made ahead of time: %.400s", why);
		p->engine->config.on_note(p->engine->config.arg, "(none)", text);
	}
	shape->retry_ms = !shape->retry_ms ? RETRY_MS : shape->retry_ms * 2;
	if (shape->retry_ms > RETRY_MAX_MS)
		shape->retry_ms = RETRY_MAX_MS;
	shape->not_before = cbx_now_ms() + shape->retry_ms;
}

static void make_entry(struct cbx_pool *p, struct cbx_pool_shape *shape)
{
	struct cbx_session *s;
	struct cbx_plan plan;
	struct cbx_err err;

	if (cbx_session_make(p->engine, NULL, &shape->spec, &plan, &s, &err) < 0) {
		failed(p, shape, err.msg);
		return;
	}
	memcpy(s->box.tenant, shape->tenant, sizeof(s->box.tenant));
	s->box.tenant_weight = shape->tenant_weight;
	if (!same(shape, s, &plan)) { /* the image is another one now: nobody will ask for this shape again */
		cbx_session_free(s);
		shape_free(p, shape);
		return;
	}
	if (cbx_session_begin(s, &plan, &err) < 0) {
		cbx_session_free(s);
		failed(p, shape, err.msg);
		return;
	}
	s->shape = shape;
	shape->n++;
	p->n++;
	TAILQ_INSERT_TAIL(&p->entries, s, entry);
}

static struct cbx_pool_shape *next_shape(const struct cbx_pool *p, uint64_t now)
{
	struct cbx_pool_shape *shape;
	size_t rank = 0;

	TAILQ_FOREACH(shape, &p->shapes, entry)
	if (shape->n < target(p, shape, rank++, now) && now >= shape->not_before)
		return shape;
	return NULL;
}

static uint64_t tick_ms(const struct cbx_pool *p)
{
	uint64_t ms = p->engine->config.pool_idle_ms / 4 + 1;

	return ms < TICK_MS ? ms : TICK_MS;
}

/* When to look again though nothing happens: what has failed is tried again at its term, if that is sooner. */
static uint64_t next_look_ms(const struct cbx_pool *p, uint64_t now)
{
	const struct cbx_pool_shape *shape;
	uint64_t ms = tick_ms(p);
	size_t rank = 0;

	TAILQ_FOREACH(shape, &p->shapes, entry)
	if (shape->n < target(p, shape, rank++, now) && shape->not_before > now && shape->not_before - now < ms)
		ms = shape->not_before - now;
	return ms;
}

static void tidy(struct cbx_pool *p, uint64_t now)
{
	struct cbx_pool_shape *shape, *next;
	size_t rank = 0;

	TAILQ_FOREACH_SAFE(shape, &p->shapes, entry, next)
	{
		close_entries(p, shape, target(p, shape, rank++, now), "no longer needed");
		if (now - shape->wanted_ms >= p->engine->config.pool_idle_ms)
			shape_free(p, shape);
	}
}

/* Others are at work, or were a moment ago: when to look again. 0: an entry can be made. */
static uint64_t unquiet_ms(const struct cbx_pool *p, uint64_t now)
{
	const struct cbx_engine *e = p->engine;
	uint64_t waited = now - p->wanting_since, quiet = e->starting || e->running ? 0 : now - e->changed_ms;

	if (quiet >= QUIET_MS || waited >= POSTPONE_MS)
		return 0;
	return QUIET_MS - quiet < POSTPONE_MS - waited ? QUIET_MS - quiet : POSTPONE_MS - waited;
}

static void timer_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_pool *p = arg;
	uint64_t now = cbx_now_ms(), wait_ms;
	struct cbx_pool_shape *shape;

	if (p->wanting && (wait_ms = unquiet_ms(p, now)) > 0) {
		cbx_timer_set(p->timer, wait_ms);
		return;
	}
	tidy(p, now);
	shape = next_shape(p, now);
	if (shape && has_room(p) && !one_is_starting(p))
		make_entry(p, shape);
	p->wanting = false;
	if (p->nshapes)
		cbx_timer_set(p->timer, next_look_ms(p, now));
}

static void want(struct cbx_pool *p)
{
	if (!p->wanting)
		p->wanting_since = cbx_now_ms();
	p->wanting = true;
	cbx_timer_set(p->timer, QUIET_MS);
}

/* ---- taking and losing them ---- */

/* Out of the list, and out of the count of its shape. */
static void detach(struct cbx_pool *p, struct cbx_session *s)
{
	TAILQ_REMOVE(&p->entries, s, entry);
	s->shape->n--;
	s->shape = NULL;
	p->n--;
}

static void ask(struct cbx_pool *p, struct cbx_pool_shape *shape, double weight)
{
	uint64_t now = cbx_now_ms();

	shape->demand = demand(shape, now) + weight;
	shape->wanted_ms = now;
	want(p);
}

struct cbx_session *cbx_pool_take(struct cbx_session *s, const struct cbx_plan *plan)
{
	struct cbx_pool *p = s->engine->pool;
	struct cbx_session *found = NULL, *at;
	struct cbx_pool_shape *shape;

	if (!p || s->asked) /* what it alone asked for, nobody else will */
		return NULL;
	if (cbx_session_goes_out(s) && cbx_network_adds(&s->policy->network)) /* it trusts its own proxy only */
		return NULL;
	shape = shape_for(p, s, plan);
	TAILQ_FOREACH(at, &p->entries, entry)
	if (at->shape == shape && (!found || found->state == CBX_STARTING))
		found = at;
	if (found)
		detach(p, found);
	if (found)
		p->taken++;
	else
		p->missed++;
	ask(p, shape, 1);
	return found;
}

static void entry_ready(struct cbx_session *s)
{
	s->shape->retry_ms = 0;
	want(s->engine->pool);
}

/* An entry is closed. why: it failed; NULL: it was given up. */
static void entry_lost(struct cbx_session *s, const struct cbx_err *why)
{
	struct cbx_pool *p = s->engine->pool;
	struct cbx_pool_shape *shape = s->shape;

	detach(p, s);
	if (!why)
		return;
	failed(p, shape, why->msg);
	cbx_timer_set(p->timer, next_look_ms(p, cbx_now_ms()));
}

/* What an entry that was made before lacks, its first cell would have to load. */
void cbx_pool_warm(struct cbx_engine *e)
{
	struct cbx_pool *p = e->pool;
	struct cbx_session *s, *next;
	bool any = false;

	if (!p)
		return;
	TAILQ_FOREACH_SAFE(s, &p->entries, entry, next)
	{
		if (!s->used || s->warm || !cbx_zygote_ready_for(s))
			continue;
		cbx_session_close(NULL, s, "a warm one takes its place");
		any = true;
	}
	if (any)
		want(p);
}

void cbx_pool_make_room(struct cbx_engine *e)
{
	struct cbx_pool *p = e->pool;

	if (p && p->n && e->registry.live + e->registry.closing + p->n >= sandboxes_max(e))
		cbx_session_close(NULL, TAILQ_FIRST(&p->entries), "sessions need the room");
}

void cbx_engine_expect(struct cbx_engine *e)
{
	struct cbx_session_spec spec;
	struct cbx_session *s;
	struct cbx_plan plan;
	struct cbx_err err;

	if (!e->pool || e->trouble->code)
		return;
	cbx_session_spec_init(&spec);
	if (cbx_session_make(e, NULL, &spec, &plan, &s, &err) < 0)
		return; /* whoever asks for one gets the error */
	ask(e->pool, shape_for(e->pool, s, &plan), 0);
	cbx_session_free(s);
}

/* ---- the pool ---- */

static const struct cbx_pool_events events = { .ready = entry_ready, .lost = entry_lost };

int cbx_pool_new(struct cbx_engine *e, struct cbx_err *err)
{
	struct cbx_pool *p;

	if (e->config.pool_max == 0)
		return 0;
	p = cbx_xcalloc(1, sizeof(*p));
	p->engine = e;
	p->meminfo = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	TAILQ_INIT(&p->shapes);
	TAILQ_INIT(&p->entries);
	p->timer = event_new(e->base, -1, 0, timer_event, p);
	e->pool = p;
	e->pool_events = &events;
	return p->timer ? 0 : cbx_fail(err, ENOMEM, "make a timer");
}

void cbx_pool_close_all(struct cbx_engine *e, const char *why)
{
	struct cbx_session *s;

	if (e->pool)
		while ((s = TAILQ_FIRST(&e->pool->entries)))
			cbx_session_close(NULL, s, why);
}

void cbx_pool_renew(struct cbx_engine *e, const char *why)
{
	struct cbx_pool *p = e->pool;
	bool any = p && p->nshapes;

	cbx_pool_close_all(e, why);
	while (p && !TAILQ_EMPTY(&p->shapes))
		shape_free(p, TAILQ_FIRST(&p->shapes));
	if (any)
		cbx_engine_expect(e);
}

void cbx_pool_free(struct cbx_engine *e)
{
	struct cbx_pool *p = e->pool;

	if (!p)
		return;
	while (!TAILQ_EMPTY(&p->shapes))
		shape_free(p, TAILQ_FIRST(&p->shapes));
	cbx_event_free_p(&p->timer);
	cbx_close_p(&p->meminfo);
	free(p);
	e->pool = NULL;
	e->pool_events = NULL;
}

cJSON *cbx_pool_to_json(const struct cbx_engine *e)
{
	const struct cbx_pool *p = e->pool;
	const struct cbx_session *s;
	cJSON *o = cbx_json_new_obj();
	uint64_t ready = 0;

	cbx_json_set_u64(o, "max", e->config.pool_max);
	if (!p)
		return o;
	TAILQ_FOREACH(s, &p->entries, entry)
	ready += s->state == CBX_LIVE;
	cbx_json_set_u64(o, "ready", ready);
	cbx_json_set_u64(o, "starting", p->n - ready);
	cbx_json_set_u64(o, "taken", p->taken);
	cbx_json_set_u64(o, "missed", p->missed);
	cbx_json_set_u64(o, "failed", p->failed);
	if (available(p) != UINT64_MAX)
		cbx_json_set_u64(o, "memory_available", available(p));
	return o;
}
