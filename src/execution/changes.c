/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: when a cell has ended, init is asked for the files whose ctime is not before the cell's start;
 * the end is reported when the answer is there, and the next cell starts after that. Files are stamped with the
 * kernel's coarse clock, so the start is read from that clock, too, and nothing that a cell changes is ever missed for
 * the clock. After a cell or a client has changed files, the next cell waits until that clock has passed them (it is
 * late by at most 10 ms), so that they do not count as its own.
 *
 * The names are hostile. As JSON they are valid UTF-8, and the URI has their bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/limits.h"
#include "execution/changes.h"
#include "execution/internal.h"

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct cbx_file_entry *)a)->name, ((const struct cbx_file_entry *)b)->name);
}

void cbx_changes_list(const struct cbx_file_reply *reply, const char *id, const char *own, size_t max,
		      struct cbx_changes *ret)
{
	_cleanup_free_ struct cbx_file_entry *v = cbx_xcalloc(reply->nentries + 1, sizeof(*v));
	size_t n = 0, counted;

	*ret = (struct cbx_changes){ 0 };
	for (size_t i = 0; i < reply->nentries; i++)
		if (!own || strcmp(reply->entries[i].name, own) != 0)
			v[n++] = reply->entries[i];
	counted = reply->nentries - n;
	qsort(v, n, sizeof(*v), by_name);
	ret->files = n ? cbx_json_new_arr() : NULL;
	for (size_t i = 0; i < n && i < CBX_CHANGES_MAX && ret->bytes < max; i++, counted++) {
		_cleanup_buf_ struct cbx_buf uri = { 0 };
		cJSON *o = cbx_json_new_obj();

		cbx_file_uri(&uri, id, v[i].name);
		cbx_json_set_str(o, "path", v[i].name);
		cbx_json_set_u64(o, "size", v[i].size <= INT64_MAX ? v[i].size : INT64_MAX);
		cbx_json_set_str(o, "mime_type", cbx_mime_by_name(v[i].name));
		cbx_json_set_str(o, "uri", cbx_buf_str(&uri));
		cbx_json_push(ret->files, o);
		ret->bytes += 600 + strlen(v[i].name) + uri.len;
	}
	/* Of all that there are, as init says. */
	ret->omitted = ret->files && reply->size > counted ? reply->size - counted : 0;
}

/* A program's own file, which was put there for it, is not a change. */
void cbx_changes_read(struct cbx_execution *x, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_changes changes;

	x->files_unknown = err || reply->cut;
	if (err)
		return;
	if (reply->nentries)
		cbx_files_changed(x->cells->box);
	cbx_changes_list(reply, x->cells->id, x->file, SIZE_MAX, &changes);
	x->files = changes.files;
	x->files_omitted = changes.omitted;
	x->files_bytes += changes.bytes;
}
