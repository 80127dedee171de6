/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: fill a staging directory, step by step; then list and hash what is in it, write the manifest,
 * and publish. The order for packages: links of the merged /usr, packages in the order in which apt lists them
 * (dependencies first), the recipe's wheels, links, files and bundles, what every image needs, and last the step in a
 * sandbox, which needs all the others.
 */
#include "image/build.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/fetch.h"
#include "image/finish.h"
#include "image/fixup.h"
#include "image/host.h"
#include "image/image-limits.h"
#include "image/progress.h"
#include "image/scan.h"
#include "image/tree.h"
#include "image/unpack.h"
#include "image/wheellock.h"
#include "image/wheels.h"

static const char *architecture(void)
{
	static const char *const names[][2] = {
		{ "x86_64", "amd64" }, { "aarch64", "arm64" },	 { "armv7l", "armhf" },
		{ "i686", "i386" },    { "ppc64le", "ppc64el" },
	};
	static struct utsname u;

	if (uname(&u) < 0)
		return "unknown";
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(u.machine, names[i][0]) == 0)
			return names[i][1];
	return u.machine;
}

static cJSON *layer(const char *source, const char *target)
{
	cJSON *l = cbx_json_new_obj();

	cbx_json_set_str(l, "source", source);
	cbx_json_set_str(l, "target", target);
	return l;
}

cJSON *cbx_build_manifest(const char *name, const char *kind, const char *description)
{
	cJSON *m = cbx_json_new_obj(), *layers = cbx_json_new_arr();
	char created[32];

	cbx_format_time(time(NULL), created);
	cbx_json_set_u64(m, "format", 1);
	cbx_json_set_str(m, "name", name);
	cbx_json_set_str(m, "kind", kind);
	cbx_json_set_str(m, "description", description);
	cbx_json_set_str(m, "created", created);
	cbx_json_set_str(m, "architecture", architecture());
	cbx_json_push(layers, layer("rootfs", "/"));
	if (strcmp(kind, "host") == 0)
		cbx_json_push(layers, layer("host:/usr", "/usr"));
	cbx_json_set(m, "layers", layers);
	return m;
}

static void set_copy(cJSON *m, const char *key, const cJSON *value)
{
	cbx_json_set(m, key, value ? cJSON_Duplicate(value, 1) : cbx_json_new_obj());
}

static void set_preload(cJSON *m, const struct cbx_recipe *recipe)
{
	if (recipe->preload)
		cbx_json_set(m, "preload", cJSON_Duplicate(recipe->preload, 1));
	if (recipe->no_zygote)
		cbx_json_set_bool(m, "zygote", false);
}

/* List, hash, write files.txt and the manifest, publish. */
int cbx_build_complete(struct cbx_stage *stage, cJSON *manifest, bool force, struct cbx_err *err)
{
	struct cbx_scan scan;
	char digest[72];
	int r;

	cbx_progress_step("Listing and hashing files");
	r = cbx_scan_tree_known(stage->rootfs, stage->known, &scan, err);
	if (r < 0)
		return r;
	cbx_scan_digest(scan.text.data, scan.text.len, digest);
	cbx_json_set_str(manifest, "digest", digest);
	cbx_json_set_u64(manifest, "files", scan.files);
	cbx_json_set_u64(manifest, "bytes", scan.bytes);
	r = cbx_tree_write(stage->dir, CBX_LISTING_FILE, cbx_buf_str(&scan.text), scan.text.len, 0644, err);
	cbx_scan_release(&scan);
	if (r == 0)
		r = cbx_stage_write_manifest(stage, manifest, err);
	if (r < 0)
		return r;
	cbx_progress_step("Writing to disk");
	return cbx_stage_publish(stage, force, err);
}

static int unpack_packages(int root, const struct cbx_recipe *recipe, struct cbx_fetch *fetch,
			   struct cbx_unpack_stats *sum, struct cbx_err *err)
{
	struct cbx_unpack_options o = {
		.format = CBX_ARCHIVE_DEB,
		.merge_usr = true,
		.exclude = recipe->exclude,
		.include = recipe->include,
		.max_entries = CBX_UNPACK_ENTRIES_MAX,
		.max_bytes = CBX_UNPACK_BYTES_MAX,
	};

	cbx_progress_step("Unpacking %zu packages", fetch->n);
	for (size_t i = 0; i < fetch->n; i++) {
		struct cbx_package *p = &fetch->packages[i];
		_cleanup_fd_ int fd = -1;
		struct cbx_unpack_stats s;
		int r = cbx_fetch_open(fetch, p, &fd, err);

		if (r < 0)
			return r;
		o.used_entries = sum->entries;
		o.used_bytes = sum->bytes;
		r = cbx_unpack_in_worker(fd, root, &o, &s, NULL, NULL, err);
		if (r < 0)
			return cbx_wrap(err, "unpack %s", p->name);
		cbx_unpack_add(sum, &s);
		p->bytes = s.bytes;
		cbx_progress_update("%zu of %zu, %s", i + 1, fetch->n, p->name);
	}
	return 0;
}

