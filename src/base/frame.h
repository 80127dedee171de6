/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_FRAME_H
#define CBX_BASE_FRAME_H

/*
 * Frames on a stream socket: a 32-bit little-endian length, then that many bytes. The length is checked against the
 * caller's ceiling before anything is allocated for it. This is the interpreter protocol's outer form; the other end
 * is hostile.
 */
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define CBX_FRAME_HEADER 4

/* Append a frame. len must be below 2^32. */
void cbx_frame_append(struct cbx_buf *out, const void *p, size_t len);

/*
 * Look for a whole frame at the front of `in`. 1: *ret_data (borrowed from in) and *ret_len are its contents; call
 * cbx_buf_drop(in, CBX_FRAME_HEADER + *ret_len) when done. 0: more bytes are needed. -EMSGSIZE: longer than max.
 */
int cbx_frame_peek(const struct cbx_buf *in, size_t max, const char **ret_data, size_t *ret_len, struct cbx_err *err);

#endif
