/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_SECCOMP_H
#define CBX_SANDBOX_SECCOMP_H

/*
 * The system call filter. Lists of system calls are data files (policies/syscalls/); they are compiled once, by
 * libseccomp, into a program that is then loaded raw (lockdown.h): building it anew for each sandbox costs more than all of its
 * namespaces.
 *
 * A list has one rule a line; '#' starts a comment:
 *     read                          allowed
 *     socket arg0=16 arg2=0         allowed when both arguments have these values
 *     clone arg0&0x7e020080=0       allowed when the masked argument has this value
 * A line in the list "absent" names a call that answers ENOSYS, as on a kernel that has not got it, and so does a number
 * that libseccomp does not know yet: programs then fall back. All others answer EPERM. A foreign architecture's call
 * kills the process.
 *
 * Arguments are compared in their low 32 bits, always: the kernel takes an `int` argument from those and ignores the
 * rest, so a comparison of 64 bits could be passed by.
 */
#include <linux/filter.h>
#include <stddef.h>

#include "base/err.h"

struct cbx_filter {
	struct sock_filter *insns; /* owned */
	unsigned short len;
	unsigned rules;
};

/* Compile <dir>/<name> and <dir>/absent. Errors name file and line. */
int cbx_filter_compile(const char *dir, const char *name, struct cbx_filter *ret, struct cbx_err *err);
void cbx_filter_release(struct cbx_filter *f);

#endif
