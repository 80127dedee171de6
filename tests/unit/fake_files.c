/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: each fake session has a list of files by their paths. Answers come from the event
 * loop; a list's entries are laid out as a sandbox's init does it.
 */
#include <errno.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "fake_state.h"
#include "session/commands.h"

struct file {
	TAILQ_ENTRY(file) entry;
	char *path;
	uint32_t mode;
	struct cbx_buf data;
};

struct fake_files {
	TAILQ_HEAD(, file) list;
};

#define PAGE 300 /* names in one answer */

struct later {
	struct cbx_session *session;
	struct cbx_op *op;
	struct cbx_file_reply reply;
	struct cbx_buf data;
	struct cbx_file_entry *entries; /* with names of their own */
	struct cbx_err err;
};

static const char *normal(const char *path)
{
	if (cbx_starts_with(path, "/workspace/"))
		path += strlen("/workspace/");
	return cbx_starts_with(path, "./") ? path + 2 : path;
}

static struct file *find(struct fake_files *files, const char *path)
{
	struct file *f;

	path = normal(path);
	TAILQ_FOREACH(f, &files->list, entry)
		if (strcmp(f->path, path) == 0)
			return f;
	return NULL;
}

static struct file *put(struct fake_files *files, const char *path, const void *p, size_t n)
{
	struct file *f = find(files, path);

	if (!f) {
		f = cbx_xcalloc(1, sizeof(*f));
		f->path = cbx_xstrdup(normal(path));
		TAILQ_INSERT_TAIL(&files->list, f, entry);
	}
	f->mode = S_IFREG | 0644;
	f->data.len = 0;
	cbx_buf_add(&f->data, p, n);
	return f;
}

void fake_session_put(struct cbx_engine *e, const char *id, const char *path, const void *data, size_t n)
{
	struct cbx_caller caller = { .engine = e, .principal = &fake_principal };
	struct cbx_session *s;
	struct cbx_err err;

	if (cbx_session_find(&caller, id, &s, &err) >= 0)
		put(s->files, path, data, n);
}

struct fake_files *fake_files_new(void)
{
	struct fake_files *files = cbx_xcalloc(1, sizeof(*files));

	TAILQ_INIT(&files->list);
	return files;
}

void fake_files_free(struct fake_files *files)
{
	struct file *f;

	while ((f = TAILQ_FIRST(&files->list))) {
		TAILQ_REMOVE(&files->list, f, entry);
		free(f->path);
		cbx_buf_release(&f->data);
		free(f);
	}
	free(files);
}

static int refuse_closed(struct cbx_session *s, struct cbx_err *err)
{
	return s->closed ? cbx_refuse(err, "session_expired", ENOTCONN, "session %s has been closed", cbx_session_id(s))
			 : 0;
}

static void call(evutil_socket_t fd, short what, void *arg)
{
	struct later *l = arg;
	struct cbx_file_op *op = cbx_op_take(&l->op);

	(void)refuse_closed(l->session, &l->err);
	if (l->data.len) {
		l->reply.data = l->data.data;
		l->reply.len = l->data.len;
	}
	l->reply.entries = l->entries;
	if (op)
		op->done(op, l->err.code ? NULL : &l->reply, l->err.code ? &l->err : NULL);
	cbx_buf_release(&l->data);
	for (size_t i = 0; i < l->reply.nentries; i++)
		free((char *)l->entries[i].name);
	free(l->entries);
	free(l);
}

/* NULL: the session is closed. */
static struct later *later(struct cbx_session *s, struct cbx_file_op *op, struct cbx_err *err)
{
	struct timeval now = { 0, 0 };
	struct later *l;

	if (refuse_closed(s, err) < 0)
		return NULL;
	l = cbx_xcalloc(1, sizeof(*l));
	l->session = s;
	cbx_op_begin(&op->op, &l->op);
	event_base_once(s->engine->base, -1, EV_TIMEOUT, call, l, &now);
	return l;
}

static struct file *regular(struct cbx_session *s, const char *path, struct later *l)
{
	struct file *f = find(s->files, path);

	if (!f)
		cbx_refuse(&l->err, "file_not_found", ENOENT, "%s: No such file or directory", path);
	else if (!S_ISREG(f->mode))
		cbx_refuse(&l->err, "file_error", EINVAL, "%s: Invalid argument", path);
	else
		return f;
	return NULL;
}

int cbx_session_file_read(struct cbx_session *s, const char *path, uint64_t offset, size_t max,
			  struct cbx_file_op *op, struct cbx_err *err)
{
	struct later *l = later(s, op, err);
	struct file *f = l ? regular(s, path, l) : NULL;

