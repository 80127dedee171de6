/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: where codeboxd has a part of the cgroup tree (cgroup/tree.h), each session has a group. It is
 * made and limited before the sandbox is, and handed to the supervisor with the request for it. An interpreter is
 * started by init, in init's group; the supervisor is asked to move it as soon as there is one (cbx_link_move()), and no
 * cell runs before it says that nothing but init is left behind. When that fails, so does the interpreter.
 *
 * The groups of a tenant's sessions are in one of the tenant's, so that who has many gets no more of the processors than
 * who has one, where they are short. It is there as long as there is one of a session in it.
 *
 * A group's end: cgroup.kill, then rmdir as soon as the kernel is done with its processes. A list of groups that are
 * ending is kept apart from the sessions, which need not wait for it.
 *
 * Rest: a session without a cell for CBX_FREEZE_IDLE_S is stopped, unless its processes are at work by themselves, and
 * file pages that it has not used lately are given back. It is thawed before anything is said to its interpreter. Init is
 * never stopped, so files can be read and written meanwhile.
 */
#include "box/group.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/timer.h"
#include "cgroup/parse.h"

#define AT_WORK_PER_MILLE 5 /* of one processor's time: what uses more between cells is not stopped */

static const char none_reason[] = "codeboxd was not given one";

static const struct cbx_cgroup_tree *tree_of(const struct cbx_boxes *all)
{
	const struct cbx_cgroup_tree *t = all->config.cgroup;

	return t && t->backend != CBX_CGROUP_NONE ? t : NULL;
}

const char *cbx_group_backend(const struct cbx_boxes *all)
{
	const struct cbx_cgroup_tree *t = tree_of(all);

	return cbx_cgroup_backend_name(t ? t->backend : CBX_CGROUP_NONE);
}

const char *cbx_group_reason(const struct cbx_boxes *all)
{
	return all->config.cgroup && all->config.cgroup->reason[0] ? all->config.cgroup->reason : none_reason;
}

bool cbx_group_limits_cpus(const struct cbx_boxes *all)
{
	const struct cbx_cgroup_tree *t = tree_of(all);

	return t && (t->controllers & CBX_CONTROLLER_CPU);
}

bool cbx_group_limits_io(const struct cbx_boxes *all)
{
	const struct cbx_cgroup_tree *t = tree_of(all);

	return t && (t->controllers & CBX_CONTROLLER_IO);
}

