/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SUPERVISOR_SOCKETS_H
#define CBX_SUPERVISOR_SOCKETS_H

/*
 * The memory that the sockets of a sandbox's network namespace hold: it is the kernel's, so no process has it mapped.
 */
#include <stdint.h>
#include <sys/types.h>

/* Bytes. init: a process of that namespace; diag: a sock_diag(7) socket made in it, or -1. The first CBX_SOCKETS_FREE
 * sockets are not looked at. What cannot be seen (sockets that were closed and whose data others have not read; all of
 * them, without sock_diag) is counted with CBX_SOCKET_BYTES. */
uint64_t cbx_sockets_bytes(pid_t init, int diag);

#endif
