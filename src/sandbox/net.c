/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request is written by libnl once, in the supervisor. Sent by it in each sandbox's first process, the library
 * would cost more than the kernel's work: its code and data are paged in anew after every clone.
 */
#include "sandbox/net.h"

#include <errno.h>
#include <net/if.h>
#include <netlink/msg.h>
#include <netlink/route/link.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/socket.h"
#include "sandbox/plan.h"

static void free_msg(struct nl_msg **m)
{
	nlmsg_free(*m);
}

static void free_link(struct rtnl_link **l)
{
	if (*l)
		rtnl_link_put(*l);
}

int cbx_net_prepare(struct cbx_net_request *ret, struct cbx_err *err)
{
	_cleanup_(free_link) struct rtnl_link *old = rtnl_link_alloc();
	_cleanup_(free_link) struct rtnl_link *change = rtnl_link_alloc();
	_cleanup_(free_msg) struct nl_msg *msg = NULL;
	struct nlmsghdr *head;
	int r;

	if (!old || !change)
		return cbx_refuse(err, "network", ENOMEM, "no memory for a netlink message");
	rtnl_link_set_ifindex(old, 1); /* a new network namespace has one interface, the loopback, number 1 */
	rtnl_link_set_flags(change, IFF_UP);
	r = rtnl_link_build_change_request(old, change, 0, &msg);
	if (r < 0)
		return cbx_refuse(err, "network", EIO, "write a netlink message: %s", nl_geterror(r));
	head = nlmsg_hdr(msg);
	head->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (head->nlmsg_len > sizeof(ret->bytes))
		return cbx_refuse(err, "network", EMSGSIZE, "a netlink message is longer than expected");
	ret->len = head->nlmsg_len;
	memcpy(ret->bytes, head, ret->len);
	return 0;
}

int cbx_net_loopback_up(const struct cbx_net_request *request, struct cbx_err *err)
{
	_cleanup_fd_ int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct {
		struct nlmsghdr head;
		struct nlmsgerr ack; /* with the request's header, whose rest is cut off */
		char rest[512];
	} answer;
	ssize_t n;

	if (sock < 0 || send(sock, request->bytes, request->len, 0) < 0)
		return cbx_fail(err, errno, "ask for the loopback interface");
	n = recv(sock, &answer, sizeof(answer), 0);
	if (n < 0)
		return cbx_fail(err, errno, "hear about the loopback interface");
	if ((size_t)n < sizeof(answer.head) + sizeof(answer.ack) || answer.head.nlmsg_type != NLMSG_ERROR)
		return cbx_refuse(err, "network", EPROTO,
				  "the kernel's answer about the loopback interface is not understood");
	return answer.ack.error ? cbx_fail(err, -answer.ack.error, "bring the loopback interface up") : 0;
}

int cbx_net_hand_out_listener(int door, struct cbx_err *err)
{
	struct cbx_address at;
	_cleanup_fd_ int fd = -1;
	int r;

	cbx_address_loopback(&at, false, CBX_INSIDE_PROXY_PORT);
	fd = cbx_listen(&at, NULL, err);
	if (fd < 0)
		return fd;
	r = cbx_send_fds(door, "l", 1, &fd, 1);
	return r < 0 ? cbx_fail(err, -r, "hand out the proxy's listener") : 0;
}
