/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/outer.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/syscalls.h"
#include "sandbox/copies.h"
#include "sandbox/hostmounts.h"
#include "sandbox/landlock.h"
#include "sandbox/mounts.h"
#include "sandbox/procfs.h"

#define RO (CBX_MOUNT_ATTR_RDONLY | CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NODEV)

const char *const cbx_outer_devices[] = { "null", "zero", "full", "random", "urandom", NULL };

/* What the outer root is made of. Everything is opened with the ids that the supervisor was started with. */
struct part {
	char path[4096];    /* on the machine */
	const char *target; /* in the outer root */
	unsigned attr;
	int directory;
	int optional;
	int mount;
};

#define PARTS_MAX 16

static void add_part(struct part *parts, size_t *n, const char *target, unsigned attr, int directory, int optional,
		    const char *a, const char *b)
{
	struct part *p = &parts[(*n)++];

	snprintf(p->path, sizeof(p->path), "%s%s%s", a, *b ? "/" : "", b);
	p->target = target;
	p->attr = attr;
	p->directory = directory;
	p->optional = optional;
	p->mount = -1;
}

static size_t list_parts(const struct cbx_outer_paths *paths, struct part *parts)
{
	static const char *const targets[] = { "dev/null", "dev/zero", "dev/full", "dev/random", "dev/urandom" };
	size_t n = 0;

	add_part(parts, &n, "images", RO | CBX_MOUNT_ATTR_NOEXEC, 1, 0, paths->images, "");
	add_part(parts, &n, "runtimes", RO | CBX_MOUNT_ATTR_NOEXEC, 1, 0, paths->runtimes, "");
	if (paths->packages)
		add_part(parts, &n, &CBX_OUTER_PACKAGES[1], RO, 1, 0, paths->packages, "");
	add_part(parts, &n, "init", RO, 0, 0, paths->libexec, "codebox-init");
	add_part(parts, &n, "zygote.so", RO, 0, 0, paths->libexec, "codebox-zygote.so");
	add_part(parts, &n, "usr", RO, 1, 1, "/usr", "");
	/* Masks files of /proc: read-only, so that nothing is changed by writing there. */
	add_part(parts, &n, "null", (RO & ~(unsigned)CBX_MOUNT_ATTR_NODEV) | CBX_MOUNT_ATTR_NOEXEC, 0, 0, "/dev",
		 "null");
	for (size_t i = 0; cbx_outer_devices[i]; i++)
		add_part(parts, &n, targets[i], CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NOEXEC, 0, 0, "/dev",
			 cbx_outer_devices[i]);
	add_part(parts, &n, "dev/" CBX_OUTER_TTY, CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NOEXEC, 0, 0, "/dev",
		 CBX_OUTER_TTY);
	add_part(parts, &n, "dev/net/tun", CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NOEXEC, 0, 1, "/dev", "net/tun");
	return n;
}

/* Files shown as a mask must be what their names say: a /dev/null that is something else would be written to. */
static int check_device(const struct part *p, struct cbx_err *err)
{
	bool tty = !strcmp(p->target, "dev/" CBX_OUTER_TTY), tun = !strcmp(p->target, "dev/net/tun");
	struct stat st;

	if (!strncmp(p->path, "/dev/", 5)) {
		if (fstat(p->mount, &st) < 0)
			return cbx_fail(err, errno, "look at %s", p->path);
		if (!S_ISCHR(st.st_mode) || (tty   ? st.st_rdev != makedev(5, 0) :
					     tun ? st.st_rdev != makedev(10, 200) :
						   major(st.st_rdev) != 1))
			return cbx_refuse(err, "unsafe_device", EINVAL, "%s is not the %s device it should be", p->path,
					  tty ? "terminal" : tun ? "tun" : "memory");
	}
	return 0;
}

