/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: an archive, in one piece and in pieces, means the same, and what is accepted of it leads nowhere
 * but down; printed again it is read as it was. The checksums of what looks like headers are made right, so that more
 * than that is tried. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "fuzz.h"
#include "rest/tar.h"

static void fix_sums(char *p, size_t n)
{
	for (size_t at = 0; at + CBX_TAR_BLOCK <= n; at += CBX_TAR_BLOCK) {
		unsigned sum = 0;

		if (memcmp(p + at + 257, "ustar", 5) != 0)
			continue;
		memset(p + at + 148, ' ', 8);
		for (size_t i = 0; i < CBX_TAR_BLOCK; i++)
			sum += (unsigned char)p[at + i];
		snprintf(p + at + 148, 7, "%06o", sum & 0777777);
	}
}

static void check_entry(const struct cbx_tar_entry *e)
{
	must(cbx_rest_path_valid(e->path) && e->path[0] != '/' && strlen(e->path) <= CBX_REST_PATH_MAX);
	must(!(e->mode & ~01777u) && e->mtime_ns >= 0 && e->size <= CBX_REST_TAR_BYTES);
	must(e->type == CBX_TAR_FILE || !e->size);
	must(e->path[0] || e->type == CBX_TAR_DIRECTORY);
	if (e->type == CBX_TAR_SYMLINK)
		must(e->target[0] && e->target[0] != '/' && cbx_tar_link_inside(e->path, e->target));
	if (e->type == CBX_TAR_NAME)
		must(e->target[0] && cbx_rest_path_valid(e->target));
}

/* What is printed is one entry, as it was, but for parts of seconds. */
static void check_printed(struct cbx_tar_entry e)
{
	_cleanup_buf_ struct cbx_buf out = { 0 };
	struct cbx_tar t = { 0 };
	enum cbx_tar_found found;
	struct cbx_err err;
	size_t used;

	if (e.type == CBX_TAR_NAME || !e.path[0])
		return;
	cbx_tar_print(&out, &e);
	must(out.len % CBX_TAR_BLOCK == 0);
	must(cbx_tar_read(&t, out.data, out.len, &used, &found, &err) == 0 && found == CBX_TAR_ENTRY &&
	     used == out.len);
	must(t.entry.type == e.type && strcmp(t.entry.path, e.path) == 0 && t.entry.mode == e.mode &&
	     t.entry.size == e.size);
	must(e.type != CBX_TAR_SYMLINK || strcmp(t.entry.target, e.target) == 0);
	cbx_tar_release(&t);
}

struct sum {
	uint64_t entries, files, bytes, hash;
	int r;
};

static void add(struct sum *s, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s->hash = (s->hash ^ ((const unsigned char *)p)[i]) * 1099511628211u;
}

/* In pieces of this number of bytes. */
static struct sum read_all(const char *p, size_t n, size_t piece)
{
	struct cbx_tar t = { 0 };
	struct sum s = { .r = 0 };
	struct cbx_err err = { 0 };
	uint64_t left = 0;
	size_t at = 0;

	for (;;) {
		size_t some = n - at < piece ? n - at : piece, used;
		enum cbx_tar_found found;

		s.r = cbx_tar_read(&t, p + at, some, &used, &found, &err);
		must(used <= some);
		if (s.r < 0)
			break;
		at += used;
		if (found == CBX_TAR_ENTRY) {
			must(!left);
			check_entry(&t.entry);
			check_printed(t.entry);
			left = t.entry.size;
			s.entries++;
			add(&s, t.entry.path, strlen(t.entry.path));
			add(&s, &t.entry.type, sizeof(t.entry.type));
		} else if (found == CBX_TAR_DATA) {
			must(t.len <= left && (t.len || !t.entry.size));
			must(!t.len || (t.data >= p && t.data + t.len <= p + n));
			left -= t.len;
			s.bytes += t.len;
			add(&s, t.data, t.len);
		} else if (found == CBX_TAR_FILE_END) {
			must(!left);
			s.files++;
		} else if (at == n) {
			break;
		}
	}
	must(s.r == 0 || (err.code && err.msg[0]));
	must(t.more.len <= CBX_REST_TAR_HEADER);
	cbx_tar_release(&t);
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *p = malloc(size + 1);
	struct sum whole, parts;

	must(p);
	memcpy(p, data, size);
	fix_sums(p, size);
	whole = read_all(p, size, size + 1);
	parts = read_all(p, size, 1 + size % 700);
	must(whole.r == parts.r && whole.entries == parts.entries && whole.files == parts.files);
	if (whole.r == 0)
		must(whole.bytes == parts.bytes && whole.hash == parts.hash);
	free(p);
	return 0;
}
