/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_JSONSCAN_H
#define CBX_BASE_JSONSCAN_H

/*
 * Finding one's way in the text of JSON that has passed the grammar check (json.h), for those who need a piece of it
 * exactly as it was written. Strings and brackets are all that has to be minded in such a text. Each function goes from
 * p to at most end and returns where it stopped; on any other text too, it stays within these.
 */

#include <stdbool.h>
#include <stddef.h>

/* Behind white space. */
const char *cbx_jsonscan_space(const char *p, const char *end);
/* Behind the string that begins at p, a quote. */
const char *cbx_jsonscan_string(const char *p, const char *end);
/* Behind the value that begins at p. */
const char *cbx_jsonscan_value(const char *p, const char *end);

struct cbx_jsonscan_member {
	const char *name, *name_end; /* with the quotes */
	const char *value, *end;
};

/* The members of the object that begins at p, one after another: where the first may be, or NULL
 * when there is no object; then the one at *p, which goes behind it; false: there are no more, and *p is at the brace. */
const char *cbx_jsonscan_object(const char *p, const char *end);
bool cbx_jsonscan_member(const char **p, const char *end, struct cbx_jsonscan_member *ret);

/*
 * Pieces. A tree from cJSON holds every number as a double and every string unescaped, but an id or a progress token
 * has to go back exactly as it came. A name written with escapes is not found, which is as good as absent.
 */
struct cbx_raw {
	const char *p; /* NULL: not there */
	size_t n;
};

/* The value of a member of an object, or the next element of an array. *pos starts at 0. */
struct cbx_raw cbx_raw_member(struct cbx_raw in, const char *key);
struct cbx_raw cbx_raw_element(struct cbx_raw in, size_t *pos);
/* A string or a whole number, short enough to be sent back: what may be an id or a progress token. */
bool cbx_raw_is_token(struct cbx_raw v);
char *cbx_raw_copy(struct cbx_raw v); /* malloc'd C string; NULL when not there */

#endif
