/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_OUTER_H
#define CBX_SANDBOX_OUTER_H

/*
 * The outer namespace's own small root. The supervisor sees nothing of the machine but this, and each sandbox starts
 * from a copy of it, so a new mount namespace copies a dozen mounts, however many the machine has:
 *
 *   /images    the image store, read-only           /usr      the machine's /usr, read-only
 *   /packages  directories of sessions' packages, read-only (packages.h)
 *   /drivers   a copy of the drivers, as a layer    /init     codebox-init, read-only
 *   /dev       null, zero, full, random, urandom    /proc     of the outer pid namespace
 *   /zygote.so   what zygotes run in C              /session, /newroot   for a sandbox's set-up
 *   /null      of /dev/null: a mask, read-only      /empty    an empty layer
 *   /lib, /lib64   links into /usr, and /tmp and /etc, empty: for pasta (route.h), which has /dev/net/tun, where that is there
 */
#include <stdint.h>

#include "base/err.h"
#include "sandbox/net.h"
#include "sandbox/plan.h"
#include "sandbox/seccomp.h"

struct cbx_outer {
	struct cbx_filter filters[CBX_PROFILES]; /* by profile; compiled before the namespace was entered */
	int host_ns;              /* the machine's mount namespace, for mounts of it; -1: not kept */
	struct cbx_filter zygote_filter; /* what a zygote may call; compiled when the first is wanted */
	int overlay;              /* 1: sandboxes get an overlay; 0: read-only binds */
	uint32_t landlock_abi;    /* 0: the kernel has none */
	uint64_t masked_dirs, masked_files; /* procfs.c's, by its list */
	struct cbx_net_request loopback;
	char *cpuinfo;            /* text for /proc/cpuinfo, owned */
	unsigned cpus;
};

struct cbx_outer_paths {
	const char *images, *libexec, *runtimes; /* on the machine */
	const char *packages;	/* likewise; NULL: there are none */
	int keep_host; /* sandboxes may have mounts of the machine */
};

extern const char *const cbx_outer_devices[]; /* NULL-terminated: "null", "zero", … */
#define CBX_OUTER_DRIVERS "/drivers"           /* as a sandbox's root has them: below CBX_INSIDE_RUNTIMES */
#define CBX_OUTER_PASTA "/usr/bin/pasta"
#define CBX_OUTER_PACKAGES "/packages"
#define CBX_OUTER_TTY "tty"                    /* and, but in strict, the controlling terminal */

/*
 * Become root of the outer namespace and build the above. The caller is pid 1 of fresh user, pid and mount namespaces
 * whose id maps are written, but still has the ids that it was started with: files that only those may open (an
 * installation below root's home) are opened first, then ids 0 of the namespace are taken.
 */
int cbx_outer_enter(const struct cbx_outer_paths *paths, struct cbx_outer *outer, struct cbx_err *err);

#endif
