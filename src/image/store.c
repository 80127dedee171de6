/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a name is checked before it becomes a path, the manifest is opened relative to the image's
 * directory without following links, its size is bounded before it is read, and every member that is used later is
 * checked here. So what cbx_image_open() returns is an image that can be used, or a reason why it can not.
 */
#include "image/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "image/reference.h"

static int damaged(struct cbx_err *err, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static int damaged(struct cbx_err *err, const char *name, const char *fmt, ...)
{
	char why[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	cbx_refuse(err, "image_damaged", EUCLEAN,
		   "the image \"%s\" is damaged: %s. \"codebox image build %s --force\" makes it anew", name, why,
		   name);
	cbx_err_sanitize(err);
	return -EUCLEAN;
}

/* Names of images, sorted, without unfinished ones. */
static int list_names(const char *images_dir, char ***ret, size_t *ret_n, struct cbx_err *err)
{
	_cleanup_closedir_ DIR *d = opendir(images_dir);
	char **names = NULL;
	size_t n = 0;
	struct dirent *e;

	*ret = NULL;
	*ret_n = 0;
	if (!d)
		return errno == ENOENT ? 0 : cbx_fail(err, errno, "read the image store %s", images_dir);
	while (n < CBX_IMAGES_MAX && (e = readdir(d))) {
		struct stat st;

		if (!cbx_name_valid(e->d_name) || cbx_ends_with(e->d_name, CBX_UNFINISHED) ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
			continue;
		names = cbx_xrealloc(names, (n + 1) * sizeof(*names));
		names[n++] = cbx_xstrdup(e->d_name);
	}
	if (n)
		qsort(names, n, sizeof(*names), cbx_by_name);
	*ret = names;
	*ret_n = n;
	return 0;
}

static void free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

static int not_found(const char *images_dir, const char *name, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf have = { 0 };
	struct cbx_err ignored;
	char **names;
	size_t n;

	if (list_names(images_dir, &names, &n, &ignored) == 0) {
		for (size_t i = 0; i < n && have.len < 200; i++)
			cbx_buf_addf(&have, "%s%s", i ? ", " : "", names[i]);
		if (n && have.len >= 200)
			cbx_buf_adds(&have, ", …");
		free_names(names, n);
	}
	return cbx_refuse(err, "image_not_found", ENOENT,
			  "there is no image \"%s\" in %.200s (%s%s); \"codebox image build %s\" makes it, if there "
			  "is a recipe of that name",
			  name, images_dir, have.len ? "there are: " : "there are none", cbx_buf_str(&have), name);
}

static int check_layer(const char *name, int dir, const cJSON *layer, bool first, struct cbx_err *err)
{
	static const char *const keys[] = { "source", "target", NULL };
	const char *source = NULL, *target = NULL;
	struct cbx_err e;
	struct stat st;

	if (cbx_json_only(layer, keys, &e) < 0 || cbx_json_get_str(layer, "source", &source, &e) < 0 ||
	    cbx_json_get_str(layer, "target", &target, &e) < 0)
		return damaged(err, name, "a layer in its manifest: %s", e.msg);
	if (!source || !target || strlen(source) >= CBX_PATH_MAX || strlen(target) >= CBX_PATH_MAX)
		return damaged(err, name, "a layer in its manifest has no source or target, or too long a one");
	if (first ? strcmp(target, "/") != 0 : !cbx_path_clean(target) || !target[1])
		return damaged(err, name, "the layer target \"%s\" in its manifest is not allowed", target);
	if (!first && strcmp(source, "host:/usr") == 0)
		return 0;
	if (strcmp(source, "rootfs") != 0)
		return damaged(err, name, "the layer source \"%s\" in its manifest is not allowed", source);
	if (fstatat(dir, source, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return damaged(err, name, "its directory \"%s\" is missing", source);
	return 0;
}

static int check_layers(const char *name, int dir, const cJSON *manifest, struct cbx_err *err)
{
	const cJSON *layers = NULL, *layer;
	struct cbx_err e;
	int n = 0;

	if (cbx_json_get_arr(manifest, "layers", &layers, &e) <= 0 || cJSON_GetArraySize(layers) < 1 ||
	    cJSON_GetArraySize(layers) > CBX_PLAN_LAYERS_MAX)
		return damaged(err, name, "its manifest must have 1 to %d layers", CBX_PLAN_LAYERS_MAX);
	cJSON_ArrayForEach(layer, layers) {
		int r = check_layer(name, dir, layer, n++ == 0, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int check_strings(const char *name, const cJSON *obj, const char *what, struct cbx_err *err)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, obj)
		if (!cJSON_IsString(v))
			return damaged(err, name, "%s in its manifest must hold strings only", what);
	return 0;
}

static int check_interpreters(const char *name, const cJSON *manifest, struct cbx_err *err)
{
	const cJSON *all = NULL, *one;
	struct cbx_err e;

	if (cbx_json_get_obj(manifest, "interpreters", &all, &e) < 0)
		return damaged(err, name, "its manifest: %s", e.msg);
	if (!all)
		return 0;
	cJSON_ArrayForEach(one, all) {
		const cJSON *argv = NULL;
		int r;

		if (!cJSON_IsObject(one) || cbx_json_get_arr(one, "argv", &argv, &e) <= 0 ||
		    cJSON_GetArraySize(argv) < 1 || cJSON_GetArraySize(argv) > 32)
			return damaged(err, name,
				       "the interpreter \"%s\" in its manifest has no argv of 1 to 32 strings",
				       one->string);
		r = check_strings(name, argv, "an interpreter's argv", err);
		if (r < 0)
			return r;
		if (cJSON_GetArrayItem(argv, 0)->valuestring[0] != '/')
			return damaged(err, name, "the interpreter \"%s\" in its manifest is not an absolute path",
				       one->string);
	}
	return 0;
}

bool cbx_module_name_valid(const char *s)
{
	return strlen(s) < 100 && *s &&
	       s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.")] == '\0';
}

static int check_preload(const char *name, const cJSON *manifest, struct cbx_err *err)
{
	const cJSON *list = NULL, *v;
	bool zygote;
	struct cbx_err e;

	if (cbx_json_get_arr(manifest, "preload", &list, &e) < 0 ||
	    cbx_json_get_bool(manifest, "zygote", &zygote, &e) < 0)
		return damaged(err, name, "its manifest: %s", e.msg);
	if (list && cJSON_GetArraySize(list) > CBX_PRELOAD_MAX)
		return damaged(err, name, "\"preload\" in its manifest has more than %d modules", CBX_PRELOAD_MAX);
	cJSON_ArrayForEach(v, list)
		if (!cJSON_IsString(v) || !cbx_module_name_valid(v->valuestring))
			return damaged(err, name, "\"preload\" in its manifest must hold names of modules only");
	return 0;
}

static int check_manifest(const char *name, int dir, const cJSON *m, struct cbx_err *err)
{
	const char *called = NULL, *text = NULL;
	const cJSON *env = NULL, *packages = NULL;
	uint64_t format = 0, number = 0;
	struct cbx_err e;
	int r;

	if (!cJSON_IsObject(m))
		return damaged(err, name, "its manifest is not a JSON object");
	if (cbx_json_get_u64(m, "format", 1, 1, &format, &e) < 0 || cbx_json_get_str(m, "name", &called, &e) < 0 ||
	    cbx_json_get_str(m, "kind", &text, &e) < 0 || cbx_json_get_str(m, "created", &text, &e) < 0 ||
	    cbx_json_get_str(m, "digest", &text, &e) < 0 || cbx_json_get_str(m, "architecture", &text, &e) < 0 ||
	    cbx_json_get_str(m, "note", &text, &e) < 0 ||
	    cbx_json_get_u64(m, "files", 0, 1ull << 53, &number, &e) < 0 ||
	    cbx_json_get_u64(m, "bytes", 0, 1ull << 53, &number, &e) < 0 ||
	    cbx_json_get_obj(m, "environment", &env, &e) < 0 || cbx_json_get_arr(m, "packages", &packages, &e) < 0)
		return damaged(err, name, "its manifest: %s", e.msg);
	if (!format)
		return damaged(err, name, "its manifest has no \"format\"");
	if (!called || strcmp(called, name) != 0)
		return damaged(err, name, "its manifest is that of \"%.64s\"", called ? called : "nothing");
	r = env ? check_strings(name, env, "\"environment\"", err) : 0;
	if (r == 0)
		r = check_interpreters(name, m, err);
	if (r == 0)
		r = check_preload(name, m, err);
	return r < 0 ? r : check_layers(name, dir, m, err);
}

static struct cbx_image_mark mark_of(const struct stat *st)
{
	return (struct cbx_image_mark){ st->st_dev, st->st_ino,
					(int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec };
}

/* Read it into *image, unless that holds it. */
static int read_manifest(const char *name, int dir, struct cbx_image *image, struct cbx_err *err)
{
	_cleanup_fd_ int fd = openat(dir, "manifest.json", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_free_ char *text = NULL;
	struct cbx_image found = { 0 };
	struct cbx_err e;
	struct stat st;
	ssize_t n;
	int r;

	if (fd < 0 && errno == EACCES)
		return cbx_fail(err, errno, "read the manifest of the image \"%s\"", name);
	if (fd < 0)
		return damaged(err, name, "its manifest.json cannot be opened (%s)", strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)CBX_MANIFEST_MAX)
		return damaged(err, name, "its manifest.json is not a file of up to %zu bytes", CBX_MANIFEST_MAX);
	found.file.mark = mark_of(&st);
	found.file.size = st.st_size;
	found.file.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	if (image->manifest && strcmp(image->name, name) == 0 &&
	    memcmp(&image->file, &found.file, sizeof(found.file)) == 0)
		return check_layers(name, dir, image->manifest, err);
	text = cbx_xcalloc(1, (size_t)st.st_size + 1);
	n = cbx_read_full(fd, text, (size_t)st.st_size);
	if (n < 0)
		return cbx_fail(err, (int)-n, "read the manifest of the image \"%s\"", name);
	if (cbx_json_parse(text, (size_t)n, &doc, &e) < 0)
		return damaged(err, name, "its manifest: %s", e.msg);
	if (doc.problem.code)
		return damaged(err, name, "its manifest: %s", doc.problem.msg);
	r = check_manifest(name, dir, doc.root, err);
	if (r < 0)
		return r;
	cbx_image_release(image);
	snprintf(image->name, sizeof(image->name), "%s", name);
	image->file = found.file;
	image->manifest = take_ptr(&doc.root);
	return 0;
}

int cbx_image_open(const char *images_dir, const char *name, struct cbx_image *ret, struct cbx_err *err)
{
	_cleanup_fd_ int store = -1, dir = -1;
	struct stat st;
	int r;

	if (!cbx_name_valid(name))
		return cbx_refuse(err, "image_not_found", EINVAL,
				  "\"%.80s\" is not the name of an image; see codebox image ls", name);
	store = open(images_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store < 0 && errno != ENOENT)
		return cbx_fail(err, errno, "open the image store %s", images_dir);
	if (store < 0)
		return not_found(images_dir, name, err);
	dir = openat(store, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 && errno == ENOENT)
		return not_found(images_dir, name, err);
	if (dir < 0)
		return damaged(err, name, "its directory cannot be opened (%s)", strerror(errno));
	if (fstat(dir, &st) < 0)
		return cbx_fail(err, errno, "look at the image \"%s\"", name);
	r = read_manifest(name, dir, ret, err);
	if (r == 0)
		ret->mark = mark_of(&st);
	return r;
}

void cbx_image_release(struct cbx_image *image)
{
	cJSON_Delete(image->manifest);
	image->manifest = NULL;
}

int cbx_image_to_plan(const struct cbx_image *image, struct cbx_plan *plan, struct cbx_err *err)
{
	const cJSON *layers = NULL, *layer;
	uint32_t n = 0;
	int r = cbx_json_get_arr(image->manifest, "layers", &layers, err);

	if (r < 0)
		return r;
	memset(plan->image, 0, sizeof(plan->image));
	memset(plan->layers, 0, sizeof(plan->layers));
	snprintf(plan->image, sizeof(plan->image), "%s", image->name);
	cJSON_ArrayForEach(layer, layers) {
		const char *source = "", *target = "";

		if (n == CBX_PLAN_LAYERS_MAX)
			return damaged(err, image->name, "its manifest has too many layers");
		if (cbx_json_get_str(layer, "source", &source, err) < 0 ||
		    cbx_json_get_str(layer, "target", &target, err) < 0)
			return -err->code;
		snprintf(plan->layers[n].source, sizeof(plan->layers[n].source), "%s", source);
		snprintf(plan->layers[n].target, sizeof(plan->layers[n].target), "%s", target);
		n++;
	}
	plan->nlayers = n;
	return 0;
}

int cbx_image_interpreter(const struct cbx_image *image, const char *language, const cJSON **ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf have = { 0 };
	const cJSON *all = NULL, *one = NULL;

	if (cbx_json_get_obj(image->manifest, "interpreters", &all, err) < 0)
		return -err->code;
	if (all && cbx_json_get_obj(all, language, &one, err) < 0)
		return -err->code;
	if (one && cbx_json_get_arr(one, "argv", ret, err) > 0)
		return 0;
	if (all)
		cJSON_ArrayForEach(one, all)
			cbx_buf_addf(&have, "%s%s", have.len ? ", " : "", one->string);
	return cbx_refuse(err, "no_interpreter", ENOENT,
			  "the image \"%s\" has no interpreter for \"%.40s\" (it has: %.200s); use one of these, or "
			  "another image",
			  image->name, language, have.len ? have.data : "none");
}

int cbx_image_preload(const struct cbx_image *image, char **ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf names = { 0 };
	const char *kind = NULL;
	const cJSON *list = NULL, *v;
	bool allowed;

	if (cbx_json_get_str(image->manifest, "kind", &kind, err) < 0)
		return -err->code;
	allowed = kind && strcmp(kind, "archive") != 0;
	if (cbx_json_get_bool(image->manifest, "zygote", &allowed, err) < 0 ||
	    cbx_json_get_arr(image->manifest, "preload", &list, err) < 0)
		return -err->code;
	cJSON_ArrayForEach(v, list)
		cbx_buf_addf(&names, "%s%s", names.len ? "," : "", v->valuestring);
	*ret = allowed ? cbx_xstrdup(cbx_buf_str(&names)) : NULL;
	return 0;
}

int cbx_image_list(const char *images_dir, cJSON **ret, struct cbx_err *err)
{
	cJSON *list;
	char **names;
	size_t n;
	int r = list_names(images_dir, &names, &n, err);

	if (r < 0)
		return r;
	list = cbx_json_new_arr();
	for (size_t i = 0; i < n; i++) {
		struct cbx_image image = { 0 };
		struct cbx_err e;

		if (cbx_image_open(images_dir, names[i], &image, &e) == 0) {
			bool unfinished = false;

			cJSON_DeleteItemFromObjectCaseSensitive(image.manifest, "packages");
			if (cbx_json_get_bool(image.manifest, "unfinished", &unfinished, &e) <= 0 || !unfinished)
				cbx_json_push(list, take_ptr(&image.manifest));
			cbx_image_release(&image);
		} else if (strcmp(e.kind, "image_not_found") != 0) { /* else removed meanwhile */
			cJSON *broken = cbx_json_new_obj();

			cbx_json_set_str(broken, "name", names[i]);
			cbx_json_set_str(broken, "damaged", e.msg);
			cbx_json_push(list, broken);
		}
	}
	free_names(names, n);
	*ret = list;
	return 0;
}

/* Its name in full, so that two spellings of one are the same; NULL: it is not one. */
static char *full_reference(const char *text)
{
	struct cbx_reference ref;
	struct cbx_err ignored;

	return text && cbx_reference_parse(text, &ref, &ignored) == 0 ? cbx_reference_print(&ref) : NULL;
}

int cbx_image_find(const char *images_dir, const char *reference, char *out, struct cbx_err *err)
{
	_cleanup_free_ char *wanted = full_reference(reference);
	_cleanup_json_ cJSON *list = NULL;
	const cJSON *m;

	if (!wanted)
		return cbx_refuse(err, "image_not_found", EINVAL,
				  "\"%.80s\" is not the name of an image; see codebox image ls", reference);
	if (cbx_image_list(images_dir, &list, err) < 0)
		return -err->code;
	cJSON_ArrayForEach(m, list) {
		const cJSON *origin = cbx_json_member(m, "origin");
		_cleanup_free_ char *its = full_reference(cbx_json_text(origin, "reference"));

		if (its && strcmp(its, wanted) == 0) {
			snprintf(out, CBX_NAME_MAX + 1, "%s", cbx_json_text(m, "name"));
			return 0;
		}
	}
	return cbx_refuse(err, "image_not_found", ENOENT,
			  "there is no image of %.200s here; \"codebox image pull %.200s\" makes it", wanted,
			  reference);
}
