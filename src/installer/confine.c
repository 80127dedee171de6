/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what reads what the network sends can reach the network, the certificates and the directory that
 * it writes to; what handles unpacked wheels reaches their store and no network. Each is a process for one job, and has
 * a filter of system calls of its own, which is compiled once, before the first job. Unpacking itself is confined
 * further, by image/worker.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "installer/installer.h"
#include "sandbox/landlock.h"
#include "sandbox/self.h"

#define POPULAR_MAX KIB(64) /* bytes of the list of popular names */

static int limit_self(struct cbx_err *err)
{
	struct rlimit none = { 0, 0 }, files = { 256, 256 }, cpu = { CBX_INSTALL_TIMEOUT_S, CBX_INSTALL_TIMEOUT_S };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0 ||
	    setrlimit(RLIMIT_CPU, &cpu) < 0)
		return cbx_fail(err, errno, "limit a process that installs");
	return 0;
}

static int allow(const struct cbx_landlock *l, int dir, const char *path, unsigned access, struct cbx_err *err)
{
	_cleanup_fd_ int fd = path ? openat(dir, path, O_PATH | O_CLOEXEC) : -1;

	return fd < 0 ? 0 : cbx_landlock_allow(l, fd, access, path, err);
}

/* flags: of cbx_landlock_new(). kept: what of the store can be changed; NULL: nothing. A kernel without Landlock goes
 * without, as codeboxd itself does. */
static int restrict_files(unsigned flags, const char *const *readable, size_t n, const struct cbx_store_dirs *store,
			  const char *kept, struct cbx_err *err)
{
	uint32_t abi = cbx_landlock_abi();
	struct cbx_landlock l = { .fd = -1 };
	int r;

	if (!abi)
		return 0;
	r = cbx_landlock_new(abi, flags | CBX_LANDLOCK_SCOPED, &l, err);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = allow(&l, AT_FDCWD, readable[i], CBX_LANDLOCK_READ, err);
	/* What the network sends is kept from the wheels that are in the store already. */
	if (r >= 0)
		r = allow(&l, store->all, kept, CBX_LANDLOCK_READ | CBX_LANDLOCK_CHANGE, err);
	if (r >= 0 && kept && kept[0] != '.')
		r = allow(&l, store->own, "t", CBX_LANDLOCK_READ | CBX_LANDLOCK_CHANGE, err);
	if (r >= 0)
		r = cbx_landlock_restrict_self(&l, 0, err);
	cbx_close_p(&l.fd);
	return r;
}

static int filter_self(const struct cbx_filter *filter, struct cbx_err *err)
{
	return CBX_SANITIZED ? 0 : cbx_self_filter(filter, err);
}

int cbx_confine_prepare(const char *share, struct cbx_store_dirs *store, struct cbx_err *err)
{
	_cleanup_free_ char *lists = cbx_xasprintf("%s/syscalls", share),
			    *names = cbx_xasprintf("%s/popular/pypi", share);
	_cleanup_fd_ int fd = open(names, O_RDONLY | O_CLOEXEC);
	int r;

	/* Now, since root may not be able to read it any more once it has become the service's account. */
	if (fd < 0 || cbx_read_whole(fd, POPULAR_MAX, &store->popular) < 0)
		store->popular.len = 0;
	r = cbx_filter_compile(lists, "registry", &store->fetching, err);
	return r < 0 ? r : cbx_filter_compile(lists, "wheels", &store->linking, err);
}

int cbx_confine_fetch(const struct cbx_index *indexes, size_t n, const char *config, const struct cbx_store_dirs *store,
		      struct cbx_err *err)
{
	const char *home = getenv("HOME"), *named = getenv("NETRC");
	_cleanup_free_ char *netrc = home ? cbx_xasprintf("%s/.netrc", home) : NULL;
	/* What the C library and the one for TLS read: names of hosts, certificates, their own modules. */
	const char *const system[] = { "/etc",
				       "/usr",
				       "/lib",
				       "/lib64",
				       "/run/systemd/resolve",
				       "/dev/urandom",
				       "/proc/sys",
				       named && named[0] ? named : netrc,
				       config,
				       indexes->ca,
				       indexes->client };
	const char *paths[ARRAY_SIZE(system) + 2 * CBX_INDEXES_MAX + 1];
	unsigned flags = CBX_LANDLOCK_NO_TCP;
	int r = limit_self(err);

	memcpy(paths, system, sizeof(system));
	for (size_t i = 0; i < n; i++) {
		paths[ARRAY_SIZE(system) + i] = indexes[i].dir;
		if (!indexes[i].dir)
			flags = 0;
	}
	if (r >= 0)
		r = restrict_files(flags, paths, ARRAY_SIZE(system) + n, store, "c", err);
	return r < 0 ? r : filter_self(&store->fetching, err);
}

int cbx_confine_link(const struct cbx_store_dirs *store, struct cbx_err *err)
{
	int r = limit_self(err);

	if (r >= 0)
		r = restrict_files(CBX_LANDLOCK_NO_TCP, NULL, 0, store, ".", err);
	return r < 0 ? r : filter_self(&store->linking, err);
}

int cbx_confine_check(const char *const *paths, size_t n, const struct cbx_store_dirs *store, struct cbx_err *err)
{
	int r = limit_self(err);

	if (r >= 0)
		r = restrict_files(CBX_LANDLOCK_NO_TCP, paths, n, store, NULL, err);
	return r < 0 ? r : filter_self(&store->linking, err);
}
