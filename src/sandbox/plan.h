/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_PLAN_H
#define CBX_SANDBOX_PLAN_H

/*
 * What a sandbox is to be, as data. codeboxd makes a plan from a session's policy and an image's manifest, without any
 * side effect; the supervisor checks it again and carries it out. Plain data without pointers: it is sent as one
 * datagram. Strings are NUL-terminated; unused bytes are zero.
 *
 * Paths of lower directories are not in it: a plan names an image, and the supervisor resolves that name beneath the
 * image store that it holds open. A layer is a directory of the image ("rootfs"), or the machine's own /usr.
 */
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define CBX_PLAN_LAYERS_MAX 4
#define CBX_PATH_MAX 256
#define CBX_PLAN_MOUNTS_MAX 8

/* Which system calls there are: policies/syscalls/. From the narrowest to the widest. */
enum cbx_profile {
	CBX_PROFILE_STRICT,
	CBX_PROFILE_DEFAULT,
	CBX_PROFILE_NET,
	CBX_PROFILE_DEV,
	CBX_PROFILES
};

/* Landlock (landlock.h), from the strictest. */
enum cbx_landlock_mode {
	CBX_LANDLOCK_REQUIRED, /* no sandbox without */
	CBX_LANDLOCK_AUTO,     /* where the kernel has it */
	CBX_LANDLOCK_OFF,
	CBX_LANDLOCK_MODES
};

enum cbx_plan_flag {
	CBX_PLAN_MDWE = 1, /* lockdown.h's flags */
	CBX_PLAN_CORE_SCHED = 2,
	CBX_PLAN_SPECULATION = 4,
	CBX_PLAN_PROXY = 8,	/* a listener on its loopback is handed out by a socket that came with the request */
	CBX_PLAN_PACKAGES = 16, /* there is a place for packages in the root */
	CBX_PLAN_NODE = 32,	/* and CBX_INSIDE_MODULES */
	CBX_PLAN_OPEN = 64,	/* it has a route (route.h) */
};
#define CBX_PLAN_FLAGS 127 /* all of them */

/* "strict", "default", "net", "dev"; NULL for another number. */
const char *cbx_profile_name(unsigned profile);

struct cbx_plan_layer {
	char source[CBX_PATH_MAX]; /* "rootfs": that directory of the image; "host:/usr": the machine's */
	char target[CBX_PATH_MAX]; /* "/" first; later layers are mounted on directories of earlier ones */
};

/* A directory or file of the machine (hostmounts.h). What codeboxd found at `source` is named by dev and ino. */
struct cbx_plan_mount {
	char source[CBX_PATH_MAX]; /* absolute; no part of it is a symbolic link */
	char target[CBX_PATH_MAX]; /* inside; see cbx_plan_target_refused() */
	uint64_t dev, ino;
	uint32_t writable, recursive, directory; /* 0 or 1 */
	uint32_t in_memory;			 /* 1: no disk holds it */
};

struct cbx_plan {
	uint32_t version; /* CBX_PLAN_VERSION */
	uint32_t nlayers;
	char image[CBX_NAME_MAX + 1];
	struct cbx_plan_layer layers[CBX_PLAN_LAYERS_MAX];
	char hostname[CBX_NAME_MAX + 1];
	uint64_t memory_bytes; /* of all processes, where the watcher holds them to it */
	uint64_t data_bytes;   /* RLIMIT_DATA of each process; 0: no limit */
	uint64_t disk_bytes;   /* size of the session's tmpfs */
	uint64_t disk_inodes;
	uint32_t processes;    /* RLIMIT_NPROC */
	uint32_t cpus_milli;   /* thousandths of a processor; rounded up, this number is shown in /proc; 0: all */
	uint32_t profile;      /* enum cbx_profile */
	uint32_t landlock;     /* enum cbx_landlock_mode */
	uint32_t noexec_workspace; /* 1: no program is executed from what the session can write */
	uint32_t flags;        /* enum cbx_plan_flag */
	char resolver[48];     /* with CBX_PLAN_OPEN: an address of the machine's; else "" */
	uint32_t nmounts;
	struct cbx_plan_mount mounts[CBX_PLAN_MOUNTS_MAX];
};

#define CBX_PLAN_VERSION 2

/* The directory inside for whose sake nothing may be mounted at a clean absolute path; NULL: it may be. */
const char *cbx_plan_target_refused(const char *target);

/* 0, or -EINVAL naming the field. */
int cbx_plan_check(const struct cbx_plan *plan, struct cbx_err *err);

/*
 * Where things are inside every sandbox. These are part of the product's interface.
 */
#define CBX_INSIDE_UID 1000
#define CBX_INSIDE_GID 1000
#define CBX_INSIDE_HOME "/home/user"
#define CBX_INSIDE_WORKSPACE "/workspace"
#define CBX_INSIDE_RUNTIMES "/run/codebox" /* the drivers, read-only */
#define CBX_INSIDE_PROXY_PORT 3128 /* on 127.0.0.1, with CBX_PLAN_PROXY */
#define CBX_INSIDE_PROXY "http://127.0.0.1:3128"
#define CBX_INSIDE_PACKAGES "/run/codebox-packages" /* below it, a directory for each time that some were installed */
#define CBX_INSIDE_MODULES    "/node_modules"	      /* where Node looks at last: a link to CBX_MODULES_LINK */
#define CBX_MODULES_LINK      CBX_INSIDE_PACKAGES "/npm" /* and this leads to those that were installed last */
#define CBX_INSIDE_ZYGOTE "/run/codebox-zygote.so" /* zygotes only */

#endif
