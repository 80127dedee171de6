/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PULL_BLOBS_H
#define CBX_PULL_BLOBS_H

/*
 * Fetch blobs into dir (their names are the hexadecimal digits of their digests), some at once. Each is hashed while it
 * is written, and gets its name when length and digest are right. A transfer that is cut is continued where it was.
 */
#include "image/oci.h"
#include "pull/registry.h"

int cbx_blobs_fetch(struct cbx_registry *r, int dir, const struct cbx_oci_descriptor *all, size_t n,
		    void (*progress)(uint64_t got, uint64_t of, size_t done, size_t n), struct cbx_err *err);

#endif
