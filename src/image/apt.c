/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: apt learns from a configuration file, read after the machine's own, where to keep lists, cache
 * and state, so it needs no privilege. Sources, keys, pins and proxies stay the machine's; signatures are checked as
 * always, and nothing here could tell it not to. Hooks of the machine are cleared: they are meant for its own packages.
 *
 * dpkg's status file, for apt the list of what is installed, holds nothing but the packages to be omitted, in a version
 * that satisfies every dependency: so apt neither fetches them nor what only they need.
 */
#include "image/apt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dirs.h"
#include "base/str.h"
#include "image/tree.h"

#define TAIL_LINES 12
#define LINE_MAX_ 4096
#define ARGS_MAX 2048

static const char *const settings =
	"#clear APT::Update::Pre-Invoke;\n"
	"#clear APT::Update::Post-Invoke;\n"
	"#clear APT::Update::Post-Invoke-Success;\n"
	"#clear APT::Update::Post-Invoke-Stats;\n"
	"#clear DPkg::Pre-Invoke;\n"
	"#clear DPkg::Post-Invoke;\n"
	"#clear DPkg::Pre-Install-Pkgs;\n"
	"#clear AptCli::Hooks;\n"
	"#clear Acquire::IndexTargets::deb::DEP-11;\n"
	"#clear Acquire::IndexTargets::deb::DEP-11-icons;\n"
	"#clear Acquire::IndexTargets::deb::DEP-11-icons-small;\n"
	"#clear Acquire::IndexTargets::deb::DEP-11-icons-large;\n"
	"#clear Acquire::IndexTargets::deb::CNF;\n"
	"Dir::Cache::pkgcache \"\";\n"
	"Dir::Cache::srcpkgcache \"\";\n"
	"Acquire::Languages \"none\";\n"
	"Acquire::Retries \"3\";\n"
	"Acquire::ForceHash \"SHA256\";\n"
	"APT::Install-Recommends \"false\";\n"
	"APT::Install-Suggests \"false\";\n"
	"APT::Get::Assume-Yes \"true\";\n"
	"APT::Get::AllowUnauthenticated \"false\";\n"
	"APT::Sandbox::User \"root\";\n"; /* there is no other user to become: we are not root */

static int write_file(const char *dir, const char *name, const struct cbx_buf *text, struct cbx_err *err)
{
	_cleanup_fd_ int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return cbx_fail(err, errno, "open %s", dir);
	return cbx_tree_write(fd, name, cbx_buf_str(text), text->len, 0644, err);
}

static int make_dirs(const char *dir, const char *debs, struct cbx_err *err)
{
	static const char *const below[] = { "", "/lists/partial", "/state", "/cache", "/log", "/none/partial" };
	_cleanup_free_ char *partial = cbx_xasprintf("%s/partial", debs);

	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		_cleanup_free_ char *path = cbx_xasprintf("%s%s", dir, below[i]);
		int r = cbx_dirs_make_private(path, 0755, err);

		if (r < 0)
			return r;
	}
	return cbx_dirs_make_private(partial, 0755, err);
}

int cbx_apt_prepare(const char *dir, const char *debs, const char *const *omit, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf conf = { 0 }, status = { 0 };
	int r;

	if (strpbrk(dir, "\"\\\n"))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "apt cannot work in %s: a quote or backslash is in its name; set CODEBOX_DATA_DIR",
				  dir);
	r = make_dirs(dir, debs, err);
	if (r < 0)
		return r;
	cbx_buf_adds(&conf, settings);
	cbx_buf_addf(&conf, "Dir::State \"%s/state\";\nDir::State::status \"%s/status\";\n", dir, dir);
	cbx_buf_addf(&conf, "Dir::State::lists \"%s/lists\";\nDir::Cache \"%s/cache\";\n", dir, dir);
	cbx_buf_addf(&conf, "Dir::Cache::archives \"%s\";\nDir::Log \"%s/log\";\n", debs, dir);
	for (; omit && *omit; omit++)
		cbx_buf_addf(&status,
			     "Package: %s\nStatus: install ok installed\nVersion: 999:0\nArchitecture: all\n"
			     "Multi-Arch: allowed\nMaintainer: none <none@localhost>\nDescription: omitted\n\n",
			     *omit);
	r = write_file(dir, "apt.conf", &conf, err);
	return r < 0 ? r : write_file(dir, "status", &status, err);
}

