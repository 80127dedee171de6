/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_GRAFT_H
#define CBX_IMAGE_GRAFT_H

/*
 * Put the files of a tree that is on this machine into an image, as links to them (link.h): those of another image, or
 * of packages that codebox-packages has unpacked. Names, kinds, depth, number and size are held to the limits of an
 * archive.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "image/image-limits.h"

struct cbx_graft {
	bool packages; /* of packages: directories and regular files alone, nothing compiled; what the image has already
			* is never replaced, and no reason to omit one */
	bool onto;     /* directories may be there already */
	const char *const *exclude, *const *include; /* of a recipe; NULL: none */
	uint64_t entries, bytes;		     /* so far */
	char path[CBX_UNPACK_PATH_MAX];		     /* in the image; "" at the root */
	struct cbx_err *err;
};

/* What is in `from`, into `to`, which is at g->path of the image. */
int cbx_graft_tree(struct cbx_graft *g, int from, int to);
/* Into a directory of the image that is made where it is missing; place: its path. */
int cbx_graft_at(struct cbx_graft *g, int from, int root, const char *place);

#endif
