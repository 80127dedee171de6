/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/net.h"

#include <errno.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <sys/socket.h>

#include "base/cleanup.h"

static void free_nl(struct nl_sock **s)
{
	if (*s)
		nl_socket_free(*s);
}

static void free_link(struct rtnl_link **l)
{
	if (*l)
		rtnl_link_put(*l);
}

int cbx_net_loopback_up(struct cbx_err *err)
{
	_cleanup_(free_nl) struct nl_sock *sock = nl_socket_alloc();
	_cleanup_(free_link) struct rtnl_link *old = rtnl_link_alloc();
	_cleanup_(free_link) struct rtnl_link *change = rtnl_link_alloc();
	int r;

	if (!sock || !old || !change)
		return cbx_refuse(err, "network", ENOMEM, "no memory for a netlink message");
	r = nl_connect(sock, NETLINK_ROUTE);
	if (r == 0) {
		rtnl_link_set_ifindex(old, 1); /* a new network namespace has one interface, the loopback, number 1 */
		rtnl_link_set_flags(change, IFF_UP);
		r = rtnl_link_change(sock, old, change, 0);
	}
	if (r < 0)
		return cbx_refuse(err, "network", EIO, "bring the loopback interface up: %s", nl_geterror(r));
	return 0;
}
