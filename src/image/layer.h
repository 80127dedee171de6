/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_LAYER_H
#define CBX_IMAGE_LAYER_H

/*
 * One layer of the store (layers.h), by the digest of its archive: the archive's bytes have been compared with it
 * before anything is made here. layer.json says what was counted when it was unpacked, and "listing", the digest of its
 * tree as text (scan.h): a layer that is not any more what it was is not used, and is removed.
 */
#include <stdbool.h>

#include "base/err.h"
#include "image/oci.h"
#include "image/scan.h"
#include "image/unpack.h"

struct cbx_layer {
	char digest[CBX_OCI_DIGEST];
	int dir, tree; /* -1: closed */
	struct cbx_unpack_stats stats;
	bool kept; /* it was in the store, and not unpacked for this image */
};

/* Is there one? It may still turn out to be damaged. */
bool cbx_layer_there(int store, const char *digest);
/*
 * 1: found in the staging directory or in the store, where its files are compared with what they were; 0: there is none
 * (any more). known: what was read of it.
 */
int cbx_layer_find(int stage, int store, const char *digest, struct cbx_scan_known *known, struct cbx_layer *ret);
/* Begin one in the staging directory: tree is to be filled, and stats. */
int cbx_layer_begin(int stage, const char *digest, struct cbx_layer *ret, struct cbx_err *err);
int cbx_layer_complete(const struct cbx_layer *layer, struct cbx_scan_known *known, struct cbx_err *err);
void cbx_layer_close(struct cbx_layer *layer);

#endif
