/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_HOSTNAMES_H
#define CBX_SANDBOX_HOSTNAMES_H

/*
 * What paths of the machine are really called. Opening one may take for ever (a file system of the network whose server
 * does not answer), so where somebody waits for it, that is done by a process which the kernel ends after a while.
 */
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/plan.h"

struct cbx_host_name {
	int32_t error; /* an errno: it is not there, or not all of it. 0: it is */
	uint32_t mode;
	uint64_t dev, ino;
	uint32_t in_memory; /* 1: its file system is a tmpfs or ramfs, as far as is known */
	char name[CBX_PATH_MAX]; /* without links; of what is not there as far as it is. "": not known, or too long */
};

/* Fork a process that answers paths, one in each datagram, until the end of the socket, for CBX_HOST_NAMES_MS at most; in
 * the machine's mount namespace, where that was kept. *ret_pid is the caller's to reap. */
int cbx_host_names_serve(int ns, int sock, pid_t *ret_pid, struct cbx_err *err);

#endif
