/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_JSONSCAN_H
#define CBX_BASE_JSONSCAN_H

/*
 * Finding one's way in the text of JSON that has passed the grammar check (json.h), for those who need a piece of it
 * exactly as it was written. Strings and brackets are all that has to be minded in such a text. Each function goes from
 * p to at most end and returns where it stopped; on any other text too, it stays within these.
 */

/* Behind white space. */
const char *cbx_jsonscan_space(const char *p, const char *end);
/* Behind the string that begins at p, a quote. */
const char *cbx_jsonscan_string(const char *p, const char *end);
/* Behind the value that begins at p. */
const char *cbx_jsonscan_value(const char *p, const char *end);

#endif
