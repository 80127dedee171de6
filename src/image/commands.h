/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_COMMANDS_H
#define CBX_IMAGE_COMMANDS_H

/* The commands of codebox-image that only read. They print; 0 or -errno. */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

int cbx_image_ls(const char *images_dir, bool json, struct cbx_err *err);
int cbx_image_show(const char *images_dir, const char *name, struct cbx_err *err);
/* One line about an image that has just been made. */
int cbx_image_summary(const char *images_dir, const char *name, struct cbx_err *err);
/* No names: all images. 1: at least one differs or is damaged. */
int cbx_image_verify(const char *images_dir, char **names, size_t n, struct cbx_err *err);

#endif