static bool in_memory(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

/* False: it is not known which disk that is. */
static bool add_disk(struct cbx_box *box, dev_t dev)
{
	const struct cbx_cgroup_tree *tree = tree_of(box->all);
	struct cbx_cgroup_limits *l = &box->limits;
	dev_t disk;

	if (!tree || !cbx_disks_find(&tree->disks, dev, &disk))
		return false;
	for (size_t i = 0; i < l->ndisks; i++)
		if (l->disks[i] == disk)
			return true;
	l->disks[l->ndisks++] = disk;
	return true;
}

/* Of what is mounted in the session; its own files are held in memory. */
static bool find_disks(struct cbx_box *box, const struct cbx_plan *plan, dev_t image_dev)
{
	bool all = cbx_group_limits_io(box->all) && (add_disk(box, image_dev) || in_memory(box->all->config.images_dir));
	struct stat st;

	_Static_assert(CBX_IO_DISKS >= CBX_PLAN_MOUNTS_MAX + 2, "a place for each");
	for (uint32_t i = 0; i < plan->nlayers; i++)
		if (strcmp(plan->layers[i].source, "host:/usr") == 0)
			all = stat("/usr", &st) == 0 && (add_disk(box, st.st_dev) || in_memory("/usr")) && all;
	/* Below a recursive one there may be other file systems. That of a mount may not answer: nothing is asked here. */
	for (uint32_t i = 0; i < plan->nmounts; i++)
		all = (add_disk(box, (dev_t)plan->mounts[i].dev) || plan->mounts[i].in_memory) &&
		      !plan->mounts[i].recursive && all;
	return all;
}

int cbx_group_check(struct cbx_box *box, const struct cbx_plan *plan, dev_t image_dev, bool required,
		    struct cbx_err *err)
{
	const struct cbx_cgroup_limits *l = &box->limits;
	const struct cbx_boxes *all = box->all;

	box->io_loose = (l->io_bytes || l->io_operations) && !find_disks(box, plan, image_dev);
	if (!required)
		return 0;
	if (!tree_of(all))
		return cbx_refuse(
			err, "no_cgroup", ENOTSUP,
			"cgroup: \"required\", but sessions cannot be limited by a control group here: %.400s",
			cbx_group_reason(all));
	if ((l->cpus_milli || l->cpu_weight != CBX_CPU_WEIGHT_DEFAULT) && !cbx_group_limits_cpus(all))
		return cbx_refuse(err, "no_cgroup", ENOTSUP,
				  "cgroup: \"required\", but %s cannot be limited here: %.400s; omit it, or "
				  "delegate the cpu controller",
				  l->cpus_milli ? "cpus" : "cpu_weight", cbx_group_reason(all));
	if (box->io_loose)
		return cbx_refuse(
			err, "no_cgroup", ENOTSUP,
			"cgroup: \"required\", but io and io_operations cannot be limited here: %s; omit them, or %s",
			cbx_group_limits_io(all) ? "the image or a mount is on a file system without a known disk"
						 : "the io controller is not delegated",
			cbx_group_limits_io(all) ? "use another file system, such as ext4 or xfs" : "delegate it");
	return 0;
}

/* ---- beginning ---- */

uint32_t cbx_group_process_rlimit(const struct cbx_boxes *all, uint32_t processes)
{
	return processes + (tree_of(all) ? CBX_PROCESSES_SLACK : 0);
}

uint64_t cbx_group_data_rlimit(const struct cbx_boxes *all, uint64_t memory_bytes, uint32_t profile)
{
	return !tree_of(all) && profile == CBX_PROFILE_STRICT ? memory_bytes : 0;
}

static void leave_share(struct cbx_boxes *all, struct cbx_group_share *share)
{
	if (--share->n)
		return;
	cbx_close_p(&share->dir);
	cbx_cgroup_tenant_remove(all->config.cgroup, share->tenant);
	LIST_REMOVE(share, entry);
	free(share);
}

static int join_share(struct cbx_box *box, const struct cbx_cgroup_tree *tree, struct cbx_err *err)
{
	struct cbx_group_share *share;
	int r = 0;

	LIST_FOREACH(share, &box->all->shares, entry) {
		if (strcmp(share->tenant, box->tenant) == 0)
			break;
	}
	if (!share) {
		int dir = cbx_cgroup_tenant_open(tree, box->tenant, err);

		if (dir < 0)
			return dir;
		share = cbx_xcalloc(1, sizeof(*share));
		snprintf(share->tenant, sizeof(share->tenant), "%s", box->tenant);
		share->dir = dir;
		LIST_INSERT_HEAD(&box->all->shares, share, entry);
	}
	share->n++;
	if (share->weight != box->tenant_weight)
		r = cbx_cgroup_tenant_weigh(tree, share->dir, box->tenant_weight, err);
	if (r < 0) {
		leave_share(box->all, share);
		return r;
	}
	share->weight = box->tenant_weight;
	box->share = share;
	return 0;
}

int cbx_group_open(struct cbx_box *box, uint64_t together, int ret_dirs[2], struct cbx_err *err)
{
	const struct cbx_cgroup_tree *tree = tree_of(box->all);
	int r = tree ? cbx_cgroup_tree_limit(tree, together, err) : 0;

	ret_dirs[0] = ret_dirs[1] = -1;
	if (r < 0)
		return cbx_wrap(err, "limit all sessions together");
	if (!tree)
		return 0;
	r = join_share(box, tree, err);
	if (r < 0)
		return cbx_wrap(err, "limit the sessions of tenant %s", box->tenant);
	r = cbx_cgroup_make(tree, box->share->dir, box->number, &box->limits, &box->group, ret_dirs, err);
	if (r < 0)
		leave_share(box->all, take_ptr(&box->share));
	return r;
}

bool cbx_group_on(const struct cbx_box *box)
{
	return box->group.tree != NULL;
}

/* ---- cells ---- */

static void look(struct cbx_box *box)
{
	cbx_cgroup_read(&box->group, &box->use);
	box->use_ms = cbx_now_ms();
}

void cbx_group_look(struct cbx_box *box)
{
	if (!cbx_group_on(box))
		return;
	look(box);
	box->files_bytes = cbx_cgroup_files(&box->group);
}

bool cbx_group_begin(struct cbx_box *box, struct cbx_cgroup_usage *ret_before)
{
	if (!cbx_group_on(box))
		return false;
	cbx_cgroup_reset_peak(&box->group);
	look(box);
	*ret_before = box->use;
	(void)cbx_cgroup_refused(&box->group);
	return true;
}

bool cbx_group_end(struct cbx_box *box, const struct cbx_cgroup_usage *before, struct cbx_cgroup_usage *ret,
		   bool *ret_refused)
{
	if (!cbx_group_on(box))
		return false;
	look(box);
	*ret = box->use;
	ret->cpu_us -= before->cpu_us;
	ret->io_read -= before->io_read;
	ret->io_written -= before->io_written;
	*ret_refused = cbx_cgroup_refused(&box->group) > 0;
	return true;
}

/* ---- death ---- */

bool cbx_group_killed(struct cbx_box *box, bool *ret_own, uint64_t *ret_files)
{
	if (!cbx_group_on(box) || !cbx_cgroup_oom(&box->group, ret_own))
		return false;
	*ret_files = cbx_cgroup_files(&box->group);
	box->settle_until_ms = cbx_now_ms() + CBX_CGROUP_SETTLE_MS;
	return true;
}

static void settle_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_box *box = arg;

	box->all->events->settling(box);
}

