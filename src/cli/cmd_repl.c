/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: the prompt is a program of its own, codebox-repl (repl.c), because the line editor and what it
 * needs would double the size of every other command. */
#include "cli/cli.h"

static int run_repl(int argc, char **argv)
{
	return cbx_cli_exec("codebox-repl", argv);
}

static const char help[] =
	"Usage: codebox repl [-l NAME] [--session ID] [--image NAME] [--memory SIZE] [--disk SIZE] [--timeout TIME]\n"
	"                    [--out DIR] [--policy NAME] [--env NAME=VALUE...] [--set KEY=VALUE...]\n"
	"                    [-v|--mount DIR[:TARGET][:rw]...] [--workspace DIR]\n"
	"\n"
	"A prompt of Python, or another language, in a sandbox, with line editing, history and completion by TAB.\n"
	"Figures are shown where the terminal can (kitty, iTerm2, sixel); elsewhere, or with --out, they are saved as\n"
	"files and named. Ctrl-C interrupts what runs; at the prompt it empties the line. Ctrl-D, exit or quit ends it.\n"
	"\n"
	"Options:\n"
	"  -l, --language NAME  python, bash, javascript or typescript (default: the image's own)\n"
	"  --session ID     use this session, which is made when it does not exist and stays afterwards, as does a\n"
	"                   cell that runs when the prompt is killed: the next prompt shows what there was meanwhile;\n"
	"                   without it the sandbox is gone when the prompt ends\n"
	"  --image NAME     the image to use (default: python)\n"
	"  --memory SIZE    memory of a new sandbox: 512M, 4G\n"
	"  --disk SIZE      space for its files\n"
	"  --timeout TIME   time for each input (default: as long as the policy allows)\n"
	"  --out DIR        where figures are saved (default: the current directory)\n"
	"  --policy NAME    have no more than this shipped policy allows: strict, default, net, dev\n"
	"  --env NAME=VALUE set an environment variable of a new sandbox\n"
	"  -v, --mount DIR[:TARGET][:rw]  show a directory of this computer, as codebox run does\n"
	"  --workspace DIR  the workspace is this directory of yours, as in codebox run\n"
	"  --set KEY=VALUE  another setting of a new sandbox, such as processes=32\n"
	"\n"
	"Examples:\n"
	"  codebox repl\n"
	"  codebox repl -l bash\n"
	"  codebox repl --session work --out plots\n"
	"  printf '1 + 1\\n' | codebox repl           works without a terminal, too\n";

const struct cbx_command cbx_cmd_repl = {
	.name = "repl",
	.summary = "an interactive prompt in a sandbox",
	.help = help,
	.run = run_repl,
};
