/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_JSONEDIT_H
#define CBX_CLI_JSONEDIT_H

/*
 * Change one member of a JSON text and leave every other byte as it is: order, numbers, escapes and white space are
 * somebody else's. The text must be an object that cbx_json_parse() accepted without a problem.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/* Set the member at a path of names; objects on the way that are missing are made, one that is no object is an error
 * ("wrong_type"). A new member is written in the style of its neighbours. */
int cbx_jsonedit_set(const char *text, size_t len, const char *const *path, size_t depth, const cJSON *value,
		     struct cbx_buf *out, struct cbx_err *err);
/* Take the member at the path out. 1: done; 0: it is not there, and nothing was written. */
int cbx_jsonedit_remove(const char *text, size_t len, const char *const *path, size_t depth, struct cbx_buf *out);

#endif
