/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a process that forks while it is moved leaves its child where it was itself, so one pass is not
 * enough; a child of a process that has been moved is in `work` from its start, so passes come to an end unless code in
 * the sandbox forks faster than we move. Then the bound on passes says so, and the interpreter is killed.
 *
 * cgroup.procs takes a number, and a number can be given to another process when its owner ends. So each process is
 * held by a pidfd that is opened between two looks at the list: what is in the second look too is a process of this
 * sandbox, and when the pidfd's process still lives after the write, it was the one that was written.
 */
#include "supervisor/groups.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/syscalls.h"
#include "cgroup/files.h"
#include "cgroup/parse.h"

#define PASSES	16
#define AT_ONCE 64 /* processes of one pass */

/* The first processes of a group other than `but`. Those of other pid namespaces read as 0, and are skipped. */
static int list(int dir, pid_t but, pid_t *pids, size_t max, size_t *ret_n, struct cbx_err *err)
{
	char text[4096], *p = text, *end;
	ssize_t len = cbx_read_small(dir, "cgroup.procs", text, sizeof(text));

	*ret_n = 0;
	if (len < 0)
		return cbx_fail(err, (int)-len, "read the processes of the sandbox's control group");
	for (long pid; *ret_n < max && (pid = strtol(p, &end, 10), end != p) && *end == '\n'; p = end)
		if (pid > 0 && pid != but)
			pids[(*ret_n)++] = (pid_t)pid;
	return 0;
}

static bool has(const pid_t *pids, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* 0 also when the process has ended. */
static int move(int procs, pid_t pid, int pidfd, struct cbx_err *err)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)pid);

	if (write(procs, text, (size_t)n) < 0 && errno != ESRCH)
		return cbx_fail(err, errno, "move process %d to its control group", (int)pid);
	/* A zombie still takes the signal 0: its number is not free yet. */
	if (cbx_pidfd_send_signal(pidfd, 0) < 0 && errno != ESRCH)
		return cbx_fail(err, errno, "look at process %d after it was moved", (int)pid);
	return 0;
}

/* *ret_n: how many were seen. */
static int pass(const struct cbx_groups *g, int procs, pid_t init, size_t *ret_n, struct cbx_err *err)
{
	pid_t first[AT_ONCE], second[AT_ONCE];
	int pidfds[AT_ONCE], r;
	size_t n;

	r = list(g->init, init, first, AT_ONCE, ret_n, err);
	if (r < 0 || *ret_n == 0)
		return r;
	for (size_t i = 0; i < *ret_n; i++)
		pidfds[i] = cbx_pidfd_open(first[i], 0);
	r = list(g->init, init, second, AT_ONCE, &n, err);
	for (size_t i = 0; i < *ret_n; i++) {
		if (r == 0 && pidfds[i] >= 0 && has(second, n, first[i]))
			r = move(procs, first[i], pidfds[i], err);
		cbx_close_p(&pidfds[i]);
	}
	return r;
}

int cbx_groups_gather(const struct cbx_groups *g, pid_t init, struct cbx_err *err)
{
	_cleanup_fd_ int procs = openat(g->work, "cgroup.procs", O_WRONLY | O_CLOEXEC);

	if (procs < 0)
		return cbx_fail(err, errno, "open cgroup.procs of the sandbox");
	for (int i = 0; i < PASSES; i++) {
		size_t n;
		int r = pass(g, procs, init, &n, err);

		if (r < 0 || n == 0)
			return r;
	}
	return cbx_refuse(err, "cgroup", EAGAIN,
			  "processes of the sandbox were made faster than they could be limited");
}

int cbx_groups_add(const struct cbx_groups *g, pid_t pid, struct cbx_err *err)
{
	_cleanup_fd_ int procs = -1;
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)pid);

	if (g->work < 0)
		return 0;
	procs = openat(g->work, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (procs < 0)
		return cbx_fail(err, errno, "open cgroup.procs of the sandbox");
	if (write(procs, text, (size_t)n) < 0)
		return cbx_fail(err, errno, "move the interpreter to its control group");
	return 0;
}

bool cbx_groups_used(const struct cbx_groups *g, uint64_t *ret_ns)
{
	char text[1024];
	uint64_t us;
	ssize_t n = g->work < 0 ? -1 : cbx_read_small(g->work, "cpu.stat", text, sizeof(text));

	if (n < 0 || !cbx_cgroup_parse_value(text, (size_t)n, "usage_usec", &us))
		return false;
	*ret_ns = us * 1000;
	return true;
}

void cbx_groups_release(struct cbx_groups *g)
{
	cbx_close_p(&g->init);
	cbx_close_p(&g->work);
}
