/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: each fix-up is a few calls of tree.h, so an image that has been prepared with links in awkward
 * places gets an error or its links replaced, and nothing outside of it is touched.
 */
#include "image/fixup.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "image/image-limits.h"
#include "image/tree.h"
#include "sandbox/plan.h"

#define MULTIARCH "$MULTIARCH"
#define SMALL KIB(256) /* files of /etc that are read and completed */
#define BUNDLE_MAX MIB(8)

int cbx_fixup_merge_links(int root, struct cbx_err *err)
{
	static const char *const names[] = { "bin", "sbin", "lib", "lib64" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char target[16];
		int r;

		snprintf(target, sizeof(target), "usr/%s", names[i]);
		r = cbx_tree_make_dir(root, target, err);
		if (r == 0)
			r = cbx_tree_symlink(root, names[i], target, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The name such as "x86_64-linux-gnu" in usr/lib. */
static int find_multiarch(int root, char *out, size_t size, struct cbx_err *err)
{
	_cleanup_fd_ int lib = cbx_tree_openat(root, "usr/lib", O_RDONLY | O_DIRECTORY, 0);
	char **names;
	size_t n;
	int r;

	if (lib < 0)
		return cbx_fail(err, -lib, "open usr/lib of the image");
	r = cbx_tree_names(lib, &names, &n, err);
	if (r < 0)
		return r;
	r = -ENOENT;
	for (size_t i = 0; i < n && r < 0; i++) {
		struct stat st;

		if (fnmatch("*-linux-gnu*", names[i], 0) == 0 && strlen(names[i]) < size &&
		    fstatat(lib, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
			strcpy(out, names[i]);
			r = 0;
		}
	}
	cbx_tree_names_free(names, n);
	return r < 0 ? cbx_refuse(err, "invalid_recipe", ENOENT,
				  "the image has no directory for " MULTIARCH
				  "; add a package that has one, such as libc6")
		     : 0;
}

static char *replace_multiarch(const char *text, const char *name)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	const char *at;

	while ((at = strstr(text, MULTIARCH))) {
		cbx_buf_add(&out, text, (size_t)(at - text));
		cbx_buf_adds(&out, name);
		text = at + strlen(MULTIARCH);
	}
	cbx_buf_adds(&out, text);
	return cbx_buf_steal(&out);
}

int cbx_fixup_links(int root, const cJSON *links, struct cbx_err *err)
{
	char multiarch[64] = "";
	const cJSON *link;

	if (!links)
		return 0;
	cJSON_ArrayForEach(link, links) {
		_cleanup_free_ char *path = NULL, *target = NULL;
		int r;

		if (!multiarch[0] && (strstr(link->string, MULTIARCH) || strstr(link->valuestring, MULTIARCH))) {
			r = find_multiarch(root, multiarch, sizeof(multiarch), err);
			if (r < 0)
				return r;
		}
		path = replace_multiarch(link->string, multiarch);
		target = replace_multiarch(link->valuestring, multiarch);
		r = cbx_tree_symlink(root, path, target, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int cbx_fixup_files(int root, const cJSON *files, struct cbx_err *err)
{
	const cJSON *file;

	if (!files)
		return 0;
	cJSON_ArrayForEach(file, files) {
		int r = cbx_tree_write(root, file->string, file->valuestring, strlen(file->valuestring), 0644, err);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Take in all files that match, which is the end of them. */
static int take_matching(int root, const char *pattern, struct cbx_buf *out, struct cbx_err *err)
{
	const char *slash = strrchr(pattern, '/');
	_cleanup_free_ char *dir = strndup(pattern, slash ? (size_t)(slash - pattern) : 0);
	_cleanup_fd_ int fd = -1;
	char **names;
	size_t n;
	int r;

	fd = cbx_tree_openat(root, slash ? dir : ".", O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return cbx_fail(err, -fd, "open %s of the image", slash ? dir : ".");
	r = cbx_tree_names(fd, &names, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++) {
		if (fnmatch(slash ? slash + 1 : pattern, names[i], FNM_PERIOD) != 0)
			continue;
		r = cbx_tree_read(fd, names[i], out->len < BUNDLE_MAX ? BUNDLE_MAX - out->len : 0, out, err);
		if (r == 0 && out->len && out->data[out->len - 1] != '\n')
			cbx_buf_addc(out, '\n');
		if (r == 0 && unlinkat(fd, names[i], 0) < 0)
			r = cbx_fail(err, errno, "remove %s", names[i]);
	}
	cbx_tree_names_free(names, n);
	return r;
}

int cbx_fixup_bundles(int root, const cJSON *bundles, struct cbx_err *err)
{
	const cJSON *bundle;

	if (!bundles)
		return 0;
	cJSON_ArrayForEach(bundle, bundles) {
		_cleanup_buf_ struct cbx_buf text = { 0 };
		int r = take_matching(root, bundle->valuestring, &text, err);

		if (r == 0)
			r = cbx_tree_write(root, bundle->string, cbx_buf_str(&text), text.len, 0644, err);
		if (r < 0)
			return cbx_wrap(err, "make %s", bundle->string);
	}
	return 0;
}

/* Does a file of the passwd or group kind have a line with this id in its third column? */
static bool has_id(const char *text, const char *id)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		const char *p = text;

		for (int column = 0; column < 2 && p; column++) {
			p = memchr(p, ':', n - (size_t)(p - text));
			p = p ? p + 1 : NULL;
		}
		if (p && strncmp(p, id, strlen(id)) == 0 && (p[strlen(id)] == ':' || p[strlen(id)] == '\n'))
			return true;
		text += n + (text[n] == '\n');
	}
	return false;
}

/* Write `fallback` where there is no such file; else add `line` to it where it does not have the id. */
static int complete_accounts(int root, const char *path, const char *fallback, const char *line, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = cbx_tree_read(root, path, SMALL, &text, err);

	if (r < 0) /* missing, a link, a device: ours takes its place */
		return cbx_tree_write(root, path, fallback, strlen(fallback), 0644, err);
	if (has_id(cbx_buf_str(&text), "1000"))
		return 0;
	if (text.len && text.data[text.len - 1] != '\n')
		cbx_buf_addc(&text, '\n');
	cbx_buf_adds(&text, line);
	return cbx_tree_write(root, path, text.data, text.len, 0644, err);
}

/* Field i of a line of such a file. */
static const char *field(const char *line, int i, size_t *ret_len)
{
	for (; i > 0 && line; i--) {
		line += strcspn(line, ":\n");
		line = *line == ':' ? line + 1 : NULL;
	}
	*ret_len = line ? strcspn(line, ":\n") : 0;
	return line;
}

static bool field_is(const char *line, int i, const char *text, size_t len)
{
	size_t n;
	const char *f = field(line, i, &n);

	return f && n == len && strncmp(f, text, n) == 0;
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return line + (*line == '\n');
}

static bool user_name_valid(const char *name, size_t n)
{
	return n > 0 && n <= CBX_USER_NAME_MAX && name[0] != '-' && name[0] != '.' &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") >= n &&
	       strspn(name, "0123456789") < n;
}

/* Its name, if the image lists it, and it is not root. */
static bool find_user(const char *passwd, const char *user, char ret[CBX_USER_NAME_MAX + 1])
{
	size_t len = strcspn(user, ":"), n;
	const char *name;

	for (const char *line = passwd; len && *line; line = next_line(line)) {
		if (!field_is(line, 0, user, len) && !field_is(line, 2, user, len))
			continue;
		name = field(line, 0, &n);
		if (field_is(line, 2, "0", 1) || !user_name_valid(name, n))
			return false;
		snprintf(ret, CBX_USER_NAME_MAX + 1, "%.*s", (int)n, name);
		return true;
	}
	return false;
}

/* `line`, and then all of the file but what it has of this name. */
static int put_first(int root, const char *path, const char *name, const char *line, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 }, out = { 0 };

	if (cbx_tree_read(root, path, SMALL, &text, err) < 0)
		return 0; /* it is made anew (complete_accounts) */
	cbx_buf_adds(&out, line);
	for (const char *l = cbx_buf_str(&text); *l; l = next_line(l))
		if (!field_is(l, 0, name, strlen(name)))
			cbx_buf_addf(&out, "%.*s\n", (int)strcspn(l, "\n"), l);
	return cbx_tree_write(root, path, out.data, out.len, 0644, err);
}

int cbx_fixup_user(int root, const char *user, char ret[CBX_USER_NAME_MAX + 1], struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	char line[2 * CBX_USER_NAME_MAX + 64];
	struct cbx_err none;
	int r;

	ret[0] = '\0';
	if (!user || cbx_tree_read(root, "etc/passwd", SMALL, &text, &none) < 0 ||
	    !find_user(cbx_buf_str(&text), user, ret))
		return 0;
	snprintf(line, sizeof(line), "%s:x:1000:1000:%s:" CBX_INSIDE_HOME ":/bin/sh\n", ret, ret);
	r = put_first(root, "etc/passwd", ret, line, err);
	snprintf(line, sizeof(line), "%s:x:1000:\n", ret);
	return r < 0 ? r : put_first(root, "etc/group", ret, line, err);
}

static bool exists(int root, const char *path)
{
	_cleanup_fd_ int parent = -1;
	struct cbx_err ignored;
	const char *name;
	struct stat st;

	return cbx_tree_parent(root, path, NULL, &parent, &name, &ignored) == 0 &&
	       fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int write_missing(int root, const char *path, const char *text, struct cbx_err *err)
{
	return exists(root, path) ? 0 : cbx_tree_write(root, path, text, strlen(text), 0644, err);
}

int cbx_fixup_standard(int root, struct cbx_err *err)
{
	static const char *const dirs[] = { "etc",  "tmp",	 "var/tmp",   "dev",	    "proc",
					    "root", "home/user", "workspace", "run/codebox" };
	static const char user[] = "user:x:1000:1000:user:" CBX_INSIDE_HOME ":/bin/bash\n";
	static const char group[] = "user:x:1000:\n";
	_cleanup_free_ char *passwd = cbx_xasprintf("root:x:0:0:root:/root:/bin/bash\n%s"
						    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
						    user);
	_cleanup_free_ char *groups = cbx_xasprintf("root:x:0:\n%snogroup:x:65534:\n", group);
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(dirs) && r == 0; i++)
		r = cbx_tree_make_dir(root, dirs[i], err);
	if (r == 0)
		r = complete_accounts(root, "etc/passwd", passwd, user, err);
	if (r == 0)
		r = complete_accounts(root, "etc/group", groups, group, err);
	if (r == 0)
		r = write_missing(root, "etc/hosts", "127.0.0.1 localhost\n::1 localhost\n", err);
	if (r == 0)
		r = write_missing(root, "etc/nsswitch.conf",
				  "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
				  err);
	if (r == 0)
		r = write_missing(root, "etc/timezone", "Etc/UTC\n", err);
	if (r == 0 && !exists(root, "etc/localtime"))
		r = cbx_tree_symlink(root, "etc/localtime", "../usr/share/zoneinfo/Etc/UTC", err);
	return r < 0 ? cbx_wrap(err, "complete the image") : 0;
}

/* Links are followed as they will be in the sandbox: with the image as the root. */
static bool has_program(int root, const char *path)
{
	_cleanup_fd_ int fd = cbx_openat2(root, path, O_PATH | O_CLOEXEC, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111);
}

cJSON *cbx_fixup_find_interpreters(int root, const struct cbx_runtimes *runtimes)
{
	cJSON *all = cbx_json_new_obj(), *one, *argv;
	const cJSON *path;

	for (size_t i = 0; i < runtimes->n; i++) {
		cJSON_ArrayForEach(path, runtimes->all[i].programs)
			if (has_program(root, path->valuestring))
				break;
		if (!path)
			continue;
		one = cbx_json_new_obj();
		argv = cbx_json_new_arr();
		cbx_json_push_str(argv, path->valuestring);
		cbx_json_set(one, "argv", argv);
		cbx_json_set(all, runtimes->all[i].language, one);
	}
	return all;
}
