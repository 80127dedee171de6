/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what a session has run is its history; the cell that runs is watched to its end, and then the
 * history is asked for what follows it. So each cell comes once, in order, whoever asked for it, however quick it was,
 * while its session is there. The session is not used by being looked at, and a reader that is slow slows nobody.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/term.h"

#define LOOK_AGAIN_MS 300 /* whether an idle session has run something */

struct logs {
	struct cbx_log log;
	struct cbx_client client;
	bool follow;
	struct cbx_term out;
};

/* ---- the one that runs ---- */

static void on_event(struct logs *l, const cJSON *msg)
{
	const char *event = cbx_json_str(msg, "event");

	if (strcmp(event, "cell") == 0)
		cbx_log_begin(&l->log, msg);
	else if (strcmp(event, "output") == 0)
		cbx_term_puts(&l->out, cbx_json_str(msg, "text"));
	else if (strcmp(event, "display") == 0)
		cbx_log_display(&l->log, msg, NULL);
}

/* Its answer, the cell as it ended. 0: the reader has gone, or does not follow and has what there is so far. */
static int wait_for_end(struct logs *l, uint64_t request, cJSON **ret, struct cbx_err *err)
{
	int r = 0;

	while (r == 0 && !l->out.failed) {
		_cleanup_json_ cJSON *msg = NULL;

		r = cbx_client_recv(&l->client, &msg, err);
		if (r == 0)
			return cbx_refuse(err, "daemon_gone", ECONNRESET, "codeboxd ended; its log says why");
		if (r > 0)
			r = cbx_client_answer(msg, request, ret, err);
		if (r != 0 || cbx_json_number(msg, "request", 0) != (double)request)
			continue;
		on_event(l, msg);
		if (!l->follow)
			break;
	}
	return r;
}

static int print_running(struct logs *l, uint64_t id, struct cbx_err *err)
{
	_cleanup_json_ cJSON *cell = NULL;
	uint64_t request;
	int r = cbx_client_send(&l->client, "watch", cbx_log_params(&l->log, id), &request, err);

	if (r >= 0)
		r = wait_for_end(l, request, &cell, err);
	if (r < 0 && (strcmp(err->kind, "ended") == 0 || strcmp(err->kind, "execution_not_found") == 0))
		return 0; /* meanwhile: the history has it */
	if (r <= 0)
		return r;
	cbx_log_end(&l->log, cell);
	l->log.after = id;
	return 0;
}

/* ---- the command ---- */

static bool session_gone(const struct logs *l, const struct cbx_err *err)
{
	return l->log.found &&
	       (strcmp(err->kind, "session_not_found") == 0 || strcmp(err->kind, "session_expired") == 0);
}

static int print_log(struct logs *l, struct cbx_err *err)
{
	for (;;) {
		uint64_t next = 0;
		int r = cbx_log_ended(&l->log, &next, err);

		if (r >= 0 && next && !l->out.failed)
			r = print_running(l, next, err);
		if (r < 0 && session_gone(l, err)) {
			cbx_cli_say("session %s has ended", l->log.session);
			return 0;
		}
		if (r >= 0 && l->out.failed && l->out.error != EPIPE)
			r = cbx_fail(err, l->out.error, "write the log");
		if (r < 0 || !l->follow || l->out.failed)
			return r;
		if (!next)
			poll(NULL, 0, LOOK_AGAIN_MS);
	}
}

static int parse_options(int argc, char **argv, struct logs *l)
{
	const char *tail = NULL;
	const struct cbx_cli_option options[] = { { "follow", 'f', .flag = &l->follow },
						  { "tail", 'n', .value = &tail },
						  { 0 } };
	struct cbx_err err;
	int r = cbx_cli_options("logs", argc, argv, options);

	if (r)
		return r;
	l->log.tail = tail;
	if (tail && cbx_parse_u64(tail, "--tail", 0, UINT32_MAX, &l->log.last, &err) < 0)
		return cbx_cli_usage("logs", "%s", err.msg);
	if (argc - optind != 1)
		return cbx_cli_usage("logs", "give the name of one session");
	l->log.session = argv[optind];
	return 0;
}

static int run_logs(int argc, char **argv)
{
	struct logs l = { 0 };
	struct cbx_err err;
	int r = parse_options(argc, argv, &l);

	if (r)
		return r;
	cbx_term_init(&l.out, 1);
	l.log.client = &l.client;
	l.log.out = &l.out;
	r = cbx_cli_client(false, &l.client, &err);
	if (r == 0)
		return cbx_cli_no_session(l.log.session);
	if (r > 0) {
		r = print_log(&l, &err);
		cbx_client_close(&l.client);
	}
	return r < 0 ? cbx_cli_fail(&err) : CBX_EXIT_OK;
}

static const char help[] =
	"Usage: codebox logs [-f] [-n N] SESSION\n"
	"\n"
	"Shows the cells of a session with what they printed and showed, whoever asked for them: a model, a program or\n"
	"a person. On a terminal, control sequences other than colours are made visible.\n"
	"\n"
	"Options:\n"
	"  -f, --follow  stay: show what runs, as it is printed, and each cell that follows, until the session ends\n"
	"                or Ctrl-C is pressed, which does not interrupt the cell\n"
	"  -n, --tail N  of the cells that have ended, the last N (default all that are kept)\n"
	"\n"
	"How much is kept is limits.history of the policy. The output of codebox exec is not in it.\n"
	"\n"
	"Examples:\n"
	"  codebox logs work\n"
	"  codebox logs -f -n 1 work\n";

const struct cbx_command cbx_cmd_logs = {
	.name = "logs",
	.summary = "what a session has run and printed, and what it does now",
	.help = help,
	.run = run_logs,
};
