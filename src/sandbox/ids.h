/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_IDS_H
#define CBX_SANDBOX_IDS_H

/*
 * User and group ids. Two maps are stacked: the outer namespace's, made once, and each sandbox's, one id wide.
 *
 *   outer 0        -> the service id on the machine (the user; never 0)
 *   outer 1..N-1   -> ids of a range, where the machine gives one
 *   sandbox 1000   -> outer 0 where there is no range, and for a sandbox with mounts of the machine whose user is not
 *                     root; else an outer id of its own
 *
 * A range comes from /etc/subuid and /etc/subgid through newuidmap(1) for an ordinary user; root writes its own fixed
 * range (CBX_SERVICE_RANGE), unless it is a container's root that has not got these ids.
 */
#include <stdint.h>
#include <sys/types.h>

#include "base/dirs.h"
#include "base/err.h"

struct cbx_ids {
	uid_t uid;      /* service id on the machine */
	gid_t gid;
	int from_root;  /* 1: this process may write any map */
	uint32_t first_uid, first_gid; /* range on the machine for outer 1.. */
	uint32_t count; /* ids in the range; 0: there is none */
};

/* Find out what this process may use. Never fails: without a range there is one id. */
void cbx_ids_find(uid_t service_uid, gid_t service_gid, struct cbx_ids *ret);
/* Write the outer namespace's maps for process pid. When the range turns out to be refused, falls back to one id and
 * sets ids->count to 0. */
int cbx_ids_write_outer(struct cbx_ids *ids, pid_t pid, struct cbx_err *err);
/* Write a sandbox's maps: inside uid and gid (plan.h) -> outer id. To be called within the outer namespace. */
int cbx_ids_write_sandbox(pid_t pid, uint32_t outer_id, struct cbx_err *err);

#endif
