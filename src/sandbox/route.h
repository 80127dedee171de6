/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_ROUTE_H
#define CBX_SANDBOX_ROUTE_H

/*
 * A sandbox's route, with CBX_PLAN_OPEN: a process of pasta for each sandbox, in the machine's network namespace and in
 * the supervisor's pid namespace, with a tap interface in the sandbox's. It carries out what packets ask for with
 *sockets of its own, as the user that the supervisor is. What it may carry is not its affair: see walls.h.
 *
 *	cbx_route_prepare(&way, &err);                  before the sandbox's first process is made; it has both ends,
 *too way.pid = … cbx_route_start(&way, plan, init, &err);   in the supervisor, when that process has its ids
 *	cbx_route_await(&way, plan, &err);              in the sandbox's set-up, before it gives up what it has
 */
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/plan.h"
#include "sandbox/walls.h"

struct cbx_route {
	int ready[2], said[2]; /* pipes: pasta's process number, once all is there; what it says */
	struct cbx_own_addresses machine;
};
#define CBX_ROUTE_NONE                                                                                                 \
	{                                                                                                              \
		{ -1, -1 }, { -1, -1 },                                                                                \
		{                                                                                                      \
			0                                                                                              \
		}                                                                                                      \
	}

int cbx_route_prepare(struct cbx_route *ret, struct cbx_err *err);
void cbx_route_release(struct cbx_route *way);
/* Returns its process number, the caller's to end and to reap. */
int cbx_route_start(const struct cbx_route *way, const struct cbx_plan *plan, pid_t init, pid_t *ret_pid,
		    struct cbx_err *err);

/* ---- in the sandbox's set-up ---- */

/* While there is no interface but the loopback. */
int cbx_route_wall(struct cbx_route *way, const struct cbx_plan *plan, struct cbx_err *err);
int cbx_route_await(struct cbx_route *way, struct cbx_err *err);
/* For /etc/resolv.conf: what pasta hands to the machine's resolver. */
const char *cbx_route_resolver(const struct cbx_plan *plan);

#endif