static cJSON *package_list(const struct cbx_fetch *fetch)
{
	cJSON *list = cbx_json_new_arr();

	for (size_t i = 0; i < fetch->n; i++) {
		cJSON *p = cbx_json_new_obj();

		cbx_json_set_str(p, "name", fetch->packages[i].name);
		cbx_json_set_str(p, "version", fetch->packages[i].version);
		cbx_json_set_u64(p, "bytes", fetch->packages[i].bytes);
		cbx_json_push(list, p);
	}
	return list;
}

/* The archive that the sandbox left, into the image: only new files, only where they belong. */
static int take_finished(const struct cbx_stage *stage, int archive, const cJSON *warm, struct cbx_err *err)
{
	const char *only[32] = { "*/__pycache__/*.pyc", "etc/ld.so.cache" };
	const size_t fixed = 2;
	struct cbx_unpack_options o = {
		.format = CBX_ARCHIVE_TAR,
		.add_only = true,
		.only = only,
		.max_entries = CBX_UNPACK_ENTRIES_MAX,
		.max_bytes = CBX_UNPACK_BYTES_MAX,
	};
	struct cbx_unpack_stats stats;
	const cJSON *step;
	size_t n = fixed;
	int r;

	cJSON_ArrayForEach(step, warm)
		if (n + 1 < ARRAY_SIZE(only))
			only[n++] = cbx_xasprintf("%s/*", cbx_json_member(step, "into")->valuestring);
	r = cbx_unpack_in_worker(archive, stage->rootfs, &o, &stats, NULL, NULL, err);
	while (n > fixed)
		free((char *)only[--n]);
	return r;
}

