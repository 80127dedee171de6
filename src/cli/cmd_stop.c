/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: ask the running daemon to stop and wait until it closes the connection, which it does last. A
 * daemon that does not run is not a failure: what was asked for is already so. What would be lost is said first;
 * a person at a terminal is asked, programs are not. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"

#define STOP_TIMEOUT_S 15

static bool has_ended(struct cbx_client *c)
{
	struct cbx_err err;
	int r = 1;

	while (r > 0) {
		_cleanup_json_ cJSON *msg = NULL;

		r = cbx_client_recv(c, &msg, &err);
	}
	return r == 0;
}

static int stop(struct cbx_client *c)
{
	struct timeval limit = { .tv_sec = STOP_TIMEOUT_S };
	struct cbx_err err;

	(void)setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (cbx_client_call(c, "stop", NULL, NULL, &err) < 0 && strcmp(err.kind, "daemon_gone") != 0)
		return cbx_cli_fail(&err);
	if (has_ended(c))
		return CBX_EXIT_OK;
	cbx_cli_say("codeboxd has not ended within %d s", STOP_TIMEOUT_S);
	return CBX_EXIT_OWN;
}

static uint64_t number(const cJSON *obj, const char *key)
{
	struct cbx_err err;
	uint64_t n = 0;

	return cbx_json_get_u64(obj, key, 0, 1 << 30, &n, &err) < 0 ? 0 : n;
}

/* It waits as long as the last session takes, and without being a client itself. */
static int drain(struct cbx_client *c)
{
	_cleanup_json_ cJSON *hello = NULL;
	struct cbx_err err;
	uint64_t n;

	if (cbx_client_call(c, "hello", NULL, &hello, &err) < 0 || cbx_client_call(c, "drain", NULL, NULL, &err) < 0)
		return cbx_cli_fail(&err);
	n = number(hello, "sessions");
	cbx_cli_say("codeboxd ends after its last session and client; there %s %llu session%s now",
		    n == 1 ? "is" : "are", (unsigned long long)n, n == 1 ? "" : "s");
	if (shutdown(c->fd, SHUT_WR) < 0 || !has_ended(c)) {
		cbx_cli_say("the connection to codeboxd broke; it still drains");
		return CBX_EXIT_OWN;
	}
	return CBX_EXIT_OK;
}

/* False: whoever is at the terminal does not want it. */
static bool agreed(struct cbx_client *c, bool force)
{
	_cleanup_json_ cJSON *hello = NULL;
	struct cbx_err err;
	char line[16] = "";
	uint64_t sessions, clients;

	if (cbx_client_call(c, "hello", NULL, &hello, &err) < 0)
		return true; /* one that cannot be asked is to be stopped all the more */
	sessions = number(hello, "sessions");
	clients = number(hello, "mcp_clients");
	if (!sessions && !clients)
		return true;
	cbx_cli_say("this ends %llu session%s (processes, variables and files) and %llu MCP connection%s",
		    (unsigned long long)sessions, sessions == 1 ? "" : "s", (unsigned long long)clients,
		    clients == 1 ? "" : "s");
	if (force || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return true;
	fputs("Stop it? [y/N] ", stderr);
	return fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
}

static int run_stop(int argc, char **argv)
{
	bool force = argc == 2 && (strcmp(argv[1], "--force") == 0 || strcmp(argv[1], "-f") == 0 ||
				   strcmp(argv[1], "-y") == 0);
	bool drains = argc == 2 && strcmp(argv[1], "--drain") == 0;
	struct cbx_client c;
	struct cbx_err err;
	int r;

	if (argc > 1 && !force && !drains)
		return cbx_cli_usage("stop", "unexpected argument: %s; the options are --force and --drain",
				     argv[argc - 1]);
	r = cbx_cli_client(false, &c, &err);
	if (r < 0)
		return cbx_cli_fail(&err);
	if (r == 0) {
		cbx_cli_say("codeboxd is not running");
		return CBX_EXIT_OK;
	}
	r = drains ? drain(&c) : agreed(&c, force) ? stop(&c) : CBX_EXIT_FAILURE;
	cbx_client_close(&c);
	return r;
}

static const char help[] =
	"Usage: codebox stop [--force | --drain]\n"
	"\n"
	"Ends codeboxd with all sessions: their processes are killed and their files removed. The command says how\n"
	"many, and asks at a terminal. The next command that needs the daemon starts it again; so does a codebox mcp,\n"
	"with its client's next message.\n"
	"\n"
	"Options:\n"
	"  -f, -y, --force  do not ask\n"
	"  --drain          end no session: wait until the last one and the last client have gone. HAProxy, which "
	"asks\n"
	"                   codeboxd --agent, makes new sessions elsewhere meanwhile\n"
	"\n"
	"Examples:\n"
	"  codebox session ls && codebox stop      see what would be lost, then end it\n";

const struct cbx_command cbx_cmd_stop = {
	.name = "stop",
	.summary = "end the daemon and all its sessions",
	.help = help,
	.run = run_stop,
};
