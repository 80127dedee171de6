/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: each call is one request to init and one answer. Answers are checked before they are passed on:
 * lengths against what was asked for, and a list's entries one by one, so that callers can walk them without a check.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/internal.h"

#define PATH_LENGTH_MAX 4096

struct file_request {
	uint32_t type;
	size_t max;
	char *path;
	cbx_file_fn fn;
	void *arg;
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

static bool answer_valid(const struct file_request *q, const struct cbx_init_header *h, const char *payload)
{
	switch (q->type) {
	case CBX_INIT_READ:
		return (uint64_t)h->value <= q->max && h->len == (uint64_t)h->value && h->arg <= INT64_MAX;
	case CBX_INIT_WRITE:
		return (uint64_t)h->value <= q->max && h->len == 0;
	case CBX_INIT_STAT:
		return h->len == sizeof(struct cbx_init_stat);
	case CBX_INIT_LIST:
		return h->value <= (int64_t)CBX_INIT_MESSAGE_MAX && cbx_entries_valid(payload, h->len, h->value, false);
	case CBX_INIT_SCAN:
		return h->value <= (int64_t)CBX_INIT_MESSAGE_MAX && cbx_entries_valid(payload, h->len, h->value, true);
	default:
		return h->len == 0;
	}
}

static void answered(void *arg, const struct cbx_init_header *h, const char *payload, size_t len,
		     const struct cbx_err *fault)
{
	struct file_request *q = arg;
	struct cbx_file_reply reply = { 0 };
	struct cbx_err err = { 0 };

	if (fault) {
		err = *fault;
	} else if (h->value < 0) {
		file_error(q, h->value, &err);
	} else if (!answer_valid(q, h, payload)) {
		cbx_refuse(&err, "sandbox_failed", EBADMSG, "%.300s: the sandbox gave an answer that makes no sense",
			   q->path);
	} else {
		reply.value = h->value;
		reply.size = q->type == CBX_INIT_READ ? h->arg : 0;
		reply.more = q->type == CBX_INIT_LIST && h->arg == 1;
		if (q->type == CBX_INIT_SCAN) {
			reply.size = h->arg & ~CBX_INIT_SCAN_CUT;
			reply.cut = h->arg & CBX_INIT_SCAN_CUT;
			reply.more = reply.size > q->max + (uint64_t)h->value;
		}
		reply.data = payload;
		reply.len = len;
	}
	q->fn(q->arg, err.code ? NULL : &reply, err.code ? &err : NULL);
	request_free(q);
}

static int ask(struct cbx_session *s, struct cbx_init_header h, const char *path, const void *p, size_t n, size_t max,
	       cbx_file_fn fn, void *arg, struct cbx_err *err)
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
	q->type = h.type;
	q->max = max;
	q->path = cbx_xstrdup(path);
	q->fn = fn;
	q->arg = arg;
	if (h.type != CBX_INIT_SCAN) /* looking at names is no use of the session */
		cbx_session_touch(s);
	r = cbx_init_ask(s, &h, path, path_len + 1, p, n, NULL, 0, false, answered, q, err);
	if (r < 0)
		request_free(q);
	return r;
}

int cbx_session_file_read(struct cbx_session *s, const char *path, uint64_t offset, size_t max, cbx_file_fn fn,
			  void *arg, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_READ, .arg = offset };

	if (max > CBX_FILE_CHUNK)
		max = CBX_FILE_CHUNK;
	h.value = (int64_t)max;
	return ask(s, h, path, NULL, 0, max, fn, arg, err);
}

int cbx_session_file_write(struct cbx_session *s, const char *path, uint64_t offset, unsigned flags, const void *p,
			   size_t n, cbx_file_fn fn, void *arg, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_WRITE, .arg = offset, .value = flags };

	return ask(s, h, path, p, n, n, fn, arg, err);
}

int cbx_session_file_stat(struct cbx_session *s, const char *path, cbx_file_fn fn, void *arg, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_STAT };

	return ask(s, h, path, NULL, 0, 0, fn, arg, err);
}

int cbx_session_file_list(struct cbx_session *s, const char *path, uint64_t skip, cbx_file_fn fn, void *arg,
			  struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_LIST, .arg = skip };

	return ask(s, h, path, NULL, 0, 0, fn, arg, err);
}

int cbx_session_file_scan(struct cbx_session *s, const char *path, uint64_t skip, cbx_file_fn fn, void *arg,
			  struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_SCAN, .value = skip > INT64_MAX ? INT64_MAX : (int64_t)skip };

	return ask(s, h, path, NULL, 0, (size_t)h.value, fn, arg, err);
}

int cbx_session_file_mkdir(struct cbx_session *s, const char *path, cbx_file_fn fn, void *arg, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_MKDIR };

	return ask(s, h, path, NULL, 0, 0, fn, arg, err);
}

int cbx_session_file_remove(struct cbx_session *s, const char *path, cbx_file_fn fn, void *arg, struct cbx_err *err)
{
	struct cbx_init_header h = { .type = CBX_INIT_REMOVE };

	return ask(s, h, path, NULL, 0, 0, fn, arg, err);
}
