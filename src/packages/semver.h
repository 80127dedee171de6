/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_SEMVER_H
#define CBX_PACKAGES_SEMVER_H

/*
 * Names and versions of npm packages: names as the registry has them, versions by Semantic Versioning 2.0.0, ranges as
 * npm reads them. Pure functions over untrusted text: nothing is allocated, and what is too long is refused.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CBX_NPM		   "npm:" /* what names of npm packages begin with, beside those of Python */
#define CBX_SEMVER_MAX	   128 /* longest version, with its NUL */
#define CBX_SEMVER_PRE_MAX 96

struct cbx_semver {
	uint64_t n[3];
	char pre[CBX_SEMVER_PRE_MAX]; /* "beta.1"; "": it is not a pre-release */
};

/* "lodash", "@scope/name": a path of one or two plain parts, which cannot lead anywhere. */
bool cbx_npm_name(const char *name, size_t n);

/* A version in full; what follows a "+" is dropped. */
bool cbx_semver_parse(const char *s, size_t n, struct cbx_semver *ret);
/* As strcmp(). */
int cbx_semver_compare(const struct cbx_semver *a, const struct cbx_semver *b);

/* "^1.2 || >=3 <4.5", "1.x", "1.2.3 - 2"; "": any. */
bool cbx_semver_range_valid(const char *range);
/* False, too, where either cannot be read. A pre-release is in a range that names one of the same three numbers, or,
 * with any_pre, wherever its place in the order is. */
bool cbx_semver_holds(const char *range, const char *version, bool any_pre);

#endif
