/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_VERSION_H
#define CBX_PACKAGES_VERSION_H

/*
 * Names and versions of Python packages, as the Python community defines them: names by PEP 503, versions and
 * specifiers by PEP 440. Pure functions over untrusted text: nothing is allocated, and what is too long is refused.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CBX_PROJECT_MAX	   128 /* longest name of a project, with its NUL */
#define CBX_VERSION_MAX	   128 /* longest version, with its NUL */
#define CBX_SPECIFIERS_MAX 256 /* longest list of specifiers, with its NUL */
#define CBX_RELEASE_MAX	   16  /* numbers of a release */

struct cbx_version {
	uint64_t epoch;
	uint64_t release[CBX_RELEASE_MAX];
	unsigned nrelease;
	char pre; /* 'a', 'b', 'c'; 0: not a pre-release */
	bool post, dev;
	uint64_t pre_number, post_number, dev_number;
	char local[64]; /* in lower case, parts separated by "."; "": none */
};

/* The one spelling of a name: lower case, runs of "-", "_" and "." as one "-". False: it is not a name. */
bool cbx_project_name(const char *name, size_t n, char out[CBX_PROJECT_MAX]);

bool cbx_version_parse(const char *s, size_t n, struct cbx_version *ret);
/* As strcmp(). */
int cbx_version_compare(const struct cbx_version *a, const struct cbx_version *b);

/* ">=1.2,!=1.4.*": each of them must hold; "": any version does. */
bool cbx_specifiers_valid(const char *s);
/* False, too, where either cannot be read. */
bool cbx_specifiers_hold(const char *specifiers, const char *version);

#endif
