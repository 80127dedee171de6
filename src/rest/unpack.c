/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an archive is unpacked while it comes, through init, as files are written otherwise, so that an
 * archive of any size takes the memory of a piece. The client is asked for more when all that it sent is where it
 * belongs. A file is written beside its place, and gets it when all of it is there (CBX_INIT_PLACE): what is seen is
 * whole. Entries are judged one by one, and the first that is refused ends it; those before it stay, and the answer
 * says how many they are. What was written of a file that gets no place is removed, also where the client has left.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "rest/internal.h"
#include "rest/tar.h"

#define BESIDE_ROOM 40 /* ".codebox-" and 16 digits */

struct cbx_rest_unpack {
	struct cbx_tar tar;
	bool zipped, zip_ended; /* by gzip; the last of its members has ended */
	z_stream zip;
	char *plain;	/* CBX_FILE_CHUNK bytes that were unzipped; NULL: it is not zipped */
	const char *in; /* of the body, what was not unzipped, or else not read */
	size_t in_len;
	bool last;     /* no more of the body comes */
	const char *p; /* what the reader of the archive gets next */
	size_t n;
	uint64_t done, bytes; /* entries that are in place, and bytes of their files */
	uint64_t offset;      /* of the file that is written */
	char into[CBX_REST_PATH_MAX + 1];
	char beside[BESIDE_ROOM];
	char temp[CBX_REST_PATH_MAX + BESIDE_ROOM + 2]; /* its path; "": no file is being written */
	char parents[CBX_REST_PATH_MAX + 1];		/* of the last file: they are there */
	bool has_parents;
};

/* ---- leaving ---- */

/* What is removed when nobody waits for it any more. */
struct leftover {
	struct cbx_ops ops;
	struct cbx_file_op op;
};

static void leftover_gone(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	free(cbx_container_of(op, struct leftover, op));
}

static void remove_leftover(struct cbx_rest_call *call, const char *path)
{
	struct cbx_session *s;
	struct cbx_err ignored;
	struct leftover *l;

	if (cbx_session_find(&call->caller, call->target.session_id, &s, &ignored) < 0)
		return; /* it has gone, and its files with it */
	l = cbx_xcalloc(1, sizeof(*l));
	l->op = (struct cbx_file_op){ .op.ops = &l->ops, .done = leftover_gone };
	if (cbx_session_file_remove(s, path, &l->op, &ignored) < 0)
		free(l);
}

static void release(struct cbx_rest_call *call)
{
	struct cbx_rest_unpack *u = take_ptr(&call->unpack);

	if (u->temp[0])
		remove_leftover(call, u->temp);
	if (u->zipped)
		inflateEnd(&u->zip);
	cbx_tar_release(&u->tar);
	free(u->plain);
	free(u);
}

/* ---- answers ---- */

static void fail(struct cbx_rest_call *call, const struct cbx_err *err)
{
	const struct cbx_rest_unpack *u = call->unpack;
	struct cbx_err said;

	cbx_rest_tell_news(call);
	cbx_refuse(&said, err->kind, err->code,
		   "%.400s; of the archive, %" PRIu64 " %s in place, and nothing of the rest", err->msg, u->done,
		   u->done == 1 ? "entry is" : "entries are");
	cbx_rest_fail(call, &said);
}

static void finish(struct cbx_rest_call *call)
{
	const struct cbx_rest_unpack *u = call->unpack;
	cJSON *o = cbx_json_new_obj();

	cbx_rest_tell_news(call);
	cbx_json_set_str(o, "path", u->into);
	cbx_json_set_u64(o, "entries", u->done);
	cbx_json_set_u64(o, "size", u->bytes);
	cbx_rest_answer(call, 200, o);
}

/* ---- bytes in ---- */

static void step(struct cbx_rest_call *call);

static void came(void *arg, const char *p, size_t n, bool last)
{
	struct cbx_rest_call *call = arg;
	struct cbx_rest_unpack *u = call->unpack;

	u->in = p;
	u->in_len = n;
	u->last = last;
	step(call);
}

/* Unzip what there is room for. 1: there is more to read; 0: more has to come first. */
static int unzip(struct cbx_rest_unpack *u, struct cbx_err *err)
{
	z_stream *z = &u->zip;
	int r = Z_OK;

	z->next_out = (Bytef *)u->plain;
	z->avail_out = CBX_FILE_CHUNK;
	while (u->in_len && z->avail_out == CBX_FILE_CHUNK) {
		if (u->zip_ended) /* another member follows */
			inflateReset(z);
		z->next_in = (Bytef *)(uintptr_t)u->in;
		z->avail_in = (uInt)u->in_len;
		r = inflate(z, Z_NO_FLUSH);
		u->in = (const char *)z->next_in;
		u->in_len = z->avail_in;
		u->zip_ended = r == Z_STREAM_END;
		if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
			return cbx_refuse(err, "invalid_archive", EINVAL,
					  "the archive: not of gzip, or damaged (%s); send it anew",
					  z->msg ? z->msg : "its end does not fit the rest");
	}
	u->p = u->plain;
	u->n = CBX_FILE_CHUNK - z->avail_out;
	return u->n > 0;
}

