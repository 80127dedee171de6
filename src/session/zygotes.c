/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a zygote is an interpreter of an image that has loaded its libraries and is forked into
 * sandboxes (src/zygote/zygote.c, src/supervisor/zygotes.c). It is started when a session of its image is ready, so
 * that no session waits for it, and serves all later ones that were made in the same way: the same image, and the same
 * arguments and environment of the interpreter, but for variables of the session's own, which are sent to the fork. A
 * session for which none is ready has its interpreter executed by init, and nothing else differs. Only the first
 * interpreter of a sandbox comes from a zygote: no code of a user has run there yet.
 *
 * A zygote that fails is started again when the next session of its image is ready, until it has failed
 * CBX_ZYGOTE_FAILURES times in a row. It ends when no session has wanted it for a while. Each of these is a line in the
 * log.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/timer.h"
#include "image/store.h"
#include "session/zygotes.h"

#define START_AFTER_MS 300   /* from a session's start to that of its image's zygote ... */
#define POSTPONE_MS    1000  /* ... or later, while cells run ... */
#define POSTPONE_MAX   10    /* ... but not more often than so */
#define TICK_MS	       30000
#define RECORDS_MAX    16    /* images remembered: those in use, and those that failed */
#define ROOM_MIN       MIB(64) /* a session's limit on memory is above written_bytes by this, or it has none */

enum zygote_state { ZYGOTE_NONE, ZYGOTE_WANTED, ZYGOTE_STARTING, ZYGOTE_READY, ZYGOTE_ENDING };

struct cbx_zygote {
	TAILQ_ENTRY(cbx_zygote) entry;
	enum zygote_state state;
	uint64_t number; /* the supervisor's; a new one for each start */
	char image[CBX_NAME_MAX + 1];
	struct cbx_image_mark mark;
	struct cbx_buf words; /* its arguments and environment, and those of the sessions that it serves */
	char *preload;
	uint64_t used_ms, since_ms;
	uint64_t written_bytes; /* READY: what its forks share, and one of them may come to have for itself */
	unsigned failures, postponed;
};

struct cbx_zygotes {
	struct cbx_engine *engine;
	TAILQ_HEAD(cbx_zygote_list, cbx_zygote) list; /* last used first */
	struct event *timer;
	uint64_t next;
	uint64_t served, failed;
};

