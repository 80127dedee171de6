/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_SYSCALLS_H
#define CBX_BASE_SYSCALLS_H

/*
 * System calls that the oldest C library we build with does not wrap: the mount API (Linux 5.2, 5.12), clone3 (5.3),
 * openat2 (5.6), close_range (5.9), pidfd (5.1). Same conventions as libc: -1 and errno.
 */
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

enum {
	CBX_FSOPEN_CLOEXEC = 1,
	CBX_FSCONFIG_SET_FLAG = 0,
	CBX_FSCONFIG_SET_STRING = 1,
	CBX_FSCONFIG_CMD_CREATE = 6,
	CBX_FSMOUNT_CLOEXEC = 1,
	CBX_MOVE_MOUNT_F_EMPTY_PATH = 4,
	CBX_MOVE_MOUNT_T_EMPTY_PATH = 0x40,
	CBX_OPEN_TREE_CLONE = 1,
	CBX_OPEN_TREE_CLOEXEC = O_CLOEXEC,
	CBX_MOUNT_ATTR_RDONLY = 0x1,
	CBX_MOUNT_ATTR_NOSUID = 0x2,
	CBX_MOUNT_ATTR_NODEV = 0x4,
	CBX_MOUNT_ATTR_NOEXEC = 0x8,
	CBX_CLOSE_RANGE_CLOEXEC = 4,
};

struct cbx_mount_attr {
	uint64_t attr_set;
	uint64_t attr_clr;
	uint64_t propagation;
	uint64_t userns_fd;
};

static inline int cbx_fsopen(const char *type, unsigned flags)
{
	return (int)syscall(SYS_fsopen, type, flags);
}

static inline int cbx_fsconfig(int fd, unsigned cmd, const char *key, const void *value, int aux)
{
	return (int)syscall(SYS_fsconfig, fd, cmd, key, value, aux);
}

static inline int cbx_fsmount(int fd, unsigned flags, unsigned attr)
{
	return (int)syscall(SYS_fsmount, fd, flags, attr);
}

static inline int cbx_move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags)
{
	return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int cbx_open_tree(int dir, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int cbx_mount_setattr(int dir, const char *path, unsigned flags, struct cbx_mount_attr *a)
{
	return (int)syscall(442 /* mount_setattr, the same number everywhere */, dir, path, flags, a, sizeof(*a));
}

static inline int cbx_openat2(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
	struct open_how how = { .flags = flags, .mode = mode, .resolve = resolve };

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

static inline pid_t cbx_clone3(struct clone_args *a)
{
	return (pid_t)syscall(SYS_clone3, a, sizeof(*a));
}

static inline int cbx_close_range(unsigned first, unsigned last, unsigned flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int cbx_pivot_root(const char *new_root, const char *put_old)
{
	return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int cbx_pidfd_open(pid_t pid, unsigned flags)
{
	return (int)syscall(SYS_pidfd_open, pid, flags);
}

static inline int cbx_pidfd_send_signal(int pidfd, int sig)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}

#endif
