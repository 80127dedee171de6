/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: every file is opened beneath the directory, never through a link; only layers of `docker save`
 * may be links to each other, which older versions of it write, and which are followed within the directory. A document
 * is read whole, compared with its digest, and only then parsed.
 */
#include "image/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "image/link.h"
#include "image/scan.h"
#include "image/tree.h"
#include "image/unpack.h"

#define INDEXES_MAX 3 /* indexes of indexes */

static bool has(int dir, const char *name, mode_t type)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (st.st_mode & S_IFMT) == type;
}

static bool is_oci(int dir)
{
	return has(dir, "oci-layout", S_IFREG) && has(dir, "index.json", S_IFREG);
}

bool cbx_layout_is(int dir)
{
	if (has(dir, "usr", S_IFDIR) || has(dir, "bin", S_IFDIR) || has(dir, "etc", S_IFDIR))
		return false;
	return is_oci(dir) || has(dir, "manifest.json", S_IFREG);
}

static int mismatch(struct cbx_err *err, const char *what, const char *digest)
{
	return cbx_refuse(err, "digest_mismatch", EBADMSG,
			  "%s is not what its digest says (%s): the image is damaged or was changed", what, digest);
}

/* Read a document; digest: what it must have, or NULL. */
static int read_document(int dir, const char *path, const char *digest, const char *what, struct cbx_json_doc *ret,
			 struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	char found[72];
	int r = cbx_tree_read(dir, path, CBX_MANIFEST_MAX, &text, err);

	if (r < 0)
		return cbx_wrap(err, "%s", what);
	cbx_scan_digest(text.data, text.len, found);
	if (digest && strcmp(found, digest) != 0)
		return mismatch(err, what, digest);
	return cbx_oci_parse(cbx_buf_str(&text), text.len, what, ret, err);
}

static int read_blob(int dir, const char *digest, const char *what, struct cbx_json_doc *ret, struct cbx_err *err)
{
	char path[80];

	cbx_oci_blob_path(digest, path);
	return read_document(dir, path, digest, what, ret, err);
}

static void set_reference(const cJSON *index, const char *digest, struct cbx_layout *ret)
{
	const cJSON *d;

	cJSON_ArrayForEach(d, cbx_json_member(index, "manifests")) {
		const char *its = cbx_json_text(d, "digest");
		const cJSON *notes = cbx_json_member(d, "annotations");
		const char *name = cbx_json_text(notes, "io.containerd.image.name");

		if (!name)
			name = cbx_json_text(notes, "org.opencontainers.image.ref.name");
		if (!ret->reference && its && strcmp(its, digest) == 0 && name && strlen(name) < 256 && cbx_plain(name))
			ret->reference = cbx_xstrdup(name);
	}
}

/* From index.json down to a manifest. */
static int find_manifest(int dir, const struct cbx_oci_want *want, const char *top, struct cbx_layout *ret,
			 struct cbx_json_doc *doc, struct cbx_err *err)
{
	struct cbx_oci_descriptor d;
	int r = read_document(dir, "index.json", NULL, "index.json", doc, err);

	for (int depth = 0; r == 0 && depth < INDEXES_MAX; depth++) {
		r = cbx_oci_choose(doc->root, depth == 0, want, &d, err);
		if (r < 0)
			break;
		if (depth == 0 && top && strcmp(d.digest, top) != 0)
			r = mismatch(err, "the image's manifest", top);
		if (depth == 0)
			set_reference(doc->root, d.digest, ret);
		cbx_json_doc_release(doc);
		if (r == 0)
			r = read_blob(dir, d.digest, "the image's manifest", doc, err);
		if (r == 0 && !cbx_oci_is_index(doc->root)) {
			strcpy(ret->digest, d.digest);
			return 0;
		}
	}
	return r < 0 ? r
		     : cbx_refuse(err, "invalid_image", EBADMSG, "the image's index holds indexes of more than %d levels",
				  INDEXES_MAX);
}

