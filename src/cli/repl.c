/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codebox-repl, executed by `codebox repl`. Lines are edited until the interpreter says that they
 * are a complete cell; then the cell runs as with `codebox run`, and what is typed meanwhile is its standard
 * input; what it does not read of that is read by the prompt. Without --session the first, empty cell makes a session
 * that belongs to this connection, so that nothing stays behind however this program ends. In a session with a name a
 * cell keeps running when a person's connection breaks; the next prompt shows what there was meanwhile, and
 * follows the cell.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cell.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/lines.h"
#include "cli/mountask.h"
#include "cli/seen.h"

#define CANDIDATES_MAX 10000

struct repl {
	struct cbx_cli_spec spec;
	const char *language; /* -l; NULL: the image's own */
	struct cbx_client client;
	struct cbx_cell cell;
	struct cbx_term term_out, term_err;
	struct cbx_rows rows;
	struct cbx_figures figures;
	bool figures_asked; /* --out */
	struct cbx_lines_asks asks;
	struct cbx_lines *lines;
	struct cbx_log log; /* of a session that has a name */
	char created[40];   /* when it was made; "": there is nothing to come back to */
	char *seen;	    /* the file of what was seen; NULL: none */
	int status;	    /* of the last cell */
};

static int parse_options(int argc, char **argv, struct repl *repl)
{
	static const struct option options[] = { CBX_CLI_SPEC_OPTIONS,
						 { "language", required_argument, NULL, 'l' },
						 { 0 } };
	int c, r = 0;

	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "+:l:v:", options, NULL)) >= 0) {
		if (c == 'l')
			repl->language = optarg;
		else
			r = cbx_cli_spec_option("repl", &repl->spec, c, argv);
	}
	if (r)
		return r;
	if (optind < argc)
		return cbx_cli_usage("repl", "unexpected argument: %s; codebox run runs a file", argv[optind]);
	repl->figures_asked = repl->spec.out;
	if (!repl->spec.out)
		repl->spec.out = ".";
	return cbx_cli_spec_check("repl", &repl->spec);
}

static cJSON *session_params(const struct repl *repl)
{
	cJSON *params = cbx_json_new_obj();

	cbx_json_set_str(params, "session_id", repl->cell.session);
	return params;
}

/* Of code that was typed. */
static cJSON *code_params(const struct repl *repl)
{
	cJSON *params = session_params(repl);

	cbx_json_set_str(params, "language", repl->language);
	return params;
}

/*
 * The interpreter is asked about what was typed, without the newline of Enter: a block is complete when a blank line
 * follows it, and only a newline within the text shows one. What cannot be asked is run, and then says itself what is
 * wrong with it.
 */
static bool incomplete(void *arg, const char *code, char *indent, size_t size)
{
	_cleanup_json_ cJSON *result = NULL;
	struct repl *repl = arg;
	cJSON *params = code_params(repl);
	struct cbx_err ignored;

	indent[0] = '\0';
	cbx_json_set_str(params, "code", code);
	if (cbx_client_call(&repl->client, "is_complete", params, &result, &ignored) < 0)
		return false;
	snprintf(indent, size, "%s", cbx_json_str(result, "indent"));
	return strcmp(cbx_json_str(result, "status"), "incomplete") == 0;
}

static bool complete(void *arg, const char *text, struct cbx_candidates *ret)
{
	_cleanup_json_ cJSON *result = NULL;
	struct repl *repl = arg;
	cJSON *params = code_params(repl);
	const cJSON *matches, *m;
	struct cbx_err ignored;
	size_t n = 0, cursor = cbx_utf8_count(text, strlen(text));
	double start;

	cbx_json_set_str(params, "code", text);
	cbx_json_set_u64(params, "cursor", cursor);
	if (cbx_client_call(&repl->client, "complete", params, &result, &ignored) < 0)
		return false;
	matches = cbx_json_member(result, "matches");
	start = cbx_json_number(result, "start", -1);
	if (!cJSON_IsArray(matches) || start < 0 || start > (double)cursor)
		return false;
	ret->replaced = cursor - (size_t)start;
	ret->texts = cbx_xcalloc((size_t)cJSON_GetArraySize(matches) + 1, sizeof(*ret->texts));
	cJSON_ArrayForEach(m, matches)
		if (cJSON_IsString(m) && m->valuestring[0] && n < CANDIDATES_MAX)
			ret->texts[n++] = cbx_xstrdup(m->valuestring);
	return n > 0;
}

static bool blank(const char *s)
{
	return s[strspn(s, " \t\n")] == '\0';
}

static bool says_exit(const char *s)
{
	static const char *const words[] = { "exit", "quit", "exit()", "quit()" };

	return cbx_find_word(s, words, ARRAY_SIZE(words)) >= 0;
}

