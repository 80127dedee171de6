/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_PACKAGES_H
#define CBX_SANDBOX_PACKAGES_H

/*
 * A directory of packages, complete and never changed again, becomes part of a sandbox that runs: as an overlay of its
 * own, read-only, nosuid, nodev, at CBX_INSIDE_PACKAGES/<name>. So inodes are the sandbox's own, and nothing tells where
 * on the machine they are.
 */
#include "base/err.h"

#define CBX_PACKAGES_NAME 26 /* letters and digits of a directory's name */

/* In a process of its own, which may do nothing else afterwards: it is in the sandbox's mount namespace then. pidfd: of
 * the sandbox's init. */
int cbx_packages_attach(int pidfd, const char *name, struct cbx_err *err);

#endif
