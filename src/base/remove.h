/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_REMOVE_H
#define CBX_BASE_REMOVE_H

/*
 * Remove what `name` is beneath the directory dir, with all that is in it, whatever its depth and mode, also while
 * others change it. No link is followed, but by name's own parts. 0, or -errno: -ENOENT where there is nothing, -EBUSY
 * after `most` entries.
 */
int cbx_remove_tree(int dir, const char *name, unsigned long most);

#endif
