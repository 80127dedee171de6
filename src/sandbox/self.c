/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/self.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandbox/landlock.h"

static int add_path(const struct cbx_landlock *l, const struct cbx_self_path *p, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(p->path, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0; /* what is not there, or not for us, needs no rule */
	if (fd < 0)
		return cbx_fail(err, errno, "open %s", p->path);
	if (p->file && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
		return 0;
	return cbx_landlock_allow(l, fd, CBX_LANDLOCK_READ | (p->write ? CBX_LANDLOCK_CHANGE : 0), p->path, err);
}

int cbx_self_landlock(const struct cbx_self_path *paths, size_t n, struct cbx_err *err)
{
	uint32_t abi = cbx_landlock_abi();
	struct cbx_landlock l = { .fd = -1 };
	/* Signals are the filter's business: Landlock would keep our death from killing the supervisor. */
	int r = abi ? cbx_landlock_new(abi, CBX_LANDLOCK_NO_TCP | CBX_LANDLOCK_SCOPED_SOCKETS, &l, err) : 0;

	if (!abi || r < 0)
		return r;
	for (size_t i = 0; i < n && r >= 0; i++)
		r = add_path(&l, &paths[i], err);
	if (r >= 0)
		r = cbx_landlock_restrict_self(&l, 0, err);
	cbx_close_p(&l.fd);
	return r < 0 ? r : (int)abi;
}

int cbx_self_filter(const struct cbx_filter *filter, struct cbx_err *err)
{
	struct sock_fprog prog = { .len = filter->len, .filter = filter->insns };

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return cbx_fail(err, errno, "load the system call filter for this process");
	return 0;
}
