/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: `codebox exec` is options and a request; what then happens is in attach.c. The exit statuses are
 * those of env(1) and docker(1): 125 where the command was not even tried, 126 and 127 where it could not be executed,
 * else its own.
 */
#include <ctype.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/signals.h"
#include "base/str.h"
#include "cli/attach.h"
#include "cli/exec.h"

enum { OPT_LIST = 512, OPT_ATTACH, OPT_KILL, OPT_SIGNAL, OPT_JSON, OPT_KEYS };

struct options {
	bool input, terminal, detach, list, json;
	const char *directory, *attach, *kill, *signal, *session;
	uint64_t id;
	int signo;
	struct cbx_cli_spec spec; /* its environment is the command's */
	struct cbx_attach to;
	char **argv;
};

int cbx_exec_status(const cJSON *command, const struct cbx_attach *a, const struct cbx_err *err)
{
	double code = cbx_json_number(command, "exit_code", 0);
	const char *message = cbx_json_str(command, "message");

	if (!command && strcmp(err->kind, "interrupted") == 0)
		return 128 + a->signal;
	if (!command) {
		(void)cbx_cli_fail(err);
		return strcmp(err->kind, "command_not_found") == 0	  ? CBX_EXIT_NOT_FOUND
		       : strcmp(err->kind, "command_not_executable") == 0 ? CBX_EXIT_NOT_EXECUTABLE
		       : strcmp(err->kind, "invalid_argument") == 0	  ? CBX_EXIT_USAGE
									  : CBX_EXIT_NOT_TRIED;
	}
	if (strcmp(cbx_json_str(command, "status"), "running") == 0) {
		cbx_cli_say("detached; codebox exec --attach %.0f %s attaches again",
			    cbx_json_number(command, "execution_id", 0), cbx_json_str(command, "session_id"));
		return CBX_EXIT_OK;
	}
	if (message[0] && strcmp(cbx_json_str(command, "status"), "killed") == 0)
		cbx_cli_say("%s", message);
	return (int)code & 255;
}

/* ---- list, kill ---- */

static void print_command(struct cbx_buf *out, const cJSON *c)
{
	const cJSON *exit = cbx_json_member(c, "exit_code"), *word;
	char code[16] = "-";

	if (cJSON_IsNumber(exit))
		snprintf(code, sizeof(code), "%d", exit->valueint);
	cbx_buf_addf(out, "%6.0f %-9s %5s %9.1fs %-8s", cbx_json_number(c, "execution_id", 0), cbx_json_str(c, "status"),
		     code, cbx_json_number(c, "duration_ms", 0) / 1000,
		     cJSON_IsTrue(cbx_json_member(c, "attached")) ? "attached" : "");
	cJSON_ArrayForEach(word, cbx_json_member(c, "argv")) {
		cbx_buf_addc(out, ' ');
		cbx_escape(out, cJSON_IsString(word) ? word->valuestring : "");
	}
	cbx_buf_addc(out, '\n');
}

static int list(struct cbx_client *client, const struct options *o, cJSON *params)
{
	_cleanup_json_ cJSON *result = NULL;
	_cleanup_buf_ struct cbx_buf out = { 0 };
	struct cbx_err err;
	const cJSON *c;

	if (cbx_client_call(client, "command.list", params, &result, &err) < 0)
		return cbx_exec_status(NULL, NULL, &err);
	if (o->json)
		return cbx_cli_print_json(result);
	cbx_buf_addf(&out, "%6s %-9s %5s %10s %-8s COMMAND\n", "ID", "STATUS", "EXIT", "TIME", "");
	cJSON_ArrayForEach(c, cbx_json_member(result, "commands"))
		print_command(&out, c);
	return cbx_cli_out(out.data, out.len);
}

static int end(struct cbx_client *client, const struct options *o, cJSON *params)
{
	struct cbx_err err;

	cbx_json_set_u64(params, "execution_id", o->id);
	cbx_json_set_u64(params, "signal", (uint64_t)o->signo);
	if (cbx_client_call(client, "command.kill", params, NULL, &err) < 0)
		return cbx_exec_status(NULL, NULL, &err);
	return CBX_EXIT_OK;
}

