/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: each client is a file and the name of a section in it. The entry names this very program by its
 * path, since clients often start servers with a PATH that is not the shell's. What cannot be edited safely (a file
 * with comments, say) is left alone, and the lines to add by hand are printed.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/confile.h"
#include "cli/jsonedit.h"
#include "cli/registry.h"

struct client {
	const char *name, *title;
	const char *file; /* beneath the configuration directory or home */
	bool xdg;	  /* beneath $XDG_CONFIG_HOME, else ~/.config; false: beneath ~ */
	const char *section;
	bool typed;
	bool own_command; /* the client can register by itself while it has no file */
	const char *then;
};

static const struct client clients[] = {
	{ "claude-desktop", "Claude Desktop", "Claude/claude_desktop_config.json", true, "mcpServers", false, false,
	  "Restart Claude Desktop." },
	{ "claude-code", "Claude Code", ".claude.json", false, "mcpServers", true, true,
	  "Sessions of Claude Code that start from now on have it." },
	{ "vscode", "Visual Studio Code", "Code/User/mcp.json", true, "servers", true, false,
	  "Start it from the list of MCP servers of Visual Studio Code." },
	{ "cursor", "Cursor", ".cursor/mcp.json", false, "mcpServers", false, false,
	  "Switch it on in Cursor's list of MCP servers." },
};

struct options {
	const struct client *client;
	const char *name;
	bool dry_run, remove, print, force;
};

static char *own_path(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return cbx_xstrdup("codebox");
	path[n] = '\0';
	return cbx_xstrdup(path);
}

static char *config_file(const struct client *c)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (c->xdg && xdg && xdg[0] == '/')
		return cbx_xasprintf("%s/%s", xdg, c->file);
	return cbx_xasprintf("%s%s/%s", home && home[0] == '/' ? home : "~", c->xdg ? "/.config" : "", c->file);
}

/* A member that stands twice counts once for the clients, and the servers in the other one are gone. */
#define ONLY_ONCE                                                                                                      \
	"where \"%s\" is in it already, put only the middle line, inside the braces of that, so that "                 \
	"it does not stand there twice"

/* The lines for the outermost braces of a configuration. */
static void add_lines(struct cbx_buf *out, const struct cbx_registry *r)
{
	_cleanup_json_ cJSON *entry = cbx_registry_entry(r), *section = cJSON_CreateString(r->section),
			     *name = cJSON_CreateString(r->name);

	cbx_buf_adds(out, "  ");
	cbx_json_print(out, section);
	cbx_buf_adds(out, ": {\n    ");
	cbx_json_print(out, name);
	cbx_buf_adds(out, ": ");
	cbx_json_print(out, entry);
	cbx_buf_adds(out, "\n  }\n");
}

static int print_lines(const struct options *o, const struct cbx_registry *r, const char *file)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_buf_adds(&out, "Put these three lines inside the outermost braces of\n");
	cbx_escape(&out, file);
	cbx_buf_addf(&out, "\n(make the file with { and } around them if there is none);\n" ONLY_ONCE ".\n%s\n\n",
		     r->section, o->client->then);
	add_lines(&out, r);
	return cbx_cli_out(out.data, out.len);
}

/* The file cannot be edited: say why, and what a person can do. */
static int by_hand(const struct options *o, const struct cbx_registry *r, const struct cbx_confile *f,
		   const struct cbx_err *why)
{
	_cleanup_buf_ struct cbx_buf lines = { 0 };

	if (strcmp(why->kind, "invalid_json") == 0)
		cbx_cli_say(
			"%s was left as it is: %s. Comments and commas before a closing brace count as mistakes here",
			f->path, why->msg);
	else
		cbx_cli_say("%s was left as it is: %s", f->path, why->msg);
	if (!o->remove && strcmp(why->kind, "other_server") != 0) {
		cbx_cli_say("to do it by hand, put these three lines inside its outermost braces; " ONLY_ONCE ":",
			    r->section);
		add_lines(&lines, r);
		(void)cbx_write_all(STDERR_FILENO, lines.data, lines.len);
	}
	return CBX_EXIT_FAILURE;
}

/* A client that was never started has no directory: nothing is put where nobody may ever look. */
static int check_installed(const struct options *o, const struct cbx_registry *r, const struct cbx_confile *f)
{
	_cleanup_free_ char *dir = cbx_xstrdup(f->path);
	struct cbx_err err = { 0 };
	struct stat st;

	if (f->exists || o->remove || o->force)
		return 0;
	if (o->client->own_command) {
		cbx_cli_say("%s is not there: %s has not been used yet. Let it do it by itself, or say --force:",
			    f->path, o->client->title);
		cbx_cli_say("claude mcp add --scope user %s -- %s mcp", r->name, r->command);
		return CBX_EXIT_FAILURE;
	}
	*strrchr(dir, '/') = '\0';
	if (stat(dir, &st) == 0)
		return 0;
	cbx_fail(&err, errno, "%s", dir);
	cbx_cli_say("%s; it seems that %s has not been used yet. Start it once, or say --force", err.msg,
		    o->client->title);
	return CBX_EXIT_FAILURE;
}

