/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a table of commands, looked up by name. Everything heavy is elsewhere: the line editor in a
 * program of its own (codebox-repl), building images in another (codebox-image), so that `codebox mcp`, of which there
 * is one per client, stays small.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/cli.h"

static const struct cbx_command *const commands[] = {
	&cbx_cmd_run,	 &cbx_cmd_repl,	 &cbx_cmd_exec,	    &cbx_cmd_shell,  &cbx_cmd_session, &cbx_cmd_logs,
	&cbx_cmd_top,	 &cbx_cmd_cp,	 &cbx_cmd_artifact, &cbx_cmd_image,  &cbx_cmd_kernel,  &cbx_cmd_pip,
	&cbx_cmd_npm,	 &cbx_cmd_conda, &cbx_cmd_sql,	    &cbx_cmd_policy, &cbx_cmd_token,   &cbx_cmd_audit,
	&cbx_cmd_doctor, &cbx_cmd_mcp,	 &cbx_cmd_register, &cbx_cmd_stop,
};

static const char intro[] =
	"codebox runs Python, JavaScript and shell in a sandbox of Linux namespaces: no root, no containers, no virtual machine.\n"
	"\n"
	"Usage: codebox COMMAND [OPTION...] [ARGUMENT...]\n"
	"\n"
	"Commands:\n";

static const char outro[] =
	"\n"
	"Options:\n"
	"  --help      this text; codebox COMMAND --help explains a command\n"
	"  --version   the version\n"
	"\n"
	"Examples:\n"
	"  codebox run -c 'sum(range(10))'             one expression, its value is printed\n"
	"  codebox run --session work analysis.py      variables and files stay in the session \"work\"\n"
	"  codebox repl --session work                 use them at a prompt\n"
	"  codebox cp work:result.csv .                fetch a file from the session\n"
	"  codebox pip install --session work polars   packages for a session; code still has no network\n"
	"  codebox sql shop 'SELECT count(*) FROM orders'   ask a database that the policy names\n"
	"  codebox run --out plots plot.py             figures are saved as plots/figure-1.png ...\n"
	"  codebox mcp                                 serve a model: the command that an MCP client starts\n"
	"  codebox register claude-desktop             make Claude Desktop use it\n"
	"  codebox doctor                              what this machine can and cannot do\n"
	"\n"
	"The first command that needs the daemon, codeboxd, starts it; it ends when it has been idle. See "
	"codebox(1).\n";

static int help(void)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	cbx_buf_adds(&text, intro);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		cbx_buf_addf(&text, "  %-10s  %s\n", commands[i]->name, commands[i]->summary);
	cbx_buf_adds(&text, outro);
	return cbx_cli_out(text.data, text.len);
}

static const struct cbx_command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

/* Letters to change, add or remove to get from one word to the other; words longer than the table count as far. */
static size_t distance(const char *a, const char *b)
{
	size_t row[32], n = strlen(b);

	if (n >= ARRAY_SIZE(row) || strlen(a) >= ARRAY_SIZE(row))
		return ARRAY_SIZE(row);
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

static int unknown(const char *name)
{
	const struct cbx_command *near = NULL;
	size_t best = 3;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		size_t d = distance(name, commands[i]->name);

		if (d < best) {
			best = d;
			near = commands[i];
		}
	}
	if (near)
		return cbx_cli_usage("", "unknown command \"%s\": did you mean \"%s\"?", name, near->name);
	return cbx_cli_usage("", "unknown command \"%s\"", name);
}

/* `codebox COMMAND --help`, and `codebox COMMAND SUBCOMMAND --help`. */
static bool wants_help(const struct cbx_command *command, int argc, char **argv)
{
	for (int i = 1; i < argc && (i == 1 || !command->program) && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || (i == 1 && strcmp(argv[i], "-h") == 0))
			return true;
	return false;
}

/* A closed standard descriptor would be given to the next socket or file, and messages written into it. */
static void fill_standard_fds(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' },
						 { "version", no_argument, NULL, 'V' },
						 { 0 } };
	const struct cbx_command *command;
	int c;

	fill_standard_fds();
	opterr = 0;
	while ((c = getopt_long(argc, argv, "+:hV", options, NULL)) >= 0) {
		switch (c) {
		case 'h':
			return help();
		case 'V':
			return cbx_cli_out("codebox " PACKAGE_VERSION "\n", strlen("codebox " PACKAGE_VERSION "\n"));
		default:
			return cbx_cli_bad_option("", c, argv);
		}
	}
	if (optind >= argc)
		return cbx_cli_usage("", "missing command; codebox --help lists them");
	argc -= optind;
	argv += optind;
	if (strcmp(argv[0], "help") == 0) {
		if (argc == 1 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
			return help();
		argc--;
		argv++;
		command = find(argv[0]);
		if (command && command->help)
			return cbx_cli_out(command->help, strlen(command->help));
		return command ? command->run(2, (char *[]){ argv[0], (char[]){ "--help" }, NULL }) : unknown(argv[0]);
	}
	command = find(argv[0]);
	if (!command)
		return unknown(argv[0]);
	if (command->help && wants_help(command, argc, argv))
		return cbx_cli_out(command->help, strlen(command->help));
	optind = 0; /* glibc: start over with a new argv */
	return command->run(argc, argv);
}
