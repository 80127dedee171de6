/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_SELF_H
#define CBX_SANDBOX_SELF_H

/*
 * How codebox's own long-lived processes confine themselves, so that a mistake in one of them gives less than its user
 * has. Both functions are for the calling thread, which must be the only one, and need no_new_privs. There is no way
 * back, and children inherit it.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "sandbox/seccomp.h"

struct cbx_self_path {
	const char *path; /* a file or directory, and all beneath it; one that does not exist is skipped */
	bool write;	  /* may be changed too */
	bool file;	  /* skipped unless it is a regular file */
};

/*
 * From now on the file system is open at these paths only (Landlock), for reading where nothing else is said, and never
 * for executing; TCP sockets can be neither bound nor connected, and abstract sockets that are not confined with us
 * cannot be reached, each where the kernel's version can do it. What is open stays usable, and an O_PATH descriptor can
 * be had of anything. Returns the version of Landlock's interface, 0 where the kernel has none, or -errno.
 */
int cbx_self_landlock(const struct cbx_self_path *paths, size_t n, struct cbx_err *err);

/* From now on system calls are filtered. */
int cbx_self_filter(const struct cbx_filter *filter, struct cbx_err *err);

/* Built with a sanitizer, which reserves terabytes of addresses and starts a process to report, a program has neither.
 */
#if defined(__SANITIZE_ADDRESS__)
#define CBX_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CBX_SANITIZED 1
#endif
#endif
#ifndef CBX_SANITIZED
#define CBX_SANITIZED 0
#endif

#endif
