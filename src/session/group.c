/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: where codeboxd has a part of the cgroup tree (cgroup/tree.h), each session has a group. It is
 * made and limited before the sandbox is, and handed to the supervisor with the request for it. An interpreter is
 * started by init, in init's group; the supervisor is asked to move it as soon as there is one, and no cell runs before
 * it says that nothing but init is left behind. When that fails, so does the interpreter.
 *
 * A group's end: cgroup.kill, then rmdir as soon as the kernel is done with its processes. A list of groups that are
 * ending is kept apart from the sessions, which need not wait for it.
 *
 * Rest: a session without a cell for CBX_FREEZE_IDLE_S is stopped, unless its processes are at work by themselves, and
 * file pages that it has not used lately are given back. It goes on before anything is said to its interpreter. Init is
 * never stopped, so files can be read and written meanwhile.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "session/internal.h"

#define AT_WORK_PER_MILLE 5 /* of one processor's time: what uses more between cells is not stopped */

static const char none_reason[] = "codeboxd was not given one";

static const struct cbx_cgroup_tree *tree_of(const struct cbx_engine *e)
{
	const struct cbx_cgroup_tree *t = e->config.cgroup;

	return t && t->backend != CBX_CGROUP_NONE ? t : NULL;
}

const char *cbx_group_backend(const struct cbx_engine *e)
{
	const struct cbx_cgroup_tree *t = tree_of(e);

	return cbx_cgroup_backend_name(t ? t->backend : CBX_CGROUP_NONE);
}

const char *cbx_group_reason(const struct cbx_engine *e)
{
	return e->config.cgroup && e->config.cgroup->reason[0] ? e->config.cgroup->reason : none_reason;
}

bool cbx_group_limits_cpus(const struct cbx_engine *e)
{
	const struct cbx_cgroup_tree *t = tree_of(e);

	return t && (t->controllers & CBX_CONTROLLER_CPU);
}

bool cbx_group_limits_io(const struct cbx_engine *e)
{
	const struct cbx_cgroup_tree *t = tree_of(e);

	return t && (t->controllers & CBX_CONTROLLER_IO);
}

/* False: it is not known which disk that is. */
static bool add_disk(struct cbx_session *s, const char *path, dev_t dev)
{
	const struct cbx_cgroup_tree *tree = tree_of(s->engine);
	dev_t disk;
	int r = tree ? cbx_disks_find(&tree->disks, path, dev, &disk) : -ENODEV;

	if (r <= 0)
		return r == 0;
	for (size_t i = 0; i < s->ndisks; i++)
		if (s->disks[i] == disk)
			return true;
	s->disks[s->ndisks++] = disk;
	return true;
}

/* Of what is mounted in the session; its own files are held in memory. */
static bool find_disks(struct cbx_session *s, const struct cbx_plan *plan)
{
	bool all = cbx_group_limits_io(s->engine) &&
		   add_disk(s, s->engine->config.images_dir, (dev_t)s->image_mark.dev);
	struct stat st;

	_Static_assert(CBX_IO_DISKS >= CBX_PLAN_MOUNTS_MAX + 2, "a place for each");
	for (uint32_t i = 0; i < plan->nlayers; i++)
		if (strcmp(plan->layers[i].source, "host:/usr") == 0)
			all = stat("/usr", &st) == 0 && add_disk(s, "/usr", st.st_dev) && all;
	/* Below a recursive one there may be other file systems. */
	for (uint32_t i = 0; i < plan->nmounts; i++)
		all = add_disk(s, plan->mounts[i].source, (dev_t)plan->mounts[i].dev) && !plan->mounts[i].recursive &&
		      all;
	return all;
}

