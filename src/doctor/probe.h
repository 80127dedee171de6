/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DOCTOR_PROBE_H
#define CBX_DOCTOR_PROBE_H

/*
 * Things that can only be known by doing them are done in a child, as the id that will do them in earnest, and the
 * child is killed when it takes too long.
 */
#include <stdint.h>

#include "base/dirs.h"

#define CBX_LABEL_IN_FORCE " (enforce)" /* ends the label of a process whose AppArmor profile is enforced */
/* The label of a program without a profile that made a user namespace where that is restricted. */
#define CBX_LABEL_RESTRICTED "unprivileged_userns"

struct cbx_probe_report {
	int32_t stage; /* where it ended; a probe's own enum */
	int32_t code;  /* errno there; 0: none */
	int32_t extra;
	int32_t done; /* 0: the child said nothing (killed, or out of time) */
	char label[64]; /* AppArmor's, of the process that got there: "NAME (enforce)", "unconfined", "" */
};

typedef void (*cbx_probe_fn)(void *arg, struct cbx_probe_report *report);

/* 0, or -errno when no child could be made. */
int cbx_probe_run(const struct cbx_service *service, cbx_probe_fn fn, void *arg, struct cbx_probe_report *ret);

enum cbx_ns_stage {
	CBX_NS_BECOME, /* taking the service id */
	CBX_NS_USER,   /* unshare(CLONE_NEWUSER) */
	CBX_NS_MAPS,   /* uid_map, gid_map */
	CBX_NS_REST,   /* pid, mount, network, ipc, uts and cgroup namespaces */
	CBX_NS_FORK,
	CBX_NS_MOUNT,  /* private propagation and a tmpfs */
	CBX_NS_PROC,   /* proc of the new pid namespace */
	CBX_NS_LO,     /* loopback up */
	CBX_NS_NESTED, /* a user namespace within: a sandbox in the supervisor's */
	CBX_NS_DONE,   /* extra: errno of an overlay mount, 0 when it works */
};

void cbx_probe_namespaces(void *arg, struct cbx_probe_report *report);

#endif