	if (!l)
		return -err->code;
	if (!f)
		return 0;
	if (offset < f->data.len) {
		size_t n = f->data.len - (size_t)offset;

		if (n > max)
			n = max;
		if (n > CBX_FILE_CHUNK)
			n = CBX_FILE_CHUNK;
		cbx_buf_add(&l->data, f->data.data + offset, n);
	}
	l->reply.size = f->data.len;
	return 0;
}

int cbx_session_file_write(struct cbx_session *s, const char *path, uint64_t offset, unsigned flags, const void *p,
			   size_t n, struct cbx_file_op *op, struct cbx_err *err)
{
	struct later *l = later(s, op, err);
	struct file *f = find(s->files, path);

	if (!l)
		return -err->code;
	if (!f)
		f = put(s->files, path, "", 0);
	if (!S_ISREG(f->mode)) {
		cbx_refuse(&l->err, "is_a_directory", EISDIR, "%s: Is a directory", path);
		return 0;
	}
	if (flags & CBX_FILE_TRUNCATE)
		f->data.len = 0;
	if (f->data.len + n > FAKE_DISK) {
		cbx_refuse(&l->err, "disk_full", ENOSPC, "%s: No space left on device", path);
		return 0;
	}
	if (offset != UINT64_MAX && offset < f->data.len)
		f->data.len = (size_t)offset;
	cbx_buf_add(&f->data, p, n);
	l->reply.len = n;
	return 0;
}

static void add_entry(struct later *l, const struct file *f, const char *name)
{
	size_t n = l->reply.nentries++;

	l->entries = cbx_xrealloc(l->entries, (n + 1) * sizeof(*l->entries));
	l->entries[n] = (struct cbx_file_entry){ .name = cbx_xstrdup(name), .mode = f->mode, .size = f->data.len };
}

int cbx_session_file_stat(struct cbx_session *s, const char *path, struct cbx_file_op *op, struct cbx_err *err)
{
	struct later *l = later(s, op, err);
	struct file *f = find(s->files, path);

	if (!l)
		return -err->code;
	if (f)
		add_entry(l, f, "");
	else
		cbx_refuse(&l->err, "file_not_found", ENOENT, "%s: No such file or directory", path);
	return 0;
}

/* Names below a directory; without `deep` only those without a slash. */
static int list(struct cbx_session *s, const char *path, uint64_t skip, bool deep, struct cbx_file_op *op,
		struct cbx_err *err)
{
	_cleanup_free_ char *dir = strcmp(path, ".") == 0 ? cbx_xstrdup("") : cbx_xasprintf("%s/", normal(path));
	struct later *l = later(s, op, err);
	uint64_t seen = 0;
	struct file *f;

	if (!l)
		return -err->code;
	if (find(s->files, path)) {
		cbx_refuse(&l->err, "not_a_directory", ENOTDIR, "%s: Not a directory", path);
		return 0;
	}
	TAILQ_FOREACH(f, &s->files->list, entry) {
		const char *name = f->path + strlen(dir);

		if (!cbx_starts_with(f->path, dir) ||
		    (!deep && strchr(name, '/')) || seen++ < skip)
			continue;
		l->reply.more = l->reply.nentries == PAGE;
		if (!l->reply.more)
			add_entry(l, f, name);
	}
	l->reply.size = seen;
	return 0;
}

int cbx_session_file_list(struct cbx_session *s, const char *path, uint64_t skip, struct cbx_file_op *op,
			  struct cbx_err *err)
{
	return list(s, path, skip, false, op, err);
}

int cbx_session_file_scan(struct cbx_session *s, const char *path, uint64_t skip, struct cbx_file_op *op,
			  struct cbx_err *err)
{
	return list(s, path, skip, true, op, err);
}

/* ---- news ---- */

void cbx_engine_listen(struct cbx_caller *caller, struct cbx_engine_listener *l)
{
	l->principal = caller->principal;
	TAILQ_INSERT_TAIL(&caller->engine->listeners, l, entry);
}

void cbx_engine_unlisten(struct cbx_caller *caller, struct cbx_engine_listener *l)
{
	TAILQ_REMOVE(&caller->engine->listeners, l, entry);
}

/* ---- the network: there is none ---- */

bool cbx_session_reaches_hosts(const struct cbx_session *s)
{
	return false;
}

void cbx_command_signal(struct cbx_command *c, int sig)
{
}
