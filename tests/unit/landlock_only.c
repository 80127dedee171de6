/* SPDX-License-Identifier: Apache-2.0 */
/*
 * landlock_only abi
 * landlock_only off|on|strict|nothing ROOT: try things in the tree ROOT, without any protection by mounts or ids, after a
 * sandbox's Landlock rules for that tree were applied, or not ("nothing": only the rule for reading). One line each: what,
 * and 0 or an errno. For tests/unit/landlock.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/landlock.h"
#include "sandbox/plan.h"

static int root;

static void say(const char *what, const char *path, int failed)
{
	printf("%s %s %d\n", what, path, failed ? errno : 0);
}

static void try_paths(const char *dir)
{
	char file[64], made[64], other[64];
	int fd;

	snprintf(file, sizeof(file), "%s/file", dir);
	snprintf(made, sizeof(made), "%s/made", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	fd = openat(root, file, O_RDONLY);
	say("read", dir, fd < 0);
	close(fd);
	fd = openat(root, file, O_WRONLY);
	say("write", dir, fd < 0);
	close(fd);
	fd = openat(root, file, O_WRONLY | O_TRUNC);
	say("truncate", dir, fd < 0);
	close(fd);
	fd = openat(root, made, O_WRONLY | O_CREAT | O_EXCL, 0600);
	say("create", dir, fd < 0);
	close(fd);
	say("mkdir", dir, mkdirat(root, other, 0700) < 0);
	say("rmdir", dir, unlinkat(root, other, AT_REMOVEDIR) < 0);
	say("symlink", dir, symlinkat("x", root, other) < 0);
	say("unlink", dir, unlinkat(root, other, 0) < 0);
	say("fifo", dir, mkfifoat(root, other, 0600) < 0);
	say("rename", dir, renameat(root, file, root, made) < 0);
	renameat(root, made, root, file);
}

/* Bound only: nothing is sent and nobody is asked. */
static void try_sockets(pid_t other)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	say("bind", "tcp", bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0);
	close(fd);
	snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "cbx-landlock-%d", (int)other);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	say("connect", "abstract", connect(fd, (struct sockaddr *)&un, sizeof(un)) < 0);
	close(fd);
	say("signal", "other", kill(other, 0) < 0);
}

/* A process that is not restricted, and listens on an abstract socket. It ends with us by the end of a pipe: a death
 * signal is a signal that a scoped process may not send. */
static pid_t start_other(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int pair[2], life[2];
	pid_t pid;
	char c;

	if (pipe(pair) < 0 || pipe(life) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		close(life[1]);
		snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "cbx-landlock-%d", (int)getpid());
		if (bind(fd, (struct sockaddr *)&un, sizeof(un)) < 0 || listen(fd, 1) < 0 || write(pair[1], "x", 1) != 1)
			_exit(1);
		_exit(read(life[0], &c, 1) != 0);
	}
	close(pair[1]);
	return read(pair[0], &c, 1) == 1 ? pid : -1;
}

static int restrict_self(const char *mode, struct cbx_err *err)
{
	bool strict = !strcmp(mode, "strict");
	struct cbx_landlock l;
	int r = cbx_landlock_new(cbx_landlock_abi(), strict ? CBX_LANDLOCK_NO_TCP | CBX_LANDLOCK_SCOPED : 0, &l, err);

	if (r == 0)
		r = strcmp(mode, "nothing") ? cbx_landlock_allow_standard(&l, root, !strict, err) :
					      cbx_landlock_allow_at(&l, root, "/", CBX_LANDLOCK_READ, err);
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = cbx_fail(err, errno, "set no_new_privs");
	return r < 0 ? r : cbx_landlock_restrict_self(&l, cbx_landlock_restrict_flags(cbx_landlock_abi()), err);
}

int main(int argc, char **argv)
{
	static const char *const dirs[] = { "usr", "etc", "var", "workspace", "home/user", "tmp", "var/tmp",
					    "dev/shm", "dev", "proc" };
	struct cbx_err err;
	pid_t other;

	if (argc == 2 && !strcmp(argv[1], "abi")) {
		printf("%u\n", cbx_landlock_abi());
		return 0;
	}
	if (argc != 3 || (root = open(argv[2], O_PATH | O_DIRECTORY)) < 0 || (other = start_other()) < 0)
		return 2;
	if (strcmp(argv[1], "off") != 0 && restrict_self(argv[1], &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		try_paths(dirs[i]);
	try_sockets(other);
	fflush(stdout);
	_exit(0); /* the other goes with us */
}
