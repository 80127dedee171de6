/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: each verb is one or a few requests. A daemon that does not run has no sessions, so describing
 * and ending sessions never starts one; listing does, unless asked not to (as by shell completion).
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/export.h"

struct options {
	bool json, all, no_start;
	char **ids;
	int nids;
	int argc; /* export: all of them */
	char **argv;
};

/* "3h" and the like: one unit says enough in a list. */
static void format_age(double seconds, char out[16])
{
	if (seconds < 0)
		snprintf(out, 16, "-");
	else if (seconds < 120)
		snprintf(out, 16, "%.0fs", seconds);
	else if (seconds < 7200)
		snprintf(out, 16, "%.0fm", seconds / 60);
	else if (seconds < 172800)
		snprintf(out, 16, "%.0fh", seconds / 3600);
	else
		snprintf(out, 16, "%.0fd", seconds / 86400);
}

static int print_table(const cJSON *sessions)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	const cJSON *s;

	cbx_buf_addf(&out, "%-24s %-10s %-16s %6s %6s %s\n", "SESSION", "STATE", "IMAGE", "AGE", "IDLE", "RUNS");
	cJSON_ArrayForEach(s, sessions) {
		_cleanup_buf_ struct cbx_buf id = { 0 }, state = { 0 }, image = { 0 };
		char age[16], idle[16];

		cbx_escape(&id, cbx_json_str(s, "session_id"));
		cbx_escape(&state, cbx_json_str(s, "state"));
		cbx_escape(&image, cbx_json_str(s, "image"));
		format_age(cbx_json_number(s, "age_s", -1), age);
		format_age(cbx_json_number(s, "idle_s", -1), idle);
		cbx_buf_addf(&out, "%-24s %-10s %-16s %6s %6s %.0f\n", cbx_buf_str(&id), cbx_buf_str(&state),
			     cbx_buf_str(&image), age, idle, cbx_json_number(s, "executions", 0));
	}
	return cbx_cli_out(out.data, out.len);
}

static int list(struct cbx_client *client, const struct options *o)
{
	_cleanup_json_ cJSON *result = NULL;
	const cJSON *sessions;
	struct cbx_err err;

	if (o->nids)
		return cbx_cli_usage("session", "ls takes no names; session info shows one session");
	if (!client) {
		if (o->json)
			return cbx_cli_out("{\"sessions\":[]}\n", strlen("{\"sessions\":[]}\n"));
		cbx_cli_say("there are no sessions (codeboxd is not running)");
		return CBX_EXIT_OK;
	}
	if (cbx_client_call(client, "session.list", NULL, &result, &err) < 0)
		return cbx_cli_fail(&err);
	if (o->json)
		return cbx_cli_print_json(result);
	sessions = cbx_json_member(result, "sessions");
	if (!cJSON_GetArraySize(sessions)) {
		cbx_cli_say("there are no sessions");
		return CBX_EXIT_OK;
	}
	return print_table(sessions);
}

static cJSON *id_params(const char *id)
{
	cJSON *params = cbx_json_new_obj();

	cbx_json_set_str(params, "session_id", id);
	return params;
}

/* Members as lines; objects within are indented by their name. */
static void describe(struct cbx_buf *out, const cJSON *obj, const char *prefix)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, obj) {
		_cleanup_free_ char *name = cbx_xasprintf("%s%s", prefix, v->string);
		_cleanup_buf_ struct cbx_buf value = { 0 };

		if (cJSON_IsObject(v)) {
			_cleanup_free_ char *deeper = cbx_xasprintf("%s.", name);

			describe(out, v, deeper);
			continue;
		}
		if (!cJSON_IsString(v))
			cbx_json_print(&value, v);
		cbx_escape(out, name);
		cbx_buf_addf(out, "%*s ", strlen(name) < 24 ? (int)(24 - strlen(name)) : 0, "");
		cbx_escape(out, cJSON_IsString(v) ? v->valuestring : cbx_buf_str(&value));
		cbx_buf_addc(out, '\n');
	}
}

static int info(struct cbx_client *client, const struct options *o)
{
	_cleanup_json_ cJSON *result = NULL;
	_cleanup_buf_ struct cbx_buf out = { 0 };
	struct cbx_err err;

	if (o->nids != 1)
		return cbx_cli_usage("session", "info: give the name of one session");
	if (!client)
		return cbx_cli_no_session(o->ids[0]);
	if (cbx_client_call(client, "session.info", id_params(o->ids[0]), &result, &err) < 0)
		return cbx_cli_fail(&err);
	if (o->json)
		return cbx_cli_print_json(result);
	describe(&out, result, "");
	return cbx_cli_out(cbx_buf_str(&out), out.len);
}

static int remove_one(struct cbx_client *client, const char *id)
{
	struct cbx_err err;

	if (cbx_client_call(client, "session.close", id_params(id), NULL, &err) < 0)
		return cbx_cli_fail(&err);
	return CBX_EXIT_OK;
}

