/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_SOURCE_H
#define CBX_POLICY_SOURCE_H

/*
 * The text of a configuration file: JSON, in which comments (from // to the end of the line, or between slash-star and
 * star-slash) may stand wherever a space may. Its faults are reported as "file:line:column: …", lines and columns
 * counted from 1, columns in characters.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct cbx_source {
	const char *name; /* for messages; borrowed */
	char *text;       /* comments are spaces, one for each byte */
	char *original;   /* for counting characters */
	size_t len;
	struct cbx_json_doc doc;
};

/* Parse. The text need not end with a NUL. Errors: kind "invalid_policy". On failure there is nothing to release. */
int cbx_source_open(struct cbx_source *s, const char *name, const char *text, size_t len, struct cbx_err *err);
void cbx_source_release(struct cbx_source *s);

/* Where a node of the tree is; a member is where its name is. */
void cbx_source_place(const struct cbx_source *s, const cJSON *node, uint32_t *ret_line, uint32_t *ret_column);
/* Refuse, at a node. Returns -EINVAL. */
int cbx_source_refuse(const struct cbx_source *s, const cJSON *node, struct cbx_err *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Put the place of a node before the message that is in err. Returns -err->code. */
int cbx_source_wrap(const struct cbx_source *s, const cJSON *node, struct cbx_err *err);

#endif