int cbx_group_check(struct cbx_session *s, const struct cbx_plan *plan, struct cbx_err *err)
{
	const struct cbx_session_spec *spec = &s->spec;
	const struct cbx_engine *e = s->engine;

	s->io_loose = (spec->io_bytes || spec->io_operations) && !find_disks(s, plan);
	if (spec->cgroup != CBX_CGROUP_REQUIRED)
		return 0;
	if (!tree_of(e))
		return cbx_refuse(
			err, "no_cgroup", ENOTSUP,
			"cgroup: \"required\", but sessions cannot be limited by a control group here: %.400s",
			cbx_group_reason(e));
	if ((spec->cpus_milli || spec->cpu_weight != CBX_CPU_WEIGHT_DEFAULT) && !cbx_group_limits_cpus(e))
		return cbx_refuse(
			err, "no_cgroup", ENOTSUP,
			"cgroup: \"required\", but %s cannot be limited here: %.400s; leave it out, or "
			"delegate the cpu controller",
			spec->cpus_milli ? "cpus" : "cpu_weight",
			cbx_group_reason(e));
	if (s->io_loose)
		return cbx_refuse(
			err, "no_cgroup", ENOTSUP,
			"cgroup: \"required\", but io and io_operations cannot be limited here: %s; leave them out, or %s",
			cbx_group_limits_io(e) ? "the image or a mount is on a file system that names no disk" :
						 "the io controller is not delegated",
			cbx_group_limits_io(e) ? "use another file system, such as ext4 or xfs" : "delegate it");
	return 0;
}

/* ---- beginning ---- */

uint32_t cbx_group_process_rlimit(const struct cbx_engine *e, const struct cbx_session_spec *spec)
{
	return spec->processes + (tree_of(e) ? CBX_PROCESSES_SLACK : 0);
}

int cbx_group_open(struct cbx_session *s, int ret_dirs[2], struct cbx_err *err)
{
	const struct cbx_cgroup_tree *tree = tree_of(s->engine);
	struct cbx_cgroup_limits limits = { .memory_bytes = s->spec.memory_bytes,
					    .disk_bytes = s->spec.disk_bytes,
					    .processes = s->spec.processes,
					    .cpus_milli = s->spec.cpus_milli,
					    .cpu_weight = s->spec.cpu_weight,
					    .io_bytes = s->spec.io_bytes,
					    .io_operations = s->spec.io_operations,
					    .ndisks = s->ndisks };

	memcpy(limits.disks, s->disks, sizeof(limits.disks));
	ret_dirs[0] = ret_dirs[1] = -1;
	return tree ? cbx_cgroup_make(tree, s->sandbox, &limits, &s->group, ret_dirs, err) : 0;
}

bool cbx_group_on(const struct cbx_session *s)
{
	return s->group.tree != NULL;
}

void cbx_group_gather(struct cbx_session *s)
{
	if (!cbx_group_on(s))
		return;
	s->moves++;
	s->interp.limited = false;
	cbx_link_move(s->engine, s->sandbox);
}

void cbx_group_limited(struct cbx_session *s)
{
	struct cbx_interp *in = &s->interp;

	in->limited = true;
	if (in->reported) {
		in->reported = false;
		cbx_interp_is_ready(s);
	}
}

void cbx_group_gathered(struct cbx_session *s, const struct cbx_err *err)
{
	/* An answer to a question about the interpreter before this one says nothing about this one. */
	if (s->moves == 0 || --s->moves || s->state == CBX_CLOSING)
		return;
	if (err)
		cbx_interp_fault(s, "it could not be put under its limits: %.200s", err->msg);
	else
		cbx_group_limited(s);
}

/* ---- cells ---- */

void cbx_group_cell_begins(struct cbx_execution *x)
{
	struct cbx_session *s = x->session;

	if (!cbx_group_on(s))
		return;
	cbx_cgroup_reset_peak(&s->group);
	cbx_cgroup_read(&s->group, &x->before);
	(void)cbx_cgroup_refused(&s->group);
}

void cbx_group_cell_ends(struct cbx_execution *x)
{
	struct cbx_session *s = x->session;
	struct cbx_cgroup_usage now;

	if (!cbx_group_on(s))
		return;
	cbx_cgroup_read(&s->group, &now);
	x->usage = (struct cbx_cell_usage){
		.source = "cgroup",
		.cpu_us = now.cpu_us - x->before.cpu_us,
		.has_memory = true,
		.memory = now.memory,
		.peak = now.peak,
		.peak_of = cbx_cgroup_peak_of(&s->group),
		.has_io = now.has_io,
		.io_read = now.io_read - x->before.io_read,
		.io_written = now.io_written - x->before.io_written,
	};
	if (cbx_cgroup_refused(&s->group))
		cbx_buf_addf(&x->note, "New processes or threads were refused: the session's limit of %u was reached. ",
			     s->spec.processes);
}

