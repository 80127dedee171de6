/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: three runs of apt. The first brings its package lists up to date. The second only says which
 * files an installation would need, with their sizes and SHA-256 sums: that is the image's list of packages, and a
 * cache that also holds files of other images does no harm. The third fetches what the cache lacks. Each file is then
 * checked once more, through the very descriptor that is unpacked from.
 */
#include "image/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "image/apt.h"
#include "image/image-limits.h"
#include "image/progress.h"
#include "image/scan.h"
#include "image/tree.h"

struct listing {
	struct cbx_fetch *fetch;
	char odd[200]; /* a line that was not understood */
};

static bool file_name(const char *s)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._~%:";

	return s[0] != '.' && strlen(s) < 250 && !s[strspn(s, allowed)] && cbx_ends_with(s, ".deb");
}

/* "python3-numpy_1%3a1.24.2-1_amd64.deb": name and version. */
static int split_name(struct cbx_package *p)
{
	const char *version = strchr(p->file, '_'), *end = version ? strchr(version + 1, '_') : NULL;
	char *out;

	if (!end)
		return -EINVAL;
	p->name = strndup(p->file, (size_t)(version - p->file));
	p->version = out = cbx_xcalloc(1, (size_t)(end - version));
	if (!p->name)
		return -ENOMEM;
	for (const char *in = version + 1; in < end; in++) {
		if (end - in >= 3 && strncasecmp(in, "%3a", 3) == 0) {
			*out++ = ':';
			in += 2;
		} else {
			*out++ = *in;
		}
	}
	return 0;
}

/* 'URI' FILE SIZE SHA256:HEX */
static void on_listed(void *arg, const char *text)
{
	struct listing *l = arg;
	struct cbx_fetch *f = l->fetch;
	struct cbx_package p = { 0 };
	char file[256], sum[80];
	unsigned long long size;
	const char *rest = text[0] == '\'' ? strchr(text + 1, '\'') : NULL;

	if (!rest || f->n >= CBX_PACKAGES_MAX)
		return;
	if (sscanf(rest + 1, " %255s %llu SHA256:%79s", file, &size, sum) != 3 || !file_name(file) ||
	    strlen(sum) != 64 || sum[strspn(sum, "0123456789abcdef")]) {
		snprintf(l->odd, sizeof(l->odd), "%s", text);
		return;
	}
	p.file = cbx_xstrdup(file);
	p.size = size;
	strcpy(p.sha256, sum);
	if (split_name(&p) < 0) {
		free(p.file);
		snprintf(l->odd, sizeof(l->odd), "%s", text);
		return;
	}
	f->packages = cbx_xrealloc(f->packages, (f->n + 1) * sizeof(*f->packages));
	f->packages[f->n++] = p;
	f->total += size;
}

static void on_fetched(void *arg, const char *text)
{
	const struct cbx_fetch *f = arg;
	unsigned n;

	if (sscanf(text, "Get:%u ", &n) == 1)
		cbx_progress_update("%u of %zu", n, f->n);
}

static const char **install_args(const char *const *options, size_t noptions, const char *const *packages,
				 size_t *ret_n)
{
	size_t n = 0, i = 0;
	const char **args;

	while (packages[n])
		n++;
	args = cbx_xcalloc(noptions + n + 2, sizeof(*args));
	args[i++] = "install";
	for (size_t k = 0; k < noptions; k++)
		args[i++] = options[k];
	args[i++] = "--";
	for (size_t k = 0; k < n; k++)
		args[i++] = packages[k];
	*ret_n = i;
	return args;
}

static int apt_trouble(struct cbx_err *err, const char *what, const struct cbx_buf *tail)
{
	if (strcmp(err->kind, "apt_failed") != 0)
		return -err->code;
	return cbx_refuse(err, "apt_failed", EIO, "%s; apt-get said: %.450s", what, cbx_buf_str(tail));
}

static int list_packages(const char *dir, const char *const *packages, struct cbx_fetch *f, struct cbx_buf *tail,
			 struct cbx_err *err)
{
	_cleanup_free_ char *none = cbx_xasprintf("Dir::Cache::archives=%s/none", dir);
	const char *options[] = { "-qq", "--print-uris", "-o", none };
	struct listing l = { .fetch = f };
	size_t n;
	_cleanup_free_ const char **args = install_args(options, ARRAY_SIZE(options), packages, &n);
	int r = cbx_apt_run(dir, args, n, on_listed, &l, tail, err);

