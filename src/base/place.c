/* SPDX-License-Identifier: Apache-2.0 */
#include "base/place.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int cbx_place_fds(const int *from, const int *to, size_t n)
{
	int high[CBX_FDS_MAX];

	if (n > CBX_FDS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if ((high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 64)) < 0)
			return -errno;
	for (size_t i = 0; i < n; i++)
		if (dup2(high[i], to[i]) < 0)
			return -errno;
	return 0;
}
