/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SUPERVISOR_VERIFY_H
#define CBX_SUPERVISOR_VERIFY_H

/*
 * Is a process that a zygote has made what an interpreter must be? Asked of the kernel, about a child of ours, before
 * codeboxd hears of it. It is the independent check that the zygote's way ends where init's does.
 */
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/lockdown.h"

/*
 * 0 when pid is a child of this process with one thread; is in every namespace of init and has its root directory, user
 * and group; has no capability in any set, no_new_privs, one system call filter more than the zygote at least, and no
 * resource limit above those of `want`, which it cannot raise again. *ret_inside is its pid in the sandbox. Negative:
 * err says what is not so.
 */
int cbx_verify_interpreter(pid_t pid, pid_t init, pid_t zygote, const struct cbx_lockdown *want, pid_t *ret_inside,
			   struct cbx_err *err);

#endif
