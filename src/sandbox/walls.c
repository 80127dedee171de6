/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one chain of nf_tables at the output hook, written as one batch of netlink messages, which the
 * kernel takes as a whole or not at all. It belongs to the network namespace, and so to the sandbox's user namespace,
 * in which nothing has a capability once init runs. Only sockets with CAP_NET_RAW pass by the hook.
 *
 * What is not let out is answered by the kernel, as if by a router that forbids it: a program has an error at once.
 */
#include "sandbox/walls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"

#define TABLE	 "codebox"
#define CHAIN	 "output"
#define LOOPBACK 1 /* a new network namespace's first interface */

/* ---- messages ---- */

static void pad(struct cbx_buf *b)
{
	static const char zeros[4];

	cbx_buf_add(b, zeros, (4 - b->len % 4) % 4);
}

static void attribute(struct cbx_buf *b, uint16_t type, const void *p, size_t n)
{
	struct nlattr head = { (uint16_t)(sizeof(head) + n), type };

	cbx_buf_add(b, &head, sizeof(head));
	cbx_buf_add(b, p, n);
	pad(b);
}

static void text(struct cbx_buf *b, uint16_t type, const char *s)
{
	attribute(b, type, s, strlen(s) + 1);
}

static void number(struct cbx_buf *b, uint16_t type, uint32_t n)
{
	n = htonl(n);
	attribute(b, type, &n, sizeof(n));
}

static size_t begin(struct cbx_buf *b, uint16_t type)
{
	size_t at = b->len;

	attribute(b, type | NLA_F_NESTED, NULL, 0);
	return at;
}

static void end(struct cbx_buf *b, size_t at)
{
	uint16_t len = (uint16_t)(b->len - at);

	memcpy(b->data + at, &len, sizeof(len));
}

static size_t message(struct cbx_buf *b, uint16_t type, uint16_t flags)
{
	bool of_batch = type == NFNL_MSG_BATCH_BEGIN || type == NFNL_MSG_BATCH_END;
	struct nlmsghdr head = { .nlmsg_type = of_batch ? type : (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type),
				 .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags) };
	struct nfgenmsg family = { .nfgen_family = of_batch ? NFPROTO_UNSPEC : NFPROTO_INET,
				   .res_id = of_batch ? htons(NFNL_SUBSYS_NFTABLES) : 0 };
	size_t at = b->len;

	cbx_buf_add(b, &head, sizeof(head));
	cbx_buf_add(b, &family, sizeof(family));
	return at;
}

static void message_end(struct cbx_buf *b, size_t at)
{
	uint32_t len = (uint32_t)(b->len - at);

	memcpy(b->data + at, &len, sizeof(len));
}

/* ---- expressions of a rule ---- */

struct expression {
	size_t element, data;
};

static struct expression expression(struct cbx_buf *b, const char *name)
{
	struct expression e = { .element = begin(b, NFTA_LIST_ELEM) };

	text(b, NFTA_EXPR_NAME, name);
	e.data = begin(b, NFTA_EXPR_DATA);
	return e;
}

static void expression_end(struct cbx_buf *b, struct expression e)
{
	end(b, e.data);
	end(b, e.element);
}

static void value(struct cbx_buf *b, uint16_t type, const void *p, size_t n)
{
	size_t at = begin(b, type);

	attribute(b, NFTA_DATA_VALUE, p, n);
	end(b, at);
}

static void compare(struct cbx_buf *b, uint32_t how, const void *p, size_t n)
{
	struct expression e = expression(b, "cmp");

	number(b, NFTA_CMP_SREG, NFT_REG_1);
	number(b, NFTA_CMP_OP, how);
	value(b, NFTA_CMP_DATA, p, n);
	expression_end(b, e);
}

/* What the kernel knows of a packet is this. */
static void meta_is(struct cbx_buf *b, uint32_t key, const void *p, size_t n)
{
	struct expression e = expression(b, "meta");

	number(b, NFTA_META_DREG, NFT_REG_1);
	number(b, NFTA_META_KEY, key);
	expression_end(b, e);
	compare(b, NFT_CMP_EQ, p, n);
}

static void byte_is(struct cbx_buf *b, uint32_t key, uint8_t n)
{
	meta_is(b, key, &n, sizeof(n));
}

