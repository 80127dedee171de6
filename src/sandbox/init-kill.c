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

/* ---- what is in /proc ---- */

struct walk {
	int proc;
	long n, at; /* bytes in buf, and where the next entry is */
	char buf[8192];
};

/* The name of the next process, and its number; NULL: that was the last one. */
static const char *next_process(struct walk *w, pid_t *ret)
{
	struct {
		uint64_t ino;
		int64_t off;
		unsigned short len;
		unsigned char type;
		char name[];
	} *d;

	do {
		if (w->at >= w->n) {
			w->n = syscall(SYS_getdents64, w->proc, w->buf, sizeof(w->buf));
			w->at = 0;
			if (w->n <= 0)
				return NULL;
		}
		d = (void *)(w->buf + w->at);
		w->at += d->len;
		*ret = (pid_t)strtol(d->name, NULL, 10);
	} while (*ret < 2);
	return d->name;
}

static bool open_walk(struct walk *w)
{
	w->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->n = w->at = 0;
	return w->proc >= 0;
}

void cbx_init_kill_session(pid_t leader)
{
	struct walk w;
	pid_t pid;

	if (!open_walk(&w))
		return;
	while (next_process(&w, &pid))
		if (getsid(pid) == leader)
			kill(pid, SIGKILL);
	close(w.proc);
}

/* How many were not known before. */
static size_t look(struct walk *w, pid_t leader, bool stop)
{
	size_t before = nfound;
	pid_t pid, parent, session;
	const char *name;

	w->n = w->at = 0;
	if (lseek(w->proc, 0, SEEK_SET) < 0)
		return 0;
	while ((name = next_process(w, &pid))) {
		if (nfound == CBX_PROCESSES_MAX || is_found(pid) || !look_up(w->proc, name, &parent, &session) ||
		    (session != leader && !is_found(parent)))
			continue;
		if (stop)
			kill(pid, SIGSTOP);
		found[nfound++] = pid;
	}
	return nfound - before;
}

int64_t cbx_init_kill_tree(uint64_t leader, int64_t sig)
{
	struct walk w;
	int looks = 0;

	if (leader < 2 || leader > INT32_MAX || sig < 1 || sig >= NSIG)
		return -EINVAL;
	found[0] = (pid_t)leader;
	nfound = 1;
	if (sig == SIGKILL)
		kill((pid_t)leader, SIGSTOP);
	if (!open_walk(&w))
		return -errno;
	while (look(&w, (pid_t)leader, sig == SIGKILL) && ++looks < LOOKS)
		;
	close(w.proc);
	for (size_t i = 0; i < nfound; i++) {
		kill(found[i], (int)sig);
		if (sig == SIGHUP || sig == SIGTERM)
			kill(found[i], SIGCONT); /* what is stopped would not notice */
	}
	return 0;
}
