/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a directory goes out as an archive, entry by entry, as they are read through init, while the
 * client takes what came before. What is in memory is a piece of a file, and of the directories from the top to here
 * what is not sent of one page of entries; of those far above not even that, they are listed again. So an archive of
 * any size, depth and number of entries takes the same.
 *
 * Files change meanwhile. One that has gone is omitted; one that has become shorter after its header is out, or cannot
 * be read, cuts the answer off, since there is no way to say so: nobody takes what came for all of it. Names are of the
 * session's choice, and those of the archive lead down: links that lead out of it are omitted, as are what is neither
 * file, directory nor link, and set-user-ID.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "rest/internal.h"
#include "rest/tar.h"

/* One directory on the way from the top. */
struct level {
	size_t path_len;	     /* of its path */
	uint64_t next;		     /* which of its entries comes next */
	struct cbx_file_entry *page; /* NULL: to be listed, from `next` on */
	char *names;		     /* of the page */
	size_t at, n;		     /* of the page */
	bool more;		     /* behind the page */
};

struct cbx_rest_pack {
	struct level *levels;
	size_t depth, room;
	char path[CBX_REST_PATH_MAX + 1]; /* of what is read, from the workspace */
	size_t top;			  /* bytes of it that are not in the archive */
	struct cbx_tar_entry entry;
	uint64_t offset; /* of the file */
	bool waits;	 /* for the client to take what was sent */
	bool begun;
};

static void drop_page(struct level *l)
{
	free(take_ptr(&l->page));
	free(take_ptr(&l->names));
}

static void release(struct cbx_rest_call *call)
{
	struct cbx_rest_pack *p = take_ptr(&call->pack);

	for (size_t i = 0; i < p->depth; i++)
		drop_page(&p->levels[i]);
	free(p->levels);
	free(p);
}

static void walk(struct cbx_rest_call *call);

/* ---- what goes out ---- */

static void send_bytes(struct cbx_rest_call *call, const struct cbx_buf *b)
{
	cbx_http_stream_send(call->conn, b->data, b->len);
}

static void send_entry(struct cbx_rest_call *call)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_tar_print(&out, &call->pack->entry);
	send_bytes(call, &out);
}

static void drained(void *arg)
{
	struct cbx_rest_call *call = arg;

	if (!call->pack->waits)
		return;
	call->pack->waits = false;
	walk(call);
}

static void begin(struct cbx_rest_call *call)
{
	char text[CBX_NAME_MAX + 48];

	snprintf(text, sizeof(text), "attachment; filename=\"%s.tar\"", call->target.session_id);
	cbx_http_add_header(call->conn, "Content-Disposition", text);
	cbx_http_add_header(call->conn, "Cache-Control", "no-store");
	cbx_http_add_header(call->conn, "X-Content-Type-Options", "nosniff");
	call->pack->begun = call->streaming = true;
	cbx_http_stream_begin(call->conn, 200, "application/x-tar", -1);
	cbx_http_conn_drain(call->conn, drained);
}

static void end(struct cbx_rest_call *call)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };

	cbx_tar_print_end(&out);
	send_bytes(call, &out);
	cbx_rest_end(call);
}

/* ---- directories ---- */

static void push(struct cbx_rest_pack *p)
{
	if (p->depth == p->room) {
		p->room = p->room ? 2 * p->room : 8;
		p->levels = cbx_xrealloc(p->levels, p->room * sizeof(*p->levels));
	}
	if (p->depth >= CBX_REST_TAR_PAGES)
		drop_page(&p->levels[p->depth - CBX_REST_TAR_PAGES]);
	p->levels[p->depth++] = (struct level){ .path_len = strlen(p->path) };
}

static void keep_page(struct level *l, const struct cbx_file_reply *reply)
{
	size_t room = 1, at = 0;

	for (size_t i = 0; i < reply->nentries; i++)
		room += strlen(reply->entries[i].name) + 1;
	l->page = cbx_xcalloc(reply->nentries + 1, sizeof(*l->page));
	l->names = cbx_xcalloc(1, room);
	for (size_t i = 0; i < reply->nentries; i++) {
		size_t n = strlen(reply->entries[i].name) + 1;

		l->page[i] = reply->entries[i];
		l->page[i].name = memcpy(l->names + at, reply->entries[i].name, n);
		at += n;
	}
	l->at = 0;
	l->n = reply->nentries;
	l->more = reply->more && l->n;
}

static void listed(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	static const struct cbx_file_reply nothing;
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);
	struct cbx_rest_pack *p = call->pack;

	if (err && (!p->begun || (err->code != ENOENT && err->code != ENOTDIR))) {
		cbx_rest_fail(call, err);
		return;
	}
	keep_page(&p->levels[p->depth - 1], reply ? reply : &nothing);
	if (!p->begun)
		begin(call);
	if (call->conn->head.method == CBX_HTTP_HEAD)
		cbx_rest_end(call);
	else
		walk(call);
}

/* ---- files and links ---- */

/* It is not there any more, or not what it was: the archive is as if it had never been. */
static bool is_gone(const struct cbx_err *err)
{
	return err->code == ENOENT || err->code == EINVAL || err->code == EISDIR || err->code == ENOTDIR;
}

static void file_read(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	static const char zeros[CBX_TAR_BLOCK];
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);
	struct cbx_rest_pack *p = call->pack;

	if (err && !p->offset && is_gone(err)) {
		p->entry.path[0] = '\0';
		walk(call);
		return;
	}
	if (!err && !p->offset)
		p->entry.size = reply->size;
	if (err || reply->len > p->entry.size - p->offset || (!reply->len && p->offset < p->entry.size)) {
		cbx_rest_cut(call);
		return;
	}
	if (!p->offset)
		send_entry(call);
	cbx_http_stream_send(call->conn, reply->data, reply->len);
	p->offset += reply->len;
	if (p->offset == p->entry.size) {
		cbx_http_stream_send(call->conn, zeros, cbx_tar_padding(p->entry.size));
		p->entry.path[0] = '\0';
	}
	walk(call);
}

