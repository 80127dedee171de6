/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_HOSTPATH_H
#define CBX_POLICY_HOSTPATH_H

#include <stdbool.h>

/* Which directories of the machine are never shown in a sandbox, whatever a policy says. */

/* The one of the machine's own (/proc, /sys, /dev, /run, /etc) that a clean absolute path is, is below, or holds; NULL:
 * none. "/" holds all of them. */
const char *cbx_hostpath_refused(const char *path);

/* What a user keeps credentials in, that a directory or file of this clean absolute path is, is below, or holds: keys,
 * tokens, browser profiles, keyrings, of whatever user; NULL: nothing. `there` says whether a path exists. */
const char *cbx_hostpath_credentials(const char *path, bool (*there)(void *arg, const char *path), void *arg);

#endif