/* ---- attach, start ---- */

/* Whether it has a terminal is known by the daemon alone. */
static int attach(struct cbx_client *client, struct options *o, cJSON *params)
{
	_cleanup_json_ cJSON *all = NULL, *result = NULL;
	struct cbx_err err = { 0 };
	const cJSON *c;

	if (cbx_client_call(client, "command.list", cJSON_Duplicate(params, 1), &all, &err) < 0) {
		cJSON_Delete(params);
		return cbx_exec_status(NULL, NULL, &err);
	}
	cJSON_ArrayForEach(c, cbx_json_member(all, "commands"))
		if (cbx_json_number(c, "execution_id", 0) == (double)o->id)
			o->terminal = cJSON_IsTrue(cbx_json_member(c, "terminal"));
	cbx_json_set_u64(params, "execution_id", o->id);
	o->to.terminal = o->terminal && isatty(STDIN_FILENO);
	o->to.input = o->input || o->to.terminal;
	if (o->to.terminal)
		cbx_attach_size(params);
	(void)cbx_attach_run(&o->to, "command.attach", params, &result, &err);
	return cbx_exec_status(result, &o->to, &err);
}

void cbx_exec_terminal(cJSON *params)
{
	const char *term = getenv("TERM");
	cJSON *variables = cbx_json_member(params, "variables");

	cbx_json_set_bool(params, "terminal", true);
	cbx_attach_size(params);
	if (!variables)
		cbx_json_set(params, "variables", variables = cbx_json_new_obj());
	if (!cbx_json_member(variables, "TERM"))
		cbx_json_set_str(variables, "TERM", term && term[0] ? term : "dumb");
}

static int start(struct cbx_client *client, struct options *o, cJSON *params)
{
	_cleanup_json_ cJSON *result = NULL;
	cJSON *argv = cbx_json_new_arr();
	struct cbx_err err = { 0 };

	for (char **word = o->argv; *word; word++)
		cbx_json_push_str(argv, *word);
	if (argv->child)
		cbx_json_set(params, "argv", argv);
	else
		cJSON_Delete(argv); /* what the image is made to run */
	cbx_json_set_str(params, "directory", o->directory);
	if (o->spec.environment)
		cbx_json_set(params, "variables", cJSON_Duplicate(o->spec.environment, 1));
	if (o->input || o->terminal)
		cbx_json_set_bool(params, "input", true);
	if (o->terminal)
		cbx_exec_terminal(params);
	if (o->detach) {
		cbx_json_set_bool(params, "detached", true);
		if (cbx_client_call(client, "command.start", params, &result, &err) < 0)
			return cbx_exec_status(NULL, NULL, &err);
		return cbx_cli_tell("%.0f", cbx_json_number(result, "execution_id", 0));
	}
	o->to.terminal = o->terminal;
	o->to.input = o->input || o->terminal;
	(void)cbx_attach_run(&o->to, "command.start", params, &result, &err);
	return cbx_exec_status(result, &o->to, &err);
}

/* ---- options ---- */

static int parse_signal(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (isdigit((unsigned char)text[0]) && !*end)
		return n > 0 && n < NSIG ? (int)n : -1;
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	for (int i = 1; i < NSIG; i++)
		if (cbx_signal_name(i) && strcasecmp(cbx_signal_name(i), text) == 0)
			return i;
	return -1;
}

static int take_option(struct options *o, int c, char **argv)
{
	switch (c) {
	case 'i':
		o->input = true;
		return 0;
	case 't':
		o->terminal = true;
		return 0;
	case 'd':
		o->detach = true;
		return 0;
	case 'e':
		return cbx_cli_spec_option("exec", &o->spec, CBX_OPT_ENV, argv);
	case 'w':
		o->directory = optarg;
		return 0;
	case CBX_OPT_IMAGE:
	case CBX_OPT_SESSION:
		return cbx_cli_spec_option("exec", &o->spec, c, argv);
	case OPT_LIST:
		o->list = true;
		return 0;
	case OPT_ATTACH:
		o->attach = optarg;
		return 0;
	case OPT_KILL:
		o->kill = optarg;
		return 0;
	case OPT_SIGNAL:
		o->signal = optarg;
		return 0;
	case OPT_JSON:
		o->json = true;
		cbx_cli_json_errors();
		return 0;
	case OPT_KEYS:
		return cbx_attach_keys(&o->to, optarg)
			       ? 0
			       : cbx_cli_usage("exec",
					       "--detach-keys: \"%s\" is not a list of keys; write up to %d, such as "
					       "ctrl-p,ctrl-q, or none",
					       optarg, CBX_DETACH_KEYS_MAX);
	default:
		return cbx_cli_bad_option("exec", c, argv);
	}
}

