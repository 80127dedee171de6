/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/users.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/syscalls.h"
#include "sandbox/plan.h"

#define FILE_MAX 65536

/* Whether a line of passwd or group has this number in its third field. */
static bool lists_id(const char *text, unsigned id)
{
	char want[16];

	snprintf(want, sizeof(want), "%u:", id);
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *field = line;

		for (int i = 0; i < 2 && field; i++) {
			size_t n = strcspn(field, ":\n");

			field = field[n] == ':' ? field + n + 1 : NULL;
		}
		if (field && !strncmp(field, want, strlen(want)))
			return true;
	}
	return false;
}

int cbx_users_with(int image, const char *file, const char *entry, struct cbx_buf *ret, struct cbx_err *err)
{
	_cleanup_fd_ int fd = cbx_openat2(image, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0,
					  RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "look at the image's %s", file);
	if (fd >= 0 && S_ISREG(st.st_mode) && st.st_size < FILE_MAX) {
		ssize_t n = cbx_read_full(fd, cbx_buf_reserve(ret, FILE_MAX), FILE_MAX);

		if (n < 0)
			return cbx_fail(err, (int)-n, "read the image's %s", file);
		ret->len = (size_t)n;
		ret->data[ret->len] = '\0';
	}
	if (lists_id(cbx_buf_str(ret), CBX_INSIDE_UID))
		return 0;
	if (ret->len && ret->data[ret->len - 1] != '\n')
		cbx_buf_addc(ret, '\n');
	cbx_buf_adds(ret, entry);
	return 1;
}
