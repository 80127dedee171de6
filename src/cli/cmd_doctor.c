/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: the checks are the library's (doctor/doctor.h), the same ones that the daemon uses to say why it
 * cannot make a sandbox; here they become a table for people or JSON for programs. */
#include <getopt.h>
#include <string.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "doctor/doctor.h"

static const char *colour(const char *state)
{
	return strcmp(state, "ok") == 0 ? "\033[32m" : strcmp(state, "failed") == 0 ? "\033[31m" : "\033[33m";
}

static void add_check(struct cbx_buf *out, const cJSON *check, bool colours)
{
	const char *state = cbx_json_str(check, "state");
	bool ok = strcmp(state, "ok") == 0;

	cbx_buf_addf(out, "%s%-9s%s %-20s ", colours ? colour(state) : "", state, colours ? "\033[0m" : "",
		     cbx_json_str(check, "title"));
	cbx_escape(out, cbx_json_str(check, "found"));
	cbx_buf_addc(out, '\n');
	if (ok)
		return;
	cbx_buf_adds(out, "          means: ");
	cbx_escape(out, cbx_json_str(check, "means"));
	cbx_buf_adds(out, "\n          fix:   ");
	cbx_escape(out, cbx_json_str(check, "remedy"));
	cbx_buf_addc(out, '\n');
}

static int run_doctor(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	_cleanup_json_ cJSON *checks = NULL;
	_cleanup_buf_ struct cbx_buf out = { 0 };
	bool json = false, colours = isatty(STDOUT_FILENO);
	unsigned failed = 0, degraded = 0;
	struct cbx_dirs dirs;
	struct cbx_err err;
	const cJSON *check;
	int c, r;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "+:", options, NULL)) >= 0) {
		if (c != 'j')
			return cbx_cli_bad_option("doctor", c, argv);
		json = true;
		cbx_cli_json_errors();
	}
	if (optind < argc)
		return cbx_cli_usage("doctor", "unexpected argument: %s", argv[optind]);
	if (cbx_dirs_init(&dirs, &err) < 0)
		return cbx_cli_fail(&err);
	checks = cbx_doctor_run(&dirs);
	cbx_dirs_release(&dirs);
	cJSON_ArrayForEach(check, checks) {
		failed += strcmp(cbx_json_str(check, "state"), "failed") == 0;
		degraded += strcmp(cbx_json_str(check, "state"), "degraded") == 0;
		add_check(&out, check, colours);
	}
	if (failed)
		cbx_buf_addf(&out, "\n%u of %d requirements not met: nothing can be run yet.\n", failed,
			     cJSON_GetArraySize(checks));
	else
		cbx_buf_addf(&out, "\nSandboxes can be made%s.\n", degraded ? "; what is degraded is optional" : "");
	r = json ? cbx_cli_print_json(checks) : cbx_cli_out(out.data, out.len);
	return r ? r : failed ? CBX_EXIT_FAILURE : CBX_EXIT_OK;
}

static const char help[] =
	"Usage: codebox doctor [--json]\n"
	"\n"
	"Tries everything that sandboxes need, and shows for each requirement what was found, what that means and\n"
	"how to fix it. \"failed\": nothing can be run. \"degraded\": it works, with less.\n"
	"\n"
	"Exit status: 0, or 1 when something failed.\n"
	"\n"
	"Options:\n"
	"  --json    a JSON array of {name, title, state, found, means, remedy}\n"
	"\n"
	"Examples:\n"
	"  codebox doctor\n"
	"  codebox doctor --json | jq -r '.[] | select(.state != \"ok\") | .remedy'\n";

const struct cbx_command cbx_cmd_doctor = {
	.name = "doctor",
	.summary = "check what this machine provides, and how to fix the rest",
	.help = help,
	.run = run_doctor,
};
