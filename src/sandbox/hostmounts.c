/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd decided by a path whose symbolic links it had resolved, and passes device and inode of
 * what it saw there. Here the path is opened without following any link, and what is found must be the same file, so
 * whoever can rename things on the way gains nothing: the mount is made from the descriptor that was checked.
 *
 * Mounts are not mapped to the session's id (MOUNT_ATTR_IDMAP): for that the kernel asks for CAP_SYS_ADMIN over the user
 * namespace that the file system belongs to, the machine's. Nothing that makes sandboxes has it, under root either: what
 * root started has given root up. So a session with mounts has the user's own id, and under root's codeboxd an id that
 * reads and writes what every user may.
 */
#include "sandbox/hostmounts.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/syscalls.h"
#include "sandbox/mounts.h"

int cbx_host_keep(int *ret_ns, struct cbx_err *err)
{
	int fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return cbx_fail(err, errno, "open the mount namespace");
	if (unshare(CLONE_NEWNS) < 0) {
		cbx_close_p(&fd);
		return cbx_fail(err, errno, "copy the mount namespace");
	}
	*ret_ns = fd;
	return 0;
}

/* ---- opening the sources ---- */

static int check_source(int fd, const struct cbx_plan_mount *m, struct cbx_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "mounts: look at %s", m->source);
	if (st.st_dev != m->dev || st.st_ino != m->ino || !(m->directory ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode)))
		return cbx_refuse(err, "mount_changed", ESTALE,
				  "mounts: %s is not what it was when the session was asked for; try again", m->source);
	return 0;
}

static int open_source(const struct cbx_plan_mount *m, int noexec, struct cbx_err *err)
{
	struct cbx_mount_attr attr = { .attr_set = CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NODEV |
						   (m->writable ? 0 : CBX_MOUNT_ATTR_RDONLY) |
						   (m->writable && noexec ? CBX_MOUNT_ATTR_NOEXEC : 0),
				       .propagation = MS_PRIVATE };
	unsigned tree = CBX_OPEN_TREE_CLONE | CBX_OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | (m->recursive ? AT_RECURSIVE : 0);
	_cleanup_fd_ int fd =
		cbx_openat2(AT_FDCWD, m->source, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	_cleanup_fd_ int mount = -1;
	int r;

	if (fd < 0)
		return cbx_fail(err, errno, "mounts: open %s", m->source);
	r = check_source(fd, m, err);
	if (r < 0)
		return r;
	mount = cbx_open_tree(fd, "", tree);
	/* What a mount hides, one that is not the machine's root may not uncover. */
	if (mount < 0 && errno == EINVAL && !m->recursive)
		return cbx_refuse(err, "mount_refused", EINVAL,
				  "mounts: other file systems are mounted below %s; ask for them too (recursive)",
				  m->source);
	if (mount < 0)
		return cbx_fail(err, errno, "mounts: copy the mount of %s", m->source);
	if (cbx_mount_setattr(mount, "", AT_EMPTY_PATH | (m->recursive ? AT_RECURSIVE : 0), &attr) < 0)
		return cbx_fail(err, errno, "mounts: restrict the mount of %s", m->source);
	return take_fd(&mount);
}

/* The short-lived process. Each message: a struct cbx_err, and where its code is 0 the mount. */
static void serve(int ns, const struct cbx_plan *plan, int sock)
{
	struct cbx_err err = { 0 };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		_exit(1);
	if (setns(ns, CLONE_NEWNS) < 0) {
		cbx_fail(&err, errno, "mounts: enter the machine's mount namespace");
		(void)cbx_send_fds(sock, &err, sizeof(err), NULL, 0);
		_exit(1);
	}
	for (uint32_t i = 0; i < plan->nmounts; i++) {
		_cleanup_fd_ int mount = open_source(&plan->mounts[i], plan->noexec_workspace != 0, &err);
		int r = cbx_send_fds(sock, &err, sizeof(err), &mount, mount >= 0);

		if (mount < 0 || r < 0)
			_exit(1);
	}
	_exit(0);
}

int cbx_host_open(int ns, const struct cbx_plan *plan, pid_t *ret_pid, struct cbx_err *err)
{
	_cleanup_fd_ int ours = -1, theirs = -1;
	int pair[2];
	pid_t pid;

	if (ns < 0)
		return cbx_refuse(err, "mount_refused", EPERM,
				  "mounts: the supervisor was started without them; restart codeboxd (codebox stop)");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cbx_fail(err, errno, "make a socket pair");
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid < 0)
		return cbx_fail(err, errno, "fork for mounts");
	if (pid == 0)
		serve(ns, plan, theirs);
	*ret_pid = pid;
	return take_fd(&ours);
}

