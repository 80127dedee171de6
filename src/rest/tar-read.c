/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: bytes come in pieces of any length, and a state says what the next ones are. What could be read
 * in two ways, or asks for more than files, directories and links in one place, is refused, with its name: an entry
 * that is omitted would be missed later. Owners, and what extended headers say beyond name, link, size and time, are
 * nobody's business here. All that is kept is one header, and one extended header that is bounded.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "rest/tar.h"

#define EXTENDED_MAX 8 /* extended headers before an entry */

/* ---- where things lead ---- */

/* The next part of a path, and what follows it. */
static size_t part_of(const char *path, const char **ret_rest)
{
	size_t n = strcspn(path, "/");

	*ret_rest = path + n + (path[n] == '/');
	return n;
}

static bool is_up(const char *part, size_t n)
{
	return n == 2 && part[0] == '.' && part[1] == '.';
}

bool cbx_tar_link_inside(const char *path, const char *target)
{
	const char *at = target, *rest;
	size_t above = 0, n;

	if (!*target || *target == '/')
		return false;
	for (const char *p = path; *p; p++)
		above += *p == '/';
	for (; *at && (n = part_of(at, &rest), is_up(at, n)); at = rest)
		if (!above--)
			return false;
	/* Behind a name, ".." is above of what the name leads to, and nobody knows what that is. */
	for (; *at; at = rest) {
		n = part_of(at, &rest);
		if (is_up(at, n))
			return false;
	}
	return true;
}

/* ---- errors ---- */

