/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: verifying reads files.txt, checks it against the digest in the manifest, makes the same text
 * anew from what is there, and compares. Results go to stdout, one line a finding, at most FINDINGS of them.
 */
#include "image/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "image/image-limits.h"
#include "image/progress.h"
#include "image/scan.h"
#include "image/store.h"
#include "image/tree.h"

#define FINDINGS 50

static const char *text(const cJSON *manifest, const char *key)
{
	const char *v = "";
	struct cbx_err ignored;

	(void)cbx_json_get_str(manifest, key, &v, &ignored);
	return v;
}

static uint64_t number(const cJSON *manifest, const char *key)
{
	uint64_t v = 0;
	struct cbx_err ignored;

	(void)cbx_json_get_u64(manifest, key, 0, 1ull << 53, &v, &ignored);
	return v;
}

static int flush(struct cbx_err *err)
{
	return fflush(stdout) != 0 || ferror(stdout) ? cbx_fail(err, errno ? errno : EIO, "write to standard output")
						     : 0;
}

struct use {
	const char *digest; /* borrowed */
	uint64_t bytes;
};

static int by_digest(const void *a, const void *b)
{
	return strcmp(((const struct use *)a)->digest, ((const struct use *)b)->digest);
}

/* The layers of an image, each once however often it has it. */
static size_t add_uses(const cJSON *image, struct use **uses, size_t n)
{
	const cJSON *layer;
	size_t first = n;

	cJSON_ArrayForEach(layer, cbx_json_member(image, "composed")) {
		struct use one = { cJSON_IsObject(layer) ? text(layer, "digest") : "", number(layer, "bytes") };
		bool twice = false;

		for (size_t i = first; i < n; i++)
			twice |= strcmp((*uses)[i].digest, one.digest) == 0;
		if (twice || !*one.digest)
			continue;
		*uses = cbx_xrealloc(*uses, (n + 1) * sizeof(**uses));
		(*uses)[n++] = one;
	}
	return n;
}

/* Tell each image what its layers hold that other images have, too; the sum with each of these layers once. */
static uint64_t tell_shared(cJSON *list)
{
	_cleanup_free_ struct use *all = NULL;
	size_t n = 0, kept = 0;
	uint64_t sum = 0;
	cJSON *m;

	cJSON_ArrayForEach(m, list)
		n = add_uses(m, &all, n);
	if (n)
		qsort(all, n, sizeof(*all), by_digest);
	for (size_t i = 1; i < n; i++) /* those that are there at least twice, each once */
		if (strcmp(all[i].digest, all[i - 1].digest) == 0 &&
		    (!kept || strcmp(all[kept - 1].digest, all[i].digest) != 0))
			all[kept++] = all[i];
	for (size_t i = 0; i < kept; i++)
		sum += all[i].bytes;
	cJSON_ArrayForEach(m, list) {
		_cleanup_free_ struct use *own = NULL;
		size_t n_own = add_uses(m, &own, 0);
		uint64_t bytes = 0, most = number(m, "bytes");

		for (size_t i = 0; i < n_own && kept; i++)
			if (bsearch(&own[i], all, kept, sizeof(*all), by_digest))
				bytes += own[i].bytes;
		cbx_json_set_u64(m, "shared_bytes", bytes < most ? bytes : most);
	}
	return sum;
}

static void print_image(const cJSON *m)
{
	char size[32], shared[32];

	if (*text(m, "damaged")) {
		printf("%-20s %s\n", text(m, "name"), text(m, "damaged"));
		return;
	}
	cbx_format_size(number(m, "bytes"), size);
	cbx_format_size(cbx_json_u64(m, "shared_bytes"), shared);
	printf("%-20s %-8s %10s %10s %8llu  %s\n", text(m, "name"), text(m, "kind"), size,
	       cbx_json_u64(m, "shared_bytes") ? shared : "-", (unsigned long long)number(m, "files"),
	       text(m, "created"));
}

int cbx_image_ls(const char *images_dir, bool json, struct cbx_err *err)
{
	_cleanup_json_ cJSON *list = NULL;
	const cJSON *m;
	uint64_t once;
	char size[32];
	int r = cbx_image_list(images_dir, &list, err);

	if (r < 0)
		return r;
	once = tell_shared(list);
	if (json) {
		_cleanup_buf_ struct cbx_buf out = { 0 };

		cbx_json_print(&out, list);
		puts(cbx_buf_str(&out));
		return flush(err);
	}
	if (!list->child) {
		fprintf(stderr, "There are no images in %s. Make one with: codebox image build\n", images_dir);
		return 0;
	}
	printf("%-20s %-8s %10s %10s %8s  %s\n", "NAME", "KIND", "SIZE", "SHARED", "FILES", "CREATED");
	cJSON_ArrayForEach(m, list)
		print_image(m);
	r = flush(err);
	cbx_format_size(once, size);
	if (r == 0 && once)
		fprintf(stderr, "Layers that several images have hold %s, which are on the disk once.\n", size);
	return r;
}

