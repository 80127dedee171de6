/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_CONDAVERSION_H
#define CBX_PACKAGES_CONDAVERSION_H

/*
 * Versions as conda orders them, and what is said of them: "1!2.0.post1+local", ">=1.2,<2|3.*". Pure functions over
 * untrusted text: nothing is allocated, and what is too long is not a version.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "packages/version.h"

#define CBX_CONDA_PARTS_MAX 64 /* runs of digits or letters of one version */

/* A run of digits or of letters; a part that begins with letters has a 0 before them. */
struct cbx_conda_atom {
	uint64_t number;
	const char *word; /* NULL: it is the number */
	uint8_t n;
	bool first; /* of its part: what stands between two dots */
};

struct cbx_conda_version {
	char text[CBX_VERSION_MAX]; /* in lower case; words lie in it */
	struct cbx_conda_atom atoms[CBX_CONDA_PARTS_MAX];
	size_t main, n; /* those of the version proper, its epoch first; all, with those behind "+" */
};

/* False: it is not one. *ret must stay where it is: words point into it. */
bool cbx_conda_version_parse(const char *s, size_t n, struct cbx_conda_version *ret);
/* As strcmp(). */
int cbx_conda_version_compare(const struct cbx_conda_version *a, const struct cbx_conda_version *b);

/* "", or ">=1.2,<2", "=1.2", "1.2.*", "~=1.2", "!=1.2.*": each between two "," must hold, of those between "|" one. */
bool cbx_conda_spec_valid(const char *spec);
/* False, too, where either cannot be read. */
bool cbx_conda_spec_holds(const char *spec, const char *version);

#endif
