/* SPDX-License-Identifier: Apache-2.0 */
/* What a process is: its ids, capabilities, limits, environment, descriptors. Each answers with a value to compare. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "probe.h"

extern char **environ;

static int namespace_of(char **args)
{
	char path[64], to[128];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", args[0] ? args[0] : "");
	n = readlink(path, to, sizeof(to) - 1);
	if (n < 0)
		return answer_call(-1);
	to[n] = '\0';
	return answer(DONE, "%s", to);
}

/* A line "NAME: value" of /proc/self/status, without the blanks. */
static int status(char **args)
{
	FILE *f = fopen("/proc/self/status", "re");
	size_t len = args[0] ? strlen(args[0]) : 0;
	char line[4096];

	if (!f)
		return answer_call(-1);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, args[0], len) == 0 && line[len] == ':') {
			char *save = NULL;

			answer(DONE, "%s", "");
			for (char *w = strtok_r(line + len + 1, " \t\n", &save), *first = w; w;
			     w = strtok_r(NULL, " \t\n", &save))
				answer_more("%s%s", w == first ? "" : ",", w);
			fclose(f);
			return DONE;
		}
	fclose(f);
	return answer(NOT_TRIED, "no-such-line");
}

/* The whole of a small file of /proc, blanks and line ends as "," */
static int text_of(char **args)
{
	FILE *f = fopen(args[0], "re");
	char word[4096];
	const char *between = "";

	if (!f)
		return answer_call(-1);
	answer(DONE, "%s", "");
	while (fscanf(f, "%4095s", word) == 1) {
		answer_more("%s%s", between, word);
		between = ",";
	}
	fclose(f);
	return DONE;
}

static int ids(char **args)
{
	return answer(DONE, "%u,%u,%u,%u", (unsigned)getuid(), (unsigned)geteuid(), (unsigned)getgid(),
		      (unsigned)getegid());
}

/* More than the group of the session, or the number that unmapped groups are shown as? */
static int groups(char **args)
{
	gid_t list[128];
	int n = getgroups(128, list), strange = 0;

	if (n < 0)
		return answer_call(-1);
	for (int i = 0; i < n; i++)
		strange += list[i] != getgid() && list[i] != 65534;
	return strange ? answer(DONE, "%d-more", strange) : answer(REFUSED, "own");
}

/* How many ids are mapped, and as what: "FIRST,COUNT" of the only line, else the number of lines. */
static int idmap(char **args)
{
	FILE *f = fopen(args[0], "re");
	unsigned inside, outside, count, lines = 0, first = 0, total = 0;

	if (!f)
		return answer_call(-1);
	while (fscanf(f, "%u %u %u", &inside, &outside, &count) == 3) {
		first = lines++ ? first : inside;
		total += count;
	}
	fclose(f);
	return lines == 1 && total == 1 ? answer(REFUSED, "%u", first) : answer(DONE, "%u-lines,%u-ids", lines, total);
}

static int securebits(char **args)
{
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);

	return bits < 0 ? answer_call(-1) : answer(bits ? REFUSED : DONE, "0x%x", (unsigned)bits);
}

static int cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of all environment variables, sorted. */
static int environment(char **args)
{
	char *list[512];
	size_t n = 0;

	for (char **e = environ; *e && n < 512; e++)
		list[n++] = strndup(*e, strcspn(*e, "="));
	qsort(list, n, sizeof(list[0]), cmp);
	answer(DONE, "%s", "");
	for (size_t i = 0; i < n; i++)
		answer_more("%s%s", i ? "," : "", list[i]);
	return DONE;
}

/* Every open descriptor and the kind of thing that it is. */
static int descriptors(char **args)
{
	const char *between = "";

	answer(DONE, "%s", "");
	for (int fd = 0; fd < 4096; fd++) {
		struct stat st;
		const char *kind = "other";

		if (fstat(fd, &st) < 0)
			continue;
		if (S_ISFIFO(st.st_mode))
			kind = "pipe";
		else if (S_ISSOCK(st.st_mode))
			kind = "socket";
		else if (S_ISREG(st.st_mode))
			kind = "file";
		else if (S_ISDIR(st.st_mode))
			kind = "directory";
		else if (S_ISCHR(st.st_mode) && st.st_rdev == 0x103)
			kind = "null";
		answer_more("%s%d=%s", between, fd, kind);
		between = ",";
	}
	return DONE;
}

static int terminals(char **args)
{
	int n = 0;

	for (int fd = 0; fd < 3; fd++)
		n += isatty(fd);
	return n ? answer(DONE, "%d", n) : answer(REFUSED, "none");
}

static int rlimit(char **args)
{
	static const struct {
		const char *name;
		int nr;
	} known[] = { { "CORE", RLIMIT_CORE },	       { "DATA", RLIMIT_DATA },
		      { "FSIZE", RLIMIT_FSIZE },       { "MEMLOCK", RLIMIT_MEMLOCK },
		      { "MSGQUEUE", RLIMIT_MSGQUEUE }, { "NICE", RLIMIT_NICE },
		      { "NOFILE", RLIMIT_NOFILE },     { "NPROC", RLIMIT_NPROC },
		      { "RTPRIO", RLIMIT_RTPRIO },     { "SIGPENDING", RLIMIT_SIGPENDING },
		      { "STACK", RLIMIT_STACK } };
	struct rlimit l;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (args[0] && strcmp(known[i].name, args[0]) == 0) {
			if (getrlimit((unsigned)known[i].nr, &l) < 0)
				return answer_call(-1);
			return l.rlim_max == RLIM_INFINITY ? answer(DONE, "unlimited")
							   : answer(REFUSED, "%llu", (unsigned long long)l.rlim_max);
		}
	return answer(NOT_TRIED, "unknown");
}

/* A hard limit, once lowered, stays: try to raise it by one. */
static int raise_limit(char **args)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return answer_call(-1);
	l.rlim_max++;
	return answer_call(setrlimit(RLIMIT_NOFILE, &l));
}

static int host_name(char **args)
{
	struct utsname u;

	return uname(&u) < 0 ? answer_call(-1) : answer(DONE, "%s", u.nodename);
}

static int own_path(char **args)
{
	char path[4096];

	return getcwd(path, sizeof(path)) ? answer(DONE, "%s", path) : answer_call(-1);
}

const struct probe state_probes[] = {
	{ "namespace", namespace_of },
	{ "status", status },
	{ "text", text_of },
	{ "ids", ids },
	{ "groups", groups },
	{ "idmap", idmap },
	{ "securebits", securebits },
	{ "environment", environment },
	{ "descriptors", descriptors },
	{ "terminals", terminals },
	{ "rlimit", rlimit },
	{ "raise-limit", raise_limit },
	{ "host-name", host_name },
	{ "own-path", own_path },
	{ NULL, NULL },
};