int cbx_image_show(const char *images_dir, const char *name, struct cbx_err *err)
{
	struct cbx_image image = { 0 };
	char *out;
	int r = cbx_image_open(images_dir, name, &image, err);

	if (r < 0)
		return r;
	out = cJSON_Print(image.manifest);
	cbx_image_release(&image);
	if (!out)
		return cbx_fail(err, ENOMEM, "print the manifest");
	puts(out);
	cJSON_free(out);
	return flush(err);
}

int cbx_image_summary(const char *images_dir, const char *name, struct cbx_err *err)
{
	struct cbx_image image = { 0 };
	char size[32];
	int r = cbx_image_open(images_dir, name, &image, err);

	if (r < 0)
		return r;
	cbx_format_size(number(image.manifest, "bytes"), size);
	printf("Image %s: %llu files, %s, %s\n", name, (unsigned long long)number(image.manifest, "files"), size,
	       text(image.manifest, "digest"));
	if (strcmp(text(image.manifest, "kind"), "host") == 0)
		printf("%s\n", text(image.manifest, "note"));
	cbx_image_release(&image);
	return flush(err);
}

struct findings {
	const char *image;
	unsigned n;
};

static void tell(void *arg, const char *what, const char *path)
{
	_cleanup_buf_ struct cbx_buf name = { 0 };
	struct findings *f = arg;

	cbx_escape(&name, path);
	if (f->n++ < FINDINGS)
		printf("%s: %s /%s\n", f->image, what, cbx_buf_str(&name));
}

static int open_rootfs(const char *images_dir, const char *name, int *ret_dir, int *ret_rootfs, struct cbx_err *err)
{
	_cleanup_fd_ int store = open(images_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), dir = -1;
	int rootfs;

	if (store < 0)
		return cbx_fail(err, errno, "open the image store %s", images_dir);
	dir = cbx_tree_openat(store, name, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0)
		return cbx_fail(err, -dir, "open the image %s", name);
	rootfs = cbx_tree_openat(dir, "rootfs", O_RDONLY | O_DIRECTORY, 0);
	if (rootfs < 0)
		return cbx_fail(err, -rootfs, "open the files of the image %s", name);
	*ret_dir = take_fd(&dir);
	*ret_rootfs = rootfs;
	return 0;
}

/* 0: as it was; 1: it differs, and how has been printed. */
static int compare(const char *name, const char *digest, int dir, int rootfs, struct cbx_err *err)
{
	_cleanup_buf_ struct cbx_buf then = { 0 };
	struct findings f = { .image = name };
	char now_digest[72], then_digest[72];
	struct cbx_scan now;
	int r;

	if (cbx_tree_read(dir, CBX_LISTING_FILE, CBX_LISTING_MAX, &then, err) < 0)
		cbx_buf_release(&then);
	r = cbx_scan_tree(rootfs, &now, err);
	if (r < 0)
		return r;
	cbx_scan_digest(cbx_buf_str(&now.text), now.text.len, now_digest);
	cbx_scan_digest(cbx_buf_str(&then), then.len, then_digest);
	if (strcmp(now_digest, digest) == 0) {
		printf("%s: ok, %llu files, %s\n", name, (unsigned long long)now.files, digest);
	} else if (strcmp(then_digest, digest) != 0) {
		printf("%s: differs from its digest; its list of files (%s) was changed too, so what differs is not "
		       "known\n",
		       name, CBX_LISTING_FILE);
		r = 1;
	} else {
		cbx_scan_compare(cbx_buf_str(&then), cbx_buf_str(&now.text), tell, &f);
		if (f.n > FINDINGS)
			printf("%s: and %u more\n", name, f.n - FINDINGS);
		printf("%s: %u differences; \"codebox image build %s --force\" makes it anew\n", name, f.n, name);
		r = 1;
	}
	cbx_scan_release(&now);
	return r;
}

static int verify_one(const char *images_dir, const char *name, struct cbx_err *err)
{
	_cleanup_fd_ int dir = -1, rootfs = -1;
	struct cbx_image image = { 0 };
	int r = cbx_image_open(images_dir, name, &image, err);

	if (r < 0 && strcmp(err->kind, "image_damaged") == 0) {
		printf("%s: %s\n", name, err->msg);
		return 1;
	}
	if (r < 0)
		return r;
	r = open_rootfs(images_dir, name, &dir, &rootfs, err);
	if (r == 0)
		r = compare(name, text(image.manifest, "digest"), dir, rootfs, err);
	cbx_image_release(&image);
	return r;
}

int cbx_image_verify(const char *images_dir, char **names, size_t n, struct cbx_err *err)
{
	_cleanup_json_ cJSON *list = NULL;
	const cJSON *m;
	int r = 0, differs = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		differs |= (r = verify_one(images_dir, names[i], err)) > 0;
	if (!n) {
		r = cbx_image_list(images_dir, &list, err);
		for (m = r < 0 ? NULL : list->child; m && r >= 0; m = m->next)
			differs |= (r = verify_one(images_dir, text(m, "name"), err)) > 0;
	}
	if (r >= 0)
		r = flush(err);
	return r < 0 ? r : differs;
}
