/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_HOST_H
#define CBX_IMAGE_HOST_H

/* Images of kind "host": a small root of our own, with the machine's /usr mounted on it. */
#include "base/buf.h"
#include "base/err.h"
#include "image/recipe.h"

/* Fill root. *ret_interpreters is the manifest's member, owned by the caller; `note` gets what is exposed besides. */
int cbx_host_fill(int root, const struct cbx_recipe *recipe, cJSON **ret_interpreters, struct cbx_buf *note,
		  struct cbx_err *err);

#endif