static int read_oci(int dir, const struct cbx_oci_want *want, const char *top, struct cbx_layout *ret,
		    struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 }, config = { 0 };
	_cleanup_free_ struct cbx_oci_manifest *m = cbx_xcalloc(1, sizeof(*m));
	int r = find_manifest(dir, want, top, ret, &doc, err);

	if (r == 0)
		r = cbx_oci_manifest_read(doc.root, m, err);
	if (r == 0)
		r = read_blob(dir, m->config.digest, "the image's configuration", &config, err);
	if (r < 0)
		return r;
	ret->format = "oci";
	ret->config = take_ptr(&config.root);
	ret->n = m->n;
	ret->layers = cbx_xcalloc(m->n, sizeof(*ret->layers));
	for (size_t i = 0; i < m->n; i++) {
		strcpy(ret->layers[i].digest, m->layers[i].digest);
		cbx_oci_blob_path(m->layers[i].digest, ret->layers[i].path);
	}
	return 0;
}

/* ---- docker save ------------------------------------------------------------------------------------------------ */

static bool has_tag(const cJSON *image, const char *tag)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, cbx_json_member(image, "RepoTags"))
		if (cJSON_IsString(v) && strcmp(v->valuestring, tag) == 0)
			return true;
	return false;
}

static int choose_saved(const cJSON *all, const char *tag, const cJSON **ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf have = { 0 };
	const cJSON *image, *v;
	int n = 0;

	if (!cJSON_IsArray(all) || cJSON_GetArraySize(all) > CBX_INDEX_ENTRIES_MAX)
		return cbx_refuse(err, "invalid_image", EBADMSG, "manifest.json: it is not a list of images");
	cJSON_ArrayForEach(image, all) {
		cJSON_ArrayForEach(v, cbx_json_member(image, "RepoTags"))
			if (cJSON_IsString(v) && strlen(v->valuestring) < 256 && have.len < 300)
				cbx_buf_addf(&have, "%s%s", have.len ? ", " : "", v->valuestring);
		if (cJSON_IsObject(image) && (!tag || has_tag(image, tag))) {
			*ret = image;
			n++;
		}
	}
	if (n == 1)
		return 0;
	if (n == 0 && tag)
		cbx_refuse(err, "tag_not_found", ENOENT, "there is no image \"%.100s\" in it (there are: %.300s)", tag,
			   have.len ? have.data : "images without a name");
	else if (n == 0)
		cbx_refuse(err, "invalid_image", EBADMSG, "manifest.json: there is no image in it");
	else
		cbx_refuse(err, "several_images", EINVAL,
			   "there are several images in it (%.300s); choose one with --tag",
			   have.len ? have.data : "without names");
	cbx_err_sanitize(err);
	return -err->code;
}

static int saved_path(const cJSON *v, const char *what, char out[CBX_UNPACK_PATH_MAX], struct cbx_err *err)
{
	if (!cJSON_IsString(v) || cbx_unpack_path(v->valuestring, false, out, err) != 0)
		return cbx_refuse(err, "invalid_image", EBADMSG, "manifest.json: %s is not a path of the archive", what);
	return 0;
}

static int saved_layers(const cJSON *layers, struct cbx_layout *ret, struct cbx_err *err)
{
	const cJSON *v;

	if (!cJSON_IsArray(layers) || cJSON_GetArraySize(layers) < 1 || cJSON_GetArraySize(layers) > CBX_LAYERS_MAX)
		return cbx_refuse(err, "invalid_image", EBADMSG, "manifest.json: it must have 1 to %d layers",
				  CBX_LAYERS_MAX);
	ret->layers = cbx_xcalloc((size_t)cJSON_GetArraySize(layers), sizeof(*ret->layers));
	cJSON_ArrayForEach(v, layers) {
		struct cbx_layout_layer *layer = &ret->layers[ret->n];
		const char *id = cbx_oci_config_diff_id(ret->config, ret->n);
		int r = saved_path(v, "a layer", layer->path, err);

		if (r < 0)
			return r;
		(void)cbx_oci_digest_of_name(layer->path, layer->digest);
		if (id && cbx_oci_digest_valid(id))
			strcpy(layer->diff_id, id);
		ret->n++;
	}
	return 0;
}

