/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an argument with a colon before any slash names a session's file, as with scp; exactly one side
 * is a session. copy_get.c and copy_put.c do the work.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/copy.h"

struct place {
	char session[CBX_NAME_MAX + 1]; /* "": this machine */
	const char *path;
};

/* 0, or an exit status. */
static int parse_place(const char *arg, struct place *ret)
{
	const char *colon = strchr(arg, ':'), *slash = strchr(arg, '/');

	ret->session[0] = '\0';
	ret->path = arg;
	if (!colon || (slash && slash < colon))
		return 0;
	if (colon - arg > CBX_NAME_MAX)
		return cbx_cli_usage("cp", "%s: the name of the session is too long", arg);
	memcpy(ret->session, arg, (size_t)(colon - arg));
	ret->session[colon - arg] = '\0';
	if (!cbx_name_valid(ret->session))
		return cbx_cli_usage("cp",
				     "%s: \"%s\" is not the name of a session; write ./%s for a file of this machine",
				     arg, ret->session, arg);
	ret->path = colon[1] ? colon + 1 : ".";
	return 0;
}

static bool local_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool remote_directory(const struct cbx_copy *c, const char *path)
{
	struct cbx_remote_stat st;
	struct cbx_err ignored;

	return cbx_remote_stat(&c->remote, path, &st, &ignored) == 0 && st.type == CBX_REMOTE_DIRECTORY;
}

static int copy_all(struct cbx_copy *c, const struct place *src, size_t n, const struct place *dst)
{
	bool get = src[0].session[0];
	bool into = get ? local_directory(dst->path) : remote_directory(c, dst->path);
	int status = CBX_EXIT_OK;

	if (n > 1 && !into) {
		cbx_cli_say("%s is not a directory: several files need one to go to", dst->path);
		return CBX_EXIT_FAILURE;
	}
	for (size_t i = 0; i < n; i++) {
		struct cbx_err err;
		int r = get ? cbx_copy_get(c, src[i].path, dst->path, into, &err)
			    : cbx_copy_put(c, src[i].path, dst->path, into, &err);

		if (r < 0)
			status = cbx_cli_fail(&err);
		if (r < 0 && strcmp(err.kind, "system") == 0)
			status = CBX_EXIT_FAILURE;
	}
	return status == CBX_EXIT_OK && c->errors ? CBX_EXIT_FAILURE : status;
}

static int check_places(const struct place *src, size_t n, const struct place *dst)
{
	for (size_t i = 0; i < n; i++) {
		if (!src[i].session[0] == !dst->session[0])
			return cbx_cli_usage("cp",
					     dst->session[0] ? "%s: copying from session to session is not possible; "
							       "copy to this machine first"
							     : "%s: neither side is a session; write SESSION:PATH",
					     src[i].path);
		if (strcmp(src[i].session, src[0].session) != 0)
			return cbx_cli_usage("cp", "all files must come from one session");
	}
	return 0;
}

static int connect_and_copy(struct cbx_copy *c, const struct place *src, size_t n, const struct place *dst)
{
	struct cbx_client client;
	struct cbx_err err;
	int r = cbx_cli_client(false, &client, &err);

	c->remote.session = dst->session[0] ? dst->session : src[0].session;
	if (r == 0) {
		cbx_cli_say("there is no session \"%s\" (codeboxd is not running)", c->remote.session);
		return CBX_EXIT_FAILURE;
	}
	if (r < 0)
		return cbx_cli_fail(&err);
	c->remote.client = &client;
	r = copy_all(c, src, n, dst);
	cbx_client_close(&client);
	return r;
}

static int run_cp(int argc, char **argv)
{
	static const struct option options[] = { { "recursive", no_argument, NULL, 'r' }, { 0 } };
	_cleanup_free_ struct place *places = NULL;
	struct cbx_copy c = { 0 };
	size_t n;
	int o, r;

	opterr = 0;
	while ((o = getopt_long(argc, argv, ":rR", options, NULL)) >= 0) {
		if (o != 'r' && o != 'R')
			return cbx_cli_bad_option("cp", o, argv);
		c.recursive = true;
	}
	if (argc - optind < 2)
		return cbx_cli_usage("cp", "missing argument: give a source and a destination");
	n = (size_t)(argc - optind);
	places = cbx_xcalloc(n, sizeof(*places));
	for (size_t i = 0; i < n; i++) {
		r = parse_place(argv[optind + (int)i], &places[i]);
		if (r)
			return r;
	}
	r = check_places(places, n - 1, &places[n - 1]);
	return r ? r : connect_and_copy(&c, places, n - 1, &places[n - 1]);
}

static const char help[] =
	"Usage: codebox cp [-r] SESSION:PATH... DESTINATION\n"
	"       codebox cp [-r] SOURCE... SESSION:PATH\n"
	"\n"
	"Copies between this machine and a session. PATH is relative to the session's /workspace unless it starts\n"
	"with a slash. A destination that is a directory gets the files under their own names. Existing files are\n"
	"replaced. Symbolic links and special files inside a directory are not copied.\n"
	"\n"
	"Options:\n"
	"  -r, --recursive   copy directories with all that is in them\n"
	"\n"
	"Examples:\n"
	"  codebox cp penguins.csv work:                   into /workspace\n"
	"  codebox cp work:report.xlsx .                   and back\n"
	"  codebox cp -r work:plots ./plots                a directory\n"
	"  codebox cp work:/tmp/log.txt /dev/stdout        to the terminal\n";

const struct cbx_command cbx_cmd_cp = {
	.name = "cp",
	.summary = "copy files into and out of a session",
	.help = help,
	.run = run_cp,
};
