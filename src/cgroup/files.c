/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

ssize_t cbx_cgroup_get(int dir, const char *name, char *out, size_t cap)
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);

	if (n < 0)
		return -errno;
	out[n] = '\0';
	return n;
}

int cbx_cgroup_put(int dir, const char *name, const char *value, struct cbx_err *err)
{
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		return cbx_fail(err, errno, "write \"%s\" to %s of a control group", value, name);
	return 0;
}
