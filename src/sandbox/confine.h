/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_CONFINE_H
#define CBX_SANDBOX_CONFINE_H

/* What a process gives up before it becomes a sandbox's init: see enter.c for the order. */
#include "base/err.h"
#include "sandbox/plan.h"

/* Bring the loopback interface of this network namespace up; there is no other. */
int cbx_net_loopback_up(struct cbx_err *err);

/* All five capability sets emptied, the bounding set included, and securebits locked so that no set can be filled again
 * by becoming user 0 or executing anything. */
int cbx_caps_drop(struct cbx_err *err);

/* Resource limits of every process in the sandbox. They hold without cgroups. */
int cbx_rlimits_apply(const struct cbx_plan *plan, struct cbx_err *err);

#endif
