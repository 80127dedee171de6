/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the name of a layer's entry in the archive is its digest, so the layer is made twice: once to
 * learn digest and length, and once for the archive, which ends with an error unless both are the same again. Nothing
 * is kept meanwhile, so an image of any size can go through a pipe.
 */
#include "image/export.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "image/oci.h"
#include "image/progress.h"
#include "image/scan.h"
#include "image/store.h"
#include "image/tree.h"

#define CHUNK	     KIB(256)
#define SESSION_USER 1000

static void free_writer(struct archive **a)
{
	if (*a)
		archive_write_free(*a);
}
#define _cleanup_writer_ _cleanup_(free_writer)

static int write_error(struct cbx_err *err, struct archive *a)
{
	int code = archive_errno(a);

	return cbx_fail(err, code > 0 ? code : EIO, "write the archive");
}

static time_t latest(void)
{
	const char *text = getenv("SOURCE_DATE_EPOCH");
	uint64_t v = INT32_MAX;
	struct cbx_err ignored;

	if (text && cbx_parse_u64(text, "SOURCE_DATE_EPOCH", 0, INT32_MAX, &v, &ignored) < 0)
		v = INT32_MAX;
	return (time_t)v;
}

/* ---- the layer -------------------------------------------------------------------------------------------------- */

struct layer {
	struct archive *a;     /* makes the layer */
	struct archive *outer; /* takes its bytes, or NULL: they are only counted */
	struct sha256_ctx sum;
	uint64_t length;
	struct cbx_err *err;
	time_t latest;
	char path[CBX_UNPACK_PATH_MAX];
	size_t len;
	uint8_t *chunk;
	uint64_t entries;
};

static ssize_t on_bytes(struct archive *a, void *arg, const void *p, size_t n)
{
	struct layer *l = arg;

	sha256_update(&l->sum, n, p);
	l->length += n;
	if (l->outer && archive_write_data(l->outer, p, n) != (ssize_t)n) {
		archive_set_error(a, archive_errno(l->outer) > 0 ? archive_errno(l->outer) : EIO, "cannot write");
		return -1;
	}
	return (ssize_t)n;
}

/* Directories that a session's user owns. */
static bool of_user(const char *path)
{
	return cbx_starts_with(path, "home/user") || cbx_starts_with(path, "workspace");
}

static int write_contents(struct layer *l, int fd, uint64_t size)
{
	while (size) {
		ssize_t n = cbx_read_full(fd, l->chunk, size < CHUNK ? size : CHUNK);

		if (n <= 0)
			return n < 0 ? cbx_fail(l->err, (int)-n, "read %s", l->path)
				     : cbx_refuse(l->err, "image_damaged", EIO, "%s has become shorter", l->path);
		if (archive_write_data(l->a, l->chunk, (size_t)n) != n)
			return write_error(l->err, l->a);
		size -= (uint64_t)n;
	}
	return 0;
}

static int write_dir(struct layer *l, int dir);

static int write_entry(struct layer *l, int dir, const char *name, struct archive_entry *e)
{
	unsigned id = of_user(l->path) ? SESSION_USER : 0;
	_cleanup_fd_ int fd = -1;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cbx_fail(l->err, errno, "look at %s", l->path);
	archive_entry_set_pathname(e, l->path);
	archive_entry_set_uid(e, id);
	archive_entry_set_gid(e, id);
	archive_entry_set_mtime(e, 0, 0);
	archive_entry_set_filetype(e, st.st_mode & S_IFMT);
	archive_entry_set_size(e, 0);
	if (S_ISLNK(st.st_mode)) {
		char target[CBX_UNPACK_PATH_MAX];
		ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

		if (n < 0)
			return cbx_fail(l->err, errno, "read the link %s", l->path);
		target[n] = '\0';
		archive_entry_set_perm(e, 0777);
		archive_entry_set_symlink(e, target);
		return archive_write_header(l->a, e) == ARCHIVE_OK ? 0 : write_error(l->err, l->a);
	}
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return cbx_refuse(l->err, "image_damaged", EINVAL, "%s: neither a file, a directory nor a link",
				  l->path);
	fd = cbx_tree_openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return cbx_fail(l->err, -fd, "open %s", l->path);
	archive_entry_set_perm(e, st.st_mode & 0777);
	if (S_ISDIR(st.st_mode)) {
		if (strcmp(l->path, "tmp") == 0 || strcmp(l->path, "var/tmp") == 0)
			archive_entry_set_perm(e, 01777);
		if (archive_write_header(l->a, e) != ARCHIVE_OK)
			return write_error(l->err, l->a);
		return write_dir(l, fd);
	}
	archive_entry_set_mtime(e, st.st_mtim.tv_sec < l->latest ? st.st_mtim.tv_sec : l->latest, 0);
	archive_entry_set_size(e, st.st_size);
	if (archive_write_header(l->a, e) != ARCHIVE_OK)
		return write_error(l->err, l->a);
	return write_contents(l, fd, (uint64_t)st.st_size);
}

