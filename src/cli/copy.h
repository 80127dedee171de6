/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_COPY_H
#define CBX_CLI_COPY_H

/*
 * Copying between the machine and a session. Each function copies one source; what goes wrong below a directory is
 * said and counted, and the rest is copied nevertheless.
 */
#include "client/remote.h"

#define CBX_COPY_DEPTH_MAX   64	      /* directories within directories; deeper ones are refused */
#define CBX_COPY_ENTRIES_MAX 1000000u /* files and directories of one copy */

struct cbx_copy {
	struct cbx_remote remote;
	bool recursive;
	unsigned errors; /* said already */
	unsigned entries;
};

/* From the session's `path` to the local `dst`; `into`: dst is a directory and the copy keeps its name in it. */
int cbx_copy_get(struct cbx_copy *c, const char *path, const char *dst, bool into, struct cbx_err *err);
/* From the local `src` to the session's `path`, likewise. */
int cbx_copy_put(struct cbx_copy *c, const char *src, const char *path, bool into, struct cbx_err *err);

/* Say err about a name that may be hostile, and count it. */
void cbx_copy_complain(struct cbx_copy *c, const char *name, const char *what);
/* The last component of a path, malloc'd; NULL when it is "", ".", ".." or "/": there is no name to keep. */
char *cbx_copy_basename(const char *path);

#endif
