/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "cgroup/files.h"
#include "cgroup/parse.h"

#define CPU_PERIOD_US 100000 /* of cpu.max; the kernel's own default */
#define NAME_MAX_LEN  40

static void name_of(uint64_t number, char out[NAME_MAX_LEN])
{
	snprintf(out, NAME_MAX_LEN, CBX_CGROUP_SESSION "%" PRIu64, number);
}

static int put_u64(int dir, const char *name, uint64_t value, struct cbx_err *err)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return cbx_cgroup_put(dir, name, text, err);
}

/* ---- making ---- */

/* The kernel takes one disk at a time. */
static int limit_io(int dir, const struct cbx_cgroup_limits *l, struct cbx_err *err)
{
	char text[200], bytes[24] = "max", operations[24] = "max";
	int r = 0;

	if (l->io_bytes)
		snprintf(bytes, sizeof(bytes), "%" PRIu64, l->io_bytes);
	if (l->io_operations)
		snprintf(operations, sizeof(operations), "%" PRIu64, l->io_operations);
	for (size_t i = 0; r == 0 && i < l->ndisks; i++) {
		snprintf(text, sizeof(text), "%u:%u rbps=%s wbps=%s riops=%s wiops=%s", major(l->disks[i]),
			 minor(l->disks[i]), bytes, bytes, operations, operations);
		r = cbx_cgroup_put(dir, "io.max", text, err);
	}
	return r;
}

int cbx_cgroup_limit(int dir, unsigned controllers, const struct cbx_cgroup_limits *l, struct cbx_err *err)
{
	char cpu[64];
	int r;

	if ((r = put_u64(dir, "memory.max", l->memory_bytes + l->disk_bytes + CBX_INIT_MEMORY, err)) < 0 ||
	    (r = put_u64(dir, "pids.max", (uint64_t)l->processes + CBX_PROCESSES_SLACK, err)) < 0 ||
	    (r = put_u64(dir, "cgroup.max.descendants", 2, err)) < 0)
		return r;
	r = cbx_cgroup_put(dir, "memory.swap.max", "0", err);
	if (r < 0 && r != -ENOENT) /* a kernel without swap has no such file */
		return r;
	if (l->cpus_milli && (controllers & CBX_CONTROLLER_CPU)) {
		snprintf(cpu, sizeof(cpu), "%" PRIu64 " %d", (uint64_t)l->cpus_milli * (CPU_PERIOD_US / 1000),
			 CPU_PERIOD_US);
		r = cbx_cgroup_put(dir, "cpu.max", cpu, err);
		if (r < 0)
			return r;
	}
	if (l->cpu_weight != CBX_CPU_WEIGHT_DEFAULT && (controllers & CBX_CONTROLLER_CPU) &&
	    (r = put_u64(dir, "cpu.weight", l->cpu_weight, err)) < 0)
		return r;
	if ((l->io_bytes || l->io_operations) && (r = limit_io(dir, l, err)) < 0)
		return r;
	if ((r = put_u64(dir, "work/memory.max", l->memory_bytes, err)) < 0 ||
	    (r = cbx_cgroup_put(dir, "work/memory.oom.group", "1", err)) < 0)
		return r;
	return put_u64(dir, "work/pids.max", l->processes, err);
}

static int make_leaf(int dir, const char *name, struct cbx_err *err)
{
	int fd;

	if (mkdirat(dir, name, 0755) < 0)
		return cbx_fail(err, errno, "make control group %s of the session", name);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? cbx_fail(err, errno, "open control group %s of the session", name) : fd;
}

static void open_files(struct cbx_cgroup *g, int work, bool io)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC;

	g->cpu = openat(work, "cpu.stat", flags);
	g->io = io ? openat(work, "io.stat", flags) : -1;
	g->current = openat(work, "memory.current", flags);
	g->pids = openat(work, "pids.events", flags);
	g->events = openat(g->dir, "memory.events", flags); /* of all below it */
	/* Writing takes the peak anew for this descriptor, since Linux 6.12; before, the file cannot be opened so. */
	g->peak = openat(work, "memory.peak", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	g->peak_resets = g->peak >= 0 && write(g->peak, "r", 1) == 1;
	if (g->peak < 0)
		g->peak = openat(work, "memory.peak", flags);
}