static int check(struct options *o)
{
	const char *id = o->attach ? o->attach : o->kill;
	char *end = NULL;

	if (!o->session && !o->spec.image)
		return cbx_cli_usage("exec", "missing argument: SESSION; codebox session ls lists them");
	if (o->session && !cbx_name_valid(o->session))
		return cbx_cli_usage("exec", "\"%s\" is not the name of a session", o->session);
	if (o->list + !!o->attach + !!o->kill + !!o->argv[0] > 1)
		return cbx_cli_usage("exec", "give one of --list, --attach, --kill and a command");
	if (!o->spec.image && o->list + !!o->attach + !!o->kill + !!o->argv[0] == 0)
		return cbx_cli_usage("exec", "missing argument: the command to run");
	if (o->spec.image && (o->list || id || (o->detach && !o->session)))
		return cbx_cli_usage("exec", "--image: it goes with a command; -d needs --session ID, too");
	if (id) {
		o->id = strtoull(id, &end, 10);
		if (!isdigit((unsigned char)id[0]) || *end || o->id > (uint64_t)1 << 53)
			return cbx_cli_usage("exec", "%s: \"%s\" is not the number of a command; --list shows them",
					     o->attach ? "--attach" : "--kill", id);
	}
	o->signo = o->signal ? parse_signal(o->signal) : SIGKILL;
	if (o->signo < 0 || (o->signal && !o->kill))
		return cbx_cli_usage("exec",
				     o->kill ? "--signal: \"%s\" is not a signal; write its name or number"
					     : "--signal: \"%s\": it goes with --kill only",
				     o->signal);
	if (o->terminal && !o->detach && !isatty(STDIN_FILENO))
		return cbx_cli_usage("exec", "-t: standard input is not a terminal; omit it");
	return 0;
}

static int parse(int argc, char **argv, struct options *o)
{
	static const struct option options[] = { { "interactive", no_argument, NULL, 'i' },
						 { "tty", no_argument, NULL, 't' },
						 { "detach", no_argument, NULL, 'd' },
						 { "env", required_argument, NULL, 'e' },
						 { "workdir", required_argument, NULL, 'w' },
						 { "image", required_argument, NULL, CBX_OPT_IMAGE },
						 { "session", required_argument, NULL, CBX_OPT_SESSION },
						 { "list", no_argument, NULL, OPT_LIST },
						 { "attach", required_argument, NULL, OPT_ATTACH },
						 { "kill", required_argument, NULL, OPT_KILL },
						 { "signal", required_argument, NULL, OPT_SIGNAL },
						 { "json", no_argument, NULL, OPT_JSON },
						 { "detach-keys", required_argument, NULL, OPT_KEYS },
						 { 0 } };
	int c;

	opterr = 0;
	(void)cbx_attach_keys(&o->to, CBX_DETACH_KEYS);
	while ((c = getopt_long(argc, argv, "+:itde:w:", options, NULL)) >= 0) {
		int r = take_option(o, c, argv);

		if (r)
			return r;
	}
	if (o->spec.session && !o->spec.image)
		return cbx_cli_usage("exec", "--session: it names what --image makes; write the name of one that is there "
					     "before the command");
	o->session = o->spec.image ? o->spec.session : argv[optind];
	if (!o->spec.image && o->session && argv[++optind] && strcmp(argv[optind], "--") == 0)
		optind++;
	o->argv = argv + optind;
	return check(o);
}

