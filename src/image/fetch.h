/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_FETCH_H
#define CBX_IMAGE_FETCH_H

/*
 * Debian packages by apt: run as whoever we are, with the machine's sources and keys, and with lists, state and cache
 * of its own. Nothing of the machine's package state is read or changed.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct cbx_package {
	char *name, *version, *file; /* file: in debs */
	uint64_t size;		     /* of the package file */
	uint64_t bytes;		     /* unpacked; filled by the builder */
	char sha256[65];	     /* from the signed package lists */
};

struct cbx_fetch {
	struct cbx_package *packages;
	size_t n;
	uint64_t total; /* sum of size */
	int debs;	/* directory with the package files */
};

/*
 * Fetch packages and all that they depend on, except those in `omit` and what only they need. cache_dir is made where
 * it is missing. Errors: "apt_missing"; "apt_failed" with apt's last lines.
 */
int cbx_fetch_packages(const char *cache_dir, const char *const *packages, const char *const *omit,
		       struct cbx_fetch *ret, struct cbx_err *err);
/* Open a package file and check it against the signed lists. A damaged one is removed from the cache. */
int cbx_fetch_open(const struct cbx_fetch *fetch, const struct cbx_package *package, int *ret, struct cbx_err *err);
void cbx_fetch_release(struct cbx_fetch *fetch);

#endif
