/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: `codebox image …` executes this program, so that no other one carries archive code. Files that
 * the command line names are opened first, as whoever started it; so is the connection to codeboxd, which only root may
 * start for the system. Then root is given up for the service id (base/dirs.h), and everything else happens as that.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dirs.h"
#include "base/str.h"
#include "image/build.h"
#include "image/commands.h"
#include "image/image-limits.h"
#include "image/inuse.h"
#include "image/progress.h"

#define LAYERS_MAX 128

static const char usage[] =
	"Usage: codebox image COMMAND [ARGUMENTS]\n"
	"\n"
	"An image is the root file system that sandboxes start from: the interpreter and its libraries.\n"
	"\n"
	"  build [NAME|FILE]     make an image from a recipe: python (default), python-minimal, host, or a file\n"
	"      --as NAME         give it another name\n"
	"      --force           replace an image of that name\n"
	"      --no-compile      do not compile Python files in a sandbox afterwards (imports will be slower)\n"
	"  import NAME FILE...   make an image from a root file system in a tar archive, plain or compressed;\n"
	"                        several are layers, the lowest first\n"
	"      --force           replace an image of that name\n"
	"      --max-entries N   refuse archives with more entries\n"
	"      --max-bytes SIZE  refuse archives that unpack to more than this (like 2G)\n"
	"  ls [--json]           list images\n"
	"  show NAME             print an image's manifest: packages and versions, digest, what it exposes\n"
	"  verify [NAME...]      compare images with the digests made when they were built; name what differs\n"
	"  rm [--force] NAME...  remove images; with --force also those that sessions are using\n"
	"\n"
	"Examples:\n"
	"  codebox image build                    Python with numpy, pandas, matplotlib and more\n"
	"  codebox image build host               this machine's own /usr, read-only; no download, any distribution\n"
	"  docker export CONTAINER > my.tar       and then\n"
	"  codebox image import mine my.tar       and then: codebox run --image mine -c 'print(1)'\n";

int cbx_image_fail(const struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf line = { 0 };

	cbx_progress_end();
	cbx_escape(&line, err->msg);
	fprintf(stderr, "codebox image: %s\n", line.data);
	return 1;
}

static int bad_usage(const char *what)
{
	fprintf(stderr, "codebox image: %s\nTry: codebox image --help\n", what);
	return 2;
}

/* ---- what runs before root is given up ------------------------------------------------------------------------- */

static int become_service(const struct cbx_dirs *dirs, bool writing, struct cbx_err *err)
{
	_cleanup_free_ char *cache = cbx_xasprintf("%s/cache", dirs->data);
	struct cbx_service service;
	int r = cbx_service_init(&service, err);

	if (r == 0 && writing)
		r = cbx_service_make_dir(&service, dirs->data, 0750, err);
	if (r == 0 && writing)
		r = cbx_service_make_dir(&service, dirs->images, 0750, err);
	if (r == 0 && writing)
		r = cbx_service_make_dir(&service, cache, 0750, err);
	if (r == 0)
		r = cbx_service_become(&service, err);
	/* A change of ids makes a process undumpable, and its /proc files root's: the worker must write its id maps. */
	if (r == 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		r = cbx_fail(err, errno, "prepare for namespaces");
	umask(022);
	return r;
}

static void tell_waiting(void)
{
	cbx_progress_step("Waiting for another codebox image command to end");
}

static int open_store(const struct cbx_dirs *dirs, struct cbx_store *store, struct cbx_err *err)
{
	int r = become_service(dirs, true, err);

	return r < 0 ? r : cbx_store_open(dirs->images, tell_waiting, store, err);
}

/* ---- build ------------------------------------------------------------------------------------------------------ */

struct build_options {
	const char *what, *as;
	bool force, compile;
};

static int open_recipe(const struct cbx_dirs *dirs, const char *what, char **ret_path, struct cbx_err *err)
{
	bool file = strchr(what, '/') || cbx_ends_with(what, ".json");
	char *path = file ? cbx_xstrdup(what) : cbx_xasprintf("%s/recipes/%s.json", dirs->share, what);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), code = errno;

	*ret_path = path;
	if (fd >= 0)
		return fd;
	if (!file && code == ENOENT)
		return cbx_refuse(err, "recipe_not_found", ENOENT,
				  "there is no recipe \"%.60s\" in %.200s/recipes; there are python, python-minimal "
				  "and host, and a name with a \"/\" is that of a recipe file",
				  what, dirs->share);
	return cbx_fail(err, code, "open the recipe %s", path);
}

/* An image that is about to be replaced or removed. */
static int check_taking(const struct cbx_dirs *dirs, const char *name, bool taking, struct cbx_err *err)
{
	return taking ? cbx_image_check_unused(dirs, name, err) : 0;
}

