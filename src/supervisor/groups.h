/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SUPERVISOR_GROUPS_H
#define CBX_SUPERVISOR_GROUPS_H

/*
 * A sandbox's two control groups, as the supervisor uses them. codeboxd makes and limits them, and hands over the two
 * directories: init is cloned into one, and what init starts (the interpreter, and what that may have started already)
 * is gathered into the other before any cell runs. cgroup v2 asks for write access to cgroup.procs of both and of their
 * common parent; all of them belong to the service id, which is what the supervisor is.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct cbx_groups {
	int init; /* directory of init's group; -1: this sandbox has none */
	int work; /* directory of everything else's group */
};

/* Move every process of the group `init` but the process init itself to `work`, until a look finds none. A process that
 * ends meanwhile is not an error; one that cannot be moved is. */
int cbx_groups_gather(const struct cbx_groups *group, pid_t init, struct cbx_err *err);
/* Put one process, a child of the caller that it has not reaped, into `work`. Nothing to do without groups. */
int cbx_groups_add(const struct cbx_groups *group, pid_t pid, struct cbx_err *err);
/* Processor time of `work`, of those too whom nobody has waited for: cpu.stat is there without the cpu controller. False:
 * there are no groups. */
bool cbx_groups_used(const struct cbx_groups *group, uint64_t *ret_ns);
/* Close both. */
void cbx_groups_release(struct cbx_groups *group);

#endif
