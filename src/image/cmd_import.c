/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "image/commands.h"
#include "image/front.h"
#include "image/image-limits.h"
#include "image/import.h"

struct options {
	struct cbx_import import;
	int fds[CBX_LAYERS_MAX];
	bool force;
};

/* A directory alone, or regular files. */
static int open_sources(char **paths, size_t n, struct options *o, struct cbx_err *err)
{
	for (size_t i = 0; i < n; i++) {
		int fd = open(paths[i], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		struct stat st;

		o->fds[i] = fd;
		if (fd < 0)
			return cbx_fail(err, errno, "open %s", paths[i]);
		if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && n == 1) {
			o->import.directory = fd;
			o->import.n = 0;
			return 0;
		}
		if (!S_ISREG(st.st_mode))
			return cbx_refuse(err, "invalid_argument", EINVAL, "%s is not a regular file%s", paths[i],
					  S_ISDIR(st.st_mode) ? "; an OCI layout is imported alone" : "");
	}
	o->import.n = n;
	return 0;
}

static int import_opened(const struct cbx_dirs *dirs, const char *name, struct options *o, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s/runtimes", dirs->share);
	_cleanup_(cbx_runtimes_release) struct cbx_runtimes runtimes = { 0 };
	struct cbx_store store;
	int r = cbx_image_check_taking(dirs, name, o->force, err);

	if (r == 0)
		r = cbx_runtimes_load(path, &runtimes, err);
	o->import.runtimes = &runtimes;
	if (r == 0)
		r = cbx_image_open_store(dirs, &store, err);
	if (r < 0)
		return r;
	r = cbx_import_image(&store, name, o->force, &o->import, err);
	cbx_store_release(&store);
	if (r < 0)
		return r;
	cbx_import_say(&o->import);
	return cbx_image_summary(dirs->images, name, err);
}

static int parse(int argc, char **argv, struct options *o, struct cbx_err *err)
{
	static const struct option options[] = {
		{ "force", no_argument, NULL, 'f' },	     { "max-entries", required_argument, NULL, 'e' },
		{ "max-bytes", required_argument, NULL, 'b' }, { "platform", required_argument, NULL, 'p' },
		{ "tag", required_argument, NULL, 't' },     { 0 },
	};
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'f')
			o->force = true;
		else if (c == 'p' || c == 'e' || c == 'b')
			r = cbx_import_option(&o->import, c, optarg, err);
		else if (c == 't')
			o->import.want.tag = optarg;
		else
			return cbx_refuse(err, "usage", EINVAL, "import: unknown option");
	}
	return r;
}

int cbx_image_main_import(const struct cbx_dirs *dirs, int argc, char **argv)
{
	struct options o = {
		.import = { .directory = -1,
			    .max_entries = CBX_UNPACK_ENTRIES_MAX,
			    .max_bytes = CBX_UNPACK_BYTES_MAX },
	};
	struct cbx_err err;
	int r;

	for (size_t i = 0; i < CBX_LAYERS_MAX; i++)
		o.fds[i] = -1;
	o.import.archives = o.fds;
	cbx_oci_platform_here(&o.import.want.platform);
	r = parse(argc, argv, &o, &err);
	if (r < 0 && strcmp(err.kind, "usage") == 0)
		return cbx_image_bad_usage(err.msg);
	if (r == 0 && (argc - optind < 2 || argc - optind > CBX_LAYERS_MAX + 1))
		return cbx_image_bad_usage("import: give a name and at least one archive, or a directory");
	if (r == 0)
		r = cbx_stage_check_name(argv[optind], &err);
	if (r == 0)
		r = open_sources(argv + optind + 1, (size_t)(argc - optind - 1), &o, &err);
	if (r == 0)
		r = import_opened(dirs, argv[optind], &o, &err);
	for (size_t i = 0; i < CBX_LAYERS_MAX; i++)
		cbx_close_p(&o.fds[i]);
	return r < 0 ? cbx_image_fail(&err) : 0;
}