/* 1: there is more to read; 0: it is waited for, or there is no more, and the call has ended. */
static int refill(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_rest_unpack *u = call->unpack;
	int r = 0;

	if (u->zipped) {
		r = unzip(u, err);
	} else if (u->in_len) {
		u->p = u->in;
		u->n = u->in_len;
		u->in_len = 0;
		r = 1;
	}
	if (r)
		return r;
	if (!u->last)
		cbx_http_conn_pull(call->conn, came);
	else if (u->tar.state != CBX_TAR_OVER || (u->zipped && !u->zip_ended))
		return cbx_refuse(err, "invalid_archive", EINVAL,
				  "the archive: cut off, its end is missing; send all of it");
	else
		finish(call);
	return 0;
}

/* ---- entries out ---- */

/* A path of the archive as one of the workspace. */
static void whole(const struct cbx_rest_unpack *u, const char *path, char ret[CBX_REST_PATH_MAX + 1])
{
	_cleanup_buf_ struct cbx_buf b = { 0 };

	cbx_buf_addf(&b, "%s%s%s", u->into, u->into[0] && path[0] ? "/" : "", path);
	snprintf(ret, CBX_REST_PATH_MAX + 1, "%s", b.len ? b.data : ".");
}

/* What is done to the entry has failed: the archive ends here. */
static void fail_entry(struct cbx_rest_call *call, const struct cbx_err *err)
{
	struct cbx_err said = *err;

	cbx_wrap(&said, "%.200s", call->unpack->tar.entry.path);
	fail(call, &said);
}

static void add_news(struct cbx_rest_call *call)
{
	const struct cbx_rest_unpack *u = call->unpack;

	if (cJSON_GetArraySize(call->written) >= CBX_REST_PARTS_MAX)
		return;
	whole(u, u->tar.entry.path, call->target.path);
	call->end = u->tar.entry.size;
	cbx_rest_add_news(call);
}

static void placed(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);
	struct cbx_rest_unpack *u = call->unpack;

	if (err) {
		fail_entry(call, err);
		return;
	}
	u->done++;
	if (u->tar.entry.type == CBX_TAR_FILE) {
		u->temp[0] = '\0';
		u->bytes += u->tar.entry.size;
		add_news(call);
	}
	step(call);
}

static void written(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);

	if (err) {
		fail_entry(call, err);
		return;
	}
	call->unpack->offset += reply->len;
	step(call);
}

/* The directories above a file are there. */
static void ready(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);

	if (err) {
		fail_entry(call, err);
		return;
	}
	call->unpack->has_parents = true;
	step(call);
}

static int put(struct cbx_session *s, struct cbx_rest_call *call, uint32_t mode, const char *text,
	       void (*done)(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err),
	       struct cbx_err *err)
{
	const struct cbx_rest_unpack *u = call->unpack;
	const struct cbx_tar_entry *e = &u->tar.entry;
	struct cbx_file_place place = { .into = u->into[0] ? u->into : ".",
					.path = e->path,
					.text = text,
					.mode = mode,
					.same = e->type == CBX_TAR_NAME,
					.mtime_ns = e->mtime_ns };

	return cbx_session_file_place(s, &place, cbx_rest_file_op(call, done), err);
}

/* A file has another directory than the one before it: that is made, and looked at, so that no link is on the way. */
static bool needs_parents(struct cbx_rest_unpack *u)
{
	const char *path = u->tar.entry.path, *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (u->has_parents && strlen(u->parents) == n && memcmp(u->parents, path, n) == 0)
		return false;
	memcpy(u->parents, path, n);
	u->parents[n] = '\0';
	u->has_parents = false;
	return true;
}

/* 1: its answer continues; 0: nothing is to be done now. */
static int begin_entry(struct cbx_session *s, struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_rest_unpack *u = call->unpack;
	const struct cbx_tar_entry *e = &u->tar.entry;
	int r = 1;

	u->offset = 0;
	if (!e->path[0]) { /* the directory that it all goes into: asked for, so that a million of them take turns */
		r = cbx_session_file_mkdir(s, u->into[0] ? u->into : ".", cbx_rest_file_op(call, placed), err);
		return r < 0 ? r : 1;
	}
	if (strlen(u->into) + strlen(e->path) > CBX_REST_PATH_MAX - BESIDE_ROOM)
		return cbx_refuse(err, "invalid_archive", EINVAL, "%.200s: the path is too long; shorten it", e->path);
	switch (e->type) {
	case CBX_TAR_DIRECTORY:
		r = put(s, call, S_IFDIR | 0700 | e->mode, "", placed, err);
		break;
	case CBX_TAR_SYMLINK:
		r = put(s, call, S_IFLNK, e->target, placed, err);
		break;
	case CBX_TAR_NAME:
		r = put(s, call, S_IFREG, e->target, placed, err);
		break;
	case CBX_TAR_FILE:
		if (!needs_parents(u))
			return 0;
		r = put(s, call, 0, "", ready, err);
		break;
	}
	return r < 0 ? r : 1;
}

