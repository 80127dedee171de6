/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_CONFILE_H
#define CBX_CLI_CONFILE_H

/*
 * A configuration file of another program: read once, replaced as a whole. The program that owns it never sees half a
 * file, and a change that it made in between is not lost.
 */
#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

#define CBX_CONFILE_MAX (64u << 20) /* bytes; longer: refused */

struct cbx_confile {
	char *path;	     /* what symbolic links lead to */
	bool exists;
	struct stat st;	     /* when it was read */
	struct cbx_buf text; /* empty when it does not exist */
};

/* A file that is not there is no error, but a link that leads nowhere is. */
int cbx_confile_read(struct cbx_confile *f, const char *path, struct cbx_err *err);
/* Copy the file to <path>.codebox-backup and put the text in its place; mode and owner stay. Errors: "read_only", and
 * "changed" when it is not as it was read any more. Without the file: make it, mode 0600. */
int cbx_confile_replace(struct cbx_confile *f, const char *text, size_t len, struct cbx_err *err);
char *cbx_confile_backup_path(const struct cbx_confile *f);
void cbx_confile_release(struct cbx_confile *f);
#define _cleanup_confile_ __attribute__((cleanup(cbx_confile_release)))

#endif