/* A cell from the user. 1: it is in `code`; 0: the end. */
static int read_cell(struct repl *repl, struct cbx_buf *code)
{
	for (;;) {
		switch (cbx_lines_read(repl->lines, code)) {
		case CBX_LINE_END:
			return 0;
		case CBX_LINE_INTERRUPTED:
			continue;
		case CBX_LINE_BAD:
			cbx_cli_say("this line is too long or not UTF-8 text; the input is dropped");
			repl->status = CBX_EXIT_USAGE;
			continue;
		case CBX_LINE_TEXT:
			break;
		}
		if (says_exit(cbx_buf_str(code)))
			return 0;
		if (!blank(cbx_buf_str(code)))
			return 1;
	}
}

static void note_seen(const struct repl *repl, uint64_t cell)
{
	if (repl->seen && repl->created[0])
		cbx_seen_put(repl->seen, repl->cell.session, repl->created, cell);
}

/* 0, or negative when the prompt must end. */
static int run_cell(struct repl *repl, const char *code, struct cbx_err *err)
{
	_cleanup_json_ cJSON *execution = NULL;
	cJSON *params = code_params(repl);
	int r;

	if (repl->spec.timeout)
		cbx_json_set_str(params, "timeout", repl->spec.timeout);
	else
		cbx_json_set_bool(params, "unlimited", true);
	if (repl->spec.session && cbx_lines_terminal(repl->lines))
		cbx_json_set_bool(params, "detached", true);
	repl->cell.typed = cbx_lines_terminal(repl->lines);
	repl->cell.input = repl->cell.typed ? STDIN_FILENO : -1;
	r = cbx_cell_run(&repl->cell, code, params, &execution, err);
	if (r < 0) {
		if (strcmp(err->kind, "code_too_long") != 0)
			return r;
		(void)cbx_cli_fail(err);
		repl->status = CBX_EXIT_FAILURE;
		return 0;
	}
	cbx_lines_typed(repl->lines, &repl->cell.unread);
	cbx_lines_typed(repl->lines, &repl->figures.images.typed);
	repl->figures.images.typed.len = 0;
	cbx_cell_explain(&repl->cell, execution);
	cbx_term_fresh_line(&repl->term_out);
	repl->status = cbx_cell_exit_status(execution);
	note_seen(repl, repl->cell.execution);
	return 0;
}

/* ---- back to a session ---- */

static void on_found(void *arg, const cJSON *msg)
{
	cbx_log_begin(arg, msg);
}

/* The cell that runs, which gets what is typed, and Ctrl-C. 0: it has ended. */
static int follow(struct repl *repl, uint64_t id, struct cbx_err *err)
{
	_cleanup_json_ cJSON *execution = NULL;
	int r;

	repl->cell.on_found = on_found;
	repl->cell.arg = &repl->log;
	repl->cell.typed = cbx_lines_terminal(repl->lines);
	repl->cell.input = repl->cell.typed ? STDIN_FILENO : -1;
	r = cbx_cell_follow(&repl->cell, repl->spec.session, id, &execution, err);
	repl->cell.input = -1;
	if (r < 0)
		return strcmp(err->kind, "ended") == 0 || strcmp(err->kind, "execution_not_found") == 0 ? 0 : r;
	cbx_lines_typed(repl->lines, &repl->cell.unread);
	cbx_log_end(&repl->log, execution);
	repl->log.after = id;
	return 0;
}

/* What has happened since a prompt was here last, and then what runs. */
static int catch_up(struct repl *repl, struct cbx_err *err)
{
	uint64_t next = 1, seen = 0;
	bool known = repl->seen && cbx_seen_get(repl->seen, repl->spec.session, repl->created, &seen);
	int r = 0;

	repl->log.tail = !known; /* none of what was before */
	repl->log.after = seen;
	while (r >= 0 && next) {
		next = 0;
		r = cbx_log_ended(&repl->log, &next, err);
		if (r < 0 && strcmp(err->kind, "history_off") == 0)
			return 0;
		if (r >= 0 && next)
			r = follow(repl, next, err);
	}
	return r < 0 ? r : 0;
}

/* 1: the session is there; 0: it is to be made. */
static int come_back(struct repl *repl, struct cbx_err *err)
{
	_cleanup_json_ cJSON *info = NULL;
	int r;

	memccpy(repl->cell.session, repl->spec.session, '\0', sizeof(repl->cell.session));
	repl->log = (struct cbx_log){ .client = &repl->client, .session = repl->spec.session, .out = &repl->term_out };
	r = cbx_client_call(&repl->client, "session.info", session_params(repl), &info, err);
	if (r < 0 && (strcmp(err->kind, "session_not_found") == 0 || strcmp(err->kind, "session_expired") == 0))
		return 0;
	if (r < 0)
		return r;
	snprintf(repl->created, sizeof(repl->created), "%s", cbx_json_str(info, "created"));
	r = catch_up(repl, err);
	return r < 0 ? r : 1;
}

