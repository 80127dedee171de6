/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: one archive is unpacked as a root file system. If an image's layers turn out to be in it, that
 * tree is set aside; a directory has them from the start, and several archives are layers themselves. Each layer is
 * taken from the store (layers.h), or unpacked alone for it, and the image is composed of all of them. Whatever is
 * unpacked is unpacked by the confined worker, and what it holds is only believed after its digest was compared.
 */
#include "image/import.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/build.h"
#include "image/compose.h"
#include "image/fixup.h"
#include "image/image-limits.h"
#include "image/layer.h"
#include "image/layout.h"
#include "image/link.h"
#include "image/progress.h"
#include "image/scan.h"

static void show_progress(void *arg, const struct cbx_unpack_stats *s)
{
	const struct cbx_import *import = arg;
	char size[32];

	cbx_format_size(import->stats.bytes + s->bytes, size);
	cbx_progress_update("%llu entries, %s", (unsigned long long)(import->stats.entries + s->entries), size);
}

static int unpack(int root, int archive, enum cbx_whiteouts whiteouts, struct cbx_import *import,
		  struct cbx_unpack_stats *stats, struct cbx_err *err)
{
	struct cbx_unpack_options o = {
		.format = CBX_ARCHIVE_TAR,
		.whiteouts = whiteouts,
		.used_entries = import->stats.entries,
		.used_bytes = import->stats.bytes,
		.max_entries = import->max_entries,
		.max_bytes = import->max_bytes,
	};

	return cbx_unpack_in_worker(archive, root, &o, stats, show_progress, import, err);
}

/* What was counted when a layer was unpacked counts for this image, too. */
static int check_sums(const struct cbx_import *import, const struct cbx_layer *layer, struct cbx_err *err)
{
	if (import->stats.entries + layer->stats.entries > import->max_entries)
		return cbx_refuse(err, "archive_too_large", EFBIG,
				  "the image has more than %llu entries, with the directories on the way to them",
				  (unsigned long long)import->max_entries);
	if (import->stats.bytes + layer->stats.bytes > import->max_bytes)
		return cbx_refuse(err, "archive_too_large", EFBIG, "the image holds more than %llu bytes",
				  (unsigned long long)import->max_bytes);
	return 0;
}

/* From the store, or else of its archive, which is -1 if it was not fetched since the store seemed to have it. */
static int open_layer(struct cbx_stage *stage, const char *digest, int archive, struct cbx_import *import,
		      struct cbx_layer *ret, struct cbx_err *err)
{
	int r = cbx_layer_find(stage->dir, stage->store->dir, digest, stage->known, ret);

	if (r > 0)
		return check_sums(import, ret, err);
	if (archive < 0)
		return cbx_refuse(
			err, "damaged_layer", EUCLEAN,
			"the layer %s of another image was damaged, and is not used any more; run the command again",
			digest);
	r = cbx_layer_begin(stage->dir, digest, ret, err);
	if (r == 0)
		r = unpack(ret->tree, archive, CBX_WHITEOUTS_KEPT, import, &ret->stats, err);
	return r < 0 ? r : cbx_layer_complete(ret, stage->known, err);
}

static int add_layer(struct cbx_stage *stage, const char *digest, int archive, struct cbx_import *import,
		     cJSON *manifest, struct cbx_err *err)
{
	cJSON *composed = cbx_json_member(manifest, "composed"), *one;
	struct cbx_layer layer = { .dir = -1, .tree = -1 };
	int r = open_layer(stage, digest, archive, import, &layer, err);

	if (r == 0)
		r = cbx_compose_layer(layer.tree, stage->rootfs, err);
	cbx_layer_close(&layer);
	if (r < 0)
		return r;
	cbx_unpack_add(&import->stats, &layer.stats);
	import->layers++;
	import->kept += layer.kept;
	if (!composed)
		cbx_json_set(manifest, "composed", composed = cbx_json_new_arr());
	one = cbx_json_new_obj();
	cbx_json_set_str(one, "digest", digest);
	cbx_json_set_u64(one, "bytes", layer.stats.bytes);
	cbx_json_push(composed, one);
	return 0;
}

static int unpack_archive(struct cbx_stage *stage, struct cbx_import *import, struct cbx_err *err)
{
	cbx_progress_step("Unpacking the archive");
	return unpack(stage->rootfs, import->archives[0], CBX_WHITEOUTS_OMITTED, import, &import->stats, err);
}