static int remove_all(struct cbx_client *client)
{
	_cleanup_json_ cJSON *result = NULL;
	struct cbx_err err;
	const cJSON *s;
	int status = CBX_EXIT_OK;

	if (!client)
		return CBX_EXIT_OK;
	if (cbx_client_call(client, "session.list", NULL, &result, &err) < 0)
		return cbx_cli_fail(&err);
	cJSON_ArrayForEach(s, cbx_json_member(result, "sessions")) {
		int r = remove_one(client, cbx_json_str(s, "session_id"));

		status = r ? r : status;
	}
	return status;
}

/* Of the first, or of all that are named. */
static int restart(struct cbx_client *client, const struct options *o)
{
	int status = CBX_EXIT_OK;

	if (o->nids == 0)
		return cbx_cli_usage("session", "restart: give names of sessions");
	for (int i = 0; i < o->nids; i++) {
		struct cbx_err err;
		int r = client ? cbx_client_call(client, "session.restart", id_params(o->ids[i]), NULL, &err) : 0;

		if (!client || r < 0)
			status = client ? cbx_cli_fail(&err) : cbx_cli_no_session(o->ids[i]);
	}
	return status;
}

static int rm(struct cbx_client *client, const struct options *o)
{
	int status = CBX_EXIT_OK;

	if (o->all == (o->nids > 0))
		return cbx_cli_usage("session", "rm: give names of sessions, or --all");
	if (o->all)
		return remove_all(client);
	for (int i = 0; i < o->nids; i++) {
		int r = client ? remove_one(client, o->ids[i]) : cbx_cli_no_session(o->ids[i]);

		status = r ? r : status;
	}
	return status;
}

static int export(struct cbx_client *client, const struct options *o)
{
	return cbx_export(client, o->argc, o->argv);
}

static int run_session(int argc, char **argv)
{
	static const char *const verbs[] = { "ls", "info", "export", "restart", "rm", NULL };
	static int (*const fns[])(struct cbx_client *, const struct options *) = { list, info, export, restart, rm };
	struct options o = { .argc = argc - 1, .argv = argv + 1 };
	const struct cbx_cli_option options[] = {
		{ "json", .flag = &o.json }, { "all", .flag = &o.all }, { "no-start", .flag = &o.no_start }, { 0 }
	};
	struct cbx_client client;
	struct cbx_err err;
	int verb = cbx_cli_verb("session", verbs, argc, argv), r;

	if (verb < 0)
		return -verb;
	if (fns[verb] != export) {
		r = cbx_cli_options("session", argc - 1, argv + 1, options);
		if (r)
			return r;
		o.ids = argv + 1 + optind;
		o.nids = argc - 1 - optind;
	}
	r = cbx_cli_client(fns[verb] == list && !o.no_start, &client, &err);
	if (r < 0)
		return cbx_cli_fail(&err);
	if (r == 0)
		return fns[verb](NULL, &o);
	r = fns[verb](&client, &o);
	cbx_client_close(&client);
	return r;
}

static const char help[] =
	"Usage: codebox session ls [--json] [--no-start]\n"
	"       codebox session info [--json] ID\n"
	"       codebox session export [--format ipynb|script|transcript] [-o FILE] ID\n"
	"       codebox session restart ID...\n"
	"       codebox session rm ID...\n"
	"       codebox session rm --all\n"
	"\n"
	"A session is a sandbox that stays: its variables, files and processes. It is made by codebox run\n"
	"--session, codebox repl --session, or by an MCP client, and ends when it is removed, when it has been\n"
	"idle for long (an hour by default), or with the daemon.\n"
	"\n"
	"export writes what a session has run: as a notebook with its outputs (ipynb), as a script that prints the\n"
	"same in a fresh session, or as a transcript of what a person saw. Cells that run are not in it.\n"
	"\n"
	"restart gives a session a new interpreter: its variables go, its files, mounts and limits stay. Cells that "
	"wait\n"
	"are cancelled, the one that runs is killed, also where it hangs.\n"
	"\n"
	"Options:\n"
	"  --format F   of an export: ipynb, script or transcript (default: by FILE's ending, .ipynb or .txt, else\n"
	"               ipynb)\n"
	"  -o, --output FILE  write the export to FILE instead of standard output\n"
	"  --json       one line of JSON\n"
	"  --all        every session\n"
	"  --no-start   do not start the daemon to ask it; without one there are no sessions\n"
	"\n"
	"Examples:\n"
	"  codebox session ls\n"
	"  codebox session info work\n"
	"  codebox session export work -o work.ipynb\n"
	"  codebox session export --format script -o work.py work && codebox run work.py\n"
	"  codebox session rm work scratch\n";

const struct cbx_command cbx_cmd_session = {
	.name = "session",
	.summary = "list, describe, export and end sessions",
	.help = help,
	.run = run_session,
};
