/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_EXPORT_H
#define CBX_IMAGE_EXPORT_H

/*
 * Write an image as one tar archive that is both an OCI layout and what `docker load` reads. The same image gives the
 * same bytes: entries are sorted, owners and the times of directories and links are constants, those of files are the
 * image's, but not later than SOURCE_DATE_EPOCH where that is set. out is borrowed.
 */
#include "base/err.h"

int cbx_export_image(const char *images_dir, const char *name, const char *tag, int out, struct cbx_err *err);

#endif