/* The kernel killed all of work as one, but a process gives its memory back only when it gets to its end; a new
 * interpreter beside them would exceed the limit again, and be killed for it. */
bool cbx_group_settled(struct cbx_box *box)
{
	if (!box->settle_until_ms)
		return true;
	if (!cbx_group_on(box) || cbx_now_ms() > box->settle_until_ms || !cbx_cgroup_populated(&box->group)) {
		box->settle_until_ms = 0;
		return true;
	}
	if (!box->settle_timer)
		box->settle_timer = event_new(box->all->base, -1, 0, settle_event, box);
	if (box->settle_timer)
		cbx_timer_set(box->settle_timer, CBX_CGROUP_RETRY_MS);
	return !box->settle_timer;
}

/* False: its processes are still ending. */
static bool try_remove(struct cbx_boxes *all, const struct cbx_group_ending *g)
{
	int r = cbx_cgroup_remove(g->share->dir, g->number);
	char text[200];

	if (r == -EBUSY && g->tries < CBX_CGROUP_TRIES)
		return false;
	if (r < 0) {
		snprintf(text, sizeof(text), "control group " CBX_CGROUP_SESSION "%llu is left: %s",
			 (unsigned long long)g->number, strerror(-r));
		all->events->note(all->arg, text);
	}
	leave_share(all, g->share);
	return true;
}

static void remove_all(struct cbx_boxes *all)
{
	size_t n = 0;

	for (size_t i = 0; i < all->nending; i++) {
		struct cbx_group_ending g = all->ending[i];

		if (try_remove(all, &g))
			continue;
		g.tries++;
		all->ending[n++] = g;
	}
	all->nending = n;
	if (n && all->remove_timer)
		cbx_timer_set(all->remove_timer, CBX_CGROUP_RETRY_MS);
}

