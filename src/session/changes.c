/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: when a cell has ended, init is asked for the files whose ctime is not before the cell's start;
 * the end is told when the answer is there, and the next cell starts after that. Files are stamped with the kernel's
 * coarse clock, so the start is read from that clock, too: what was changed within the same tick (at most 10 ms)
 * before the cell counts as its own, and nothing of its own is ever missed for the clock.
 *
 * The names are hostile. As JSON they are valid UTF-8, and the URI has their bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/internal.h"

struct cbx_changes {
	struct cbx_execution *x; /* NULL once that does not wait any more */
};

struct change {
	const char *path;
	uint64_t size;
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct change *)a)->path, ((const struct change *)b)->path);
}

static void keep(struct cbx_execution *x, const char *payload, int64_t count)
{
	struct change *v = cbx_xcalloc((size_t)count + 1, sizeof(*v));
	size_t at = 0, n = (size_t)count;

	for (size_t i = 0; i < n; i++) {
		struct cbx_init_entry e;

		memcpy(&e, payload + at, sizeof(e));
		v[i].path = payload + at + sizeof(e);
		v[i].size = e.st.size <= INT64_MAX ? e.st.size : INT64_MAX;
		at += e.entry_len;
	}
	qsort(v, n, sizeof(*v), by_path);
	x->files = cbx_json_new_arr();
	for (size_t i = 0; i < n && i < CBX_CHANGES_MAX; i++) {
		_cleanup_buf_ struct cbx_buf uri = { 0 };
		cJSON *o = cbx_json_new_obj();

		cbx_file_uri(&uri, x->session->spec.id, v[i].path);
		cbx_json_set_str(o, "path", v[i].path);
		cbx_json_set_u64(o, "size", v[i].size);
		cbx_json_set_str(o, "mime_type", cbx_mime_by_name(v[i].path));
		cbx_json_set_str(o, "uri", cbx_buf_str(&uri));
		cbx_json_push(x->files, o);
		x->files_bytes += 600 + strlen(v[i].path) + uri.len;
	}
	free(v);
}

static void answered(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		     const struct cbx_err *err)
{
	struct cbx_changes *c = arg;
	struct cbx_execution *x = c->x;

	free(c);
	if (!x)
		return;
	x->changes = NULL;
	if (!err && h->value >= 0 && h->value <= (int64_t)CBX_INIT_MESSAGE_MAX &&
	    cbx_entries_valid(payload, len, h->value, true)) {
		uint64_t all = h->arg & ~CBX_INIT_SCAN_CUT;

		if (h->value)
			keep(x, payload, h->value);
		if (x->files && all > (uint64_t)cJSON_GetArraySize(x->files))
			x->files_omitted = all - (uint64_t)cJSON_GetArraySize(x->files);
		x->files_unknown = h->arg & CBX_INIT_SCAN_CUT;
	} else {
		x->files_unknown = true;
	}
	if (x->files)
		cbx_engine_files_changed(x->session->engine, x->session->spec.id, x->files);
	cbx_execution_settle(x);
}

void cbx_changes_ask(struct cbx_execution *x)
{
	struct cbx_init_header h = { .type = CBX_INIT_SCAN, .arg = (uint64_t)x->since_ns };
	struct cbx_changes *c = cbx_xcalloc(1, sizeof(*c));
	struct cbx_err err;

	c->x = x;
	x->changes = c;
	if (cbx_init_ask(x->session, &h, ".", 2, NULL, 0, NULL, 0, true, answered, c, &err) < 0) {
		x->changes = NULL;
		x->files_unknown = true;
		free(c);
	}
}

void cbx_changes_leave(struct cbx_execution *x)
{
	if (!x->changes)
		return;
	x->changes->x = NULL;
	x->changes = NULL;
	x->files_unknown = true;
}
