/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: codeboxd says what the session has, and where. Those files came from wheels that were judged,
 * compared with their hashes and unpacked by a confined process, and a sandbox has only ever seen them read-only; code
 * in the session has no say in what becomes of the image. Names, kinds, depth, number and size of what is there are
 * checked all the same, as those of an archive are. The directory lasts as long as the session: codeboxd is asked again
 * when all is linked, so that a session that ended meanwhile leaves no part of an image.
 */
#include "image/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "image/build.h"
#include "image/graft.h"
#include "image/image-limits.h"
#include "image/progress.h"
#include "image/tree.h"

/* ---- links ---- */

static int link_base(struct cbx_graft *g, const struct cbx_stage *stage, const char *base)
{
	_cleanup_fd_ int dir = cbx_tree_openat(stage->store->dir, base, O_RDONLY | O_DIRECTORY, 0), root = -1;

	root = dir < 0 ? dir : cbx_tree_openat(dir, "rootfs", O_RDONLY | O_DIRECTORY, 0);
	cbx_progress_step("Linking the files of the image %s", base);
	if (root < 0)
		return cbx_fail(g->err, -root, "open the files of the image %s", base);
	g->packages = false;
	g->onto = true;
	g->path[0] = '\0';
	return cbx_graft_tree(g, root, stage->rootfs);
}

static int link_packages(struct cbx_graft *g, const struct cbx_stage *stage, const char *directory, const char *place)
{
	_cleanup_fd_ int from = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (from < 0)
		return cbx_fail(g->err, errno, "open the packages of the session");
	cbx_progress_step("Linking the packages of the session");
	g->packages = true;
	return cbx_graft_at(g, from, stage->rootfs, place) < 0 ? cbx_wrap(g->err, "packages of the session") : 0;
}

/* ---- what is said of it ---- */

static int ask(const struct cbx_dirs *dirs, struct cbx_client *client, const char *session, cJSON **ret,
	       struct cbx_err *err)
{
	_cleanup_free_ char *store = cbx_xasprintf("%s/packages/", dirs->data);
	_cleanup_json_ cJSON *params = cbx_json_new_obj(), *answer = NULL;
	const char *image, *directory;
	int r;

	cbx_json_set_str(params, "session_id", session);
	r = cbx_client_call(client, "packages.list", take_ptr(&params), &answer, err);
	if (r < 0)
		return r;
	image = cbx_json_text(answer, "image");
	directory = cbx_json_text(answer, "directory");
	if (!image || !directory || !cbx_name_valid(image) ||
	    !cJSON_IsArray(cbx_json_member(answer, "packages")))
		return cbx_refuse(err, "daemon", EPROTO, "codeboxd does not say what packages the session has");
	if (!cbx_starts_with(directory, store))
		return cbx_refuse(err, "daemon", EXDEV,
				  "codeboxd keeps packages in %.200s, not below %s; set CODEBOX_DATA_DIR as it is for "
				  "codeboxd",
				  directory, store);
	*ret = take_ptr(&answer);
	return 0;
}

static void set_path(cJSON *manifest, const char *bin)
{
	const char *standard = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", *had;
	cJSON *env = cbx_json_member(manifest, "environment");
	_cleanup_free_ char *path = NULL;

	if (!env)
		cbx_json_set(manifest, "environment", env = cbx_json_new_obj());
	had = cbx_json_text(env, "PATH");
	path = cbx_xasprintf("/%s:%s", bin, had ? had : standard);
	cJSON_DeleteItemFromObjectCaseSensitive(env, "PATH");
	cbx_json_set_str(env, "PATH", path);
}

