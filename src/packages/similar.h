/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PACKAGES_SIMILAR_H
#define CBX_PACKAGES_SIMILAR_H

/* Names that are easily taken for those of packages that many use. Names are normalized (version.h). */
#include <stdbool.h>
#include <stddef.h>

/* Whether whoever means `popular` may have typed `name`: one character is more, less or another, two neighbours or the
 * two words are swapped, or words are joined or parted. Names of three characters and fewer are like too many others.
 */
bool cbx_names_similar(const char *name, const char *popular);
/* The first name of a list, a name to a line with comments behind "#", that is similar; its length in *ret_n. NULL:
 * there is none, or the name itself is in the list. */
const char *cbx_similar_find(const char *list, const char *name, size_t *ret_n);

#endif
