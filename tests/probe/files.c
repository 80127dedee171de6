/* SPDX-License-Identifier: Apache-2.0 */
/* The view of the file system: what is there, what can be written, what can be executed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "probe.h"

static int open_file(const char *path, int flags)
{
	int fd = path ? open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600) : -1;

	if (!path)
		errno = EINVAL;
	return answer_call(fd);
}

static int open_read(char **args)
{
	return open_file(args[0], O_RDONLY);
}

static int open_write(char **args)
{
	return open_file(args[0], O_WRONLY);
}

static int create(char **args)
{
	return open_file(args[0], O_WRONLY | O_CREAT);
}

static int readlink_of(char **args)
{
	char to[4096];

	return answer_call(readlink(args[0], to, sizeof(to)));
}

static int exists(char **args)
{
	return answer_call(access(args[0], F_OK));
}

/* Reads a byte: a masked file can be opened, and is empty. Many files of /proc need no more. */
static int content(char **args)
{
	int fd = open(args[0], O_RDONLY | O_CLOEXEC | O_NONBLOCK), r;
	DIR *dir = NULL;
	char byte;

	if (fd < 0)
		return answer_call(-1);
	r = (int)read(fd, &byte, 1);
	if (r < 0 && errno == EISDIR && (dir = fdopendir(fd))) {
		r = 0;
		for (struct dirent *d = readdir(dir); d; d = readdir(dir))
			r += d->d_name[0] != '.';
	}
	return r < 0 ? answer_call(-1) : r == 0 ? answer(REFUSED, "empty") : answer(DONE, "ok");
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory, sorted. */
static int names(char **args)
{
	DIR *dir = opendir(args[0]);
	char *list[1024];
	size_t n = 0;

	if (!dir)
		return answer_call(-1);
	for (struct dirent *d = readdir(dir); d && n < 1024; d = readdir(dir))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			list[n++] = strdup(d->d_name);
	qsort(list, n, sizeof(list[0]), compare_names);
	answer(DONE, "%s", "");
	for (size_t i = 0; i < n; i++)
		answer_more("%s%s", i ? "," : "", list[i]);
	return DONE;
}

/* Mount flags of a path, as they count: "nosuid,nodev,noexec,ro" as far as they are set. */
static int mount_flags(char **args)
{
	struct statvfs s;

	if (statvfs(args[0], &s) < 0)
		return answer_call(-1);
	answer(DONE, "%s%s%s%s", s.f_flag & ST_NOSUID ? ",nosuid" : "", s.f_flag & ST_NODEV ? ",nodev" : "",
	       s.f_flag & ST_NOEXEC ? ",noexec" : "", s.f_flag & ST_RDONLY ? ",ro" : "");
	return DONE;
}

/* Space and inodes that a file system promises: bounded, or as good as endless. */
static int bounded(char **args)
{
	struct statvfs s;

	if (statvfs(args[0], &s) < 0)
		return answer_call(-1);
	if (s.f_blocks == 0 || (double)s.f_blocks * (double)s.f_frsize > (64ull << 30))
		return answer(DONE, "endless-space");
	return s.f_files == 0 ? answer(DONE, "endless-inodes") : answer(REFUSED, "bounded");
}

/* Walk "..": where the root is not the end, more than 64 steps lead out of it. */
static int walk_up(char **args)
{
	int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat root, st;

	if (at < 0 || fstat(at, &root) < 0)
		return answer_call(-1);
	for (int i = 0; i < 64; i++) {
		int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (up < 0)
			return answer_call(-1);
		close(at);
		at = up;
	}
	if (fstat(at, &st) < 0)
		return answer_call(-1);
	return st.st_ino == root.st_ino && st.st_dev == root.st_dev ? answer(REFUSED, "same-root")
								    : answer(DONE, "out");
}

/* The mount points, sorted and without /proc's: those have a probe of their own. */
static int mounts(char **args)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[8192], at[4096], *list[1024];
	size_t n = 0;

	if (!f)
		return answer_call(-1);
	while (fgets(line, sizeof(line), f) && n < 1024)
		if (sscanf(line, "%*s %*s %*s %*s %4095s", at) == 1 && strncmp(at, "/proc/", 6) != 0)
			list[n++] = strdup(at);
	fclose(f);
	qsort(list, n, sizeof(list[0]), compare_names);
	answer(DONE, "%s", "");
	for (size_t i = 0; i < n; i++)
		answer_more("%s%s", i ? "," : "", list[i]);
	return DONE;
}

/* Copy this program into a directory, and run it there. */
static int run_from(char **args)
{
	char path[4096], buf[65536];
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), out, status = 0, code;
	ssize_t n;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/probe-copy", args[0]);
	unlink(path);
	out = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0755);
	if (in < 0 || out < 0)
		return answer_call(-1);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			return answer_call(-1);
	close(out);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, 1);
		execl(path, "probe", "--list", (char *)NULL);
		_exit(errno);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return answer_call(-1);
	errno = WEXITSTATUS(status);
	code = answer_call(status == 0 ? 0 : -1);
	unlink(path);
	return code;
}

/* ---- walking the whole tree ---- */

static const char *wanted;
static unsigned found;