static void free_entry(struct archive_entry **e)
{
	archive_entry_free(*e);
}

static int write_dir(struct layer *l, int dir)
{
	size_t len = l->len, n;
	char **names;
	int r = cbx_tree_names(dir, &names, &n, l->err);

	if (r < 0)
		return cbx_wrap(l->err, "%s", l->path);
	for (size_t i = 0; i < n && r == 0; i++) {
		_cleanup_(free_entry) struct archive_entry *e = archive_entry_new();
		int add = snprintf(l->path + len, sizeof(l->path) - len, "%s%s", len ? "/" : "", names[i]);

		if (!e || add < 0 || (size_t)add >= sizeof(l->path) - len) {
			r = cbx_fail(l->err, e ? ENAMETOOLONG : ENOMEM, "a path in the image");
			break;
		}
		l->len = len + (size_t)add;
		if (++l->entries % 256 == 0)
			cbx_progress_update("%llu entries", (unsigned long long)l->entries);
		r = write_entry(l, dir, names[i], e);
	}
	l->len = len;
	l->path[len] = '\0';
	cbx_tree_names_free(names, n);
	return r;
}

/* Make the layer; outer: see struct layer. */
static int make_layer(int rootfs, struct archive *outer, char digest[CBX_OCI_DIGEST], uint64_t *length,
		      struct cbx_err *err)
{
	_cleanup_writer_ struct archive *a = archive_write_new();
	_cleanup_free_ uint8_t *chunk = cbx_xcalloc(1, CHUNK);
	struct layer l = { .a = a, .outer = outer, .err = err, .latest = latest(), .chunk = chunk };
	uint8_t sum[SHA256_DIGEST_SIZE];
	int r;

	sha256_init(&l.sum);
	if (!a || archive_write_set_format_gnutar(a) != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(a, (int)CHUNK) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
	    archive_write_open(a, &l, NULL, on_bytes, NULL) != ARCHIVE_OK)
		return cbx_fail(err, ENOMEM, "make an archive");
	r = write_dir(&l, rootfs);
	if (r == 0 && archive_write_close(a) != ARCHIVE_OK)
		r = write_error(err, a);
	if (r < 0) {
		archive_write_fail(a);
		return r;
	}
	sha256_digest(&l.sum, sizeof(sum), sum);
	strcpy(digest, "sha256:");
	cbx_hex(sum, sizeof(sum), digest + 7);
	*length = l.length;
	return 0;
}

/* ---- the documents ---------------------------------------------------------------------------------------------- */

static cJSON *descriptor(const char *type, const char *digest, uint64_t size)
{
	cJSON *d = cbx_json_new_obj();

	cbx_json_set_str(d, "mediaType", type);
	cbx_json_set_str(d, "digest", digest);
	cbx_json_set_u64(d, "size", size);
	return d;
}

static void set_copy(cJSON *to, const char *key, const cJSON *from, const char *of)
{
	const cJSON *v = cbx_json_member(from, of);

	if (v)
		cbx_json_set(to, key, cJSON_Duplicate(v, 1));
}

/* What programs are run with: as the image it was made from says, or as in a session. */
static cJSON *program_config(const cJSON *manifest)
{
	const cJSON *said = cbx_json_member(manifest, "config"), *v;
	const cJSON *environment = cbx_json_member(manifest, "environment");
	const cJSON *interpreters = cbx_json_member(manifest, "interpreters");
	cJSON *config = cbx_json_new_obj(), *env = cbx_json_new_arr();

	cJSON_ArrayForEach(v, environment) {
		_cleanup_free_ char *line = cbx_xasprintf("%s=%s", v->string, cJSON_IsString(v) ? v->valuestring : "");

		cbx_json_push_str(env, line);
	}
	cbx_json_set(config, "Env", env);
	if (said) {
		set_copy(config, "User", said, "user");
		set_copy(config, "WorkingDir", said, "working_dir");
		set_copy(config, "Entrypoint", said, "entrypoint");
		set_copy(config, "Cmd", said, "command");
		return config;
	}
	cbx_json_set_str(config, "User", "1000:1000");
	cbx_json_set_str(config, "WorkingDir", CBX_INSIDE_WORKSPACE);
	v = cbx_json_member(interpreters, "python");
	set_copy(config, "Cmd", v ? v : interpreters ? interpreters->child : NULL, "argv");
	return config;
}

