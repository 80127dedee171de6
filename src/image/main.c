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
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dirs.h"
#include "base/str.h"
#include "image/build.h"
#include "image/commands.h"
#include "image/front.h"
#include "image/saved.h"
#include "image/wheellock.h"

static const char usage[] =
	"Usage: codebox image COMMAND [ARGUMENTS]\n"
	"\n"
	"An image is the root file system that sandboxes start from: the interpreter and its libraries.\n"
	"\n"
	"  build [NAME|FILE]     make an image from a recipe: python (default), python-science, python-debian,\n"
	"                        python-minimal, full, javascript, host, or a file\n"
	"      --as NAME         give it another name\n"
	"      --force           replace an image of that name\n"
	"      --no-compile      do not compile Python files in a sandbox afterwards (imports will be slower)\n"
	"      --from-session SESSION\n"
	"                        NAME is the session's image, and the packages that codebox installed for the session\n"
	"  lock NAME|FILE        find the wheels that a recipe asks for, and keep their SHA-256 in a file beside it\n"
	"      --python VERSION  for this Python (3.11), and others with more of this option; if omitted, for those\n"
	"                        that the file has\n"
	"      --image NAME      resolve in a sandbox of this image\n"
	"  import NAME FILE...   make an image from a root file system in a tar archive, plain or compressed;\n"
	"                        several are layers, the lowest first\n"
	"  import NAME FILE|DIR  make an image from what docker save writes, or from an OCI layout\n"
	"      --platform P      take the one for this platform (linux/arm64), not this machine's\n"
	"      --tag TAG         take the one with this name, of several\n"
	"      --force           replace an image of that name\n"
	"      --max-entries N   refuse archives with more entries\n"
	"      --max-bytes SIZE  refuse archives that unpack to more than this (like 2G)\n"
	"  export NAME FILE      write an image as an archive for docker load, podman load and skopeo; -: to a pipe\n"
	"      --tag TAG         name it so in the archive (localhost/NAME:latest if omitted)\n"
	"      --force           replace the file\n"
	"  pull NAME[:TAG|@SHA]  make an image from one in a registry (HOST/NAME; without a host: Docker Hub)\n"
	"      --as NAME         the image's name here; NAME-TAG if omitted\n"
	"      --platform P      take the one for this platform (linux/arm64), not this machine's\n"
	"      --plain-http      talk to this registry without encryption (always so on this machine itself)\n"
	"      --force           replace an image of that name\n"
	"      --max-entries N, --max-bytes SIZE\n"
	"                        as for import\n"
	"  ls [--json]           list images\n"
	"  show NAME             print an image's manifest: packages and versions, digest, what it exposes\n"
	"  verify [NAME...]      compare images with the digests made when they were built; name what differs\n"
	"  rm [--force] NAME...  remove images; with --force also those that sessions are using\n"
	"\n"
	"Examples:\n"
	"  codebox image build                    Python with numpy, pandas, matplotlib and more\n"
	"  codebox image build host               this machine's own /usr, read-only; no download, any distribution\n"
	"  codebox image build --from-session work mine   and then: codebox run --image mine -c 'import polars'\n"
	"  docker save IMAGE > my.tar             and then\n"
	"  codebox image import mine my.tar       and then: codebox run --image mine -c 'print(1)'\n";

/* ---- build ------------------------------------------------------------------------------------------------------ */

struct build_options {
	const char *what, *as, *session;
	bool force, compile;
};

/* The image is made; may be it could not be compiled. */
static int built(const struct cbx_dirs *dirs, const char *name, struct cbx_err *left_out, struct cbx_err *err)
{
	if (left_out->code) {
		cbx_wrap(left_out, "the image is made, but its Python files are not compiled, so imports take longer");
		(void)cbx_image_fail(left_out);
	}
	return cbx_image_summary(dirs->images, name, err);
}

static int build_opened(const struct cbx_dirs *dirs, const struct build_options *o, const struct cbx_recipe *recipe,
			struct cbx_client *client, int script, struct cbx_err *err)
{
	const char *name = o->as ? o->as : recipe->name;
	struct cbx_err left_out = { 0 };
	struct cbx_store store;
	int r = cbx_image_check_taking(dirs, name, o->force, err);

