/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: whether a group is ours to use. An ordinary user's may be written to only when it was given to
 * that user: by the user's own systemd, or by a container's manager. Root may write to any, so what counts is systemd's
 * mark on groups that it delegates (the extended attribute trusted.delegate, and user.delegate since version 251);
 * where no systemd runs, as in a container, no other program writes to the tree.
 *
 * Taking it is done in an order that can be undone: move ourselves to a leaf, then ask for the controllers. The kernel
 * refuses them (EBUSY) while any process is in the inner group; then another program lives there, and it is not ours.
 */
#include "cgroup/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cgroup/files.h"
#include "cgroup/group.h"
#include "cgroup/parse.h"

#define SUPERVISOR "supervisor"
#define SESSIONS   "sessions"
#define TENANT	   "tenant-"
#define REMEDY	   "run codebox doctor for what to do"

const char *cbx_cgroup_backend_name(enum cbx_cgroup_backend backend)
{
	static const char *const names[] = { "none", "inherit", "scope" };

	return names[backend];
}

/* ---- finding ---- */

static int read_proc(const char *path, size_t max, struct cbx_buf *out, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return cbx_fail(err, errno, "open %s", path);
	r = cbx_read_whole(fd, max, out);
	return r < 0 ? cbx_fail(err, -r, "read %s", path) : 0;
}

static bool delegated_by_systemd(const char *dir)
{
	char v[2];

	return (getxattr(dir, "trusted.delegate", v, sizeof(v)) == 1 && v[0] == '1') ||
	       (getxattr(dir, "user.delegate", v, sizeof(v)) == 1 && v[0] == '1');
}

int cbx_cgroup_tree_find(const struct cbx_service *service, char *ret_dir, size_t cap, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf self_text = { 0 }, mounts = { 0 };
	char dir[CBX_CGROUP_PATH_MAX];
	struct cbx_cgroup_self self;
	struct statfs fs;
	int r;

	if ((r = read_proc("/proc/self/cgroup", CBX_CGROUP_SELF_MAX, &self_text, err)) < 0 ||
	    (r = cbx_cgroup_parse_self(self_text.data, self_text.len, &self, err)) < 0)
		return r;
	if (self.v1)
		return cbx_refuse(
			err, "cgroup", ENOTSUP,
			"this machine has control groups of version 1, or both versions mixed, and limits of a "
			"sandbox as a whole need version 2 alone; boot with systemd.unified_cgroup_hierarchy=1");
	if (!self.path[0])
		return cbx_refuse(err, "cgroup", ENOTSUP, "this kernel shows no control groups of version 2");
	if ((r = read_proc("/proc/self/mountinfo", CBX_CGROUP_MOUNTS_MAX, &mounts, err)) < 0 ||
	    (r = cbx_cgroup_parse_mounts(mounts.data, mounts.len, self.path, dir, err)) < 0)
		return r;
	if (strlen(dir) >= cap)
		return cbx_refuse(err, "cgroup", ENAMETOOLONG, "the path of our control group is too long");
	if (statfs(dir, &fs) < 0)
		return cbx_fail(err, errno, "look at our control group %s", dir);
	if (fs.f_type != CGROUP2_SUPER_MAGIC)
		return cbx_refuse(err, "cgroup", ENOTSUP, "%.200s is not a control group, though it is listed as one",
				  dir);
	if (service->from_root && access("/run/systemd/system", F_OK) == 0 && !delegated_by_systemd(dir))
		return cbx_refuse(
			err, "cgroup", EPERM,
			"the group that codeboxd was started in (%.200s) belongs to systemd, which did not delegate "
			"it; start codeboxd by its unit: systemctl enable --now codeboxd.socket",
			self.path);
	strcpy(ret_dir, dir);
	return 0;
}

/* ---- taking ---- */

