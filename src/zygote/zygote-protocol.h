/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_ZYGOTE_ZYGOTE_PROTOCOL_H
#define CBX_ZYGOTE_ZYGOTE_PROTOCOL_H

/*
 * Between the supervisor and a zygote: datagrams on a SOCK_SEQPACKET socket, the zygote's descriptor 3. Host byte
 * order; both ends are the same machine. Code of an image has run in a zygote, so to the supervisor all that it says
 * is hostile.
 *
 *   zygote -> supervisor   READY    it has loaded everything and has one thread. value: 0, or -errno with a text
 *   supervisor -> zygote   ENTER    fork an interpreter into a sandbox. Descriptors, in this order: a pidfd of the
 *                                   sandbox's init; the interpreter's own, from 0 on; and the Landlock ruleset, if any
 *   interpreter -> …       PLACED   from the new process itself, when it is in the sandbox and has given up all that
 *                                   lockdown.h lists; the kernel adds its pid. value: 0, or -errno and the step
 *   zygote -> …            FORKED   its parent has ended, so the interpreter is the supervisor's child by now.
 *                                   value: its pid in the zygote's pid namespace, or -errno and the step
 * PLACED and FORKED come in either order; PLACED does not come when FORKED is a failure.
 */
#include "sandbox/interpreter-fds.h"
#include "sandbox/lockdown.h"

enum cbx_zygote_type {
	CBX_ZYGOTE_READY = 1,
	CBX_ZYGOTE_ENTER = 2,
	CBX_ZYGOTE_PLACED = 3,
	CBX_ZYGOTE_FORKED = 4,
};

/* What failed, beside the steps of lockdown.h. */
enum cbx_zygote_step {
	CBX_ZYGOTE_STEP_SETNS = 101,
	CBX_ZYGOTE_STEP_FORK,
	CBX_ZYGOTE_STEP_DESCRIPTORS,
	CBX_ZYGOTE_STEP_SESSION,
	CBX_ZYGOTE_STEP_USER,
	CBX_ZYGOTE_STEP_DUMPABLE,
	CBX_ZYGOTE_STEP_WORKSPACE,
};

#define CBX_ZYGOTE_FD 3
#define CBX_ZYGOTE_DESCRIPTORS (2 + CBX_INTERPRETER_FDS) /* of ENTER, the ruleset included */

struct cbx_zygote_message {
	__u32 type; /* enum cbx_zygote_type */
	__s32 value;
	__u32 step;
	__u32 zero;
	__u64 sandbox; /* number, from ENTER */
	char text[200]; /* of READY: why not; NUL-terminated */
};

struct cbx_zygote_enter {
	__u32 type; /* CBX_ZYGOTE_ENTER */
	__u32 uid, gid; /* to become, inside */
	__u32 zero;
	__u64 sandbox;
	char workspace[64]; /* to change to at last */
	struct cbx_lockdown lockdown;
};

#endif
