/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_DAEMON_OPTIONS_H
#define CBX_DAEMON_OPTIONS_H

#include "base/limits.h"
#include "base/log.h"
#include "daemon/daemon.h"

struct cbx_daemon_options {
	bool foreground;
	enum cbx_log_level level;
	uint64_t idle_ms;
	bool idle_given;
	uint64_t freeze_ms;
	uint64_t pool, pool_idle_ms;
	uint64_t zygotes;
	uint64_t http_rate;
};

/* What the command line and the environment say. 0: start; 1: done (help, version); -errno. */
int cbx_daemon_options_parse(int argc, char **argv, struct cbx_daemon *d, struct cbx_daemon_options *o,
			     struct cbx_err *err);

#endif
