/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"

struct status {
	char text[8192]; /* /proc/<pid>/status, or limits */
};

static int refuse(struct cbx_err *err, const char *what)
{
	return cbx_refuse(err, "zygote", EPERM, "the interpreter that a zygote made %s", what);
}

static int read_text(pid_t pid, const char *name, struct status *ret, struct cbx_err *err)
{
	char path[48];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	n = cbx_read_small(AT_FDCWD, path, ret->text, sizeof(ret->text));
	return n > 0 ? 0 : cbx_fail(err, n ? (int)-n : ESRCH, "read %s", path);
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

/* "Max processes             256                  256                  processes" */
static bool hard_limit(const struct status *s, const char *name, uint64_t *ret)
{
	const char *line = strstr(s->text, name);
	char hard[24];

	if (!line || sscanf(line + strlen(name), " %*23s %23s", hard) != 1)
		return false;
	*ret = strcmp(hard, "unlimited") == 0 ? UINT64_MAX : strtoull(hard, NULL, 10);
	return true;
}

static int check_limits(pid_t pid, const struct cbx_lockdown *want, struct cbx_err *err)
{
	static const char *const names[CBX_LOCKDOWN_RLIMITS] = {
		[RLIMIT_CORE] = "\nMax core file size ",	[RLIMIT_DATA] = "\nMax data size ",
		[RLIMIT_FSIZE] = "\nMax file size ",	[RLIMIT_MEMLOCK] = "\nMax locked memory ",
		[RLIMIT_MSGQUEUE] = "\nMax msgqueue size ", [RLIMIT_NICE] = "\nMax nice priority ",
		[RLIMIT_NOFILE] = "\nMax open files ",	[RLIMIT_NPROC] = "\nMax processes ",
		[RLIMIT_RTPRIO] = "\nMax realtime priority ", [RLIMIT_SIGPENDING] = "\nMax pending signals ",
		[RLIMIT_STACK] = "\nMax stack size ",
	};
	struct status limits;
	int r = read_text(pid, "limits", &limits, err);

	for (unsigned i = 0; r == 0 && i < CBX_LOCKDOWN_RLIMITS; i++) {
		uint64_t hard;

		if ((want->rlimit_mask & 1u << i) &&
		    (!names[i] || !hard_limit(&limits, names[i], &hard) || hard > want->rlimits[i].hard))
			r = refuse(err, "has not lowered its resource limits");
	}
	return r;
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

int cbx_verify_interpreter(pid_t pid, pid_t init, pid_t zygote, const struct cbx_lockdown *want, pid_t *ret_inside,
			   struct cbx_err *err)
{
	static const char *const same[] = { "ns/user", "ns/pid", "ns/pid_for_children", "ns/mnt", "ns/net", "ns/ipc",
					    "ns/uts", "ns/cgroup", "root" };
	struct status s, i, z;
	const char *nspid, *last;
	int r;

	if ((r = read_text(pid, "status", &s, err)) < 0 || (r = read_text(init, "status", &i, err)) < 0 ||
	    (r = read_text(zygote, "status", &z, err)) < 0 || (r = check_status(&s, &i, &z, err)) < 0 ||
	    (r = check_limits(pid, want, err)) < 0)
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
