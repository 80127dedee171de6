/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_SCAN_H
#define CBX_IMAGE_SCAN_H

/*
 * What is in a tree, as text: one line for each file, directory and link, in the order of a walk with sorted names,
 *
 *   type TAB mode TAB size TAB sha256 TAB path TAB link-target NEWLINE
 *
 * with "d", "f" or "l" and "-" where a column has no meaning. Names with control characters, and anything but files,
 * directories and links, cannot be in an image: they are listed as type "?", so that they show up as a difference.
 *
 * An image keeps this text as "files.txt" beside its manifest; its digest is the SHA-256 of the text.
 */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CBX_LISTING_FILE "files.txt"

struct cbx_scan {
	struct cbx_buf text;
	uint64_t files; /* regular files */
	uint64_t bytes; /* their sizes */
};

/* Digests of files by their inodes, so that what several trees have as links is read once. For trees that nobody
 * changes meanwhile; release it when an inode may become another file's. */
struct cbx_scan_known {
	struct cbx_scan_sum *all; /* a hash table */
	size_t n, size;
};

int cbx_scan_tree(int root, struct cbx_scan *ret, struct cbx_err *err);
/* known may be NULL. */
int cbx_scan_tree_known(int root, struct cbx_scan_known *known, struct cbx_scan *ret, struct cbx_err *err);
void cbx_scan_known_release(struct cbx_scan_known *known); /* it is empty then, and can be used again */
void cbx_scan_release(struct cbx_scan *scan);
/* "sha256:<hex>" of some bytes; out has room for 72. */
void cbx_scan_digest(const void *p, size_t n, char out[72]);
/* Hex SHA-256 of what is left in a descriptor. */
int cbx_scan_hash_fd(int fd, char out[65], struct cbx_err *err);

/* Call tell() for each path that differs: "changed", "missing" or "added". Returns how many. */
uint64_t cbx_scan_compare(const char *then, const char *now,
			  void (*tell)(void *arg, const char *what, const char *path), void *arg);

#endif
