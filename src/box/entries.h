/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BOX_ENTRIES_H
#define CBX_BOX_ENTRIES_H

/* The list of files that init answers with comes from inside the sandbox: nobody looks into it before it has passed
 * here. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cbx_file_entry {
	const char *name; /* of all directories below one: a path, which leads nowhere but down */
	uint32_t mode;	  /* as in stat(2), with the file type */
	uint64_t size;
	int64_t mtime_ns; /* since the epoch */
};

/* The `count` entries of an answer, whose names stay in it. paths: names may hold slashes, but lead nowhere but down.
 * *ret is the caller's to free, NULL when there are none. False: it is not well-formed. */
bool cbx_entries_parse(const char *p, size_t len, int64_t count, bool paths, struct cbx_file_entry **ret);

#endif
