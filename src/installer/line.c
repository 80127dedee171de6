/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "installer/installer.h"
#include "packages/job.h"

#define PIECE 4096

int cbx_job_line(int sock, struct cbx_buf *got, struct cbx_buf *ret)
{
	size_t searched = 0;
	const char *end;

	while (!(end = got->len > searched ? memchr(got->data + searched, '\n', got->len - searched) : NULL)) {
		ssize_t n;

		searched = got->len;
		if (got->len > CBX_JOB_MAX)
			return -EFBIG;
		n = read(sock, cbx_buf_reserve(got, PIECE), PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		got->len += (size_t)n;
	}
	ret->len = 0;
	cbx_buf_add(ret, got->data, (size_t)(end - got->data));
	cbx_buf_drop(got, (size_t)(end - got->data) + 1);
	return 1;
}