static int read_saved(int dir, const struct cbx_oci_want *want, struct cbx_layout *ret, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 }, config = { 0 };
	char path[CBX_UNPACK_PATH_MAX];
	const cJSON *image = NULL, *tag;
	int r = read_document(dir, "manifest.json", NULL, "manifest.json", &doc, err);

	if (r == 0)
		r = choose_saved(doc.root, want->tag, &image, err);
	if (r == 0)
		r = saved_path(cbx_json_member(image, "Config"), "the configuration", path, err);
	if (r == 0)
		r = read_document(dir, path, cbx_oci_digest_of_name(path, ret->digest) ? ret->digest : NULL,
				  "the image's configuration", &config, err);
	if (r < 0)
		return r;
	tag = cJSON_GetArrayItem(cbx_json_member(image, "RepoTags"), 0);
	if (want->tag)
		ret->reference = cbx_xstrdup(want->tag);
	else if (cJSON_IsString(tag) && strlen(tag->valuestring) < 256 && cbx_plain(tag->valuestring))
		ret->reference = cbx_xstrdup(tag->valuestring);
	ret->format = "docker";
	ret->config = take_ptr(&config.root);
	return saved_layers(cbx_json_member(image, "Layers"), ret, err);
}

int cbx_layout_read(int dir, const struct cbx_oci_want *want, const char *top, struct cbx_layout *ret,
		    struct cbx_err *err)
{
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->dir = dir;
	if (is_oci(dir))
		r = read_oci(dir, want, top, ret, err);
	else if (has(dir, "manifest.json", S_IFREG) && !top)
		r = read_saved(dir, want, ret, err);
	else
		r = cbx_refuse(err, "invalid_image", EINVAL,
			       "it is not an image: there is neither oci-layout with index.json nor manifest.json in it");
	if (r == 0)
		r = cbx_oci_config_check(ret->config, &want->platform, ret->n, err);
	if (r < 0)
		cbx_layout_release(ret);
	return r;
}

/* Replace a descriptor by one of a copy. */
static int own(int *fd, int copies, const char *what, struct cbx_err *err)
{
	int copy, r = cbx_copy_privately(*fd, copies, &copy);

	if (r < 0)
		return cbx_fail(err, -r, "copy %s", what);
	close(*fd);
	*fd = copy;
	return 0;
}

int cbx_layout_open(const struct cbx_layout *l, size_t layer, int copies, int *ret, char digest[CBX_OCI_DIGEST],
		    struct cbx_err *err)
{
	const struct cbx_layout_layer *it = &l->layers[layer];
	uint64_t links = strcmp(l->format, "docker") == 0 ? 0 : RESOLVE_NO_SYMLINKS;
	_cleanup_fd_ int fd = cbx_openat2(l->dir, it->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0,
					  RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV | links);
	char found[CBX_OCI_DIGEST] = "sha256:", what[64];
	struct stat st;
	int r;

	snprintf(what, sizeof(what), "layer %zu of the image", layer + 1);
	if (fd < 0)
		return cbx_fail(err, errno, "%s, %s", what, it->path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return cbx_refuse(err, "invalid_image", EINVAL, "%s, %s: it is not a regular file", what, it->path);
	if (copies >= 0 && own(&fd, copies, what, err) < 0)
		return -err->code;
	r = cbx_scan_hash_fd(fd, found + 7, err);
	if (r < 0)
		return cbx_wrap(err, "%s", what);
	/* Either names the same bytes: the file's as it is, or, where it is not compressed, those of the layer. */
	if (strcmp(found, it->digest) != 0 && strcmp(found, it->diff_id) != 0)
		return it->digest[0] || it->diff_id[0]
			       ? mismatch(err, what, it->digest[0] ? it->digest : it->diff_id)
			       : cbx_refuse(err, "invalid_image", EBADMSG, "%s: nothing says which digest it has", what);
	strcpy(digest, found);
	*ret = take_fd(&fd);
	return 0;
}

void cbx_layout_release(struct cbx_layout *l)
{
	cJSON_Delete(l->config);
	free(l->layers);
	free(l->reference);
	memset(l, 0, sizeof(*l));
}
