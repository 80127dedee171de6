/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

struct status {
	char text[8192]; /* /proc/<pid>/status */
};

static int refuse(struct cbx_err *err, const char *what)
{
	return cbx_refuse(err, "zygote", EPERM, "the interpreter that a zygote made %s", what);
}

static int read_status(pid_t pid, struct status *ret, struct cbx_err *err)
{
	char path[48];
	_cleanup_fd_ int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret->text, sizeof(ret->text) - 1);
	if (n <= 0)
		return cbx_fail(err, n ? errno : ESRCH, "read %s", path);
	ret->text[n] = '\0';
	return 0;
}

/* The value of a line "Key:\tvalue"; "" where there is none. Only the name, in the first line, is a process's to
 * choose, and the kernel escapes line ends in it. */
static const char *value(const struct status *s, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = s->text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, key, n) == 0 && p[n] == ':')
			return p + n + 1 + strspn(p + n + 1, "\t ");
	}
	return "";
}

static bool same_line(const char *a, const char *b)
{
	size_t n = strcspn(a, "\n");

	return n && strcspn(b, "\n") == n && memcmp(a, b, n) == 0;
}

static long number(const struct status *s, const char *key)
{
	char *end;
	const char *v = value(s, key);
	long n = strtol(v, &end, 10);

	return end == v ? -1 : n;
}

static int check_status(const struct status *s, const struct status *init, const struct status *zygote,
			struct cbx_err *err)
{
	static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };

	if (number(s, "PPid") != getpid())
		return refuse(err, "is not the supervisor's child");
	if (number(s, "Threads") != 1)
		return refuse(err, "has more than one thread");
	if (!same_line(value(s, "Uid"), value(init, "Uid")) || !same_line(value(s, "Gid"), value(init, "Gid")))
		return refuse(err, "is not the sandbox's user");
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		if (!same_line(value(s, sets[i]), "0000000000000000"))
			return refuse(err, "has capabilities");
	if (number(s, "NoNewPrivs") != 1)
		return refuse(err, "has not set no_new_privs");
	/* The zygote's own filter is inherited: there must be another. The count is shown since Linux 5.9. */
	if (number(s, "Seccomp") != 2 || number(s, "Seccomp_filters") <= number(zygote, "Seccomp_filters"))
		return refuse(err, "has not loaded the sandbox's system call filter");
	return 0;
}

static int check_same(pid_t pid, pid_t init, const char *name, struct cbx_err *err)
{
	char a[48], b[48];
	struct stat sa, sb;

	snprintf(a, sizeof(a), "/proc/%d/%s", (int)pid, name);
	snprintf(b, sizeof(b), "/proc/%d/%s", (int)init, name);
	if (stat(a, &sa) < 0)
		return cbx_fail(err, errno, "look at %s", a);
	if (stat(b, &sb) < 0)
		return cbx_fail(err, errno, "look at %s", b);
	if (sa.st_dev != sb.st_dev || sa.st_ino != sb.st_ino) {
		char what[64];

		snprintf(what, sizeof(what), "is not in the sandbox (%s)", name);
		return refuse(err, what);
	}
	return 0;
}

int cbx_verify_interpreter(pid_t pid, pid_t init, pid_t zygote, pid_t *ret_inside, struct cbx_err *err)
{
	static const char *const same[] = { "ns/user", "ns/pid", "ns/pid_for_children", "ns/mnt", "ns/net", "ns/ipc",
					    "ns/uts", "ns/cgroup", "root" };
	struct status s, i, z;
	const char *nspid, *last;
	int r;

	if ((r = read_status(pid, &s, err)) < 0 || (r = read_status(init, &i, err)) < 0 ||
	    (r = read_status(zygote, &z, err)) < 0 || (r = check_status(&s, &i, &z, err)) < 0)
		return r;
	for (size_t k = 0; k < ARRAY_SIZE(same); k++)
		if ((r = check_same(pid, init, same[k], err)) < 0)
			return r;
	nspid = value(&s, "NSpid");
	last = nspid + strcspn(nspid, "\n");
	while (last > nspid && last[-1] != '\t' && last[-1] != ' ')
		last--;
	*ret_inside = (pid_t)strtol(last, NULL, 10);
	return *ret_inside > 1 ? 0 : refuse(err, "has no number in the sandbox");
}
