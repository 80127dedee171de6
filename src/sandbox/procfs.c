/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "sandbox/mounts.h"

#define SYS    "sys/"
#define LOCKED (CBX_MOUNT_ATTR_RDONLY | CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NODEV | CBX_MOUNT_ATTR_NOEXEC)

/* Tells about the machine or reaches into the kernel, or is counted for all of the machine's programs together, so that
 * one session could tell another one something by it: shown empty. Not every kernel has each. */
static const char *const masked[] = {
	"acpi",	     "asound",	     "buddyinfo",     "bus",	     "cgroups",	      "cmdline",     "config.gz",
	"consoles",  "crypto",	     "devices",	      "diskstats",   "dma",	      "driver",	     "dynamic_debug",
	"fb",	     "fs",	     "interrupts",    "iomem",	     "ioports",	      "irq",	     "kallsyms",
	"kcore",     "key-users",    "keys",	      "kmsg",	     "kpagecgroup",   "kpagecount",  "kpageflags",
	"latency_stats", "locks",    "misc",	      "modules",     "mtrr",	      "pagetypeinfo", "partitions",
	"pressure",  "sched_debug",  "schedstat",     "scsi",	     "slabinfo",      "softirqs",    "swaps",
	"sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo", "vmstat",	      "zoneinfo",
	/* On top of what is read-only. */
	SYS "dev",	SYS "fs/aio-nr",      SYS "fs/dentry-state",  SYS "fs/file-nr",	     SYS "fs/inode-nr",
	SYS "fs/inode-state", SYS "fs/quota", SYS "kernel/pty/nr",
};

/* Can change the kernel: read-only. */
static const char *const read_only[] = { "sys", "tty" };

int cbx_procfs_survey(struct cbx_outer *outer, struct cbx_err *err)
{
	struct stat st;

	_Static_assert(ARRAY_SIZE(masked) <= 64, "a bit for each");
	for (size_t i = 0; i < ARRAY_SIZE(masked); i++) {
		_cleanup_free_ char *path = cbx_xasprintf("/proc/%s", masked[i]);

		if (lstat(path, &st) < 0) {
			if (errno != ENOENT)
				return cbx_fail(err, errno, "look at %s", path);
			continue;
		}
		/* The machine's root owns it, an id that no namespace of ours has, and nobody else may open it: no
		 * capability within a sandbox's user namespace counts for such a file, and nobody inside has one. */
		if (!(st.st_mode & 077) && st.st_uid != 0 && S_ISREG(st.st_mode))
			continue;
		*(S_ISDIR(st.st_mode) ? &outer->masked_dirs : &outer->masked_files) |= 1ull << i;
	}
	return 0;
}

static int make_read_only(const char *name, struct cbx_err *err)
{
	struct cbx_mount_attr a = { .attr_set = CBX_MOUNT_ATTR_RDONLY };
	int r = cbx_mount_bind(name, name, err);

	if (r < 0)
		return err->code == ENOENT ? 0 : r;
	return cbx_mount_setattr(AT_FDCWD, name, 0, &a) < 0 ? cbx_fail(err, errno, "make /proc/%s read-only", name) : 0;
}

static int write_file(int dir, const char *name, const char *text, struct cbx_err *err)
{
	_cleanup_fd_ int fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
	int r;

	if (fd < 0)
		return cbx_fail(err, errno, "make /proc/%s", name);
	r = cbx_write_all(fd, text, strlen(text));
	return r < 0 ? cbx_fail(err, -r, "write /proc/%s", name) : 0;
}

