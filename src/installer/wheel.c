/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a wheel was unpacked into a tree of directories and regular files alone (image/unpack.h). Here it
 * is spread over a session's directory as the format of wheels says, by hard links: whichever number of sessions has it,
 * there is one copy on the disk and in memory. Files that are made anew (programs) are small.
 *
 * Nothing of a wheel runs here. Names of programs and what they call are letters, digits and a few signs, or the wheel
 * is refused.
 */
#include <ctype.h>
#include <dirent.h>
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
#include "image/link.h"
#include "installer/installer.h"
#include "packages/version.h"

#define DEPTH_MAX    64
#define TEXT_MAX     MIB(2) /* of METADATA, entry_points.txt and a script */
#define PROGRAMS_MAX 500

/* ---- what it is ---- */

/* The one directory of this kind, "" where there is none; -errno where there are two. */
static int find_dir(int tree, const char *suffix, char out[256])
{
	_cleanup_fd_ int fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	out[0] = '\0';
	if (!d)
		return -errno;
	fd = -1;
	while ((e = readdir(d))) {
		if (!cbx_ends_with(e->d_name, suffix))
			continue;
		if (out[0])
			return -EBADMSG;
		snprintf(out, 256, "%s", e->d_name);
	}
	return 0;
}

int cbx_link_read(int dir, const char *path, struct cbx_buf *out)
{
	_cleanup_fd_ int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? -errno : cbx_read_whole(fd, TEXT_MAX, out);
}

/* A header of METADATA. */
static bool header(const char *text, const char *name, char *out, size_t size)
{
	size_t n = strlen(name);

	for (const char *p = text; *p && *p != '\n' && *p != '\r'; p += strcspn(p, "\n"), p += *p == '\n') {
		size_t len = strcspn(p, "\r\n");

		if (len <= n || strncasecmp(p, name, n) != 0 || p[n] != ':')
			continue;
		p += n + 1 + strspn(p + n + 1, " \t");
		snprintf(out, size, "%.*s", (int)strcspn(p, "\r\n \t"), p);
		return true;
	}
	return false;
}

int cbx_wheel_check(int tree, const char *name, const char *version, struct cbx_err *err)
{
	char info[256], path[300], is_name[CBX_PROJECT_MAX], normal[CBX_PROJECT_MAX], is_version[CBX_VERSION_MAX];
	_cleanup_buf_ struct cbx_buf text = { 0 };
	struct cbx_version a, b;

	if (find_dir(tree, ".dist-info", info) < 0 || !info[0])
		return cbx_refuse(err, "unsafe_wheel", EBADMSG, "the wheel does not have one directory .dist-info");
	snprintf(path, sizeof(path), "%s/METADATA", info);
	if (cbx_link_read(tree, path, &text) < 0 || !header(cbx_buf_str(&text), "Name", is_name, sizeof(is_name)) ||
	    !header(cbx_buf_str(&text), "Version", is_version, sizeof(is_version)) ||
	    !cbx_project_name(is_name, strlen(is_name), normal) || strcmp(normal, name) != 0 ||
	    !cbx_version_parse(is_version, strlen(is_version), &a) ||
	    !cbx_version_parse(version, strlen(version), &b) || cbx_version_compare(&a, &b) != 0)
		return cbx_refuse(err, "unsafe_wheel", EBADMSG,
				  "the wheel says of itself that it is another package; it was not installed");
	return 0;
}

/* ---- links ---- */

int cbx_link_open(int dir, const char *name)
{
	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	dir = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir < 0 ? -errno : dir;
}

/* A file that two packages have is that of the first. One that has as many links as it can is copied. */
int cbx_link_file_of(int from, const char *name, int to)
{
	struct stat st;
	int r;

	if (linkat(from, name, to, name, 0) == 0 || errno == EEXIST)
		return 0;
	r = fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : cbx_link_file(from, to, name, &st);
	return r == -EEXIST ? 0 : r;
}

static int link_tree(int from, int to, const char *omit, unsigned depth)
{
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	_cleanup_closedir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d || depth > DEPTH_MAX)
		return d ? -ELOOP : -errno;
	while (r == 0 && (e = readdir(d))) {
		_cleanup_fd_ int below = -1, made = -1;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || (omit && strcmp(e->d_name, omit) == 0))
			continue;
		if (e->d_type == DT_REG || e->d_type == DT_LNK) { /* a link, of a package of conda alone */
			r = cbx_link_file_of(from, e->d_name, to);
			continue;
		}
		below = openat(from, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below < 0)
			return -errno;
		made = cbx_link_open(to, e->d_name);
		r = made < 0 ? made : link_tree(below, made, NULL, depth + 1);
	}
	return r;
}

int cbx_link_place(int to, const char *path)
{
	_cleanup_fd_ int at = openat(to, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (at < 0)
		return -errno;
	for (const char *p = path; at >= 0 && *p;) {
		size_t n = strcspn(p, "/");
		_cleanup_free_ char *part = cbx_xasprintf("%.*s", (int)n, p);
		int next = cbx_link_open(at, part);

		close(at);
		at = next;
		p += n + (p[n] == '/');
	}
	return at < 0 ? at : take_fd(&at);
}

int cbx_link_as(int from, const char *name, int to, const char *as)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	_cleanup_fd_ int fd = -1;
	int r;

	if (linkat(from, name, to, as, 0) == 0 || errno == EEXIST)
		return 0;
	r = cbx_link_read(from, name, &text);
	fd = r < 0 ? -1 : openat(to, as, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return r < 0 ? r : fd < 0 ? -errno : cbx_write_all(fd, text.data, text.len);
}

int cbx_link_tree(int from, int to, const char *omit)
{
	return link_tree(from, to, omit, 0);
}

/* ---- programs ---- */

bool cbx_link_name(const char *p, size_t n)
{
	if (!n || n > 100 || !isalnum((unsigned char)*p))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]) && !strchr("._-", p[i]))
			return false;
	return true;
}

