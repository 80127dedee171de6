/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: credentials are read as whoever started us. Then codebox-pull makes an OCI layout in the cache,
 * of which whatever an interrupted pull left is a part, but without the layers that the store has, and that layout is
 * imported like any other. It is removed when the image is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/commands.h"
#include "image/front.h"
#include "image/image-limits.h"
#include "image/import.h"
#include "image/layers.h"
#include "image/progress.h"
#include "image/pull.h"
#include "image/tree.h"

#define LAYERS "layers" /* in the cache */

struct options {
	struct cbx_import import;
	struct cbx_reference reference;
	struct cbx_credentials credentials;
	char name[CBX_NAME_MAX + 1];
	bool force, plain;
};

static int open_cache(const struct cbx_dirs *dirs, int *ret_cache, int *ret_layers, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s/cache", dirs->data);
	_cleanup_fd_ int cache = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (cache < 0)
		return cbx_fail(err, errno, "open %s", path);
	if (mkdirat(cache, LAYERS, 0755) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make %s/" LAYERS, path);
	*ret_layers = cbx_tree_openat(cache, LAYERS, O_RDONLY | O_DIRECTORY, 0);
	if (*ret_layers < 0)
		return cbx_fail(err, -*ret_layers, "open %s/" LAYERS, path);
	*ret_cache = take_fd(&cache);
	return 0;
}

static int pull_and_import(const struct cbx_dirs *dirs, struct options *o, struct cbx_pull *pull,
			   const struct cbx_store *store, struct cbx_err *err)
{
	_cleanup_fd_ int cache = -1, layers = -1;
	_cleanup_free_ char *full = cbx_reference_print(&o->reference);
	_cleanup_json_ cJSON *have = cbx_layers_list(store->dir);
	char top[CBX_OCI_DIGEST];
	struct cbx_err ignored;
	int r = open_cache(dirs, &cache, &layers, err);

	pull->have = have;
	if (r == 0)
		r = cbx_pull_layout(pull, layers, top, err);
	if (r < 0)
		return r;
	o->import.directory = layers;
	o->import.top = top;
	o->import.reference = full;
	r = cbx_import_image(store, o->name, o->force, &o->import, err);
	o->import.top = o->import.reference = NULL;
	/* Bytes that are not what they were to be are not of use for the next pull, either. */
	if (r == 0 || strcmp(err->kind, "digest_mismatch") == 0)
		(void)cbx_tree_remove(cache, LAYERS, &ignored);
	return r;
}

/* A layer of the store that turned out to be damaged is fetched after all; each time, the store has one less. */
static int pull_until_whole(const struct cbx_dirs *dirs, struct options *o, struct cbx_pull *pull,
			    const struct cbx_store *store, struct cbx_err *err)
{
	int r = -EUCLEAN;

	for (int i = 0; i <= CBX_LAYERS_MAX; i++) {
		struct cbx_import anew = o->import;

		r = pull_and_import(dirs, o, pull, store, err);
		if (r == 0 || strcmp(err->kind, "damaged_layer") != 0)
			break;
		o->import = anew; /* nothing is counted twice */
	}
	return r;
}

static void close_pull(struct cbx_pull *pull)
{
	cbx_close_p(&pull->program);
	cbx_close_p(&pull->share);
}

static int pull(const struct cbx_dirs *dirs, struct options *o, struct cbx_err *err)
{
	_cleanup_(close_pull) struct cbx_pull pull = { .reference = &o->reference,
						       .credentials = &o->credentials,
						       .platform = &o->import.want.platform,
						       .plain = o->plain,
						       .program = -1,
						       .share = -1 };
	_cleanup_free_ char *path = cbx_xasprintf("%s/runtimes", dirs->share);
	_cleanup_(cbx_runtimes_release) struct cbx_runtimes runtimes = { 0 };
	struct cbx_store store;
	int r = cbx_image_check_taking(dirs, o->name, o->force, err);

	if (r == 0)
		r = cbx_runtimes_load(path, &runtimes, err);
	o->import.runtimes = &runtimes;
	if (r == 0)
		r = cbx_credentials_find(&o->reference, &o->credentials, err);
	if (r == 0)
		r = cbx_pull_open(dirs, &pull, err);
	if (r == 0)
		r = cbx_image_open_store(dirs, &store, err);
	if (r < 0)
		return r;
	if (cbx_store_has(&store, o->name) && !o->force)
		r = cbx_refuse(err, "image_exists", EEXIST,
			       "there is an image \"%s\" already; use --force to replace it, or --as for another name",
			       o->name);
	if (r == 0)
		r = pull_until_whole(dirs, o, &pull, &store, err);
	cbx_progress_end();
	cbx_store_release(&store);
	if (r < 0)
		return r;
	cbx_import_say(&o->import);
	return cbx_image_summary(dirs->images, o->name, err);
}

static int parse(int argc, char **argv, struct options *o, struct cbx_err *err)
{
	static const struct option options[] = {
		{ "as", required_argument, NULL, 'a' },
		{ "force", no_argument, NULL, 'f' },
		{ "plain-http", no_argument, NULL, 'h' },
		{ "platform", required_argument, NULL, 'p' },
		{ "max-entries", required_argument, NULL, 'e' },
		{ "max-bytes", required_argument, NULL, 'b' },
		{ 0 },
	};
	const char *as = NULL;
	int c, r = 0;

	while (r == 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'a')
			as = optarg;
		else if (c == 'f')
			o->force = true;
		else if (c == 'h')
			o->plain = true;
		else if (c == 'p' || c == 'e' || c == 'b')
			r = cbx_import_option(&o->import, c, optarg, err);
		else
			return cbx_refuse(err, "usage", EINVAL, "pull: unknown option");
	}
	if (r == 0 && argc - optind != 1)
		return cbx_refuse(err, "usage", EINVAL, "pull: give the name of one image");
	if (r == 0)
		r = cbx_reference_parse(argv[optind], &o->reference, err);
	if (r < 0)
		return r;
	cbx_reference_image_name(&o->reference, o->name);
	if (as && strlen(as) >= sizeof(o->name))
		return cbx_stage_check_name(as, err);
	if (as)
		strcpy(o->name, as);
	r = cbx_stage_check_name(o->name, err);
	return r < 0 && !as ? cbx_wrap(err, "use --as") : r;
}

int cbx_image_main_pull(const struct cbx_dirs *dirs, int argc, char **argv)
{
	struct options o = {
		.import = { .directory = -1,
			    .pulled = true,
			    .max_entries = CBX_UNPACK_ENTRIES_MAX,
			    .max_bytes = CBX_UNPACK_BYTES_MAX },
	};
	struct cbx_err err;
	int r;

	cbx_oci_platform_here(&o.import.want.platform);
	r = parse(argc, argv, &o, &err);
	if (r < 0 && strcmp(err.kind, "usage") == 0)
		return cbx_image_bad_usage(err.msg);
	if (r == 0)
		r = pull(dirs, &o, &err);
	cbx_credentials_release(&o.credentials);
	return r < 0 ? cbx_image_fail(&err) : 0;
}
