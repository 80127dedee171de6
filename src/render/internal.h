/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_RENDER_INTERNAL_H
#define CBX_RENDER_INTERNAL_H

/*
 * An execution on its way into the content of an answer. Text and images are put in the order in which the cell made
 * them: text is gathered until an image comes, or the end, and then becomes a block.
 */
#include "render/render.h"

struct cbx_render {
	const struct cbx_render_execution *e;
	size_t text_max, value_max, image_max; /* characters, characters, bytes of base64 */
	size_t bundle_max;		       /* bytes of bundles in structured content */
	size_t files_max;		       /* files that are listed */
	size_t value_left, image_used, html_left;
	uint64_t files_left;			  /* not listed at all */
	struct cbx_buf text;			  /* of the block that is being gathered */
	cJSON *content, *images, *files, *blocks; /* blocks: those of files, which come last */
};

void cbx_render_line(struct cbx_buf *b);			     /* what follows begins a line */
void cbx_render_flush(struct cbx_render *r);			     /* the text gathered so far, as a block */
void cbx_render_display(struct cbx_render *r, const cJSON *display); /* one of displays */
/* The text of all displays' bundles into structured content, unless none has more than its plain text. */
void cbx_render_bundles(const struct cbx_render *r, struct cbx_buf *structured);

#endif
