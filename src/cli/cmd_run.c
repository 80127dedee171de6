/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: read the code, ask the daemon to run it, write what comes. Without --session the daemon makes a
 * session that lives as long as this connection. A file gets its name and arguments as sys.argv by a small cell that
 * runs before it on the same connection, so that line numbers in tracebacks are those of the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/cell.h"
#include "cli/cli.h"

struct run {
	struct cbx_cli_spec spec;
	const char *code_arg; /* -c */
	const char *file;     /* as typed; "-" or NULL: standard input */
	bool json, keep;
	char **args; /* NULL-terminated: sys.argv behind the name */
	struct cbx_buf code;
};

static int parse_options(int argc, char **argv, struct run *run)
{
	static const struct option options[] = { CBX_CLI_SPEC_OPTIONS,
						 { "json", no_argument, NULL, 'j' },
						 { "keep", no_argument, NULL, 'k' },
						 { 0 } };
	int c, r = 0;

	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "+:c:", options, NULL)) >= 0) {
		if (c == 'c')
			run->code_arg = optarg;
		else if (c == 'j')
			run->json = true;
		else if (c == 'k')
			run->keep = true;
		else
			r = cbx_cli_spec_option("run", &run->spec, c, argv);
	}
	if (r)
		return r;
	if (!run->code_arg && optind < argc)
		run->file = argv[optind++];
	run->args = argv + optind;
	if (run->keep && run->spec.session)
		return cbx_cli_usage("run",
				     "--keep: a session with a name of its own is always kept; use --session alone");
	return cbx_cli_spec_check("run", &run->spec);
}

/* From a file or pipe, with the ceiling that the daemon has, so that an endless input ends here. */
static int read_code(struct run *run, struct cbx_err *err)
{
	bool from_stdin = !run->file || strcmp(run->file, "-") == 0;
	_cleanup_fd_ int opened = from_stdin ? -1 : open(run->file, O_RDONLY | O_CLOEXEC);
	const char *name = from_stdin ? "standard input" : run->file;
	int fd = from_stdin ? STDIN_FILENO : opened;

	if (fd < 0)
		return cbx_fail(err, errno, "open %s", name);
	for (;;) {
		ssize_t n = read(fd, cbx_buf_reserve(&run->code, KIB(64)), KIB(64));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cbx_fail(err, errno, "read %s", name);
		if (n == 0)
			break;
		run->code.len += (size_t)n;
		run->code.data[run->code.len] = '\0';
		if (run->code.len > CBX_CODE_MAX)
			return cbx_refuse(err, "code_too_long", EFBIG,
					  "%s is longer than the %zu bytes that one run can have; "
					  "put data into files and copy them with codebox cp",
					  name, CBX_CODE_MAX);
	}
	return 0;
}

static int load_code(struct run *run)
{
	struct cbx_err err;

	if (run->code_arg) {
		cbx_buf_adds(&run->code, run->code_arg);
	} else {
		if (!run->file && isatty(STDIN_FILENO))
			return cbx_cli_usage(
				"run", "what is to be run? Name a file, or use -c CODE; codebox repl is the prompt");
		if (read_code(run, &err) < 0) {
			cbx_cli_say("%s", err.msg);
			return CBX_EXIT_USAGE;
		}
	}
	if (run->code.len && memchr(run->code.data, '\0', run->code.len)) {
		cbx_cli_say("the code holds a NUL byte: it is no text");
		return CBX_EXIT_USAGE;
	}
	if (!cbx_utf8_valid(cbx_buf_str(&run->code), run->code.len)) {
		cbx_cli_say("the code is not valid UTF-8; convert it, for example with iconv -t UTF-8");
		return CBX_EXIT_USAGE;
	}
	return 0;
}

static cJSON *run_params(const struct run *run, const struct cbx_cell *cell)
{
	cJSON *params = cbx_json_new_obj();

	cbx_cli_spec_json(&run->spec, params);
	if (run->spec.session)
		cbx_json_set_bool(params, "create", true);
	else if (run->keep)
		cbx_json_set_str(params, "session_id", cell->session);
	cbx_json_set_str(params, "timeout", run->spec.timeout);
	return params;
}

