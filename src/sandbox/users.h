/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_USERS_H
#define CBX_SANDBOX_USERS_H

#include "base/buf.h"
#include "base/err.h"

/* The image's etc/passwd or etc/group, whatever that is, with `entry` behind it, unless it lists the session's id (the
 * same number in both). 1: *ret is the text; 0: the file can stay as it is. */
int cbx_users_with(int image, const char *file, const char *entry, struct cbx_buf *ret, struct cbx_err *err);

#endif
