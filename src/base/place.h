/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_BASE_PLACE_H
#define CBX_BASE_PLACE_H

/* Descriptors where a program that is executed expects them; also for codebox-init, which has nothing else of base/fd.h. */
#include <stddef.h>

#define CBX_FDS_MAX 8 /* most descriptors in one message between our own processes */

/* Before an exec: duplicate up to CBX_FDS_MAX descriptors to their places, first out of the way of all places, since a
 * source may be a target. The duplicates are not close-on-exec; those in between, from 64 on, are left and are. */
int cbx_place_fds(const int *from, const int *to, size_t n);

#endif