static void load(struct cbx_buf *b, uint32_t base, uint32_t offset, size_t n)
{
	struct expression e = expression(b, "payload");

	number(b, NFTA_PAYLOAD_DREG, NFT_REG_1);
	number(b, NFTA_PAYLOAD_BASE, base);
	number(b, NFTA_PAYLOAD_OFFSET, offset);
	number(b, NFTA_PAYLOAD_LEN, (uint32_t)n);
	expression_end(b, e);
}

/* It goes to an address of the range; how: or to one that is not. */
static void goes_to(struct cbx_buf *b, const struct cbx_ip_range *r, uint32_t how)
{
	static const uint8_t none[16];
	size_t n = r->ip.v6 ? 16 : 4;
	struct expression e;
	uint8_t mask[16] = { 0 };

	for (unsigned i = 0; i < r->bits; i++)
		mask[i / 8] |= (uint8_t)(0x80 >> i % 8);
	byte_is(b, NFT_META_NFPROTO, r->ip.v6 ? NFPROTO_IPV6 : NFPROTO_IPV4);
	load(b, NFT_PAYLOAD_NETWORK_HEADER, r->ip.v6 ? 24 : 16, n);
	e = expression(b, "bitwise");
	number(b, NFTA_BITWISE_SREG, NFT_REG_1);
	number(b, NFTA_BITWISE_DREG, NFT_REG_1);
	number(b, NFTA_BITWISE_LEN, (uint32_t)n);
	value(b, NFTA_BITWISE_MASK, mask, n);
	value(b, NFTA_BITWISE_XOR, none, n);
	expression_end(b, e);
	compare(b, how, r->ip.bytes, n);
}

