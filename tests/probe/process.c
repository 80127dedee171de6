/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: who can be seen and signalled, what dying leaves behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static pid_t pid_of(const char *text)
{
	return text ? (pid_t)atoi(text) : 1;
}

static int send_signal(char **args)
{
	return answer_call(kill(pid_of(args[0]), args[0] && args[1] ? atoi(args[1]) : 0));
}

/* Every process but this one and its parents: who could be signalled? */
static int others(char **args)
{
	DIR *dir = opendir("/proc");
	int n = 0;

	if (!dir)
		return answer_call(-1);
	for (struct dirent *d = readdir(dir); d; d = readdir(dir)) {
		pid_t pid = (pid_t)atoi(d->d_name);
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
		if (pid > 1 && getsid(pid) != getsid(0) && access(path, F_OK) == 0)
			n++;
	}
	closedir(dir);
	return n ? answer(DONE, "%d", n) : answer(REFUSED, "none");
}

static int attach_to(char **args)
{
	return answer_call(syscall(SYS_ptrace, PTRACE_SEIZE, pid_of(args[0]), 0, 0));
}

/* Does a crash leave a core behind, or wake the machine's core handler? */
static int crash(char **args)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return answer_call(-1);
	if (!WIFSIGNALED(status))
		return answer(NOT_TRIED, "survived");
	return WCOREDUMP(status) ? answer(DONE, "core") : answer(REFUSED, "no-core");
}

/* Raise the soft limit to the hard one first: outside, that is what makes a core possible. */
static int crash_with_limit(char **args)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_CORE, &l) < 0)
		return answer_call(-1);
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_CORE, &l);
	if (l.rlim_max == 0)
		return answer(REFUSED, "limit-0");
	return crash(args);
}

/* Orphans that end at once: are they reaped? Answers with the number of zombies that stay. Where they or pid 1 have no
 * processor for a while their number leaves room for no other process: that passes, or probe.c's limit is the
 * answer. */
static int orphans(char **args)
{
	int wanted = args[0] ? atoi(args[0]) : 200, zombies = 0, alive[2];
	char byte;

	if (pipe(alive) < 0)
		return answer_call(-1);
	for (int i = 0; i < wanted; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			fork();
			_exit(0);
		}
		if (pid < 0 && errno == EAGAIN) {
			usleep(10000);
			i--;
			continue;
		}
		if (pid < 0 || waitpid(pid, NULL, 0) < 0)
			return answer_call(-1);
	}
	/* All of them have the other end of this pipe: it ends with the last. */
	close(alive[1]);
	while (read(alive[0], &byte, 1) < 0 && errno == EINTR)
		;
	for (int attempt = 0; attempt < 3000; attempt++) {
		DIR *dir = opendir("/proc");

		zombies = 0;
		for (struct dirent *d = dir ? readdir(dir) : NULL; d; d = readdir(dir)) {
			char path[300], text[512] = "", *close_paren;
			FILE *f;

			if (d->d_name[0] < '1' || d->d_name[0] > '9')
				continue;
			snprintf(path, sizeof(path), "/proc/%s/stat", d->d_name);
			f = fopen(path, "re");
			if (!f)
				continue;
			if (!fgets(text, sizeof(text), f))
				text[0] = '\0';
			fclose(f);
			close_paren = strrchr(text, ')');
			/* "pid (name) state parent": only children of pid 1 are orphans */
			if (close_paren && close_paren[1] && close_paren[2] == 'Z' && atoi(close_paren + 4) == 1)
				zombies++;
		}
		if (dir)
			closedir(dir);
		if (!zombies)
			break;
		usleep(10000);
	}
	return zombies ? answer(DONE, "%d", zombies) : answer(REFUSED, "none");
}

static int controlling_terminal(char **args)
{
	return answer_call(open("/dev/tty", O_RDWR | O_CLOEXEC));
}

const struct probe process_probes[] = {
	{ "kill", send_signal }, { "others", others },
	{ "attach", attach_to }, { "crash", crash_with_limit },
	{ "orphans", orphans },	 { "open-tty", controlling_terminal },
	{ NULL, NULL },
};