	if (r == 0)
		r = cbx_image_open_store(dirs, &store, err);
	if (r < 0)
		return r;
	r = cbx_build_recipe(dirs, &store, recipe, name, o->force, client, script, &left_out, err);
	cbx_store_release(&store);
	return r < 0 ? r : built(dirs, name, &left_out, err);
}

static int save_opened(const struct cbx_dirs *dirs, struct cbx_saved *saved, struct cbx_client *client,
		       struct cbx_err *err)
{
	struct cbx_store store;
	int r = cbx_image_check_taking(dirs, saved->name, saved->force, err);

	if (r == 0)
		r = cbx_image_open_store(dirs, &store, err);
	if (r < 0)
		return r;
	r = cbx_saved_build(dirs, &store, client, saved, err);
	cbx_store_release(&store);
	return r < 0 ? r : built(dirs, saved->name, &saved->left_out, err);
}

static int save(const struct cbx_dirs *dirs, const struct build_options *o, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s/recipes/finish.py", dirs->share);
	_cleanup_fd_ int script = o->compile ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	struct cbx_saved saved = { .session = o->session, .name = o->what, .force = o->force, .script = script };
	struct cbx_client client;
	int r;

	if (o->compile && script < 0)
		return cbx_fail(err, errno, "open %s", path);
	r = cbx_client_open(dirs, false, NULL, &client, err);
	if (r < 0)
		return r;
	r = save_opened(dirs, &saved, &client, err);
	cbx_client_close(&client);
	return r;
}

static int read_lock(const char *recipe_path, const struct cbx_recipe *recipe, struct cbx_wheellock *ret,
		     struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_wheellock_path(recipe_path);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0 && errno == ENOENT)
		return cbx_refuse(err, "invalid_lock", ENOENT,
				  "the recipe has wheels, and there is no %s, which has their sums; make it with: "
				  "codebox image lock --python 3.11 %s",
				  path, recipe_path);
	return fd < 0 ? cbx_fail(err, errno, "open the lock %s", path) : cbx_wheellock_read(fd, path, recipe, ret, err);
}

/* Root gives itself up before it starts what is installed; by this path it finds it, also where only root gets. */
static int open_dir(const char *path, char **ret, struct cbx_err *err)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return cbx_fail(err, errno, "open %s", path);
	*ret = cbx_xasprintf("/proc/self/fd/%d", fd);
	return fd;
}

static int build_recipe(const struct cbx_dirs *dirs, const struct build_options *o, const struct cbx_recipe *recipe,
			struct cbx_err *err)
{
	_cleanup_free_ char *libexec_path = NULL, *share_path = NULL;
	_cleanup_fd_ int libexec = open_dir(dirs->libexec, &libexec_path, err),
			 share = libexec < 0 ? -1 : open_dir(dirs->share, &share_path, err);
	struct cbx_dirs open_dirs = *dirs;
	_cleanup_free_ char *script_path = cbx_xasprintf("%s/recipes/finish.py", dirs->share);
	bool compile = o->compile && (recipe->compile || recipe->warm);
	struct cbx_client client = { .fd = -1 };
	_cleanup_fd_ int script = -1;
	int r = share < 0 ? -err->code : 0;

	if (r == 0 && compile) {
		script = open(script_path, O_RDONLY | O_CLOEXEC);
		r = script < 0 ? cbx_fail(err, errno, "open %s", script_path)
			       : cbx_client_open(dirs, true, NULL, &client, err);
		if (r < 0 && script >= 0)
			cbx_wrap(err,
				 "the image compiles its Python files in a sandbox (--no-compile skips this step)");
	}
	open_dirs.libexec = libexec_path;
	open_dirs.share = share_path;
	if (r == 0)
		r = build_opened(&open_dirs, o, recipe, compile ? &client : NULL, script, err);
	if (client.fd >= 0)
		cbx_client_close(&client);
	return r;
}

static int build(const struct cbx_dirs *dirs, const struct build_options *o, struct cbx_err *err)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_fd_ int fd = cbx_image_open_recipe(dirs, o->what, &path, err);
	struct cbx_wheellock lock = { 0 };
	struct cbx_recipe recipe;
	int r;

	if (fd < 0)
		return fd;
	r = cbx_recipe_read(fd, path, &recipe, err);
	if (r < 0)
		return r;
	if (recipe.wheels[0]) {
		r = read_lock(path, &recipe, &lock, err);
		recipe.lock = &lock;
	}
	if (r == 0)
		r = build_recipe(dirs, o, &recipe, err);
	cbx_wheellock_release(&lock);
	cbx_recipe_release(&recipe);
	return r;
}

