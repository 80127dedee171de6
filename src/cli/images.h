/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_CLI_IMAGES_H
#define CBX_CLI_IMAGES_H

/*
 * Pictures on a terminal that answers that it can show them: by kitty's protocol, iTerm2's, or as sixels. What code has
 * made is never sent to it: a process that can do nothing else decodes it, and what is sent is made here of its pixels.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/png.h"
#include "cli/term.h"

enum cbx_images_kind { CBX_IMAGES_NONE, CBX_IMAGES_KITTY, CBX_IMAGES_ITERM2, CBX_IMAGES_SIXEL };

/* Zeroed; cbx_images_release() in the end. */
struct cbx_images {
	bool asked; /* the terminal was, and `kind` is its answer */
	enum cbx_images_kind kind;
	struct cbx_buf typed; /* by a person, while the terminal was asked: what is read from it next */
};

void cbx_images_release(struct cbx_images *im);
/* Show a PNG; false: this is not a terminal that can, or not a picture that is understood. */
bool cbx_images_show(struct cbx_images *im, struct cbx_term *t, const uint8_t *png, size_t n);

/* ---- the parts, for tests ---- */

/* A place on a terminal, in cells, and how large these are. */
struct cbx_images_room {
	unsigned columns, rows, cell_width, cell_height;
};

/* Read a terminal's answers at the start of some bytes. What is none of them goes to `typed`; true: the last came. */
bool cbx_images_answers(const char *p, size_t n, enum cbx_images_kind *ret, struct cbx_buf *typed);
/* Append what shows the picture, and in how many rows; the cursor is at the start of the last of these. */
unsigned cbx_images_draw(enum cbx_images_kind kind, const struct cbx_picture *picture,
			 const struct cbx_images_room *room, struct cbx_buf *out);

#endif
