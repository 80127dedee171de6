/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: a command like those of `codebox exec`: the best shell that the image has. */
#include <getopt.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/exec.h"
#include "cli/mountask.h"

enum { OPT_KEYS = 512 };

/* What is executed is a shell of the image; the first one here is there in every image that has any. */
static const char choose[] =
	"for s in /bin/bash /usr/bin/bash /usr/local/bin/bash; do [ -x $s ] && exec $s \"$@\"; done; "
	"exec /bin/sh \"$@\"";

static int parse(int argc, char **argv, struct cbx_cli_spec *spec, struct cbx_attach *a)
{
	static const struct option options[] = { CBX_CLI_SESSION_OPTIONS,
						 { "detach-keys", required_argument, NULL, OPT_KEYS },
						 { 0 } };
	int c, r;

	opterr = 0;
	(void)cbx_attach_keys(a, CBX_DETACH_KEYS);
	while ((c = getopt_long(argc, argv, ":v:", options, NULL)) >= 0) {
		if (c == OPT_KEYS && !cbx_attach_keys(a, optarg))
			return cbx_cli_usage("shell", "--detach-keys: \"%s\" is not a list of keys", optarg);
		r = c == OPT_KEYS ? 0 : cbx_cli_spec_option("shell", spec, c, argv);
		if (r)
			return r;
	}
	if (argc - optind > 1 || (argc > optind && spec->session))
		return cbx_cli_usage("shell", "give the name of one session; codebox exec runs a program in it");
	if (argc > optind)
		spec->session = argv[optind];
	return cbx_cli_spec_check("shell", spec);
}

static cJSON *make_params(const struct cbx_cli_spec *spec, bool terminal)
{
	cJSON *params = cbx_json_new_obj(), *argv = cbx_json_new_arr();

	cbx_cli_spec_json(spec, params);
	cbx_json_set_bool(params, "create", true);
	cbx_json_push_str(argv, "/bin/sh");
	cbx_json_push_str(argv, "-c");
	cbx_json_push_str(argv, choose);
	cbx_json_push_str(argv, "sh");
	cbx_json_push_str(argv, terminal ? "-i" : "-s");
	cbx_json_set(params, "argv", argv);
	cbx_json_set_bool(params, "input", true);
	if (terminal)
		cbx_exec_terminal(params);
	return params;
}

static int run_shell(int argc, char **argv)
{
	struct cbx_attach a = { .terminal = isatty(STDIN_FILENO), .input = true };
	_cleanup_json_ cJSON *result = NULL;
	struct cbx_cli_spec spec = { 0 };
	struct cbx_client client;
	struct cbx_err err = { 0 };
	int r = parse(argc, argv, &spec, &a);

	if (r == 0 && cbx_cli_client(true, &client, &err) <= 0) {
		r = cbx_exec_status(NULL, &a, &err);
	} else if (r == 0) {
		a.client = &client;
		do
			r = cbx_attach_run(&a, "command.start", make_params(&spec, a.terminal), &result, &err);
		while (r < 0 && cbx_mount_ask(spec.mounts, -1, &err));
		r = cbx_exec_status(result, &a, &err);
		cbx_client_close(&client);
	}
	cbx_cli_spec_release(&spec);
	return r;
}

static const char help[] =
	"Usage: codebox shell [OPTION...] [SESSION]\n"
	"\n"
	"A shell in a sandbox: bash, or what the image has as /bin/sh. SESSION is made when it does not exist, and\n"
	"stays afterwards; without it the sandbox is made for this shell and is gone after it. If standard input is\n"
	"not a terminal, it is a script.\n"
	"\n"
	"Options:\n"
	"  --session ID     the same as SESSION\n"
	"  --image NAME     the image to use (default: python)\n"
	"  --memory SIZE    memory of a new sandbox: 512M, 4G\n"
	"  --disk SIZE      space for its files\n"
	"  --timeout TIME   time limit of the cells of a new session\n"
	"  --policy NAME    have no more than this shipped policy allows: strict, default, net, dev\n"
	"  --env NAME=VALUE set an environment variable of a new sandbox\n"
	"  -v, --mount DIR[:TARGET][:rw]  show a directory of this computer, as codebox run does\n"
	"  --set KEY=VALUE  another setting of a new sandbox, such as processes=32\n"
	"  --detach-keys KEYS  keys that leave the shell and let it run (default: ctrl-p,ctrl-q; none: there are\n"
	"                   none); codebox exec --attach goes back to it\n"
	"\n"
	"The terminal, signals and exit status are those of codebox exec -it.\n"
	"\n"
	"Examples:\n"
	"  codebox shell\n"
	"  codebox shell work\n"
	"  echo 'ls | wc -l' | codebox shell work\n";

const struct cbx_command cbx_cmd_shell = {
	.name = "shell",
	.summary = "a shell in a sandbox",
	.help = help,
	.run = run_shell,
};