/* ---- death ---- */

void cbx_group_interpreter_killed(struct cbx_session *s)
{
	bool own;

	if (!cbx_group_on(s) || !cbx_cgroup_oom(&s->group, &own))
		return;
	s->interp.oom = true;
	s->interp.oom_outside = !own;
	s->interp.oom_files = cbx_cgroup_files(&s->group);
	s->settle_until_ms = cbx_now_ms() + CBX_CGROUP_SETTLE_MS;
}

static void settle_event(evutil_socket_t fd, short what, void *arg)
{
	cbx_session_work(arg);
}

/* The kernel killed all of work as one, but a process gives its memory back only when it gets to its end; a new
 * interpreter beside them would exceed the limit again, and be killed for it. */
bool cbx_group_settled(struct cbx_session *s)
{
	if (!s->settle_until_ms)
		return true;
	if (!cbx_group_on(s) || cbx_now_ms() > s->settle_until_ms || !cbx_cgroup_populated(&s->group)) {
		s->settle_until_ms = 0;
		return true;
	}
	if (!s->settle_timer)
		s->settle_timer = event_new(s->engine->base, -1, 0, settle_event, s);
	if (s->settle_timer)
		cbx_timer_set(s->settle_timer, CBX_CGROUP_RETRY_MS);
	return !s->settle_timer;
}

static void remove_event(evutil_socket_t fd, short what, void *arg);

/* False: its processes are still ending. */
static bool try_remove(struct cbx_engine *e, const struct cbx_group_ending *g)
{
	int r = cbx_cgroup_remove(e->config.cgroup->dir, g->number);
	char text[200];

	if (r == -EBUSY && g->tries < CBX_CGROUP_TRIES)
		return false;
	if (r < 0 && e->config.on_note) {
		snprintf(text, sizeof(text), "control group " CBX_CGROUP_SESSION "%llu is left: %s",
			 (unsigned long long)g->number, strerror(-r));
		e->config.on_note(e->config.arg, "(closed)", text);
	}
	return true;
}

static void remove_all(struct cbx_engine *e)
{
	size_t n = 0;

	for (size_t i = 0; i < e->nending; i++) {
		struct cbx_group_ending g = e->ending[i];

		if (try_remove(e, &g))
			continue;
		g.tries++;
		e->ending[n++] = g;
	}
	e->nending = n;
	if (n && e->remove_timer)
		cbx_timer_set(e->remove_timer, CBX_CGROUP_RETRY_MS);
}

static void remove_event(evutil_socket_t fd, short what, void *arg)
{
	remove_all(arg);
}

void cbx_group_close(struct cbx_session *s)
{
	struct cbx_engine *e = s->engine;

	if (s->rest_timer)
		event_del(s->rest_timer);
	if (s->settle_timer)
		event_del(s->settle_timer);
	if (!cbx_group_on(s))
		return;
	cbx_cgroup_release(&s->group);
	if (!e->remove_timer)
		e->remove_timer = event_new(e->base, -1, 0, remove_event, e);
	e->ending = cbx_xrealloc(e->ending, (e->nending + 1) * sizeof(*e->ending));
	e->ending[e->nending++] = (struct cbx_group_ending){ .number = s->sandbox };
	remove_all(e);
}

void cbx_group_finish(struct cbx_engine *e)
{
	struct timespec pause = { .tv_nsec = CBX_CGROUP_RETRY_MS * 1000000 };

	if (e->remove_timer)
		event_free(e->remove_timer);
	e->remove_timer = NULL;
	for (int i = 0; i < CBX_CGROUP_CLEAN_TRIES && e->nending; i++) {
		remove_all(e);
		if (e->nending)
			nanosleep(&pause, NULL);
	}
	free(take_ptr(&e->ending));
}

