/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dirs.h"
#include "base/fd.h"
#include "sandbox/landlock.h"
#include "sandbox/self.h"

int cbx_worker_begin(const char *filter_name, struct cbx_filter *ret, struct cbx_err *err)
{
	_cleanup_free_ char *lists = NULL;
	struct rlimit none = { 0, 0 };
	struct cbx_service service;
	struct cbx_dirs dirs;
	int r;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	umask(077);
	if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return cbx_fail(err, errno, "limit itself");
	r = cbx_dirs_init(&dirs, err);
	if (r < 0)
		return r;
	lists = cbx_xasprintf("%s/syscalls", dirs.share);
	cbx_dirs_release(&dirs);
	r = cbx_filter_compile(lists, filter_name, ret, err);
	if (r >= 0)
		r = cbx_service_init(&service, err);
	return r < 0 ? r : cbx_service_become(&service, err);
}

static int limit(int which, uint64_t value, struct cbx_err *err)
{
	struct rlimit rl = { .rlim_cur = value, .rlim_max = value };

	return value != CBX_WORKER_ANY && setrlimit(which, &rl) < 0 ? cbx_fail(err, errno, "set a resource limit") : 0;
}

static int allow(const struct cbx_landlock *l, const char *const *paths, size_t n, struct cbx_err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		_cleanup_fd_ int fd = paths[i] ? open(paths[i], O_PATH | O_CLOEXEC) : -1;

		r = fd < 0 ? 0 : cbx_landlock_allow(l, fd, CBX_LANDLOCK_READ, paths[i], err);
	}
	return r;
}

static int restrict_files(const struct cbx_worker *w, struct cbx_err *err)
{
	static const char *const network[] = { "/etc",
					       "/usr/lib",
					       "/usr/lib64",
					       "/usr/share/ca-certificates",
					       "/usr/local/share/ca-certificates",
					       "/var/lib/ca-certificates",
					       "/run/systemd/resolve",
					       "/run/resolvconf",
					       "/run/NetworkManager",
					       "/dev/null",
					       "/dev/urandom" };
	uint32_t abi = cbx_landlock_abi();
	struct cbx_landlock l = { .fd = -1 };
	int r;

	if (!abi)
		return 0;
	r = cbx_landlock_new(abi, CBX_LANDLOCK_SCOPED | (w->network ? 0 : CBX_LANDLOCK_NO_TCP), &l, err);
	if (r >= 0)
		r = allow(&l, w->readable, w->nreadable, err);
	if (r >= 0 && w->network)
		r = allow(&l, network, ARRAY_SIZE(network), err);
	if (r >= 0 && w->network)
		r = allow(&l, w->certificates, ARRAY_SIZE(w->certificates), err);
	if (r >= 0 && w->dir >= 0)
		r = cbx_landlock_allow(&l, w->dir, CBX_LANDLOCK_READ | CBX_LANDLOCK_CHANGE, "its directory", err);
	if (r >= 0)
		r = cbx_landlock_restrict_self(&l, cbx_landlock_restrict_flags(abi), err);
	cbx_close_p(&l.fd);
	return r;
}

int cbx_worker_confine(const struct cbx_worker *w, const struct cbx_filter *filter, struct cbx_err *err)
{
	int r = 0;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		r = cbx_fail(err, errno, "set no_new_privs");
	if (r >= 0)
		r = limit(RLIMIT_CORE, 0, err);
	if (r >= 0)
		r = limit(RLIMIT_FSIZE, w->file_bytes, err);
	if (r >= 0)
		r = limit(RLIMIT_NOFILE, w->descriptors, err);
	if (r >= 0)
		r = limit(RLIMIT_CPU, w->cpu_s, err);
	if (r >= 0 && !CBX_SANITIZED)
		r = limit(RLIMIT_AS, w->memory_bytes, err);
	if (r >= 0)
		r = restrict_files(w, err);
	return r < 0 || CBX_SANITIZED ? r : cbx_self_filter(filter, err);
}

void cbx_worker_take_jobs(int sock, void (*serve)(int sock, void *arg), void *arg)
{
	for (;;) {
		int fds[CBX_FDS_MAX];
		size_t nfds = 0;
		char byte;
		ssize_t n = cbx_recv_fds(sock, &byte, 1, fds, &nfds);
		pid_t pid;

		if (n <= 0)
			return;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		pid = nfds == 1 ? fork() : -1;
		if (pid == 0) {
			close(sock);
			serve(fds[0], arg);
			_exit(1);
		}
		for (size_t i = 0; i < nfds; i++)
			close(fds[i]);
	}
}
