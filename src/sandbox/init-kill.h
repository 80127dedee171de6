/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_INIT_KILL_H
#define CBX_SANDBOX_INIT_KILL_H

/* Of codebox-init: KILL. */
#include <stdint.h>
#include <sys/types.h>

int64_t cbx_init_kill_tree(uint64_t pid, int64_t sig);
void cbx_init_kill_session(pid_t leader); /* all of its members, with SIGKILL */

#endif
