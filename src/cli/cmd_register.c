/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: print what a client's configuration needs, with the path of this very program, since clients
 * often start servers with a PATH that is not the shell's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cli.h"

static char *own_path(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return cbx_xstrdup("codebox");
	path[n] = '\0';
	return cbx_xstrdup(path);
}

static char *desktop_config(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (xdg && xdg[0] == '/')
		return cbx_xasprintf("%s/Claude/claude_desktop_config.json", xdg);
	return cbx_xasprintf("%s/.config/Claude/claude_desktop_config.json", home && home[0] == '/' ? home : "~");
}

static int claude_desktop(void)
{
	_cleanup_free_ char *path = own_path(), *file = desktop_config();
	_cleanup_json_ cJSON *command = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_json_set_str(command, "command", path);
	cbx_json_set(command, "args", cbx_json_new_arr());
	cbx_json_push_str(cJSON_GetObjectItemCaseSensitive(command, "args"), "mcp");
	cbx_buf_adds(&out, "Put these three lines inside the outermost braces of\n");
	cbx_cli_escape(&out, file);
	cbx_buf_adds(&out,
		     "\n(make the file with { and } around them if there is none), and restart Claude Desktop:\n\n"
		     "  \"mcpServers\": {\n    \"codebox\": ");
	cbx_json_print(&out, command);
	cbx_buf_adds(&out, "\n  }\n");
	return cbx_cli_out(out.data, out.len);
}

static int run_register(int argc, char **argv)
{
	if (argc < 2)
		return cbx_cli_usage("register", "which client? claude-desktop is known");
	if (argc > 2)
		return cbx_cli_usage("register", "%s: one client at a time", argv[2]);
	if (strcmp(argv[1], "claude-desktop") == 0)
		return claude_desktop();
	return cbx_cli_usage("register",
			     "\"%s\" is no known client; claude-desktop is. Any MCP client works with the command "
			     "\"codebox mcp\"",
			     argv[1]);
}

static const char help[] =
	"Usage: codebox register claude-desktop\n"
	"\n"
	"Prints the lines to add to the client's configuration, and where that file is. Nothing is changed.\n"
	"\n"
	"Examples:\n"
	"  codebox register claude-desktop\n";

const struct cbx_command cbx_cmd_register = {
	.name = "register",
	.summary = "show the lines that make an MCP client use codebox",
	.help = help,
	.run = run_register,
};
