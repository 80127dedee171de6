/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "image/layers.h"
#include "image/tree.h"

#define TREE	   "tree"
#define RECORD	   "layer.json"
#define RECORD_MAX KIB(4)
#define FORMAT	   1 /* of trees, too: those of another are not used */

static const struct {
	const char *key;
	size_t at;
} numbers[] = {
	{ "entries", offsetof(struct cbx_unpack_stats, entries) },
	{ "bytes", offsetof(struct cbx_unpack_stats, bytes) },
	{ "special", offsetof(struct cbx_unpack_stats, special) },
	{ "modes", offsetof(struct cbx_unpack_stats, modes) },
	{ "attributes", offsetof(struct cbx_unpack_stats, attributes) },
	{ "whiteouts", offsetof(struct cbx_unpack_stats, whiteouts) },
};

static uint64_t *number(struct cbx_unpack_stats *stats, size_t i)
{
	return (uint64_t *)((char *)stats + numbers[i].at);
}

/* Its directory: "<where>/<digits of the digest>". */
static void path_of(const char *where, const char *digest, char out[CBX_OCI_DIGEST + 16])
{
	snprintf(out, CBX_OCI_DIGEST + 16, "%s/%s", where, digest + strlen("sha256:"));
}

bool cbx_layer_there(int store, const char *digest)
{
	char path[CBX_OCI_DIGEST + 16];
	_cleanup_fd_ int fd = -1;

	path_of(CBX_LAYERS_STORE, digest, path);
	fd = cbx_oci_digest_valid(digest) ? cbx_tree_open_dir(store, path) : -1;
	return fd >= 0;
}

void cbx_layer_close(struct cbx_layer *layer)
{
	cbx_close_p(&layer->tree);
	cbx_close_p(&layer->dir);
}

static int read_record(struct cbx_layer *layer, char listing[CBX_OCI_DIGEST])
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 };
	const char *digest = NULL;
	uint64_t format = 0;
	struct cbx_err e;

	if (cbx_tree_read(layer->dir, RECORD, RECORD_MAX, &text, &e) < 0 ||
	    cbx_json_parse(cbx_buf_str(&text), text.len, &doc, &e) < 0 || !cJSON_IsObject(doc.root) ||
	    cbx_json_get_u64(doc.root, "format", FORMAT, FORMAT, &format, &e) <= 0 ||
	    cbx_json_get_str(doc.root, "listing", &digest, &e) <= 0 || !cbx_oci_digest_valid(digest))
		return -EUCLEAN;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (cbx_json_get_u64(doc.root, numbers[i].key, 0, 1ull << 53, number(&layer->stats, i), &e) <= 0)
			return -EUCLEAN;
	strcpy(listing, digest);
	return 0;
}

/* The digest of what is in its tree. */
static int list(const struct cbx_layer *layer, struct cbx_scan_known *known, char out[CBX_OCI_DIGEST],
		struct cbx_err *err)
{
	struct cbx_scan scan;
	int r = cbx_scan_tree_known(layer->tree, known, &scan, err);

	if (r < 0)
		return r;
	cbx_scan_digest(cbx_buf_str(&scan.text), scan.text.len, out);
	cbx_scan_release(&scan);
	return 0;
}

/* 1: it is there, and as it was; 0: there is none; or -errno. known: NULL where it was made a moment ago. */
static int look(int dir, const char *path, const char *digest, struct cbx_scan_known *known, struct cbx_layer *ret)
{
	char then[CBX_OCI_DIGEST], now[CBX_OCI_DIGEST];
	struct cbx_err ignored;
	int r;

	*ret = (struct cbx_layer){ .tree = -1, .dir = cbx_tree_open_dir(dir, path) };
	if (ret->dir == -ENOENT)
		return 0;
	strcpy(ret->digest, digest);
	ret->tree = ret->dir < 0 ? -1 : cbx_tree_open_dir(ret->dir, TREE);
	r = ret->tree < 0 ? -EUCLEAN : read_record(ret, then);
	if (r == 0 && known)
		r = list(ret, known, now, &ignored) < 0 || strcmp(then, now) != 0 ? -EUCLEAN : 0;
	if (r < 0)
		cbx_layer_close(ret);
	return r < 0 ? r : 1;
}

int cbx_layer_find(int stage, int store, const char *digest, struct cbx_scan_known *known, struct cbx_layer *ret)
{
	char path[CBX_OCI_DIGEST + 16];
	struct cbx_err ignored;
	int r;

	path_of(CBX_LAYERS_FRESH, digest, path);
	if (look(stage, path, digest, NULL, ret) > 0)
		return 1;
	path_of(CBX_LAYERS_STORE, digest, path);
	r = look(store, path, digest, known, ret);
	ret->kept = true;
	if (r >= 0)
		return r;
	cbx_scan_known_release(known); /* the numbers of its files will be those of others */
	(void)cbx_tree_remove(store, path, &ignored);
	return 0;
}

int cbx_layer_begin(int stage, const char *digest, struct cbx_layer *ret, struct cbx_err *err)
{
	char path[CBX_OCI_DIGEST + 16];

	*ret = (struct cbx_layer){ .dir = -1, .tree = -1 };
	strcpy(ret->digest, digest);
	path_of(CBX_LAYERS_FRESH, digest, path);
	if (mkdirat(stage, CBX_LAYERS_FRESH, 0755) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make a directory for layers");
	if (mkdirat(stage, path, 0755) == 0)
		ret->dir = cbx_tree_open_dir(stage, path);
	if (ret->dir >= 0 && mkdirat(ret->dir, TREE, 0755) == 0)
		ret->tree = cbx_tree_open_dir(ret->dir, TREE);
	if (ret->tree >= 0)
		return 0;
	cbx_fail(err, errno, "make a directory for the layer %s", digest);
	cbx_layer_close(ret);
	return -err->code;
}

int cbx_layer_complete(const struct cbx_layer *layer, struct cbx_scan_known *known, struct cbx_err *err)
{
	_cleanup_json_ cJSON *record = cbx_json_new_obj();
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_unpack_stats stats = layer->stats;
	char listing[CBX_OCI_DIGEST];
	int r = list(layer, known, listing, err);

	if (r < 0)
		return r;
	cbx_json_set_u64(record, "format", FORMAT);
	cbx_json_set_str(record, "listing", listing);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		cbx_json_set_u64(record, numbers[i].key, *number(&stats, i));
	cbx_json_print(&text, record);
	cbx_buf_addc(&text, '\n');
	return cbx_tree_write(layer->dir, RECORD, text.data, text.len, 0644, err);
}