/* sys.argv as Python itself would have it: the file as typed, "-c", or "" for standard input. */
static int set_argv(const struct run *run, struct cbx_cell *cell, struct cbx_err *err)
{
	_cleanup_json_ cJSON *list = cbx_json_new_arr(), *result = NULL;
	_cleanup_buf_ struct cbx_buf code = { 0 };
	int r;

	if (!run->args[0] && (!run->file || strcmp(run->file, "-") == 0))
		return 0;
	cbx_json_push_str(list, run->code_arg ? "-c" : run->file);
	for (char **a = run->args; *a; a++)
		cbx_json_push_str(list, *a);
	cbx_buf_adds(&code, "__import__('sys').argv = "); /* which leaves no name, and a session's _ alone */
	cbx_json_print(&code, list);
	r = cbx_cell_run(cell, code.data, run_params(run, cell), &result, err);
	if (r < 0)
		return r;
	if (strcmp(cbx_cli_str(result, "status"), "ok") != 0)
		return cbx_refuse(err, "internal", EIO, "the interpreter did not take its arguments: %s%s",
				  cbx_cli_str(result, "message"),
				  cbx_cli_str(cJSON_GetObjectItemCaseSensitive(result, "error"), "value"));
	return 0;
}

static int create_kept(const struct run *run, struct cbx_cell *cell, struct cbx_err *err)
{
	_cleanup_json_ cJSON *session = NULL;
	cJSON *params = cbx_json_new_obj();
	const char *id;
	int r;

	cbx_cli_spec_json(&run->spec, params);
	r = cbx_client_call(cell->client, "session.create", params, &session, err);
	if (r < 0)
		return r;
	id = cbx_cli_str(session, "session_id");
	if (!cbx_name_valid(id))
		return cbx_refuse(err, "internal", EIO, "codeboxd made a session without a name");
	memcpy(cell->session, id, strlen(id) + 1);
	return 0;
}

static int execute(const struct run *run, struct cbx_cell *cell, cJSON **ret, struct cbx_err *err)
{
	int r = run->keep ? create_kept(run, cell, err) : 0;

	if (r < 0)
		return r;
	r = set_argv(run, cell, err);
	if (r < 0)
		return r;
	r = cbx_cell_run(cell, cbx_buf_str(&run->code), run_params(run, cell), ret, err);
	if (run->keep)
		cbx_cli_say("the session is kept: codebox run --session %s …; codebox session rm %s ends it",
			    cell->session, cell->session);
	return r;
}

static int failed(const struct run *run, const struct cbx_err *err)
{
	int status = CBX_EXIT_OWN;

	if (strcmp(err->kind, "interrupted") == 0)
		status = CBX_EXIT_INTERRUPTED;
	else if (strcmp(err->kind, "invalid_argument") == 0)
		status = CBX_EXIT_USAGE;
	if (run->json) {
		_cleanup_json_ cJSON *obj = cbx_json_new_obj();
		cJSON *e = cbx_json_new_obj();

		cbx_json_set_str(e, "kind", err->kind);
		cbx_json_set_str(e, "message", err->msg);
		cbx_json_set(obj, "error", e);
		(void)cbx_cli_print_json(obj);
	}
	if (status != CBX_EXIT_INTERRUPTED)
		(void)cbx_cli_fail(err);
	return status;
}

