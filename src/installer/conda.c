/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a package of conda is a tar archive, or a zip with two of them: what is installed, and what is
 * said of it ("info"). Each is unpacked by image/worker.c. A session's directory is the prefix that such packages are
 * made for, but that it has no interpreter of its own: the session's stands for it, and files that are Python's alone
 * ("noarch") are put where that one's belong. All else are hard links; files that name their prefix are copied
 * (prefix.c).
 *
 * Links that lead out of the package are refused by their text. One that leads through another one may yet end
 * elsewhere: nobody follows any of them out here, and inside there is only the session's own.
 *
 * Nothing of a package runs here, nor later by itself: its scripts stay where they are.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/remove.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "installer/installer.h"
#include "packages/conda.h"
#include "packages/kind.h"

#define DEPTH_MAX    64
#define PARTS_MAX    10 /* files of a zip of this kind */
#define REMOVE_MAX   1000
#define PROGRAMS_MAX 500
#define INFO	     "info"

/* ---- unpacking ---- */

static int unpack_part(int dir, const char *part, const char *const *only, const struct cbx_wheel *w, int tree,
		       const struct cbx_unpack_options *o, struct cbx_err *err)
{
	_cleanup_free_ char *name =
		cbx_xasprintf("%s-%s-%s-%s.tar.zst", part, cbx_kind_bare(w->name), w->version, w->build);
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct cbx_unpack_options tar = *o;
	struct cbx_unpack_stats stats;

	if (fd < 0)
		return cbx_refuse(err, "unsafe_package", EBADMSG, "its archive has no %s", name);
	tar.format = CBX_ARCHIVE_TAR;
	tar.only = only;
	return cbx_unpack_in_worker(fd, tree, &tar, &stats, NULL, NULL, err);
}

/* Of the archive itself. */
static int unpack_zip(int fd, int dir, const struct cbx_unpack_options *o, struct cbx_err *err)
{
	struct cbx_unpack_options zip = *o;
	struct cbx_unpack_stats stats;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cbx_fail(err, errno, "look at an archive");
	zip.format = CBX_ARCHIVE_WHEEL;
	zip.max_entries = PARTS_MAX;
	zip.packed_bytes = (uint64_t)st.st_size;
	return cbx_unpack_in_worker(fd, dir, &zip, &stats, NULL, NULL, err);
}

int cbx_conda_unpack(int fd, const struct cbx_store_dirs *store, const char *name, const struct cbx_wheel *w, int tree,
		     const struct cbx_unpack_options *o, struct cbx_err *err)
{
	static const char *const said[] = { INFO "/*", NULL };
	struct cbx_unpack_options tar = *o;
	struct cbx_unpack_stats stats;
	_cleanup_fd_ int dir = -1;
	int r;

	if (!cbx_ends_with(w->file, ".conda")) {
		tar.format = CBX_ARCHIVE_TAR;
		return cbx_unpack_in_worker(fd, tree, &tar, &stats, NULL, NULL, err);
	}
	dir = mkdirat(store->own, name, 0700) < 0
		      ? -1
		      : openat(store->own, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = dir < 0 ? cbx_fail(err, errno, "unpack %s", w->file) : unpack_zip(fd, dir, o, err);
	if (r >= 0)
		r = unpack_part(dir, "pkg", NULL, w, tree, o, err);
	if (r >= 0)
		r = unpack_part(dir, "info", said, w, tree, o, err);
	if (dir >= 0)
		(void)cbx_remove_tree(store->own, name, REMOVE_MAX);
	return r;
}

/* ---- what it is ---- */

static int unsafe(struct cbx_err *err, const char *what)
{
	return cbx_refuse(err, "unsafe_package", EBADMSG, "%s; it was not installed", what);
}

static int read_index(int tree, struct cbx_json_doc *ret, struct cbx_err *err)
{
	_cleanup_fd_ int info = openat(tree, INFO, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = info < 0 ? -errno : cbx_link_read(info, "index.json", &text);

	if (r < 0 || cbx_json_parse(cbx_buf_str(&text), text.len, ret, err) < 0 || ret->problem.code ||
	    !cJSON_IsObject(ret->root))
		return unsafe(err, "the archive does not say what it is (" INFO "/index.json)");
	return 0;
}

/* depth: of the directory that the link is in. */
static bool stays_inside(const char *target, unsigned depth)
{
	long at = depth;

	if (target[0] == '/')
		return false;
	for (const char *p = target; *p; p += *p == '/') {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.')
			at--;
		else if (n && !(n == 1 && p[0] == '.'))
			at++;
		if (at < 0)
			return false;
		p += n;
	}
	return true;
}

static int check_link(int dir, const char *name, unsigned depth, struct cbx_err *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));

	if (n < 0 || n == (ssize_t)sizeof(target))
		return cbx_fail(err, n < 0 ? errno : ENAMETOOLONG, "read a link");
	target[n] = '\0';
	if (stays_inside(target, depth))
		return 0;
	cbx_refuse(err, "unsafe_package", EBADMSG,
		   "its link %.100s leads out of the package, to %.200s; it was not installed", name, target);
	cbx_err_sanitize(err);
	return -EBADMSG;
}