static void remove_event(evutil_socket_t fd, short what, void *arg)
{
	remove_all(arg);
}

void cbx_group_close(struct cbx_box *box)
{
	struct cbx_boxes *all = box->all;

	if (box->rest_timer)
		event_del(box->rest_timer);
	if (box->settle_timer)
		event_del(box->settle_timer);
	if (!cbx_group_on(box))
		return;
	cbx_cgroup_release(&box->group);
	if (!all->remove_timer)
		all->remove_timer = event_new(all->base, -1, 0, remove_event, all);
	all->ending = cbx_xrealloc(all->ending, (all->nending + 1) * sizeof(*all->ending));
	all->ending[all->nending++] = (struct cbx_group_ending){ .number = box->number,
								   .share = take_ptr(&box->share) };
	remove_all(all);
}

void cbx_group_release(struct cbx_box *box)
{
	cbx_event_free_p(&box->rest_timer);
	cbx_event_free_p(&box->settle_timer);
	cbx_cgroup_release(&box->group);
	if (box->share) /* it was never closed */
		leave_share(box->all, take_ptr(&box->share));
}

void cbx_group_finish(struct cbx_boxes *all)
{
	struct timespec pause = { .tv_nsec = CBX_CGROUP_RETRY_MS * 1000000 };

	cbx_event_free_p(&all->remove_timer);
	for (int i = 0; i < CBX_CGROUP_CLEAN_TRIES && all->nending; i++) {
		remove_all(all);
		if (all->nending)
			nanosleep(&pause, NULL);
	}
	while (all->nending)
		leave_share(all, all->ending[--all->nending].share);
	free(take_ptr(&all->ending));
}

/* ---- rest ---- */

/* It was idle for long enough; but something of it may be at work, and gets its time. */
static bool at_work(struct cbx_box *box, uint64_t now)
{
	uint64_t since = box->rest_looked_ms, before = box->rest_cpu_us;

	look(box);
	box->rest_looked_ms = now;
	box->rest_cpu_us = box->use.cpu_us;
	return !since || box->rest_cpu_us - before > (now - since) * AT_WORK_PER_MILLE;
}

static void rest_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_box *box = arg;
	uint64_t limit = box->all->config.freeze_idle_s * 1000ull, unused;
	struct cbx_err err;

	if (box->frozen || !cbx_group_on(box) || box->closed)
		return;
	unused = box->all->events->unused_ms(box);
	if (unused < limit) {
		box->rest_looked_ms = 0;
		cbx_timer_set(box->rest_timer, limit - unused);
		return;
	}
	if (at_work(box, cbx_now_ms()) || cbx_cgroup_freeze(&box->group, true, &err) < 0) {
		/* The first look only begins to count. */
		cbx_timer_set(box->rest_timer, limit < CBX_FREEZE_LOOK_MS ? limit : CBX_FREEZE_LOOK_MS);
		return;
	}
	box->frozen = true;
	box->reclaimed = cbx_cgroup_reclaim(&box->group, CBX_RECLAIM_MAX);
}

void cbx_group_rest_later(struct cbx_box *box)
{
	uint64_t limit = box->all->config.freeze_idle_s * 1000ull;

	if (!cbx_group_on(box) || !limit)
		return;
	if (!box->rest_timer)
		box->rest_timer = event_new(box->all->base, -1, 0, rest_event, box);
	if (box->rest_timer)
		cbx_timer_set(box->rest_timer, limit);
}

int cbx_group_thaw(struct cbx_box *box, struct cbx_err *err)
{
	int r;

	if (!box->frozen)
		return 0;
	box->frozen = false;
	box->rest_looked_ms = 0;
	r = cbx_cgroup_freeze(&box->group, false, err);
	if (r >= 0)
		cbx_group_rest_later(box);
	return r;
}
