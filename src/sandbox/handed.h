/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_HANDED_H
#define CBX_SANDBOX_HANDED_H

/* What passes from a sandbox that is being set up to the supervisor, by the report socket (enter.h), and how such a
 * sandbox gives up the machine's protection from running out of memory. Nothing of a session runs yet. */
#include "base/err.h"

/* What a sandbox hands over while it is set up; all owned by whoever has it, each -1 where there is none. */
struct cbx_handed {
	int landlock; /* its ruleset */
	int shm;      /* its /dev/shm, whose pages no process need map */
	int sockets;  /* a sock_diag(7) socket of its network namespace, by which what its sockets hold is seen */
};
#define CBX_HANDED_NONE ((struct cbx_handed){ -1, -1, -1 })
void cbx_handed_release(struct cbx_handed *h);

/* Its set-up's side. shm is borrowed. */
int cbx_handed_send(int report, int shm, struct cbx_err *err);
/* When the machine runs out of memory, a session goes before any program of the machine's users. */
int cbx_handed_to_oom(struct cbx_err *err);

/*
 * Call when `report` is readable. 0: init was executed in a complete sandbox. Negative: set-up failed, err says how.
 * 1: call again when there is more; something was added to what is handed over.
 */
int cbx_sandbox_report(int report, struct cbx_handed *handed, struct cbx_err *err);

#endif
