/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: one request. What may be installed is codeboxd's to say, and so is where it comes from. codebox
 * npm and codebox conda differ in what names mean, and have no files that list them. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "packages/files.h"

#define FILE_MAX MIB(1)

struct options {
	const char *program; /* "pip", "npm" or "conda" */
	const char *session;
	bool json;
	cJSON *packages; /* owned */
};

static void list(struct cbx_buf *out, const char *what, const cJSON *packages)
{
	const cJSON *v;

	cJSON_ArrayForEach (v, packages) {
		cbx_buf_addf(out, "%s ", v == packages->child ? what : "");
		cbx_escape(out, cbx_json_str(v, "name"));
		cbx_buf_addc(out, ' ');
		cbx_escape(out, cbx_json_str(v, "version"));
		cbx_buf_adds(out, v->next ? "," : "\n");
	}
}

static int show(const cJSON *result)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	const cJSON *v;

	list(&out, "Installed:", cbx_json_member(result, "installed"));
	list(&out, "There already:", cbx_json_member(result, "already"));
	cJSON_ArrayForEach(v, cbx_json_member(result, "warnings"))
		if (cJSON_IsString(v))
			cbx_cli_say("warning: %s", v->valuestring);
	cJSON_ArrayForEach (v, cbx_json_member(result, "imported"))
		cbx_cli_say("%s %s is imported already, and in use instead of %s; use: codebox session restart %s, or "
			    "importlib.reload() in a cell",
			    cbx_json_str(v, "name"), cbx_json_str(v, "version"), cbx_json_str(v, "installed"),
			    cbx_json_str(result, "session_id"));
	return cbx_cli_out(cbx_buf_str(&out), out.len);
}

/* What a file asks for, beside what else is. */
static int add_file(void *arg, const char *name)
{
	struct options *o = arg;
	bool from_stdin = strcmp(name, "-") == 0;
	_cleanup_fd_ int opened = from_stdin ? -1 : open(name, O_RDONLY | O_CLOEXEC);
	int fd = from_stdin ? STDIN_FILENO : opened, r;
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_err err;

	r = fd < 0 ? -errno : cbx_read_whole(fd, FILE_MAX, &text);
	if (r < 0)
		cbx_fail(&err, -r, "read %s", name);
	else if (text.len && memchr(text.data, '\0', text.len))
		r = cbx_refuse(&err, "invalid_argument", EINVAL, "%s: it has a NUL byte; give a file of text", name);
	else
		r = cbx_requirements_read(name, cbx_buf_str(&text), o->packages, &err);
	if (r >= 0)
		return 0;
	(void)cbx_cli_fail(&err);
	return CBX_EXIT_USAGE;
}

static int install(struct options *o)
{
	cJSON *params = cbx_json_new_obj();
	_cleanup_json_ cJSON *result = NULL;
	struct cbx_client client;
	struct cbx_err err;
	int r;

	cbx_json_set_str(params, "session_id", o->session);
	cbx_json_set(params, "packages", take_ptr(&o->packages));
	r = cbx_cli_client(false, &client, &err);
	if (r <= 0) {
		cJSON_Delete(params);
		return r < 0 ? cbx_cli_fail(&err) : cbx_cli_no_session(o->session);
	}
	r = cbx_client_call(&client, "packages.install", params, &result, &err);
	cbx_client_close(&client);
	if (r < 0)
		return cbx_cli_fail(&err);
	return o->json ? cbx_cli_print_json(result) : show(result);
}

static int add_channel(void *arg, const char *channel)
{
	struct options *o = arg;
	_cleanup_free_ char *text = cbx_xasprintf("--channel %s", channel);

	cbx_json_push_str(o->packages, text);
	return 0;
}

static int parse_options(int argc, char **argv, struct options *o)
{
	bool upgrade = false, npm = strcmp(o->program, "npm") == 0, conda = strcmp(o->program, "conda") == 0;
	const struct cbx_cli_option options[] = { { conda ? "channel" : "requirement", conda ? 'c' : 'r',
						    .take = conda ? add_channel : add_file, .arg = o },
						  { "upgrade", 'U', .flag = &upgrade },
						  { "session", .value = &o->session },
						  { "json", .flag = &o->json },
						  { 0 } };
	int r = -cbx_cli_verb(o->program, (const char *const[]){ "install", NULL }, argc, argv);

	argc--;
	argv++;
	r = r ? r : cbx_cli_options(o->program, argc, argv, npm ? options + 1 : options);
	if (r)
		return r;
	if (!o->session)
		return cbx_cli_usage(o->program, "install: name a session, as in --session work");
	if (optind == argc && (conda || !o->packages->child))
		return cbx_cli_usage(o->program, "install: give names of packages, as in %s",
				     npm     ? "lodash@^4.17"
				     : conda ? "\"numpy>=1.26\""
					     : "\"httpx>=0.27\", or -r FILE");
	for (; optind < argc; optind++) {
		_cleanup_free_ char *name = cbx_xasprintf("%s%s", npm ? "npm:" : conda ? "conda:" : "", argv[optind]);

		cbx_json_push_str(o->packages, name);
	}
	if (upgrade)
		cbx_json_push_str(o->packages, "-U");
	return 0;
}

