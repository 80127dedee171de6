/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/dev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/syscalls.h"
#include "sandbox/mounts.h"
#include "sandbox/outer.h"

/* The working directory is /dev. */
static int mount_device(int dev, const char *name, struct cbx_err *err)
{
	char source[32];

	snprintf(source, sizeof(source), "/dev/%s", name);
	if (mknodat(dev, name, S_IFREG | 0644, 0) < 0)
		return cbx_fail(err, errno, "make %s", source);
	return cbx_mount_bind(source, name, err);
}

static int mount_shm(int dev, int root, const struct cbx_plan *plan, struct cbx_err *err)
{
	char size[48];
	const char *const options[] = { size, "mode=1777", NULL };

	if (mkdirat(dev, "shm", 0755) < 0)
		return cbx_fail(err, errno, "make /dev/shm");
	snprintf(size, sizeof(size), "size=%llu", (unsigned long long)plan->memory_bytes / 2);
	return cbx_mount_new_at("tmpfs", options,
				CBX_NOSUID_NODEV | (plan->noexec_workspace ? CBX_MOUNT_ATTR_NOEXEC : 0), root,
				"/dev/shm", err);
}

/* Pseudo-terminals: an instance of the session's own, which shows no other's. /dev/tty is whichever of them a process
 * has, or none. */
static int mount_terminals(int dev, int root, struct cbx_err *err)
{
	char max[24];
	const char *const options[] = { "mode=0620", "ptmxmode=0666", max, NULL };
	_cleanup_fd_ int mount = -1;

	if (mkdirat(dev, "pts", 0755) < 0 || symlinkat("pts/ptmx", dev, "ptmx") < 0)
		return cbx_fail(err, errno, "make /dev/pts");
	snprintf(max, sizeof(max), "max=%u", CBX_TERMINALS);
	mount = cbx_mount_new_at("devpts", options, CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NOEXEC, root, "/dev/pts",
				 err);
	return mount < 0 ? mount : mount_device(dev, CBX_OUTER_TTY, err);
}

/* The file system of the IPC namespace's message queues. Landlock's rule is for its root: a queue is opened as a file
 * beneath it, whether it is mounted or not. */
static int mount_queues(int dev, int root, struct cbx_err *err)
{
	_cleanup_fd_ int mount = -1;

	if (mkdirat(dev, "mqueue", 0755) < 0)
		return cbx_fail(err, errno, "make /dev/mqueue");
	mount = cbx_mount_new_at("mqueue", NULL, CBX_NOSUID_NODEV | CBX_MOUNT_ATTR_NOEXEC, root, "/dev/mqueue", err);
	return mount < 0 && err->code != ENODEV ? mount : 0; /* a kernel may be built without */
}

int cbx_dev_fill(int dev, int root, const struct cbx_plan *plan, bool zygote, int *ret_shm, struct cbx_err *err)
{
	static const struct {
		const char *name, *to;
	} links[] = {
		{ "fd", "/proc/self/fd" },
		{ "stdin", "/proc/self/fd/0" },
		{ "stdout", "/proc/self/fd/1" },
		{ "stderr", "/proc/self/fd/2" },
	};
	struct cbx_mount_attr ro = { .attr_set = CBX_MOUNT_ATTR_RDONLY };
	int r;

	if (fchdir(dev) < 0)
		return cbx_fail(err, errno, "change to /dev");
	for (size_t i = 0; cbx_outer_devices[i]; i++) {
		r = mount_device(dev, cbx_outer_devices[i], err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (symlinkat(links[i].to, dev, links[i].name) < 0)
			return cbx_fail(err, errno, "make /dev/%s", links[i].name);
	*ret_shm = mount_shm(dev, root, plan, err);
	if (*ret_shm < 0)
		return *ret_shm;
	/* What computes only needs neither. */
	if (!zygote && plan->profile != CBX_PROFILE_STRICT &&
	    ((r = mount_terminals(dev, root, err)) < 0 || (r = mount_queues(dev, root, err)) < 0))
		return r;
	return cbx_mount_setattr(dev, "", AT_EMPTY_PATH, &ro) < 0 ? cbx_fail(err, errno, "make /dev read-only") : 0;
}
