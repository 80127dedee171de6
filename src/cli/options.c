/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a command's options are a table of places, which getopt_long() fills by way of the tables that
 * it wants. What is wrong with a command line is said in the same words for all commands.
 */
#include <getopt.h>
#include <string.h>

#include "cli/cli.h"

#define OPTIONS_MAX 16

int cbx_cli_options(const char *command, int argc, char **argv, const struct cbx_cli_option *options)
{
	struct option longs[OPTIONS_MAX + 1] = { 0 };
	char shorts[2 * OPTIONS_MAX + 2] = ":", *end = shorts + 1;
	int c, r = 0;

	for (int i = 0; i < OPTIONS_MAX && options[i].name; i++) {
		int value = options[i].flag ? no_argument : required_argument;

		longs[i] = (struct option){ options[i].name, value, NULL, 256 + i };
		if (!options[i].letter)
			continue;
		*end++ = options[i].letter;
		if (value == required_argument)
			*end++ = ':';
	}
	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, shorts, longs, NULL)) >= 0) {
		const struct cbx_cli_option *o = options + (c >= 256 ? c - 256 : 0);

		if (c == '?' || c == ':')
			return cbx_cli_bad_option(command, c, argv);
		while (c < 256 && o->letter != c)
			o++;
		if (strcmp(o->name, "json") == 0)
			cbx_cli_json_errors();
		if (o->flag)
			*o->flag = true;
		else if (o->value)
			*o->value = optarg;
		else
			r = o->take(o->arg, optarg);
	}
	return r;
}

int cbx_cli_verb(const char *command, const char *const *verbs, int argc, char **argv)
{
	_cleanup_buf_ struct cbx_buf all = { 0 };

	for (int i = 0; verbs[i]; i++) {
		if (argc > 1 && strcmp(argv[1], verbs[i]) == 0)
			return i;
		cbx_buf_addf(&all, "%s%s", i == 0 ? "" : verbs[i + 1] ? ", " : " or ", verbs[i]);
	}
	return argc > 1 ? -cbx_cli_usage(command, "unknown subcommand \"%s\": use %s", argv[1], cbx_buf_str(&all))
			: -cbx_cli_usage(command, "missing subcommand: use %s", cbx_buf_str(&all));
}
