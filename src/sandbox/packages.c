/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the overlay is made out here, where its directory has a name, and is moved into the sandbox by its
 * descriptor. Mount points are directories of a small tmpfs, which comes with the first one. It belongs to the outer
 * namespace's user 0 and is read-only inside; for a new directory a copy of the mount is made writable for us alone.
 */
#include "sandbox/packages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/syscalls.h"
#include "sandbox/mounts.h"
#include "sandbox/outer.h"
#include "sandbox/plan.h"

#define RO (CBX_MOUNT_ATTR_RDONLY | CBX_NOSUID_NODEV)

static int make_overlay(const char *name, struct cbx_err *err)
{
	char lower[sizeof("lowerdir=" CBX_OUTER_PACKAGES "/:/empty") + CBX_PACKAGES_NAME];
	const char *const options[] = { lower, "userxattr", NULL };

	/* Without an upper layer the kernel wants two lower ones. */
	snprintf(lower, sizeof(lower), "lowerdir=" CBX_OUTER_PACKAGES "/%s:/empty", name);
	return cbx_mount_new("overlay", options, RO, err);
}

/* The tmpfs, writable for us, whether or not it is in its place yet. */
static int open_places(int root, bool *ret_new, struct cbx_err *err)
{
	static const char *const options[] = { "size=64k", "nr_inodes=4096", "mode=0755", NULL };
	struct cbx_mount_attr writable = { .attr_clr = CBX_MOUNT_ATTR_RDONLY };
	_cleanup_fd_ int at = cbx_mount_point(root, CBX_INSIDE_PACKAGES, err), mount = -1;
	struct statfs st;

	if (at < 0)
		return at;
	if (fstatfs(at, &st) < 0)
		return cbx_fail(err, errno, "look at " CBX_INSIDE_PACKAGES);
	*ret_new = st.f_type != TMPFS_MAGIC;
	if (*ret_new)
		return cbx_mount_new("tmpfs", options, CBX_NOSUID_NODEV, err);
	mount = cbx_open_tree(at, "", CBX_OPEN_TREE_CLONE | CBX_OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (mount < 0 || cbx_mount_setattr(mount, "", AT_EMPTY_PATH, &writable) < 0)
		return cbx_fail(err, errno, "open the places of packages");
	return take_fd(&mount);
}

static int make_place(int root, const char *name, struct cbx_err *err)
{
	struct cbx_mount_attr ro = { .attr_set = CBX_MOUNT_ATTR_RDONLY };
	_cleanup_fd_ int places = -1, at = -1;
	bool new = false;

	places = open_places(root, &new, err);
	if (places < 0)
		return places;
	if (mkdirat(places, name, 0755) < 0)
		return cbx_fail(err, errno, "make a place for packages");
	if (!new)
		return 0;
	if (cbx_mount_setattr(places, "", AT_EMPTY_PATH, &ro) < 0)
		return cbx_fail(err, errno, "restrict the places of packages");
	at = cbx_mount_point(root, CBX_INSIDE_PACKAGES, err);
	return at < 0 ? at : cbx_mount_attach(places, at, CBX_INSIDE_PACKAGES, err);
}

/* /node_modules leads to these from now on, if they are npm's: by one rename, for those who look meanwhile. */
static int turn_modules(int root, int overlay, const char *name, struct cbx_err *err)
{
	char to[CBX_PACKAGES_NAME + sizeof(CBX_INSIDE_MODULES)], there[sizeof(CBX_MODULES_LINK)];
	const char *link = strrchr(CBX_MODULES_LINK, '/') + 1;
	_cleanup_fd_ int places = -1;
	ssize_t n;
	bool new;

	if (faccessat(overlay, &CBX_INSIDE_MODULES[1], F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	n = readlinkat(root, &CBX_INSIDE_MODULES[1], there, sizeof(there));
	if (n != sizeof(there) - 1 || memcmp(there, CBX_MODULES_LINK, sizeof(there) - 1) != 0)
		return cbx_refuse(err, "no_packages", EEXIST,
				  "the session has a " CBX_INSIDE_MODULES
				  " of its own, of its image or a mount, which packages "
				  "of npm would hide; use another image");
	places = open_places(root, &new, err);
	if (places < 0)
		return places;
	snprintf(to, sizeof(to), "%s" CBX_INSIDE_MODULES, name);
	if (symlinkat(to, places, "new") < 0 || renameat(places, "new", places, link) < 0)
		return cbx_fail(err, errno, "turn " CBX_INSIDE_MODULES);
	return 0;
}

int cbx_packages_attach(int pidfd, const char *name, struct cbx_err *err)
{
	char place[sizeof(CBX_INSIDE_PACKAGES "/") + CBX_PACKAGES_NAME];
	_cleanup_fd_ int overlay = -1, root = -1, at = -1;
	int r;

	if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789") != CBX_PACKAGES_NAME || name[CBX_PACKAGES_NAME])
		return cbx_refuse(err, "protocol", EPROTO, "a directory of packages has an impossible name");
	overlay = make_overlay(name, err);
	if (overlay < 0)
		return overlay;
	if (setns(pidfd, CLONE_NEWNS) < 0)
		return cbx_fail(err, errno, "enter the sandbox's mounts");
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return cbx_fail(err, errno, "open the sandbox's root");
	r = make_place(root, name, err);
	if (r < 0)
		return r;
	snprintf(place, sizeof(place), CBX_INSIDE_PACKAGES "/%s", name);
	at = cbx_mount_point(root, place, err);
	r = at < 0 ? at : cbx_mount_attach(overlay, at, place, err);
	return r < 0 ? r : turn_modules(root, overlay, name, err);
}
