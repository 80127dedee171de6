/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLIENT_LAUNCH_H
#define CBX_CLIENT_LAUNCH_H

/*
 * Start codeboxd as a process of its own, with two listening sockets. Called with the run-time directory's lock held.
 */
#include "base/dirs.h"
#include "base/err.h"

/* fds: the control socket and the MCP socket; they stay the caller's. *ret_log_from: size of the log file
 * before. ret_log: why the log cannot be kept, which is not a failure; unchanged if it can. */
int cbx_daemon_launch(const struct cbx_dirs *dirs, const int fds[2], off_t *ret_log_from,
		      struct cbx_err *ret_log, struct cbx_err *err);
/* <state>/codeboxd.log, malloc'd. */
char *cbx_daemon_log_path(const struct cbx_dirs *dirs);

#endif