int cbx_build_finish(struct cbx_stage *stage, const cJSON *compile, const cJSON *warm, cJSON *manifest,
		     struct cbx_client *client, int script, struct cbx_err *left_out, struct cbx_err *err)
{
	_cleanup_fd_ int archive = openat(stage->dir, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	_cleanup_json_ cJSON *unfinished = cJSON_Duplicate(manifest, 1);
	char name[CBX_NAME_MAX + 1];
	int r;

	if (archive < 0) /* not every file system has nameless files */
		archive = openat(stage->dir, "finished", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (archive < 0)
		return cbx_fail(err, errno, "make a file in the image store");
	(void)unlinkat(stage->dir, "finished", 0);
	cbx_progress_step("Compiling in a sandbox (a minute or two)");
	r = cbx_stage_expose(stage, name, sizeof(name), err);
	if (r < 0)
		return r;
	cJSON_ReplaceItemInObjectCaseSensitive(unfinished, "name", cJSON_CreateString(name));
	cbx_json_set_bool(unfinished, "unfinished", true);
	r = cbx_stage_write_manifest(stage, unfinished, err);
	if (r == 0)
		r = cbx_finish_run(client, name, script, compile, warm, archive, err);
	/* Nothing of it is in the image yet. */
	if (r < 0 && (strcmp(err->kind, CBX_FINISH_FORBIDDEN) == 0 || strcmp(err->kind, CBX_FINISH_TOO_LITTLE) == 0)) {
		*left_out = *err;
		return 0;
	}
	if (r == 0)
		r = take_finished(stage, archive, warm, err);
	return r < 0 ? cbx_wrap(err, "compile in a sandbox (--no-compile leaves this step out)") : 0;
}

/* Unpack an archive of nothing: better to learn now than after a download that this machine does not allow it. */
static int try_worker(int root, struct cbx_err *err)
{
	static const char nothing[1024];
	struct cbx_unpack_options o = { .format = CBX_ARCHIVE_TAR };
	_cleanup_fd_ int fd = memfd_create("archive", MFD_CLOEXEC);
	struct cbx_unpack_stats stats;

	if (fd < 0 || write(fd, nothing, sizeof(nothing)) != (ssize_t)sizeof(nothing))
		return cbx_fail(err, errno, "make a file in memory");
	return cbx_unpack_in_worker(fd, root, &o, &stats, NULL, NULL, err);
}

static bool listed(const char *const *list, const char *name)
{
	while (*list && strcmp(*list, name) != 0)
		list++;
	return *list;
}

/* What comes from a wheel does not come from Debian as well, but where the recipe asks for both. */
static int fetch_packages(const char *cache, const struct cbx_recipe *recipe, struct cbx_fetch *ret,
			  struct cbx_err *err)
{
	size_t n = 0, given = 0;
	const cJSON *v;
	const char **omit;
	int r;

	while (recipe->omit[given])
		given++;
	omit = cbx_xcalloc(given + CBX_LOCKED_MAX + 1, sizeof(*omit));
	for (; n < given; n++)
		omit[n] = recipe->omit[n];
	cJSON_ArrayForEach(v, (recipe->lock ? recipe->lock->wheels : NULL)) {
		char *twin = cbx_xasprintf("python3-%s", cbx_json_text(v, "name"));

		if (listed(recipe->packages, twin) || listed(omit, twin))
			free(twin);
		else
			omit[n++] = twin;
	}
	r = cbx_fetch_packages(cache, recipe->packages, omit, ret, err);
	while (n > given)
		free((char *)omit[--n]);
	free(omit);
	return r;
}

static int fill_debian(const struct cbx_dirs *dirs, struct cbx_stage *stage, const struct cbx_recipe *recipe,
		       cJSON *manifest, struct cbx_err *err)
{
	_cleanup_free_ char *cache = cbx_xasprintf("%s/cache", dirs->data);
	struct cbx_unpack_stats sum = { 0 };
	struct cbx_fetch fetch;
	int r = try_worker(stage->rootfs, err);

	if (r == 0)
		r = fetch_packages(cache, recipe, &fetch, err);
	if (r < 0)
		return r;
	r = cbx_fixup_merge_links(stage->rootfs, err);
	if (r == 0)
		r = unpack_packages(stage->rootfs, recipe, &fetch, &sum, err);
	if (r == 0 && recipe->lock)
		r = cbx_wheels_add(dirs, stage, recipe, &sum, manifest, err);
	if (r == 0) {
		cbx_json_set(manifest, "packages", package_list(&fetch));
		set_copy(manifest, "interpreters", recipe->interpreters);
		set_preload(manifest, recipe);
		cbx_json_set_str(manifest, "note", recipe->note);
	}
	cbx_fetch_release(&fetch);
	return r;
}

static int fill_host(struct cbx_stage *stage, const struct cbx_recipe *recipe, cJSON *manifest, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf note = { 0 };
	cJSON *interpreters = NULL;
	int r;

	cbx_progress_step("Copying what is needed of /etc");
	cbx_buf_adds(&note, recipe->note ? recipe->note : "");
	r = cbx_host_fill(stage->rootfs, recipe, &interpreters, &note, err);
	if (r < 0)
		return r;
	cbx_json_set(manifest, "interpreters", interpreters);
	set_preload(manifest, recipe);
	cbx_json_set(manifest, "packages", cbx_json_new_arr());
	cbx_json_set_str(manifest, "note", cbx_buf_str(&note));
	return 0;
}

static int fill(const struct cbx_dirs *dirs, struct cbx_stage *stage, const struct cbx_recipe *recipe, cJSON *manifest,
		struct cbx_err *err)
{
	int r = recipe->host ? fill_host(stage, recipe, manifest, err)
			     : fill_debian(dirs, stage, recipe, manifest, err);

	if (r == 0)
		r = cbx_fixup_links(stage->rootfs, recipe->links, err);
	if (r == 0)
		r = cbx_fixup_files(stage->rootfs, recipe->files, err);
	if (r == 0)
		r = cbx_fixup_bundles(stage->rootfs, recipe->bundles, err);
	return r < 0 ? r : cbx_fixup_standard(stage->rootfs, err);
}

int cbx_build_check_free(const struct cbx_store *store, const char *name, bool force, struct cbx_err *err)
{
	int r = cbx_stage_check_name(name, err);

	if (r == 0 && !force && cbx_store_has(store, name))
		r = cbx_refuse(err, "image_exists", EEXIST,
			       "there is an image \"%s\" already; use --force to replace it", name);
	return r;
}

int cbx_build_recipe(const struct cbx_dirs *dirs, const struct cbx_store *store, const struct cbx_recipe *recipe,
		     const char *name, bool force, struct cbx_client *client, int script, struct cbx_err *left_out,
		     struct cbx_err *err)
{
	_cleanup_json_ cJSON *manifest = NULL;
	struct cbx_stage stage;
	int r = cbx_build_check_free(store, name, force, err);

	if (r == 0)
		r = cbx_stage_new(store, name, &stage, err);
	if (r < 0)
		return r;
	manifest = cbx_build_manifest(name, recipe->host ? "host" : "recipe", recipe->description);
	cbx_json_set_str(manifest, "recipe", recipe->digest);
	set_copy(manifest, "environment", recipe->environment);
	r = fill(dirs, &stage, recipe, manifest, err);
	if (r == 0 && client && (recipe->compile || recipe->warm))
		r = cbx_build_finish(&stage, recipe->compile, recipe->warm, manifest, client, script, left_out, err);
	if (r == 0)
		r = cbx_build_complete(&stage, manifest, force, err);
	cbx_progress_end();
	cbx_stage_release(&stage);
	return r;
}
