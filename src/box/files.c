/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: each call is one request to init and one answer. Answers are checked before they are passed on:
 * lengths against what was asked for, and a list's entries one by one.
 */
#include "box/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "box/entries.h"
#include "box/init.h"

#define PATH_LENGTH_MAX 4096

struct file_request {
	struct cbx_box *box;
	uint32_t type;
	size_t max;
	char *path;
	struct cbx_op *op;
};

static void request_free(struct file_request *q)
{
	free(q->path);
	free(q);
}

static void file_error(const struct file_request *q, int64_t value, struct cbx_err *err)
{
	int code = value > -4096 ? (int)-value : EIO;
	const char *kind = code == ENOENT    ? "file_not_found"
			   : code == ENOSPC  ? "disk_full"
			   : code == EDQUOT  ? "disk_full"
			   : code == EEXIST  ? "file_exists"
			   : code == EISDIR  ? "is_a_directory"
			   : code == ENOTDIR ? "not_a_directory"
			   : code == EACCES  ? "permission_denied"
			   : code == EPERM   ? "permission_denied"
					     : "file_error";

	cbx_refuse(err, kind, code, "%.300s: %s", q->path,
		   code == EROFS    ? "read-only here; /workspace and /tmp can be written"
		   : code == EINVAL ? "not an ordinary file, so it has no contents to read or write"
				    : strerror(code));
}

/* What init says is in *ret, unless it makes no sense. *entries is to be freed. */
static bool understand(const struct file_request *q, const struct cbx_init_header *h, const char *payload,
		       struct cbx_file_reply *ret, struct cbx_file_entry **entries)
{
	struct cbx_init_stat st;

	switch (q->type) {
	case CBX_INIT_READ:
		*ret = (struct cbx_file_reply){ .data = payload, .len = h->len, .size = h->arg };
		return (uint64_t)h->value <= q->max && h->len == (uint64_t)h->value && h->arg <= INT64_MAX;
	case CBX_INIT_READLINK:
		*ret = (struct cbx_file_reply){ .data = payload, .len = h->len };
		return h->len > 0 && h->len == (uint64_t)h->value && h->len < PATH_LENGTH_MAX &&
		       !memchr(payload, '\0', h->len);
	case CBX_INIT_WRITE:
		*ret = (struct cbx_file_reply){ .len = (size_t)h->value };
		return (uint64_t)h->value <= q->max && h->len == 0;
	case CBX_INIT_STAT:
		if (h->len != sizeof(st))
			return false;
		memcpy(&st, payload, sizeof(st));
		*entries = cbx_xcalloc(1, sizeof(**entries));
		**entries = (struct cbx_file_entry){ "", st.mode, st.size, st.mtime_ns };
		*ret = (struct cbx_file_reply){ .entries = *entries, .nentries = 1 };
		return true;
	case CBX_INIT_LIST:
	case CBX_INIT_SCAN:
		if (!cbx_entries_parse(payload, h->len, h->value, q->type == CBX_INIT_SCAN, entries))
			return false;
		*ret = (struct cbx_file_reply){ .entries = *entries, .nentries = (size_t)h->value,
						.more = h->arg == 1 };
		if (q->type == CBX_INIT_LIST)
			return true;
		ret->size = h->arg & ~CBX_INIT_SCAN_CUT;
		ret->cut = h->arg & CBX_INIT_SCAN_CUT;
		ret->more = ret->size > q->max + (uint64_t)h->value;
		return true;
	default:
		return h->len == 0;
	}
}

void cbx_files_changed(struct cbx_box *box)
{
	box->files_changed_ns = cbx_wall_ns(CLOCK_REALTIME);
}

static void answered(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		     const struct cbx_err *fault)
{
	struct file_request *q = arg;
	struct cbx_file_op *op = cbx_op_take(&q->op);
	_cleanup_free_ struct cbx_file_entry *entries = NULL;
	struct cbx_file_reply reply = { 0 };
	struct cbx_err err = { 0 };

	if (!fault && h->value >= 0 &&
	    (q->type == CBX_INIT_WRITE || q->type == CBX_INIT_PLACE || q->type == CBX_INIT_RENAME))
		cbx_files_changed(q->box);
	if (!op) {
		request_free(q);
		return;
	}
	if (fault)
		err = *fault;
	else if (h->value < 0)
		file_error(q, h->value, &err);
	else if (!understand(q, h, payload, &reply, &entries))
		cbx_refuse(&err, "sandbox_failed", EBADMSG, "%.300s: the sandbox sent a malformed answer", q->path);
	request_free(q);
	op->done(op, err.code ? NULL : &reply, err.code ? &err : NULL);
}