/* What systemd gives away with Delegate= for User=; and of the group that is made here, its limit. */
static int give_to_service(int dir, bool made, const struct cbx_service *service, struct cbx_err *err)
{
	static const char *const files[] = { "", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads",
					     "memory.max" };
	struct stat st;

	if (!service->from_root)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(files) - !made; i++)
		if (fchownat(dir, files[i], service->uid, service->gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
			return cbx_fail(err, errno, "give our control group's %s to user %u",
					files[i][0] ? files[i] : "directory", (unsigned)service->uid);
	/* The root of all groups is nobody's to write, its owner's neither; only to root does that make no difference. */
	if (fstat(dir, &st) < 0 || (!(st.st_mode & 0200) && fchmod(dir, (st.st_mode & 07777) | 0200) < 0))
		return cbx_fail(err, errno, "let user %u write to our control group", (unsigned)service->uid);
	return 0;
}

static int check_usable(int dir, unsigned *ret, struct cbx_err *err)
{
	static const char *const files[] = { ".", "cgroup.procs", "cgroup.subtree_control" };
	char text[CBX_CGROUP_TEXT_MAX];
	ssize_t n;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (faccessat(dir, files[i], W_OK, AT_EACCESS) < 0)
			return cbx_refuse(
				err, "cgroup", errno,
				"no control group is delegated to codeboxd: it may not write to the one that it was "
				"started in; " REMEDY);
	n = cbx_read_small(dir, "cgroup.controllers", text, sizeof(text));
	if (n < 0)
		return cbx_fail(err, (int)-n, "read the controllers of our control group");
	*ret = cbx_cgroup_parse_controllers(text, (size_t)n);
	if (!(*ret & CBX_CONTROLLER_MEMORY) || !(*ret & CBX_CONTROLLER_PIDS))
		return cbx_refuse(err, "cgroup", ENOTSUP, "our control group has no %s controller; " REMEDY,
				  *ret & CBX_CONTROLLER_MEMORY ? "pids" : "memory");
	return 0;
}

/* The leaf for ourselves, locked. */
static int make_supervisor(int dir, struct cbx_err *err)
{
	_cleanup_fd_ int fd = -1;

	if (mkdirat(dir, SUPERVISOR, 0755) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make a control group for codeboxd itself");
	fd = openat(dir, SUPERVISOR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return cbx_fail(err, errno, "open codeboxd's own control group");
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return cbx_refuse(
			err, "cgroup", EBUSY,
			"another codeboxd serves from the same control group; start this one in a group of its own");
	return take_fd(&fd);
}

static int enable(int dir, unsigned have, unsigned *ret, struct cbx_err *err)
{
	static const struct {
		const char *value;
		unsigned bit;
	} wanted[] = { { "+memory", CBX_CONTROLLER_MEMORY },
		       { "+pids", CBX_CONTROLLER_PIDS },
		       { "+cpu", CBX_CONTROLLER_CPU },
		       { "+io", CBX_CONTROLLER_IO } };

	*ret = 0;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		struct cbx_err why;
		int r;

		if (!(have & wanted[i].bit))
			continue;
		r = cbx_cgroup_put(dir, "cgroup.subtree_control", wanted[i].value, &why);
		if (r == 0) {
			*ret |= wanted[i].bit;
			continue;
		}
		if (wanted[i].bit & (CBX_CONTROLLER_CPU | CBX_CONTROLLER_IO))
			continue; /* sessions do without; what that means is said where it matters */
		if (r == -EBUSY)
			return cbx_refuse(
				err, "cgroup", EBUSY,
				"other processes than codeboxd are in the control group that it was started in, so it "
				"cannot be divided among sessions; " REMEDY);
		*err = why;
		return r;
	}
	return 0;
}

/* The group that all sessions are in. */
static int make_sessions(int dir, unsigned have, const struct cbx_service *service, unsigned *ret_controllers,
			 struct cbx_err *err)
{
	_cleanup_fd_ int fd = -1;
	int r;

	if (mkdirat(dir, SESSIONS, 0755) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make a control group for all sessions");
	fd = openat(dir, SESSIONS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return cbx_fail(err, errno, "open the control group of all sessions");
	if ((r = give_to_service(fd, true, service, err)) < 0 || (r = enable(fd, have, ret_controllers, err)) < 0)
		return r;
	return take_fd(&fd);
}

/* Sessions of a codeboxd that was killed, here and in the groups of tenants. Its processes are dead, or will be in a
 * moment. */
static void clean(int parent, const char *name, bool tenants)
{
	int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *d = dir < 0 ? NULL : fdopendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		struct cbx_err ignored;
		uint64_t number;

		if (tenants && cbx_starts_with(e->d_name, TENANT)) {
			clean(dir, e->d_name, false);
			(void)unlinkat(dir, e->d_name, AT_REMOVEDIR);
		}
		if (!cbx_starts_with(e->d_name, CBX_CGROUP_SESSION) ||
		    cbx_parse_u64(e->d_name + strlen(CBX_CGROUP_SESSION), "number", 0, UINT64_MAX, &number, &ignored) <
			    0)
			continue;
		for (int i = 0; i < CBX_CGROUP_CLEAN_TRIES && cbx_cgroup_remove(dir, number) == -EBUSY; i++)
			usleep(CBX_CGROUP_RETRY_MS * 1000);
	}
}

static int take(struct cbx_cgroup_tree *tree, int dir, const struct cbx_service *service, struct cbx_err *err)
{
	_cleanup_fd_ int lock = -1, sessions = -1;
	struct cbx_err ignored;
	unsigned have = 0, controllers = 0;
	int r;

	if ((r = give_to_service(dir, false, service, err)) < 0 || (r = check_usable(dir, &have, err)) < 0)
		return r;
	lock = make_supervisor(dir, err);
	if (lock < 0)
		return lock;
	r = cbx_cgroup_put(lock, "cgroup.procs", "0", err); /* 0: the process that writes */
	if (r == 0)
		r = enable(dir, have, &controllers, err);
	if (r == 0)
		r = sessions = make_sessions(dir, controllers, service, &controllers, err);
	if (r < 0) {
		(void)unlinkat(dir, SESSIONS, AT_REMOVEDIR);
		(void)cbx_cgroup_put(dir, "cgroup.procs", "0", &ignored);
		(void)unlinkat(dir, SUPERVISOR, AT_REMOVEDIR);
		return r;
	}
	clean(sessions, ".", true);
	tree->controllers = controllers;
	tree->sessions = take_fd(&sessions);
	tree->lock = take_fd(&lock);
	return 0;
}

void cbx_cgroup_tree_take(struct cbx_cgroup_tree *tree, int dir, const char *name, const struct cbx_service *service)
{
	_cleanup_fd_ int own = dir;
	struct cbx_err err = { 0 };

	*tree = CBX_CGROUP_TREE_NONE;
	if (take(tree, own, service, &err) < 0) {
		snprintf(tree->reason, sizeof(tree->reason), "%s", err.msg);
		return;
	}
	tree->backend = cbx_ends_with(name, ".scope") ? CBX_CGROUP_SCOPE : CBX_CGROUP_INHERIT;
	snprintf(tree->reason, sizeof(tree->reason), "codeboxd was started in a delegated control group, %.200s%s",
		 name,
		 tree->controllers & CBX_CONTROLLER_CPU ? "" : "; it has no cpu controller, so cpus cannot be limited");
}

void cbx_cgroup_tree_open(struct cbx_cgroup_tree *tree, const struct cbx_service *service)
{
	char path[CBX_CGROUP_PATH_MAX];
	struct cbx_err err = { 0 };
	const char *name;
	int dir = -1;

	if (cbx_cgroup_tree_find(service, path, sizeof(path), &err) == 0) {
		dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0)
			cbx_fail(&err, errno, "open our control group %s", path);
	}
	if (dir < 0) {
		*tree = CBX_CGROUP_TREE_NONE;
		snprintf(tree->reason, sizeof(tree->reason), "%s", err.msg);
		return;
	}
	name = strrchr(path, '/');
	cbx_cgroup_tree_take(tree, dir, name && name[1] ? name + 1 : path, service);
	if (tree->controllers & CBX_CONTROLLER_IO)
		cbx_disks_read(&tree->disks, "/sys/dev/block");
}

int cbx_cgroup_tree_limit(const struct cbx_cgroup_tree *tree, uint64_t memory_bytes, struct cbx_err *err)
{
	char text[32] = "max";

	if (memory_bytes)
		snprintf(text, sizeof(text), "%" PRIu64, memory_bytes);
	return cbx_cgroup_put(tree->sessions, "memory.max", text, err);
}

static void tenant_name(const char *tenant, char out[sizeof(TENANT) + CBX_NAME_MAX])
{
	snprintf(out, sizeof(TENANT) + CBX_NAME_MAX, TENANT "%s", tenant);
}

int cbx_cgroup_tenant_open(const struct cbx_cgroup_tree *tree, const char *tenant, struct cbx_err *err)
{
	char name[sizeof(TENANT) + CBX_NAME_MAX];
	_cleanup_fd_ int dir = -1;
	unsigned in_force;
	int r;

	tenant_name(tenant, name);
	if (mkdirat(tree->sessions, name, 0755) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make control group %s", name);
	dir = openat(tree->sessions, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return cbx_fail(err, errno, "open control group %s", name);
	r = enable(dir, tree->controllers, &in_force, err);
	if (r >= 0 && in_force != tree->controllers)
		r = cbx_refuse(err, "cgroup", EIO, "control group %s has not all controllers of its parent", name);
	if (r < 0) {
		cbx_cgroup_tenant_remove(tree, tenant);
		return r;
	}
	return take_fd(&dir);
}

void cbx_cgroup_tenant_remove(const struct cbx_cgroup_tree *tree, const char *tenant)
{
	char name[sizeof(TENANT) + CBX_NAME_MAX];

	tenant_name(tenant, name);
	(void)unlinkat(tree->sessions, name, AT_REMOVEDIR); /* EBUSY: a session of it is left, which is in the log */
}

int cbx_cgroup_tenant_weigh(const struct cbx_cgroup_tree *tree, int dir, uint32_t weight, struct cbx_err *err)
{
	char text[16];

	snprintf(text, sizeof(text), "%" PRIu32, weight);
	return tree->controllers & CBX_CONTROLLER_CPU ? cbx_cgroup_put(dir, "cpu.weight", text, err) : 0;
}

void cbx_cgroup_tree_release(struct cbx_cgroup_tree *tree)
{
	cbx_close_p(&tree->sessions);
	cbx_close_p(&tree->lock);
	cbx_disks_release(&tree->disks);
}
