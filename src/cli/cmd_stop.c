/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: ask the running daemon to stop and wait until it closes the connection, which it does last. A
 * daemon that does not run is no failure: what was asked for is already so. */
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/cleanup.h"
#include "cli/cli.h"

#define STOP_TIMEOUT_S 15

static int stop(struct cbx_client *c)
{
	struct timeval limit = { .tv_sec = STOP_TIMEOUT_S };
	struct cbx_err err;
	int r;

	(void)setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	r = cbx_client_call(c, "stop", NULL, NULL, &err);
	if (r < 0 && strcmp(err.kind, "daemon_gone") != 0)
		return cbx_cli_fail(&err);
	for (;;) {
		_cleanup_json_ cJSON *msg = NULL;

		r = cbx_client_recv(c, &msg, &err);
		if (r == 0)
			return CBX_EXIT_OK;
		if (r < 0) {
			cbx_cli_say("codeboxd has not ended within %d s", STOP_TIMEOUT_S);
			return CBX_EXIT_OWN;
		}
	}
}

static int run_stop(int argc, char **argv)
{
	struct cbx_client c;
	struct cbx_err err;
	int r;

	if (argc > 1)
		return cbx_cli_usage("stop", "%s: codebox stop takes no arguments", argv[1]);
	r = cbx_cli_client(false, &c, &err);
	if (r < 0)
		return cbx_cli_fail(&err);
	if (r == 0) {
		cbx_cli_say("codeboxd is not running");
		return CBX_EXIT_OK;
	}
	r = stop(&c);
	cbx_client_close(&c);
	return r;
}

static const char help[] =
	"Usage: codebox stop\n"
	"\n"
	"Ends codeboxd with all sessions: their processes are killed and their files removed. The next command\n"
	"that needs the daemon starts it anew.\n"
	"\n"
	"Examples:\n"
	"  codebox session ls && codebox stop      see what would be lost, then end it\n";

const struct cbx_command cbx_cmd_stop = {
	.name = "stop",
	.summary = "end the daemon and all its sessions",
	.help = help,
	.run = run_stop,
};
