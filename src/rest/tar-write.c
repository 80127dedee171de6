/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a ustar header, which every tar reads. What does not fit into it, and names that are not ASCII,
 * stand in an extended header before it, as pax has them. Those that are not UTF-8 either are the bytes that they are,
 * as with GNU's tar.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rest/tar.h"

/* Places in a header, and the room there. */
enum {
	NAME = 0,
	MODE = 100,
	UID = 108,
	GID = 116,
	SIZE = 124,
	MTIME = 136,
	SUM = 148,
	TYPE = 156,
	LINK = 157,
	MAGIC = 257
};
#define NAME_ROOM 100
#define OCTAL_MAX 077777777777ull

/* "12 path=abc\n", where 12 is the length of all of it. */
static void add_record(struct cbx_buf *out, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, len = 0, next = rest;

	while (next != len) {
		len = next;
		next = rest + (size_t)snprintf(NULL, 0, "%zu", len);
	}
	cbx_buf_addf(out, "%zu %s=%s\n", len, key, value);
}

static void octal(char *header, int at, int room, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%0*" PRIo64, room - 1, value);
	memcpy(header + at, text, (size_t)room);
}

static void add_header(struct cbx_buf *out, const struct cbx_tar_entry *e, const char *name, char type, uint64_t size)
{
	char header[CBX_TAR_BLOCK] = { 0 };
	unsigned sum = 0;

	memcpy(header + NAME, name, strnlen(name, NAME_ROOM));
	octal(header, MODE, 8, e->mode & 01777);
	octal(header, UID, 8, 0);
	octal(header, GID, 8, 0);
	octal(header, SIZE, 12, size < OCTAL_MAX ? size : OCTAL_MAX);
	octal(header, MTIME, 12, e->mtime_ns > 0 ? (uint64_t)e->mtime_ns / 1000000000 & OCTAL_MAX : 0);
	memset(header + SUM, ' ', 8);
	header[TYPE] = type;
	if (type == '2')
		memcpy(header + LINK, e->target, strnlen(e->target, NAME_ROOM));
	memcpy(header + MAGIC,
	       "ustar\0"
	       "00",
	       8);
	for (size_t i = 0; i < sizeof(header); i++)
		sum += (unsigned char)header[i];
	octal(header, SUM, 7, sum);
	cbx_buf_add(out, header, sizeof(header));
}

/* It stands in a header as it is. */
static bool fits(const char *text)
{
	return strlen(text) <= NAME_ROOM &&
	       strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			    "0123456789 !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") == strlen(text);
}

size_t cbx_tar_padding(uint64_t size)
{
	return (CBX_TAR_BLOCK - size % CBX_TAR_BLOCK) % CBX_TAR_BLOCK;
}

static void add_zeros(struct cbx_buf *out, size_t n)
{
	memset(cbx_buf_reserve(out, n), 0, n);
	out->len += n;
}

void cbx_tar_print(struct cbx_buf *out, const struct cbx_tar_entry *e)
{
	bool links = e->type == CBX_TAR_SYMLINK;
	uint64_t size = e->type == CBX_TAR_FILE ? e->size : 0;
	char path[CBX_REST_PATH_MAX + 2], number[24];
	_cleanup_buf_ struct cbx_buf more = { 0 };

	snprintf(path, sizeof(path), "%s%s", e->path, e->type == CBX_TAR_DIRECTORY ? "/" : "");
	if (!fits(path))
		add_record(&more, "path", path);
	if (links && !fits(e->target))
		add_record(&more, "linkpath", e->target);
	snprintf(number, sizeof(number), "%" PRIu64, size);
	if (size > OCTAL_MAX)
		add_record(&more, "size", number);
	if (more.len) {
		add_header(out, e, "pax", 'x', more.len);
		cbx_buf_add(out, more.data, more.len);
		add_zeros(out, cbx_tar_padding(more.len));
	}
	add_header(out, e, fits(path) ? path : "long", e->type == CBX_TAR_DIRECTORY ? '5' : links ? '2' : '0', size);
}

void cbx_tar_print_end(struct cbx_buf *out)
{
	add_zeros(out, 2 * (size_t)CBX_TAR_BLOCK);
}