static int check_links(int tree, unsigned depth, struct cbx_err *err)
{
	int fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	_cleanup_closedir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d || depth > DEPTH_MAX)
		return cbx_fail(err, d ? ELOOP : errno, "look through a package");
	while (r >= 0 && (e = readdir(d))) {
		_cleanup_fd_ int below = -1;

		if (e->d_type == DT_LNK)
			r = check_link(fd, e->d_name, depth, err);
		if (e->d_type != DT_DIR || strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		below = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = below < 0 ? cbx_fail(err, errno, "look through a package") : check_links(below, depth + 1, err);
	}
	return r;
}

int cbx_conda_check(int tree, const struct cbx_wheel *w, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	const char *name, *version, *build;
	struct cbx_conda_version a, b;
	int r = read_index(tree, &doc, err);

	if (r < 0)
		return r;
	name = cbx_json_text(doc.root, "name");
	version = cbx_json_text(doc.root, "version");
	build = cbx_json_text(doc.root, "build");
	if (!name || strcmp(name, cbx_kind_bare(w->name)) != 0 || !version ||
	    !cbx_conda_version_parse(version, strlen(version), &a) ||
	    !cbx_conda_version_parse(w->version, strlen(w->version), &b) || cbx_conda_version_compare(&a, &b) != 0 ||
	    !build || strcmp(build, w->build) != 0)
		return unsafe(err, "the archive says of itself that it is another package");
	return check_links(tree, 0, err);
}

/* A file that the archive has under several names becomes several: by how many names a file of the store has is seen
 * whether a session has it (trim.c). */
static int split_file(int dir, const char *name, const struct stat *st, const struct cbx_unpack_options *o)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	_cleanup_fd_ int in = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), out = -1;
	char random[13], temporary[20], chunk[65536];
	ssize_t n = 0;

	if (atomic_fetch_add(o->together, (uint64_t)st->st_size) + (uint64_t)st->st_size > o->max_bytes)
		return -EFBIG;
	cbx_random_name(random, 12);
	snprintf(temporary, sizeof(temporary), ".%s", random);
	out = in < 0 ? -1 : openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (out < 0)
		return -errno;
	while ((n = cbx_read_full(in, chunk, sizeof(chunk))) > 0) {
		int r = cbx_write_all(out, chunk, (size_t)n);

		if (r < 0)
			return r;
	}
	if (n < 0)
		return (int)n;
	return fchmod(out, st->st_mode & 0777) < 0 || futimens(out, times) < 0 ||
			       renameat(dir, temporary, dir, name) < 0
		       ? -errno
		       : 0;
}

static int split(int tree, unsigned depth, const struct cbx_unpack_options *o)
{
	int fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	_cleanup_closedir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d || depth > DEPTH_MAX)
		return d ? -ELOOP : -errno;
	while (r == 0 && (e = readdir(d))) {
		_cleanup_fd_ int below = -1;
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (S_ISREG(st.st_mode) && st.st_nlink > 1)
			r = split_file(fd, e->d_name, &st, o);
		if (!S_ISDIR(st.st_mode))
			continue;
		below = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = below < 0 ? -errno : split(below, depth + 1, o);
	}
	return r;
}

int cbx_conda_split(int tree, const struct cbx_unpack_options *o, struct cbx_err *err)
{
	int r = split(tree, 0, o);

	return r < 0 ? cbx_fail(err, -r, "give each of its files one name") : 0;
}

/* ---- links ---- */

static bool of_python(const cJSON *index)
{
	const char *noarch = cbx_json_text(index, "noarch");

	return noarch && strcmp(noarch, "python") == 0;
}

/* Where a directory at the top belongs. NULL: nowhere. */
static char *place(const char *name, bool python, const struct cbx_prefix *prefix)
{
	if (strcmp(name, INFO) == 0)
		return NULL;
	if (python && strcmp(name, "site-packages") == 0)
		return cbx_xasprintf("lib/python%s/site-packages", prefix->version);
	return cbx_xstrdup(python && strcmp(name, "python-scripts") == 0 ? "bin" : name);
}