static void accept_it(struct cbx_buf *b)
{
	struct expression e = expression(b, "immediate");
	size_t data, verdict;

	number(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = begin(b, NFTA_IMMEDIATE_DATA);
	verdict = begin(b, NFTA_DATA_VERDICT);
	number(b, NFTA_VERDICT_CODE, NF_ACCEPT);
	end(b, verdict);
	end(b, data);
	expression_end(b, e);
}

static void reject_it(struct cbx_buf *b)
{
	struct expression e = expression(b, "reject");
	uint8_t code = NFT_REJECT_ICMPX_ADMIN_PROHIBITED;

	number(b, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
	attribute(b, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
	expression_end(b, e);
}

/* ---- rules ---- */

struct rule {
	size_t message, expressions;
};

static struct rule rule(struct cbx_buf *b, uint16_t flags)
{
	struct rule r = { .message = message(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | flags) };

	text(b, NFTA_RULE_TABLE, TABLE);
	text(b, NFTA_RULE_CHAIN, CHAIN);
	r.expressions = begin(b, NFTA_RULE_EXPRESSIONS);
	return r;
}

static void rule_end(struct cbx_buf *b, struct rule r)
{
	end(b, r.expressions);
	message_end(b, r.message);
}

static void write_chain(struct cbx_buf *b)
{
	size_t at = message(b, NFT_MSG_NEWTABLE, NLM_F_CREATE), hook;

	text(b, NFTA_TABLE_NAME, TABLE);
	message_end(b, at);
	at = message(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	text(b, NFTA_CHAIN_TABLE, TABLE);
	text(b, NFTA_CHAIN_NAME, CHAIN);
	hook = begin(b, NFTA_CHAIN_HOOK);
	number(b, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
	number(b, NFTA_HOOK_PRIORITY, 0);
	end(b, hook);
	text(b, NFTA_CHAIN_TYPE, "filter");
	message_end(b, at);
}

static void let_loopback(struct cbx_buf *b)
{
	uint32_t loopback = LOOPBACK;
	struct rule r = rule(b, 0);

	meta_is(b, NFT_META_OIF, &loopback, sizeof(loopback));
	accept_it(b);
	rule_end(b, r);
}

static void let_resolver(struct cbx_buf *b, const struct cbx_ip *resolver)
{
	struct cbx_ip_range at = { *resolver, resolver->v6 ? 128 : 32 };
	uint16_t port = htons(53);
	struct rule r = rule(b, 0);

	goes_to(b, &at, NFT_CMP_EQ);
	byte_is(b, NFT_META_L4PROTO, IPPROTO_UDP);
	load(b, NFT_PAYLOAD_TRANSPORT_HEADER, 2, sizeof(port));
	compare(b, NFT_CMP_EQ, &port, sizeof(port));
	accept_it(b);
	rule_end(b, r);
}

/* The kernel's own: who has which address. Programs have no sockets for ICMPv6. */
static void let_neighbours(struct cbx_buf *b)
{
	static const struct cbx_ip_range to[] = { { { 1, { 0xfe, 0x80 } }, 10 }, { { 1, { 0xff, 0x02 } }, 16 } };

	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		struct rule r = rule(b, 0);

		goes_to(b, &to[i], NFT_CMP_EQ);
		byte_is(b, NFT_META_L4PROTO, IPPROTO_ICMPV6);
		accept_it(b);
		rule_end(b, r);
	}
}

static void refuse(struct cbx_buf *b, const struct cbx_ip_range *to, uint32_t how, uint16_t flags)
{
	struct rule r = rule(b, flags);

	goes_to(b, to, how);
	reject_it(b);
	rule_end(b, r);
}

static void write_batch(struct cbx_buf *b, const struct cbx_ip *resolver, const struct cbx_own_addresses *machine)
{
	static const struct cbx_ip_range global = { { 1, { 0x20 } }, 3 };
	struct cbx_ip_range special;

	message_end(b, message(b, NFNL_MSG_BATCH_BEGIN, 0));
	write_chain(b);
	let_loopback(b);
	let_resolver(b, resolver);
	let_neighbours(b);
	for (size_t i = 0; cbx_ip_special_range(i, &special); i++)
		refuse(b, &special, NFT_CMP_EQ, 0);
	for (size_t i = 0; i < machine->n; i++) {
		struct cbx_ip_range own = { machine->all[i], machine->all[i].v6 ? 128 : 32 };

		refuse(b, &own, NFT_CMP_EQ, 0);
	}
	refuse(b, &global, NFT_CMP_NEQ, NLM_F_ACK);
	message_end(b, message(b, NFNL_MSG_BATCH_END, 0));
}

/* ---- the kernel ---- */

/* Of a batch that fails, the first message that did is answered; of one that does not, the one that asked for it. */
static int ask_kernel(const struct cbx_buf *b, struct cbx_err *err)
{
	static const char remedy[] =
		"the policy's network \"open\" needs nf_tables with \"inet\" and \"reject\" in the "
		"kernel; use \"allow\" with names of hosts";
	_cleanup_fd_ int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	struct {
		struct nlmsghdr head;
		struct nlmsgerr ack;
		char rest[512];
	} answer;
	ssize_t n;

	if (sock < 0 || send(sock, b->data, b->len, 0) < 0)
		return cbx_refuse(err, "network", errno, "make the packet filter of a sandbox: %s; %s", strerror(errno),
				  remedy);
	n = recv(sock, &answer, sizeof(answer), 0);
	if (n < (ssize_t)(sizeof(answer.head) + sizeof(answer.ack)) || answer.head.nlmsg_type != NLMSG_ERROR)
		return cbx_refuse(err, "network", EPROTO,
				  "the kernel's answer about the packet filter is not understood");
	return answer.ack.error
		       ? cbx_refuse(err, "network", -answer.ack.error, "make the packet filter of a sandbox: %s; %s",
				    strerror(-answer.ack.error), remedy)
		       : 0;
}

int cbx_walls_build(const struct cbx_ip *resolver, const struct cbx_own_addresses *machine, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };

	write_batch(&b, resolver, machine);
	return ask_kernel(&b, err);
}

int cbx_own_addresses(struct cbx_own_addresses *ret, struct cbx_err *err)
{
	struct ifaddrs *all;
	int r = 0;

	if (getifaddrs(&all) < 0)
		return cbx_fail(err, errno, "list the machine's addresses");
	ret->all = cbx_xcalloc(CBX_OPEN_ADDRESSES_MAX, sizeof(*ret->all));
	for (struct ifaddrs *a = all; a && r == 0; a = a->ifa_next) {
		struct cbx_ip ip;

		if (!a->ifa_addr || !cbx_ip_from_sockaddr(&ip, a->ifa_addr) || cbx_ip_special(&ip))
			continue;
		if (ret->n == CBX_OPEN_ADDRESSES_MAX)
			r = cbx_refuse(
				err, "network", E2BIG,
				"the machine has more than %d public addresses, which a session with the network "
				"\"open\" may not reach; use \"allow\" with names of hosts",
				CBX_OPEN_ADDRESSES_MAX);
		else
			ret->all[ret->n++] = ip;
	}
	freeifaddrs(all);
	return r;
}

void cbx_own_addresses_release(struct cbx_own_addresses *own)
{
	free(own->all);
	*own = (struct cbx_own_addresses){ 0 };
}
