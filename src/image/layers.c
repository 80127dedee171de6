/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "image/oci.h"
#include "image/store.h"
#include "image/tree.h"

static int keep_all(int fresh, int kept, struct cbx_err *err)
{
	char **names;
	size_t n;
	int r = cbx_tree_names(fresh, &names, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++)
		if (renameat(fresh, names[i], kept, names[i]) < 0)
			r = cbx_fail(err, errno, "keep the layer %s", names[i]);
	cbx_tree_names_free(names, n);
	return r;
}

int cbx_layers_keep(int stage, int store, struct cbx_err *err)
{
	_cleanup_fd_ int fresh = cbx_tree_open_dir(stage, CBX_LAYERS_FRESH), kept = -1;
	int r;

	if (fresh == -ENOENT)
		return 0;
	if (mkdirat(store, CBX_LAYERS_STORE, 0755) < 0 && errno != EEXIST)
		return cbx_fail(err, errno, "make a directory for layers in the image store");
	kept = cbx_tree_open_dir(store, CBX_LAYERS_STORE);
	if (fresh < 0 || kept < 0)
		return cbx_fail(err, fresh < 0 ? -fresh : -kept, "open the directory of layers");
	r = keep_all(fresh, kept, err);
	return r < 0 ? r : cbx_tree_remove(stage, CBX_LAYERS_FRESH, err);
}

/* Of all images, sorted: the names that their layers have here. Borrowed from the list. */
static const char **used_names(const cJSON *list, size_t *ret_n)
{
	const char **names = NULL;
	const cJSON *image, *layer;
	size_t n = 0;

	cJSON_ArrayForEach(image, list)
		cJSON_ArrayForEach(layer, cbx_json_member(image, "composed")) {
			const char *digest = cJSON_IsObject(layer) ? cbx_json_text(layer, "digest") : NULL;

			if (!digest || !cbx_oci_digest_valid(digest))
				continue;
			names = cbx_xrealloc(names, (n + 1) * sizeof(*names));
			names[n++] = digest + strlen("sha256:");
		}
	if (n)
		qsort(names, n, sizeof(*names), cbx_by_name);
	*ret_n = n;
	return names;
}

void cbx_layers_sweep(int store, const char *images_dir)
{
	_cleanup_fd_ int kept = cbx_tree_open_dir(store, CBX_LAYERS_STORE);
	_cleanup_json_ cJSON *list = NULL;
	_cleanup_free_ const char **used = NULL;
	struct cbx_err ignored;
	size_t n = 0, n_used;
	char **names;

	if (kept < 0 || cbx_image_list(images_dir, &list, &ignored) < 0 ||
	    cbx_tree_names(kept, &names, &n, &ignored) < 0)
		return;
	used = used_names(list, &n_used);
	for (size_t i = 0; i < n; i++)
		if (!n_used || !bsearch(&names[i], used, n_used, sizeof(*used), cbx_by_name))
			(void)cbx_tree_remove(kept, names[i], &ignored);
	cbx_tree_names_free(names, n);
	(void)unlinkat(store, CBX_LAYERS_STORE, AT_REMOVEDIR); /* if it is empty */
}

cJSON *cbx_layers_list(int store)
{
	_cleanup_fd_ int kept = cbx_tree_open_dir(store, CBX_LAYERS_STORE);
	cJSON *list = cbx_json_new_arr();
	struct cbx_err ignored;
	char **names;
	size_t n = 0;

	if (kept < 0 || cbx_tree_names(kept, &names, &n, &ignored) < 0)
		return list;
	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *digest = cbx_xasprintf("sha256:%s", names[i]);

		if (cbx_oci_digest_valid(digest))
			cbx_json_push_str(list, digest);
	}
	cbx_tree_names_free(names, n);
	return list;
}