static void link_read(struct cbx_file_op *op, const struct cbx_file_reply *reply, const struct cbx_err *err)
{
	struct cbx_rest_call *call = cbx_rest_call_of_file(op);
	struct cbx_tar_entry *e = &call->pack->entry;

	if (err && !is_gone(err)) {
		cbx_rest_cut(call);
		return;
	}
	if (!err && reply->len <= CBX_REST_PATH_MAX) {
		snprintf(e->target, sizeof(e->target), "%.*s", (int)reply->len, (const char *)reply->data);
		if (cbx_tar_link_inside(e->path, e->target))
			send_entry(call);
	}
	e->path[0] = '\0';
	walk(call);
}

/* ---- the way ---- */

/* The session may have gone. */
static void ask(struct cbx_rest_call *call,
		int (*what)(struct cbx_session *s, struct cbx_rest_call *call, struct cbx_err *err))
{
	struct cbx_session *s;
	struct cbx_err err;
	int r = cbx_session_find(&call->caller, call->target.session_id, &s, &err);

	if (r >= 0)
		r = what(s, call, &err);
	if (r < 0)
		cbx_rest_fail(call, &err);
}

static int ask_list(struct cbx_session *s, struct cbx_rest_call *call, struct cbx_err *err)
{
	const struct cbx_rest_pack *p = call->pack;

	return cbx_session_file_list(s, p->path[0] ? p->path : ".", p->levels[p->depth - 1].next,
				     cbx_rest_file_op(call, listed), err);
}

static int ask_file(struct cbx_session *s, struct cbx_rest_call *call, struct cbx_err *err)
{
	const struct cbx_rest_pack *p = call->pack;
	uint64_t left = p->offset ? p->entry.size - p->offset : CBX_FILE_CHUNK;

	return cbx_session_file_read(s, p->path, p->offset, left < CBX_FILE_CHUNK ? (size_t)left : CBX_FILE_CHUNK,
				     cbx_rest_file_op(call, file_read), err);
}

static int ask_link(struct cbx_session *s, struct cbx_rest_call *call, struct cbx_err *err)
{
	return cbx_session_file_readlink(s, call->pack->path, cbx_rest_file_op(call, link_read), err);
}

/* The next entry of a page is what is read now. False: it cannot have a path. */
static bool take(struct cbx_rest_pack *p, struct level *l)
{
	const struct cbx_file_entry *e = &l->page[l->at];
	size_t n = l->path_len;

	l->at++;
	l->next++;
	if (strcmp(e->name, "..") == 0 || strcmp(e->name, ".") == 0 || n + 1 + strlen(e->name) > CBX_REST_PATH_MAX)
		return false;
	snprintf(p->path + n, sizeof(p->path) - n, "%s%s", n ? "/" : "", e->name);
	snprintf(p->entry.path, sizeof(p->entry.path), "%s", p->path + p->top);
	p->entry.type = S_ISDIR(e->mode) ? CBX_TAR_DIRECTORY : S_ISLNK(e->mode) ? CBX_TAR_SYMLINK : CBX_TAR_FILE;
	p->entry.mode = e->mode & 01777;
	p->entry.mtime_ns = e->mtime_ns;
	p->entry.target[0] = '\0';
	p->offset = 0;
	return true;
}

/* Where codeboxd keeps what is its own. */
static bool is_ours(const struct cbx_rest_pack *p)
{
	return strcmp(p->path, ".codebox") == 0;
}

/* What the next step of the way is; it has its own answer, which continues here. */
static void walk(struct cbx_rest_call *call)
{
	struct cbx_rest_pack *p = call->pack;

	while (cbx_http_unsent(call->conn) <= CBX_HTTP_UNTAKEN_MAX) {
		struct level *l = p->depth ? &p->levels[p->depth - 1] : NULL;

		if (p->entry.path[0]) { /* more of a file */
			ask(call, ask_file);
			return;
		}
		if (!l) {
			end(call);
			return;
		}
		p->path[l->path_len] = '\0';
		if (!l->page || (l->at == l->n && l->more)) {
			drop_page(l);
			ask(call, ask_list);
			return;
		}
		if (l->at == l->n) {
			drop_page(l);
			p->depth--;
			continue;
		}
		if (!take(p, l)) {
			cbx_rest_cut(call);
			return;
		}
		if (p->entry.type == CBX_TAR_SYMLINK) {
			ask(call, ask_link);
			return;
		}
		if (p->entry.type == CBX_TAR_DIRECTORY && !is_ours(p)) {
			send_entry(call);
			push(p);
		}
		if (p->entry.type == CBX_TAR_DIRECTORY || !S_ISREG(l->page[l->at - 1].mode))
			p->entry.path[0] = '\0';
	}
	p->waits = true;
}

int cbx_rest_pack(struct cbx_rest_call *call, struct cbx_err *err)
{
	struct cbx_rest_pack *p;
	struct cbx_session *s;

	if (!cbx_rest_session(call, &s))
		return 0;
	if (cbx_rest_transfer(call, err) < 0)
		return -err->code;
	call->pack = p = cbx_xcalloc(1, sizeof(*p));
	call->release = release;
	strcpy(p->path, call->target.path);
	p->top = strlen(p->path);
	p->top += p->top > 0;
	push(p);
	return ask_list(s, call, err);
}
