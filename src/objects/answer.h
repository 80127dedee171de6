/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_OBJECTS_ANSWER_H
#define CBX_OBJECTS_ANSWER_H

/* What is read of a store's answers. They come from a network: strictly, and with bounds. */
#include <stdbool.h>
#include <stddef.h>

/* The text of the first element of this name, which has no attributes; false: there is none, it has an entity, a
 * control character or another element in it, or is longer. */
bool cbx_answer_element(const char *body, const char *name, char *out, size_t size);
/* The value of a header line of n bytes, if it is this header; false: it is not, or is longer, or has a control
 * character. */
bool cbx_answer_header(const char *line, size_t n, const char *name, char *out, size_t size);

#endif
