/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_FIXUP_H
#define CBX_IMAGE_FIXUP_H

/*
 * What maintainer scripts would have done, as far as an image needs it, and what every image must have: done here, in
 * C, beneath a descriptor of the unpacked root, as the recipe says.
 */
#include "base/err.h"
#include "base/json.h"
#include "runtimes/runtime.h"

/* Before unpacking Debian packages: usr, and bin, sbin, lib… as links into it. */
int cbx_fixup_merge_links(int root, struct cbx_err *err);

/* Maps of a recipe; each may be NULL. See recipe.h. */
int cbx_fixup_links(int root, const cJSON *links, struct cbx_err *err);
int cbx_fixup_files(int root, const cJSON *files, struct cbx_err *err);
int cbx_fixup_bundles(int root, const cJSON *bundles, struct cbx_err *err);

/*
 * Whom an imported image is made to run as, as it says itself: a name or a number, maybe with ":" and a group. The
 * account of the session's user gets that name, and the image's own of this name goes. *ret: the name, or "" for root,
 * for whom the image does not list, and where it says nothing.
 */
#define CBX_USER_NAME_MAX 32
int cbx_fixup_user(int root, const char *user, char ret[CBX_USER_NAME_MAX + 1], struct cbx_err *err);

/*
 * The directories that sandboxes mount on, the account of the session's user, hosts, nsswitch.conf and the time zone.
 * What the image has of those files is kept; in passwd and group the user is added where it is missing.
 */
int cbx_fixup_standard(int root, struct cbx_err *err);

/* {"python":{"argv":[…]}, …} for the interpreters of runtimes that a root of unknown origin has; maybe empty. */
cJSON *cbx_fixup_find_interpreters(int root, const struct cbx_runtimes *runtimes);

#endif
