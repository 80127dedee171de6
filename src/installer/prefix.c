/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a package of conda lists those of its files that have the name of the directory in which they
 * were built, a long placeholder. In text it is replaced; in other files by the same number of bytes: what follows it
 * up to the next NUL moves forward, and NULs fill the end. A first line "#!placeholder/bin/python" becomes the
 * session's Python, since there is none in the prefix.
 *
 * The list is the package's word: its paths are looked up below the package alone, and never through a link.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "image/unpack.h"
#include "installer/installer.h"

#define LIST_MAX	MIB(32)				   /* of paths.json and has_prefix */
#define FILE_MAX	MIB(64)				   /* of a file that is copied */
#define PLACEHOLDER_MIN 8				   /* bytes; what is shorter may stand in a file by chance */
#define PLACEHOLDER	"/opt/anaconda1anaconda2anaconda3" /* where the list names none */

static int unsafe(struct cbx_err *err, const char *what)
{
	return cbx_refuse(err, "unsafe_package", EBADMSG, "%s; it was not installed", what);
}

/* ---- the list ---- */

static int add(cJSON *to, const char *path, const char *placeholder, const char *mode, struct cbx_err *err)
{
	char clean[CBX_UNPACK_PATH_MAX];
	cJSON *o;

	if (!path || cbx_unpack_path(path, false, clean, err) != 0 || strcmp(clean, path) != 0 ||
	    strlen(placeholder) < PLACEHOLDER_MIN || placeholder[0] != '/')
		return unsafe(err, "its list of files has a path or prefix that is not one");
	o = cbx_json_new_obj();
	cbx_json_set_str(o, "path", path);
	cbx_json_set_str(o, "placeholder", placeholder);
	cbx_json_set_bool(o, "binary", mode && strcmp(mode, "binary") == 0);
	cbx_json_push(to, o);
	return 0;
}

static int read_paths(const struct cbx_buf *text, cJSON *to, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	const cJSON *v;
	int r = 0;

	if (cbx_json_parse(text->data, text->len, &doc, err) < 0 || doc.problem.code)
		return unsafe(err, "its list of files cannot be read (info/paths.json)");
	cJSON_ArrayForEach(v, cbx_json_member(doc.root, "paths")) {
		const char *placeholder = cbx_json_text(v, "prefix_placeholder");

		if (r >= 0 && placeholder && placeholder[0])
			r = add(to, cbx_json_text(v, "_path"), placeholder, cbx_json_text(v, "file_mode"), err);
	}
	return r;
}

/* "placeholder mode path", or a path alone; any of them may be quoted. */
static int read_lines(const char *text, cJSON *to, struct cbx_err *err)
{
	int r = 0;

	for (const char *p = text; r >= 0 && *p; p += *p == '\n') {
		size_t n = strcspn(p, "\r\n");
		_cleanup_free_ char *line = cbx_xasprintf("%.*s", (int)n, p);
		char *words[3] = { line }, *rest;
		size_t last;

		p += strcspn(p, "\n");
		if (!line[0])
			continue;
		for (size_t i = 0; i < 2 && (rest = strchr(words[i], ' ')); i++) {
			*rest = '\0';
			words[i + 1] = rest + 1;
		}
		last = words[2] ? strlen(words[2]) : 0;
		if (last > 1 && words[2][0] == '"' && words[2][last - 1] == '"') {
			words[2][last - 1] = '\0';
			words[2]++;
		}
		r = words[2] ? add(to, words[2], words[0], words[1], err) : add(to, words[0], PLACEHOLDER, "text", err);
	}
	return r;
}