static int open_parts(struct part *parts, size_t n, struct cbx_err *err)
{
	for (size_t i = 0; i < n; i++) {
		int r;

		parts[i].mount = cbx_mount_copy(AT_FDCWD, parts[i].path, parts[i].attr, err);
		if (parts[i].mount < 0 && parts[i].optional && err->code == ENOENT)
			continue;
		if (parts[i].mount < 0)
			return parts[i].mount;
		r = check_device(&parts[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int become_zero(struct cbx_err *err)
{
	/* EPERM: an ordinary user's namespace refuses setgroups for good, and nothing is lost by that. */
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return cbx_fail(err, errno, "drop supplementary groups");
	if (setresgid(0, 0, 0) < 0)
		return cbx_fail(err, errno, "take group 0 of the outer namespace");
	if (setresuid(0, 0, 0) < 0)
		return cbx_fail(err, errno, "take user 0 of the outer namespace");
	return 0;
}

static int make_places(int root, const struct part *parts, size_t n, struct cbx_err *err)
{
	static const char *const dirs[] = { "dev", "dev/net", "proc", "session", "newroot", "empty", "tmp", "etc" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdirat(root, dirs[i], 0755) < 0)
			return cbx_fail(err, errno, "make /%s", dirs[i]);
	if (symlinkat("usr/lib", root, "lib") < 0 || symlinkat("usr/lib64", root, "lib64") < 0)
		return cbx_fail(err, errno, "make /lib");
	for (size_t i = 0; i < n; i++) {
		if (parts[i].directory) {
			if (mkdirat(root, parts[i].target, 0755) < 0)
				return cbx_fail(err, errno, "make /%s", parts[i].target);
		} else {
			_cleanup_fd_ int fd =
				openat(root, parts[i].target, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);

			if (fd < 0)
				return cbx_fail(err, errno, "make /%s", parts[i].target);
		}
	}
	return 0;
}

static int attach_parts(int root, const struct part *parts, size_t n, struct cbx_err *err)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_fd_ int target = -1;
		int r;

		if (parts[i].mount < 0)
			continue;
		target = cbx_mount_point(root, parts[i].target, err);
		if (target < 0)
			return target;
		r = cbx_mount_attach(parts[i].mount, target, parts[i].target, err);
		if (r < 0)
			return r;
		close(parts[i].mount);
	}
	return 0;
}

/* The drivers become a layer of every sandbox's root. A mount of them would tell where on the machine they are, such as
 * in whose home, and on which disk. */
static int copy_drivers(struct cbx_err *err)
{
	_cleanup_fd_ int to = -1;
	int r = cbx_mount_make_dirs(AT_FDCWD, CBX_OUTER_DRIVERS CBX_INSIDE_RUNTIMES, err);

	if (r < 0)
		return r;
	to = open(CBX_OUTER_DRIVERS CBX_INSIDE_RUNTIMES, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = to < 0 ? cbx_fail(err, errno, "open the drivers' place") : cbx_copy_tree(AT_FDCWD, "/runtimes", to, err);
	if (r == 0 && umount2("/runtimes", MNT_DETACH) < 0)
		r = cbx_fail(err, errno, "detach the drivers");
	return r < 0 ? cbx_wrap(err, "copy the drivers") : 0;
}

/* Try an overlay like a sandbox's, in the namespace that sandboxes descend from. */
static int try_overlay(void)
{
	static const char *const tmpfs[] = { "size=64k", "mode=0755", NULL };
	static const char *const overlay[] = { "lowerdir=/empty", "upperdir=/session/u", "workdir=/session/w",
					       "userxattr", NULL };
	_cleanup_fd_ int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), store = -1, mount = -1;
	struct cbx_err ignored;

	store = cbx_mount_new_at("tmpfs", tmpfs, RO & ~(unsigned)CBX_MOUNT_ATTR_RDONLY, root, "/session", &ignored);
	if (store < 0)
		return 0;
	if (mkdirat(store, "u", 0755) == 0 && mkdirat(store, "w", 0755) == 0)
		mount = cbx_mount_new("overlay", overlay, CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NODEV, &ignored);
	cbx_close_p(&store);
	umount2("/session", MNT_DETACH);
	return mount >= 0;
}

/* The first processors of /proc/cpuinfo; read once, since the kernel takes its time over it. */
static void read_cpuinfo(struct cbx_outer *outer)
{
	_cleanup_fd_ int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	struct cbx_buf text = { 0 };

	outer->cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	if (fd >= 0)
		(void)cbx_read_whole(fd, 1u << 20, &text);
	outer->cpuinfo = cbx_buf_steal(&text);
}

/*
 * A time namespace for all that comes after us: the clocks that begin at the machine's start begin now instead, and so
 * do sysinfo(2)'s uptime and the start times in /proc. One for all sandboxes costs none of them anything at its start;
 * what they could compare with it, they could compare with the time of day as well.
 */
static int start_clocks(struct cbx_err *err)
{
	_cleanup_fd_ int fd = -1;
	struct timespec mono, boot;
	char text[96];
	int n;

	if (unshare(CLONE_NEWTIME) < 0)
		return errno == EINVAL ? 0 : cbx_fail(err, errno, "make a time namespace"); /* built without */
	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	n = snprintf(text, sizeof(text), "monotonic -%lld 0\nboottime -%lld 0\n", (long long)mono.tv_sec,
		     (long long)boot.tv_sec);
	fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, text, (size_t)n) != n ? cbx_fail(err, errno, "set the clocks of sandboxes") : 0;
}

int cbx_outer_enter(const struct cbx_outer_paths *paths, struct cbx_outer *outer, struct cbx_err *err)
{
	static const char *const tmpfs[] = { "size=4m", "nr_inodes=256", "mode=0755", NULL };
	static struct part parts[PARTS_MAX];
	_cleanup_fd_ int root = -1, top = -1, proc = -1;
	size_t n = list_parts(paths, parts);
	int r;

	outer->host_ns = -1;
	r = start_clocks(err);
	if (r < 0)
		return r;
	if (paths->keep_host && (r = cbx_host_keep(&outer->host_ns, err)) < 0)
		return r;
	r = cbx_mount_all_private(err);
	if (r < 0)
		return r;
	r = open_parts(parts, n, err);
	if (r < 0)
		return r;
	r = become_zero(err);
	if (r < 0)
		return r;
	root = cbx_mount_new("tmpfs", tmpfs, CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NODEV, err);
	if (root < 0)
		return root;
	r = make_places(root, parts, n, err);
	if (r < 0)
		return r;
	/* pivot_root wants a mounted root; "/" is the one directory that is surely there. */
	top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return cbx_fail(err, errno, "open /");
	r = cbx_mount_attach(root, top, "the outer root", err);
	if (r < 0)
		return r;
	r = attach_parts(root, parts, n, err);
	if (r == 0)
		r = cbx_net_prepare(&outer->loopback, err);
	if (r < 0)
		return r;
	/* While the machine's own /proc is still in view: the kernel grants a new one only to who can see one whole. */
	proc = cbx_mount_new_at("proc", NULL, CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NODEV | CBX_MOUNT_ATTR_NOEXEC,
				root, "/proc", err);
	if (proc < 0)
		return proc;
	r = cbx_mount_pivot(root, err);
	if (r < 0)
		return r;
	r = copy_drivers(err);
	if (r < 0)
		return r;
	read_cpuinfo(outer);
	outer->overlay = try_overlay();
	outer->landlock_abi = cbx_landlock_abi();
	return cbx_procfs_survey(outer, err);
}
