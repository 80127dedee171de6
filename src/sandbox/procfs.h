/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_PROCFS_H
#define CBX_SANDBOX_PROCFS_H

/*
 * A sandbox's /proc: of its own pid namespace, with what reveals or changes the machine masked, and with
 * meminfo, cpuinfo, stat, uptime and loadavg showing the session's limits instead of the machine's state. Under the
 * strict profile there are only processes in it.
 */
#include "base/err.h"
#include "sandbox/outer.h"
#include "sandbox/plan.h"

/* Find out, once, what there is to mask; in the outer namespace's /proc. */
int cbx_procfs_survey(struct cbx_outer *outer, struct cbx_err *err);

/* Mount and mask <root>/proc. `store` is the session's tmpfs, where the files shown are written. */
int cbx_procfs_mount(int root, int store, const struct cbx_outer *outer, const struct cbx_plan *plan,
		     struct cbx_err *err);

#endif