static int build_opened(const struct cbx_dirs *dirs, const struct build_options *o, const struct cbx_recipe *recipe,
			struct cbx_client *client, int script, struct cbx_err *err)
{
	const char *name = o->as ? o->as : recipe->name;
	struct cbx_err left_out = { 0 };
	struct cbx_store store;
	int r = check_taking(dirs, name, o->force, err);

	if (r == 0)
		r = open_store(dirs, &store, err);
	if (r < 0)
		return r;
	r = cbx_build_recipe(dirs, &store, recipe, name, o->force, client, script, &left_out, err);
	cbx_store_release(&store);
	if (r == 0 && left_out.code) {
		cbx_wrap(&left_out, "the image is made, but its Python files are not compiled, so imports take longer");
		(void)cbx_image_fail(&left_out);
	}
	if (r == 0)
		r = cbx_image_summary(dirs->images, name, err);
	return r;
}

static int build(const struct cbx_dirs *dirs, const struct build_options *o, struct cbx_err *err)
{
	_cleanup_free_ char *path = NULL, *script_path = cbx_xasprintf("%s/recipes/finish.py", dirs->share);
	_cleanup_fd_ int fd = open_recipe(dirs, o->what, &path, err), script = -1;
	struct cbx_client client = { .fd = -1 };
	struct cbx_recipe recipe;
	bool compile;
	int r;

	if (fd < 0)
		return fd;
	r = cbx_recipe_read(fd, path, &recipe, err);
	if (r < 0)
		return r;
	compile = o->compile && (recipe.compile || recipe.warm);
	if (compile) {
		script = open(script_path, O_RDONLY | O_CLOEXEC);
		r = script < 0 ? cbx_fail(err, errno, "open %s", script_path) : cbx_client_open(dirs, &client, err);
		if (r < 0 && script >= 0)
			cbx_wrap(err,
				 "the image compiles its Python files in a sandbox (--no-compile leaves that out)");
	}
	if (r == 0)
		r = build_opened(dirs, o, &recipe, compile ? &client : NULL, script, err);
	if (client.fd >= 0)
		cbx_client_close(&client);
	cbx_recipe_release(&recipe);
	return r;
}

static int main_build(const struct cbx_dirs *dirs, int argc, char **argv)
{
	static const struct option options[] = {
		{ "as", required_argument, NULL, 'a' },
		{ "force", no_argument, NULL, 'f' },
		{ "no-compile", no_argument, NULL, 'n' },
		{ 0 },
	};
	struct build_options o = { .what = "python", .compile = true };
	struct cbx_err err;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'a')
			o.as = optarg;
		else if (c == 'f')
			o.force = true;
		else if (c == 'n')
			o.compile = false;
		else
			return bad_usage("build does not know that option");
	}
	if (argc - optind > 1)
		return bad_usage("build makes one image at a time");
	if (optind < argc)
		o.what = argv[optind];
	if (o.as && cbx_stage_check_name(o.as, &err) < 0)
		return cbx_image_fail(&err);
	return build(dirs, &o, &err) < 0 ? cbx_image_fail(&err) : 0;
}

/* ---- import ----------------------------------------------------------------------------------------------------- */

static int open_archives(char **paths, size_t n, int *fds, struct cbx_err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct stat st;

		fds[i] = open(paths[i], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fds[i] < 0)
			return cbx_fail(err, errno, "open the archive %s", paths[i]);
		if (fstat(fds[i], &st) < 0 || !S_ISREG(st.st_mode))
			return cbx_refuse(err, "invalid_argument", EINVAL, "%s is not a regular file", paths[i]);
	}
	return 0;
}

static int import_opened(const struct cbx_dirs *dirs, const char *name, bool force, struct cbx_import *import,
			 struct cbx_err *err)
{
	struct cbx_store store;
	int r = check_taking(dirs, name, force, err);

	if (r == 0)
		r = open_store(dirs, &store, err);
	if (r < 0)
		return r;
	r = cbx_build_import(&store, name, force, import, err);
	cbx_store_release(&store);
	if (r < 0)
		return r;
	if (import->stats.special || import->stats.modes || import->stats.attributes)
		fprintf(stderr,
			"Left out %llu devices, FIFOs and sockets; dropped special mode bits of %llu entries and "
			"extended attributes of %llu.\n",
			(unsigned long long)import->stats.special, (unsigned long long)import->stats.modes,
			(unsigned long long)import->stats.attributes);
	if (import->no_python)
		fprintf(stderr, "No Python was found in the image; it cannot be used for Python sessions.\n");
	return cbx_image_summary(dirs->images, name, err);
}