static _Noreturn void exec_apt(const char *dir, const char *const *args, size_t nargs, int out)
{
	static const char *const passed[] = { "http_proxy", "https_proxy", "ftp_proxy", "no_proxy",  "all_proxy",
					      "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",	"ALL_PROXY", "TMPDIR" };
	const char *argv[ARGS_MAX + 4];
	char *env[ARRAY_SIZE(passed) + 6];
	size_t n = 0, e = 0;
	int null = open("/dev/null", O_RDONLY);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(126);
	argv[n++] = "apt-get";
	argv[n++] = "-c";
	argv[n++] = cbx_xasprintf("%s/apt.conf", dir);
	for (size_t i = 0; i < nargs && n < ARGS_MAX + 3; i++)
		argv[n++] = args[i];
	argv[n] = NULL;
	env[e++] = cbx_xstrdup("PATH=/usr/sbin:/usr/bin:/sbin:/bin");
	env[e++] = cbx_xstrdup("LC_ALL=C");
	env[e++] = cbx_xstrdup("DEBIAN_FRONTEND=noninteractive");
	env[e++] = cbx_xasprintf("HOME=%s", dir);
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
		if (getenv(passed[i]))
			env[e++] = cbx_xasprintf("%s=%s", passed[i], getenv(passed[i]));
	env[e] = NULL;
	execve("/usr/bin/apt-get", (char **)argv, env);
	_exit(127);
}

/* The last lines, in a ring. */
struct ring {
	char *lines[TAIL_LINES];
	size_t n;
};

static void ring_add(struct ring *ring, const char *line)
{
	char **slot = &ring->lines[ring->n++ % TAIL_LINES];

	free(*slot);
	*slot = cbx_xstrdup(line);
}

static void ring_take(struct ring *ring, struct cbx_buf *out)
{
	for (size_t i = 0; i < TAIL_LINES; i++) {
		char **slot = &ring->lines[(ring->n + i) % TAIL_LINES];

		if (*slot && out)
			cbx_buf_addf(out, "%s%s", out->len ? "; " : "", *slot);
		free(*slot);
		*slot = NULL;
	}
}

static void read_lines(FILE *f, void (*line)(void *, const char *), void *arg, struct ring *ring)
{
	char text[LINE_MAX_];

	while (fgets(text, sizeof(text), f)) {
		text[strcspn(text, "\r\n")] = '\0';
		for (char *p = text; *p; p++)
			if ((unsigned char)*p < 0x20 || *p == 0x7f)
				*p = ' ';
		if (!*text)
			continue;
		ring_add(ring, text);
		if (line)
			line(arg, text);
	}
}

int cbx_apt_run(const char *dir, const char *const *args, size_t nargs, void (*line)(void *arg, const char *text),
		void *arg, struct cbx_buf *tail, struct cbx_err *err)
{
	_cleanup_fclose_ FILE *f = NULL;
	struct ring ring = { 0 };
	int fds[2], status = 0;
	pid_t pid;

	if (access("/usr/bin/apt-get", X_OK) < 0)
		return cbx_refuse(err, "apt_missing", ENOENT,
				  "this recipe is made of Debian packages, and there is no apt-get on this machine; "
				  "\"codebox image build host\" makes an image from the machine's own programs");
	if (nargs > ARGS_MAX)
		return cbx_fail(err, E2BIG, "run apt-get");
	if (pipe2(fds, O_CLOEXEC) < 0)
		return cbx_fail(err, errno, "make a pipe");
	pid = fork();
	if (pid == 0)
		exec_apt(dir, args, nargs, fds[1]);
	close(fds[1]);
	f = fdopen(fds[0], "r");
	if (pid < 0 || !f)
		return cbx_fail(err, errno, "run apt-get");
	read_lines(f, line, arg, &ring);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		ring_take(&ring, NULL);
		return 0;
	}
	ring_take(&ring, tail);
	return cbx_refuse(err, "apt_failed", EIO, "apt-get %s failed", nargs ? args[0] : "");
}
