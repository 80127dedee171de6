/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/self.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Landlock's interface, by value: the headers that we build with may be older than the kernel that we run on. */
enum {
	NR_CREATE_RULESET = 444,
	NR_ADD_RULE = 445,
	NR_RESTRICT_SELF = 446,
	CREATE_RULESET_VERSION = 1,
	RULE_PATH_BENEATH = 1,
};

struct ruleset {
	uint64_t fs, net, scoped;
};

struct path_beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

#define FS_EXECUTE    (1ull << 0)
#define FS_WRITE_FILE (1ull << 1)
#define FS_READ_FILE  (1ull << 2)
#define FS_READ_DIR   (1ull << 3)
#define FS_TRUNCATE   (1ull << 14)
#define FS_IOCTL_DEV  (1ull << 15)
#define OF_FILES      (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

/* What versions 1, 2, 3 and 5 of the interface can refuse: all of it is refused. */
static uint64_t fs_rights(long abi)
{
	return abi >= 5 ? (1ull << 16) - 1 : abi >= 3 ? (1ull << 15) - 1 : abi >= 2 ? (1ull << 14) - 1 : (1ull << 13) - 1;
}

static int add_path(int ruleset, const struct cbx_self_path *p, uint64_t handled, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(p->path, O_PATH | O_CLOEXEC);
	struct path_beneath rule = { .parent = fd };
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0; /* what is not there, or not for us, needs no rule */
	if (fd < 0 || fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "open %s", p->path);
	rule.allowed = p->write ? handled & ~(FS_EXECUTE | FS_IOCTL_DEV) : FS_READ_FILE | FS_READ_DIR;
	if (!S_ISDIR(st.st_mode))
		rule.allowed &= OF_FILES;
	if (syscall(NR_ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0)
		return cbx_fail(err, errno, "allow %s by Landlock", p->path);
	return 0;
}

int cbx_self_landlock(const struct cbx_self_path *paths, size_t n, struct cbx_err *err)
{
	long abi = syscall(NR_CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION);
	struct ruleset attr = { 0 };
	_cleanup_fd_ int ruleset = -1;
	int r;

	if (abi <= 0)
		return 0;
	attr.fs = fs_rights(abi);
	attr.net = abi >= 4 ? 3 : 0;	/* bind and connect of TCP */
	attr.scoped = abi >= 6 ? 3 : 0; /* abstract unix sockets, signals */
	ruleset = (int)syscall(NR_CREATE_RULESET, &attr, abi >= 6 ? 24 : abi >= 4 ? 16 : 8, 0);
	if (ruleset < 0)
		return cbx_fail(err, errno, "make a Landlock ruleset");
	for (size_t i = 0; i < n; i++) {
		r = add_path(ruleset, &paths[i], attr.fs, err);
		if (r < 0)
			return r;
	}
	if (syscall(NR_RESTRICT_SELF, ruleset, 0) < 0)
		return cbx_fail(err, errno, "confine this process by Landlock");
	return (int)abi;
}

int cbx_self_filter(const struct cbx_filter *filter, struct cbx_err *err)
{
	struct sock_fprog prog = { .len = filter->len, .filter = filter->insns };

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return cbx_fail(err, errno, "load the system call filter for this process");
	return 0;
}