static int run(const char *program, int argc, char **argv)
{
	struct options o = { .program = program, .packages = cbx_json_new_arr() };
	int r = parse_options(argc, argv, &o);

	if (r == 0)
		r = install(&o);
	cJSON_Delete(o.packages);
	return r;
}

static int run_pip(int argc, char **argv)
{
	return run("pip", argc, argv);
}

static int run_conda(int argc, char **argv)
{
	return run("conda", argc, argv);
}

static int run_npm(int argc, char **argv)
{
	return run("npm", argc, argv);
}

static const char help[] =
	"Usage: codebox pip install --session NAME [-U] [-r FILE] [--json] [PACKAGE...]\n"
	"\n"
	"Install packages for a session, with all that they need: code in it can import them at once, and still has no\n"
	"network. They come from PyPI, or where the policy or the configuration of pip or uv says, as wheels; nothing of them runs\n"
	"outside of the session. The policy says which may be installed; see codebox-policy(5).\n"
	"\n"
	"A package is a name, and versions if needed: polars, \"httpx[http2]>=0.27,<1\".\n"
	"\n"
	"Options:\n"
	"  --session NAME   the session\n"
	"  -r, --requirement FILE  also what this file lists: requirements.txt, or dependencies of a pyproject.toml;\n"
	"                   addresses, paths and options in it are refused\n"
	"  -U, --upgrade    take these packages to the newest version that fits, also those that are there already\n"
	"  --json           one line of JSON\n"
	"\n"
	"Examples:\n"
	"  codebox run --session work -c pass\n"
	"  codebox pip install --session work polars\n"
	"  codebox pip install --session work -r requirements.txt\n"
	"  codebox run --session work -c 'import polars; polars.__version__'\n";

const struct cbx_command cbx_cmd_pip = {
	.name = "pip",
	.summary = "install Python packages for a session",
	.help = help,
	.run = run_pip,
};

static const char npm_help[] =
	"Usage: codebox npm install --session NAME [-U] [--json] PACKAGE...\n"
	"\n"
	"Install packages of npm for a session whose image has Node.js, with all that they need: code in it can "
	"require or\n"
	"import them at once, and still has no network. They come from npm's registry, or where the policy or npm's\n"
	"configuration says; their scripts do not run. The policy says which may be installed; see codebox-policy(5).\n"
	"\n"
	"A package is a name, and a range of versions or a tag if needed: lodash, @types/node@20, \"express@^4 || "
	"^5\".\n"
	"\n"
	"Options:\n"
	"  --session NAME  the session\n"
	"  -U, --upgrade   take these packages to the newest version that fits, also those that are there already\n"
	"  --json          one line of JSON\n"
	"\n"
	"Examples:\n"
	"  codebox run --image javascript --session web -c 0\n"
	"  codebox npm install --session web lodash@^4.17\n"
	"  codebox run --session web -c 'require(\"lodash\").chunk([1, 2, 3], 2)'\n";

const struct cbx_command cbx_cmd_npm = {
	.name = "npm",
	.summary = "install packages of npm for a session",
	.help = npm_help,
	.run = run_npm,
};

static const char conda_help[] =
	"Usage: codebox conda install --session NAME [-c CHANNEL] [-U] [--json] PACKAGE...\n"
	"\n"
	"Install packages of conda for a session, with all that they need: code in it can import them at once, and "
	"still has\n"
	"no network. They come from the channels that the policy names (packages.channels); their scripts do not run. "
	"The\n"
	"session's own Python stays, and packages for another one are not installed. The image conda has to be there, "
	"in which is\n"
	"found out what they need: codebox image build conda.\n"
	"\n"
	"A package is a name, and versions if needed: numpy, \"numpy>=1.26,<2\", numpy=1.26.\n"
	"\n"
	"Options:\n"
	"  --session NAME  the session\n"
	"  -c, --channel NAME|URL  refuse, unless this is a channel of the policy\n"
	"  -U, --upgrade   take these packages to the newest version that fits, also those that are there already\n"
	"  --json          one line of JSON\n"
	"\n"
	"Examples:\n"
	"  codebox run --session geo -c pass\n"
	"  codebox conda install --session geo \"gdal>=3.8\"\n"
	"  codebox run --session geo -c 'from osgeo import gdal'\n";

const struct cbx_command cbx_cmd_conda = {
	.name = "conda",
	.summary = "install packages of conda for a session",
	.help = conda_help,
	.run = run_conda,
};
