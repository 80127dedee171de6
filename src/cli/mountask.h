/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_MOUNTASK_H
#define CBX_CLI_MOUNTASK_H

/*
 * A request was refused because of a directory that the policy does not allow (err->kind "mount_not_allowed"). Where a
 * person is at the keyboard, ask, and remember a yes in the user's own file (policy.h): true, the same request is to be
 * sent again. Else false, after saying on standard error what is to be written where. sigfd: a signal is a no.
 */
#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

bool cbx_mount_ask(const cJSON *mounts, int sigfd, const struct cbx_err *err);
/* The person has just said so: let sessions read and change this directory, an absolute path without links. Else, after
 * saying why and what to do, an exit status. dry: only say what would be done. */
int cbx_mount_allow(const char *dir, bool dry);

#endif
