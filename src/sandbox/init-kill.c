/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the tree of a process is what it has started, as far as that can be known: its descendants, and
 * the members of its session. One that has left both (a daemon, whose parent ended) is found by nobody. /proc is looked
 * through until a look finds nobody new. Before SIGKILL each is stopped as it is found: else it could keep starting
 * others, and the children of those that were killed first would be ours, and not be known.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/limits.h"
#include "sandbox/init-kill.h"

#define LOOKS 32 /* at most: who forks as fast as that is killed with the session */

static pid_t found[CBX_PROCESSES_MAX];
static size_t nfound;

static bool is_found(pid_t pid)
{
	for (size_t i = 0; i < nfound; i++)
		if (found[i] == pid)
			return true;
	return false;
}

static bool number(char **p, pid_t *ret)
{
	char *end;

	*ret = (pid_t)strtol(*p, &end, 10);
	return end != *p && (*p = end);
}

/* Its parent and its session: "12 (any name) S 1 12 12 …". */
static bool look_up(int proc, const char *name, pid_t *ret_parent, pid_t *ret_session)
{
	char path[32], text[512], *p;
	pid_t group;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.10s/stat", name);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	p = strrchr(text, ')');
	if (!p || strnlen(p, 4) < 4)
		return false;
	p += 3; /* ") S" */
	return number(&p, ret_parent) && number(&p, &group) && number(&p, ret_session);
}

/* How many were not known before. */
static size_t look(int proc, pid_t leader, bool stop)
{
	size_t before = nfound;
	char buf[8192];
	long n;

	if (lseek(proc, 0, SEEK_SET) < 0)
		return 0;
	while ((n = syscall(SYS_getdents64, proc, buf, sizeof(buf))) > 0)
		for (long at = 0; at < n;) {
			struct {
				uint64_t ino;
				int64_t off;
				unsigned short len;
				unsigned char type;
				char name[];
			} *d = (void *)(buf + at);
			pid_t pid = (pid_t)strtol(d->name, NULL, 10), parent, session;

			at += d->len;
			if (pid < 2 || nfound == CBX_PROCESSES_MAX || is_found(pid) ||
			    !look_up(proc, d->name, &parent, &session) || (session != leader && !is_found(parent)))
				continue;
			if (stop)
				kill(pid, SIGSTOP);
			found[nfound++] = pid;
		}
	return nfound - before;
}

int64_t cbx_init_kill_tree(uint64_t leader, int64_t sig)
{
	int proc = -1, looks = 0;

	if (leader < 2 || leader > INT32_MAX || sig < 1 || sig >= NSIG)
		return -EINVAL;
	found[0] = (pid_t)leader;
	nfound = 1;
	if (sig == SIGKILL)
		kill((pid_t)leader, SIGSTOP);
	proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return -errno;
	while (look(proc, (pid_t)leader, sig == SIGKILL) && ++looks < LOOKS)
		;
	close(proc);
	for (size_t i = 0; i < nfound; i++) {
		kill(found[i], (int)sig);
		if (sig == SIGHUP || sig == SIGTERM)
			kill(found[i], SIGCONT); /* what is stopped would not notice */
	}
	return 0;
}
