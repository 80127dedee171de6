/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: kitty and iTerm2 take a PNG in base64 and the number of cells to show it in; sixels are stripes
 * of six rows, one colour of a cube of 6 by 6 by 6 after the other.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/images.h"

#define PIECE	4096 /* bytes of base64 in one command of kitty's */
#define STEPS	6
#define COLOURS (STEPS * STEPS * STEPS)
#define STRIPE	6

struct cells {
	unsigned columns, rows;
};

/* As large as it is, but within the room, in its proportions. */
static struct cells fit(const struct cbx_picture *p, const struct cbx_images_room *room)
{
	uint64_t w = p->width, h = p->height, most_w = (uint64_t)room->columns * room->cell_width;
	uint64_t most_h = (uint64_t)room->rows * room->cell_height;

	if (w > most_w) {
		h = h * most_w / w;
		w = most_w;
	}
	if (h > most_h) {
		w = w * most_h / h;
		h = most_h;
	}
	return (struct cells){ .columns = (unsigned)((w + room->cell_width - 1) / room->cell_width) + (w == 0),
			       .rows = (unsigned)((h + room->cell_height - 1) / room->cell_height) + (h == 0) };
}

static void draw_kitty(const char *text, size_t n, struct cells c, struct cbx_buf *out)
{
	for (size_t at = 0; at < n;) {
		size_t piece = n - at < PIECE ? n - at : PIECE;

		cbx_buf_adds(out, "\033_G");
		if (at == 0)
			cbx_buf_addf(out, "a=T,f=100,q=2,c=%u,r=%u,", c.columns, c.rows);
		cbx_buf_addf(out, "m=%d;", at + piece < n);
		cbx_buf_add(out, text + at, piece);
		cbx_buf_adds(out, "\033\\");
		at += piece;
	}
}

static unsigned colour_at(const struct cbx_picture *p, unsigned x, unsigned y)
{
	const uint8_t *rgb = p->rgb + ((size_t)y * p->width + x) * 3;
	unsigned v = 0;

	for (int i = 0; i < 3; i++)
		v = v * STEPS + (rgb[i] * (STEPS - 1) + 127) / 255;
	return v;
}

static void add_sixels(struct cbx_buf *out, uint8_t bits, unsigned n)
{
	char c = (char)('?' + bits);

	if (n > 3)
		cbx_buf_addf(out, "!%u%c", n, c);
	for (; n && n <= 3; n--)
		cbx_buf_addc(out, c);
}

/* One colour of a stripe. */
static void add_line(struct cbx_buf *out, unsigned colour, const uint8_t *const stripe[STRIPE], unsigned width)
{
	unsigned run = 0;
	uint8_t last = 0;

	cbx_buf_addf(out, "#%u", colour);
	for (unsigned x = 0; x < width; x++) {
		uint8_t bits = 0;

		for (unsigned k = 0; k < STRIPE; k++)
			bits |= (uint8_t)((stripe[k] && stripe[k][x] == colour) << k);
		if (bits != last) {
			add_sixels(out, last, run);
			run = 0;
			last = bits;
		}
		run++;
	}
	if (last)
		add_sixels(out, last, run);
	cbx_buf_addc(out, '$');
}

static void add_stripe(struct cbx_buf *out, const struct cbx_picture *p, unsigned width, unsigned height, unsigned y)
{
	_cleanup_free_ uint8_t *colours = cbx_xcalloc(STRIPE, width);
	const uint8_t *stripe[STRIPE] = { NULL };
	bool used[COLOURS] = { false };

	for (unsigned k = 0; k < STRIPE && y + k < height; k++) {
		uint8_t *row = colours + (size_t)k * width;

		for (unsigned x = 0; x < width; x++) {
			row[x] = (uint8_t)colour_at(p, (unsigned)((uint64_t)x * p->width / width),
						    (unsigned)((uint64_t)(y + k) * p->height / height));
			used[row[x]] = true;
		}
		stripe[k] = row;
	}
	for (unsigned i = 0; i < COLOURS; i++)
		if (used[i])
			add_line(out, i, stripe, width);
	cbx_buf_addc(out, '-');
}

static void draw_sixel(const struct cbx_picture *p, const struct cbx_images_room *room, struct cells c,
		       struct cbx_buf *out)
{
	unsigned width = p->width, height = p->height, most_w = c.columns * room->cell_width,
		 most_h = c.rows * room->cell_height;

	if (width > most_w || height > most_h) {
		width = most_w;
		height = most_h;
	}
	cbx_buf_addf(out, "\033P0;1q\"1;1;%u;%u", width, height);
	for (unsigned i = 0; i < COLOURS; i++)
		cbx_buf_addf(out, "#%u;2;%u;%u;%u", i, i / (STEPS * STEPS) * 20, i / STEPS % STEPS * 20,
			     i % STEPS * 20);
	for (unsigned y = 0; y < height; y += STRIPE)
		add_stripe(out, p, width, height, y);
	cbx_buf_adds(out, "\033\\");
}

unsigned cbx_images_draw(enum cbx_images_kind kind, const struct cbx_picture *p, const struct cbx_images_room *room,
			 struct cbx_buf *out)
{
	_cleanup_buf_ struct cbx_buf png = { 0 }, text = { 0 };
	struct cells c = fit(p, room);

	/* The rows are made first, so that where the cursor ends does not depend on the terminal. */
	for (unsigned i = 1; i < c.rows; i++)
		cbx_buf_addc(out, '\n');
	if (c.rows > 1)
		cbx_buf_addf(out, "\033[%uA", c.rows - 1);
	cbx_buf_adds(out, "\r\0337");
	if (kind == CBX_IMAGES_SIXEL) {
		draw_sixel(p, room, c, out);
	} else {
		cbx_png_encode(p, &png);
		cbx_base64_encode(&text, png.data, png.len);
		if (kind == CBX_IMAGES_KITTY) {
			draw_kitty(text.data, text.len, c, out);
		} else {
			cbx_buf_addf(out, "\033]1337;File=inline=1;size=%zu;width=%u;height=%u;preserveAspectRatio=1:",
				     png.len, c.columns, c.rows);
			cbx_buf_add(out, text.data, text.len);
			cbx_buf_addc(out, '\a');
		}
	}
	cbx_buf_adds(out, "\0338");
	if (c.rows > 1)
		cbx_buf_addf(out, "\033[%uB", c.rows - 1);
	return c.rows;
}