/* ---- looking ---- */

static void tell_askers(struct cbx_session *s, const cJSON *info, const struct cbx_err *err)
{
	struct cbx_asker *a;

	while ((a = TAILQ_FIRST(&s->askers))) {
		TAILQ_REMOVE(&s->askers, a, entry);
		a->fn(a->arg, info, err);
		free(a);
	}
}

bool cbx_session_describe(struct cbx_session *s, cbx_answer_fn fn, void *arg)
{
	bool first = TAILQ_EMPTY(&s->askers);
	struct cbx_asker *a;

	if (s->state != CBX_LIVE)
		return false;
	a = cbx_xcalloc(1, sizeof(*a));
	a->fn = fn;
	a->arg = arg;
	TAILQ_INSERT_TAIL(&s->askers, a, entry);
	if (first)
		cbx_link_measure(s->engine, s->sandbox);
	return true;
}

void cbx_group_measured(struct cbx_session *s, uint64_t pss)
{
	s->measured = true;
	s->pss = pss;
	cbx_group_drop_askers(s, NULL);
}

void cbx_group_drop_askers(struct cbx_session *s, const struct cbx_err *err)
{
	_cleanup_json_ cJSON *info = NULL;

	if (TAILQ_EMPTY(&s->askers))
		return;
	info = err ? NULL : cbx_session_to_json(s);
	tell_askers(s, info, err);
}

/* ---- rest ---- */

static uint64_t threshold(const struct cbx_engine *e)
{
	return e->config.freeze_idle_s * 1000ull;
}

static bool idle(const struct cbx_session *s)
{
	return s->state == CBX_LIVE && s->interp.state == CBX_INTERP_READY && !s->running && !s->nqueued &&
	       !s->nqueries && !s->interp.signals;
}

/* It was idle for long enough; but something of it may be at work, and gets its time. */
static bool at_work(struct cbx_session *s, uint64_t now)
{
	uint64_t since = s->rest_looked_ms, before = s->rest_cpu_us;
	struct cbx_cgroup_usage use;

	cbx_cgroup_read(&s->group, &use);
	s->rest_looked_ms = now;
	s->rest_cpu_us = use.cpu_us;
	return !since || use.cpu_us - before > (now - since) * AT_WORK_PER_MILLE;
}

static void rest_event(evutil_socket_t fd, short what, void *arg)
{
	struct cbx_session *s = arg;
	uint64_t now = cbx_now_ms(), limit = threshold(s->engine), unused = now - s->used_ms;
	struct cbx_err err;

	if (s->frozen || !cbx_group_on(s) || s->state != CBX_LIVE)
		return;
	if (!idle(s) || unused < limit) {
		s->rest_looked_ms = 0;
		cbx_timer_set(s->rest_timer, idle(s) ? limit - unused : limit);
		return;
	}
	if (at_work(s, now) || cbx_cgroup_freeze(&s->group, true, &err) < 0) {
		/* The first look only begins to count. */
		cbx_timer_set(s->rest_timer, limit < CBX_FREEZE_LOOK_MS ? limit : CBX_FREEZE_LOOK_MS);
		return;
	}
	s->frozen = true;
	s->reclaimed = cbx_cgroup_reclaim(&s->group, CBX_RECLAIM_MAX);
}

void cbx_group_rest_later(struct cbx_session *s)
{
	if (!cbx_group_on(s) || !threshold(s->engine))
		return;
	if (!s->rest_timer)
		s->rest_timer = event_new(s->engine->base, -1, 0, rest_event, s);
	if (s->rest_timer)
		cbx_timer_set(s->rest_timer, threshold(s->engine));
}

void cbx_group_thaw(struct cbx_session *s)
{
	struct cbx_err err;

	if (!s->frozen)
		return;
	s->frozen = false;
	s->rest_looked_ms = 0;
	if (cbx_cgroup_freeze(&s->group, false, &err) < 0)
		cbx_interp_fault(s, "it was stopped while it was idle, and cannot go on: %.200s", err.msg);
	else
		cbx_group_rest_later(s);
}
