/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_KIND_H
#define CBX_PACKAGES_KIND_H

/* Whose package it is: each kind has its own rules for names and versions, and archives of its own. Names of Python's
 * packages stand as they are; those of the others have a word before them. */
#include <string.h>

#include "packages/semver.h"

#define CBX_CONDA "conda:"

enum cbx_kind { CBX_KIND_PYTHON, CBX_KIND_NPM, CBX_KIND_CONDA, CBX_KINDS };

static inline enum cbx_kind cbx_kind_of(const char *name)
{
	return strncmp(name, CBX_NPM, sizeof(CBX_NPM) - 1) == 0	      ? CBX_KIND_NPM
	       : strncmp(name, CBX_CONDA, sizeof(CBX_CONDA) - 1) == 0 ? CBX_KIND_CONDA
								      : CBX_KIND_PYTHON;
}

/* The name as its own kind has it; borrowed. */
static inline const char *cbx_kind_bare(const char *name)
{
	static const unsigned char before[CBX_KINDS] = { 0, sizeof(CBX_NPM) - 1, sizeof(CBX_CONDA) - 1 };

	return name + before[cbx_kind_of(name)];
}

#endif
