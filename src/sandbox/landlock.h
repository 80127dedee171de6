/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_LANDLOCK_H
#define CBX_SANDBOX_LANDLOCK_H

/*
 * Landlock: a second layer, which does not rest on mounts, ids or capabilities. Should one of those be wrong, a file
 * that no rule names still cannot be written.
 *
 * A ruleset handles every right that both this code and the running kernel know, by name: what is handled and not
 * allowed by a rule is refused. A kernel that is older knows fewer, one that is newer has rights that are not handled.
 */
#include <stdint.h>

#include "base/err.h"

/* The kernel's version of Landlock's interface; 0 where it has none or it is switched off. Asked once, at a program's
 * start: a later failure is then an error, and does not pass for a kernel without it. */
uint32_t cbx_landlock_abi(void);

struct cbx_landlock {
	int fd;           /* owned; -1: none */
	uint64_t handled; /* rights to files */
};

enum cbx_landlock_flag {
	/* No TCP port may be bound or connected to. */
	CBX_LANDLOCK_NO_TCP = 1,
	/* Abstract unix sockets of the same ruleset's making can be reached, and no others. */
	CBX_LANDLOCK_SCOPED_SOCKETS = 2,
	/* Signals reach processes of the same ruleset's making only. Processes that were put into the sandbox on
	 * different ways could then not signal each other; nor does such a process's death reach a child outside of the
	 * ruleset that asked for a signal then (PR_SET_PDEATHSIG). */
	CBX_LANDLOCK_SCOPED_SIGNALS = 4,
	CBX_LANDLOCK_SCOPED = CBX_LANDLOCK_SCOPED_SOCKETS | CBX_LANDLOCK_SCOPED_SIGNALS,
};

enum cbx_landlock_access {
	CBX_LANDLOCK_READ = 1,    /* open for reading, list */
	CBX_LANDLOCK_EXECUTE = 8,
	CBX_LANDLOCK_CHANGE = 2,  /* write, make, rename, remove; not: make device files */
	CBX_LANDLOCK_USE = 4,     /* write what is there, ioctl of devices; make nothing */
};

/* A new ruleset for a kernel of this version (not 0), which allows nothing yet. */
int cbx_landlock_new(uint32_t abi, unsigned flags, struct cbx_landlock *ret, struct cbx_err *err);
/* Allow access (an enum cbx_landlock_access, or several) beneath a directory, or to a file, that is open at least as
 * O_PATH. `what` is named in an error. */
int cbx_landlock_allow(const struct cbx_landlock *l, int fd, unsigned access, const char *what, struct cbx_err *err);
/* The same by a path beneath root, which may not lead through symbolic links. */
int cbx_landlock_allow_at(const struct cbx_landlock *l, int root, const char *path, unsigned access,
			  struct cbx_err *err);

/*
 * What every sandbox allows, by the paths of plan.h beneath root: reading everything; changing the workspace, the home
 * and the temporary directories; using devices and, with proc_files, the process's own files in /proc.
 */
int cbx_landlock_allow_standard(const struct cbx_landlock *l, int root, int proc_files, struct cbx_err *err);

/* Apply it to the calling thread, which has no_new_privs; flags as of landlock_restrict_self(2). */
int cbx_landlock_restrict_self(const struct cbx_landlock *l, uint32_t flags, struct cbx_err *err);

/* landlock_restrict_self(2)'s flags for a sandbox: nothing that hostile code is refused is to fill the machine's audit
 * log. */
uint32_t cbx_landlock_restrict_flags(uint32_t abi);

#endif