__attribute__((format(printf, 3, 4))) static int refuse(const struct cbx_tar *t, struct cbx_err *err, const char *fmt,
							...)
{
	char why[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (t->entry.path[0])
		return cbx_refuse(err, "invalid_archive", EINVAL, "%.200s: %s", t->entry.path, why);
	return cbx_refuse(err, "invalid_archive", EINVAL, "the archive: %s", why);
}

/* ---- headers ---- */

enum { NAME = 0, MODE = 100, SIZE = 124, MTIME = 136, SUM = 148, TYPE = 156, LINK = 157, MAGIC = 257, PREFIX = 345 };

/* Octal digits, or, as GNU's tar has what is too large for these, bytes behind one with its top bit set. */
static bool number(const char *p, size_t room, uint64_t *ret)
{
	const unsigned char *b = (const unsigned char *)p;
	size_t i = 0;

	*ret = 0;
	if (b[0] & 0x80) {
		for (i = 1; i < room; i++) {
			if (*ret >> 55)
				return false;
			*ret = *ret << 8 | b[i];
		}
		return b[0] == 0x80;
	}
	while (i < room && p[i] == ' ')
		i++;
	for (; i < room && p[i] >= '0' && p[i] <= '7'; i++)
		*ret = *ret << 3 | (uint64_t)(p[i] - '0');
	while (i < room && (p[i] == ' ' || !p[i]))
		i++;
	return i == room;
}

static bool sum_is_right(const struct cbx_tar *t)
{
	uint64_t said, sum = 0;

	for (size_t i = 0; i < CBX_TAR_BLOCK; i++)
		sum += i >= SUM && i < SUM + 8 ? ' ' : (unsigned char)t->block[i];
	return number(t->block + SUM, 8, &said) && said == sum;
}

static bool is_zero(const struct cbx_tar *t)
{
	for (size_t i = 0; i < CBX_TAR_BLOCK; i++)
		if (t->block[i])
			return false;
	return true;
}

/* "./a/b/" is "a/b", and "./" the directory itself. */
static int clean_path(const struct cbx_tar *t, char *path, struct cbx_err *err)
{
	size_t n, skip = 0;

	while (path[skip] == '.' && path[skip + 1] == '/')
		skip += 1 + strspn(path + skip + 1, "/");
	memmove(path, path + skip, strlen(path + skip) + 1);
	if (strcmp(path, ".") == 0)
		path[0] = '\0';
	for (n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	return cbx_rest_path_valid(path)
		       ? 0
		       : refuse(t, err,
				"a path that is absolute, or has an empty part, \".\" or \"..\"; make it with tar -C "
				"DIRECTORY, of paths below that");
}

static void copy_field(char *out, size_t most, const char *p, size_t room)
{
	snprintf(out, most, "%.*s", (int)strnlen(p, room), p);
}

static void take_names(struct cbx_tar *t)
{
	bool posix = memcmp(t->block + MAGIC, "ustar", 6) == 0;
	char *path = t->entry.path;

	if (t->has_path) {
		strcpy(path, t->said.path);
	} else {
		path[0] = '\0';
		if (posix && t->block[PREFIX]) {
			copy_field(path, sizeof(t->entry.path), t->block + PREFIX, 155);
			strcat(path, "/");
		}
		copy_field(path + strlen(path), sizeof(t->entry.path) - strlen(path), t->block + NAME, 100);
	}
	if (t->has_target)
		strcpy(t->entry.target, t->said.target);
	else
		copy_field(t->entry.target, sizeof(t->entry.target), t->block + LINK, 100);
}

static int take_type(struct cbx_tar *t, struct cbx_err *err)
{
	char type = t->block[TYPE];

	switch (type) {
	case '\0':
	case '0':
	case '7':
		t->entry.type = CBX_TAR_FILE;
		/* Before there were types, a directory was a file whose name ends so. */
		if (cbx_ends_with(t->entry.path, "/"))
			t->entry.type = CBX_TAR_DIRECTORY;
		return 0;
	case '1':
		t->entry.type = CBX_TAR_NAME;
		return 0;
	case '2':
		t->entry.type = CBX_TAR_SYMLINK;
		return 0;
	case '5':
		t->entry.type = CBX_TAR_DIRECTORY;
		return 0;
	case '3':
	case '4':
	case '6':
		return refuse(t, err, "a %s; leave it out (tar --exclude)", type == '6' ? "named pipe" : "device");
	case 'S':
		return refuse(t, err, "a sparse file of GNU tar; make it without --sparse");
	default:
		return refuse(t, err, "an entry of type \"%c\"; files, directories and links can be unpacked",
			      type > ' ' && type <= '~' ? type : '?');
	}
}

static int check_links(struct cbx_tar *t, struct cbx_err *err)
{
	struct cbx_tar_entry *e = &t->entry;

	if (e->type == CBX_TAR_SYMLINK && !cbx_tar_link_inside(e->path, e->target))
		return refuse(t, err,
			      "a link that leads out (to %.100s); leave it out (tar --exclude), or have what it leads "
			      "to in its place (tar --dereference)",
			      e->target);
	if (e->type != CBX_TAR_NAME)
		return 0;
	if (clean_path(t, e->target, err) < 0)
		return -err->code;
	return e->target[0] ? 0 : refuse(t, err, "another name of nothing");
}

static int take_entry(struct cbx_tar *t, enum cbx_tar_found *ret, struct cbx_err *err)
{
	struct cbx_tar_entry *e = &t->entry;
	uint64_t mode, size, seconds;

	take_names(t);
	if (!number(t->block + MODE, 8, &mode) || !number(t->block + SIZE, 12, &size))
		return refuse(t, err, "its mode or size is not a number");
	if (!number(t->block + MTIME, 12, &seconds) || seconds > INT64_MAX / 1000000000)
		seconds = 0;
	if (take_type(t, err) < 0 || clean_path(t, e->path, err) < 0)
		return -err->code;
	if (!e->path[0] && e->type != CBX_TAR_DIRECTORY)
		return refuse(t, err, "an entry has no name");
	if (mode & 06000)
		return refuse(t, err, "set-user-ID or set-group-ID (mode %04o); remove that (chmod ug-s)",
			      (unsigned)mode & 07777);
	if (check_links(t, err) < 0)
		return -err->code;
	e->mode = (uint32_t)mode & 01777;
	e->mtime_ns = t->has_time ? t->said.mtime_ns : (int64_t)seconds * 1000000000;
	e->size = e->type != CBX_TAR_FILE ? 0 : t->has_size ? t->said.size : size;
	if (e->type != CBX_TAR_FILE && (size || (t->has_size && t->said.size)))
		return refuse(t, err, "only files have contents");
	t->has_path = t->has_target = t->has_size = t->has_time = false;
	t->extended = 0;
	if (++t->entries > CBX_REST_TAR_ENTRIES)
		return cbx_refuse(err, "archive_too_large", EFBIG, "%.200s: the archive has more than %d entries",
				  e->path, CBX_REST_TAR_ENTRIES);
	if (e->size > CBX_REST_TAR_BYTES || (t->bytes += e->size) > CBX_REST_TAR_BYTES)
		return cbx_refuse(err, "archive_too_large", EFBIG,
				  "%.200s: the files of the archive have more than %" PRIu64 " bytes", e->path,
				  (uint64_t)CBX_REST_TAR_BYTES);
	t->left = e->size;
	t->padding = cbx_tar_padding(e->size);
	t->state = e->type == CBX_TAR_FILE ? CBX_TAR_BYTES : CBX_TAR_HEADER;
	*ret = CBX_TAR_ENTRY;
	return 0;
}

/* ---- extended headers ---- */

static int set_path(struct cbx_tar *t, char *to, bool *has, const char *p, size_t n, struct cbx_err *err)
{
	if (n > CBX_REST_PATH_MAX)
		return refuse(t, err, "a path of more than %d bytes", CBX_REST_PATH_MAX);
	if (!n || memchr(p, '\0', n))
		return refuse(t, err, "a path that is empty, or has a NUL");
	memcpy(to, p, n);
	to[n] = '\0';
	*has = true;
	return 0;
}

static bool decimal(const char *p, size_t n, uint64_t *ret, size_t *used)
{
	*ret = 0;
	*used = 0;
	while (*used < n && p[*used] >= '0' && p[*used] <= '9' && *used < 18)
		*ret = *ret * 10 + (uint64_t)(p[(*used)++] - '0');
	return *used > 0;
}

/* "1700000000.123456789"; before 1970: 1970. */
static bool set_time(struct cbx_tar *t, const char *p, size_t n)
{
	int64_t unit = 100000000;
	uint64_t seconds;
	size_t at;

	t->has_time = true;
	t->said.mtime_ns = 0;
	if (n && p[0] == '-')
		return true;
	if (!decimal(p, n, &seconds, &at) || seconds > INT64_MAX / 1000000000 - 1)
		return false;
	t->said.mtime_ns = (int64_t)seconds * 1000000000;
	if (at == n)
		return true;
	if (p[at++] != '.')
		return false;
	for (; at < n && p[at] >= '0' && p[at] <= '9'; at++, unit /= 10)
		t->said.mtime_ns += (p[at] - '0') * unit;
	return at == n;
}

static int take_record(struct cbx_tar *t, const char *key, const char *p, size_t n, struct cbx_err *err)
{
	bool is_path = strcmp(key, "path") == 0, is_target = strcmp(key, "linkpath") == 0;
	bool is_size = strcmp(key, "size") == 0;
	size_t used;

	if (strncmp(key, "GNU.sparse.", 11) == 0)
		return refuse(t, err, "a sparse file of GNU tar; make it without --sparse");
	if (t->kind == 'g' && (is_path || is_target || is_size))
		return refuse(t, err, "a name or size for all entries that follow");
	if (is_path)
		return set_path(t, t->said.path, &t->has_path, p, n, err);
	if (is_target)
		return set_path(t, t->said.target, &t->has_target, p, n, err);
	if (is_size) {
		t->has_size = true;
		return decimal(p, n, &t->said.size, &used) && used == n ? 0
									: refuse(t, err, "a size that is not a number");
	}
	if (strcmp(key, "mtime") == 0 && t->kind == 'x' && !set_time(t, p, n))
		return refuse(t, err, "a time that is not a number");
	return 0;
}

/* "27 mtime=1700000000.123456\n", one after another. */
static int take_records(struct cbx_tar *t, struct cbx_err *err)
{
	const char *p = cbx_buf_str(&t->more), *end = p + t->more.len;

	while (p < end) {
		const char *equals;
		char key[64];
		uint64_t len;
		size_t used;

		if (!decimal(p, (size_t)(end - p), &len, &used) || len > (uint64_t)(end - p) || len < used + 3 ||
		    p[used] != ' ' || p[len - 1] != '\n')
			return refuse(t, err, "an extended header that is malformed");
		equals = memchr(p + used + 1, '=', len - used - 2);
		if (!equals)
			return refuse(t, err, "an extended header that is malformed");
		snprintf(key, sizeof(key), "%.*s", (int)(equals - p) - (int)used - 1, p + used + 1);
		if (take_record(t, key, equals + 1, (size_t)(p + len - 1 - (equals + 1)), err) < 0)
			return -err->code;
		p += len;
	}
	return 0;
}

static int take_extended(struct cbx_tar *t, struct cbx_err *err)
{
	size_t n = strnlen(cbx_buf_str(&t->more), t->more.len);
	int r = t->kind == 'L'	 ? set_path(t, t->said.path, &t->has_path, cbx_buf_str(&t->more), n, err)
		: t->kind == 'K' ? set_path(t, t->said.target, &t->has_target, cbx_buf_str(&t->more), n, err)
				 : take_records(t, err);

	cbx_buf_release(&t->more);
	t->left = t->padding;
	t->state = t->left ? CBX_TAR_SKIPS : CBX_TAR_HEADER;
	return r;
}

static int begin_extended(struct cbx_tar *t, struct cbx_err *err)
{
	uint64_t size;

	t->kind = t->block[TYPE];
	if (!number(t->block + SIZE, 12, &size) || !size || size > CBX_REST_TAR_HEADER)
		return refuse(t, err, "an extended header of no length, or more than %zu bytes", CBX_REST_TAR_HEADER);
	if (++t->extended > EXTENDED_MAX)
		return refuse(t, err, "more than %d extended headers before an entry", EXTENDED_MAX);
	t->left = size;
	t->padding = cbx_tar_padding(size);
	t->state = CBX_TAR_EXTENDED;
	return 0;
}

static int take_block(struct cbx_tar *t, enum cbx_tar_found *ret, struct cbx_err *err)
{
	char type = t->block[TYPE];

	t->filled = 0;
	t->entry.path[0] = '\0'; /* what errors name */
	if (is_zero(t)) {
		if (t->extended && (t->has_path || t->has_target || t->has_size))
			return refuse(t, err, "it ends behind an extended header");
		t->state = CBX_TAR_OVER;
		*ret = CBX_TAR_END;
		return 0;
	}
	if (!sum_is_right(t))
		return refuse(t, err,
			      t->entries ? "the checksum of a header is wrong"
					 : "this is not one of tar: the checksum of its first header is wrong");
	if (type == 'x' || type == 'g' || type == 'L' || type == 'K')
		return begin_extended(t, err);
	return take_entry(t, ret, err);
}

/* ---- bytes ---- */

/* The next ones, which lie behind each other; how many. */
static size_t next_bytes(uint64_t left, size_t n)
{
	return left < n ? (size_t)left : n;
}

/* One step of a reader that has n bytes, at least one. */
static int step(struct cbx_tar *t, const char *p, size_t n, size_t *used, enum cbx_tar_found *ret, struct cbx_err *err)
{
	switch (t->state) {
	case CBX_TAR_HEADER:
		*used = next_bytes(CBX_TAR_BLOCK - t->filled, n);
		memcpy(t->block + t->filled, p, *used);
		t->filled += *used;
		return t->filled == CBX_TAR_BLOCK ? take_block(t, ret, err) : 0;
	case CBX_TAR_EXTENDED:
		*used = next_bytes(t->left, n);
		cbx_buf_add(&t->more, p, *used);
		t->left -= *used;
		return t->left ? 0 : take_extended(t, err);
	case CBX_TAR_BYTES:
		*used = t->len = next_bytes(t->left, n);
		t->data = p;
		t->left -= t->len;
		*ret = CBX_TAR_DATA;
		return 0;
	case CBX_TAR_SKIPS:
		*used = next_bytes(t->left, n);
		t->left -= *used;
		t->state = t->left ? CBX_TAR_SKIPS : CBX_TAR_HEADER;
		return 0;
	case CBX_TAR_OVER:
		*used = n;
		t->behind += n;
		*ret = CBX_TAR_END;
		if (t->behind > CBX_REST_TAR_PADDING)
			return refuse(t, err, "more than %zu bytes follow its end", CBX_REST_TAR_PADDING);
		return 0;
	}
	return 0;
}

int cbx_tar_read(struct cbx_tar *t, const char *p, size_t n, size_t *used, enum cbx_tar_found *ret, struct cbx_err *err)
{
	*used = 0;
	*ret = CBX_TAR_MORE;
	while (*ret == CBX_TAR_MORE) {
		size_t some = 0;

		if (t->state == CBX_TAR_BYTES && !t->entry.size && !t->told) {
			t->told = true;
			t->data = p;
			t->len = 0;
			*ret = CBX_TAR_DATA;
			return 0;
		}
		if (t->state == CBX_TAR_BYTES && !t->left) {
			t->told = false;
			t->left = t->padding;
			t->state = t->left ? CBX_TAR_SKIPS : CBX_TAR_HEADER;
			*ret = CBX_TAR_FILE_END;
			return 0;
		}
		if (*used == n)
			return 0;
		if (step(t, p + *used, n - *used, &some, ret, err) < 0)
			return -err->code;
		*used += some;
	}
	return 0;
}

void cbx_tar_release(struct cbx_tar *t)
{
	cbx_buf_release(&t->more);
}
