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

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/confile.h"
#include "cli/kernelspec.h"
#include "cli/mcpargs.h"
#include "cli/mountask.h"
#include "cli/registry.h"

struct client {
	const char *name, *title;
	const char *file; /* beneath the configuration directory or home */
	bool xdg;	  /* beneath $XDG_CONFIG_HOME, else ~/.config; false: beneath ~ */
	const char *section;
	bool typed;
	bool own_command; /* the client can register by itself while it has no file */
	const char *then;
	/* What to add by hand, for a file that is not strict JSON: with %n, its name, %c, the command, %a, its
	 * arguments, and, in `then`, %s, those for a shell. */
	const char *lines;
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
	{ "gemini", "Gemini CLI", ".gemini/settings.json", false, "mcpServers", false, false,
	  "Sessions of Gemini CLI that start from now on have it." },
	{ "windsurf", "Windsurf", ".codeium/windsurf/mcp_config.json", false, "mcpServers", false, false,
	  "Refresh Windsurf's list of MCP servers." },
	{ "cline", "Cline", "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", true,
	  "mcpServers", false, false, "Cline's list of MCP servers has it." },
	{ "lmstudio", "LM Studio", ".lmstudio/mcp.json", false, "mcpServers", false, false,
	  "Switch it on in LM Studio's list of integrations." },
	{ .name = "codex",
	  .title = "Codex",
	  .file = ".codex/config.toml",
	  .then = "or run: codex mcp add %n -- %c %s",
	  .lines = "[mcp_servers.%n]\ncommand = %c\nargs = %a\n" },
	{ .name = "goose",
	  .title = "Goose",
	  .file = "goose/config.yaml",
	  .xdg = true,
	  .then = "below the line \"extensions:\", which may be there already",
	  .lines = "extensions:\n  %n:\n    name: %n\n    type: stdio\n    cmd: %c\n    args: %a\n    enabled: "
		   "true\n"
		   "    timeout: 300\n" },
	{ .name = "zed",
	  .title = "Zed",
	  .file = "zed/settings.json",
	  .xdg = true,
	  .then = "inside the outermost braces, with a comma between them and what stands before or behind; where "
		  "\"context_servers\" is there already, only the middle line, inside the braces of that",
	  .lines = "  \"context_servers\": {\n    \"%n\": {\"command\":%c,\"args\":%a,\"env\":{}}\n  }\n" },
};

#define KNOWN                                                                                                          \
	"claude-desktop, claude-code, vscode, cursor, gemini, windsurf, cline, lmstudio, codex, goose, zed or jupyter"