static int write_piece(struct cbx_session *s, struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_rest_unpack *u = call->unpack;
	char dir[CBX_REST_PATH_MAX + 1];
	bool first = !u->temp[0];

	if (first) {
		whole(u, u->parents, dir);
		snprintf(u->temp, sizeof(u->temp), "%s/%s", dir, u->beside);
	}
	return cbx_session_file_write(s, u->temp, u->offset, first ? CBX_FILE_TRUNCATE : 0, u->tar.data, u->tar.len,
				      cbx_rest_file_op(call, written), err);
}

/* What was found in the archive. 1: its answer continues; 0: nothing is to be done now. */
static int carry_out(struct cbx_session *s, struct cbx_rest_call *call, enum cbx_tar_found found, struct cbx_err *err)
{
	struct cbx_rest_unpack *u = call->unpack;
	int r;

	if (found == CBX_TAR_ENTRY)
		return begin_entry(s, call, err);
	if (found == CBX_TAR_DATA)
		r = write_piece(s, call, err);
	else
		r = put(s, call, S_IFREG | u->tar.entry.mode, u->beside, placed, err);
	return r < 0 ? r : 1;
}

/* 1: continue; 0: what was asked for continues here, or the call has ended. */
static int try_step(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_rest_unpack *u = call->unpack;
	size_t n = u->n < CBX_FILE_CHUNK ? u->n : CBX_FILE_CHUNK, used;
	enum cbx_tar_found found;
	struct cbx_session *s;
	int r = cbx_tar_read(&u->tar, u->p, n, &used, &found, err);

	u->p += used;
	u->n -= used;
	if (r < 0)
		return r;
	if (found == CBX_TAR_MORE || found == CBX_TAR_END)
		return u->n ? 1 : refill(call, err);
	r = cbx_session_find(&call->caller, call->target.session_id, &s, err);
	if (r >= 0)
		r = carry_out(s, call, found, err);
	return r < 0 ? r : !r;
}

static void step(struct cbx_rest_call *call)
{
	struct cbx_err err;
	int r = 1;

	while (r > 0)
		r = try_step(call, &err);
	if (r < 0)
		fail(call, &err);
}

/* ---- the request ---- */

char cbx_rest_archive_kind(const char *type)
{
	static const struct {
		const char *type;
		char kind;
	} kinds[] = {
		{ "application/x-tar", 't' },
		{ "application/gzip", 'z' },
		{ "application/x-gzip", 'z' },
		{ "application/x-tar+gzip", 'z' },
	};

	for (size_t i = 0; type && i < ARRAY_SIZE(kinds); i++) {
		size_t n = strlen(kinds[i].type);

		if (strncasecmp(type, kinds[i].type, n) == 0 && (!type[n] || strchr("; \t", type[n])))
			return kinds[i].kind;
	}
	return 0;
}

static void into_is_there(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);

	if (err)
		cbx_rest_fail(call, err);
	else
		cbx_http_conn_pull(call->conn, came);
}

static int begin(struct cbx_rest_unpack *u, const struct cbx_rest_call *call, struct cbx_err *err)
{
	const char *coding = cbx_http_header(call->conn, "Content-Encoding");
	bool coded = coding && strcasecmp(coding, "gzip") == 0;
	char kind = cbx_rest_archive_kind(cbx_http_header(call->conn, "Content-Type"));

	strcpy(u->into, call->target.path);
	strcpy(u->beside, ".codebox-");
	cbx_random_name(u->beside + strlen(u->beside), 16);
	if (coding && (!coded || kind == 'z'))
		return cbx_refuse(err, "invalid_argument", EINVAL,
				  "Content-Encoding: unknown; send gzip of application/x-tar, or omit it");
	if (kind == 't' && !coded)
		return 0;
	if (inflateInit2(&u->zip, 15 + 16) != Z_OK) /* of gzip, with the largest window */
		return cbx_fail(err, ENOMEM, "begin to unzip");
	u->zipped = true;
	u->plain = cbx_xcalloc(1, CBX_FILE_CHUNK);
	return 0;
}

int cbx_rest_unpack(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_session *s;
	int r;

	if (!cbx_rest_session(call, &s))
		return 0;
	if (cbx_rest_transfer(call, err) < 0)
		return -err->code;
	call->unpack = cbx_xcalloc(1, sizeof(*call->unpack));
	call->unpack->p = "";
	call->release = release;
	r = begin(call->unpack, call, err);
	if (r < 0)
		return r;
	return cbx_session_file_mkdir(s, call->target.path[0] ? call->target.path : ".",
				      cbx_rest_file_op(call, into_is_there), err);
}
