/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_SANDBOX_MOUNTS_H
#define CBX_SANDBOX_MOUNTS_H

/*
 * Mounts by descriptor. The new mount API is used throughout: a mount is made detached, gets its attributes, and is
 * then attached to a directory that is held open, so no path is looked up twice and no mount is ever writable for a
 * moment when it should not be. The exception is cbx_mount_bind, for the many small mounts in /dev and /proc.
 *
 * All of these run in a process that is set up by us alone (the supervisor at its start, a sandbox before its init is
 * executed), with capabilities in its own user namespace only.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CBX_NOSUID_NODEV (CBX_MOUNT_ATTR_NOSUID | CBX_MOUNT_ATTR_NODEV)

/* Attributes of a mount: CBX_MOUNT_ATTR_* of base/syscalls.h. */

/* A detached new file system. options: "key=value" or "flag" strings, NULL-terminated. Returns a mount descriptor. The
 * kernel's own explanation, where it gives one, is part of the error. */
int cbx_mount_new(const char *type, const char *const *options, unsigned attr, struct cbx_err *err);
/* A detached copy of an existing tree (with its submounts), with attributes added. */
int cbx_mount_copy(int dir, const char *path, unsigned attr, struct cbx_err *err);
/* Mount a directory or file that is in view, with the attributes that it has there, on a name in the working directory:
 * one system call in place of five. Only where both sides were made by the kernel or by us, so that no name is a link:
 * in a new /proc or on our own tmpfs. */
int cbx_mount_bind(const char *source, const char *name, struct cbx_err *err);
/* Attach a detached mount to an open directory or file. */
int cbx_mount_attach(int mount, int target, const char *what, struct cbx_err *err);
/* Open a mount point beneath root: never through a symbolic link or out of it. */
int cbx_mount_point(int root, const char *path, struct cbx_err *err);
/* Make dir/a/b/c, all parts. Only ever used on our own tmpfs, before anything else could put a link there. */
int cbx_mount_make_dirs(int dir, const char *path, struct cbx_err *err);
/* New file system, attached to root/path in one go. Returns the mount's descriptor. */
int cbx_mount_new_at(const char *type, const char *const *options, unsigned attr, int root, const char *path,
		     struct cbx_err *err);
/* Make root (a mount's descriptor) the root directory, with nothing of the old one left. The working directory is then
 * "/". */
int cbx_mount_pivot(int root, struct cbx_err *err);
/* No mount event leaves or enters this mount namespace. */
int cbx_mount_all_private(struct cbx_err *err);

#endif
