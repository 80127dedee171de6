/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the archive of an npm package was unpacked into a tree of directories and regular files alone,
 * without what it brings along of other packages (node_modules), which nobody has judged. Its first directory, whatever
 * its name, is the package. A session's directory gets hard links to its files, at the place that was found for it, and
 * links to the programs of what is at the top. Nothing of a package runs here, nor later by itself: its scripts are
 * text.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "image/unpack.h"
#include "installer/installer.h"
#include "packages/kind.h"
#include "packages/npm.h"

#define PROGRAMS_MAX 200
#define TOP	     "node_modules/"

/* The package's own directory. */
static int open_own(int tree)
{
	int fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), own = -ENOENT;
	_cleanup_closedir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	while (d && own < 0 && (e = readdir(d))) {
		if (e->d_name[0] == '.' && (!e->d_name[1] || strcmp(e->d_name, "..") == 0))
			continue;
		own = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (own >= 0 && faccessat(own, "package.json", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			cbx_close_p(&own);
	}
	return !d ? -errno : own < 0 ? -ENOENT : own;
}

static int read_manifest(int own, struct cbx_json_doc *ret, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf text = { 0 };
	int r = cbx_link_read(own, "package.json", &text);
	size_t mark = r == 0 && cbx_starts_with(cbx_buf_str(&text), "\xef\xbb\xbf") ? 3 : 0;

	if (r < 0)
		return cbx_fail(err, -r, "read package.json");
	if (cbx_json_parse(cbx_buf_str(&text) + mark, text.len - mark, ret, err) < 0 || !cJSON_IsObject(ret->root))
		return cbx_refuse(err, "unsafe_package", EBADMSG, "its package.json cannot be read");
	return 0;
}

/* ---- programs ---- */

/* At `path` of the package. */
typedef int (*program_fn)(int own, const char *path, const char *name, void *arg);

static int one_program(int own, const char *name, const cJSON *v, program_fn fn, void *arg)
{
	char path[CBX_UNPACK_PATH_MAX];
	const char *base = name ? strrchr(name, '/') : NULL, *to = cJSON_IsString(v) ? v->valuestring : "";
	struct cbx_err ignored;

	name = base ? base + 1 : name;
	if (!name || !cbx_link_name(name, strlen(name)) || cbx_unpack_path(to, false, path, &ignored) != 0 ||
	    faccessat(own, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return fn(own, path, name, arg);
}

static int programs(int own, const cJSON *manifest, program_fn fn, void *arg)
{
	const cJSON *bin = cbx_json_member(manifest, "bin"), *v;
	int r = 0, n = 0;

	if (cJSON_IsString(bin))
		return one_program(own, cbx_json_text(manifest, "name"), bin, fn, arg);
	cJSON_ArrayForEach(v, (cJSON_IsObject(bin) ? bin : NULL))
		if (r == 0 && n++ < PROGRAMS_MAX)
			r = one_program(own, v->string, v, fn, arg);
	return r;
}

static int make_executable(int own, const char *path, const char *name, void *arg)
{
	return fchmodat(own, path, 0755, 0) < 0 ? -errno : 0;
}

struct linking {
	int bin;
	const char *place; /* behind "node_modules/" */
};

/* The first one of a name counts. */
static int link_program(int own, const char *path, const char *name, void *arg)
{
	const struct linking *l = arg;
	_cleanup_free_ char *to = cbx_xasprintf("../%s/%s", l->place, path);

	return symlinkat(to, l->bin, name) < 0 && errno != EEXIST ? -errno : 0;
}

/* ---- all of it ---- */

int cbx_npm_check(int tree, const struct cbx_wheel *w, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_fd_ int own = open_own(tree);
	const char *name, *version, *wanted = cbx_kind_bare(w->name);
	struct cbx_semver a, b;
	int r;

	if (own < 0)
		return cbx_refuse(err, "unsafe_package", EBADMSG, "its archive has no package.json");
	r = read_manifest(own, &doc, err);
	if (r < 0)
		return r;
	name = cbx_json_text(doc.root, "name");
	version = cbx_json_text(doc.root, "version");
	version = version ? version + strspn(version, "=v ") : "";
	if (!name || strcmp(name, wanted) != 0 || !cbx_semver_parse(version, strlen(version), &a) ||
	    !cbx_semver_parse(w->version, strlen(w->version), &b) || cbx_semver_compare(&a, &b) != 0)
		return cbx_refuse(err, "unsafe_package", EBADMSG,
				  "the archive says of itself that it is another package; it was not installed");
	r = programs(own, doc.root, make_executable, NULL);
	return r < 0 ? cbx_fail(err, -r, "make its programs executable") : 0;
}

bool cbx_npm_scripts(int tree)
{
	static const char *const events[] = { "preinstall", "install", "postinstall" };
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_fd_ int own = open_own(tree);
	const cJSON *scripts;
	struct cbx_err ignored;

	if (own < 0 || read_manifest(own, &doc, &ignored) < 0)
		return false;
	scripts = cbx_json_member(doc.root, "scripts");
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		if (cJSON_IsObject(scripts) && cbx_json_text(scripts, events[i]))
			return true;
	return false;
}

int cbx_npm_link(int tree, int to, const struct cbx_wheel *w, struct cbx_err *err)
{
	_cleanup_json_doc_ struct cbx_json_doc doc = { 0 };
	_cleanup_fd_ int own = open_own(tree), at = -1, bin = -1;
	struct linking l = { .place = w->place + strlen(TOP) };
	int r = own < 0 ? cbx_fail(err, -own, "open a package") : read_manifest(own, &doc, err);

	if (r < 0)
		return r;
	at = cbx_link_place(to, w->place);
	r = at < 0 ? at : cbx_link_tree(own, at, NULL);
	if (r == 0 && !strstr(l.place, "/" TOP)) {
		bin = cbx_link_place(to, TOP ".bin");
		l.bin = bin;
		r = bin < 0 ? bin : programs(own, doc.root, link_program, &l);
	}
	return r < 0 ? cbx_fail(err, -r, "put a package in its place") : 0;
}