static cJSON *image_config(const cJSON *manifest, const char *layer)
{
	const cJSON *origin = cbx_json_member(manifest, "origin");
	cJSON *c = cbx_json_new_obj(), *rootfs = cbx_json_new_obj(), *ids = cbx_json_new_arr();
	const char *platform = cbx_json_text(origin, "platform");
	struct cbx_oci_platform p;
	time_t when = latest();
	struct cbx_err ignored;
	char created[32];

	if (!platform || cbx_oci_platform_parse(platform, &p, &ignored) < 0)
		cbx_oci_platform_here(&p);
	when = when == INT32_MAX ? 0 : when;
	cbx_format_time(when, created);
	cbx_json_set_str(c, "created", created);
	cbx_json_set_str(c, "os", p.os);
	cbx_json_set_str(c, "architecture", p.architecture);
	cbx_json_set_str(c, "variant", p.variant[0] ? p.variant : NULL);
	cbx_json_set(c, "config", program_config(manifest));
	cbx_json_set_str(rootfs, "type", "layers");
	cbx_json_push_str(ids, layer);
	cbx_json_set(rootfs, "diff_ids", ids);
	cbx_json_set(c, "rootfs", rootfs);
	return c;
}

struct documents {
	struct cbx_buf config, manifest, index, saved;
	char config_digest[CBX_OCI_DIGEST], manifest_digest[CBX_OCI_DIGEST], layer[CBX_OCI_DIGEST];
	uint64_t layer_size;
};

static void release_documents(struct documents *d)
{
	cbx_buf_release(&d->config);
	cbx_buf_release(&d->manifest);
	cbx_buf_release(&d->index);
	cbx_buf_release(&d->saved);
}

static void print(struct cbx_buf *out, cJSON *value)
{
	cbx_json_print(out, value);
	cJSON_Delete(value);
}

static void make_manifest(struct documents *d)
{
	cJSON *m = cbx_json_new_obj(), *layers = cbx_json_new_arr();

	cbx_json_set_u64(m, "schemaVersion", 2);
	cbx_json_set_str(m, "mediaType", "application/vnd.oci.image.manifest.v1+json");
	cbx_json_set(m, "config",
		     descriptor("application/vnd.oci.image.config.v1+json", d->config_digest, d->config.len));
	cbx_json_push(layers, descriptor("application/vnd.oci.image.layer.v1.tar", d->layer, d->layer_size));
	cbx_json_set(m, "layers", layers);
	print(&d->manifest, m);
	cbx_scan_digest(d->manifest.data, d->manifest.len, d->manifest_digest);
}

static void make_index(struct documents *d, const char *tag)
{
	cJSON *index = cbx_json_new_obj(), *all = cbx_json_new_arr(), *notes = cbx_json_new_obj();
	cJSON *one = descriptor("application/vnd.oci.image.manifest.v1+json", d->manifest_digest, d->manifest.len);
	const char *colon = strrchr(tag, ':');

	cbx_json_set_str(notes, "io.containerd.image.name", tag);
	cbx_json_set_str(notes, "org.opencontainers.image.ref.name", colon ? colon + 1 : tag);
	cbx_json_set(one, "annotations", notes);
	cbx_json_push(all, one);
	cbx_json_set_u64(index, "schemaVersion", 2);
	cbx_json_set_str(index, "mediaType", "application/vnd.oci.image.index.v1+json");
	cbx_json_set(index, "manifests", all);
	print(&d->index, index);
}

/* What docker load looks for. */
static void make_saved(struct documents *d, const char *tag)
{
	cJSON *all = cbx_json_new_arr(), *one = cbx_json_new_obj(), *tags = cbx_json_new_arr(),
	      *layers = cbx_json_new_arr();
	char path[80];

	cbx_oci_blob_path(d->config_digest, path);
	cbx_json_set_str(one, "Config", path);
	cbx_json_push_str(tags, tag);
	cbx_json_set(one, "RepoTags", tags);
	cbx_oci_blob_path(d->layer, path);
	cbx_json_push_str(layers, path);
	cbx_json_set(one, "Layers", layers);
	cbx_json_push(all, one);
	print(&d->saved, all);
}

/* ---- the archive ------------------------------------------------------------------------------------------------ */

