/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/confine.h"

#include <errno.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/limits.h"

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

int cbx_caps_drop(struct cbx_err *err)
{
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
				   SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
				   SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	cap_t none;
	int r;

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return cbx_fail(err, errno, "clear ambient capabilities");
	/* By number until the kernel knows no more, not by a header's idea of the last one. */
	for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return cbx_fail(err, errno, "drop capability %u from the bounding set", cap);
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
		return cbx_fail(err, errno, "lock securebits");
	none = cap_init();
	if (!none)
		return cbx_fail(err, errno, "make an empty capability set");
	r = cap_set_proc(none);
	cap_free(none);
	return r < 0 ? cbx_fail(err, errno, "drop capabilities") : 0;
}

int cbx_rlimits_apply(const struct cbx_plan *plan, struct cbx_err *err)
{
	const struct {
		int resource;
		const char *name;
		rlim_t soft, hard;
	} limits[] = {
		{ RLIMIT_CORE, "CORE", 0, 0 }, /* no core handler of the machine is to parse a hostile process */
		{ RLIMIT_DATA, "DATA", plan->memory_bytes, plan->memory_bytes },
		{ RLIMIT_FSIZE, "FSIZE", CBX_FILE_SIZE_MAX, CBX_FILE_SIZE_MAX },
		{ RLIMIT_MEMLOCK, "MEMLOCK", 0, 0 },
		{ RLIMIT_MSGQUEUE, "MSGQUEUE", 0, 0 },
		{ RLIMIT_NICE, "NICE", 0, 0 },
		{ RLIMIT_NOFILE, "NOFILE", CBX_OPEN_FILES, CBX_OPEN_FILES },
		{ RLIMIT_NPROC, "NPROC", plan->processes, plan->processes },
		{ RLIMIT_RTPRIO, "RTPRIO", 0, 0 },
		{ RLIMIT_SIGPENDING, "SIGPENDING", 1024, 1024 },
		{ RLIMIT_STACK, "STACK", MIB(8), CBX_STACK_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit old, l = { limits[i].soft, limits[i].hard };

		/* A lower limit that the machine set stays. */
		if (getrlimit(limits[i].resource, &old) < 0)
			return cbx_fail(err, errno, "read RLIMIT_%s", limits[i].name);
		if (old.rlim_max < l.rlim_max)
			l.rlim_max = old.rlim_max;
		if (l.rlim_cur > l.rlim_max)
			l.rlim_cur = l.rlim_max;
		if (setrlimit(limits[i].resource, &l) < 0)
			return cbx_fail(err, errno, "set RLIMIT_%s", limits[i].name);
	}
	return 0;
}
