/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_INIT_KILL_H
#define CBX_SANDBOX_INIT_KILL_H

/* Of codebox-init: KILL. */
#include <stdint.h>

int64_t cbx_init_kill_tree(uint64_t pid, int64_t sig);

#endif