/* The session: named, or this connection's own. */
static int begin(struct repl *repl, struct cbx_err *err)
{
	_cleanup_json_ cJSON *execution = NULL, *params = cbx_json_new_obj(), *info = NULL;
	int r = repl->spec.session && cbx_lines_terminal(repl->lines) ? come_back(repl, err) : 0;

	if (r < 0)
		return r;
	cbx_cli_spec_json(&repl->spec, params);
	cbx_json_set_str(params, "language", repl->language);
	if (repl->spec.session)
		cbx_json_set_bool(params, "create", true);
	do
		r = cbx_cell_run(&repl->cell, "", cJSON_Duplicate(params, 1), &execution, err);
	while (r < 0 && cbx_mount_ask(repl->spec.mounts, repl->cell.sigfd, err));
	if (r < 0)
		return r;
	if (!repl->cell.session[0])
		return cbx_refuse(err, "internal", EIO, "codeboxd did not name the session");
	if (strcmp(cbx_json_str(execution, "status"), "ok") != 0)
		return cbx_refuse(err, "internal", EIO, "the interpreter did not start: %s",
				  cbx_json_str(execution, "message"));
	if (repl->spec.session && !repl->created[0] &&
	    cbx_client_call(&repl->client, "session.info", session_params(repl), &info, err) >= 0)
		snprintf(repl->created, sizeof(repl->created), "%s", cbx_json_str(info, "created"));
	note_seen(repl, repl->cell.execution);
	return 0;
}

static void banner(struct repl *repl)
{
	_cleanup_json_ cJSON *info = NULL;
	_cleanup_buf_ struct cbx_buf image = { 0 };
	struct cbx_err ignored;

	if (!cbx_lines_terminal(repl->lines))
		return;
	if (cbx_client_call(&repl->client, "session.info", session_params(repl), &info, &ignored) == 0)
		cbx_escape(&image, cbx_json_str(info, "image"));
	printf("codebox %s, image %s, session %s%s\nFigures are saved in %s. Ctrl-D ends %s.\n", PACKAGE_VERSION,
	       image.len ? cbx_buf_str(&image) : "?", repl->cell.session, repl->spec.session ? " (kept)" : "",
	       strcmp(repl->spec.out, ".") == 0 ? "the current directory" : repl->spec.out,
	       repl->spec.session ? "this prompt, not the session" : "the session");
	fflush(stdout);
}

static int loop(struct repl *repl)
{
	_cleanup_buf_ struct cbx_buf code = { 0 };
	struct cbx_err err;
	int r = begin(repl, &err);

	if (r >= 0)
		banner(repl);
	while (r >= 0 && read_cell(repl, &code) > 0) {
		cbx_lines_remember(repl->lines, code.data);
		r = run_cell(repl, code.data, &err);
	}
	if (r >= 0)
		return cbx_lines_terminal(repl->lines) ? CBX_EXIT_OK : repl->status;
	cbx_term_fresh_line(&repl->term_out);
	if (strcmp(err.kind, "interrupted") == 0)
		return CBX_EXIT_INTERRUPTED;
	(void)cbx_cli_fail(&err);
	return CBX_EXIT_OWN;
}

static int run(struct repl *repl, const struct cbx_dirs *dirs)
{
	_cleanup_free_ char *history = NULL;
	struct cbx_err err;
	int status;

	if (cbx_client_open(dirs, true, cbx_cli_warn, &repl->client, &err) < 0)
		return cbx_cli_fail(&err);
	cbx_term_init(&repl->term_out, STDOUT_FILENO);
	cbx_term_init(&repl->term_err, STDERR_FILENO);
	cbx_rows_init(&repl->rows, STDOUT_FILENO);
	repl->term_out.rows = &repl->rows;
	repl->term_err.rows = repl->term_err.filter ? &repl->rows : NULL;
	cbx_figures_init(&repl->figures, repl->spec.out);
	repl->figures.spare = !repl->figures_asked;
	repl->cell = (struct cbx_cell){ .client = &repl->client,
					.out = &repl->term_out,
					.errs = &repl->term_err,
					.notes = &repl->term_out,
					.figures = &repl->figures,
					.input = -1,
					.patience = 2 };
	repl->cell.sigfd = cbx_cell_signals(&err);
	if (cbx_dirs_make_private(dirs->state, 0700, &err) == 0)
		history = cbx_xasprintf("%s/history", dirs->state);
	if (history)
		repl->seen = cbx_xasprintf("%s/seen", dirs->state);
	repl->asks = (struct cbx_lines_asks){ complete, incomplete, repl };
	repl->lines = cbx_lines_new(history, &repl->asks);
	status = loop(repl);
	cbx_lines_free(repl->lines);
	free(repl->seen);
	cbx_figures_release(&repl->figures);
	cbx_cell_release(&repl->cell);
	cbx_client_close(&repl->client);
	return status;
}

int main(int argc, char **argv)
{
	static struct repl repl;
	struct cbx_dirs dirs;
	struct cbx_err err;
	int r;

	r = parse_options(argc, argv, &repl);
	if (r)
		return r;
	if (cbx_dirs_init(&dirs, &err) < 0)
		return cbx_cli_fail(&err);
	r = run(&repl, &dirs);
	cbx_dirs_release(&dirs);
	cbx_cli_spec_release(&repl.spec);
	return r;
}