static bool dotted(const char *p, size_t n)
{
	if (!n || n > 200 || isdigit((unsigned char)*p))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]) && p[i] != '_' && (p[i] != '.' || !i || p[i - 1] == '.' || i + 1 == n))
			return false;
	return true;
}

static int write_program(int bin, const char *name, const char *head, const char *text, size_t n)
{
	_cleanup_fd_ int fd = -1;
	int r;

	if (unlinkat(bin, name, 0) < 0 && errno != ENOENT)
		return -errno;
	fd = openat(bin, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
	if (fd < 0)
		return -errno;
	r = cbx_write_all(fd, head, strlen(head));
	if (r == 0)
		r = cbx_write_all(fd, text, n);
	return r < 0 || fchmod(fd, 0755) == 0 ? r : -errno;
}

/* "name = module:object [extras]" */
int cbx_link_program(int bin, const char *line, size_t n, const char *head)
{
	const char *eq = memchr(line, '=', n), *colon, *end = line + n, *object;
	_cleanup_free_ char *text = NULL, *name = NULL;
	size_t names, modules, objects;

	if (!eq)
		return 0;
	names = (size_t)(eq - line);
	while (names && strchr(" \t", line[names - 1]))
		names--;
	for (eq++; eq < end && strchr(" \t", *eq); eq++)
		;
	colon = memchr(eq, ':', (size_t)(end - eq));
	if (!colon)
		return 0;
	modules = (size_t)(colon - eq);
	while (modules && strchr(" \t", eq[modules - 1]))
		modules--;
	for (object = colon + 1; object < end && strchr(" \t", *object); object++)
		;
	for (objects = 0; object + objects < end && !strchr(" \t[\r", object[objects]); objects++)
		;
	if (!cbx_link_name(line, names) || !dotted(eq, modules) || !dotted(object, objects))
		return -EBADMSG;
	name = strndup(line, names);
	text = cbx_xasprintf("import sys\nfrom %.*s import %.*s\nsys.exit(%.*s())\n", (int)modules, eq,
			     (int)strcspn(object, ". \t[\r\n"), object, (int)objects, object);
	return write_program(bin, name, head, text, strlen(text));
}

static int entry_points(const char *text, int bin, const char *python)
{
	bool ours = false;
	int r = 0, made = 0;

	for (const char *p = text; r == 0 && *p; p += *p == '\n') {
		size_t n = strcspn(p, "\n"), blank = strspn(p, " \t");

		blank = blank < n ? blank : n;
		if (p[blank] == '[')
			ours = cbx_starts_with(p + blank, "[console_scripts]") || cbx_starts_with(p + blank, "[gui_scripts]");
		else if (ours && n > blank && !strchr("#;", p[blank]))
			r = made++ < PROGRAMS_MAX ? cbx_link_program(bin, p + blank, n - blank, python) : -E2BIG;
		p += n;
	}
	return r;
}

/* Programs that the wheel brings: "#!python" becomes the session's. */
static int scripts(int from, int bin, const char *python)
{
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0, made = 0;
	_cleanup_closedir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d)
		return -errno;
	while (r == 0 && (e = readdir(d))) {
		_cleanup_buf_ struct cbx_buf text = { 0 };
		size_t line;

		if (e->d_type != DT_REG || !cbx_link_name(e->d_name, strlen(e->d_name)))
			continue;
		if (made++ == PROGRAMS_MAX)
			return -E2BIG;
		r = cbx_link_read(from, e->d_name, &text);
		if (r == -EFBIG || (r == 0 && !cbx_starts_with(cbx_buf_str(&text), "#!python"))) {
			r = cbx_link_file_of(from, e->d_name, bin);
			continue;
		}
		line = r < 0 ? 0 : strcspn(cbx_buf_str(&text), "\n");
		line += line < text.len;
		if (r == 0)
			r = write_program(bin, e->d_name, python, text.data + line, text.len - line);
	}
	return r;
}

/* ---- all of it ---- */

static int link_data(int tree, const char *data, int to, int site, int bin, const char *python)
{
	static const char *const parts[] = { "purelib", "platlib", "data", "scripts" };
	_cleanup_fd_ int top = openat(tree, data, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = 0;

	if (top < 0)
		return -errno;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++) {
		_cleanup_fd_ int from = openat(top, parts[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (from < 0)
			continue;
		if (i == 3)
			r = scripts(from, bin, python);
		else
			r = link_tree(from, i == 2 ? to : site, NULL, 0);
	}
	return r;
}

int cbx_wheel_link(int tree, int to, const char *python, struct cbx_err *err)
{
	_cleanup_fd_ int site = cbx_link_open(to, "site"), bin = cbx_link_open(to, "bin");
	_cleanup_free_ char *head = cbx_xasprintf("#!%s\n", python);
	_cleanup_buf_ struct cbx_buf points = { 0 };
	char data[256] = "", info[256] = "", path[300];
	int r = site < 0 ? site : bin < 0 ? bin : find_dir(tree, ".data", data);

	if (r == 0)
		r = find_dir(tree, ".dist-info", info);
	if (r == 0)
		r = link_tree(tree, site, data[0] ? data : NULL, 0);
	if (r == 0 && data[0])
		r = link_data(tree, data, to, site, bin, head);
	snprintf(path, sizeof(path), "%s/entry_points.txt", info);
	if (r == 0 && cbx_link_read(tree, path, &points) == 0)
		r = entry_points(cbx_buf_str(&points), bin, head);
	return r < 0 ? cbx_fail(err, -r, "put a package in its place") : 0;
}
