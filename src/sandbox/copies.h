/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_COPIES_H
#define CBX_SANDBOX_COPIES_H

#include "base/err.h"

/* Copy the files and directories below in_dir/name into out_dir: for everybody to read, nothing hidden, no link. */
int cbx_copy_tree(int in_dir, const char *name, int out_dir, struct cbx_err *err);

#endif
