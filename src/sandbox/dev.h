/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_DEV_H
#define CBX_SANDBOX_DEV_H

/* A sandbox's /dev: the outer namespace's devices, /dev/shm, and its own terminals and message queues. */
#include <stdbool.h>

#include "base/err.h"
#include "sandbox/plan.h"

/* Fill the directory dev, a mount that is attached below root, and make it read-only. *ret_shm: the mount of /dev/shm,
 * owned by the caller. Changes the working directory. */
int cbx_dev_fill(int dev, int root, const struct cbx_plan *plan, bool zygote, int *ret_shm, struct cbx_err *err);

#endif