static void note(const struct cbx_zygote *z, struct cbx_engine *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void note(const struct cbx_zygote *z, struct cbx_engine *e, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL, *line = NULL;
	va_list ap;

	if (!e->config.on_note)
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	line = cbx_xasprintf("the warm interpreter of image %s: %.500s", z->image, text ? text : "");
	e->config.on_note(e->config.arg, "(none)", line);
}

static bool running(const struct cbx_zygote *z)
{
	return z->state == ZYGOTE_STARTING || z->state == ZYGOTE_READY || z->state == ZYGOTE_ENDING;
}

static bool serves(const struct cbx_zygote *z, const struct cbx_session *s)
{
	return strcmp(z->image, s->spec.image) == 0 && memcmp(&z->mark, &s->image_mark, sizeof(z->mark)) == 0 &&
	       z->words.len == s->base.len && memcmp(z->words.data, s->base.data, s->base.len) == 0;
}

static struct cbx_zygote *find(struct cbx_zygotes *all, const struct cbx_session *s)
{
	struct cbx_zygote *z;

	TAILQ_FOREACH(z, &all->list, entry)
	if (serves(z, s))
		return z;
	return NULL;
}

static void forget(struct cbx_zygotes *all, struct cbx_zygote *z)
{
	TAILQ_REMOVE(&all->list, z, entry);
	cbx_buf_release(&z->words);
	free(z->preload);
	free(z);
}

static void end(struct cbx_zygotes *all, struct cbx_zygote *z, const char *why)
{
	note(z, all->engine, "ended: %s", why);
	z->state = ZYGOTE_ENDING;
	cbx_link_zygote_end(&all->engine->boxes, z->number);
}

/* ---- start ---- */

/* Arguments and environment in a file, for the supervisor. */
static int words_file(const struct cbx_zygote *z, struct cbx_err *err)
{
	_cleanup_free_ char *more = cbx_xasprintf("CODEBOX_ZYGOTE=1%cCODEBOX_PRELOAD=%s", 0, z->preload);
	_cleanup_fd_ int fd = memfd_create("zygote", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return cbx_fail(err, errno, "make a file for a zygote's arguments");
	r = cbx_write_all(fd, z->words.data, z->words.len);
	if (r == 0)
		r = cbx_write_all(fd, more,
				  sizeof("CODEBOX_ZYGOTE=1") + sizeof("CODEBOX_PRELOAD=") + strlen(z->preload));
	return r < 0 ? cbx_fail(err, -r, "write a zygote's arguments") : take_fd(&fd);
}

static int make_plan(struct cbx_engine *e, const struct cbx_zygote *z, struct cbx_plan *plan, struct cbx_err *err)
{
	struct cbx_image image = { 0 };
	int r = cbx_image_open(e->config.images_dir, z->image, &image, err);

	if (r < 0)
		return r;
	memset(plan, 0, sizeof(*plan));
	plan->version = CBX_PLAN_VERSION;
	r = cbx_image_to_plan(&image, plan, err);
	if (r == 0 && memcmp(&image.mark, &z->mark, sizeof(z->mark)) != 0)
		r = cbx_refuse(err, "image_not_found", ESTALE, "the image has been replaced; try again");
	cbx_image_release(&image);
	plan->profile = CBX_PROFILE_DEFAULT;
	snprintf(plan->hostname, sizeof(plan->hostname), "codebox");
	plan->memory_bytes = CBX_ZYGOTE_MEMORY_MAX;
	plan->disk_bytes = CBX_ZYGOTE_DISK;
	plan->disk_inodes = 1024;
	plan->processes = CBX_PROCESSES_DEFAULT;
	return r < 0 ? r : cbx_plan_check(plan, err);
}

static void failed(struct cbx_zygotes *all, struct cbx_zygote *z, const char *why)
{
	z->state = ZYGOTE_NONE;
	z->failures++;
	all->failed++;
	note(z, all->engine, "failed: %.300s%s", why,
	     z->failures >= CBX_ZYGOTE_FAILURES ? "; it is off now: sessions start the slow way" : "");
}

static void start(struct cbx_zygotes *all, struct cbx_zygote *z)
{
	struct cbx_plan plan;
	struct cbx_err err;
	int fd = -1, r = make_plan(all->engine, z, &plan, &err);

	if (r >= 0)
		fd = r = words_file(z, &err);
	if (r < 0) {
		failed(all, z, err.msg);
		return;
	}
	z->number = all->next++;
	z->state = ZYGOTE_STARTING;
	z->since_ms = cbx_now_ms();
	cbx_link_zygote(&all->engine->boxes, z->number, &plan, &fd);
}

static bool room(struct cbx_zygotes *all)
{
	struct cbx_zygote *z, *last = NULL;
	size_t n = 0;

	TAILQ_FOREACH(z, &all->list, entry)
	if (running(z)) {
		n++;
		if (z->state != ZYGOTE_ENDING)
			last = z;
	}
	if (n >= all->engine->config.zygotes_max && last)
		end(all, last, "others are used more");
	return n < all->engine->config.zygotes_max;
}

static void timer_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_zygotes *all = arg;
	struct cbx_engine *e = all->engine;
	struct cbx_zygote *z, *next;
	uint64_t now = cbx_now_ms(), again = TICK_MS;

	TAILQ_FOREACH_SAFE(z, &all->list, entry, next)
	{
		if (z->state == ZYGOTE_WANTED) {
			if ((e->starting || e->running) && z->postponed++ < POSTPONE_MAX)
				again = POSTPONE_MS;
			else if (room(all))
				start(all, z);
			else
				again = POSTPONE_MS;
		} else if (z->state == ZYGOTE_READY && now - z->used_ms >= CBX_ZYGOTE_IDLE_S * 1000ull) {
			end(all, z, "no session has wanted it for a while");
		}
	}
	if (!TAILQ_EMPTY(&all->list))
		cbx_timer_set(all->timer, again);
}

void cbx_zygote_want(struct cbx_session *s)
{
	struct cbx_zygotes *all = s->engine->zygotes;
	struct cbx_zygote *z;

	if (!all || !s->preload)
		return;
	z = find(all, s);
	if (!z) {
		size_t n = 0;

		TAILQ_FOREACH(z, &all->list, entry)
		n++;
		z = n >= RECORDS_MAX ? TAILQ_LAST(&all->list, cbx_zygote_list) : NULL;
		if (z && running(z))
			return;
		if (z)
			forget(all, z);
		z = cbx_xcalloc(1, sizeof(*z));
		snprintf(z->image, sizeof(z->image), "%s", s->spec.image);
		z->mark = s->image_mark;
		cbx_buf_add(&z->words, s->base.data, s->base.len);
		z->preload = cbx_xstrdup(s->preload);
	} else {
		TAILQ_REMOVE(&all->list, z, entry);
	}
	TAILQ_INSERT_HEAD(&all->list, z, entry);
	z->used_ms = cbx_now_ms();
	if (z->state == ZYGOTE_NONE && z->failures < CBX_ZYGOTE_FAILURES) {
		z->state = ZYGOTE_WANTED;
		z->postponed = 0;
		cbx_timer_set(all->timer, START_AFTER_MS);
	}
}

/* ---- use ---- */

static struct cbx_zygote *ready_for(const struct cbx_session *s)
{
	struct cbx_zygotes *all = s->engine->zygotes;
	struct cbx_zygote *z = all && s->preload ? find(all, s) : NULL;

	return z && z->state == ZYGOTE_READY && s->spec.memory_bytes >= z->written_bytes + ROOM_MIN ? z : NULL;
}

bool cbx_zygote_ready_for(const struct cbx_session *s)
{
	return ready_for(s) != NULL;
}

uint64_t cbx_zygote_take(struct cbx_session *s, cJSON **ret_first)
{
	struct cbx_zygote *z = ready_for(s);
	cJSON *frame, *environment;

	if (!z)
		return 0;
	frame = cbx_json_new_obj();
	environment = cbx_json_new_obj();
	z->used_ms = cbx_now_ms();
	for (size_t i = 0; i < s->environment.n; i++)
		cbx_json_set_str(environment, s->environment.all[i].name, s->environment.all[i].value);
	cbx_json_set_str(frame, "op", "start");
	cbx_json_set(frame, "environment", environment);
	cbx_json_set_bool(frame, "wanted", !s->shape);
	*ret_first = frame;
	return z->number;
}

bool cbx_zygotes_event(struct cbx_engine *e, const struct cbx_event *ev)
{
	struct cbx_zygotes *all = e->zygotes;
	struct cbx_zygote *z;

	TAILQ_FOREACH(z, &all->list, entry)
	if (running(z) && z->number == ev->sandbox)
		break;
	if (!z)
		return false;
	if (ev->type == CBX_EVENT_ZYGOTE_READY && z->state == ZYGOTE_STARTING) {
		z->state = ZYGOTE_READY;
		z->written_bytes = ev->memory_peak;
		note(z, e, "ready after %llu ms%s%s", (unsigned long long)(cbx_now_ms() - z->since_ms),
		     ev->err.msg[0] ? "; could not be loaded: " : "", ev->err.msg);
		return true;
	} else if (ev->type == CBX_EVENT_ZYGOTE_GONE && z->state == ZYGOTE_ENDING) {
		z->state = ZYGOTE_NONE;
		forget(all, z);
	} else if (ev->type == CBX_EVENT_ZYGOTE_GONE) {
		failed(all, z, ev->err.msg);
	}
	return false;
}

void cbx_zygote_served(struct cbx_session *s)
{
	struct cbx_zygote *z = find(s->engine->zygotes, s);

	s->engine->zygotes->served++;
	if (z)
		z->failures = 0;
}

/* ---- all of them ---- */

int cbx_zygotes_new(struct cbx_engine *e, struct cbx_err *err)
{
	struct cbx_zygotes *all;

	if (!e->config.zygotes_max)
		return 0;
	all = cbx_xcalloc(1, sizeof(*all));
	all->engine = e;
	all->next = 1;
	TAILQ_INIT(&all->list);
	all->timer = event_new(e->base, -1, 0, timer_event, all);
	e->zygotes = all;
	return all->timer ? 0 : cbx_fail(err, ENOMEM, "make a timer");
}

void cbx_zygotes_free(struct cbx_engine *e)
{
	struct cbx_zygotes *all = e->zygotes;

	if (!all)
		return;
	while (!TAILQ_EMPTY(&all->list))
		forget(all, TAILQ_FIRST(&all->list));
	cbx_event_free_p(&all->timer);
	free(all);
	e->zygotes = NULL;
}

cJSON *cbx_zygotes_to_json(const struct cbx_engine *e)
{
	static const char *const states[] = { "off", "wanted", "starting", "ready", "ending" };
	cJSON *list = cbx_json_new_arr();
	const struct cbx_zygote *z;

	if (!e->zygotes)
		return list;
	TAILQ_FOREACH(z, &e->zygotes->list, entry)
	{
		cJSON *o = cbx_json_new_obj();

		cbx_json_set_str(o, "image", z->image);
		cbx_json_set_str(o, "state", states[z->state]);
		cbx_json_set_u64(o, "failures", z->failures);
		cbx_json_push(list, o);
	}
	return list;
}