/* The machine's would tell two sessions, and anybody they talk to, that they are on one machine. */
static int write_boot_id(int dir, struct cbx_err *err)
{
	unsigned char b[16];
	char text[64];

	if (getrandom(b, sizeof(b), 0) != sizeof(b))
		return cbx_fail(err, errno, "get random bytes");
	b[6] = (b[6] & 0x0f) | 0x40; /* a UUID of random bytes: version 4, variant 1 */
	b[8] = (b[8] & 0x3f) | 0x80;
	snprintf(text, sizeof(text), "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n", b[0], b[1],
		 b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
	return write_file(dir, "boot_id", text, err);
}

static void meminfo(struct cbx_buf *out, const struct cbx_plan *plan)
{
	unsigned long long kib = plan->memory_bytes / 1024;

	cbx_buf_addf(out,
		     "MemTotal:       %8llu kB\nMemFree:        %8llu kB\nMemAvailable:   %8llu kB\n"
		     "Buffers:               0 kB\nCached:                0 kB\nSwapCached:            0 kB\n"
		     "Active:                0 kB\nInactive:              0 kB\nSwapTotal:             0 kB\n"
		     "SwapFree:              0 kB\nShmem:                 0 kB\nSlab:                  0 kB\n",
		     kib, kib, kib);
}

static void stat_text(struct cbx_buf *out, unsigned cpus)
{
	cbx_buf_adds(out, "cpu  0 0 0 0 0 0 0 0 0 0\n");
	for (unsigned i = 0; i < cpus; i++)
		cbx_buf_addf(out, "cpu%u 0 0 0 0 0 0 0 0 0 0\n", i);
	cbx_buf_addf(out, "intr 0\nctxt 0\nbtime %lld\nprocesses 1\nprocs_running 1\nprocs_blocked 0\nsoftirq 0\n",
		     (long long)time(NULL));
}

/* The text of the first n processors: they are separated by empty lines. */
static void cpuinfo(struct cbx_buf *out, const char *all, unsigned n)
{
	const char *end = all;

	for (unsigned i = 0; i < n && end; i++) {
		end = strstr(end, "\n\n");
		if (end)
			end += 2;
	}
	cbx_buf_add(out, all, end ? (size_t)(end - all) : strlen(all));
}

/* Files of the session's tmpfs in place of some of /proc's. They are written first, then their directory is mounted on
 * itself with the attributes that they are to have. */
static int show_files(int store, const struct cbx_outer *outer, const struct cbx_plan *plan, struct cbx_err *err)
{
	unsigned wanted = (plan->cpus_milli + 999) / 1000, cpus = wanted && wanted < outer->cpus ? wanted : outer->cpus;
	_cleanup_buf_ struct cbx_buf mem = { 0 }, st = { 0 }, cpu = { 0 };
	_cleanup_fd_ int dir = -1, locked = -1;
	const struct {
		const char *name, *source, *text;
	} *f, files[] = {
		{ "meminfo", "/session/proc/meminfo", (meminfo(&mem, plan), cbx_buf_str(&mem)) },
		{ "stat", "/session/proc/stat", (stat_text(&st, cpus), cbx_buf_str(&st)) },
		{ "cpuinfo", "/session/proc/cpuinfo", (cpuinfo(&cpu, outer->cpuinfo, cpus), cbx_buf_str(&cpu)) },
		{ "uptime", "/session/proc/uptime", "0.00 0.00\n" },
		{ "loadavg", "/session/proc/loadavg", "0.00 0.00 0.00 1/1 1\n" },
	};
	int r = 0;

	if (mkdirat(store, "proc", 0700) < 0 || mkdirat(store, "proc/empty", 0755) < 0)
		return cbx_fail(err, errno, "make a directory for /proc's files");
	dir = openat(store, "proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return cbx_fail(err, errno, "open the directory for /proc's files");
	for (f = files; r == 0 && f < files + ARRAY_SIZE(files); f++)
		r = write_file(dir, f->name, f->text, err);
	if (r == 0)
		r = write_boot_id(dir, err);
	if (r == 0)
		r = locked = cbx_mount_copy(dir, "", LOCKED, err);
	if (r >= 0)
		r = cbx_mount_attach(locked, dir, "/proc's files", err);
	for (f = files; r == 0 && f < files + ARRAY_SIZE(files); f++)
		r = cbx_mount_bind(f->source, f->name, err);
	return r;
}

/*
 * The kernel counts some objects for each user namespace and, with them, for the user who made it: whose ceiling on the
 * machine (128 inotify instances) one sandbox could use up for all programs of that user. So it gets one of its own.
 * /proc/sys/user is that of the user namespace of whoever opens it, and asks for CAP_SYS_RESOURCE in it.
 */
static int set_ceilings(int proc, struct cbx_err *err)
{
	static const struct {
		const char *name;
		unsigned value;
	} ceilings[] = {
		{ "sys/user/max_inotify_instances", CBX_INOTIFY_INSTANCES },
		{ "sys/user/max_inotify_watches", CBX_INOTIFY_WATCHES },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ceilings); i++) {
		_cleanup_fd_ int fd = openat(proc, ceilings[i].name, O_WRONLY | O_CLOEXEC);
		char text[16];
		int n = snprintf(text, sizeof(text), "%u", ceilings[i].value);

		if (fd < 0 && errno == ENOENT)
			continue; /* a kernel without inotify */
		if (fd < 0 || write(fd, text, (size_t)n) != n)
			return cbx_fail(err, errno, "set /proc/%s", ceilings[i].name);
	}
	return 0;
}

/* One empty directory, of the session's own, and one null device serve for all. */
static int mask(const struct cbx_outer *outer, bool sys, struct cbx_err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(masked); i++)
		if (((outer->masked_dirs | outer->masked_files) & 1ull << i) && cbx_starts_with(masked[i], SYS) == sys)
			r = cbx_mount_bind(outer->masked_dirs >> i & 1 ? "/session/proc/empty" : "/null", masked[i],
					   err);
	return r;
}

/* Nothing but processes: there is nothing to mask, to show or to set (the strict profile has no inotify). Not hidepid
 * as well: init looks for what is left of an ended interpreter there, and a process could hide from it by making itself
 * undumpable. */
static int mount_processes(int root, struct cbx_err *err)
{
	static const char *const options[] = { "subset=pid", NULL };
	_cleanup_fd_ int proc =
		cbx_mount_new_at("proc", options, LOCKED, root, "/proc", err);

	return proc < 0 ? proc : 0;
}

int cbx_procfs_mount(int root, int store, const struct cbx_outer *outer, const struct cbx_plan *plan,
		     struct cbx_err *err)
{
	struct cbx_mount_attr ro = { .attr_set = CBX_MOUNT_ATTR_RDONLY };
	_cleanup_fd_ int proc = -1;
	int r;

	if (plan->profile == CBX_PROFILE_STRICT)
		return mount_processes(root, err);
	proc = cbx_mount_new_at("proc", NULL, CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NODEV | CBX_MOUNT_ATTR_NOEXEC,
				root, "/proc", err);
	if (proc < 0)
		return proc;
	if (fchdir(proc) < 0)
		return cbx_fail(err, errno, "change to /proc");
	r = set_ceilings(proc, err);
	if (r == 0)
		r = show_files(store, outer, plan, err);
	if (r == 0)
		r = mask(outer, false, err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(read_only); i++)
		r = make_read_only(read_only[i], err);
	if (r == 0)
		r = mask(outer, true, err);
	if (r == 0)
		r = cbx_mount_bind("/session/proc/boot_id", "sys/kernel/random/boot_id", err);
	/* A process could lower its own oom_score_adj. */
	if (r == 0 && cbx_mount_setattr(proc, "", AT_EMPTY_PATH, &ro) < 0)
		r = cbx_fail(err, errno, "make /proc read-only");
	return r;
}