static int compose_archives(struct cbx_stage *stage, struct cbx_import *import, cJSON *manifest, struct cbx_err *err)
{
	for (size_t i = 0; i < import->n; i++) {
		char digest[CBX_OCI_DIGEST] = "sha256:";
		_cleanup_fd_ int copy = -1;
		int r = cbx_copy_privately(import->archives[i], stage->dir, &copy);

		cbx_progress_step("Unpacking archive %zu of %zu", i + 1, import->n);
		if (r < 0)
			return cbx_fail(err, -r, "copy archive %zu", i + 1);
		r = cbx_scan_hash_fd(copy, digest + strlen(digest), err);
		if (r == 0)
			r = add_layer(stage, digest, copy, import, manifest, err);
		if (r < 0)
			return cbx_wrap(err, "archive %zu", i + 1);
	}
	return 0;
}

static int compose_layout(struct cbx_stage *stage, const struct cbx_layout *layout, struct cbx_import *import,
			  cJSON *manifest, struct cbx_err *err)
{
	/* What was pulled, or was in an archive, is in a directory of ours. */
	int copies = layout->dir == import->directory && !import->pulled ? stage->dir : -1;

	for (size_t i = 0; i < layout->n; i++) {
		char digest[CBX_OCI_DIGEST];
		_cleanup_fd_ int fd = -1;
		int r = 0;

		cbx_progress_step("Unpacking layer %zu of %zu", i + 1, layout->n);
		strcpy(digest, layout->layers[i].digest);
		if (!import->pulled || !cbx_layer_there(stage->store->dir, digest))
			r = cbx_layout_open(layout, i, copies, &fd, digest, err);
		if (r < 0)
			return r;
		r = add_layer(stage, digest, fd, import, manifest, err);
		if (r < 0)
			return cbx_wrap(err, "layer %zu", i + 1);
	}
	return 0;
}

static int describe(const struct cbx_layout *layout, const struct cbx_import *import, cJSON *manifest,
		    struct cbx_buf *note, struct cbx_err *err)
{
	cJSON *origin = cbx_json_new_obj();
	char platform[64];
	int omitted;

	cbx_oci_platform_print(&import->want.platform, platform);
	cbx_json_set_str(origin, "format", layout->format);
	cbx_json_set_str(origin, "reference", import->reference ? import->reference : layout->reference);
	if (layout->digest[0])
		cbx_json_set_str(origin, "digest", layout->digest);
	cbx_json_set_str(origin, "platform", platform);
	cbx_json_set(manifest, "origin", origin);
	omitted = cbx_oci_config_describe(layout->config, manifest, err);
	if (omitted < 0)
		return omitted;
	cbx_buf_addf(note, "Imported from %zu layer%s.", layout->n, layout->n == 1 ? "" : "s");
	if (omitted)
		cbx_buf_addf(note, " Omitted: %d variables that a session sets itself or that are not variables.",
			     omitted);
	return 0;
}

/* A session has one user, whose name and account are those that the image's programs expect. */
static int take_user(int root, cJSON *manifest, struct cbx_err *err)
{
	cJSON *environment = cbx_json_member(manifest, "environment");
	const cJSON *said = cbx_json_member(manifest, "config");
	char name[CBX_USER_NAME_MAX + 1];
	int r = cbx_fixup_user(root, cbx_json_text(said, "user"), name, err);

	if (r < 0 || !name[0])
		return r;
	cbx_json_set_str(environment, "USER", name);
	cbx_json_set_str(environment, "LOGNAME", name);
	return 0;
}

static int fill_from_layout(struct cbx_stage *stage, int dir, struct cbx_import *import, cJSON *manifest,
			    struct cbx_buf *note, struct cbx_err *err)
{
	struct cbx_layout layout;
	int r = cbx_layout_read(dir, &import->want, import->top, &layout, err);

	if (r < 0)
		return r;
	r = compose_layout(stage, &layout, import, manifest, err);
	if (r == 0)
		r = describe(&layout, import, manifest, note, err);
	if (r == 0)
		r = take_user(stage->rootfs, manifest, err);
	cbx_layout_release(&layout);
	return r;
}

static int fill_from_archives(struct cbx_stage *stage, struct cbx_import *import, cJSON *manifest, struct cbx_buf *note,
			      struct cbx_err *err)
{
	_cleanup_fd_ int aside = -1;
	int r = import->n > 1 ? compose_archives(stage, import, manifest, err) : unpack_archive(stage, import, err);

