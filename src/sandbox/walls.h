/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_WALLS_H
#define CBX_SANDBOX_WALLS_H

/*
 * What a sandbox with a route may send packets to: its own loopback, the resolver, and public addresses
 * (cbx_ip_special()) that are not the machine's own. A packet filter of its network namespace says so, before there is
 * an interface but the loopback. Routes would not do: a socket that is bound to an interface does without one.
 */
#include <stddef.h>

#include "base/err.h"
#include "policy/host.h"

struct cbx_own_addresses {
	struct cbx_ip *all; /* owned */
	size_t n;
};

/* The addresses of the network namespace that the caller is in. */
int cbx_own_addresses(struct cbx_own_addresses *ret, struct cbx_err *err);
void cbx_own_addresses_release(struct cbx_own_addresses *own);

/* For the network namespace that the caller is in. resolver: what stands for one, an address. */
int cbx_walls_build(const struct cbx_ip *resolver, const struct cbx_own_addresses *machine, struct cbx_err *err);

#endif