static int begin_entry(struct archive *a, const char *path, uint64_t size, struct cbx_err *err)
{
	_cleanup_(free_entry) struct archive_entry *e = archive_entry_new();
	bool dir = cbx_ends_with(path, "/");

	if (!e)
		return cbx_fail(err, ENOMEM, "make an archive");
	archive_entry_set_pathname(e, path);
	archive_entry_set_filetype(e, dir ? AE_IFDIR : AE_IFREG);
	archive_entry_set_perm(e, dir ? 0755 : 0644);
	archive_entry_set_size(e, (int64_t)size);
	archive_entry_set_mtime(e, 0, 0);
	return archive_write_header(a, e) == ARCHIVE_OK ? 0 : write_error(err, a);
}

static int add_file(struct archive *a, const char *path, const void *p, size_t n, struct cbx_err *err)
{
	int r = begin_entry(a, path, n, err);

	if (r == 0 && archive_write_data(a, p, n) != (ssize_t)n)
		r = write_error(err, a);
	return r;
}

static int add_blob(struct archive *a, const char *digest, const struct cbx_buf *text, struct cbx_err *err)
{
	char path[80];

	cbx_oci_blob_path(digest, path);
	return add_file(a, path, text->data, text->len, err);
}

static int add_layer(struct archive *a, int rootfs, const struct documents *d, struct cbx_err *err)
{
	char path[80], digest[CBX_OCI_DIGEST];
	uint64_t length = 0;
	int r;

	cbx_oci_blob_path(d->layer, path);
	r = begin_entry(a, path, d->layer_size, err);
	if (r == 0)
		r = make_layer(rootfs, a, digest, &length, err);
	if (r == 0 && (length != d->layer_size || strcmp(digest, d->layer) != 0))
		r = cbx_refuse(err, "image_damaged", EIO, "the image was changed while it was written; try again");
	return r;
}

static int write_archive(int out, int rootfs, const struct documents *d, struct cbx_err *err)
{
	static const char marker[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
	_cleanup_writer_ struct archive *a = archive_write_new();
	int r;

	if (!a || archive_write_set_format_gnutar(a) != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(a, (int)CHUNK) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK || archive_write_open_fd(a, out) != ARCHIVE_OK)
		return cbx_fail(err, ENOMEM, "make an archive");
	r = begin_entry(a, "blobs/", 0, err);
	if (r == 0)
		r = begin_entry(a, "blobs/sha256/", 0, err);
	if (r == 0)
		r = add_blob(a, d->config_digest, &d->config, err);
	if (r == 0)
		r = add_blob(a, d->manifest_digest, &d->manifest, err);
	if (r == 0)
		r = add_layer(a, rootfs, d, err);
	if (r == 0)
		r = add_file(a, "index.json", d->index.data, d->index.len, err);
	if (r == 0)
		r = add_file(a, "manifest.json", d->saved.data, d->saved.len, err);
	if (r == 0)
		r = add_file(a, "oci-layout", marker, strlen(marker), err);
	if (r == 0 && archive_write_close(a) != ARCHIVE_OK)
		r = write_error(err, a);
	if (r < 0)
		archive_write_fail(a);
	return r;
}

static int export_opened(int rootfs, const cJSON *manifest, const char *tag, int out, struct cbx_err *err)
{
	_cleanup_(release_documents) struct documents d = { 0 };
	int r;

	cbx_progress_step("Hashing the layer");
	r = make_layer(rootfs, NULL, d.layer, &d.layer_size, err);
	if (r < 0)
		return r;
	print(&d.config, image_config(manifest, d.layer));
	cbx_scan_digest(d.config.data, d.config.len, d.config_digest);
	make_manifest(&d);
	make_index(&d, tag);
	make_saved(&d, tag);
	cbx_progress_step("Writing the archive");
	return write_archive(out, rootfs, &d, err);
}

int cbx_export_image(const char *images_dir, const char *name, const char *tag, int out, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("%s/%s/rootfs", images_dir, name);
	_cleanup_fd_ int rootfs = -1;
	struct cbx_image image = { 0 };
	int r = cbx_image_open(images_dir, name, &image, err);
	const char *kind;

	if (r < 0)
		return r;
	kind = cbx_json_text(image.manifest, "kind");
	if (kind && strcmp(kind, "host") == 0)
		r = cbx_refuse(
			err, "invalid_argument", EINVAL,
			"the image \"%s\" is this machine's own /usr, and only a few files beside it; make one of "
			"packages, as with \"codebox image build python\"",
			name);
	if (r == 0) {
		rootfs = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = rootfs < 0 ? cbx_fail(err, errno, "open the files of the image %s", name)
			       : export_opened(rootfs, image.manifest, tag, out, err);
	}
	cbx_progress_end();
	cbx_image_release(&image);
	return r;
}