	if (r == 0 && !import->stats.entries)
		r = cbx_refuse(err, "damaged_archive", EBADMSG, "the archive holds nothing");
	if (r < 0)
		return r;
	if (import->n > 1 || !cbx_layout_is(stage->rootfs)) {
		if (import->want.tag)
			return cbx_refuse(
				err, "invalid_argument", EINVAL,
				"--tag: the archive is a root file system, without images to choose from; omit it");
		cbx_buf_addf(note, "Imported from %zu archive%s.", import->n, import->n == 1 ? "" : "s");
		return 0;
	}
	r = cbx_stage_set_aside(stage, &aside, err);
	memset(&import->stats, 0, sizeof(import->stats));
	if (r == 0)
		r = fill_from_layout(stage, aside, import, manifest, note, err);
	return r < 0 ? r : cbx_stage_drop_aside(stage, err);
}

static int fill(struct cbx_stage *stage, struct cbx_import *import, cJSON *manifest, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf note = { 0 };
	cJSON *interpreters, *env = cbx_json_new_obj();
	int r;

	cbx_json_set_str(env, "LANG", "C.UTF-8");
	cbx_json_set_str(env, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	cbx_json_set(manifest, "environment", env);
	cbx_json_set(manifest, "packages", cbx_json_new_arr());
	r = import->directory >= 0 ? fill_from_layout(stage, import->directory, import, manifest, &note, err)
				   : fill_from_archives(stage, import, manifest, &note, err);
	if (r == 0)
		r = cbx_fixup_standard(stage->rootfs, err);
	if (r < 0)
		return r;
	interpreters = cbx_fixup_find_interpreters(stage->rootfs, import->runtimes);
	import->no_python = !cbx_json_member(interpreters, "python");
	import->no_interpreter = !interpreters->child;
	cbx_json_set(manifest, "interpreters", interpreters);
	cbx_buf_addf(
		&note,
		" Omitted: %llu devices, FIFOs and sockets. Dropped: special mode bits of %llu entries, extended "
		"attributes of %llu.",
		(unsigned long long)import->stats.special, (unsigned long long)import->stats.modes,
		(unsigned long long)import->stats.attributes);
	cbx_json_set_str(manifest, "note", note.data);
	return 0;
}

int cbx_import_image(const struct cbx_store *store, const char *name, bool force, struct cbx_import *import,
		     struct cbx_err *err)
{
	_cleanup_json_ cJSON *manifest = NULL;
	struct cbx_scan_known known = { 0 };
	struct cbx_stage stage;
	int r = cbx_build_check_free(store, name, force, err);

	if (r == 0)
		r = cbx_stage_new(store, name, &stage, err);
	if (r < 0)
		return r;
	stage.known = &known;
	manifest = cbx_build_manifest(name, "archive", NULL);
	r = fill(&stage, import, manifest, err);
	if (r == 0)
		r = cbx_build_complete(&stage, manifest, force, err);
	cbx_progress_end();
	cbx_stage_release(&stage);
	cbx_scan_known_release(&known);
	return r;
}

int cbx_import_option(struct cbx_import *import, int option, const char *value, struct cbx_err *err)
{
	if (option == 'p')
		return cbx_oci_platform_parse(value, &import->want.platform, err);
	if (option == 'e')
		return cbx_parse_u64(value, "--max-entries", 1, CBX_UNPACK_ENTRIES_MAX, &import->max_entries, err);
	return cbx_parse_size(value, "--max-bytes", 1, CBX_UNPACK_BYTES_MAX, &import->max_bytes, err);
}

void cbx_import_say(const struct cbx_import *import)
{
	if (import->kept)
		fprintf(stderr, "%zu of %zu layers were here already.\n", import->kept, import->layers);
	if (import->stats.special || import->stats.modes || import->stats.attributes)
		fprintf(stderr,
			"Omitted %llu devices, FIFOs and sockets; dropped special mode bits of %llu entries and "
			"extended attributes of %llu.\n",
			(unsigned long long)import->stats.special, (unsigned long long)import->stats.modes,
			(unsigned long long)import->stats.attributes);
	if (import->no_interpreter)
		fprintf(stderr, "No interpreter was found in the image: it has programs only, and cannot run cells.\n");
	else if (import->no_python)
		fprintf(stderr, "No Python was found in the image; it cannot be used for Python sessions.\n");
}