static int run_exec(int argc, char **argv)
{
	struct options o = { 0 };
	struct cbx_client client;
	struct cbx_err err;
	cJSON *params;
	int r = parse(argc, argv, &o);

	if (r == 0 && cbx_cli_client(o.spec.image, &client, &err) <= 0) {
		if (strcmp(err.kind, "no_daemon") == 0)
			(void)cbx_cli_no_session(o.session);
		else
			(void)cbx_cli_fail(&err);
		r = CBX_EXIT_NOT_TRIED;
	} else if (r == 0) {
		o.to.client = &client;
		params = cbx_json_new_obj();
		cbx_json_set_str(params, "session_id", o.session);
		cbx_json_set_str(params, "image", o.spec.image);
		if (o.spec.image)
			cbx_json_set_bool(params, "create", true);
		r = o.list     ? list(&client, &o, params)
		    : o.kill   ? end(&client, &o, params)
		    : o.attach ? attach(&client, &o, params)
			       : start(&client, &o, params);
		cbx_client_close(&client);
	}
	cbx_cli_spec_release(&o.spec);
	return r;
}

static const char help[] =
	"Usage: codebox exec [-i] [-t] [-d] [-e NAME[=VALUE]...] [-w DIR] SESSION [--] COMMAND [ARGUMENT...]\n"
	"       codebox exec --image NAME [--session ID] [-i] [-t] [-d] ... [[--] COMMAND [ARGUMENT...]]\n"
	"       codebox exec --list [--json] SESSION\n"
	"       codebox exec --attach ID SESSION\n"
	"       codebox exec --kill ID [--signal SIGNAL] SESSION\n"
	"\n"
	"Runs a program of a session, beside its interpreter: in the same sandbox, with the same files, user,\n"
	"limits and environment. Without -i its standard input is empty. With --image the session is made, of any\n"
	"image, also one that can run no cells; it is gone after the command, or stays as ID. Without COMMAND, what\n"
	"the image is made to run is run: its entry point and command.\n"
	"\n"
	"Options:\n"
	"  -i, --interactive        pass on standard input\n"
	"  -t, --tty                give it a terminal: keys, Ctrl-C and Ctrl-Z included, and the window's size go\n"
	"                           to it, and all that it writes comes to this terminal as it is\n"
	"  -d, --detach             do not stay: print its ID; its output is kept, the beginning and the end of it\n"
	"  -e, --env NAME[=VALUE]   set an environment variable; NAME alone passes on its value here\n"
	"  -w, --workdir DIR        run it in this directory (default: the image's, or else /workspace)\n"
	"  --image NAME             make a session of this image for the command\n"
	"  --session ID             with --image: give the session this name, and let it stay\n"
	"  --list                   the commands of the session: those that run, and the last that have ended\n"
	"  --json                   with --list: one line of JSON\n"
	"  --attach ID              see what it has written since nobody did, and stay until it ends\n"
	"  --kill ID                end it and all that it has started\n"
	"  --signal SIGNAL          with --kill: another signal than KILL, such as TERM or 15\n"
	"  --detach-keys KEYS       keys that leave a terminal and let its command run (default: ctrl-p,ctrl-q;\n"
	"                           none: there are none)\n"
	"\n"
	"With -t the command can do to this terminal what any program can: move the cursor, set the title, answer\n"
	"for the keyboard. Use it with code that may do that. Without -t only text and colours reach a terminal.\n"
	"Without -t, Ctrl-C and other signals are passed on to the command; a second Ctrl-C leaves. A command whose\n"
	"codebox exec ends without a word is hung up (SIGHUP), as when a terminal is closed.\n"
	"\n"
	"Exit status: that of the command, 128 and its number if a signal ended it; 127 when there is no such\n"
	"program, 126 when it cannot be executed, 125 when codebox failed before that, 2 for a wrong command line.\n"
	"\n"
	"Examples:\n"
	"  codebox exec work -- ls -l\n"
	"  codebox exec -it work bash\n"
	"  codebox exec --image python -- python3 --version\n"
	"  tar c data | codebox exec -i work -- tar x\n"
	"  id=$(codebox exec -d work -- python -m http.server) && codebox exec --kill \"$id\" work\n";

const struct cbx_command cbx_cmd_exec = {
	.name = "exec",
	.summary = "run a program in a session, with or without a terminal",
	.help = help,
	.run = run_exec,
	.program = true,
};
