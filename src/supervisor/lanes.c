/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/lanes.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/limits.h"

#define MUCH   400 /* thousandths of a processor: who uses so much computes */
#define LITTLE 20  /* likewise: who uses less is not counted among those that share the machine */
#define UNDO   3

void cbx_lanes_init(struct cbx_lanes *l)
{
	*l = (struct cbx_lanes){ .much = MUCH };
	cbx_lanes_refresh(l);
}

void cbx_lanes_refresh(struct cbx_lanes *l)
{
	l->able = sched_getaffinity(0, sizeof(l->all), &l->all) == 0 && CPU_COUNT(&l->all) > 1;
}

bool cbx_pace_take(struct cbx_pace *p, const struct cbx_lanes *l, uint64_t cpu_ns, uint64_t now_ms)
{
	uint64_t elapsed = now_ms - p->at_ms;

	/* In a moment anybody may have had a whole processor. */
	if (p->at_ms && elapsed < CBX_WATCH_MS / 2)
		return false;
	/* Of a child that has been waited for the time is given in ticks, so the sum can become less. */
	p->share = p->at_ms && cpu_ns > p->cpu_ns ? (unsigned)((cpu_ns - p->cpu_ns) / 1000 / elapsed) : 0;
	p->cpu_ns = cpu_ns;
	p->at_ms = now_ms;
	if (p->share >= l->much)
		p->slow = true;
	if (p->share >= l->much / 5)
		p->busy_ms = now_ms;
	if (now_ms - p->busy_ms >= CBX_LANE_STAY_MS)
		p->slow = false;
	return true;
}

void cbx_demand_add(struct cbx_demand *d, const struct cbx_pace *p, uint64_t now_ms)
{
	d->busy += p->share >= LITTLE;
	if (p->slow) {
		d->slow = true;
	} else if (p->used_ms && now_ms - p->used_ms < CBX_LANE_KEEP_MS) {
		d->quick = true;
		d->share += p->share;
	}
}

void cbx_lanes_divide(struct cbx_lanes *l, const struct cbx_demand *d)
{
	unsigned wanted = (2 * d->share + 999) / 1000, all = (unsigned)CPU_COUNT(&l->all);

	/* Three quarters of an equal share: one that always wants more may not get more than that. */
	l->much = d->busy * MUCH > all * 750 ? all * 750 / d->busy : MUCH;
	/* Those who compute would have half of the machine to themselves, however many want the other half. */
	l->on = l->able && d->slow && d->quick && d->share <= all / 2 * 750;
	if (!l->on)
		return;
	if (wanted > all / 2)
		wanted = all / 2;
	if (wanted == 0)
		wanted = 1;
	CPU_ZERO(&l->quick);
	for (int i = 0; i < CPU_SETSIZE && (unsigned)CPU_COUNT(&l->quick) < wanted; i++)
		if (CPU_ISSET(i, &l->all))
			CPU_SET(i, &l->quick);
	CPU_XOR(&l->slow, &l->all, &l->quick);
}

/* Who has ended meanwhile is not there any more; a number that is another sandbox's by now is put right at its look. */
static void place(pid_t pid, unsigned threads, const cpu_set_t *set)
{
	char path[32];
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *d;

	sched_setaffinity(pid, sizeof(*set), set);
	if (threads <= 1)
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (d = readdir(dir))) {
		pid_t thread = (pid_t)strtol(d->d_name, NULL, 10);

		if (thread > 0 && thread != pid)
			sched_setaffinity(thread, sizeof(*set), set);
	}
}

void cbx_lanes_place(const struct cbx_lanes *l, struct cbx_pace *p, pid_t init, const struct cbx_look *look)
{
	const cpu_set_t *set = !l->on ? &l->all : p->slow ? &l->slow : &l->quick;

	if (!l->on && !p->undo)
		return;
	place(init, 1, set);
	for (size_t i = 0; i < look->n; i++)
		place(look->all[i].pid, look->all[i].threads, set);
	/* A process that was made meanwhile has what its parent had: hence more than once. */
	p->undo = l->on ? UNDO : p->undo - 1;
}
