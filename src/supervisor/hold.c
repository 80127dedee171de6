/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a sandbox that no control group limits is looked at, the sooner the less is left of its limit
 * and the faster that shrinks, and seldom while nothing of it runs. Between two looks it can grow: what can be used up
 * in the time is the machine's memory, so how much is left of that is looked at, too, which is cheap; when it shrinks,
 * everybody is looked at.
 *
 * What a look finds is the most that a sandbox can be using. Only when that exceeds the limit is it counted what its
 * processes share, by a process that may hang (count.h), part by part and in turn with other sandboxes; the supervisor
 * continues meanwhile. One process that exceeds the limit alone, by memory that is not a file's, need not be counted. As
 * soon as what has been counted exceeds the limit, the largest processes are killed until the rest does not. Where that
 * does not suffice, because many grow at once or what is killed comes again, all of the session is.
 *
 * All sandboxes together have a limit, too. Warm interpreters' forks share most of what each of them maps, so when the
 * sum of what they are sure not to exceed does, those that have most that was not counted are counted, one by one; and
 * the one that uses most loses its processes when the sum of what was counted does.
 *
 * Looks cost the supervisor's time, and others wait for it: a look that took long makes its sandbox wait for its next.
 * No sandbox gets more than a sixth of a processor for its looks, and all together no more than a third.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/syscalls.h"
#include "supervisor/sockets.h"
#include "supervisor/supervisor.h"

/* What a sandbox may use up, which has not been seen to be faster. */
#define BYTES_A_MS  (GIB(4) / 1000)
#define FILES_A_MS  512
#define KILL_PASSES 16

static bool watched(const struct sandbox *b)
{
	return b->groups.work < 0;
}

/* ---- killing ---- */

/* False: it has gone. */
static bool kill_one(struct sandbox *b, const struct cbx_process *p, enum cbx_oom why, bool tell)
{
	struct cbx_event e = { .type = CBX_EVENT_OOM, .status = (int32_t)why, .sandbox = b->id };
	/* A look takes its time where there are many processes, and code that forks uses up numbers meanwhile. */
	_cleanup_fd_ int pidfd = cbx_watch_hold(p);

	if (pidfd < 0)
		return false;
	if (tell) {
		e.memory_peak = b->held.bytes;
		e.pid = cbx_watch_inside_pid(p->pid);
		/* Told first, so that codeboxd knows the reason when it hears of the death. */
		send_event(&e);
	}
	return cbx_pidfd_send_signal(pidfd, SIGKILL) == 0;
}

static pid_t other_of(const struct sandbox *b)
{
	return b->placing.inside ? b->placing.placed : 0;
}

/* A child that is made while its parent is killed is found in the next pass. */
static void kill_all(struct sandbox *b, enum cbx_oom why)
{
	static struct cbx_look look;
	bool any = true;

	for (int pass = 0; any && pass < KILL_PASSES; pass++) {
		any = false;
		cbx_watch_look(b->pid, other_of(b), true, &look);
		for (size_t i = 0; i < look.n; i++) {
			if (look.all[i].dying)
				continue;
			any = true;
			kill_one(b, &look.all[i], why, pass == 0);
		}
	}
}

