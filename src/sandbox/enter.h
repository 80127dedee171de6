/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_ENTER_H
#define CBX_SANDBOX_ENTER_H

/*
 * Making a sandbox: the one place that isolates. The supervisor calls cbx_sandbox_start(), which clones a process into
 * new namespaces; that process sets itself up as enter.c's list says and becomes the sandbox's init.
 */
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/handed.h"
#include "sandbox/outer.h"
#include "sandbox/plan.h"

/*
 * What is executed in place of codebox-init: a zygote (zygote/zygote-protocol.h), built the same way with other data.
 * It stays in the outer user and pid namespaces, where it has no capability left, so that it can enter the sandboxes
 * below; it sees no /proc, since that would be the one of all sandboxes; it finds codebox-zygote.so at
 * CBX_INSIDE_ZYGOTE.
 */
struct cbx_program {
	char *const *argv, *const *envp; /* argv[0]: a path in the image */
};

struct cbx_starting {
	pid_t pid;    /* init, as seen by the supervisor */
	pid_t opener; /* a child that opens the machine's mounts for it, and ends then; left as it was when there is none */
	pid_t route;  /* its pasta, the caller's to end and to reap; left as it was when it has no route */
	int pidfd;    /* owned by the caller */
	int report;   /* owned by the caller; see sandbox/handed.h */
};

/* Clone and send the new process on its way. Returns before set-up is done. Descriptors are borrowed: init_sock; door,
 * which a listener is handed out by with CBX_PLAN_PROXY, else -1; cgroup, the directory of the control group that init is
 * born in, -1 for the supervisor's. program: NULL for codebox-init. */
int cbx_sandbox_start(const struct cbx_outer *outer, const struct cbx_plan *plan, uint32_t outer_id, int init_sock,
		      int door, int cgroup, const struct cbx_program *program, struct cbx_starting *ret, struct cbx_err *err);

#endif
