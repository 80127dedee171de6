/* SPDX-License-Identifier: Apache-2.0 */
/* System calls only: see lockdown.h. Nothing here may be turned into a call of a library function, memset included, so
 * there are no large locals and no initializers of arrays. */
#include "sandbox/lockdown.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>

#include "sandbox/rawcall.h"

/* Newer than the oldest kernel headers that we build with; the numbers are the same on every architecture. */
enum {
	NR_LANDLOCK_RESTRICT_SELF = 446,
	SCHED_CORE = 62, /* prctl(PR_SCHED_CORE): Linux 5.14 */
	SCHED_CORE_CREATE = 1,
	SCHED_CORE_THREAD_GROUP = 1,
	SET_MDWE = 65, /* prctl(PR_SET_MDWE): Linux 6.3 */
	MDWE_REFUSE_EXEC_GAIN = 1,
};

struct limit {
	__u64 soft, hard; /* as in struct rlimit64 */
};

static long limit_resources(const struct cbx_lockdown *l)
{
	for (unsigned i = 0; i < CBX_LOCKDOWN_RLIMITS; i++) {
		struct limit old, want;
		long r;

		if (!(l->rlimit_mask & 1u << i))
			continue;
		r = cbx_raw4(__NR_prlimit64, 0, i, 0, &old);
		if (r < 0)
			return r;
		want.soft = l->rlimits[i].soft;
		want.hard = l->rlimits[i].hard;
		if (old.hard < want.hard)
			want.hard = old.hard;
		if (want.soft > want.hard)
			want.soft = want.hard;
		r = cbx_raw4(__NR_prlimit64, 0, i, &want, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

static long empty_bounding_set(void)
{
	/* By number until the kernel knows no more, not by a header's idea of the last one. Any other error is one: it
	 * must not pass for the end. */
	for (unsigned cap = 0;; cap++) {
		long r = cbx_raw5(__NR_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0);

		if (r == -EINVAL && cap > 0)
			return 0;
		if (r < 0)
			return r;
	}
}

static long empty_capabilities(void)
{
	struct __user_cap_header_struct head;
	struct __user_cap_data_struct data[2];

	head.version = _LINUX_CAPABILITY_VERSION_3;
	head.pid = 0;
	for (int i = 0; i < 2; i++) {
		data[i].effective = 0;
		data[i].permitted = 0;
		data[i].inheritable = 0;
	}
	return cbx_raw2(__NR_capset, &head, data);
}

static long load_filter(const struct cbx_lockdown *l)
{
	struct sock_fprog prog;

	prog.len = (unsigned short)l->filter_len;
	prog.filter = (struct sock_filter *)l->filter;
	/* SPEC_ALLOW is omitted on purpose: it would lift the mitigation of speculative store bypass. */
	return cbx_raw3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

/* What is asked for where the machine has it: one without the facility, or without the weakness, answers so. */
static long wherever_possible(long r)
{
	return r == -EINVAL || r == -ENODEV || r == -ENXIO ? 0 : r;
}

static long disable_speculation(void)
{
	long r = cbx_raw5(__NR_prctl, PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_FORCE_DISABLE, 0, 0);

	if (wherever_possible(r) < 0)
		return r;
	r = cbx_raw5(__NR_prctl, PR_SET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, PR_SPEC_FORCE_DISABLE, 0, 0);
	/* EPERM: the machine's administrator decided for everybody, one way or the other. */
	return r == -EPERM ? 0 : wherever_possible(r);
}

static long create_core_cookie(void)
{
	return wherever_possible(
		cbx_raw5(__NR_prctl, SCHED_CORE, SCHED_CORE_CREATE, 0, SCHED_CORE_THREAD_GROUP, 0));
}

int cbx_lockdown(const struct cbx_lockdown *l, int landlock, int *step)
{
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
				   SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
				   SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	long r;

	*step = CBX_LOCKDOWN_STEP_DATA;
	if (l->version != CBX_LOCKDOWN_VERSION || !l->filter_len || l->filter_len > CBX_LOCKDOWN_FILTER_MAX)
		return -EINVAL;
	*step = CBX_LOCKDOWN_STEP_RLIMITS;
	if ((r = limit_resources(l)) < 0)
		return (int)r;
	*step = CBX_LOCKDOWN_STEP_AMBIENT;
	if ((r = cbx_raw5(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)) < 0)
		return (int)r;
	*step = CBX_LOCKDOWN_STEP_BOUNDING;
	if ((r = empty_bounding_set()) < 0)
		return (int)r;
	*step = CBX_LOCKDOWN_STEP_SECUREBITS;
	if ((r = cbx_raw5(__NR_prctl, PR_SET_SECUREBITS, bits, 0, 0, 0)) < 0)
		return (int)r;
	*step = CBX_LOCKDOWN_STEP_CAPABILITIES;
	if ((r = empty_capabilities()) < 0)
		return (int)r;
	*step = CBX_LOCKDOWN_STEP_NO_NEW_PRIVS;
	if ((r = cbx_raw5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) < 0)
		return (int)r;
	*step = CBX_LOCKDOWN_STEP_MDWE;
	if ((l->flags & CBX_LOCKDOWN_MDWE) &&
	    (r = cbx_raw5(__NR_prctl, SET_MDWE, MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)) < 0)
		return (int)r;
	*step = CBX_LOCKDOWN_STEP_CORE_SCHED;
	if ((l->flags & CBX_LOCKDOWN_CORE_SCHED) && (r = create_core_cookie()) < 0)
		return (int)r;
	*step = CBX_LOCKDOWN_STEP_SPECULATION;
	if ((l->flags & CBX_LOCKDOWN_SPECULATION) && (r = disable_speculation()) < 0)
		return (int)r;
	*step = CBX_LOCKDOWN_STEP_LANDLOCK;
	if (landlock >= 0 && (r = cbx_raw2(NR_LANDLOCK_RESTRICT_SELF, landlock, l->landlock_flags)) < 0)
		return (int)r;
	*step = CBX_LOCKDOWN_STEP_FILTER;
	if ((r = load_filter(l)) < 0)
		return (int)r;
	*step = 0;
	return 0;
}