static int link_top(int tree, bool python, const struct cbx_prefix *prefix)
{
	int fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	_cleanup_closedir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d)
		return -errno;
	while (r == 0 && (e = readdir(d))) {
		_cleanup_free_ char *at = place(e->d_name, python, prefix);
		_cleanup_fd_ int from = -1, to = -1;

		if (!at || strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (e->d_type != DT_DIR) {
			r = cbx_link_file_of(fd, e->d_name, prefix->to);
			continue;
		}
		from = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		to = from < 0 ? -errno : cbx_link_place(prefix->to, at);
		r = from < 0 ? -errno : to < 0 ? to : cbx_link_tree(from, to, NULL);
	}
	return r;
}

/* What is copied has to come first: what is there already stays. */
static int copy_prefixed(int tree, bool python, struct cbx_prefix *prefix, struct cbx_err *err)
{
	_cleanup_json_ cJSON *all = NULL;
	const cJSON *v;
	int r = cbx_prefix_list(tree, &all, err);

	cJSON_ArrayForEach(v, (r < 0 ? NULL : all)) {
		const char *path = cbx_json_text(v, "path"), *slash = strchr(path, '/');
		_cleanup_free_ char *top = cbx_xasprintf("%.*s", (int)(slash ? slash - path : (long)strlen(path)),
							 path),
				    *at = place(top, python, prefix), *to = NULL;

		if (!at)
			continue;
		to = cbx_xasprintf("%s%s", at, slash ? slash : "");
		r = cbx_prefix_copy(tree, v, to, prefix, err);
		if (r < 0)
			return r;
	}
	return r;
}

/* "noarch" packages of Python leave their programs to whoever installs them. */
static int link_programs(int tree, const struct cbx_prefix *prefix)
{
	_cleanup_fd_ int info = openat(tree, INFO, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_fd_ int bin = cbx_link_place(prefix->to, "bin");
	_cleanup_free_ char *head = cbx_xasprintf("#!%s\n", prefix->python);
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_err ignored;
	const cJSON *v;
	int r = info < 0 ? -errno : bin < 0 ? bin : cbx_link_read(info, "link.json", &text), n = 0;

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (cbx_json_parse(cbx_buf_str(&text), text.len, &doc, &ignored) < 0 || doc.problem.code)
		return -EBADMSG;
	v = cbx_json_member(cbx_json_member(doc.root, "noarch"), "entry_points");
	for (v = v ? v->child : NULL; r == 0 && v; v = v->next)
		r = !cJSON_IsString(v) || n++ == PROGRAMS_MAX
			    ? -EBADMSG
			    : cbx_link_program(bin, v->valuestring, strlen(v->valuestring), head);
	return r;
}

/* By which conda, and a person, can see what is there. */
static int link_record(int tree, const struct cbx_prefix *prefix, const struct cbx_wheel *w)
{
	_cleanup_free_ char *name = cbx_xasprintf("%s-%s-%s.json", cbx_kind_bare(w->name), w->version, w->build);
	_cleanup_fd_ int info = openat(tree, INFO, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_fd_ int to = info < 0 ? -1 : cbx_link_place(prefix->to, "conda-meta");

	if (info < 0)
		return -errno;
	if (to < 0)
		return to;
	return cbx_link_as(info, "index.json", to, name);
}

int cbx_conda_begin(const struct cbx_prefix *prefix, struct cbx_err *err)
{
	_cleanup_free_ char *path = cbx_xasprintf("lib/python%s/site-packages", prefix->version);
	_cleanup_fd_ int site = cbx_link_place(prefix->to, path), bin = cbx_link_place(prefix->to, "bin");

	return site < 0 || bin < 0 ? cbx_fail(err, site < 0 ? -site : -bin, "make a prefix") : 0;
}

int cbx_conda_link(int tree, struct cbx_prefix *prefix, const struct cbx_wheel *w, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	int r = read_index(tree, &doc, err);
	bool python;

	if (r < 0)
		return r;
	python = of_python(doc.root);
	r = copy_prefixed(tree, python, prefix, err);
	if (r < 0)
		return r;
	r = link_top(tree, python, prefix);
	if (r == 0 && python)
		r = link_programs(tree, prefix);
	if (r == 0)
		r = link_record(tree, prefix, w);
	return r < 0 ? cbx_fail(err, -r, "put a package in its place") : 0;
}

bool cbx_conda_scripts(int tree, const struct cbx_wheel *w)
{
	static const char *const whens[] = { "pre-link", "post-link" };
	_cleanup_fd_ int bin = openat(tree, "bin", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t i = 0; bin >= 0 && i < ARRAY_SIZE(whens); i++) {
		_cleanup_free_ char *name = cbx_xasprintf(".%s-%s.sh", cbx_kind_bare(w->name), whens[i]);

		if (faccessat(bin, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	}
	return false;
}
