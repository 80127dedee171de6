/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/lockdown.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "sandbox/landlock.h"
#include "sandbox/outer.h"
#include "sandbox/plan.h"

_Static_assert(RLIM_NLIMITS <= CBX_LOCKDOWN_RLIMITS, "a resource limit's number is an index");

static void limit(struct cbx_lockdown *l, unsigned resource, uint64_t soft, uint64_t hard)
{
	l->rlimit_mask |= 1u << resource;
	l->rlimits[resource].soft = soft;
	l->rlimits[resource].hard = hard;
}

static void limits(struct cbx_lockdown *l, const struct cbx_plan *plan)
{
	limit(l, RLIMIT_CORE, 0, 0); /* no core handler of the machine is to parse a hostile process */
	/* It counts what is reserved, and not what is used. So it is only for what needs to reserve nothing; what a
	 * zygote has is lifted. */
	limit(l, RLIMIT_DATA, plan->data_bytes ? plan->data_bytes : RLIM_INFINITY,
	      plan->data_bytes ? plan->data_bytes : RLIM_INFINITY);
	limit(l, RLIMIT_FSIZE, CBX_FILE_SIZE_MAX, CBX_FILE_SIZE_MAX);
	limit(l, RLIMIT_MEMLOCK, CBX_LOCKED_MEMORY, CBX_LOCKED_MEMORY);
	limit(l, RLIMIT_MSGQUEUE, CBX_MESSAGE_QUEUES, CBX_MESSAGE_QUEUES);
	limit(l, RLIMIT_NICE, 0, 0);
	limit(l, RLIMIT_NOFILE, CBX_OPEN_FILES, CBX_OPEN_FILES_MAX);
	limit(l, RLIMIT_NPROC, plan->processes, plan->processes);
	limit(l, RLIMIT_RTPRIO, 0, 0);
	limit(l, RLIMIT_SIGPENDING, 1024, 1024);
	limit(l, RLIMIT_STACK, MIB(8), CBX_STACK_MAX);
}

static int set_filter(struct cbx_lockdown *l, const struct cbx_filter *f, struct cbx_err *err)
{
	if (!f->len || f->len > CBX_LOCKDOWN_FILTER_MAX)
		return cbx_refuse(err, "filter", EINVAL, "there is no system call filter for this profile");
	l->filter_len = f->len;
	memcpy(l->filter, f->insns, f->len * sizeof(*f->insns));
	return 0;
}

int cbx_lockdown_prepare(const struct cbx_outer *outer, const struct cbx_plan *plan, struct cbx_lockdown *ret,
			 struct cbx_err *err)
{
	memset(ret, 0, sizeof(*ret));
	ret->version = CBX_LOCKDOWN_VERSION;
	limits(ret, plan);
	ret->flags = (plan->flags & CBX_PLAN_MDWE ? CBX_LOCKDOWN_MDWE : 0) |
		     (plan->flags & CBX_PLAN_CORE_SCHED ? CBX_LOCKDOWN_CORE_SCHED : 0) |
		     (plan->flags & CBX_PLAN_SPECULATION ? CBX_LOCKDOWN_SPECULATION : 0);
	ret->landlock_flags = cbx_landlock_restrict_flags(outer->landlock_abi);
	return set_filter(ret, &outer->filters[plan->profile], err);
}

int cbx_lockdown_for_zygote(const struct cbx_outer *outer, struct cbx_lockdown *l, struct cbx_err *err)
{
	limit(l, RLIMIT_DATA, CBX_ZYGOTE_MEMORY_MAX, RLIM_INFINITY);
	/* Counted are all processes of its user: the sandboxes' too. */
	l->rlimit_mask &= ~(1u << RLIMIT_NPROC);
	return set_filter(l, &outer->zygote_filter, err);
}

const char *cbx_lockdown_step_name(int step)
{
	static const char *const names[] = {
		[CBX_LOCKDOWN_STEP_DATA] = "read what to give up",
		[CBX_LOCKDOWN_STEP_RLIMITS] = "set resource limits",
		[CBX_LOCKDOWN_STEP_AMBIENT] = "clear ambient capabilities",
		[CBX_LOCKDOWN_STEP_BOUNDING] = "empty the capability bounding set",
		[CBX_LOCKDOWN_STEP_SECUREBITS] = "lock securebits",
		[CBX_LOCKDOWN_STEP_CAPABILITIES] = "drop capabilities",
		[CBX_LOCKDOWN_STEP_NO_NEW_PRIVS] = "set no_new_privs",
		[CBX_LOCKDOWN_STEP_MDWE] = "refuse executable memory that was writable",
		[CBX_LOCKDOWN_STEP_CORE_SCHED] = "keep processor cores apart",
		[CBX_LOCKDOWN_STEP_SPECULATION] = "switch speculation off",
		[CBX_LOCKDOWN_STEP_LANDLOCK] = "apply Landlock's ruleset",
		[CBX_LOCKDOWN_STEP_FILTER] = "load the system call filter",
	};

	if (step < 1 || (size_t)step >= ARRAY_SIZE(names) || !names[step])
		return "give up privileges";
	return names[step];
}
