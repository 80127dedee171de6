/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: read the code, ask the daemon to run it, write what comes. Without --session the daemon makes a
 * session that lives as long as this connection. The bytes of a file go as they are: what they mean (their encoding
 * above all) is for the interpreter to say, which runs them from a file of that name in the workspace.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/says.h"
#include "cli/cell.h"
#include "cli/cli.h"
#include "cli/mountask.h"
#include "cli/notebook.h"
#include "packages/files.h"
#include "sandbox/plan.h"

struct run {
	struct cbx_cli_spec spec;
	const char *code_arg; /* -c */
	const char *language; /* -l; NULL: that of the file, or of the image */
	const char *file;     /* as typed; "-" or NULL: standard input */
	bool json, keep;
	struct cbx_notebook notebook;
	bool in_place;
	char **args; /* NULL-terminated: sys.argv behind the name */
	struct cbx_buf code;
};

static int parse_options(int argc, char **argv, struct run *run)
{
	static const struct option options[] = {
		CBX_CLI_SPEC_OPTIONS,
		{ "language", required_argument, NULL, 'l' },
		{ "json", no_argument, NULL, 'j' },
		{ "keep", no_argument, NULL, 'k' },
		{ "output", required_argument, NULL, 'o' },
		{ "in-place", no_argument, NULL, 'i' },
		{ "allow-errors", no_argument, NULL, 'a' },
		{ "package", required_argument, NULL, CBX_OPT_PACKAGE },
		{ 0 }
	};
	int c, r = 0;

	opterr = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "+:c:l:o:v:", options, NULL)) >= 0) {
		switch (c) {
		case 'c':
			run->code_arg = optarg;
			break;
		case 'l':
			run->language = optarg;
			break;
		case 'j':
			run->json = true;
			cbx_cli_json_errors();
			break;
		case 'k':
			run->keep = true;
			break;
		case 'o':
			run->notebook.output = optarg;
			break;
		case 'i':
			run->in_place = true;
			break;
		case 'a':
			run->notebook.allow_errors = true;
			break;
		default:
			r = cbx_cli_spec_option("run", &run->spec, c, argv);
		}
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

static bool is_notebook(const struct run *run)
{
	return run->file && cbx_notebook_is(run->file);
}

static int check_notebook(struct run *run)
{
	struct cbx_notebook *nb = &run->notebook;

	if (!is_notebook(run) && (nb->output || run->in_place || nb->allow_errors))
		return cbx_cli_usage("run", "%s: this is for a notebook, NAME.ipynb",
				     nb->output	     ? "--output"
				     : run->in_place ? "--in-place"
						     : "--allow-errors");
	if (!is_notebook(run))
		return 0;
	if (run->json || run->keep)
		return cbx_cli_usage("run", "%s does not go with a notebook; %s", run->json ? "--json" : "--keep",
				     run->json ? "--output writes what its cells gave" : "use --session ID");
	if (run->args[0])
		return cbx_cli_usage("run", "unexpected argument: %s; a notebook takes none", run->args[0]);
	if (nb->output && run->in_place)
		return cbx_cli_usage("run", "--output and --in-place: give one of them");
	if (run->in_place)
		nb->output = run->file;
	nb->file = run->file;
	nb->language = run->language;
	nb->spec = &run->spec;
	return 0;
}

/* From a file or pipe, with the ceiling that the daemon has, so that an endless input ends here. */
static int read_code(struct run *run, struct cbx_err *err)
{
	bool from_stdin = !run->file || strcmp(run->file, "-") == 0;
	_cleanup_fd_ int opened = from_stdin ? -1 : open(run->file, O_RDONLY | O_CLOEXEC);
	const char *name = from_stdin ? "standard input" : run->file;
	int fd = from_stdin ? STDIN_FILENO : opened, r;

	if (fd < 0)
		return cbx_fail(err, errno, "open %s", name);
	r = cbx_read_whole(fd, CBX_CODE_MAX, &run->code);
	if (r == -EFBIG)
		return cbx_refuse(err, "code_too_long", EFBIG,
				  "%s is longer than the %zu bytes that one run can have; "
				  "put data into files and copy them with codebox cp",
				  name, CBX_CODE_MAX);
	return r < 0 ? cbx_fail(err, -r, "read %s", name) : 0;
}

static bool is_file(const struct run *run)
{
	return run->file && strcmp(run->file, "-") != 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A file's bytes are not for us to judge; what was typed, or comes in, is text. */
static int check_text(struct run *run)
{
	_cleanup_buf_ struct cbx_buf bytes = run->code;

	if (is_file(run)) {
		run->code = (struct cbx_buf){ 0 };
		cbx_base64_encode(&run->code, cbx_buf_str(&bytes), bytes.len);
		if (cbx_utf8_valid(base_name(run->file), strlen(base_name(run->file))))
			return 0;
		(void)cbx_cli_refuse("invalid_argument",
				     "the name of the file is not valid UTF-8; rename it, or run it as codebox run - < FILE");
		return CBX_EXIT_USAGE;
	}
	bytes = (struct cbx_buf){ 0 };
	if (run->code.len && memchr(run->code.data, '\0', run->code.len)) {
		(void)cbx_cli_refuse("invalid_argument", "the code holds a NUL byte; give text");
		return CBX_EXIT_USAGE;
	}
	if (!cbx_utf8_valid(cbx_buf_str(&run->code), run->code.len)) {
		(void)cbx_cli_refuse("invalid_argument",
				     "the code is not valid UTF-8; convert it, for example with iconv -t UTF-8");
		return CBX_EXIT_USAGE;
	}
	return 0;
}

/* What a script of Python says that it needs. */
static int read_needs(struct run *run, struct cbx_err *err)
{
	_cleanup_json_ cJSON *needs = cbx_json_new_arr();
	const char *language = run->language ? run->language : cbx_ends_with(run->file, ".py") ? "python" : "";
	const cJSON *v;
	int r = strcmp(language, "python") == 0 ?
			cbx_requirements_of_script(base_name(run->file), cbx_buf_str(&run->code), needs, err) :
			0;

	cJSON_ArrayForEach (v, needs)
		cbx_cli_spec_package(&run->spec, v->valuestring);
	return r;
}

static int load_code(struct run *run)
{
	struct cbx_err err;

	if (is_notebook(run)) {
		if (cbx_notebook_read(&run->notebook, &err) < 0) {
			(void)cbx_cli_fail(&err);
			return CBX_EXIT_USAGE;
		}
		return 0;
	}
	if (run->code_arg) {
		cbx_buf_adds(&run->code, run->code_arg);
	} else {
		if (!run->file && isatty(STDIN_FILENO))
			return cbx_cli_usage("run",
					     "missing argument: give a file, or -c CODE; codebox repl opens a prompt");
		if (read_code(run, &err) < 0 || (is_file(run) && read_needs(run, &err) < 0)) {
			(void)cbx_cli_fail(&err);
			return CBX_EXIT_USAGE;
		}
	}
	return check_text(run);
}

/* The descriptor whose bytes the program gets: not one that held the code, nor /dev/null, which it has anyway. */
static int input_of(const struct run *run)
{
	struct stat st, null;

	if (!run->code_arg && !is_file(run))
		return -1;
	if (fstat(STDIN_FILENO, &st) < 0)
		return -1;
	if (S_ISCHR(st.st_mode) && stat("/dev/null", &null) == 0 && st.st_rdev == null.st_rdev)
		return -1;
	return STDIN_FILENO;
}

/* The file by its path in the workspace, where that is a directory of the machine which holds it; else by its name. */
static char *name_inside(const struct run *run)
{
	_cleanup_free_ char *real = realpath(run->file, NULL);
	const cJSON *m;

	cJSON_ArrayForEach(m, run->spec.mounts) {
		const char *dir = cbx_json_str(m, "source");

		if (real && strcmp(cbx_json_str(m, "target"), CBX_INSIDE_WORKSPACE) == 0 && cbx_path_within(real, dir) &&
		    strcmp(real, dir) != 0)
			return cbx_xstrdup(real + strlen(dir) + 1);
	}
	return cbx_xstrdup(base_name(run->file));
}

/* sys.argv as Python itself would have it: the file, "-c", or "" for standard input. */
static void set_argv(const struct run *run, cJSON *params)
{
	_cleanup_free_ char *name = is_file(run) ? name_inside(run) : NULL;
	cJSON *list = cbx_json_new_arr();

	cbx_json_push_str(list, run->code_arg ? "-c" : name ? name : run->file ? "-" : "");
	for (char **a = run->args; *a; a++)
		cbx_json_push_str(list, *a);
	cbx_json_set(params, "argv", list);
	cbx_json_set_str(params, "file", name);
}

static cJSON *run_params(const struct run *run, const struct cbx_cell *cell)
{
	cJSON *params = cbx_json_new_obj();

	cbx_cli_spec_json(&run->spec, params);
	if (run->spec.session)
		cbx_json_set_bool(params, "create", true);
	else if (run->keep)
		cbx_json_set_str(params, "session_id", cell->session);
	else
		cbx_json_set_bool(params, "last", true);
	if (run->spec.timeout)
		cbx_json_set_str(params, "timeout", run->spec.timeout);
	else
		cbx_json_set_bool(params, "unlimited", true);
	cbx_json_set_str(params, "language", run->language);
	set_argv(run, params);
	return params;
}

static int create_kept(struct run *run, struct cbx_cell *cell, struct cbx_err *err)
{
	_cleanup_json_ cJSON *session = NULL;
	cJSON *params = cbx_json_new_obj();
	const char *id;
	int r;

	cbx_cli_spec_json(&run->spec, params);
	cbx_json_set_str(params, "language", run->language);
	cbx_json_set_str(params, "file", is_file(run) ? run->file : NULL);
	r = cbx_client_call(cell->client, "session.create", params, &session, err);
	if (r < 0)
		return r;
	id = cbx_json_str(session, "session_id");
	if (!cbx_name_valid(id))
		return cbx_refuse(err, "internal", EIO, "codeboxd made a session without a name");
	memcpy(cell->session, id, strlen(id) + 1);
	cJSON_Delete(take_ptr(&run->spec.packages)); /* it has them */
	return 0;
}

static int try_to_execute(struct run *run, struct cbx_cell *cell, cJSON **ret, struct cbx_err *err)
{
	int r = run->keep ? create_kept(run, cell, err) :
		run->spec.session && run->spec.packages ? cbx_cli_spec_outfit(&run->spec, cell->client, err) : 0;

	if (r < 0)
		return r;
	r = cbx_cell_run(cell, cbx_buf_str(&run->code), run_params(run, cell), ret, err);
	if (run->keep)
		cbx_cli_say("the session is kept: codebox run --session %s …; codebox session rm %s ends it",
			    cell->session, cell->session);
	return r;
}

static int execute(struct run *run, struct cbx_cell *cell, cJSON **ret, struct cbx_err *err)
{
	int r;

	do
		r = try_to_execute(run, cell, ret, err);
	while (r < 0 && cbx_mount_ask(run->spec.mounts, cell->sigfd, err));
	return r;
}

static int failed(const struct cbx_err *err)
{
	int status = CBX_EXIT_OWN;

	if (strcmp(err->kind, "interrupted") == 0)
		status = CBX_EXIT_INTERRUPTED;
	else if (strcmp(err->kind, "invalid_argument") == 0)
		status = CBX_EXIT_USAGE;
	if (status == CBX_EXIT_INTERRUPTED)
		cbx_cli_print_error(err->kind, err->msg);
	else
		(void)cbx_cli_fail(err);
	return status;
}

/* The sandbox of one run is gone after it: nothing of it is kept, whatever is true of sessions. */
static void without_session(cJSON *execution)
{
	static const char *const says[] = { CBX_SAYS_KEPT, CBX_SAYS_GOES_ON, CBX_SAYS_LOST };
	cJSON *message = cbx_json_member(execution, "message");

	cJSON_ReplaceItemInObjectCaseSensitive(execution, "state_kept", cJSON_CreateFalse());
	for (size_t i = 0; cJSON_IsString(message) && i < ARRAY_SIZE(says); i++) {
		char *at = strstr(message->valuestring, says[i]);

		if (at)
			memmove(at, at + strlen(says[i]), strlen(at + strlen(says[i])) + 1);
	}
}

static int run_notebook(struct run *run, struct cbx_cell *cell)
{
	struct cbx_err err;
	int status = cbx_notebook_run(&run->notebook, cell, &err);

	cbx_term_flush(cell->out);
	return status < 0 ? failed(&err) : status;
}

static int run_connected(struct run *run, struct cbx_client *client)
{
	struct cbx_term out, errs;
	struct cbx_rows rows;
	struct cbx_figures figures;
	struct cbx_cell cell = { .client = client,
				 .collect = run->json,
				 .out = &out,
				 .errs = &errs,
				 .notes = &errs,
				 .figures = &figures,
				 .silent_exit = true,
				 .patience = 1,
				 .input = is_notebook(run) ? -1 : input_of(run) };
	_cleanup_json_ cJSON *execution = NULL;
	struct cbx_err err;
	int status;

	cbx_term_init(&out, STDOUT_FILENO);
	cbx_term_init(&errs, STDERR_FILENO);
	cbx_rows_init(&rows, STDOUT_FILENO);
	out.rows = &rows;
	errs.rows = errs.filter ? &rows : NULL;
	cbx_figures_init(&figures, run->spec.out);
	figures.spare = !run->spec.out;
	cell.sigfd = cbx_cell_signals(&err);
	if (cell.sigfd < 0)
		return cbx_cli_fail(&err);
	if (is_notebook(run)) {
		status = run_notebook(run, &cell);
		status = out.failed ? CBX_EXIT_OWN : status;
	} else if (execute(run, &cell, &execution, &err) < 0) {
		cbx_term_flush(&out);
		status = failed(&err);
	} else {
		status = cbx_cell_exit_status(execution);
		if (!run->keep && !run->spec.session)
			without_session(execution);
		if (run->json && cbx_cli_print_json(execution) != 0)
			status = CBX_EXIT_OWN;
		if (!run->json)
			cbx_cell_explain(&cell, execution);
		if (out.failed || (figures.failed && status == CBX_EXIT_OK))
			status = CBX_EXIT_OWN;
	}
	cbx_figures_release(&figures);
	cbx_cell_release(&cell);
	return status;
}

static int run_run(int argc, char **argv)
{
	struct run run = { 0 };
	struct cbx_client client;
	struct cbx_err err;
	int r = parse_options(argc, argv, &run);

	if (r == 0)
		r = check_notebook(&run);
	if (r == 0)
		r = load_code(&run);
	if (r == 0) {
		if (cbx_cli_client(true, &client, &err) <= 0) {
			r = failed(&err);
		} else {
			r = run_connected(&run, &client);
			cbx_client_close(&client);
		}
	}
	cbx_buf_release(&run.code);
	cbx_notebook_release(&run.notebook);
	cbx_cli_spec_release(&run.spec);
	return r;
}

static const char help[] =
	"Usage: codebox run [OPTION...] FILE [ARGUMENT...]\n"
	"       codebox run [OPTION...] -c CODE [ARGUMENT...]\n"
	"       codebox run [OPTION...] [-] < FILE\n"
	"       codebox run [OPTION...] [-o FILE | --in-place] NOTEBOOK.ipynb\n"
	"\n"
	"Runs code in a sandbox: Python, Bash, or JavaScript if an image has it. FILE runs as with python3,\n"
	"bash or node, by its ending, from /workspace/FILE in the sandbox, which is made or replaced; CODE runs as\n"
	"a cell of a notebook, whose last value is written, too. Standard input is the program's; without -c and\n"
	"FILE, standard input is the code. All output is written as it comes, at the pace of whoever reads it.\n"
	"Without --session the sandbox is made for this run and is gone after it.\n"
	"\n"
	"Options:\n"
	"  -c CODE          the code itself\n"
	"  -l, --language NAME  what the code is written in: python, bash, javascript or typescript (default: by\n"
	"                   FILE's ending, what a notebook says, else the image's own)\n"
	"  --session ID     run in this session, which is made when it does not exist and stays afterwards:\n"
	"                   variables, imports and files are there at the next run\n"
	"  --keep           keep the session of this run, under a name that is printed\n"
	"  --image NAME     the image to use (default: python, or one that has the language); codebox image ls\n"
	"                   lists them\n"
	"  --timeout TIME   interrupt the code after this time: 90, 500ms, 5m (default: as long as the policy allows)\n"
	"  --memory SIZE    memory of the sandbox: 512M, 4G (default: 2G)\n"
	"  --disk SIZE      space for its files (default: 1G)\n"
	"  --policy NAME    have no more than this shipped policy allows: strict, default, net, dev\n"
	"  --env NAME=VALUE set an environment variable; NAME alone passes on its value here\n"
	"  --package NAME   install this Python package first, as in --package \"httpx>=0.27\"; repeat it for more.\n"
	"                   Those that a script declares (PEP 723) are installed without it\n"
	"  -v, --mount DIR[:TARGET][:rw]  show a directory or file of this computer, at /mnt/NAME or TARGET,\n"
	"                   read-only unless :rw is given; asks once about what the daemon's policy does not allow\n"
	"  --workspace DIR  /workspace is this directory of yours, which stays; asks once, too\n"
	"  --set KEY=VALUE  another setting of the sandbox, such as processes=32; codebox policy explain lists\n"
	"                   them, with what the daemon's policy allows\n"
	"  --out DIR        save figures as DIR/figure-1.png and so on; without it they are shown by a terminal that\n"
	"                   can (kitty, iTerm2, sixel), and else only mentioned\n"
	"  -o, --output FILE  run the cells of a notebook, and write it with their outputs to FILE\n"
	"  --in-place       likewise, and write it back; with neither, outputs are shown and the file stays as it is\n"
	"  --allow-errors   continue behind a cell of a notebook that fails\n"
	"  --json           write nothing but one line of JSON: status, output, result, error, and the displays,\n"
	"                   images among them (--out has no effect then)\n"
	"\n"
	"Exit status: that of the code (0, 1 after an exception, or what it gave to sys.exit), 124 after the time\n"
	"limit, 137 when it was killed, 130 after Ctrl-C, 141 when the reader of its output left;\n"
	"2 for a wrong command line, 3 when codebox itself failed.\n"
	"Ctrl-C interrupts the code; a second Ctrl-C leaves at once.\n"
	"\n"
	"Examples:\n"
	"  codebox run -c '2 ** 100'\n"
	"  codebox run --session data load.py && codebox run --session data -c 'df.describe()'\n"
	"  codebox run --timeout 5m --memory 4G --out plots train.py --epochs 10\n"
	"  seq 3 | codebox run -c 'import sys; print(sum(map(int, sys.stdin)))'\n"
	"  echo 'print(input.__doc__)' | codebox run -\n"
	"  codebox run -l bash -c 'ls -l | wc -l'\n"
	"  codebox run --image javascript -c 'const os = await import(\"os\"); os.cpus().length'\n"
	"  codebox run --package rich -c 'import rich; rich.print(\"[b]hi\")'\n"
	"  codebox run --json -c '1/0' | jq .error.name\n";

const struct cbx_command cbx_cmd_run = {
	.name = "run",
	.summary = "run a file, an expression or standard input in a sandbox",
	.help = help,
	.run = run_run,
	.program = true,
};
