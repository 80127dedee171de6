/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: ZeroMQ and what it brings are in a program of their own, since all else does without. Where
 * Jupyter looks for kernels, "codebox register jupyter" writes how to start this one.
 */
#include "cli/kernelspec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/dirs.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/languages.h"
#include "image/store.h"

static int run_kernel(int argc, char **argv)
{
	return cbx_cli_exec("codebox-kernel", argv);
}

/* ---- register jupyter ---- */

static char *data_dir(void)
{
	const char *own = getenv("JUPYTER_DATA_DIR"), *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

	if (own && own[0] == '/')
		return cbx_xstrdup(own);
	if (xdg && xdg[0] == '/')
		return cbx_xasprintf("%s/jupyter", xdg);
	return home && home[0] == '/' ? cbx_xasprintf("%s/.local/share/jupyter", home) : NULL;
}

/* What is asked for, or the image's own, where the image is there already. */
static char *language_of(const struct cbx_mcp_args *mcp)
{
	_cleanup_json_ cJSON *list = NULL;
	const cJSON *image, *has = NULL;
	struct cbx_dirs dirs;
	struct cbx_err ignored;
	const char *own = NULL;

	if (mcp->language || !mcp->image || cbx_dirs_init(&dirs, &ignored) < 0)
		return cbx_xstrdup(mcp->language ? mcp->language : cbx_language_own(0));
	(void)cbx_image_list(dirs.images, &list, &ignored);
	cbx_dirs_release(&dirs);
	cJSON_ArrayForEach(image, list)
		if (strcmp(cbx_json_str(image, "name"), mcp->image) == 0)
			has = cbx_json_member(image, "interpreters");
	for (unsigned i = 0; has && (own = cbx_language_own(i)) && !cbx_json_member(has, own);)
		i++;
	return cbx_xstrdup(own ? own : has && has->child ? has->child->string : cbx_language_own(0));
}

static void print_spec(struct cbx_buf *out, const char *program, const char *name, const struct cbx_mcp_args *mcp)
{
	_cleanup_json_ cJSON *spec = cbx_json_new_obj();
	_cleanup_free_ char *language = language_of(mcp);
	const struct cbx_language *known = cbx_language_of(language);
	_cleanup_free_ char *title = cbx_xasprintf(strcmp(name, "codebox") == 0 ? "%s (codebox)" : "%s (codebox: %s)",
						   known ? known->title : language, name);
	const char *const options[][2] = { { "--session", mcp->session },
					   { "--image", mcp->image },
					   { "--language", mcp->language },
					   { "--policy", mcp->policy },
					   { "--workspace", mcp->workspace ? mcp->dir : NULL } };
	cJSON *argv = cbx_json_new_arr();

	cbx_json_push_str(argv, program);
	cbx_json_push_str(argv, "kernel");
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!options[i][1])
			continue;
		cbx_json_push_str(argv, options[i][0]);
		cbx_json_push_str(argv, options[i][1]);
	}
	cbx_json_push_str(argv, "-f");
	cbx_json_push_str(argv, "{connection_file}");
	cbx_json_set(spec, "argv", argv);
	cbx_json_set_str(spec, "display_name", title);
	cbx_json_set_str(spec, "language", language);
	cbx_json_set_str(spec, "interrupt_mode", "message");
	cbx_json_print_indented(out, spec, 1);
	cbx_buf_addc(out, '\n');
}

static int write_spec(const char *dir, const char *file, const struct cbx_buf *text)
{
	_cleanup_free_ char *new = cbx_xasprintf("%s.%d", file, (int)getpid());
	_cleanup_fd_ int fd = -1;
	struct cbx_err err;
	int r;

	if (cbx_dirs_make_private(dir, 0755, &err) < 0)
		return cbx_cli_fail(&err);
	fd = open(new, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
	r = fd < 0 ? -errno : cbx_write_all(fd, text->data, text->len);
	if (r >= 0)
		r = rename(new, file) < 0 ? -errno : 0;
	if (r >= 0)
		return cbx_cli_tell("The kernel is now in %s; notebooks that are opened from now on can choose it.",
				    file);
	unlink(new);
	cbx_fail(&err, -r, "write %s", file);
	return cbx_cli_fail(&err);
}

int cbx_kernelspec_register(const char *program, const char *name, const struct cbx_mcp_args *mcp, bool print,
			    bool remove)
{
	_cleanup_free_ char *data = data_dir(), *dir = NULL, *file = NULL;
	_cleanup_buf_ struct cbx_buf text = { 0 };

	if (mcp->folder || mcp->profile)
		return cbx_cli_usage("register", "%s does not go with jupyter; use --workspace",
				     mcp->folder ? "--folder" : "--profile");
	if (!data)
		return cbx_cli_refuse(
			"failed", "the directory of Jupyter cannot be found: HOME is not an absolute path; set HOME");
	dir = cbx_xasprintf("%s/kernels/%s", data, name);
	file = cbx_xasprintf("%s/kernel.json", dir);
	print_spec(&text, program, name, mcp);
	if (print) {
		int r = cbx_cli_tell("%s:", file);

		return r ? r : cbx_cli_out(text.data, text.len);
	}
	if (!remove)
		return write_spec(dir, file, &text);
	if (unlink(file) < 0 && errno != ENOENT)
		return cbx_cli_refuse("failed", "%s: %s", file, strerror(errno));
	(void)rmdir(dir);
	return cbx_cli_tell("\"%s\" is not a kernel of Jupyter any more.", name);
}

static const char help[] =
	"Usage: codebox kernel [OPTION]... -f FILE\n"
	"\n"
	"A kernel for Jupyter, which starts it: JupyterLab, nbconvert, Visual Studio Code. Cells run in a sandbox,\n"
	"whose session ends with the kernel; a restart gives it new interpreters, and keeps its files.\n"
	"codebox register jupyter makes it known to them.\n"
	"\n"
	"  -f FILE          the connection file\n"
	"  --workspace DIR  the workspace is this directory of yours; the notebook's own is not seen without it\n"
	"  --session ID     use this session, which stays\n"
	"  -l, --language NAME  of the cells (default: the image's own)\n"
	"  --policy NAME, --timeout TIME, --image NAME, --memory SIZE, --disk SIZE, --env NAME=VALUE,\n"
	"  -v, --mount DIR[:TARGET][:rw], --set KEY=VALUE\n"
	"                   as in codebox run --help\n"
	"\n"
	"Examples:\n"
	"  codebox register jupyter\n"
	"  codebox register --workspace ~/notes --name notes jupyter\n"
	"  jupyter nbconvert --to notebook --execute --ExecutePreprocessor.kernel_name=codebox report.ipynb\n";

const struct cbx_command cbx_cmd_kernel = {
	.name = "kernel",
	.summary = "be a kernel of Jupyter",
	.help = help,
	.run = run_kernel,
};