static int larger_first(const void *a, const void *b)
{
	const struct cbx_process *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* all: in any order, and left in another; their bytes are what there is too much of, of the limit's kind. */
static void relieve(struct sandbox *b, struct cbx_process *all, size_t n, uint64_t too_much, uint64_t limit,
		    enum cbx_oom why)
{
	struct held *h = &b->held;
	uint64_t now = cbx_now_ms();
	bool any = false;

	h->strikes = now - h->killed_ms < CBX_WATCH_STRIKE_MS ? h->strikes + 1 : 1;
	h->killed_ms = now;
	b->look_ms = now;
	qsort(all, n, sizeof(*all), larger_first);
	/* What one process cannot have made in the time since the last look is being made by many, or again. */
	if (h->strikes >= CBX_WATCH_STRIKES || (too_much > limit / 8 && (!n || too_much > all[0].bytes))) {
		kill_all(b, why);
		return;
	}
	for (size_t i = 0; i < n && too_much && all[i].bytes; i++) {
		any = kill_one(b, &all[i], why, true) || any;
		too_much -= all[i].bytes < too_much ? all[i].bytes : too_much;
	}
	if (!any)
		kill_all(b, why);
}

/* ---- judging ---- */

static uint64_t files_max(const struct sandbox *b)
{
	uint64_t n = b->held.limit / CBX_OPEN_FILE_BYTES;

	return n < CBX_OPEN_FILES_ALL ? n : CBX_OPEN_FILES_ALL;
}

/* Its own; or what others leave of that of all sandboxes, where none uses more than it does. bytes: what it uses. */
static uint64_t limit_of(const struct supervisor *s, const struct sandbox *b, uint64_t bytes, enum cbx_oom *why)
{
	uint64_t others = 0, left;

	*why = CBX_OOM_SESSION;
	for (size_t i = 0; s->together && i < s->n; i++) {
		const struct sandbox *o = &s->all[i];

		if (o == b || !watched(o))
			continue;
		if (o->held.sure > bytes)
			return b->held.limit;
		others += o->held.sure;
	}
	left = s->together > others ? s->together - others : 0;
	if (!s->together || left >= b->held.limit)
		return b->held.limit;
	*why = CBX_OOM_TOGETHER;
	return left;
}

static uint64_t unmapped(const struct sandbox *b)
{
	uint64_t bytes = cbx_sockets_bytes(b->pid, b->handed.sockets);
	struct statfs fs;

	if (b->handed.shm >= 0 && fstatfs(b->handed.shm, &fs) == 0)
		bytes += (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	return bytes;
}

static void ask_next(struct supervisor *s)
{
	size_t first = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->all[i].id == s->counted)
			first = i + 1;
	for (size_t k = 0; s->counter.of == 0 && k < s->n; k++) {
		struct sandbox *b = &s->all[(first + k) % s->n];
		const struct cbx_process *p;
		size_t n;

		if (!b->held.known.count)
			continue;
		n = cbx_watch_next(&b->held.known, &p, CBX_COUNT_AT_ONCE);
		if (!cbx_counter_ask(&s->counter, s->questions + 1, p, n))
			return;
		b->held.question = ++s->questions;
		s->counted = b->id;
	}
}

void hold_forget(struct sandbox *b)
{
	b->held.settling = false;
	b->held.question = 0;
	cbx_watch_forget(&b->held.known);
}

static void measured(struct sandbox *b)
{
	struct cbx_event e = { .type = CBX_EVENT_MEASURED,
			       .sandbox = b->id,
			       .memory_peak = b->held.bytes,
			       .cpu_us = b->held.asked_cpu_ns / 1000 };

	if (b->held.asked)
		send_event(&e);
	b->held.asked = false;
}

static void found(struct sandbox *b, uint64_t bytes, uint64_t sure)
{
	b->held.bytes = bytes;
	b->held.sure = sure < bytes ? sure : bytes;
	if (bytes > b->held.peak)
		b->held.peak = bytes;
}

/* A count that has just been made, and cost much, is believed for as long again, unless much was added since. */
static bool count_again(const struct held *h, const struct cbx_look *look, uint64_t limit)
{
	struct cbx_usage use;

	cbx_watch_sum(look, look->n, &use);
	return !h->known.at_ms || cbx_now_ms() - h->known.at_ms >= h->known.cost_ms ||
	       use.bytes > h->known.resident + limit / 8;
}

/* Its processes use no less than the one that has most; counting need not say so. */
static uint64_t least(const struct sandbox *b, const struct cbx_look *look)
{
	uint64_t most = 0;

	for (size_t i = 0; i < look->n; i++)
		if (!look->all[i].dying && look->all[i].own > most)
			most = look->all[i].own;
	return most > b->held.inherited ? most - b->held.inherited : 0;
}

static void judge(struct supervisor *s, struct sandbox *b, struct cbx_look *look)
{
	struct held *h = &b->held;
	uint64_t files = cbx_watch_files(look, files_max(b)), now = cbx_now_ms(), alone, limit, bytes, most;
	enum cbx_oom why;

	h->files = files;
	if (files > files_max(b)) {
		for (size_t i = 0; i < look->n; i++)
			look->all[i].bytes = look->all[i].files;
		relieve(b, look->all, look->n, files - files_max(b), files_max(b), CBX_OOM_FILES);
		return;
	}
	h->beside = alone = unmapped(b);
	for (size_t i = 0; i < look->n; i++)
		alone += look->all[i].tables;
	most = cbx_watch_most(look, h->beside, &h->known);
	limit = limit_of(s, b, most, &why);
	if (cbx_watch_below(look, h->beside, limit, &h->known, &bytes)) {
		found(b, most, now < h->plain_ms ? most : h->known.bytes + h->beside);
		if (h->known.count && !h->asked && !h->settling)
			hold_forget(b);
	} else if (least(b, look) > limit) {
		bytes = least(b, look);
		found(b, bytes, bytes);
		relieve(b, look->all, look->n, bytes - limit, h->limit, why);
	} else if (now < h->plain_ms || (alone > limit && why == CBX_OOM_SESSION) || !look->n) {
		found(b, bytes, bytes);
		relieve(b, look->all, look->n, bytes - limit, h->limit, why);
	} else if (!h->known.count && count_again(h, look, limit)) {
		cbx_watch_count(&h->known, look);
	}
}

/* All that were listed have been counted; false: others have to be, too. The look makes the next one wait. */
static bool end_count(struct sandbox *b)
{
	static struct cbx_look look;
	uint64_t began = cbx_used_ms(), next;
	bool whole;

	cbx_watch_look(b->pid, other_of(b), true, &look);
	whole = cbx_watch_conclude(&b->held.known, &look, b->held.limit / 8);
	next = cbx_now_ms() + (cbx_used_ms() - began) * 5;
	if (b->look_ms < next)
		b->look_ms = next;
	return whole;
}

/* Some, or all, of its processes have been counted. */
static void counted(struct supervisor *s, struct sandbox *b, bool whole)
{
	struct held *h = &b->held;
	struct cbx_look *c = h->known.count;
	struct cbx_usage use;
	enum cbx_oom why;
	uint64_t limit, bytes;

	cbx_watch_sum(c, h->known.done, &use);
	bytes = (whole ? h->known.bytes : use.bytes) + h->beside;
	limit = limit_of(s, b, bytes, &why);
	if (whole || bytes > limit)
		found(b, bytes, bytes);
	if (watched(b) && bytes > limit) {
		relieve(b, c->all, h->known.done, bytes - limit, h->limit, why);
		whole = true;
	}
	if (whole) {
		measured(b);
		hold_forget(b);
	}
}

/* Where all together may use too much, count who has most that was not counted. One at a time: the next when that is
 * done. */
static void settle(struct supervisor *s)
{
	static struct cbx_look look;
	struct sandbox *vague = NULL;
	uint64_t now = cbx_now_ms(), began = cbx_used_ms(), sum = 0, most = 0;

	if (now < s->settle_ms)
		return;
	s->settle_ms = 0;
	for (size_t i = 0; s->together && i < s->n; i++) {
		struct sandbox *b = &s->all[i];
		struct held *h = &b->held;
		uint64_t weight;

		if (!watched(b) || b->report >= 0)
			continue;
		if (h->settling)
			return;
		sum += h->bytes;
		if (h->known.count || h->bytes - h->sure <= CBX_WATCH_VAGUE_MIN || now < h->plain_ms ||
		    now < h->known.at_ms + CBX_WATCH_MIN_MS)
			continue;
		/* Who has waited longer comes first in the end; who was never counted has waited longest. */
		weight = ((h->bytes - h->sure) >> 20) * (now - h->known.at_ms);
		if (weight > most) {
			most = weight;
			vague = b;
		}
	}
	if (!vague || sum <= s->together)
		return;
	cbx_watch_look(vague->pid, other_of(vague), true, &look);
	vague->held.beside = unmapped(vague);
	vague->held.settling = look.n;
	if (look.n)
		cbx_watch_count(&vague->held.known, &look);
	else
		found(vague, vague->held.beside, vague->held.beside);
	s->settle_ms = cbx_now_ms() + (cbx_used_ms() - began) * 5;
}

void hold_counted(struct supervisor *s)
{
	static const struct cbx_set unknown = { .proportional = UINT64_MAX };
	static struct cbx_counted got;
	uint64_t question = s->counter.of;
	struct sandbox *b = NULL;
	int r = cbx_counter_answer(&s->counter, &got);
	bool whole;

	for (size_t i = 0; r && i < s->n; i++)
		if (s->all[i].held.question == question)
			b = &s->all[i];
	if (b && b->held.known.count) {
		struct cbx_known *k = &b->held.known;

		if (r < 0)
			b->held.plain_ms = cbx_now_ms() + CBX_WATCH_PLAIN_MS;
		whole = r > 0 && cbx_watch_counted(k, got.sets, got.n, got.cost_ms);
		while (!whole && (r < 0 || k->cost_ms >= (b->held.settling ? CBX_WATCH_SETTLE_MS : CBX_WATCH_COST_MS)))
			whole = cbx_watch_counted(k, &unknown, 1, 0);
		whole = whole && end_count(b);
		b->held.question = 0;
		counted(s, b, whole);
	}
	settle(s);
	ask_next(s);
}

void hold_measure(struct supervisor *s, struct sandbox *b)
{
	static struct cbx_look look;

	b->held.asked = true;
	if (b->held.known.count)
		return;
	cbx_watch_look(b->pid, other_of(b), true, &look);
	b->held.asked_cpu_ns = look.cpu_ns;
	b->held.beside = unmapped(b);
	if (!look.n) {
		b->held.bytes = b->held.sure = b->held.beside;
		measured(b);
		return;
	}
	cbx_watch_count(&b->held.known, &look);
	ask_next(s);
}

/* ---- looking ---- */

/* Until as much is used as a limit allows, and an eighth more. */
static uint64_t time_left(uint64_t limit, uint64_t used, uint64_t a_ms)
{
	uint64_t most = limit + limit / 8;

	return most > used ? (most - used) / a_ms : 0;
}

static uint64_t pause_of(const struct sandbox *b, uint64_t bytes_a_ms, uint64_t files_a_ms)
{
	uint64_t ms = time_left(b->held.limit, b->held.bytes, bytes_a_ms > BYTES_A_MS ? bytes_a_ms : BYTES_A_MS);
	uint64_t files_ms = time_left(files_max(b), b->held.files, files_a_ms > FILES_A_MS ? files_a_ms : FILES_A_MS);

	if (files_ms < ms)
		ms = files_ms;
	if (!watched(b) || ms > CBX_WATCH_MS)
		return CBX_WATCH_MS;
	return ms < CBX_WATCH_MIN_MS ? CBX_WATCH_MIN_MS : ms;
}

/* What can wait is done at once for all, so that there is one reason to wake up. */
static uint64_t with_others(uint64_t ms)
{
	return (ms + CBX_WATCH_REST_MS - 1) / CBX_WATCH_REST_MS * CBX_WATCH_REST_MS;
}

/* When to look next: who has used less than a thousandth of a processor since the last look is left alone for twice as
 * long as before. */
static void plan_next(const struct supervisor *s, struct sandbox *b, uint64_t cpu_ns, const struct held *before)
{
	struct held *h = &b->held;
	uint64_t now = cbx_now_ms(), elapsed = now - h->cpu_at_ms;
	uint64_t bytes = h->bytes > before->bytes ? h->bytes - before->bytes : 0;
	uint64_t files = h->files > before->files ? h->files - before->files : 0;
	bool runs = !h->cpu_at_ms || cpu_ns < h->cpu_ns || (cpu_ns - h->cpu_ns) / 1000 > elapsed;

	if (runs || s->lanes.on || b->pace.slow || b->pace.undo || h->known.count)
		b->rest_ms = 0;
	else if (b->rest_ms < CBX_WATCH_IDLE_MS)
		b->rest_ms = b->rest_ms ? b->rest_ms * 2 : CBX_WATCH_MS;
	if (b->rest_ms > CBX_WATCH_IDLE_MS)
		b->rest_ms = CBX_WATCH_IDLE_MS;
	h->cpu_ns = cpu_ns;
	h->cpu_at_ms = now;
	if (b->rest_ms)
		b->look_ms = with_others(now + b->rest_ms);
	else if (b->look_ms > now || h->killed_ms != now)
		b->look_ms = now + pause_of(b, bytes / (elapsed ? elapsed : 1), files / (elapsed ? elapsed : 1));
}

static void look_at(struct supervisor *s, struct sandbox *b)
{
	static struct cbx_look look;
	struct held before = b->held;
	uint64_t own;

	if (b->report >= 0)
		return;
	cbx_watch_look(b->pid, other_of(b), watched(b), &look);
	own = look.cpu_ns;
	if (!b->free) {
		cbx_groups_used(&b->groups, &look.cpu_ns);
		if (cbx_pace_take(&b->pace, &s->lanes, look.cpu_ns, cbx_now_ms()))
			cbx_lanes_place(&s->lanes, &b->pace, b->pid, &look);
	}
	if (watched(b))
		judge(s, b, &look);
	plan_next(s, b, own, &before);
}

/* When lanes come up, the next look is at once. */
static void divide(struct supervisor *s, uint64_t now)
{
	struct cbx_demand demand = { 0 };
	bool divided = s->lanes.on;

	if (now < s->divide_ms)
		return;
	s->divide_ms = now + CBX_WATCH_MS;
	cbx_lanes_refresh(&s->lanes);
	for (size_t i = 0; i < s->n; i++)
		if (!s->all[i].free)
			cbx_demand_add(&demand, &s->all[i].pace, now);
	cbx_lanes_divide(&s->lanes, &demand);
	for (size_t k = 0; s->lanes.on && !divided && k < s->n; k++)
		s->all[k].look_ms = now;
}

/* The machine's memory that is left. 0 unknown. */
static uint64_t free_memory(const struct supervisor *s)
{
	char text[256], *p;
	ssize_t n = s->meminfo < 0 ? -1 : pread(s->meminfo, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strstr(text, "MemAvailable:");
	return p ? strtoull(p + strlen("MemAvailable:"), NULL, 10) * 1024 : 0;
}

/* When to look at it next: seldom where nothing runs, as what begins to has yet to reach its limit. */
static uint64_t free_next_ms(const struct supervisor *s)
{
	bool any = false, rest = true;

	for (size_t i = 0; i < s->n; i++) {
		any = any || (watched(&s->all[i]) && s->all[i].report < 0);
		rest = rest && s->all[i].rest_ms;
	}
	if (!any)
		return UINT64_MAX;
	return rest ? with_others(s->free_ms + 1) : s->free_ms + CBX_WATCH_FREE_MS;
}

static void wake_when_memory_shrinks(struct supervisor *s, uint64_t now)
{
	uint64_t much = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 64, left;

	if (now < free_next_ms(s))
		return;
	s->free_ms = now;
	left = free_memory(s);
	if (left > s->free_bytes)
		s->free_bytes = left;
	if (left + (much > CBX_WATCH_FREE_MIN ? much : CBX_WATCH_FREE_MIN) > s->free_bytes)
		return;
	s->free_bytes = left;
	for (size_t i = 0; i < s->n; i++)
		if (watched(&s->all[i]) && s->all[i].rest_ms)
			s->all[i].look_ms = now;
}

void hold_watch(struct supervisor *s)
{
	uint64_t began = cbx_used_ms(), now = cbx_now_ms(), used = 0;

	if (!s->n || now < s->watch_ms)
		return;
	wake_when_memory_shrinks(s, now);
	for (size_t k = 0, seen = 0; k < s->n && seen < CBX_WATCH_AT_ONCE && used * 5 <= CBX_WATCH_MS; k++) {
		struct sandbox *b = &s->all[s->watched++ % s->n];
		uint64_t before = cbx_used_ms();

		if (now < b->look_ms)
			continue;
		seen++;
		look_at(s, b);
		used = cbx_used_ms() - before;
		if (b->look_ms < cbx_now_ms() + used * 5)
			b->look_ms = cbx_now_ms() + used * 5;
	}
	divide(s, now);
	settle(s);
	ask_next(s);
	used = cbx_used_ms() - began;
	s->watch_ms = cbx_now_ms() + (used * 2 > CBX_WATCH_MIN_MS ? used * 2 : CBX_WATCH_MIN_MS);
}

uint64_t hold_next_ms(const struct supervisor *s)
{
	uint64_t next = free_next_ms(s);

	for (size_t i = 0; i < s->n; i++)
		if (s->all[i].report < 0 && s->all[i].look_ms < next)
			next = s->all[i].look_ms;
	if (s->settle_ms && s->settle_ms < next)
		next = s->settle_ms;
	return next > s->watch_ms ? next : s->watch_ms;
}

void hold_wake(struct sandbox *b)
{
	uint64_t soon = cbx_now_ms() + pause_of(b, 0, 0);

	b->rest_ms = 0;
	if (soon < b->look_ms)
		b->look_ms = soon;
}
