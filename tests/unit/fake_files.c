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
#include "fake_engine.h"
#include "sandbox/init-protocol.h"

struct file {
	TAILQ_ENTRY(file) entry;
	char *path;
	uint32_t mode;
	struct cbx_buf data;
};

struct fake_files {
	TAILQ_HEAD(, file) list;
};

struct later {
	cbx_file_fn fn;
	void *arg;
	struct cbx_file_reply reply;
	struct cbx_buf data;
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
	struct cbx_session *s;
	struct cbx_err err;

	if (cbx_session_find(e, id, &s, &err) >= 0)
		put(fake_session_files(s), path, data, n);
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

static void call(evutil_socket_t fd, short what, void *arg)
{
	struct later *l = arg;

	l->reply.data = cbx_buf_str(&l->data);
	l->reply.len = l->data.len;
	l->fn(l->arg, l->err.code ? NULL : &l->reply, l->err.code ? &l->err : NULL);
	cbx_buf_release(&l->data);
	free(l);
}

static struct later *later(struct cbx_session *s, cbx_file_fn fn, void *arg)
{
	struct later *l = cbx_xcalloc(1, sizeof(*l));
	struct timeval now = { 0, 0 };

	l->fn = fn;
	l->arg = arg;
	event_base_once(fake_engine_base(fake_session_engine(s)), -1, EV_TIMEOUT, call, l, &now);
	return l;
}

static struct file *regular(struct cbx_session *s, const char *path, struct later *l)
{
	struct file *f = find(fake_session_files(s), path);

	if (!f)
		cbx_refuse(&l->err, "file_not_found", ENOENT, "%s: No such file or directory", path);
	else if (!S_ISREG(f->mode))
		cbx_refuse(&l->err, "file_error", EINVAL, "%s: Invalid argument", path);
	else
		return f;
	return NULL;
}

int cbx_session_file_read(struct cbx_session *s, const char *path, uint64_t offset, size_t max, cbx_file_fn fn,
			  void *arg, struct cbx_err *err)
{
	struct later *l = later(s, fn, arg);
	struct file *f = regular(s, path, l);

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
	l->reply.value = (int64_t)l->data.len;
	l->reply.size = f->data.len;
	return 0;
}

int cbx_session_file_write(struct cbx_session *s, const char *path, uint64_t offset, unsigned flags, const void *p,
			   size_t n, cbx_file_fn fn, void *arg, struct cbx_err *err)
{
	struct later *l = later(s, fn, arg);
	struct file *f = find(fake_session_files(s), path);

	if (!f)
		f = put(fake_session_files(s), path, "", 0);
	if (!S_ISREG(f->mode)) {
		cbx_refuse(&l->err, "is_a_directory", EISDIR, "%s: Is a directory", path);
		return 0;
	}
	if (flags & CBX_INIT_WRITE_TRUNCATE)
		f->data.len = 0;
	if (f->data.len + n > FAKE_DISK) {
		cbx_refuse(&l->err, "disk_full", ENOSPC, "%s: No space left on device", path);
		return 0;
	}
	if (offset != UINT64_MAX && offset < f->data.len)
		f->data.len = (size_t)offset;
	cbx_buf_add(&f->data, p, n);
	l->reply.value = (int64_t)n;
	return 0;
}

int cbx_session_file_stat(struct cbx_session *s, const char *path, cbx_file_fn fn, void *arg, struct cbx_err *err)
{
	struct later *l = later(s, fn, arg);
	struct file *f = find(fake_session_files(s), path);
	struct cbx_init_stat st = { .mode = f ? f->mode : 0, .size = f ? f->data.len : 0 };

	if (f)
		cbx_buf_add(&l->data, &st, sizeof(st));
	else
		cbx_refuse(&l->err, "file_not_found", ENOENT, "%s: No such file or directory", path);
	return 0;
}

/* Names below a directory; without `deep` only those without a slash. */
static int list(struct cbx_session *s, const char *path, uint64_t skip, bool deep, cbx_file_fn fn, void *arg)
{
	_cleanup_free_ char *dir = strcmp(path, ".") == 0 ? cbx_xstrdup("") : cbx_xasprintf("%s/", normal(path));
	struct later *l = later(s, fn, arg);
	uint64_t seen = 0;
	struct file *f;

	if (find(fake_session_files(s), path)) {
		cbx_refuse(&l->err, "not_a_directory", ENOTDIR, "%s: Not a directory", path);
		return 0;
	}
	TAILQ_FOREACH(f, &fake_session_files(s)->list, entry) {
		const char *name = f->path + strlen(dir);
		size_t n = strlen(f->path) - strlen(dir);
		struct cbx_init_entry e = { .st = { .mode = f->mode, .size = f->data.len },
					    .name_len = (uint32_t)n,
					    .entry_len = (uint32_t)((sizeof(e) + n + 8) & ~(size_t)7) };

		if (!cbx_starts_with(f->path, dir) ||
		    (!deep && strchr(name, '/')) || seen++ < skip)
			continue;
		if (l->reply.more || l->data.len + e.entry_len > 16384) {
			l->reply.more = true;
			continue;
		}
		cbx_buf_add(&l->data, &e, sizeof(e));
		cbx_buf_add(&l->data, name, n);
		while (l->data.len % 8 || l->data.data[l->data.len - 1])
			cbx_buf_addc(&l->data, '\0');
		l->reply.value++;
	}
	l->reply.size = seen;
	return 0;
}

int cbx_session_file_list(struct cbx_session *s, const char *path, uint64_t skip, cbx_file_fn fn, void *arg,
			  struct cbx_err *err)
{
	return list(s, path, skip, false, fn, arg);
}

int cbx_session_file_scan(struct cbx_session *s, const char *path, uint64_t skip, cbx_file_fn fn, void *arg,
			  struct cbx_err *err)
{
	return list(s, path, skip, true, fn, arg);
}

/* ---- news ---- */

void cbx_engine_listen(struct cbx_engine *e, struct cbx_engine_listener *l)
{
	TAILQ_INSERT_TAIL(fake_engine_listeners(e), l, entry);
}

void cbx_engine_unlisten(struct cbx_engine *e, struct cbx_engine_listener *l)
{
	TAILQ_REMOVE(fake_engine_listeners(e), l, entry);
}