struct options {
	const struct client *client;
	const char *name;
	bool dry_run, remove, print, force;
	struct cbx_mcp_args mcp;
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
	"it is not there twice; a comma goes between it and what stands before or behind it"

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

/* Append text with %n, %c and so on replaced: by the letters and values. */
static void fill_in(struct cbx_buf *out, const char *text, const char *letters, const char *const *values)
{
	for (; *text; text++) {
		const char *which = text[0] == '%' && text[1] ? strchr(letters, text[1]) : NULL;

		if (which)
			cbx_buf_adds(out, values[which - letters]);
		else
			cbx_buf_addc(out, *text);
		text += which != NULL;
	}
}

/* A file of comments, TOML or YAML is its owner's to change. A string of JSON is one of TOML and YAML, too. */
static int show_lines(const struct options *o, const char *command, const char *file)
{
	_cleanup_json_ cJSON *quoted = cJSON_CreateString(command), *args = cbx_mcp_args_json(&o->mcp);
	_cleanup_buf_ struct cbx_buf out = { 0 }, json = { 0 }, list = { 0 };
	_cleanup_free_ char *shell = cbx_mcp_args_shell(&o->mcp);

	if (o->remove) {
		cbx_cli_say("%s is not changed by codebox: take \"%s\" out of it by hand", file, o->name);
		return CBX_EXIT_FAILURE;
	}
	cbx_json_print(&json, quoted);
	cbx_json_print(&list, args);
	cbx_buf_addf(&out, "Nothing was changed in %s's files. Put these lines into\n", o->client->title);
	cbx_escape(&out, file);
	cbx_buf_adds(&out, "\n");
	fill_in(&out, o->client->then, "ncs", (const char *const[]){ o->name, command, shell });
	cbx_buf_adds(&out, ":\n\n");
	fill_in(&out, o->client->lines, "nca",
		(const char *const[]){ o->name, cbx_buf_str(&json), cbx_buf_str(&list) });
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

/* A client that was never started has no directory: nothing is written where no program may ever read it. */
static int check_installed(const struct options *o, const struct cbx_registry *r, const struct cbx_confile *f)
{
	_cleanup_free_ char *dir = cbx_xstrdup(f->path);
	struct cbx_err err = { 0 };
	struct stat st;

	if (f->exists || o->remove || o->force || o->dry_run)
		return 0;
	if (o->client->own_command) {
		_cleanup_free_ char *shell = cbx_mcp_args_shell(&o->mcp);

		cbx_cli_say("%s does not exist: %s has not been used yet. Use its own command, or --force:", f->path,
			    o->client->title);
		cbx_cli_say("claude mcp add --scope user %s -- %s %s", r->name, r->command, shell);
		return CBX_EXIT_FAILURE;
	}
	*strrchr(dir, '/') = '\0';
	if (stat(dir, &st) == 0)
		return 0;
	cbx_fail(&err, errno, "%s", dir);
	cbx_cli_say("%s; it seems that %s has not been used yet. Start it once, or use --force", err.msg,
		    o->client->title);
	return CBX_EXIT_FAILURE;
}

static int write_file(const struct options *o, struct cbx_confile *f, const struct cbx_changed *new)
{
	_cleanup_free_ char *dir = cbx_xstrdup(f->path), *backup = cbx_confile_backup_path(f);
	bool existed = f->exists;
	struct cbx_err err;

	*strrchr(dir, '/') = '\0';
	if (!existed && access(dir, F_OK) < 0 && cbx_dirs_make_private(dir, 0700, &err) < 0)
		return cbx_cli_fail(&err);
	if (cbx_confile_replace(f, new->text.data, new->text.len, &err) < 0)
		return cbx_cli_fail(&err);
	cbx_cli_tell("\"%s\" %s %s.", o->name, o->remove ? "was removed from" : "is now in", f->path);
	(void)cbx_cli_out(new->difference.data, new->difference.len);
	if (existed)
		cbx_cli_tell("As it was before: %s", backup);
	if (o->remove)
		return cbx_cli_tell("Restart %s to complete the removal.", o->client->title);
	return cbx_cli_tell("%s", o->client->then);
}

static int edit(const struct options *o, const struct cbx_registry *r, const char *path)
{
	_cleanup_confile_ struct cbx_confile f = { 0 };
	_cleanup_changed_ struct cbx_changed new = { 0 };
	struct cbx_err err;
	int n;

	if (path[0] != '/') {
		cbx_cli_say("the configuration of %s cannot be found: HOME is not an absolute path", o->client->title);
		return CBX_EXIT_FAILURE;
	}
	if (cbx_confile_read(&f, path, &err) < 0)
		return cbx_cli_fail(&err);
	n = check_installed(o, r, &f);
	if (n)
		return n;
	n = (o->remove ? cbx_registry_remove : cbx_registry_add)(r, cbx_buf_str(&f.text), f.text.len, &new, &err);
	if (n < 0)
		return by_hand(o, r, &f, &err);
	if (o->dry_run) {
		cbx_cli_say("%s would be%s:", f.path, n ? "" : " as it is");
		return n ? cbx_cli_out(new.text.data, new.text.len) : cbx_cli_out(cbx_buf_str(&f.text), f.text.len);
	}
	if (n == 0)
		return cbx_cli_tell("\"%s\" is %sin %s%s; nothing was changed.", o->name, o->remove ? "not " : "",
				    f.path, o->remove ? "" : " already");
	return write_file(o, &f, &new);
}

static int parse_options(int argc, char **argv, struct options *o)
{
	const struct cbx_cli_option options[] = { { "dry-run", .flag = &o->dry_run },
						  { "remove", .flag = &o->remove },
						  { "print", .flag = &o->print },
						  { "force", .flag = &o->force },
						  { "name", .value = &o->name },
						  { "session", .value = &o->mcp.session },
						  { "policy", .value = &o->mcp.policy },
						  { "folder", .value = &o->mcp.folder },
						  { "profile", .value = &o->mcp.profile },
						  { "workspace", .value = &o->mcp.workspace },
						  { "image", .value = &o->mcp.image },
						  { "language", 'l', .value = &o->mcp.language },
						  { 0 } };
	int r = cbx_cli_options("register", argc, argv, options);

	if (r)
		return r;
	if (!cbx_name_valid(o->name))
		return cbx_cli_usage("register",
				     "--name: \"%s\" is not a name; use up to %d letters, digits, '-', '_' and '.', "
				     "starting with a letter or a digit",
				     o->name, CBX_NAME_MAX);
	if (o->print && (o->remove || o->dry_run))
		return cbx_cli_usage("register",
				     "--print changes nothing; it goes with neither --remove nor --dry-run");
	if (o->remove && (o->mcp.session || o->mcp.policy || o->mcp.folder || o->mcp.workspace || o->mcp.profile ||
			  o->mcp.image || o->mcp.language))
		return cbx_cli_usage("register",
				     "--remove takes the entry out; it goes with none of --session, --policy, "
				     "--folder, --workspace, --profile, --image and --language");
	return 0;
}

/* Into the client's file, or shown. */
static int put(const struct options *o, const char *program)
{
	_cleanup_json_ cJSON *args = cbx_mcp_args_json(&o->mcp);
	_cleanup_free_ char *file = config_file(o->client);
	struct cbx_registry r = { .section = o->client->section,
				  .name = o->name,
				  .command = program,
				  .args = args,
				  .typed = o->client->typed,
				  .force = o->force };
	/* First: the lines that are shown need it, too. */
	int status = o->mcp.dir ? cbx_mount_allow(o->mcp.dir, o->dry_run || o->print) : 0;

	if (status)
		return status;
	if (o->client->lines)
		return show_lines(o, program, file);
	return o->print ? print_lines(o, &r, file) : edit(o, &r, file);
}

static int put_kernel(struct options *o, const char *program)
{
	bool print = o->print || o->dry_run;
	int status = cbx_mcp_args_check(&o->mcp);

	if (status == 0 && o->mcp.workspace)
		status = cbx_mount_allow(o->mcp.dir, print);
	if (status == 0)
		status = cbx_kernelspec_register(program, o->name, &o->mcp, print, o->remove);
	cbx_mcp_args_release(&o->mcp);
	return status;
}

static int run_register(int argc, char **argv)
{
	struct options o = { .name = "codebox" };
	_cleanup_free_ char *program = own_path();
	int status = parse_options(argc, argv, &o);

	if (status)
		return status;
	if (optind == argc)
		return cbx_cli_usage("register", "missing argument: give a client: " KNOWN);
	if (optind + 1 < argc)
		return cbx_cli_usage("register", "unexpected argument: %s; one client at a time", argv[optind + 1]);
	if (strcmp(argv[optind], "jupyter") == 0)
		return put_kernel(&o, program);
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		if (strcmp(argv[optind], clients[i].name) == 0)
			o.client = &clients[i];
	if (!o.client)
		return cbx_cli_usage("register",
				     "unknown client \"%s\": use " KNOWN
				     ". Any MCP client works with the command \"codebox mcp\"",
				     argv[optind]);
	if (o.mcp.image || o.mcp.language)
		return cbx_cli_usage("register", "%s is for jupyter alone; a model's tools take the image of a session",
				     o.mcp.image ? "--image" : "--language");
	status = cbx_mcp_args_check(&o.mcp);
	if (status == 0)
		status = put(&o, program);
	cbx_mcp_args_release(&o.mcp);
	return status;
}

static const char help[] =
	"Usage: codebox register [OPTION]... CLIENT\n"
	"\n"
	"Adds codebox to the MCP servers in the client's own configuration, or corrects its entry. Everything else in\n"
	"that file stays; the file as it was is kept as FILE.codebox-backup. A file that is not strict\n"
	"JSON (comments) is not touched: then the lines to add by hand are shown.\n"
	"\n"
	"CLIENT is claude-desktop, claude-code, vscode, cursor, gemini, windsurf, cline or lmstudio; or codex, goose\n"
	"or zed, for which the lines to add are always shown; or jupyter, for a kernel of Jupyter.\n"
	"\n"
	"  --dry-run     print the file as it would be; change nothing\n"
	"  --remove      remove the entry\n"
	"  --name NAME   the server's name in that client; the default is codebox\n"
	"  --print       print the lines to add, and where; change nothing\n"
	"  --session ID  calls that name no session use this one, which stays when the client ends\n"
	"  --policy NAME the client's sessions have no more than this shipped policy allows: strict, default,\n"
	"                net, dev\n"
	"  --folder DIR  show this folder of yours in /workspace: what a model writes to /workspace/NAME is in it.\n"
	"                The permission to change it is kept in ~/.config/codebox/mounts.json\n"
	"  --workspace DIR  /workspace is this folder of yours, which stays; permission likewise\n"
	"  --profile NAME  offer the tools of another server in place of codebox's own: codebox-ai, codeboxmcp,\n"
	"                code-sandbox, mcp-code-sandbox\n"
	"  --image NAME, -l, --language NAME  for jupyter: the image of the kernel, and the language of its cells\n"
	"                (default: the image's own)\n"
	"  --force       make the file even if the client seems unused, and take over a name\n"
	"                that belongs to another server\n"
	"\n"
	"Examples:\n"
	"  codebox register claude-desktop\n"
	"  codebox register --session notes --folder ~/notes claude-desktop\n"
	"  codebox register --dry-run cursor\n"
	"  codebox register --remove vscode\n"
	"  codebox register --image javascript --name js jupyter\n";

const struct cbx_command cbx_cmd_register = {
	.name = "register",
	.summary = "make an MCP client use codebox",
	.help = help,
	.run = run_register,
};
