/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_INIT_START_H
#define CBX_SANDBOX_INIT_START_H

/* Of codebox-init: the processes that it starts. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "sandbox/init-protocol.h"

/* SPAWN, GO and RESIZE; each returns the answer's value. A failed step is put into *ret_step. */
int64_t cbx_init_spawn(const struct cbx_init_header *h, char *data, const int *fds, size_t nfds,
		       enum cbx_init_step *ret_step);
int64_t cbx_init_go(uint64_t pid, enum cbx_init_step *ret_step);
int64_t cbx_init_resize(uint64_t pid, int64_t size);
/* A child has been reaped. True: codeboxd knows of it. */
bool cbx_init_ended(pid_t pid);

#endif
