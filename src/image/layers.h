/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_LAYERS_H
#define CBX_IMAGE_LAYERS_H

/*
 * Layers of images that were pulled or imported, so that another image with the same layer does not fetch or unpack it,
 * and has its files as hard links:
 *
 *   <images>/.layers/<64 hexadecimal digits of the digest>/tree/…        the layer, unpacked alone (layer.h)
 *                                                         /layer.json
 *
 * An image is whole without them. A layer stays while the manifest of an image names it in "composed"; who is the last
 * is seen in the manifests each time, and written down nowhere.
 */
#include "base/err.h"
#include "base/json.h"

#define CBX_LAYERS_STORE ".layers"  /* in the store */
#define CBX_LAYERS_FRESH "unpacked" /* in an image's staging directory: layers that the store does not have */

/* When an image is about to be published, with the store's lock: its fresh layers become the store's. */
int cbx_layers_keep(int stage, int store, struct cbx_err *err);
/* With the store's lock: remove the layers that no image has any more. */
void cbx_layers_sweep(int store, const char *images_dir);
/* The digests of what is there, as an array of strings. */
cJSON *cbx_layers_list(int store);

#endif
