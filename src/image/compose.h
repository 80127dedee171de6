/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_COMPOSE_H
#define CBX_IMAGE_COMPOSE_H

/*
 * Put a layer, which was unpacked alone (CBX_WHITEOUTS_KEPT of unpack.h), onto what the layers below it left: first
 * what it hides goes, then its files come, as links (link.h). The layer stays as it was.
 *
 * Refused as "unsafe_archive", as in an archive: paths through a symbolic link or a file that a lower layer has, and
 * whatever the unpacker does not make.
 */
#include "base/err.h"

int cbx_compose_layer(int layer, int root, struct cbx_err *err);

#endif