static int make(const struct cbx_cgroup_tree *tree, int tenant_dir, const struct cbx_cgroup_limits *limits,
		struct cbx_cgroup *g, int dirs[2], struct cbx_err *err)
{
	char name[NAME_MAX_LEN];
	int r;

	name_of(g->number, name);
	if (mkdirat(tenant_dir, name, 0755) < 0) {
		/* Left by a predecessor, which could not be removed when we started. */
		if (errno != EEXIST || cbx_cgroup_remove(tenant_dir, g->number) < 0 ||
		    mkdirat(tenant_dir, name, 0755) < 0)
			return cbx_fail(err, errno, "make control group %s", name);
	}
	g->dir = openat(tenant_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (g->dir < 0)
		return cbx_fail(err, errno, "open control group %s", name);
	/* Processor time is shared out among sessions, not within one: no cpu here. */
	r = cbx_cgroup_put(g->dir, "cgroup.subtree_control",
			   tree->controllers & CBX_CONTROLLER_IO ? "+memory +pids +io" : "+memory +pids", err);
	if (r < 0)
		return r;
	if ((dirs[0] = make_leaf(g->dir, "init", err)) < 0)
		return dirs[0];
	if ((dirs[1] = make_leaf(g->dir, "work", err)) < 0)
		return dirs[1];
	r = cbx_cgroup_limit(g->dir, tree->controllers, limits, err);
	if (r == 0)
		open_files(g, dirs[1], tree->controllers & CBX_CONTROLLER_IO);
	return r;
}

void cbx_cgroup_init(struct cbx_cgroup *g)
{
	memset(g, 0, sizeof(*g));
	g->dir = g->cpu = g->io = g->current = g->peak = g->pids = g->events = -1;
}

int cbx_cgroup_make(const struct cbx_cgroup_tree *tree, int tenant_dir, uint64_t number,
		    const struct cbx_cgroup_limits *limits, struct cbx_cgroup *ret, int ret_dirs[2],
		    struct cbx_err *err)
{
	int r;

