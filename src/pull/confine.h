/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_PULL_CONFINE_H
#define CBX_PULL_CONFINE_H

/*
 * Before the first byte from the network: the file system is open for reading what names and certificates are looked up
 * in, and for writing beneath dir; no program can be started, and system calls are filtered
 * (policies/syscalls/registry). share: where the lists are. Anything that the kernel has and that cannot be put into
 * force is an error.
 */
#include "base/err.h"

int cbx_pull_confine(const char *share, int dir, struct cbx_err *err);

#endif
