/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CGROUP_FILES_H
#define CBX_CGROUP_FILES_H

/* Small files of a control group, by the directory's descriptor and a name below it. */
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define CBX_CGROUP_TEXT_MAX 16384 /* read of one file; more is not looked at */

/* The file must be there: a control group has its files from the start. 0, or -errno; err names group, file and value.
 */
int cbx_cgroup_put(int dir, const char *name, const char *value, struct cbx_err *err);

#endif
