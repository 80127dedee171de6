/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: what the command line and the environment say of the connection's own session becomes one line,
 * which each codeboxd gets before anything of the client's (bridge.c).
 */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "cli/bridge.h"
#include "cli/cli.h"
#include "cli/mcpargs.h"
#include "sandbox/plan.h"

/* What CodeBoxMCP's server has in its environment; its clients say it by headers, which codeboxd lowers to the policy.
 */
static const struct {
	const char *variable, *header;
	bool number;
} variables[] = {
	{ "SESSION_TTL", "X-Session-TTL", true },
	{ "IDLE_TIMEOUT", "X-Idle-Timeout", true },
	{ "EXEC_TIMEOUT", "X-Exec-Timeout", true },
	{ "DOWNLOAD_TIMEOUT", "X-Download-Timeout", true },
	{ "MAX_DOWNLOAD_SIZE", "X-Max-Download-Size", true },
	{ "BLOB_SAS_EXPIRY_HOURS", "X-Blob-SAS-Expiry-Hours", true },
	{ "SQL_MAX_INLINE_ROWS", "X-Sql-Max-Inline-Rows", true },
	{ "AZURE_BLOB_CONNECTION_STRING", "X-Blob-Connection-String", false },
	{ "AZURE_BLOB_CONTAINER_NAME", "X-Blob-Container-Name", false },
	{ "AZURE_DATABASE_CONNECTION_STRING", "X-Db-Connection-String", false },
	{ "AZURE_DATABASE_PASSWORD", "X-Db-Password", false },
};

/* Those that are set; an exit status where one makes no sense. Secrets are wiped, and this process leaves no core. */
static int take_variables(cJSON **ret)
{
	cJSON *o = cbx_json_new_obj();
	uint64_t ignored;
	struct cbx_err err;

	*ret = o;
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *name = variables[i].variable;
		char *value = getenv(name);

		if (!value || !value[0])
			continue;
		if (variables[i].number && cbx_parse_u64(value, name, 1, UINT32_MAX, &ignored, &err) < 0)
			return cbx_cli_usage("mcp", "%s; correct that variable, or unset it", err.msg);
		cbx_json_set_str(o, variables[i].header, value);
		if (variables[i].number)
			continue;
		explicit_bzero(value, strlen(value));
		(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	}
	return 0;
}

static void session_line(const struct cbx_cli_spec *spec, const char *profile, const cJSON *headers, struct cbx_buf *out)
{
	cJSON *line = cbx_json_new_obj(), *params = cbx_json_new_obj(), *copy;

	cbx_cli_spec_json(spec, params);
	cbx_json_set_str(params, "tools", profile);
	copy = headers && headers->child ? cJSON_Duplicate(headers, 1) : NULL;
	if (copy)
		cbx_json_set(params, "headers", copy);
	if (spec->timeout) {
		cJSON_DeleteItemFromObjectCaseSensitive(params, "timeout"); /* --set timeout= */
		cbx_json_set_str(params, "timeout", spec->timeout);
	}
	cbx_json_set_str(line, "jsonrpc", "2.0");
	cbx_json_set_str(line, "method", "notifications/codebox/session");
	cbx_json_set(line, "params", params);
	if (params->child) {
		cbx_json_print(out, line);
		cbx_buf_addc(out, '\n');
	}
	cbx_json_wipe(copy ? cJSON_DetachItemViaPointer(params, copy) : NULL);
	cJSON_Delete(line);
}

/* code-sandbox's own way to name an image. */
static int container_image(struct cbx_cli_spec *spec)
{
	const char *image = getenv("CONTAINER_IMAGE"), *language = getenv("CONTAINER_LANGUAGE");

	if (!image && !language)
		return 0;
	if (!image || !language)
		return cbx_cli_usage("mcp",
				     "%s is not set: set both CONTAINER_IMAGE and CONTAINER_LANGUAGE, or neither",
				     image ? "CONTAINER_LANGUAGE" : "CONTAINER_IMAGE");
	if (strcmp(language, "python") != 0 && strcmp(language, "javascript") != 0)
		return cbx_cli_usage("mcp", "CONTAINER_LANGUAGE: \"%s\" cannot be run; use python or javascript",
				     language);
	if (!spec->image)
		spec->image = image;
	return 0;
}

/* CodeBox-AI shows a directory under its own name. */
static void same_names(const struct cbx_cli_spec *spec)
{
	cJSON *m;

	cJSON_ArrayForEach(m, spec->mounts) {
		const char *source = cbx_json_str(m, "source");

		if (!cbx_json_member(m, "target") && !cbx_plan_target_refused(source))
			cbx_json_set_str(m, "target", source);
	}
}

