/* SPDX-License-Identifier: Apache-2.0 */
#include "base/signals.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "base/str.h"

static const char *const names[] = {
	[SIGHUP] = "HUP",	[SIGINT] = "INT",   [SIGQUIT] = "QUIT",	  [SIGILL] = "ILL",   [SIGTRAP] = "TRAP",
	[SIGABRT] = "ABRT",	[SIGBUS] = "BUS",   [SIGFPE] = "FPE",	  [SIGKILL] = "KILL", [SIGUSR1] = "USR1",
	[SIGSEGV] = "SEGV",	[SIGUSR2] = "USR2", [SIGPIPE] = "PIPE",	  [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
	[SIGSTKFLT] = "STKFLT", [SIGCHLD] = "CHLD", [SIGCONT] = "CONT",	  [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
	[SIGTTIN] = "TTIN",	[SIGTTOU] = "TTOU", [SIGURG] = "URG",	  [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ",
	[SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH", [SIGIO] = "POLL",   [SIGPWR] = "PWR",
	[SIGSYS] = "SYS",
};

const char *cbx_signal_name(int sig)
{
	return sig > 0 && (size_t)sig < sizeof(names) / sizeof(names[0]) ? names[sig] : NULL;
}

int cbx_signal_by_name(const char *name)
{
	int i;

	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	i = cbx_find_word(name, names, sizeof(names) / sizeof(names[0]));
	return i < 0 ? 0 : i;
}
