/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_LINK_H
#define CBX_IMAGE_LINK_H

/*
 * Give a file of one image to another: a hard link, so that both have it once on the disk and in memory. Where none can
 * be made (another file system, or one without them, or a file that has as many as it can) a copy, which shares its
 * blocks where the file system can do that.
 *
 * Nothing in an image is ever written to: what changes a file puts a new one in its place (tree.h, unpack.h).
 */
#include <sys/stat.h>

/* from/name is a regular file or a symbolic link, which is not followed; st: as it was seen. 0 or -errno; -EEXIST where
 * to/name is there already. */
int cbx_link_file(int from, int to, const char *name, const struct stat *st);

/* A copy without a name in dir, which nobody else can change: what was compared with a digest stays what it was.
 * -EFBIG: it is longer than an archive can be. */
int cbx_copy_privately(int from, int dir, int *ret);

#endif
