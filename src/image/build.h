/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_BUILD_H
#define CBX_IMAGE_BUILD_H

/* Making images from recipes; import.h makes them from archives. Both leave the store as it was unless they succeed. */
#include <stdbool.h>
#include <stddef.h>

#include "base/dirs.h"
#include "base/err.h"
#include "client/client.h"
#include "image/recipe.h"
#include "image/stage.h"

/*
 * client: codeboxd, for the step in the sandbox; NULL leaves that step out. script: finish.py, open. left_out: its code
 * is not 0 when codeboxd's policy did not allow that step, and it was skipped.
 */
int cbx_build_recipe(const struct cbx_dirs *dirs, const struct cbx_store *store, const struct cbx_recipe *recipe,
		     const char *name, bool force, struct cbx_client *client, int script, struct cbx_err *left_out,
		     struct cbx_err *err);

/* The steps that every way of making an image begins and ends with. Is the name one, and free, or to be replaced? */
int cbx_build_check_free(const struct cbx_store *store, const char *name, bool force, struct cbx_err *err);
/* What is known of an image before it is filled; owned by the caller. kind: as in store.h; description may be NULL. */
cJSON *cbx_build_manifest(const char *name, const char *kind, const char *description);
/* Compile and fill caches in a sandbox (finish.h); client, script, left_out: as above. */
int cbx_build_finish(struct cbx_stage *stage, const cJSON *compile, const cJSON *warm, cJSON *manifest,
		     struct cbx_client *client, int script, struct cbx_err *left_out, struct cbx_err *err);
/* List and hash what is in it, write files.txt and the manifest, publish. */
int cbx_build_complete(struct cbx_stage *stage, cJSON *manifest, bool force, struct cbx_err *err);

#endif