/* That of the base, with what was added; *ret_n: how often something was. */
static cJSON *describe(const struct cbx_image *base, const char *name, const cJSON *answer, int *ret_n)
{
	static const char *const kept[] = { "architecture", "layers",	"interpreters", "environment", "preload",
					    "zygote",	    "packages", "wheels",	"config" };
	static const char *const added[] = { "requirements", "packages" };
	const char *kind = cbx_json_text(base->manifest, "kind");
	cJSON *m = cbx_build_manifest(name, kind ? kind : "archive", cbx_json_text(base->manifest, "description"));
	const cJSON *before = cbx_json_member(base->manifest, "saved");
	cJSON *saved = cJSON_IsArray(before) ? cJSON_Duplicate(before, 1) : cbx_json_new_arr(),
	      *one = cbx_json_new_obj();

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		const cJSON *v = cbx_json_member(base->manifest, kept[i]);

		cJSON_DeleteItemFromObjectCaseSensitive(m, kept[i]);
		if (v)
			cbx_json_set(m, kept[i], cJSON_Duplicate(v, 1));
	}
	cbx_json_set_str(one, "base", base->name);
	cbx_json_set_str(one, "base_digest", cbx_json_text(base->manifest, "digest"));
	for (size_t i = 0; i < ARRAY_SIZE(added); i++)
		cbx_json_set(one, added[i], cJSON_Duplicate(cbx_json_member(answer, added[i]), 1));
	cbx_json_push(saved, one);
	cbx_json_set(m, "saved", saved);
	cbx_json_set_str(m, "note", cbx_json_text(base->manifest, "note"));
	*ret_n = cJSON_GetArraySize(saved);
	return m;
}

static int write_paths(const struct cbx_stage *stage, int n, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };

	for (; n > 0; n--)
		cbx_buf_addf(&text, "/" CBX_SAVED_DIR "/%d/site\n", n);
	return cbx_tree_write(stage->rootfs, CBX_SAVED_PATHS, text.data, text.len, 0644, err);
}

/* ---- all of it ---- */

static int still_there(const struct cbx_dirs *dirs, struct cbx_client *client, const struct cbx_saved *saved,
		       const cJSON *answer, struct cbx_err *err)
{
	_cleanup_json_ cJSON *again = NULL;

	if (ask(dirs, client, saved->session, &again, err) < 0)
		return cbx_wrap(err, "the session changed meanwhile");
	if (!cJSON_Compare(answer, again, 1))
		return cbx_refuse(err, "busy", EBUSY, "session %s: packages were installed meanwhile; try again",
				  saved->session);
	return 0;
}

static int fill(const struct cbx_dirs *dirs, struct cbx_stage *stage, struct cbx_client *client,
		struct cbx_saved *saved, cJSON **ret_manifest, struct cbx_err *err)
{
	_cleanup_json_ cJSON *answer = NULL, *compile = cbx_json_new_arr();
	_cleanup_free_ char *place = NULL, *site = NULL, *bin = NULL;
	struct cbx_graft g = { .err = err };
	struct cbx_image base = { 0 };
	int n = 0, r = ask(dirs, client, saved->session, &answer, err);

	if (r == 0)
		r = cbx_image_open(stage->store->path, cbx_json_text(answer, "image"), &base, err);
	if (r < 0)
		return r;
	*ret_manifest = describe(&base, saved->name, answer, &n);
	if (n > CBX_SAVED_MAX)
		r = cbx_refuse(err, "too_long", E2BIG,
			       "the image %s was made of a session's packages %d times over; install all of them in a "
			       "session of the first one, and save that",
			       base.name, CBX_SAVED_MAX);
	cbx_image_release(&base);
	place = cbx_xasprintf(CBX_SAVED_DIR "/%d", n);
	site = cbx_xasprintf("%s/site", place);
	bin = cbx_xasprintf("%s/bin", place);
	set_path(*ret_manifest, bin);
	cbx_json_push_str(compile, site);
	if (r == 0) /* first, since it is what may be refused */
		r = link_packages(&g, stage, cbx_json_text(answer, "directory"), place);
	if (r == 0)
		r = link_base(&g, stage, cbx_json_text(answer, "image"));
	if (r == 0)
		r = write_paths(stage, n, err);
	if (r == 0)
		r = still_there(dirs, client, saved, answer, err);
	if (r == 0 && saved->script >= 0)
		r = cbx_build_finish(stage, compile, NULL, *ret_manifest, client, saved->script, &saved->left_out, err);
	return r;
}

int cbx_saved_build(const struct cbx_dirs *dirs, const struct cbx_store *store, struct cbx_client *client,
		    struct cbx_saved *saved, struct cbx_err *err)
{
	_cleanup_json_ cJSON *manifest = NULL;
	struct cbx_stage stage;
	int r = cbx_build_check_free(store, saved->name, saved->force, err);

	if (r == 0)
		r = cbx_stage_new(store, saved->name, &stage, err);
	if (r < 0)
		return r;
	r = fill(dirs, &stage, client, saved, &manifest, err);
	if (r == 0)
		r = cbx_build_complete(&stage, manifest, saved->force, err);
	cbx_progress_end();
	cbx_stage_release(&stage);
	return r;
}
