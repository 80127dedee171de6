/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture that code has made, in a buffer of just its size: it is decoded into memory of the size that is promised, and
 * what was decoded comes out of what is written of it. Also what a terminal answers, with anything in between.
 */
#include <string.h>

#include "base/cleanup.h"
#include "cli/images.h"
#include "fuzz.h"

#define SMALL (1u << 14) /* pixels: more are only slow */

static void decode(const uint8_t *data, size_t size)
{
	struct cbx_picture p, again;
	_cleanup_free_ uint8_t *work = NULL, *rgb = NULL, *second = NULL;
	_cleanup_buf_ struct cbx_buf written = { 0 };
	size_t room;

	if (!cbx_png_size(data, size, &p.width, &p.height) || p.width * p.height > SMALL)
		return;
	room = CBX_PNG_WORK(p.width, p.height) + size;
	work = malloc(room);
	rgb = p.rgb = malloc((size_t)p.width * p.height * 3);
	must(work && rgb);
	if (!cbx_png_decode(data, size, work, room, &p))
		return;
	cbx_png_encode(&p, &written);
	must(cbx_png_size((uint8_t *)written.data, written.len, &again.width, &again.height));
	must(again.width == p.width && again.height == p.height);
	free(work);
	room = CBX_PNG_WORK(p.width, p.height) + written.len;
	work = malloc(room);
	second = again.rgb = malloc((size_t)p.width * p.height * 3);
	must(work && second && cbx_png_decode((uint8_t *)written.data, written.len, work, room, &again));
	must(memcmp(p.rgb, again.rgb, (size_t)p.width * p.height * 3) == 0);
	for (enum cbx_images_kind kind = CBX_IMAGES_KITTY; kind <= CBX_IMAGES_SIXEL; kind++) {
		_cleanup_buf_ struct cbx_buf out = { 0 };
		struct cbx_images_room place = { data[0] % 80 + 1u, data[size - 1] % 50 + 1u, 10, 20 };

		must(cbx_images_draw(kind, &p, &place, &out) <= place.rows);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct cbx_buf typed = { 0 };
	enum cbx_images_kind kind;
	uint8_t *exact = malloc(size + !size);

	must(exact);
	memcpy(exact, data, size);
	decode(exact, size);
	cbx_images_answers((char *)exact, size, &kind, &typed);
	must(typed.len <= size);
	free(exact);
	return 0;
}
