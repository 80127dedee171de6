/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_BUILD_H
#define CBX_IMAGE_BUILD_H

/* Making images: from a recipe, or from archives. Both leave the store as it was unless they succeed. */
#include <stdbool.h>
#include <stddef.h>

#include "base/dirs.h"
#include "base/err.h"
#include "cli/client.h"
#include "image/recipe.h"
#include "image/stage.h"
#include "image/unpack.h"

/*
 * client: codeboxd, for the step in the sandbox; NULL leaves that step out. script: finish.py, open. left_out: its code
 * is not 0 when codeboxd's policy did not let that step be done, and it was left out for that.
 */
int cbx_build_recipe(const struct cbx_dirs *dirs, const struct cbx_store *store, const struct cbx_recipe *recipe,
		     const char *name, bool force, struct cbx_client *client, int script, struct cbx_err *left_out,
		     struct cbx_err *err);

struct cbx_import {
	const int *archives; /* open files, the lowest layer first */
	size_t n;
	uint64_t max_entries, max_bytes;
	struct cbx_unpack_stats stats; /* result: of all archives */
	bool no_python;		       /* result: no Python interpreter was found */
};

int cbx_build_import(const struct cbx_store *store, const char *name, bool force, struct cbx_import *import,
		     struct cbx_err *err);

#endif
