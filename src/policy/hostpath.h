/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_POLICY_HOSTPATH_H
#define CBX_POLICY_HOSTPATH_H

/* Which directories of the machine are never shown in a sandbox, whatever a policy says. */

/* The one of the machine's own (/proc, /sys, /dev, /run, /etc) that a clean absolute path is, is below, or holds; NULL:
 * none. "/" holds all of them. */
const char *cbx_hostpath_refused(const char *path);

#endif