/* NAME,NAME,...: those that are set here, as code-sandbox has it. By name: a value is seen in no list of processes. */
static int pass_through(struct cbx_cli_spec *spec, char *const *argv, const char *names)
{
	_cleanup_free_ char *list = cbx_xstrdup(names);
	int r = 0;

	for (char *rest = list, *name; r == 0 && (name = strsep(&rest, ","));) {
		if (name[0] && !getenv(name)) {
			cbx_cli_say("codebox mcp: --pass-through-env: %s is not set here, and is not passed", name);
		} else if (name[0]) {
			optarg = name;
			r = cbx_cli_spec_option("mcp", spec, CBX_OPT_ENV, argv);
		}
	}
	return r;
}

static int parse_options(int argc, char **argv, struct cbx_cli_spec *spec, const char **ret_profile)
{
	static const struct option options[] = { CBX_CLI_SESSION_OPTIONS,
						 { "profile", required_argument, NULL, 'P' },
						 { "pass-through-env", required_argument, NULL, 'E' },
						 { 0 } };
	int c, r = 0;

	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "+:v:", options, NULL)) >= 0) {
		if (c == 'P')
			*ret_profile = optarg;
		else if (c == 'E')
			r = pass_through(spec, argv, optarg);
		else
			r = cbx_cli_spec_option("mcp", spec, c, argv);
	}
	if (r)
		return r;
	if (optind < argc)
		return cbx_cli_usage("mcp", "unexpected argument: %s; codebox mcp takes options only", argv[optind]);
	r = cbx_mcp_profile_check("mcp", ret_profile);
	if (r == 0 && *ret_profile && strcmp(*ret_profile, "code-sandbox") == 0)
		r = container_image(spec);
	else if (r == 0 && *ret_profile && strcmp(*ret_profile, "codebox-ai") == 0)
		same_names(spec);
	return r ? r : cbx_cli_spec_check("mcp", spec);
}

static int run_mcp(int argc, char **argv)
{
	struct cbx_buf session = { 0 };
	struct cbx_cli_spec spec = { 0 };
	struct cbx_dirs dirs;
	struct cbx_err err;
	const char *profile = NULL;
	cJSON *headers = NULL;
	int r = parse_options(argc, argv, &spec, &profile);

	if (r == 0 && profile && strcmp(profile, "codeboxmcp") == 0)
		r = take_variables(&headers);
	if (r == 0)
		session_line(&spec, profile, headers, &session);
	cbx_json_wipe(headers);
	cbx_cli_spec_release(&spec);
	if (r)
		return r;
	signal(SIGPIPE, SIG_IGN);
	if (cbx_dirs_init(&dirs, &err) < 0) {
		r = cbx_cli_fail(&err);
	} else {
		r = cbx_bridge_run(&dirs, &session);
		cbx_dirs_release(&dirs);
	}
	cbx_buf_wipe(&session);
	return r;
}

static const char help[] =
	"Usage: codebox mcp [OPTION]...\n"
	"\n"
	"Connects standard input and output with codeboxd, which speaks the Model Context Protocol. This is the\n"
	"command that an MCP client starts; it is of little use at a terminal. When its input ends, the command\n"
	"answers every request, then ends. When codeboxd ends, the client's next message starts it again, and a\n"
	"notification says what was lost. Where sandboxes cannot be made the command starts nevertheless, and every\n"
	"tool answers with the reason and remedy.\n"
	"\n"
	"Calls that name no session use one that ends with the connection. The options describe that session, as\n"
	"those of codebox run do:\n"
	"  --session ID     use this one instead, which is made when it does not exist and stays afterwards:\n"
	"                   variables and files are there for the next codebox mcp, too. For frameworks that start\n"
	"                   one for each call, as LangChain does\n"
	"  --profile NAME   offer the tools of another server, as its clients know them, in place of codebox's own:\n"
	"                   codebox-ai, codeboxmcp, code-sandbox, mcp-code-sandbox; see codebox-profiles(7)\n"
	"  --policy NAME    have no more than this shipped policy allows: strict, default, net, dev; the same\n"
	"                   holds for every session that this client makes\n"
	"  -v, --mount DIR[:TARGET][:rw]  show a directory or file of this computer that the daemon's policy allows\n"
	"  --workspace DIR  /workspace is this directory of yours, which stays; the policy must allow "
	"it\n"
	"                   to be written, as codebox register --workspace sees to\n"
	"  --timeout TIME   the time of a cell that asks for none: 90, 5m (default: 60 s)\n"
	"  --pass-through-env NAME,NAME...  pass these environment variables on, where they are set\n"
	"  --image NAME, --memory SIZE, --disk SIZE, --env NAME=VALUE, --set KEY=VALUE\n"
	"                   as in codebox run --help\n"
	"\n"
	"Examples:\n"
	"  codebox register claude-desktop      into Claude Desktop's configuration\n"
	"  claude mcp add codebox -- codebox mcp\n"
	"  codebox mcp --session agent --memory 4G\n";

const struct cbx_command cbx_cmd_mcp = {
	.name = "mcp",
	.summary = "serve the Model Context Protocol on standard input and output",
	.help = help,
	.run = run_mcp,
};