static int main_build(const struct cbx_dirs *dirs, int argc, char **argv)
{
	static const struct option options[] = {
		{ "as", required_argument, NULL, 'a' },
		{ "force", no_argument, NULL, 'f' },
		{ "from-session", required_argument, NULL, 's' },
		{ "no-compile", no_argument, NULL, 'n' },
		{ 0 },
	};
	struct build_options o = { .what = "python", .compile = true };
	struct cbx_err err;
	int c, r = 0;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'a')
			o.as = optarg;
		else if (c == 'f')
			o.force = true;
		else if (c == 's')
			o.session = optarg;
		else if (c == 'n')
			o.compile = false;
		else
			return cbx_image_bad_usage("build: unknown option");
	}
	if (argc - optind > 1)
		return cbx_image_bad_usage("build: unexpected argument: it makes one image at a time");
	if (optind < argc)
		o.what = argv[optind];
	if (o.session && (o.as || optind == argc))
		return cbx_image_bad_usage(
			"build: --from-session: give a session and the name of the image, without --as");
	if (o.as || o.session)
		r = cbx_stage_check_name(o.session ? o.what : o.as, &err);
	if (r == 0)
		r = o.session ? save(dirs, &o, &err) : build(dirs, &o, &err);
	return r < 0 ? cbx_image_fail(&err) : 0;
}

/* ---- the rest --------------------------------------------------------------------------------------------------- */

static int remove_images(const struct cbx_dirs *dirs, char **names, size_t n)
{
	struct cbx_store store;
	struct cbx_err err;
	int failed = 0;

	if (cbx_image_open_store(dirs, &store, &err) < 0)
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
		return cbx_image_bad_usage("rm: give names of images, with --force before them at most");
	for (int i = first; i < argc; i++) {
		int r = cbx_name_valid(argv[i])
				? cbx_image_check_taking(dirs, argv[i], !force, &err)
				: cbx_refuse(&err, "image_not_found", ENOENT,
					     "\"%.80s\" is not the name of an image; see codebox image ls", argv[i]);

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
		return cbx_image_bad_usage("ls: unexpected argument: it takes --json only");
	if (cbx_image_become(dirs, false, &err) >= 0 && cbx_image_ls(dirs->images, json, &err) >= 0)
		return 0;
	if (json) {
		_cleanup_json_ cJSON *e = cbx_json_of_error(&err);
		_cleanup_buf_ struct cbx_buf line = { 0 };

		cbx_json_print(&line, e);
		printf("{\"error\":%s}\n", cbx_buf_str(&line));
	}
	return cbx_image_fail(&err);
}

static int main_show(const struct cbx_dirs *dirs, int argc, char **argv)
{
	struct cbx_err err;

	if (argc != 2 || argv[1][0] == '-')
		return cbx_image_bad_usage("show: give the name of an image");
	if (cbx_image_become(dirs, false, &err) < 0 || cbx_image_show(dirs->images, argv[1], &err) < 0)
		return cbx_image_fail(&err);
	return 0;
}

static int main_verify(const struct cbx_dirs *dirs, int argc, char **argv)
{
	struct cbx_err err;
	int r;

	if (argc > 1 && argv[1][0] == '-')
		return cbx_image_bad_usage("verify: give names of images only");
	if (cbx_image_become(dirs, false, &err) < 0)
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
		{ "build", main_build },
		{ "export", cbx_image_main_export },
		{ "import", cbx_image_main_import },
		{ "lock", cbx_image_main_lock },
		{ "pull", cbx_image_main_pull },
		{ "ls", main_ls },
		{ "rm", main_rm },
		{ "show", main_show },
		{ "verify", main_verify },
	};
	struct cbx_dirs dirs;
	struct cbx_err err;
	int r = -1;

	if (argc < 2)
		return cbx_image_bad_usage(
			"missing command: use build, export, import, lock, ls, pull, rm, show or verify");
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
	return r >= 0 ? r
		      : cbx_image_bad_usage(
				"unknown command: use build, export, import, lock, ls, pull, rm, show or verify");
}
