/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CBX_RENDER_RENDER_H
#define CBX_RENDER_RENDER_H

/*
 * What a cell printed and showed, as content for a model. Pure functions: all that they need is given to them.
 *
 *   result.c   an execution as a CallToolResult, within a size
 *   display.c  what the cell showed: MIME bundles
 *   text.c     the text of one
 *   html.c     HTML as text
 *   screen.c   text as a terminal would show it, and cut to a size
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

/* An image file that a cell wrote; path and mime are borrowed. */
struct cbx_render_image {
	const char *path, *mime;
	size_t size;
	struct cbx_buf bytes;
};
bool cbx_render_image_sendable(const char *mime);			    /* one of the types that clients take */
bool cbx_render_image_sound(const char *mime, const struct cbx_buf *bytes); /* its first bytes are of that type */

struct cbx_render_execution {
	const cJSON *x;			       /* cbx_execution_to_json() without displays */
	const cJSON *displays;		       /* cbx_execution_displays() */
	const struct cbx_render_image *images; /* that it wrote */
	size_t nimages;
	const char *session_id, *notice; /* notice: to be said first; NULL: nothing */
	bool name_session;		 /* nobody may have heard of it yet */
	bool structured;		 /* with structuredContent, and links to files */
	size_t room;			 /* bytes that the whole may have */
};
/* Print a CallToolResult. */
void cbx_render_execution(struct cbx_buf *out, const struct cbx_render_execution *e);

/* One more block of content, which is returned; an image. */
cJSON *cbx_render_add_block(cJSON *content, const char *type);
void cbx_render_add_image(cJSON *content, const char *mime, const char *base64);

/* Append text as a terminal would leave it: escape sequences gone, carriage returns and backspaces carried out. */
void cbx_render_screen(struct cbx_buf *out, const char *text);
/* Append at most max characters of valid UTF-8: head and tail, and between them a note with the number of bytes
 * omitted, `before` of which were missing already, and a clause that says where they are (may be NULL). Returns bytes
 * cut here. */
size_t cbx_render_cut(struct cbx_buf *out, const char *text, size_t max, uint64_t before, const char *where);
/* The same in parts [from, to) of the text, for something else to come between them. */
struct cbx_render_cut {
	size_t head, tail; /* bytes [head, tail) are omitted */
};
struct cbx_render_cut cbx_render_cut_plan(const char *text, size_t max);
void cbx_render_cut_part(struct cbx_buf *out, const char *text, const struct cbx_render_cut *cut, size_t from,
			 size_t to, uint64_t before, const char *where);

/*
 * The form of a MIME bundle that says most to who reads text, within the bundle, or in `made`; NULL: there is none.
 * What names the object and no more is the last choice, and none where an image is `shown`. Of HTML, which is read
 * where nothing else says anything, *left bytes may be looked at, and become about max.
 */
const char *cbx_render_text(const cJSON *data, bool shown, size_t *left, size_t max, struct cbx_buf *made);
/* cbx_render_html() within what is left to look at; false: nothing in it is text to read. */
bool cbx_render_markup(struct cbx_buf *out, const char *html, size_t *left, size_t max);

/*
 * HTML, or SVG, as text that a model reads: tables in Markdown, headings and list items marked, entities decoded, tags,
 * scripts and styles omitted. The text is for reading, never for a browser. At most about max bytes are appended, and
 * it says when there would be more. n bytes are looked at, in one pass; valid UTF-8 stays valid. What comes out holds
 * no control character but newline.
 */
void cbx_render_html(struct cbx_buf *out, const char *html, size_t n, size_t max);

#endif
