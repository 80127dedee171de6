/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/mounts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/syscalls.h"
#include "sandbox/plan.h"

/* The file system context keeps messages of the form "e overlay: …" for whoever reads its descriptor. */
static int fail_with_log(int fsfd, const char *type, const char *what, struct cbx_err *err)
{
	int code = errno;
	char text[256];
	ssize_t n = read(fsfd, text, sizeof(text) - 1);

	if (n > 2) {
		text[n] = '\0';
		return cbx_fail(err, code, "mount %s: %s (%s)", type, what, text + 2);
	}
	return cbx_fail(err, code, "mount %s: %s", type, what);
}

int cbx_mount_new(const char *type, const char *const *options, unsigned attr, struct cbx_err *err)
{
	_cleanup_fd_ int fs = cbx_fsopen(type, CBX_FSOPEN_CLOEXEC);
	int mount;

	if (fs < 0)
		return cbx_fail(err, errno, "mount %s", type);
	for (; options && *options; options++) {
		const char *eq = strchr(*options, '=');
		char key[32];
		int r;

		if (eq) {
			snprintf(key, sizeof(key), "%.*s", (int)(eq - *options), *options);
			r = cbx_fsconfig(fs, CBX_FSCONFIG_SET_STRING, key, eq + 1, 0);
		} else {
			r = cbx_fsconfig(fs, CBX_FSCONFIG_SET_FLAG, *options, NULL, 0);
		}
		if (r < 0)
			return fail_with_log(fs, type, *options, err);
	}
	if (cbx_fsconfig(fs, CBX_FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return fail_with_log(fs, type, "create", err);
	mount = cbx_fsmount(fs, CBX_FSMOUNT_CLOEXEC, attr);
	if (mount < 0)
		return fail_with_log(fs, type, "fsmount", err);
	return mount;
}

int cbx_mount_copy(int dir, const char *path, unsigned attr, struct cbx_err *err)
{
	struct cbx_mount_attr a = { .attr_set = attr };
	_cleanup_fd_ int tree = cbx_open_tree(dir, path,
					      CBX_OPEN_TREE_CLONE | CBX_OPEN_TREE_CLOEXEC | AT_RECURSIVE |
						      AT_SYMLINK_NOFOLLOW | (*path ? 0 : AT_EMPTY_PATH));

	if (tree < 0)
		return cbx_fail(err, errno, "copy the mount of %s", *path ? path : "a tree");
	if (attr && cbx_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &a) < 0)
		return cbx_fail(err, errno, "restrict the mount of %s", *path ? path : "a tree");
	return take_fd(&tree);
}

int cbx_mount_bind(const char *source, const char *name, struct cbx_err *err)
{
	if (mount(source, name, NULL, MS_BIND, NULL) < 0)
		return cbx_fail(err, errno, "mount %s on %s", source, name);
	return 0;
}

int cbx_mount_attach(int mount, int target, const char *what, struct cbx_err *err)
{
	if (cbx_move_mount(mount, "", target, "", CBX_MOVE_MOUNT_F_EMPTY_PATH | CBX_MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return cbx_fail(err, errno, "attach the mount for %s", what);
	return 0;
}

int cbx_mount_point(int root, const char *path, struct cbx_err *err)
{
	int fd = cbx_openat2(root, path[0] == '/' ? (path[1] ? path + 1 : ".") : path, O_PATH | O_CLOEXEC, 0,
			     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

	if (fd < 0)
		return cbx_fail(err, errno, "open mount point %s", path);
	return fd;
}

int cbx_mount_new_at(const char *type, const char *const *options, unsigned attr, int root, const char *path,
		     struct cbx_err *err)
{
	_cleanup_fd_ int mount = cbx_mount_new(type, options, attr, err);
	_cleanup_fd_ int target = -1;
	int r;

	if (mount < 0)
		return mount;
	target = cbx_mount_point(root, path, err);
	if (target < 0)
		return target;
	r = cbx_mount_attach(mount, target, path, err);
	return r < 0 ? r : take_fd(&mount);
}

int cbx_mount_make_dirs(int dir, const char *path, struct cbx_err *err)
{
	char part[CBX_PATH_MAX];

	for (const char *p = path;; p++) {
		if (*p && *p != '/')
			continue;
		snprintf(part, sizeof(part), "%.*s", (int)(p - path), path);
		if (part[0] && mkdirat(dir, part, 0755) < 0 && errno != EEXIST)
			return cbx_fail(err, errno, "make directory %s", part);
		if (!*p)
			return 0;
	}
}

int cbx_mount_pivot(int root, struct cbx_err *err)
{
	_cleanup_fd_ int old = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (old < 0)
		return cbx_fail(err, errno, "open the old root");
	/* With both arguments "." the old root ends up mounted over the new one: no directory for it is needed. */
	if (fchdir(root) < 0)
		return cbx_fail(err, errno, "change to the new root");
	if (cbx_pivot_root(".", ".") < 0)
		return cbx_fail(err, errno, "pivot_root");
	if (fchdir(old) < 0)
		return cbx_fail(err, errno, "change to the old root");
	/* Loop: whatever had been stacked on the old root goes too. EINVAL means that "." is not a mount point any
	 * more. */
	while (umount2(".", MNT_DETACH) == 0)
		;
	if (errno != EINVAL)
		return cbx_fail(err, errno, "detach the old root");
	if (fchdir(root) < 0 || chdir("/") < 0)
		return cbx_fail(err, errno, "change to the new root");
	return 0;
}

int cbx_mount_all_private(struct cbx_err *err)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return cbx_fail(err, errno, "make all mounts private");
	return 0;
}
