/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/landlock.h"

#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/syscalls.h"
#include "sandbox/plan.h"

/* The kernel's interface (Documentation/userspace-api/landlock.rst), of which the headers that we build with may know
 * only a part. */
enum {
	NR_CREATE_RULESET = 444,
	NR_ADD_RULE = 445,
	NR_RESTRICT_SELF = 446,
	CREATE_RULESET_VERSION = 1,
	RULE_PATH_BENEATH = 1,
	RESTRICT_SELF_LOG_SAME_EXEC_OFF = 1,
	RESTRICT_SELF_LOG_SUBDOMAINS_OFF = 4,
};

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

struct path_beneath_attr {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

#define EXECUTE	    (1ull << 0)
#define WRITE_FILE  (1ull << 1)
#define READ_FILE   (1ull << 2)
#define READ_DIR    (1ull << 3)
#define REMOVE_DIR  (1ull << 4)
#define REMOVE_FILE (1ull << 5)
#define MAKE_CHAR   (1ull << 6)
#define MAKE_DIR    (1ull << 7)
#define MAKE_REG    (1ull << 8)
#define MAKE_SOCK   (1ull << 9)
#define MAKE_FIFO   (1ull << 10)
#define MAKE_BLOCK  (1ull << 11)
#define MAKE_SYM    (1ull << 12)
#define REFER	    (1ull << 13)
#define TRUNCATE    (1ull << 14)
#define IOCTL_DEV   (1ull << 15)

/* Which rights to files came with which version of the interface. */
static const struct {
	uint32_t abi;
	uint64_t rights;
} history[] = {
	{ 1, EXECUTE | WRITE_FILE | READ_FILE | READ_DIR | REMOVE_DIR | REMOVE_FILE | MAKE_CHAR | MAKE_DIR | MAKE_REG |
		     MAKE_SOCK | MAKE_FIFO | MAKE_BLOCK | MAKE_SYM },
	{ 2, REFER },
	{ 3, TRUNCATE },
	{ 5, IOCTL_DEV },
};
#define ABI_NET	      4
#define ABI_SCOPE     6
#define ABI_LOG_FLAGS 7

#define NET_BIND_TCP	       (1ull << 0)
#define NET_CONNECT_TCP	       (1ull << 1)
#define SCOPE_ABSTRACT_SOCKETS (1ull << 0)
#define SCOPE_SIGNALS	       (1ull << 1)

/* Rights that a rule for a file may have; the others are for directories. */
#define OF_FILES (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV)

uint32_t cbx_landlock_abi(void)
{
	long v = syscall(NR_CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION);

	return v > 0 ? (uint32_t)v : 0;
}

uint32_t cbx_landlock_restrict_flags(uint32_t abi)
{
	return abi >= ABI_LOG_FLAGS ? RESTRICT_SELF_LOG_SAME_EXEC_OFF | RESTRICT_SELF_LOG_SUBDOMAINS_OFF : 0;
}

int cbx_landlock_new(uint32_t abi, unsigned flags, struct cbx_landlock *ret, struct cbx_err *err)
{
	struct ruleset_attr attr = { 0 };
	/* An older kernel's structure is shorter, and it refuses what it does not know. */
	size_t size = abi >= ABI_SCOPE ? sizeof(attr) :
		      abi >= ABI_NET   ? offsetof(struct ruleset_attr, scoped) :
					 offsetof(struct ruleset_attr, net);

	for (size_t i = 0; i < ARRAY_SIZE(history); i++)
		if (abi >= history[i].abi)
			attr.fs |= history[i].rights;
	if (abi >= ABI_NET && (flags & CBX_LANDLOCK_NO_TCP))
		attr.net = NET_BIND_TCP | NET_CONNECT_TCP;
	if (abi >= ABI_SCOPE)
		attr.scoped = (flags & CBX_LANDLOCK_SCOPED_SOCKETS ? SCOPE_ABSTRACT_SOCKETS : 0) |
			      (flags & CBX_LANDLOCK_SCOPED_SIGNALS ? SCOPE_SIGNALS : 0);
	ret->handled = attr.fs;
	ret->fd = (int)syscall(NR_CREATE_RULESET, &attr, size, 0);
	return ret->fd < 0 ? cbx_fail(err, errno, "make a Landlock ruleset") : 0;
}

int cbx_landlock_allow(const struct cbx_landlock *l, int fd, unsigned access, const char *what, struct cbx_err *err)
{
	struct path_beneath_attr rule = { .parent = fd };
	struct stat st;

	if (access & CBX_LANDLOCK_READ)
		rule.allowed |= READ_FILE | READ_DIR;
	if (access & CBX_LANDLOCK_EXECUTE)
		rule.allowed |= EXECUTE;
	if (access & CBX_LANDLOCK_CHANGE)
		rule.allowed |= WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK |
				MAKE_FIFO | MAKE_SYM | REFER;
	if (access & CBX_LANDLOCK_USE)
		rule.allowed |= WRITE_FILE | TRUNCATE | IOCTL_DEV;
	if (fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "look at %s", what);
	rule.allowed &= l->handled & (S_ISDIR(st.st_mode) ? ~0ull : OF_FILES);
	if (syscall(NR_ADD_RULE, l->fd, RULE_PATH_BENEATH, &rule, 0) < 0)
		return cbx_fail(err, errno, "make a Landlock rule for %s", what);
	return 0;
}

int cbx_landlock_allow_at(const struct cbx_landlock *l, int root, const char *path, unsigned access,
			  struct cbx_err *err)
{
	_cleanup_fd_ int fd = cbx_openat2(root, path[1] ? path + 1 : ".", O_PATH | O_CLOEXEC, 0,
					  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

	return fd < 0 ? cbx_fail(err, errno, "open %s", path) : cbx_landlock_allow(l, fd, access, path, err);
}

int cbx_landlock_restrict_self(const struct cbx_landlock *l, uint32_t flags, struct cbx_err *err)
{
	if (syscall(NR_RESTRICT_SELF, l->fd, flags) < 0)
		return cbx_fail(err, errno, "restrict this process by Landlock");
	return 0;
}

int cbx_landlock_allow_standard(const struct cbx_landlock *l, int root, int proc_files, struct cbx_err *err)
{
	static const char *const changed[] = { CBX_INSIDE_WORKSPACE, CBX_INSIDE_HOME, "/tmp", "/var/tmp", "/dev/shm" };
	int r = cbx_landlock_allow_at(l, root, "/", CBX_LANDLOCK_READ | CBX_LANDLOCK_EXECUTE, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(changed); i++)
		r = cbx_landlock_allow_at(l, root, changed[i], CBX_LANDLOCK_CHANGE, err);
	if (r == 0)
		r = cbx_landlock_allow_at(l, root, "/dev", CBX_LANDLOCK_USE, err);
	if (r == 0 && proc_files)
		r = cbx_landlock_allow_at(l, root, "/proc", CBX_LANDLOCK_USE, err);
	return r;
}
