/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_SUMS_H
#define CBX_PACKAGES_SUMS_H

/*
 * Which files of a package whoever asks for it accepts: the hashes of a requirements.txt, or what a package-lock.json has.
 * They stand behind a requirement as pip has them,
 *
 *   "beta==1.5 --hash=sha256:<hex> --hash=…"	all that is installed must have one then, as with pip's --require-hashes
 *
 * or are entries of their own, for packages of npm that others need:
 *
 *   "--locked npm:plain@1.2.0 --hash=sha512:<base64>"	this version has this sum, and is taken where it fits
 *   "--only-locked"	nothing else is installed
 *   "--ignore-scripts"	no script of a package runs, also where the policy lets them
 */
#include "packages/rules.h"

struct cbx_sum {
	char name[CBX_PROJECT_MAX];
	char version[CBX_VERSION_MAX]; /* of npm; "": any */
	char sum[129];
};

struct cbx_sums {
	struct cbx_sum *all;
	size_t n, room;
	bool only; /* nothing but what has one */
	bool no_scripts;
};

/* One entry of a list of packages. *ret: what is left of it, a requirement, malloc'd; NULL: nothing is. */
int cbx_sums_take(struct cbx_sums *sums, const char *text, char **ret, struct cbx_err *err);
void cbx_sums_release(struct cbx_sums *sums);
/* {"name":[{"version","sum"}]}, for a resolver. */
cJSON *cbx_sums_json(const struct cbx_sums *sums);
/* Whether a wheel is one of them; *ret_known: its package, of npm in its version, has any. */
bool cbx_sums_have(const struct cbx_sums *sums, const struct cbx_wheel *w, bool *ret_known);

#endif
