/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one static program that tries, one at a time, what a sandbox must not allow, and what it must.
 *
 *   probe NAME [ARGUMENT...]    prints "NAME WHAT-CAME-OF-IT"; exit status 0: it succeeded, 1: refused, 2: not tried
 *   probe --ns NAME ...         the same as user 0 of fresh namespaces, where a capability is needed to succeed
 *   probe --list                the names
 *
 * An attempt runs in a child, so that one that is killed is an answer too: "NAME SIGSYS". The program needs nothing of
 * the place where it runs: it is uploaded into a session as it is. What is expected where stands in the file "table".
 */
#include "probe.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_MAX 16384

/* Shared with the child that runs the probe. */
static struct {
	unsigned len;
	char text[TEXT_MAX];
} * said;

static const struct {
	int code;
	const char *name;
} errors[] = {
#define E(name)                                                                                                        \
	{                                                                                                              \
		name, #name                                                                                            \
	}
	E(EPERM),	    E(ENOENT),	   E(ESRCH),	    E(EINTR),	     E(EIO),
	E(ENXIO),	    E(E2BIG),	   E(ENOEXEC),	    E(EBADF),	     E(ECHILD),
	E(EAGAIN),	    E(ENOMEM),	   E(EACCES),	    E(EFAULT),	     E(ENOTBLK),
	E(EBUSY),	    E(EEXIST),	   E(EXDEV),	    E(ENODEV),	     E(ENOTDIR),
	E(EISDIR),	    E(EINVAL),	   E(ENFILE),	    E(EMFILE),	     E(ENOTTY),
	E(ETXTBSY),	    E(EFBIG),	   E(ENOSPC),	    E(ESPIPE),	     E(EROFS),
	E(EMLINK),	    E(EPIPE),	   E(ERANGE),	    E(EDEADLK),	     E(ENAMETOOLONG),
	E(ENOSYS),	    E(ENOTEMPTY),  E(ELOOP),	    E(ENOPROTOOPT),  E(EPROTONOSUPPORT),
	E(ESOCKTNOSUPPORT), E(EOPNOTSUPP), E(EAFNOSUPPORT), E(EADDRINUSE),   E(EADDRNOTAVAIL),
	E(ENETUNREACH),	    E(ENOTCONN),   E(ETIMEDOUT),    E(ECONNREFUSED), E(EDESTADDRREQ),
	E(ENOTSOCK),	    E(EPROTO),	   E(EOVERFLOW),    E(ENODATA),	     E(ENOBUFS),
#undef E
};

const char *error_name(int code)
{
	static char number[16];

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == code)
			return errors[i].name;
	snprintf(number, sizeof(number), "E%d", code);
	return number;
}

static void vmore(const char *format, va_list ap) __attribute__((format(printf, 1, 0)));
static void vmore(const char *format, va_list ap)
{
	int n = vsnprintf(said->text + said->len, TEXT_MAX - said->len, format, ap);

	if (n > 0)
		said->len = said->len + (unsigned)n < TEXT_MAX ? said->len + (unsigned)n : TEXT_MAX - 1;
}

void answer_more(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vmore(format, ap);
	va_end(ap);
}

int answer(int code, const char *format, ...)
{
	va_list ap;

	said->len = 0;
	va_start(ap, format);
	vmore(format, ap);
	va_end(ap);
	return code;
}

int answer_call(long result)
{
	return answer(result < 0 ? REFUSED : DONE, "%s", result < 0 ? error_name(errno) : "ok");
}

int answer_reached(long result, const int *reached, unsigned n)
{
	int code = answer_call(result);

	for (unsigned i = 0; result < 0 && i < n; i++)
		if (reached[i] && errno == reached[i])
			return answer(DONE, "ok");
	return code;
}

static const struct probe *const all[] = { call_probes, file_probes, state_probes, net_probes, process_probes };

static const struct probe *find(const char *name)
{
	static const struct probe raw[] = { { "--call", raw_call }, { "--sweep", sweep } };

	for (size_t i = 0; i < sizeof(raw) / sizeof(raw[0]); i++)
		if (strcmp(raw[i].name, name) == 0)
			return &raw[i];
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (const struct probe *p = all[i]; p->name; p++)
			if (strcmp(p->name, name) == 0)
				return p;
	return NULL;
}

static int list(void)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (const struct probe *p = all[i]; p->name; p++)
			puts(p->name);
	return 0;
}

static const char *signal_name(int sig)
{
	static char number[16];

	if (sig == SIGSYS)
		return "SIGSYS";
	snprintf(number, sizeof(number), "signal-%d", sig);
	return number;
}

int main(int argc, char **argv)
{
	const struct probe *p;
	int status = 0, namespaces = argc > 1 && strcmp(argv[1], "--ns") == 0;
	pid_t pid;

	argv += namespaces;
	argc -= namespaces;
	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return list();
	p = argc < 2 ? NULL : find(argv[1]);
	said = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!p || said == MAP_FAILED) {
		fprintf(stderr, "usage: probe [--ns] NAME [ARGUMENT...] | --list\n");
		return NOT_TRIED;
	}
	pid = fork();
	if (pid == 0) {
		alarm(400); /* bounds a probe that hangs, nothing else: sockets alone may have many modules loaded */
		if (namespaces && enter_namespaces() < 0)
			_exit(answer(NOT_TRIED, "no-namespaces:%s", error_name(errno)));
		_exit(p->run(argv + 2));
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return NOT_TRIED;
	printf("%s %s\n", p->name, WIFSIGNALED(status) ? signal_name(WTERMSIG(status)) : said->text);
	return WIFSIGNALED(status) ? REFUSED : WEXITSTATUS(status);
}