	if (r < 0)
		return apt_trouble(
			err, "the packages of this recipe are not available from the machine's package sources", tail);
	if (l.odd[0])
		return cbx_refuse(err, "apt_failed", EIO, "apt-get names a package file in an unexpected way: %s",
				  l.odd);
	if (f->n == 0 || f->n >= CBX_PACKAGES_MAX)
		return cbx_refuse(err, "apt_failed", EIO, "apt-get names %zu packages; from 1 to %d are expected", f->n,
				  CBX_PACKAGES_MAX);
	return 0;
}

static bool all_there(const struct cbx_fetch *f)
{
	for (size_t i = 0; i < f->n; i++) {
		struct stat st;

		if (fstatat(f->debs, f->packages[i].file, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
		    (uint64_t)st.st_size != f->packages[i].size)
			return false;
	}
	return true;
}

static int download(const char *dir, const char *const *packages, struct cbx_fetch *f, struct cbx_err *err)
{
	static const char *const options[] = { "-q", "--download-only" };
	_cleanup_buf_ struct cbx_buf tail = { 0 };
	char size[32];
	size_t n;
	_cleanup_free_ const char **args = install_args(options, ARRAY_SIZE(options), packages, &n);

	if (all_there(f))
		return 0;
	cbx_format_size(f->total, size);
	cbx_progress_step("Fetching %zu packages (%s, less what is cached)", f->n, size);
	if (cbx_apt_run(dir, args, n, on_fetched, f, &tail, err) < 0)
		return apt_trouble(err, "the packages cannot be fetched", &tail);
	return 0;
}

int cbx_fetch_packages(const char *cache_dir, const char *const *packages, const char *const *omit,
		       struct cbx_fetch *ret, struct cbx_err *err)
{
	_cleanup_free_ char *dir = cbx_xasprintf("%s/apt", cache_dir), *debs = cbx_xasprintf("%s/debs", cache_dir);
	static const char *const update[] = { "update", "-q" };
	_cleanup_buf_ struct cbx_buf tail = { 0 };
	struct cbx_fetch f = { .debs = -1 };
	int r = cbx_apt_prepare(dir, debs, omit, err);

	if (r < 0)
		return r;
	f.debs = open(debs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f.debs < 0)
		return cbx_fail(err, errno, "open %s", debs);
	cbx_progress_step("Updating the package lists");
	/* One source that cannot be reached does no harm while the packages are available: the next run shows. */
	r = cbx_apt_run(dir, update, ARRAY_SIZE(update), NULL, NULL, &tail, err);
	if (r == 0 || strcmp(err->kind, "apt_failed") == 0)
		r = list_packages(dir, packages, &f, &tail, err);
	if (r == 0)
		r = download(dir, packages, &f, err);
	if (r < 0) {
		cbx_fetch_release(&f);
		return r;
	}
	*ret = f;
	return 0;
}

int cbx_fetch_open(const struct cbx_fetch *fetch, const struct cbx_package *package, int *ret, struct cbx_err *err)
{
	_cleanup_fd_ int fd = cbx_tree_openat(fetch->debs, package->file, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	char sum[65];
	int r;

	if (fd < 0)
		return cbx_fail(err, -fd, "open the package %s, which apt-get should have fetched", package->file);
	r = cbx_scan_hash_fd(fd, sum, err);
	if (r < 0)
		return cbx_wrap(err, "%s", package->file);
	if (strcmp(sum, package->sha256) != 0) {
		(void)unlinkat(fetch->debs, package->file, 0);
		return cbx_refuse(
			err, "damaged_package", EBADMSG,
			"the package file %s in the cache was damaged, and has been removed; run the command again",
			package->file);
	}
	*ret = take_fd(&fd);
	return 0;
}

void cbx_fetch_release(struct cbx_fetch *fetch)
{
	for (size_t i = 0; i < fetch->n; i++) {
		free(fetch->packages[i].name);
		free(fetch->packages[i].version);
		free(fetch->packages[i].file);
	}
	free(fetch->packages);
	cbx_close_p(&fetch->debs);
	fetch->packages = NULL;
	fetch->n = 0;
}
