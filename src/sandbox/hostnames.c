/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/hostnames.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/syscalls.h"

static int look(const char *path, struct cbx_host_name *ret)
{
	_cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct statfs fs;
	struct stat st;
	char link[32];
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret->name, sizeof(ret->name));
	if (n < 0)
		return errno;
	if (n >= (ssize_t)sizeof(ret->name))
		return ENAMETOOLONG;
	ret->name[n] = '\0';
	ret->mode = st.st_mode;
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	ret->in_memory = fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
	return cbx_path_clean(ret->name) ? 0 : EINVAL;
}

/* The path is absolute. Nothing is read or listed: it is opened with O_PATH. */
static void find_name(const char *path, struct cbx_host_name *ret)
{
	_cleanup_free_ char *there = cbx_xstrdup(path);
	size_t n = strlen(path), have;
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->error = r = look(there, ret);
	while (n && r) {
		while (n && path[--n] != '/')
			;
		there[n] = '\0';
		r = n ? look(there, ret) : 0;
	}
	have = n && ret->name[1] ? strlen(ret->name) : 0; /* nothing is below "/" but by a slash of its own */
	if ((size_t)snprintf(ret->name + have, sizeof(ret->name) - have, "%s", path + n) >= sizeof(ret->name) - have)
		ret->name[0] = '\0';
}

/* SIGALRM ends also one that waits in the kernel for a file system, as nothing here handles it. */
_Noreturn static void serve(int ns, int sock)
{
	struct itimerval end = { .it_value = { .tv_sec = CBX_HOST_NAMES_MS / 1000,
					       .tv_usec = CBX_HOST_NAMES_MS % 1000 * 1000 } };
	char path[CBX_PATH_MAX];
	ssize_t n;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || setitimer(ITIMER_REAL, &end, NULL) < 0 || dup2(sock, 0) < 0 ||
	    (ns >= 0 && setns(ns, CLONE_NEWNS) < 0))
		_exit(1);
	/* Should the kernel not let go of it, nobody is to think that the one that forked it is still there. */
	cbx_close_range(1, ~0u, 0);
	while ((n = cbx_recv_plain(0, path, sizeof(path) - 1)) > 0) {
		struct cbx_host_name name;

		path[n] = '\0';
		find_name(path, &name);
		if (cbx_send_fds(0, &name, sizeof(name), NULL, 0) < 0)
			break;
	}
	_exit(0);
}

int cbx_host_names_serve(int ns, int sock, pid_t *ret_pid, struct cbx_err *err)
{
	pid_t pid = fork();

	if (pid < 0)
		return cbx_fail(err, errno, "fork for names of the machine");
	if (pid == 0)
		serve(ns, sock);
	*ret_pid = pid;
	return 0;
}
