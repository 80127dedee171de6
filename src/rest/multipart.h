/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_REST_MULTIPART_H
#define CBX_REST_MULTIPART_H

/* Files in a body of multipart/form-data (RFC 7578), as curl -F and forms of browsers send them: bytes in, places of
 * files out. Nothing here knows a session. */
#include <stddef.h>

#include "base/err.h"

#define CBX_REST_BOUNDARY_MAX 70  /* bytes; so RFC 2046 has it */
#define CBX_REST_FILE_NAME_MAX 255 /* bytes; so file systems have it */

struct cbx_rest_part {
	char name[CBX_REST_FILE_NAME_MAX + 1]; /* UTF-8, one part of a path, and neither "." nor ".." */
	const char *data;		       /* in the body */
	size_t len;
};

/* The boundary that a Content-Type names, which is multipart/form-data. */
int cbx_rest_multipart_boundary(const char *type, char ret[CBX_REST_BOUNDARY_MAX + 1], struct cbx_err *err);
/* The parts, up to max; *ret: how many. What is anything but files with names of their own is an error. */
int cbx_rest_multipart_read(const char *boundary, const char *body, size_t len, struct cbx_rest_part *parts, size_t max,
			    size_t *ret, struct cbx_err *err);

#endif
