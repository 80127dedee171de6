/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

int cbx_cgroup_put(int dir, const char *name, const char *value, struct cbx_err *err)
{
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		return cbx_fail(err, errno, "write \"%s\" to %s of a control group", value, name);
	return 0;
}
