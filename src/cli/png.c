/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: chunks are walked, those of the compressed data put together, inflated, and their rows
 * unfiltered in place. Checksums are not compared: who sends a picture may send another one with the right ones.
 */
#include "cli/png.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define SIGNATURE 8
#define CHUNK	  12 /* length, type and checksum */

enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGB_ALPHA = 6 };

struct png {
	unsigned width, height, depth, type, channels;
	const uint8_t *palette, *alpha; /* NULL: none */
	size_t npalette, nalpha;
	size_t row; /* bytes of one, without its filter */
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

bool cbx_png_size(const uint8_t *p, size_t n, unsigned *ret_width, unsigned *ret_height)
{
	uint32_t w, h;

	if (n < SIGNATURE + CHUNK + 13 || memcmp(p, "\x89PNG\r\n\x1a\n", SIGNATURE) != 0 || be32(p + 8) != 13 ||
	    memcmp(p + 12, "IHDR", 4) != 0)
		return false;
	w = be32(p + 16);
	h = be32(p + 20);
	if (!w || !h || w > CBX_PNG_SIDE_MAX || h > CBX_PNG_SIDE_MAX || w * h > CBX_PNG_PIXELS_MAX)
		return false;
	*ret_width = w;
	*ret_height = h;
	return true;
}

static bool read_header(const uint8_t *p, size_t n, struct png *png)
{
	static const uint8_t channels[] = { 1, 0, 3, 1, 2, 0, 4 };

	if (!cbx_png_size(p, n, &png->width, &png->height))
		return false;
	png->depth = p[24];
	png->type = p[25];
	if (png->type > RGB_ALPHA || !channels[png->type] || p[26] || p[27] || p[28])
		return false;
	png->channels = channels[png->type];
	if (png->depth != 8 && png->depth != 16 &&
	    !(png->channels == 1 && (png->depth == 1 || png->depth == 2 || png->depth == 4)))
		return false;
	if (png->type == PALETTE && png->depth == 16)
		return false;
	png->row = ((size_t)png->width * png->channels * png->depth + 7) / 8;
	return true;
}

/* The compressed data is put together at the start of `to`. Its length, or 0. */
static size_t read_chunks(const uint8_t *p, size_t n, uint8_t *to, size_t room, struct png *png)
{
	size_t at = SIGNATURE, len = 0;

	while (n - at >= CHUNK) {
		const uint8_t *chunk = p + at, *data = chunk + 8;
		size_t size = be32(chunk);

		if (size > n - at - CHUNK)
			return 0;
		if (memcmp(chunk + 4, "IDAT", 4) == 0) {
			if (size > room - len)
				return 0;
			memcpy(to + len, data, size);
			len += size;
		} else if (memcmp(chunk + 4, "PLTE", 4) == 0) {
			png->palette = data;
			png->npalette = size / 3;
		} else if (memcmp(chunk + 4, "tRNS", 4) == 0 && png->type == PALETTE) {
			png->alpha = data;
			png->nalpha = size;
		} else if (memcmp(chunk + 4, "IEND", 4) == 0) {
			break;
		}
		at += size + CHUNK;
	}
	return png->type != PALETTE || png->palette ? len : 0;
}

static uint8_t paeth(int a, int b, int c)
{
	int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);

