/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_INUSE_H
#define CBX_IMAGE_INUSE_H

/*
 * A session reads its image's files for as long as it lives, so an image that is in use must not be taken away. Asks
 * the running codeboxd; where none runs there are no sessions. Must be called before root is given up. Error:
 * "image_in_use", which names the sessions.
 */
#include "base/dirs.h"
#include "base/err.h"

int cbx_image_check_unused(const struct cbx_dirs *dirs, const char *name, struct cbx_err *err);

#endif