/* ---- attaching them ---- */

static int make_target(int dir, const char *path, int directory, struct cbx_err *err)
{
	_cleanup_free_ char *parent = cbx_xstrdup(path);
	char *slash = strrchr(parent, '/');
	_cleanup_fd_ int fd = -1;
	int r = 0;

	if (directory)
		return cbx_mount_make_dirs(dir, path, err);
	if (slash) {
		*slash = '\0';
		r = cbx_mount_make_dirs(dir, parent, err);
	}
	if (r < 0)
		return r;
	fd = openat(dir, path, O_CREAT | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? cbx_fail(err, errno, "make /%s", path) : 0;
}

int cbx_host_make_targets(const struct cbx_plan *plan, int dir, int in_workspace, struct cbx_err *err)
{
	static const char workspace[] = CBX_INSIDE_WORKSPACE "/";
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < plan->nmounts; i++) {
		const struct cbx_plan_mount *m = &plan->mounts[i];
		int inside = cbx_starts_with(m->target, workspace);

		if (inside == in_workspace)
			r = make_target(dir, m->target + (inside ? sizeof(workspace) - 1 : 1), (int)m->directory, err);
	}
	return r;
}

static int receive(int from, struct cbx_err *err)
{
	struct cbx_err got = { 0 };
	int fds[CBX_FDS_MAX];
	size_t nfds = 0;
	ssize_t n = cbx_recv_fds(from, &got, sizeof(got), fds, &nfds);

	if (n == (ssize_t)sizeof(got) && nfds == 1 && !got.code)
		return fds[0];
	for (size_t i = 0; n > 0 && i < nfds; i++)
		close(fds[i]);
	if (n == (ssize_t)sizeof(got) && got.code) {
		cbx_err_sanitize(&got);
		*err = got;
		return -err->code;
	}
	return cbx_refuse(err, "mount_refused", EIO, "mounts: the process that opens them died; try again");
}

/* By the kernel, as the id that the session will have, without capabilities: access(2) counts none for an id but 0. */
static int check_access(int mount, const struct cbx_plan_mount *m, struct cbx_err *err)
{
	int search = m->directory ? X_OK : 0;

	if (faccessat(mount, "", R_OK | search, AT_EMPTY_PATH) < 0)
		return cbx_refuse(err, "mount_refused", errno,
				  "mounts: %s: the account that sessions have may not read it: %s; change its owner or "
				  "its mode, or choose another directory",
				  m->source, strerror(errno));
	if (m->writable && faccessat(mount, "", W_OK | search, AT_EMPTY_PATH) < 0)
		return cbx_refuse(err, "mount_refused", errno,
				  "mounts: %s: the account that sessions have may not write to it: %s; change its owner "
				  "or its mode, or ask for it read-only",
				  m->source, strerror(errno));
	return 0;
}

int cbx_host_attach(int from, const struct cbx_plan *plan, int root, struct cbx_err *err)
{
	for (uint32_t i = 0; i < plan->nmounts; i++) {
		const char *at = plan->mounts[i].target;
		_cleanup_fd_ int mount = receive(from, err);
		_cleanup_fd_ int target = mount < 0 ? -1 : cbx_mount_point(root, at, err);
		int r = mount < 0 ? mount : target < 0 ? target : cbx_mount_attach(mount, target, at, err);

		if (r == 0)
			r = check_access(mount, &plan->mounts[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}
