/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_SECCOMP_H
#define CBX_SANDBOX_SECCOMP_H

/*
 * System call filters. A profile is a list of system calls, a data file in policies/syscalls/. It is compiled once into
 * a program that is then loaded as it is (lockdown.h): building one for each sandbox would cost more than its
 * namespaces.
 *
 * man/codebox-syscalls.5 says what the lines of a list mean. In what is compiled, arguments are compared in their low 32
 * bits, always: the kernel takes an `int` argument from those and ignores the rest, so a comparison of 64 bits could be
 * passed by.
 */
#include <linux/filter.h>
#include <stddef.h>

#include "base/err.h"

struct cbx_filter {
	struct sock_filter *insns; /* owned */
	unsigned short len;
	unsigned rules; /* system calls allowed, with conditions or without */
};

/* Compile <dir>/<name> with the groups that it names. Errors name file and line: an unknown call, a bad condition, a
 * program longer than CBX_LOCKDOWN_FILTER_MAX. */
int cbx_filter_compile(const char *dir, const char *name, struct cbx_filter *ret, struct cbx_err *err);
void cbx_filter_release(struct cbx_filter *f);

#endif
