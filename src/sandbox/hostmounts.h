/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_HOSTMOUNTS_H
#define CBX_SANDBOX_HOSTMOUNTS_H

/*
 * Directories and files of the machine in a sandbox, as plan.h's mounts say.
 *
 * The supervisor's own root holds nothing of the machine but /usr. Only where codeboxd's policy allows mounts, or its
 * user may say yes to some while it runs, it keeps a descriptor of the mount namespace that it was started in: a copy of
 * the machine's, into which new mounts of the machine still propagate. For each sandbox with mounts a short-lived
 * process enters that namespace, opens the sources, makes detached mounts of them, restricts those, and passes them to
 * the sandbox's set-up, which attaches them. So a source that takes its time (a network file system) holds up the one
 * session that asked for it.
 */
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/plan.h"

/* Before anything is changed in the mount namespace that we were started in: keep it, and continue in a copy. */
int cbx_host_keep(int *ret_ns, struct cbx_err *err);

/* Fork the process that opens the plan's sources; *ret_pid is the caller's to reap. Returns the descriptor to
 * receive them from. */
int cbx_host_open(int ns, const struct cbx_plan *plan, pid_t *ret_pid, struct cbx_err *err);

/* ---- in the sandbox's set-up ---- */

/* Make what the mounts are attached to: those in the workspace in its directory, or all others in the root's upper
 * layer. `dir` is the workspace or the layer. */
int cbx_host_make_targets(const struct cbx_plan *plan, int dir, int in_workspace, struct cbx_err *err);
/* Receive all mounts and attach them beneath root. One that the session's user cannot read, or write where the plan says
 * so, is refused. */
int cbx_host_attach(int from, const struct cbx_plan *plan, int root, struct cbx_err *err);

#endif
