/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"

/* TIME_WAIT, SYN_RECV and NEW_SYN_RECV: they hold nothing, and are not counted as in use. */
#define NO_SOCKETS   (1u << 6 | 1u << 3 | 1u << 12)
#define ANSWER_BYTES 32768 /* what the kernel puts into one message at most */

/* "sockets: used 5": of the namespace, as long as any memory is charged to them. */
static uint64_t in_use(pid_t init)
{
	char path[48], text[64];
	unsigned long long n;

	snprintf(path, sizeof(path), "/proc/%d/net/sockstat", (int)init);
	if (cbx_read_small(AT_FDCWD, path, text, sizeof(text)) < 0 || sscanf(text, "sockets: used %llu", &n) != 1)
		return 0;
	return n;
}

struct seen {
	uint64_t n, bytes;
};

static void add(struct seen *seen, const struct nlmsghdr *h, size_t head, int attribute)
{
	const char *p = (const char *)NLMSG_DATA(h) + head;
	size_t left = h->nlmsg_len > NLMSG_LENGTH(head) ? h->nlmsg_len - NLMSG_LENGTH(head) : 0;

	seen->n++;
	while (left >= sizeof(struct rtattr)) {
		struct rtattr a;
		uint32_t m[SK_MEMINFO_VARS] = { 0 };

		memcpy(&a, p, sizeof(a));
		if (a.rta_len < sizeof(a) || a.rta_len > left)
			return;
		if (a.rta_type == attribute) {
			size_t n = a.rta_len - sizeof(a);

			memcpy(m, p + sizeof(a), n < sizeof(m) ? n : sizeof(m));
			seen->bytes += (uint64_t)m[SK_MEMINFO_RMEM_ALLOC] + m[SK_MEMINFO_BACKLOG] +
				       (m[SK_MEMINFO_WMEM_ALLOC] > m[SK_MEMINFO_WMEM_QUEUED] ?
						m[SK_MEMINFO_WMEM_ALLOC] :
						m[SK_MEMINFO_WMEM_QUEUED]);
			return;
		}
		if (RTA_ALIGN(a.rta_len) >= left)
			return;
		p += RTA_ALIGN(a.rta_len);
		left -= RTA_ALIGN(a.rta_len);
	}
}

/* The kernel fills in the answer as we read it, so there is nothing to wait for. */
static void dump(int diag, const void *request, size_t len, size_t head, int attribute, struct seen *seen)
{
	_cleanup_free_ char *buf = cbx_xcalloc(1, ANSWER_BYTES);
	struct {
		struct nlmsghdr h;
		char body[sizeof(struct inet_diag_req_v2)];
	} q = { .h = { .nlmsg_len = (uint32_t)NLMSG_LENGTH(len), .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP } };

	memcpy(q.body, request, len);
	if (send(diag, &q, q.h.nlmsg_len, 0) < 0)
		return;
	for (;;) {
		ssize_t n = recv(diag, buf, ANSWER_BYTES, MSG_DONTWAIT);
		const struct nlmsghdr *h;

		if (n <= 0)
			return;
		for (size_t at = 0; at + sizeof(*h) <= (size_t)n; at += NLMSG_ALIGN(h->nlmsg_len)) {
			h = (const struct nlmsghdr *)(buf + at);
			if (h->nlmsg_len < sizeof(*h) || h->nlmsg_len > (size_t)n - at || h->nlmsg_type == NLMSG_DONE ||
			    h->nlmsg_type == NLMSG_ERROR)
				return;
			if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY)
				add(seen, h, head, attribute);
		}
	}
}

static void dump_inet(int diag, int family, int protocol, struct seen *seen)
{
	struct inet_diag_req_v2 q = { .sdiag_family = (uint8_t)family, .sdiag_protocol = (uint8_t)protocol,
				      .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1), .idiag_states = ~NO_SOCKETS };

	dump(diag, &q, sizeof(q), sizeof(struct inet_diag_msg), INET_DIAG_SKMEMINFO, seen);
}

uint64_t cbx_sockets_bytes(pid_t init, int diag)
{
	struct unix_diag_req unix_ = { .sdiag_family = AF_UNIX, .udiag_states = ~0u, .udiag_show = UDIAG_SHOW_MEMINFO };
	static const int protocols[] = { IPPROTO_TCP, IPPROTO_UDP };
	uint64_t used = in_use(init), hidden;
	struct seen seen = { 0 };

	if (used <= CBX_SOCKETS_FREE)
		return 0;
	if (diag >= 0)
		dump(diag, &unix_, sizeof(unix_), sizeof(struct unix_diag_msg), UNIX_DIAG_MEMINFO, &seen);
	for (size_t i = 0; diag >= 0 && i < ARRAY_SIZE(protocols); i++) {
		dump_inet(diag, AF_INET, protocols[i], &seen);
		dump_inet(diag, AF_INET6, protocols[i], &seen);
	}
	hidden = used > seen.n + CBX_SOCKETS_FREE ? used - seen.n - CBX_SOCKETS_FREE : 0;
	return seen.bytes + hidden * CBX_SOCKET_BYTES;
}
