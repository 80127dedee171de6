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
#include "cli/term.h"
#include "cli/transcript.h"

#define LOOK_AGAIN_MS 300 /* whether an idle session has run something */

struct logs {
	struct cbx_client client;
	const char *session;
	bool follow, tail;
	uint64_t last;	/* tail: so many cells that have ended */
	uint64_t after; /* the id of the last cell that was printed */
	bool found;	/* the session was there once */
	char language[64];
	struct cbx_term out;
};

/* ---- a cell ---- */

static void print_display(struct logs *l, const cJSON *v, const cJSON *count)
{
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(v, "data"), *form;
	const char *text = cbx_cli_str(data, "text/plain");
	char prompt[40];

	cbx_term_fresh_line(&l->out);
	cJSON_ArrayForEach(form, data) {
		if (!cbx_starts_with(form->string, "image/") && strcmp(form->string, "application/pdf") != 0)
			continue;
		cbx_term_puts(&l->out, "[");
		cbx_term_puts(&l->out, form->string);
		cbx_term_puts(&l->out, "]\n");
	}
	if (!text[0])
		text = cbx_cli_str(data, "text/markdown");
	if (text[0] && cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(v, "is_result"))) {
		snprintf(prompt, sizeof(prompt), count ? "Out[%.0f]: " : "Out: ", count ? count->valuedouble : 0);
		cbx_term_puts(&l->out, prompt);
		if (strchr(text, '\n'))
			cbx_term_puts(&l->out, "\n");
	}
	cbx_term_puts(&l->out, text);
	cbx_term_fresh_line(&l->out);
}

static void print_begin(struct logs *l, const cJSON *cell)
{
	const cJSON *count = cJSON_GetObjectItemCaseSensitive(cell, "execution_count"), *v;
	_cleanup_free_ char *source = cbx_transcript_source(cell),
			    *text = cbx_transcript_marked(cell, source, l->language);
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_transcript_prompt(&out, cell, text);
	cbx_term_write(&l->out, out.data, out.len);
	cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(cell, "outputs")) {
		if (cbx_json_text(v, "stream"))
			cbx_term_puts(&l->out, cbx_cli_str(v, "text"));
		else
			print_display(l, v, count);
	}
}

static void print_end(struct logs *l, const cJSON *cell)
{
	const cJSON *error = cJSON_GetObjectItemCaseSensitive(cell, "error");
	const char *message = cbx_cli_str(cell, "message"), *traceback = cbx_cli_str(error, "traceback");

	cbx_term_flush(&l->out);
	cbx_term_fresh_line(&l->out);
	cbx_term_puts(&l->out, traceback[0] ? traceback : cbx_cli_str(error, "value"));
	cbx_term_fresh_line(&l->out);
	if (message[0]) {
		cbx_term_puts(&l->out, "[");
		cbx_term_puts(&l->out, message);
		cbx_term_puts(&l->out, "]\n");
	}
	cbx_term_puts(&l->out, "\n");
	cbx_term_flush(&l->out);
}

/* ---- those that have ended ---- */

static cJSON *params_of(const struct logs *l, uint64_t id)
{
	cJSON *params = cbx_json_new_obj();

	cbx_json_set_str(params, "session_id", l->session);
	if (id)
		cbx_json_set_u64(params, "execution_id", id);
	return params;
}

/* Of the cells of a page those before the one that has not ended: printed, or, of a tail, kept until all are known. */
static void take_page(struct logs *l, cJSON *page, uint64_t next, cJSON *kept)
{
	cJSON *cells = cJSON_GetObjectItemCaseSensitive(page, "cells"), *cell;

	while ((cell = cJSON_DetachItemFromArray(cells, 0))) {
		uint64_t id = (uint64_t)cbx_json_number(cell, "execution_id", 0);
		bool due = !next || id < next;

		if (due && l->tail) {
			cJSON_AddItemToArray(kept, take_ptr(&cell));
			if ((uint64_t)cJSON_GetArraySize(kept) > l->last)
				cJSON_DeleteItemFromArray(kept, 0);
		} else if (due) {
			print_begin(l, cell);
			print_end(l, cell);
		}
		if (due)
			l->after = id;
		cJSON_Delete(cell);
	}
}

/* All that has ended since. *next: the cell that runs or waits, or 0. */
static int print_ended(struct logs *l, uint64_t *next, struct cbx_err *err)
{
	_cleanup_json_ cJSON *kept = cbx_json_new_arr();
	const cJSON *cell;
	bool more = true;

	while (more && !l->out.failed) {
		_cleanup_json_ cJSON *page = NULL;
		uint64_t before = l->after;
		int r = cbx_client_call(&l->client, "session.history", params_of(l, l->after), &page, err);

		if (r < 0)
			return r;
		l->found = true;
		snprintf(l->language, sizeof(l->language), "%s", cbx_cli_str(page, "language"));
		*next = (uint64_t)cbx_json_number(page, "next", 0);
		more = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(page, "more"));
		take_page(l, page, *next, kept);
		more = more && l->after > before;
	}
	cJSON_ArrayForEach(cell, kept) {
		print_begin(l, cell);
		print_end(l, cell);
	}
	l->tail = false;
	return 0;
}

/* ---- the one that runs ---- */

static void on_event(struct logs *l, const cJSON *msg)
{
	const char *event = cbx_cli_str(msg, "event");

	if (strcmp(event, "cell") == 0)
		print_begin(l, msg);
	else if (strcmp(event, "output") == 0)
		cbx_term_puts(&l->out, cbx_cli_str(msg, "text"));
	else if (strcmp(event, "display") == 0)
		print_display(l, msg, NULL);
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
	int r = cbx_client_send(&l->client, "watch", params_of(l, id), &request, err);

	if (r >= 0)
		r = wait_for_end(l, request, &cell, err);
	if (r < 0 && (strcmp(err->kind, "ended") == 0 || strcmp(err->kind, "execution_not_found") == 0))
		return 0; /* meanwhile: the history has it */
	if (r <= 0)
		return r;
	print_end(l, cell);
	l->after = id;
	return 0;
}

/* ---- the command ---- */

static bool session_gone(const struct logs *l, const struct cbx_err *err)
{
	return l->found &&
	       (strcmp(err->kind, "session_not_found") == 0 || strcmp(err->kind, "session_expired") == 0);
}

static int print_log(struct logs *l, struct cbx_err *err)
{
	for (;;) {
		uint64_t next = 0;
		int r = print_ended(l, &next, err);

		if (r >= 0 && next && !l->out.failed)
			r = print_running(l, next, err);
		if (r < 0 && session_gone(l, err)) {
			cbx_cli_say("session %s has ended", l->session);
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
	static const struct option options[] = { { "follow", no_argument, NULL, 'f' },
						 { "tail", required_argument, NULL, 'n' },
						 { 0 } };
	struct cbx_err err;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":fn:", options, NULL)) >= 0) {
		if (c == 'f')
			l->follow = true;
		else if (c != 'n')
			return cbx_cli_bad_option("logs", c, argv);
		else if (cbx_parse_u64(optarg, "--tail", 0, UINT32_MAX, &l->last, &err) < 0)
			return cbx_cli_usage("logs", "%s", err.msg);
		else
			l->tail = true;
	}
	if (argc - optind != 1)
		return cbx_cli_usage("logs", "give the name of one session");
	l->session = argv[optind];
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
	r = cbx_cli_client(false, &l.client, &err);
	if (r == 0)
		return cbx_cli_refuse("session_not_found", "there is no session \"%s\" (codeboxd is not running)",
				      l.session);
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
