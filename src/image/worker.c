/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an archive is read by code that has had its share of memory errors, so it is read by a process
 * that has nothing to lose. The worker is made by one clone3() in new user, mount, pid, network and ipc namespaces. It
 *
 *   1. maps its own id, and no other;
 *   2. clones the mount of the directory to be filled (the parent has made it the working directory, since a clone must
 *      start from the new namespace's own mount), so that ".." ends there, and marks it nosuid, nodev and noexec;
 *   3. makes an empty read-only file system its root and lets go of everything else;
 *   4. gives up its capabilities, closes what it does not need, and limits its memory, time, files and processes.
 *
 * Only then does it look at the archive's first byte. It answers with a fixed-size struct through a pipe; the numbers
 * so far are in a shared page. Both are only numbers and text to the parent. Any step that fails ends the worker: there
 * is not a less protected way to unpack.
 *
 * The worker keeps the store's lock: were this process killed, the next build would wait for the worker to be gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/syscalls.h"
#include "image/image-limits.h"
#include "image/stage.h"
#include "image/tree.h"
#include "image/unpack.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Descriptors of the worker, in this order from 3 on. */
enum { FD_ARCHIVE = 3, FD_ROOT, FD_RESULT, FD_LOCK, FD_FIRST_UNUSED };

#define NEEDED                                                                                                   \
	"archives are unpacked in namespaces of their own, and this machine does not allow that (\"codebox doctor\" " \
	"says more)"

struct result {
	int32_t code;
	struct cbx_err err;
	struct cbx_unpack_stats stats;
};

static int write_proc(const char *path, const char *text, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		return cbx_fail(err, errno, "write %s", path);
	return 0;
}

static int map_self(uid_t uid, gid_t gid, struct cbx_err *err)
{
	char map[64];
	int r = write_proc("/proc/self/setgroups", "deny", err);

	if (r < 0)
		return r;
	snprintf(map, sizeof(map), "%u %u 1", (unsigned)uid, (unsigned)uid);
	r = write_proc("/proc/self/uid_map", map, err);
	if (r < 0)
		return r;
	snprintf(map, sizeof(map), "%u %u 1", (unsigned)gid, (unsigned)gid);
	return write_proc("/proc/self/gid_map", map, err);
}

/* The directory's own mount, without what surrounds it. */
static int isolate_root(int *ret, struct cbx_err *err)
{
	struct cbx_mount_attr attr = {
		.attr_set = CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NODEV | CBX_MOUNT_ATTR_NOEXEC,
	};
	int fd;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return cbx_fail(err, errno, "make mounts private");
	fd = cbx_open_tree(AT_FDCWD, ".", CBX_OPEN_TREE_CLONE | CBX_OPEN_TREE_CLOEXEC);
	if (fd < 0)
		return cbx_fail(err, errno, "clone the mount of the image's directory");
	if (cbx_mount_setattr(fd, "", AT_EMPTY_PATH, &attr) < 0) {
		int code = errno;

		close(fd);
		return cbx_fail(err, code, "restrict the mount of the image's directory");
	}
	*ret = fd;
	return 0;
}

static int empty_root(struct cbx_err *err)
{
	_cleanup_fd_ int fs = cbx_fsopen("tmpfs", CBX_FSOPEN_CLOEXEC), mnt = -1;

	if (fs < 0 || cbx_fsconfig(fs, CBX_FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return cbx_fail(err, errno, "make an empty file system");
	mnt = cbx_fsmount(fs, CBX_FSMOUNT_CLOEXEC,
			  CBX_MOUNT_ATTR_RDONLY | CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NODEV | CBX_MOUNT_ATTR_NOEXEC);
	if (mnt < 0 || cbx_move_mount(mnt, "", AT_FDCWD, "/", CBX_MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(mnt) < 0)
		return cbx_fail(err, errno, "mount an empty file system");
	/* Both places the same: the old root ends up on top of the new one, and is detached from there. */
	if (cbx_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return cbx_fail(err, errno, "leave the machine's file systems");
	return 0;
}

static int limit(int which, uint64_t value, struct cbx_err *err)
{
	struct rlimit rl = { .rlim_cur = value, .rlim_max = value };

	return setrlimit(which, &rl) < 0 ? cbx_fail(err, errno, "set a resource limit") : 0;
}

static int set_limits(struct cbx_err *err)
{
	int r = limit(RLIMIT_FSIZE, CBX_UNPACK_FILE_MAX, err);

	if (r == 0)
		r = limit(RLIMIT_CPU, CBX_WORKER_CPU_S, err);
	if (r == 0)
		r = limit(RLIMIT_NOFILE, CBX_WORKER_FILES, err);
	if (r == 0)
		r = limit(RLIMIT_CORE, 0, err);
	if (r == 0 && !SANITIZED) /* a sanitizer reserves terabytes of addresses, and starts a process to report */
		r = limit(RLIMIT_AS, CBX_WORKER_MEMORY_MAX, err);
	if (r == 0 && !SANITIZED)
		r = limit(RLIMIT_NPROC, 0, err);
	return r;
}

static int drop_privileges(struct cbx_err *err)
{
	cap_t none;
	int r;

	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return cbx_fail(err, errno, "drop a capability");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return cbx_fail(err, errno, "set no_new_privs");
	none = cap_init();
	r = none && cap_set_proc(none) == 0 ? 0 : cbx_fail(err, errno, "drop capabilities");
	cap_free(none);
	return r;
}

/* Put the descriptors that are kept at their places; all others are closed. */
static int arrange_fds(int archive, int root, int result, int lock, struct cbx_err *err)
{
	static const int to[] = { FD_ARCHIVE, FD_ROOT, FD_RESULT, FD_LOCK };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int from[] = { archive < 0 ? null : archive, root, result, lock < 0 ? null : lock };
	int r = null < 0 ? -errno : cbx_place_fds(from, to, ARRAY_SIZE(from));

	if (r < 0)
		return cbx_fail(err, -r, "arrange descriptors");
	for (int fd = 0; fd < (SANITIZED ? 2 : 3); fd++)
		if (dup2(null, fd) < 0)
			return cbx_fail(err, errno, "arrange descriptors");
	return cbx_close_range(FD_FIRST_UNUSED, ~0u, 0) < 0 ? cbx_fail(err, errno, "close descriptors") : 0;
}

struct ids {
	uid_t uid;
	gid_t gid;
};

/* *result moves with the descriptors. */
static int enter(const struct ids *ids, int archive, int *result, struct cbx_err *err)
{
	int root = -1, r = map_self(ids->uid, ids->gid, err);

	if (r == 0)
		r = isolate_root(&root, err);
	if (r == 0) /* before the root goes: /dev/null is still to be seen */
		r = arrange_fds(archive, root, *result, cbx_stage_lock_fd(), err);
	if (r == 0) {
		*result = FD_RESULT;
		r = empty_root(err);
	}
	if (r == 0)
		r = drop_privileges(err);
	if (r == 0)
		r = set_limits(err);
	return r < 0 ? cbx_wrap(err, NEEDED) : 0;
}

static _Noreturn void worker(const struct ids *ids, int archive, int result, const struct cbx_unpack_options *o,
			     struct cbx_unpack_stats *shared)
{
	struct result res = { 0 };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	res.code = enter(ids, archive, &result, &res.err);
	if (res.code == 0)
		res.code = cbx_unpack(FD_ARCHIVE, FD_ROOT, o, shared, &res.err);
	res.stats = *shared;
	(void)cbx_write_all(result, &res, sizeof(res));
	_exit(0);
}

static int wait_for_result(int fd, struct result *res, const struct cbx_unpack_stats *shared,
			   void (*progress)(void *, const struct cbx_unpack_stats *), void *arg)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int r = poll(&p, 1, progress ? 200 : -1);

		if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0)
			return cbx_read_full(fd, res, sizeof(*res)) == sizeof(*res) ? 0 : -EPIPE;
		if (progress)
			progress(arg, shared);
	}
}

static int died(int status, struct cbx_err *err)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		return cbx_refuse(err, "archive_too_large", EFBIG, "the archive takes more than %d s to unpack",
				  CBX_WORKER_CPU_S);
	if (WIFSIGNALED(status))
		return cbx_refuse(err, "damaged_archive", EBADMSG,
				  "the process that unpacks was ended by signal %d (%s)", WTERMSIG(status),
				  strsignal(WTERMSIG(status)));
	return cbx_refuse(err, "damaged_archive", EBADMSG, "the process that unpacks ended without an answer");
}

static int no_namespaces(int code, struct cbx_err *err)
{
	if (code == ENOSPC || code == EUSERS)
		cbx_refuse(err, "no_namespaces", code,
			   "the limit user.max_user_namespaces is used up, or is 0; raise it (sysctl)");
	else
		cbx_fail(err, code, "make namespaces");
	return cbx_wrap(err, NEEDED);
}

static int start(int archive, int root, const int pipe_fds[2], const struct cbx_unpack_options *o,
		 struct cbx_unpack_stats *shared, pid_t *ret, struct cbx_err *err)
{
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC,
		.exit_signal = SIGCHLD,
	};
	struct ids ids = { .uid = geteuid(), .gid = getegid() };
	_cleanup_fd_ int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	pid_t pid;
	int code;

	if (fchdir(root) < 0)
		return cbx_fail(err, errno, "enter the image's directory");
	pid = cbx_clone3(&args);
	code = errno;
	if (pid == 0)
		worker(&ids, archive, pipe_fds[1], o, shared);
	if (back < 0 || fchdir(back) < 0)
		(void)!chdir("/");
	if (pid < 0)
		return no_namespaces(code, err);
	*ret = pid;
	return 0;
}

int cbx_unpack_in_worker(int archive, int root, const struct cbx_unpack_options *o, struct cbx_unpack_stats *stats,
			 void (*progress)(void *arg, const struct cbx_unpack_stats *so_far), void *arg,
			 struct cbx_err *err)
{
	_cleanup_fd_ int rd = -1, wr = -1;
	struct cbx_unpack_stats *shared;
	struct result res = { 0 };
	int fds[2], r, status = 0;
	pid_t pid = -1;

	memset(stats, 0, sizeof(*stats));
	if (pipe2(fds, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe");
	rd = fds[0];
	wr = fds[1];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return cbx_fail(err, errno, "share a page with the process that unpacks");
	r = start(archive, root, fds, o, shared, &pid, err);
	if (r == 0) {
		cbx_close_p(&wr);
		r = wait_for_result(rd, &res, shared, progress, arg);
		if (r < 0)
			kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (r < 0) {
			r = died(status, err);
		} else {
			*stats = res.stats;
			if (res.code != 0) { /* whatever the number: hostile bytes may have written it */
				*err = res.err;
				cbx_err_sanitize(err);
				r = -err->code;
			}
		}
	}
	munmap(shared, sizeof(*shared));
	return r;
}