static int write_file(const struct options *o, struct cbx_confile *f, const struct cbx_buf *text)
{
	_cleanup_free_ char *dir = cbx_xstrdup(f->path), *backup = cbx_confile_backup_path(f);
	bool existed = f->exists;
	struct cbx_err err;

	*strrchr(dir, '/') = '\0';
	if (!existed && access(dir, F_OK) < 0 && cbx_dirs_make_private(dir, 0700, &err) < 0)
		return cbx_cli_fail(&err);
	if (cbx_confile_replace(f, text->data, text->len, &err) < 0)
		return cbx_cli_fail(&err);
	cbx_cli_tell("\"%s\" %s %s.", o->name, o->remove ? "was removed from" : "is now in", f->path);
	if (existed)
		cbx_cli_tell("As it was before: %s", backup);
	return cbx_cli_tell("%s", o->client->then);
}

static int edit(const struct options *o, const struct cbx_registry *r, const char *path)
{
	_cleanup_confile_ struct cbx_confile f = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_err err;
	int n;

	if (path[0] != '/') {
		cbx_cli_say("HOME is no absolute path, so the configuration of %s cannot be found", o->client->title);
		return CBX_EXIT_FAILURE;
	}
	if (cbx_confile_read(&f, path, &err) < 0)
		return cbx_cli_fail(&err);
	n = check_installed(o, r, &f);
	if (n)
		return n;
	n = (o->remove ? cbx_registry_remove : cbx_registry_add)(r, cbx_buf_str(&f.text), f.text.len, &text, &err);
	if (n < 0)
		return by_hand(o, r, &f, &err);
	if (o->dry_run) {
		cbx_cli_say("%s would be%s:", f.path, n ? "" : " as it is");
		return n ? cbx_cli_out(text.data, text.len) : cbx_cli_out(cbx_buf_str(&f.text), f.text.len);
	}
	if (n == 0)
		return cbx_cli_tell("\"%s\" is %sin %s%s; nothing was changed.", o->name, o->remove ? "not " : "", f.path,
				    o->remove ? "" : " already");
	return write_file(o, &f, &text);
}

static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option options[] = {
		{ "dry-run", no_argument, NULL, 'd' }, { "remove", no_argument, NULL, 'r' },
		{ "print", no_argument, NULL, 'p' },   { "force", no_argument, NULL, 'f' },
		{ "name", required_argument, NULL, 'n' }, { 0 }
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", options, NULL)) >= 0) {
		switch (c) {
		case 'd':
			o->dry_run = true;
			break;
		case 'r':
			o->remove = true;
			break;
		case 'p':
			o->print = true;
			break;
		case 'f':
			o->force = true;
			break;
		case 'n':
			o->name = optarg;
			break;
		default:
			return cbx_cli_bad_option("register", c, argv);
		}
	}
	if (!cbx_name_valid(o->name))
		return cbx_cli_usage("register",
				     "--name: \"%s\" is no name; use up to %d letters, digits, '-', '_' and '.', "
				     "starting with a letter or a digit",
				     o->name, CBX_NAME_MAX);
	if (o->print && (o->remove || o->dry_run))
		return cbx_cli_usage("register",
				     "--print changes nothing; it goes with neither --remove nor --dry-run");
	return 0;
}

static int run_register(int argc, char **argv)
{
	struct options o = { .name = "codebox" };
	_cleanup_free_ char *program = own_path(), *file = NULL;
	struct cbx_registry r = { 0 };
	int status = parse_options(argc, argv, &o);

	if (status)
		return status;
	if (optind == argc)
		return cbx_cli_usage("register",
				     "which client? claude-desktop, claude-code, vscode and cursor are known");
	if (optind + 1 < argc)
		return cbx_cli_usage("register", "%s: one client at a time", argv[optind + 1]);
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		if (strcmp(argv[optind], clients[i].name) == 0)
			o.client = &clients[i];
	if (!o.client)
		return cbx_cli_usage("register",
				     "\"%s\" is no known client; claude-desktop, claude-code, vscode and cursor "
				     "are. Any MCP client works with the command \"codebox mcp\"",
				     argv[optind]);
	r.section = o.client->section;
	r.typed = o.client->typed;
	r.name = o.name;
	r.command = program;
	r.force = o.force;
	file = config_file(o.client);
	return o.print ? print_lines(&o, &r, file) : edit(&o, &r, file);
}

static const char help[] =
	"Usage: codebox register [OPTION]... claude-desktop|claude-code|vscode|cursor\n"
	"\n"
	"Adds codebox to the MCP servers in the client's own configuration, or corrects its entry. Everything else in\n"
	"that file stays as it is, to the byte; the file as it was is kept as FILE.codebox-backup. A file that is not\n"
	"strict JSON (comments) is not touched: then the lines to add by hand are shown.\n"
	"\n"
	"  --dry-run     print the file as it would be; change nothing\n"
	"  --remove      take codebox out again\n"
	"  --name NAME   the server's name in that client; the default is codebox\n"
	"  --print       print the lines to add, and where; change nothing\n"
	"  --force       make the file also when the client seems not to have been used yet, and take over a name\n"
	"                that belongs to another server\n"
	"\n"
	"Examples:\n"
	"  codebox register claude-desktop\n"
	"  codebox register --dry-run cursor\n"
	"  codebox register --remove vscode\n";

const struct cbx_command cbx_cmd_register = {
	.name = "register",
	.summary = "make an MCP client use codebox",
	.help = help,
	.run = run_register,
};