static int run_connected(const struct run *run, struct cbx_client *client)
{
	struct cbx_term out, errs;
	struct cbx_figures figures;
	struct cbx_cell cell = { .client = client,
				 .collect = run->json,
				 .out = &out,
				 .errs = &errs,
				 .notes = &errs,
				 .figures = &figures,
				 .silent_exit = true,
				 .patience = 1 };
	_cleanup_json_ cJSON *execution = NULL;
	struct cbx_err err;
	int status;

	cbx_term_init(&out, STDOUT_FILENO);
	cbx_term_init(&errs, STDERR_FILENO);
	cbx_figures_init(&figures, run->spec.out);
	cell.sigfd = cbx_cell_signals(&err);
	if (cell.sigfd < 0)
		return cbx_cli_fail(&err);
	if (execute(run, &cell, &execution, &err) < 0) {
		cbx_term_flush(&out);
		status = failed(run, &err);
	} else {
		status = cbx_cell_exit_status(execution);
		if (run->json && cbx_cli_print_json(execution) != 0)
			status = CBX_EXIT_OWN;
		if (!run->json)
			cbx_cell_explain(&cell, execution);
		if (out.failed || (figures.failed && status == CBX_EXIT_OK))
			status = CBX_EXIT_OWN;
	}
	cbx_figures_release(&figures);
	close(cell.sigfd);
	return status;
}

static int run_run(int argc, char **argv)
{
	struct run run = { 0 };
	struct cbx_client client;
	struct cbx_err err;
	int r = parse_options(argc, argv, &run);

	if (r == 0)
		r = load_code(&run);
	if (r == 0) {
		if (cbx_cli_client(true, &client, &err) <= 0) {
			r = failed(&run, &err);
		} else {
			r = run_connected(&run, &client);
			cbx_client_close(&client);
		}
	}
	cbx_buf_release(&run.code);
	cbx_cli_spec_release(&run.spec);
	return r;
}

static const char help[] =
	"Usage: codebox run [OPTION...] FILE [ARGUMENT...]\n"
	"       codebox run [OPTION...] -c CODE [ARGUMENT...]\n"
	"       codebox run [OPTION...] - < FILE\n"
	"\n"
	"Runs Python code in a sandbox. Output is written as it comes; the value of the last expression is\n"
	"written too, as in a notebook. Without --session the sandbox is made for this run and is gone after it.\n"
	"\n"
	"Options:\n"
	"  -c CODE          the code itself\n"
	"  --session ID     run in this session, which is made when it does not exist and stays afterwards:\n"
	"                   variables, imports and files are there at the next run\n"
	"  --keep           keep the session of this run, under a name that is printed\n"
	"  --image NAME     the image to use (default: python); codebox image ls lists them\n"
	"  --timeout TIME   give up after this time: 90, 500ms, 5m (default: 60 seconds)\n"
	"  --memory SIZE    memory of the sandbox: 512M, 4G (default: 2G)\n"
	"  --disk SIZE      space for its files (default: 1G)\n"
	"  --policy NAME    have no more than this shipped policy allows: strict, default, net, dev\n"
	"  --env NAME=VALUE set an environment variable; NAME alone passes that of this shell on\n"
	"  --mount DIR[:TARGET][:rw]  show a directory or file of this computer, at /mnt/NAME or TARGET, read-only\n"
	"                   unless :rw is given; only what the daemon's policy allows\n"
	"  --set KEY=VALUE  another setting of the sandbox, such as processes=32; codebox policy explain lists\n"
	"                   them, with what the daemon's policy allows\n"
	"  --out DIR        save figures as DIR/figure-1.png and so on; without it they are only mentioned\n"
	"  --json           write nothing but one line of JSON: status, output, result, error, and the displays,\n"
	"                   images among them (--out has no effect then)\n"
	"\n"
	"Exit status: that of the code (0, 1 after an exception, or what it gave to sys.exit), 124 when the time\n"
	"was up, 137 when it was killed, 130 after Ctrl-C; 2 for a wrong command line, 3 when codebox itself\n"
	"failed.\n"
	"Ctrl-C interrupts the code; a second Ctrl-C leaves at once.\n"
	"\n"
	"Examples:\n"
	"  codebox run -c '2 ** 100'\n"
	"  codebox run --session data load.py && codebox run --session data -c 'df.describe()'\n"
	"  codebox run --timeout 5m --memory 4G --out plots train.py --epochs 10\n"
	"  echo 'print(input.__doc__)' | codebox run -\n"
	"  codebox run --json -c '1/0' | jq .error.name\n";

const struct cbx_command cbx_cmd_run = {
	.name = "run",
	.summary = "run a file, an expression or standard input in a sandbox",
	.help = help,
	.run = run_run,
};