static int main_import(const struct cbx_dirs *dirs, int argc, char **argv)
{
	static const struct option options[] = {
		{ "force", no_argument, NULL, 'f' },
		{ "max-entries", required_argument, NULL, 'e' },
		{ "max-bytes", required_argument, NULL, 'b' },
		{ 0 },
	};
	struct cbx_import import = { .max_entries = CBX_UNPACK_ENTRIES_MAX, .max_bytes = CBX_UNPACK_BYTES_MAX };
	int fds[LAYERS_MAX], c, r = 0;
	bool force = false;
	struct cbx_err err;
	const char *name;

	while (r == 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'f')
			force = true;
		else if (c == 'e')
			r = cbx_parse_u64(optarg, "--max-entries", 1, CBX_UNPACK_ENTRIES_MAX, &import.max_entries,
					  &err);
		else if (c == 'b')
			r = cbx_parse_size(optarg, "--max-bytes", 1, CBX_UNPACK_BYTES_MAX, &import.max_bytes, &err);
		else
			return bad_usage("import does not know that option");
	}
	if (r == 0 && (argc - optind < 2 || argc - optind > LAYERS_MAX + 1))
		return bad_usage("import needs a name and at least one archive");
	name = argv[optind];
	if (r == 0)
		r = cbx_stage_check_name(name, &err);
	for (size_t i = 0; i < LAYERS_MAX; i++)
		fds[i] = -1;
	import.archives = fds;
	import.n = (size_t)(argc - optind - 1);
	if (r == 0)
		r = open_archives(argv + optind + 1, import.n, fds, &err);
	if (r == 0)
		r = import_opened(dirs, name, force, &import, &err);
	for (size_t i = 0; i < LAYERS_MAX; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return r < 0 ? cbx_image_fail(&err) : 0;
}

/* ---- the rest --------------------------------------------------------------------------------------------------- */

static int remove_images(const struct cbx_dirs *dirs, char **names, size_t n)
{
	struct cbx_store store;
	struct cbx_err err;
	int failed = 0;

	if (open_store(dirs, &store, &err) < 0)
		return cbx_image_fail(&err);
	for (size_t i = 0; i < n; i++)
		if (names[i] && cbx_store_remove(&store, names[i], &err) < 0)
			failed = cbx_image_fail(&err);
	cbx_store_release(&store);
	return failed;
}

static int main_rm(const struct cbx_dirs *dirs, int argc, char **argv)
{
	bool force = argc > 1 && strcmp(argv[1], "--force") == 0;
	int first = force ? 2 : 1, failed = 0;
	struct cbx_err err;

	if (argc <= first || argv[first][0] == '-')
		return bad_usage("rm needs the names of images, and takes only --force before them");
	for (int i = first; i < argc; i++) {
		int r = cbx_name_valid(argv[i]) ? check_taking(dirs, argv[i], !force, &err)
						: cbx_refuse(&err, "image_not_found", ENOENT,
							     "\"%.80s\" is not the name of an image", argv[i]);

		if (r < 0) {
			failed = cbx_image_fail(&err);
			argv[i] = NULL;
		}
	}
	return remove_images(dirs, argv + first, (size_t)(argc - first)) | failed;
}

static int main_ls(const struct cbx_dirs *dirs, int argc, char **argv)
{
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
	struct cbx_err err;

	if (argc > (json ? 2 : 1))
		return bad_usage("ls takes nothing but --json");
	if (become_service(dirs, false, &err) < 0 || cbx_image_ls(dirs->images, json, &err) < 0)
		return cbx_image_fail(&err);
	return 0;
}

static int main_show(const struct cbx_dirs *dirs, int argc, char **argv)
{
	struct cbx_err err;

	if (argc != 2 || argv[1][0] == '-')
		return bad_usage("show needs the name of an image");
	if (become_service(dirs, false, &err) < 0 || cbx_image_show(dirs->images, argv[1], &err) < 0)
		return cbx_image_fail(&err);
	return 0;
}

static int main_verify(const struct cbx_dirs *dirs, int argc, char **argv)
{
	struct cbx_err err;
	int r;

	if (argc > 1 && argv[1][0] == '-')
		return bad_usage("verify takes only names of images");
	if (become_service(dirs, false, &err) < 0)
		return cbx_image_fail(&err);
	r = cbx_image_verify(dirs->images, argv + 1, (size_t)(argc - 1), &err);
	return r < 0 ? cbx_image_fail(&err) : r;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const struct cbx_dirs *dirs, int argc, char **argv);
	} commands[] = {
		{ "build", main_build }, { "import", main_import }, { "ls", main_ls },
		{ "rm", main_rm },	 { "show", main_show },	    { "verify", main_verify },
	};
	struct cbx_dirs dirs;
	struct cbx_err err;
	int r = -1;

	if (argc < 2)
		return bad_usage("a command is missing: build, import, ls, rm, show or verify");
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			fputs(usage, stdout);
			return fflush(stdout) == 0 ? 0 : 1;
		}
	opterr = 0;
	if (cbx_dirs_init(&dirs, &err) < 0)
		return cbx_image_fail(&err);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			r = commands[i].run(&dirs, argc - 1, argv + 1);
	cbx_dirs_release(&dirs);
	return r >= 0 ? r : bad_usage("there is no such command");
}
