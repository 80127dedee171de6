/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_IMAGE_APT_H
#define CBX_IMAGE_APT_H

/* Run apt-get with a configuration of our own (see fetch.h). */
#include "base/buf.h"
#include "base/err.h"

/* A directory for apt, below which it finds and keeps everything. Made where it is missing, and written to. */
int cbx_apt_prepare(const char *dir, const char *debs, const char *const *omit, struct cbx_err *err);

/*
 * apt-get -c <dir>/apt.conf ARGS…; each line of output goes to `line`, which may be NULL. 0: it succeeded. Otherwise
 * "apt_failed", and its last lines are appended to `tail`.
 */
int cbx_apt_run(const char *dir, const char *const *args, size_t nargs, void (*line)(void *arg, const char *text),
		void *arg, struct cbx_buf *tail, struct cbx_err *err);

#endif