static int read_list(int info, const char *name, struct cbx_buf *ret)
{
	_cleanup_fd_ int fd = openat(info, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? -errno : cbx_read_whole(fd, LIST_MAX, ret);
}

int cbx_prefix_list(int tree, cJSON **ret, struct cbx_err *err)
{
	_cleanup_fd_ int info = openat(tree, "info", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_json_ cJSON *all = cbx_json_new_arr();
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = info < 0 ? -errno : read_list(info, "paths.json", &text);

	if (r == 0) {
		r = read_paths(&text, all, err);
	} else if (r == -ENOENT) {
		text.len = 0;
		r = read_list(info, "has_prefix", &text);
		r = r == -ENOENT ? 0
		    : r < 0	 ? unsafe(err, "its list of files cannot be read (info/has_prefix)")
				 : read_lines(cbx_buf_str(&text), all, err);
	} else {
		r = unsafe(err, "its list of files cannot be read (info/paths.json)");
	}
	if (r >= 0)
		*ret = take_ptr(&all);
	return r;
}

/* ---- one file ---- */

/* The directory that a clean path is in, below `at`, never through a link; *ret_name: its last part. */
static int open_parent(int at, const char *path, bool make, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = cbx_xasprintf("%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	_cleanup_fd_ int fd = -1;

	*ret_name = slash ? slash + 1 : path;
	if (make && slash)
		return cbx_link_place(at, dir);
	fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (char *p = slash ? dir : NULL, *part; fd >= 0 && (part = strsep(&p, "/"));) {
		int next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), code = errno;

		close(fd);
		fd = next;
		errno = code;
	}
	return fd < 0 ? -errno : take_fd(&fd);
}

/* A file of placeholders alone could become many times as long. */
static int replace_text(struct cbx_buf *out, const char *p, size_t n, const char *from, const struct cbx_prefix *prefix)
{
	size_t len = strlen(from), python;
	const char *end = p + n, *hit;

	if (n > len + 2 && p[0] == '#' && p[1] == '!' && memcmp(p + 2, from, len) == 0) {
		const char *rest = p + 2 + len, *line = memchr(rest, '\n', (size_t)(end - rest));

		python = sizeof("/bin/python") - 1;
		if (line && (size_t)(line - rest) >= python && memcmp(rest, "/bin/python", python) == 0) {
			rest += python;
			rest += strspn(rest, "0123456789.");
			cbx_buf_addf(out, "#!%s", prefix->python);
			p = rest;
		}
	}
	while ((hit = memmem(p, (size_t)(end - p), from, len))) {
		if (out->len > FILE_MAX)
			return -EFBIG;
		cbx_buf_add(out, p, (size_t)(hit - p));
		cbx_buf_adds(out, prefix->at);
		p = hit + len;
	}
	cbx_buf_add(out, p, (size_t)(end - p));
	return 0;
}

/* In each string that has it. */
static int replace_binary(char *p, size_t n, const char *from, const char *to)
{
	size_t len = strlen(from), by = strlen(to);
	char *end = p + n, *hit;

	if (by > len)
		return -ENAMETOOLONG;
	while ((hit = memmem(p, (size_t)(end - p), from, len))) {
		char *stop = memchr(hit, '\0', (size_t)(end - hit)), *out = hit, *next;

		stop = stop ? stop : end;
		do {
			memcpy(out, to, by);
			out += by;
			hit += len;
			next = memmem(hit, (size_t)(stop - hit), from, len);
			memmove(out, hit, (size_t)((next ? next : stop) - hit));
			out += (next ? next : stop) - hit;
			hit = next;
		} while (next);
		memset(out, 0, (size_t)(stop - out));
		p = stop;
	}
	return 0;
}

static int write_copy(int dir, const char *name, const struct stat *st, const struct cbx_buf *text)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	int r;

	if (fd < 0)
		return errno == EEXIST ? 0 : -errno; /* that of the first package that has it */
	r = cbx_write_all(fd, text->data, text->len);
	if (r == 0 && (fchmod(fd, st->st_mode & 0111 ? 0755 : 0644) < 0 || futimens(fd, times) < 0))
		r = -errno;
	return r;
}

static int too_large(struct cbx_err *err)
{
	return cbx_refuse(err, "too_large", EFBIG,
			  "the files that name the directory they are in are too large to be copied; use another build "
			  "of the package");
}

int cbx_prefix_copy(int tree, const cJSON *file, const char *to, struct cbx_prefix *prefix, struct cbx_err *err)
{
	const char *path = cbx_json_text(file, "path"), *placeholder = cbx_json_text(file, "placeholder"), *name, *last;
	_cleanup_fd_ int from = open_parent(tree, path, false, &name), fd = -1, dir = -1;
	_cleanup_buf_ struct cbx_buf had = { 0 }, text = { 0 };
	struct cbx_buf *out = &text;
	struct stat st;
	int r;

	fd = from < 0 ? -1 : openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return unsafe(err, "it does not have a file that its list of files has");
	if ((uint64_t)st.st_size > FILE_MAX || prefix->copied + (uint64_t)st.st_size > prefix->max)
		return too_large(err);
	r = cbx_read_whole(fd, FILE_MAX, &had);
	if (r < 0)
		return cbx_fail(err, -r, "read a file of the package");
	if (cJSON_IsTrue(cbx_json_member(file, "binary"))) {
		out = &had;
		if (replace_binary(had.data, had.len, placeholder, prefix->at) < 0)
			return unsafe(err, "the prefix in one of its files has too little room");
	} else if (had.len && replace_text(&text, had.data, had.len, placeholder, prefix) < 0) {
		return too_large(err);
	}
	prefix->copied += out->len;
	dir = open_parent(prefix->to, to, true, &last);
	r = dir < 0 ? dir : write_copy(dir, last, &st, out);
	return r < 0 ? cbx_fail(err, -r, "put a file in its place") : 0;
}