	return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

static bool unfilter(uint8_t *rows, const struct png *png)
{
	size_t back = (png->channels * png->depth + 7) / 8;

	for (unsigned y = 0; y < png->height; y++) {
		uint8_t *row = rows + y * (png->row + 1), *p = row + 1;
		const uint8_t *above = y ? p - (png->row + 1) : NULL;

		if (row[0] > 4)
			return false;
		for (size_t i = 0; row[0] && i < png->row; i++) {
			uint8_t a = i >= back ? p[i - back] : 0, b = above ? above[i] : 0;
			uint8_t c = above && i >= back ? above[i - back] : 0;

			p[i] = (uint8_t)(p[i] + (row[0] == 1   ? a
						 : row[0] == 2 ? b
						 : row[0] == 3 ? (a + b) / 2
							       : paeth(a, b, c)));
		}
	}
	return true;
}

/* A sample, in its own depth; of 16 bits the upper 8. */
static unsigned sample(const uint8_t *row, const struct png *png, size_t i)
{
	unsigned per;

	if (png->depth == 16)
		return row[i * 2];
	if (png->depth == 8)
		return row[i];
	per = 8 / png->depth;
	return row[i / per] >> (8 - png->depth - i % per * png->depth) & ((1u << png->depth) - 1);
}

static uint8_t on_white(unsigned v, unsigned alpha)
{
	return (uint8_t)((v * alpha + 255 * (255 - alpha)) / 255);
}

static void pixel(const uint8_t *row, const struct png *png, size_t x, uint8_t *to)
{
	unsigned v = sample(row, png, x * png->channels), alpha = 255;

	if (png->type == PALETTE) {
		if (v < png->nalpha)
			alpha = png->alpha[v];
		for (unsigned i = 0; i < 3; i++)
			to[i] = v < png->npalette ? on_white(png->palette[v * 3 + i], alpha) : 0;
		return;
	}
	if (png->depth < 8)
		v = v * 255 / ((1u << png->depth) - 1);
	if (png->type == GREY_ALPHA || png->type == RGB_ALPHA)
		alpha = sample(row, png, x * png->channels + png->channels - 1);
	for (unsigned i = 0; i < 3; i++)
		to[i] = on_white(png->channels < 3 ? v : sample(row, png, x * png->channels + i), alpha);
}

bool cbx_png_decode(const uint8_t *p, size_t n, uint8_t *work, size_t size, struct cbx_picture *picture)
{
	struct png png = { 0 };
	uint8_t *packed;
	size_t whole, len;

	if (!read_header(p, n, &png))
		return false;
	whole = png.height * (png.row + 1);
	if (size < whole || size - whole < n)
		return false;
	packed = work + size - n; /* behind the rows */
	len = read_chunks(p, n, packed, n, &png);
	if (!len || cbx_inflate(packed, len, work, whole) != whole || !unfilter(work, &png))
		return false;
	picture->width = png.width;
	picture->height = png.height;
	for (unsigned y = 0; y < png.height; y++)
		for (unsigned x = 0; x < png.width; x++)
			pixel(work + y * (png.row + 1) + 1, &png, x, picture->rgb + ((size_t)y * png.width + x) * 3);
	return true;
}

/* ---- writing ---- */

static void add_be32(struct cbx_buf *out, uint32_t v)
{
	const uint8_t b[] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v };

	cbx_buf_add(out, b, sizeof(b));
}

static void make_crcs(uint32_t table[256])
{
	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int k = 0; k < 8; k++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
	}
}

static void add_chunk(struct cbx_buf *out, const uint32_t crcs[256], const char *type, const struct cbx_buf *data)
{
	uint32_t crc = 0xffffffffu;
	size_t from;

	add_be32(out, (uint32_t)data->len);
	from = out->len;
	cbx_buf_adds(out, type);
	cbx_buf_add(out, cbx_buf_str(data), data->len);
	for (size_t i = from; i < out->len; i++)
		crc = crcs[(crc ^ (uint8_t)out->data[i]) & 0xff] ^ crc >> 8;
	add_be32(out, crc ^ 0xffffffffu);
}

void cbx_png_encode(const struct cbx_picture *picture, struct cbx_buf *out)
{
	_cleanup_buf_ struct cbx_buf head = { 0 }, rows = { 0 }, data = { 0 }, none = { 0 };
	size_t row = (size_t)picture->width * 3;
	uint32_t crcs[256];

	make_crcs(crcs);
	add_be32(&head, picture->width);
	add_be32(&head, picture->height);
	cbx_buf_add(&head, "\x08\x02\0\0\0", 5);
	for (unsigned y = 0; y < picture->height; y++) {
		cbx_buf_addc(&rows, 0);
		cbx_buf_add(&rows, picture->rgb + y * row, row);
	}
	cbx_deflate((const uint8_t *)cbx_buf_str(&rows), rows.len, 3, row + 1, &data);
	cbx_buf_add(out, "\x89PNG\r\n\x1a\n", SIGNATURE);
	add_chunk(out, crcs, "IHDR", &head);
	add_chunk(out, crcs, "IDAT", &data);
	add_chunk(out, crcs, "IEND", &none);
}
