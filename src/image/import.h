/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_IMPORT_H
#define CBX_IMAGE_IMPORT_H

/* Making an image from what others made: a root file system in archives, an OCI layout, what `docker save` writes. */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "image/oci.h"
#include "image/stage.h"
#include "image/unpack.h"
#include "runtimes/runtime.h"

struct cbx_import {
	const struct cbx_runtimes *runtimes; /* whose interpreters are looked for */
	const int *archives; /* open files, the lowest layer first; one may hold an image with layers of its own */
	size_t n;
	int directory;	 /* a layout instead, or -1 */
	const char *top; /* the digest that a layout's index or manifest must have, or NULL */
	const char *reference; /* what it was pulled as, or NULL */
	bool pulled;	       /* layers that the store has already were not fetched */
	struct cbx_oci_want want;
	uint64_t max_entries, max_bytes;
	/* Results. */
	struct cbx_unpack_stats stats; /* of all archives */
	size_t layers, kept;	       /* layers of the image, and how many of them were in the store already */
	bool no_interpreter;	       /* none was found that codebox runs cells with */
	bool no_python;
};

/* Error of a pull: "damaged_layer"; the store does not have it any more, and another pull fetches it. */
int cbx_import_image(const struct cbx_store *store, const char *name, bool force, struct cbx_import *import,
		     struct cbx_err *err);

/* An option of the command line that concerns it: 'p' --platform, 'e' --max-entries, 'b' --max-bytes. */
int cbx_import_option(struct cbx_import *import, int option, const char *value, struct cbx_err *err);
/* Print on stderr what a user should know of the results. */
void cbx_import_say(const struct cbx_import *import);

#endif
