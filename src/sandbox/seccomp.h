/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_SECCOMP_H
#define CBX_SANDBOX_SECCOMP_H

/*
 * System call filters. A profile is a list of system calls, a data file in policies/syscalls/. It is compiled once into
 * a program that is then loaded as it is (lockdown.h): building one for each sandbox would cost more than its
 * namespaces.
 *
 * A list has one rule a line; '#' starts a comment:
 *     read                          allowed
 *     socket arg0=1 arg2=0          allowed when both arguments have these values
 *     clone arg0&0x7e028080=0       allowed when the masked argument has this value
 *     -setsockopt arg1=1 arg2=26    refused (EPERM) when the arguments have these values, whatever else allows it
 *     EAFNOSUPPORT socket           what the call answers where no line allows it, in place of EPERM
 *     EPROTONOSUPPORT socket arg0=2 the same when the arguments have these values
 *     0 sched_setaffinity           likewise: nothing is done, and it answers as if it were
 *     @files                        what the list groups/files says
 *     !never                        the calls that the list groups/never names are refused (EPERM)
 *     ?absent                       the calls that groups/absent names answer ENOSYS, as on a kernel without them
 * Groups hold no groups. A line of a '!' group with an answer and no condition counts; one with conditions does not.
 * An unconditional line wins over conditional ones. A call whose conditions do not hold is
 * refused, or ENOSYS where a '?' names it. A call that no list names is newer than the lists and answers ENOSYS, so
 * that programs take their other way. A foreign architecture's call kills the process, and so does an x32 one.
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
	unsigned rules; /* system calls allowed, with conditions or without */
};

/* Compile <dir>/<name> with the groups that it names. Errors name file and line: an unknown call, a bad condition, a
 * program longer than CBX_LOCKDOWN_FILTER_MAX. */
int cbx_filter_compile(const char *dir, const char *name, struct cbx_filter *ret, struct cbx_err *err);
void cbx_filter_release(struct cbx_filter *f);

#endif
