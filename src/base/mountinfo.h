/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_MOUNTINFO_H
#define CBX_BASE_MOUNTINFO_H

/* /proc/PID/mountinfo, as proc(5) describes it: no file is opened here. */
#include <stdbool.h>
#include <stddef.h>

#define CBX_MOUNTINFO_PATH_MAX 4096

struct cbx_mountinfo {
	char root[CBX_MOUNTINFO_PATH_MAX];  /* what of the file system is mounted */
	char point[CBX_MOUNTINFO_PATH_MAX]; /* where; both are absolute */
	char type[64]; /* "": a longer one, which a FUSE file system may have */
};

/* One line, with its newline or without; it need not be terminated. False: it is not of that form. */
bool cbx_mountinfo_parse(const char *line, size_t len, struct cbx_mountinfo *ret);

#endif