static int ask(struct cbx_box *box, struct cbx_init_header h, bool urgent, const char *path, const void *p, size_t n,
	       size_t max, struct cbx_file_op *op, struct cbx_err *err)
{
	size_t path_len = strlen(path);
	struct file_request *q;
	int r;

	if (path_len == 0 || path_len >= PATH_LENGTH_MAX)
		return cbx_refuse(err, "invalid_argument", EINVAL, "path: its length must be between 1 and %d bytes",
				  PATH_LENGTH_MAX - 1);
	if (n > CBX_FILE_CHUNK)
		return cbx_refuse(err, "invalid_argument", EMSGSIZE,
				  "data: %zu bytes are too many at once; write at most %d", n, CBX_FILE_CHUNK);
	q = cbx_xcalloc(1, sizeof(*q));
	q->box = box;
	q->type = h.type;
	q->max = max;
	q->path = cbx_xstrdup(path);
	r = cbx_init_ask(box, &h, path, path_len + 1, p, n, NULL, 0, urgent, answered, q, err);
	if (r < 0)
		request_free(q);
	else
		cbx_op_begin(&op->op, &q->op);
	return r;
}

int cbx_file_read(struct cbx_box *box, const char *path, uint64_t offset, size_t max, struct cbx_file_op *op, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_READ, .arg = offset };

	if (max > CBX_FILE_CHUNK)
		max = CBX_FILE_CHUNK;
	h.value = (int64_t)max;
	return ask(box, h, false, path, NULL, 0, max, op, err);
}

_Static_assert(CBX_FILE_TRUNCATE == CBX_INIT_WRITE_TRUNCATE && CBX_FILE_EXECUTABLE == CBX_INIT_WRITE_EXECUTABLE,
	       "they are passed on");

int cbx_file_write(struct cbx_box *box, const char *path, uint64_t offset, unsigned flags, const void *p,
			   size_t n, struct cbx_file_op *op, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_WRITE, .arg = offset, .value = flags };

	return ask(box, h, false, path, p, n, n, op, err);
}

int cbx_file_stat(struct cbx_box *box, const char *path, struct cbx_file_op *op, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_STAT };

	return ask(box, h, false, path, NULL, 0, 0, op, err);
}

int cbx_file_list(struct cbx_box *box, const char *path, uint64_t skip, struct cbx_file_op *op,
			  struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_LIST, .arg = skip };

	return ask(box, h, false, path, NULL, 0, 0, op, err);
}

int cbx_file_scan(struct cbx_box *box, const char *path, uint64_t skip, struct cbx_file_op *op,
			  struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_SCAN, .value = skip > INT64_MAX ? INT64_MAX : (int64_t)skip };

	return ask(box, h, false, path, NULL, 0, (size_t)h.value, op, err);
}

int cbx_file_changed(struct cbx_box *box, int64_t since_ns, struct cbx_file_op *op, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_SCAN, .arg = (uint64_t)since_ns };

	return ask(box, h, true, ".", NULL, 0, 0, op, err);
}

int cbx_file_mkdir(struct cbx_box *box, const char *path, struct cbx_file_op *op, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_MKDIR };

	return ask(box, h, false, path, NULL, 0, 0, op, err);
}

int cbx_file_remove(struct cbx_box *box, const char *path, struct cbx_file_op *op, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_REMOVE };

	return ask(box, h, false, path, NULL, 0, 0, op, err);
}

int cbx_file_rename(struct cbx_box *box, const char *path, const char *to, struct cbx_file_op *op, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_RENAME };

	return ask(box, h, false, path, to, strlen(to) + 1, 0, op, err);
}

int cbx_file_readlink(struct cbx_box *box, const char *path, struct cbx_file_op *op, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_READLINK };

	return ask(box, h, false, path, NULL, 0, 0, op, err);
}

int cbx_file_place(struct cbx_box *box, const struct cbx_file_place *place, struct cbx_file_op *op, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_PLACE,
				     .value = place->mode | (place->same ? CBX_INIT_PLACE_NAME : 0),
				     .arg = (uint64_t)place->mtime_ns };
	_cleanup_buf_ struct cbx_buf data = { 0 };

	cbx_buf_add(&data, place->path, strlen(place->path) + 1);
	cbx_buf_add(&data, place->text, strlen(place->text) + 1);
	return ask(box, h, false, place->into, data.data, data.len, 0, op, err);
}
