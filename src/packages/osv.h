/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_OSV_H
#define CBX_PACKAGES_OSV_H

/*
 * Advisories in the OSV format (https://ossf.github.io/osv-schema/), of the ecosystems PyPI and npm: which of the
 * packages that are to be installed they are about. Pure functions over text that is not trusted.
 */
#include <stddef.h>

#include "base/err.h"
#include "packages/rules.h"

#define CBX_OSV_ID_MAX	    64	/* longest id, with its NUL */
#define CBX_OSV_SUMMARY_MAX 160 /* bytes of a summary that are used, with the NUL */

struct cbx_osv_hit {
	const struct cbx_wheel *wheel;
	char id[CBX_OSV_ID_MAX];
	char range[2 * CBX_VERSION_MAX + 16]; /* of versions, as in ">=1.0,<1.4" */
	char summary[CBX_OSV_SUMMARY_MAX];    /* plain text; "": there is none */
};

typedef void (*cbx_osv_found_fn)(void *arg, const struct cbx_osv_hit *hit);

/*
 * One advisory, or a list of them. What names none of the packages is not looked into further; what does has to be
 * right, or it is an error of kind "invalid_advisory". Advisories that were withdrawn do not count. A version is
 * affected when the list of versions has it, or a range of type ECOSYSTEM or SEMVER does, by PEP 440, or by SemVer for
 * npm. An end of a range that cannot be read ends nothing.
 */
int cbx_osv_search(const char *text, size_t n, const struct cbx_lock *lock, cbx_osv_found_fn found, void *arg,
		   struct cbx_err *err);

#endif
