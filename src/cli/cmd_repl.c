/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: the prompt is a program of its own, codebox-repl (repl.c), because the line editor and what it
 * needs would double the size of every other command. */
#include "cli/cli.h"

static int run_repl(int argc, char **argv)
{
	return cbx_cli_exec("codebox-repl", argv);
}

static const char help[] =
	"Usage: codebox repl [--session ID] [--image NAME] [--memory SIZE] [--disk SIZE] [--timeout TIME]\n"
	"                    [--out DIR] [--policy NAME] [--env NAME=VALUE...] [--set KEY=VALUE...]\n"
	"                    [--mount DIR[:TARGET][:rw]...]\n"
	"\n"
	"A Python prompt in a sandbox, with line editing, history and completion by TAB. Figures are saved as\n"
	"files and named. Ctrl-C interrupts what runs; at the prompt it empties the line. Ctrl-D, exit or quit\n"
	"ends it.\n"
	"\n"
	"Options:\n"
	"  --session ID     use this session, which is made when it does not exist and stays afterwards;\n"
	"                   without it the sandbox is gone when the prompt ends\n"
	"  --image NAME     the image to use (default: python)\n"
	"  --memory SIZE    memory of a new sandbox: 512M, 4G\n"
	"  --disk SIZE      space for its files\n"
	"  --timeout TIME   time for each input (default: 60 seconds)\n"
	"  --out DIR        where figures go (default: the current directory)\n"
	"  --policy NAME    have no more than this shipped policy allows: strict, default, net, dev\n"
	"  --env NAME=VALUE set an environment variable of a new sandbox\n"
	"  --mount DIR[:TARGET][:rw]  show a directory of this computer, where the policy allows it\n"
	"  --set KEY=VALUE  another setting of a new sandbox, such as processes=32\n"
	"\n"
	"Examples:\n"
	"  codebox repl\n"
	"  codebox repl --session work --out plots\n"
	"  printf '1 + 1\\n' | codebox repl           works without a terminal, too\n";

const struct cbx_command cbx_cmd_repl = {
	.name = "repl",
	.summary = "an interactive prompt in a sandbox",
	.help = help,
	.run = run_repl,
};