	cbx_cgroup_init(ret);
	ret->number = number;
	ret_dirs[0] = ret_dirs[1] = -1;
	r = make(tree, tenant_dir, limits, ret, ret_dirs, err);
	if (r < 0) {
		cbx_close_p(&ret_dirs[0]);
		cbx_close_p(&ret_dirs[1]);
		cbx_cgroup_release(ret);
		(void)cbx_cgroup_remove(tenant_dir, number);
		return cbx_wrap(err, "limit the session");
	}
	ret->tree = tree;
	return 0;
}

void cbx_cgroup_release(struct cbx_cgroup *g)
{
	int *fds[] = { &g->dir, &g->cpu, &g->io, &g->current, &g->peak, &g->pids, &g->events };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		cbx_close_p(fds[i]);
	g->tree = NULL;
}

int cbx_cgroup_remove(int tenant_dir, uint64_t number)
{
	static const char *const leaves[] = { "work", "init" };
	char name[NAME_MAX_LEN], leaf[NAME_MAX_LEN + 8];
	_cleanup_fd_ int dir = -1;
	struct cbx_err ignored;

	name_of(number, name);
	dir = openat(tenant_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT ? 0 : -errno;
	(void)cbx_cgroup_put(dir, "cgroup.kill", "1", &ignored);
	for (size_t i = 0; i < ARRAY_SIZE(leaves); i++) {
		snprintf(leaf, sizeof(leaf), "%s/%s", name, leaves[i]);
		if (unlinkat(tenant_dir, leaf, AT_REMOVEDIR) < 0 && errno != ENOENT)
			return -errno;
	}
	return unlinkat(tenant_dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

/* ---- looking ---- */

static ssize_t again(int fd, char *out, size_t cap)
{
	ssize_t n = fd < 0 ? -1 : pread(fd, out, cap, 0);

	return n < 0 ? 0 : n;
}

static uint64_t value_of(int fd, const char *key)
{
	char text[4096];
	uint64_t v = 0;
	ssize_t n = again(fd, text, sizeof(text));

	return cbx_cgroup_parse_value(text, (size_t)n, key, &v) ? v : 0;
}

static uint64_t number_of(int fd)
{
	char text[32];
	uint64_t v = 0;
	ssize_t n = again(fd, text, sizeof(text));

	return cbx_cgroup_parse_number(text, (size_t)n, &v) ? v : 0;
}

void cbx_cgroup_read(struct cbx_cgroup *g, struct cbx_cgroup_usage *ret)
{
	char text[CBX_CGROUP_TEXT_MAX];

	memset(ret, 0, sizeof(*ret));
	ret->cpu_us = value_of(g->cpu, "usage_usec");
	ret->has_io = g->io >= 0;
	if (ret->has_io)
		cbx_cgroup_parse_io(text, (size_t)again(g->io, text, sizeof(text)), &ret->io_read, &ret->io_written);
	ret->memory = number_of(g->current);
	if (ret->memory > g->seen_most)
		g->seen_most = ret->memory;
	ret->peak = g->peak >= 0 ? number_of(g->peak) : g->seen_most;
}

void cbx_cgroup_reset_peak(struct cbx_cgroup *g)
{
	if (g->peak_resets && pwrite(g->peak, "r", 1, 0) != 1)
		g->peak_resets = false;
}

const char *cbx_cgroup_peak_of(const struct cbx_cgroup *g)
{
	return g->peak_resets ? "cell" : g->peak >= 0 ? "session" : "samples";
}

uint64_t cbx_cgroup_refused(struct cbx_cgroup *g)
{
	uint64_t now = value_of(g->pids, "max"), more = now - g->pids_max;

	g->pids_max = now;
	return more;
}

bool cbx_cgroup_oom(struct cbx_cgroup *g, bool *ret_own)
{
	uint64_t oom = value_of(g->events, "oom"), kill = value_of(g->events, "oom_kill");
	bool killed = kill != g->oom_kill;

	*ret_own = oom != g->oom;
	g->oom = oom;
	g->oom_kill = kill;
	return killed;
}

bool cbx_cgroup_populated(const struct cbx_cgroup *g)
{
	char text[256];
	ssize_t n = cbx_read_small(g->dir, "work/cgroup.events", text, sizeof(text));
	uint64_t v = 0;

	return n > 0 && cbx_cgroup_parse_value(text, (size_t)n, "populated", &v) && v;
}

uint64_t cbx_cgroup_files(const struct cbx_cgroup *g)
{
	char text[CBX_CGROUP_TEXT_MAX];
	ssize_t n = g->dir < 0 ? -1 : cbx_read_small(g->dir, "memory.stat", text, sizeof(text));
	uint64_t v = 0;

	return n > 0 && cbx_cgroup_parse_value(text, (size_t)n, "shmem", &v) ? v : 0;
}

/* ---- resting ---- */

int cbx_cgroup_freeze(struct cbx_cgroup *g, bool on, struct cbx_err *err)
{
	return cbx_cgroup_put(g->dir, "work/cgroup.freeze", on ? "1" : "0", err);
}

uint64_t cbx_cgroup_reclaim(struct cbx_cgroup *g, uint64_t max)
{
	char text[CBX_CGROUP_TEXT_MAX];
	ssize_t n = cbx_read_small(g->dir, "work/memory.stat", text, sizeof(text));
	uint64_t inactive = 0;
	struct cbx_err ignored;

	/* Swap is off for sessions, so file pages are all that there is to take; those in use by others are active. */
	if (n <= 0 || !cbx_cgroup_parse_value(text, (size_t)n, "inactive_file", &inactive) || !inactive)
		return 0;
	if (inactive > max)
		inactive = max;
	/* EAGAIN: less than that could be taken; what could be, was. */
	return put_u64(g->dir, "work/memory.reclaim", inactive, &ignored) == 0 || ignored.code == EAGAIN ? inactive : 0;
}
