/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd that root starts makes sockets in directories of root's, and gives root up before its
 * start is over. What a start that fails then has made, it may not remove. So a process that stays root waits for the
 * end of the start: one byte says that it went well, the end of the pipe that it did not. It holds nothing else of
 * codeboxd's, and has gone when the first client is served.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "daemon/daemon.h"

static const char *path_of(const char *address)
{
	return address && cbx_starts_with(address, "unix:") ? address + 5 : NULL;
}

/* Only what is a socket: cbx_listen() has replaced nothing else. */
static void remove_socket(const char *path)
{
	struct stat st;

	if (path && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		(void)unlink(path);
}

static void await(const struct cbx_daemon *d, int start)
{
	char byte;
	ssize_t n;

	if (dup2(start, 0) < 0 || cbx_close_range(1, ~0u, 0) < 0)
		_exit(1);
	do {
		n = read(0, &byte, 1);
	} while (n < 0 && errno == EINTR);
	for (size_t i = 0; n == 0 && i < d->web.n; i++)
		remove_socket(path_of(d->web.addresses[i]));
	if (n == 0)
		remove_socket(path_of(d->agent.asked));
	_exit(0);
}

static bool has_sockets(const struct cbx_daemon *d)
{
	bool any = path_of(d->agent.asked);

	for (size_t i = 0; i < d->web.n; i++)
		any |= path_of(d->web.addresses[i]) != NULL;
	return any;
}

int cbx_daemon_undo_unless(struct cbx_daemon *d, struct cbx_err *err)
{
	int ends[2];
	pid_t pid;

	if (!d->service.from_root || !has_sockets(d))
		return 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe");
	pid = fork();
	if (pid == 0) {
		pid = fork(); /* so that nobody has to wait for its end */
		if (pid == 0)
			await(d, ends[0]);
		_exit(pid < 0);
	}
	d->undo = ends[1];
	close(ends[0]);
	if (pid < 0 || waitpid(pid, NULL, 0) < 0)
		return cbx_fail(err, errno, "start a process that removes sockets");
	return 0;
}

void cbx_daemon_started(struct cbx_daemon *d)
{
	if (d->undo >= 0)
		(void)!write(d->undo, "", 1);
	cbx_close_p(&d->undo);
}
