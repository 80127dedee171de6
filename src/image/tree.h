/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_TREE_H
#define CBX_IMAGE_TREE_H

/*
 * Work on a tree that may hold anything: beneath a directory descriptor, never through a symbolic link, never onto
 * another file system, never by an absolute path.
 *
 * Paths are relative and clean ("a/b/c": no empty component, no "." and no ".."). Functions return 0 or -errno with err
 * filled; messages name the path inside the tree.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

#define CBX_RESOLVE_SAFE (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

/* openat2() with CBX_RESOLVE_SAFE, retried on EAGAIN and EINTR. A descriptor, or -errno. */
int cbx_tree_openat(int root, const char *path, int flags, mode_t mode);
int cbx_tree_open_dir(int root, const char *path); /* to be read */

/*
 * Open (O_PATH) the directory that holds the last component of `path`; *ret_name points at that component in `path`.
 * made: missing directories on the way are made (0755), and each adds one to it, also when the function then fails;
 * NULL: none is made. A link or a file on the way is an error.
 */
int cbx_tree_parent(int root, const char *path, uint64_t *made, int *ret_fd, const char **ret_name,
		    struct cbx_err *err);

/* Make the directory and its parents; a link or file in the place of any of them is replaced by a directory. */
int cbx_tree_make_dir(int root, const char *path, struct cbx_err *err);
/* Make or replace a file (mode 0644 or 0755), or a symbolic link. A directory in its place is an error (EISDIR). */
int cbx_tree_write(int root, const char *path, const void *p, size_t n, mode_t mode, struct cbx_err *err);
int cbx_tree_symlink(int root, const char *path, const char *target, struct cbx_err *err);
/* Append a regular file's contents to `out`. -ENOENT: there is none; more than max bytes: -EFBIG. */
int cbx_tree_read(int root, const char *path, size_t max, struct cbx_buf *out, struct cbx_err *err);

/*
 * Remove parent/name, whatever it is, with all that is beneath it. A bounded number of descriptors and no recursion
 * deeper than a constant, whatever the depth of the tree. Not there: 0.
 */
int cbx_tree_remove(int parent, const char *name, struct cbx_err *err);

/* Sorted names in a directory, without "." and "..". Free with cbx_tree_names_free(). */
int cbx_tree_names(int dir, char ***ret, size_t *ret_n, struct cbx_err *err);
void cbx_tree_names_free(char **names, size_t n);

#endif
