/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_WHEELS_H
#define CBX_IMAGE_WHEELS_H

/*
 * A recipe's wheels, into an image whose Debian packages are there already. They are fetched, compared with the lock
 * and unpacked by codebox-packages, as those that sessions install are, and kept in the same store; the image gets
 * links.
 */
#include "base/dirs.h"
#include "base/err.h"
#include "image/recipe.h"
#include "image/stage.h"
#include "image/unpack.h"

/* used: of the archives unpacked so far; those of the wheels are added. The manifest gets "wheels" and "lock". */
int cbx_wheels_add(const struct cbx_dirs *dirs, const struct cbx_stage *stage, const struct cbx_recipe *recipe,
		   struct cbx_unpack_stats *used, cJSON *manifest, struct cbx_err *err);

#endif
