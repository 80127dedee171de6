/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_PNG_H
#define CBX_CLI_PNG_H

/* Pictures in PNG: read from hostile bytes, within bounds, and written. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define CBX_PNG_SIDE_MAX   4096
#define CBX_PNG_PIXELS_MAX (4u << 20)

struct cbx_picture {
	unsigned width, height;
	uint8_t *rgb; /* width * height * 3 bytes, a row after the other */
};

/* Width and height, when the bytes begin as a PNG whose size is within the bounds. */
bool cbx_png_size(const uint8_t *p, size_t n, unsigned *ret_width, unsigned *ret_height);
/*
 * Decode into `rgb` of *picture, which has room for the size that cbx_png_size() says; what is transparent becomes
 * white. `work` has CBX_PNG_WORK bytes for that size, and n more. No memory is taken, and no system call made.
 * Interlaced ones are not understood.
 */
bool cbx_png_decode(const uint8_t *p, size_t n, uint8_t *work, size_t size, struct cbx_picture *picture);
#define CBX_PNG_WORK(width, height) ((size_t)(height) * ((size_t)(width)*8 + 1))
/* Append a PNG of the picture. */
void cbx_png_encode(const struct cbx_picture *picture, struct cbx_buf *out);
/* From zlib's format, all of the output; how much it was, 0 for what is not valid or has no room. */
size_t cbx_inflate(const uint8_t *p, size_t n, uint8_t *out, size_t room);

/* Append it in zlib's format; what repeats the bytes so far to the left, or above, is short. Each is 32 KiB at most, 0:
 * none. */
void cbx_deflate(const uint8_t *p, size_t n, size_t left, size_t above, struct cbx_buf *out);

#endif
