/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_LAYOUT_H
#define CBX_IMAGE_LAYOUT_H

/*
 * An image that lies in a directory as its layers: an OCI layout (index.json and blobs), or what `docker save` writes
 * (manifest.json). The directory is hostile; each document and each layer is handed out after its digest was compared.
 */
#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "image/oci.h"

struct cbx_layout_layer {
	char path[CBX_UNPACK_PATH_MAX];
	char digest[CBX_OCI_DIGEST];  /* of the file; "" where only that of its plain bytes is known */
	char diff_id[CBX_OCI_DIGEST]; /* of its plain bytes, or "" */
};

struct cbx_layout {
	int dir;			 /* borrowed */
	const char *format;		 /* "oci" or "docker" */
	char digest[CBX_OCI_DIGEST];	 /* of the manifest; of the configuration for "docker", or "" */
	char *reference;		 /* the name that it has there, or NULL */
	cJSON *config;			 /* owned */
	struct cbx_layout_layer *layers; /* owned, the lowest first */
	size_t n;
};

/* Does a directory look like one? Not, where it looks like a root file system as well. */
bool cbx_layout_is(int dir);
/*
 * Find the image that is wanted, and read its configuration. top: the digest that its index or manifest must have, or
 * NULL. Errors: those of oci.h, "digest_mismatch", "invalid_image".
 */
int cbx_layout_read(int dir, const struct cbx_oci_want *want, const char *top, struct cbx_layout *ret,
		    struct cbx_err *err);
/*
 * Open a layer whose bytes are what they should be; digest: that of these bytes. copies: where a copy is made, so that
 * nobody can change them afterwards; -1: nobody else can.
 */
int cbx_layout_open(const struct cbx_layout *l, size_t layer, int copies, int *ret, char digest[CBX_OCI_DIGEST],
		    struct cbx_err *err);
void cbx_layout_release(struct cbx_layout *l);

#endif