static int look(const char *path, const struct stat *st, int type, struct FTW *at)
{
	int hit = 0;

	(void)at;
	if (type == FTW_NS)
		return 0;
	if (strcmp(wanted, "socket") == 0)
		hit = S_ISSOCK(st->st_mode);
	else if (strcmp(wanted, "device") == 0)
		hit = S_ISBLK(st->st_mode) || (S_ISCHR(st->st_mode) && major(st->st_rdev) != 1);
	else if (strcmp(wanted, "writable") == 0)
		hit = S_ISREG(st->st_mode) && strncmp(path, "/usr/", 5) == 0 &&
		      faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
	if (hit && found++ < 4)
		answer_more("%s%s", found > 1 ? "," : "", path);
	return 0;
}

/* All of the root but what is not of the image; musl's nftw() cannot pass over a directory. */
static int walk_root(void)
{
	static const char *const skip[] = { "proc", "sys", "tmp", "workspace", ".", ".." };
	const struct dirent *e;
	char path[300];
	DIR *root = opendir("/");
	int r = root ? 0 : -1;

	while (r == 0 && (e = readdir(root))) {
		size_t i = 0;

		while (i < sizeof(skip) / sizeof(skip[0]) && strcmp(e->d_name, skip[i]) != 0)
			i++;
		snprintf(path, sizeof(path), "/%s", e->d_name);
		if (i == sizeof(skip) / sizeof(skip[0]))
			r = nftw(path, look, 64, FTW_PHYS);
	}
	if (root)
		closedir(root);
	return r;
}

/* "find KIND [DIRECTORY]": files of a kind, on one file system after the other; the first four are named. */
static int find_kind(char **args)
{
	wanted = args[0];
	answer(DONE, "%s", "");
	if ((args[1] ? nftw(args[1], look, 64, FTW_PHYS) : walk_root()) < 0)
		return answer_call(-1);
	return found ? DONE : answer(REFUSED, "none");
}

/* "make-setuid PATH HOW MODE [BITS]": a file with these permissions, 6755 and the like, by each way there is. The kernel
 * ignores BITS, above the 32 of a mode. Whether it has them then is what counts. */
static int make_setuid(char **args)
{
	const char *path = args[0], *how = args[1] ? args[1] : "fchmod";
	unsigned long mode = (args[1] && args[2] ? strtoul(args[2], NULL, 8) : 06755);
	unsigned long long high = args[1] && args[2] && args[3] ? strtoull(args[3], NULL, 0) : 0, full = mode | high;
	const struct { unsigned long long flags, mode, resolve; } wants = { O_CREAT | O_RDWR, mode, 0 };
	const int later = strstr(how, "chmod") != NULL;
	struct stat st;
	long fd = -1, r = -1;
	int code = -1;

	unlink(path);
	if (later && (fd = r = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0755)) < 0)
		return answer_call(-1);
	if (!strcmp(how, "fchmod"))
		r = syscall(SYS_fchmod, fd, full);
	else if (!strcmp(how, "fchmodat"))
		r = syscall(SYS_fchmodat, AT_FDCWD, path, full);
	else if (!strcmp(how, "fchmodat2"))
		r = syscall(452, AT_FDCWD, path, full, 0);
	else if (!strcmp(how, "openat"))
		r = fd = syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_RDWR, full);
	else if (!strcmp(how, "openat2"))
		r = fd = syscall(SYS_openat2, AT_FDCWD, path, &wants, sizeof(wants));
	else if (!strcmp(how, "tmpfile"))
		r = fd = syscall(SYS_openat, AT_FDCWD, ".", O_TMPFILE | O_RDWR, full);
	else if (!strcmp(how, "mknodat"))
		r = syscall(SYS_mknodat, AT_FDCWD, path, full | S_IFREG, 0);
#ifdef SYS_chmod
	else if (!strcmp(how, "chmod"))
		r = syscall(SYS_chmod, path, full);
	else if (!strcmp(how, "open"))
		r = fd = syscall(SYS_open, path, O_CREAT | O_RDWR, full);
	else if (!strcmp(how, "creat"))
		r = fd = syscall(SYS_creat, path, full);
	else if (!strcmp(how, "mknod"))
		r = syscall(SYS_mknod, path, full | S_IFREG, 0);
#else
	else
		code = answer(NOT_TRIED, "not-x86");
#endif
	if (code < 0)
		code = answer_call(r);
	if (code == DONE && (fd >= 0 ? fstat((int)fd, &st) : stat(path, &st)) == 0 && (st.st_mode & 07000) != (mode & 07000))
		code = answer(REFUSED, "%o", st.st_mode & 07777);
	unlink(path);
	return code;
}

/* File capabilities on a file of one's own: they need CAP_SETFCAP in the user namespace. */
static int file_capability(char **args)
{
	static const char value[20] = { 1, 0, 0, 2, 0, 4 }; /* effective; version 2; CAP_SYS_CHROOT */
	int fd = open(args[0], O_CREAT | O_WRONLY | O_CLOEXEC, 0755), code;

	if (fd < 0)
		return answer_call(-1);
	code = answer_call(fsetxattr(fd, "security.capability", value, sizeof(value), 0));
	unlink(args[0]);
	return code;
}

const struct probe file_probes[] = {
	{ "open-read", open_read },
	{ "open-write", open_write },
	{ "create", create },
	{ "readlink", readlink_of },
	{ "exists", exists },
	{ "content", content },
	{ "names", names },
	{ "mount-flags", mount_flags },
	{ "bounded", bounded },
	{ "walk-up", walk_up },
	{ "mounts", mounts },
	{ "run-from", run_from },
	{ "find", find_kind },
	{ "make-setuid", make_setuid },
	{ "file-capability", file_capability },
	{ NULL, NULL },
};
