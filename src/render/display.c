/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: a MIME bundle is the same thing in several forms. A client's model gets the best of them that it
 * can read: an image that clients take, or text; HTML becomes text (html.c) where the object's plain form says nothing.
 * The other forms that are text are in structured content, as they came, as far as there is room.
 *
 * What is omitted is always named in the text, with type and size: some clients never show images to their model.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "render/internal.h"

/* A value, within what is left for values. */
static void add_value(struct cbx_render *r, const char *s)
{
	size_t from;

	cbx_render_line(&r->text);
	from = r->text.len;
	cbx_render_cut(&r->text, s, r->value_left, 0, NULL);
	from = r->text.len - from;
	r->value_left -= from < r->value_left ? from : r->value_left;
}

static void add_fact(struct cbx_render *r, const char *mime, uint64_t bytes, const char *more)
{
	_cleanup_free_ char *line = NULL;
	char size[32];

	if (r->value_left < 16)
		return;
	cbx_format_size(bytes, size);
	line = cbx_xasprintf("[%.80s, %s%s]", mime, size, more);
	add_value(r, line);
}

/* ---- images ---- */

bool cbx_render_image_sound(const char *mime, const struct cbx_buf *b)
{
	const char *p = b->data;

	if (b->len < 12)
		return false;
	if (strcmp(mime, "image/png") == 0)
		return memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0;
	if (strcmp(mime, "image/jpeg") == 0)
		return memcmp(p, "\xff\xd8\xff", 3) == 0;
	if (strcmp(mime, "image/gif") == 0)
		return memcmp(p, "GIF8", 4) == 0;
	return memcmp(p, "RIFF", 4) == 0 && memcmp(p + 8, "WEBP", 4) == 0;
}

bool cbx_render_image_sendable(const char *mime)
{
	return strcmp(mime, "image/png") == 0 || strcmp(mime, "image/jpeg") == 0 || strcmp(mime, "image/gif") == 0 ||
	       strcmp(mime, "image/webp") == 0;
}

/* base64 as encoders wrap it, on one line. */
static void unwrap(struct cbx_buf *out, const char *s)
{
	for (size_t n; *s; s += n + strspn(s + n, " \t\r\n")) {
		n = strcspn(s, " \t\r\n");
		cbx_buf_add(out, s, n);
	}
}

static void png_size(const char *mime, const struct cbx_buf *b, char *out, size_t n)
{
	const unsigned char *p = (const unsigned char *)b->data;

	if (strcmp(mime, "image/png") == 0 && b->len >= 24)
		snprintf(out, n, ", %u x %u pixels",
			 (unsigned)p[16] << 24 | (unsigned)p[17] << 16 | (unsigned)p[18] << 8 | p[19],
			 (unsigned)p[20] << 24 | (unsigned)p[21] << 16 | (unsigned)p[22] << 8 | p[23]);
}

/* An image block when it is sound and there is room for it; its facts in any case. */
static void add_image(struct cbx_render *r, const char *mime, const char *data)
{
	_cleanup_buf_ struct cbx_buf b64 = { 0 };
	_cleanup_buf_ struct cbx_buf bytes = { 0 };
	size_t len = strlen(data);
	char more[96] = "";
	bool sent = false;
	cJSON *image;

	if (len > r->image_max - r->image_used) {
		snprintf(more, sizeof(more), ": too large to send; save it to a file, or make it smaller");
	} else {
		unwrap(&b64, data);
		len = b64.len;
		if (cbx_base64_decode(&bytes, cbx_buf_str(&b64), len) < 0 || !cbx_render_image_sound(mime, &bytes)) {
			snprintf(more, sizeof(more), ": damaged, not sent");
		} else {
			r->image_used += len;
			sent = true;
			png_size(mime, &bytes, more, sizeof(more));
		}
	}
	add_fact(r, mime, bytes.len ? bytes.len : len / 4 * 3, more);
	if (sent) {
		cbx_render_flush(r);
		cbx_render_add_image(r->content, mime, b64.data);
	}
	image = cbx_json_new_obj();
	cbx_json_set_str(image, "mime_type", mime);
	cbx_json_set_u64(image, "bytes", bytes.len ? bytes.len : len / 4 * 3);
	cbx_json_set_bool(image, "sent", sent);
	cbx_json_push(r->images, image);
}

/* ---- MIME bundles ---- */

static void add_text(struct cbx_render *r, const cJSON *data, bool shown)
{
	_cleanup_buf_ struct cbx_buf made = { 0 };
	const char *html = cbx_json_text(data, "text/html"),
		   *text = cbx_render_text(data, shown, &r->html_left, 4 * r->value_left, &made);

	if (text)
		add_value(r, text);
	else if (html && !shown)
		add_fact(r, "text/html", strlen(html), ": nothing in it is text to read");
}

/*
 * The image of a bundle that is sent: its first, or when there is no room for that, another that fits: interpreters
 * send a smaller copy along with a large one. *ret_whole is the one that was passed over for it, or NULL.
 */
static const char *choose_image(const struct cbx_render *r, const cJSON *data, const cJSON **ret_whole)
{
	const cJSON *v, *first = NULL;

	*ret_whole = NULL;
	cJSON_ArrayForEach(v, data) {
		if (!cJSON_IsString(v) || !cbx_render_image_sendable(v->string))
			continue;
		if (strlen(v->valuestring) <= r->image_max - r->image_used) {
			*ret_whole = first;
			return v->string;
		}
		if (!first)
			first = v;
	}
	return first ? first->string : NULL;
}

/* A form that clients take no blocks of. What a drawing says can be read, all the same. */
static void add_other(struct cbx_render *r, const cJSON *form)
{
	_cleanup_buf_ struct cbx_buf made = { 0 };

	add_fact(r, form->string, strlen(form->valuestring), ": not sent in this form; save it to a file to use it");
	if (strcmp(form->string, "image/svg+xml") == 0 &&
	    cbx_render_markup(&made, form->valuestring, &r->html_left, 4 * r->value_left))
		add_value(r, cbx_buf_str(&made));
}

static bool is_media(const char *mime)
{
	return cbx_starts_with(mime, "image/") || strcmp(mime, "application/pdf") == 0 ||
	       cbx_starts_with(mime, "audio/") || cbx_starts_with(mime, "video/");
}

void cbx_render_display(struct cbx_render *r, const cJSON *display)
{
	const cJSON *data = cbx_json_member(display, "data"), *v, *whole, *media = NULL;
	const char *image = choose_image(r, data, &whole);

	cJSON_ArrayForEach (v, data)
		if (cJSON_IsString(v) && !cbx_render_image_sendable(v->string) && is_media(v->string))
			media = v;
	add_text(r, data, image || media);
	if (whole)
		add_fact(r, whole->string, strlen(whole->valuestring) / 4 * 3,
			 ": too large to send, a smaller copy is sent instead; save it to a file to keep the whole");
	if (image)
		add_image(r, image, cbx_json_text(data, image));
	else if (media)
		add_other(r, media);
	if (r->text.len)
		cbx_render_line(&r->text);
}

/* ---- structured content ---- */

static bool is_text(const cJSON *form)
{
	return cbx_starts_with(form->string, "text/") || strcmp(form->string, "image/svg+xml") == 0 ||
	       strcmp(form->string, "application/json") == 0 || cbx_ends_with(form->string, "+json");
}

/* A bundle's texts; of what there is no room for, the size. */
static cJSON *bundle_of(const cJSON *display, size_t *left)
{
	const cJSON *v;
	cJSON *b = cbx_json_new_obj(), *data = cbx_json_new_obj(), *omitted = cbx_json_new_obj();

	cJSON_ArrayForEach (v, cbx_json_member(display, "data")) {
		size_t n = v->valuestring ? strlen(v->valuestring) : 0;

		if (!is_text(v))
			continue;
		if (n > *left) {
			cbx_json_set_u64(omitted, v->string, n);
			continue;
		}
		*left -= n;
		cbx_json_set_str(data, v->string, v->valuestring);
	}
	cbx_json_set_bool(b, "is_result", cJSON_IsTrue(cbx_json_member(display, "is_result")));
	cbx_json_set_str(b, "display_id", cbx_json_text(display, "display_id"));
	cbx_json_set(b, "data", data);
	if (omitted->child)
		cbx_json_set(b, "omitted", omitted);
	else
		cJSON_Delete(omitted);
	return b;
}

static bool has_more_than_plain(const cJSON *displays)
{
	const cJSON *d, *v;

	cJSON_ArrayForEach (d, displays)
		cJSON_ArrayForEach (v, cbx_json_member(d, "data"))
			if (is_text(v) && strcmp(v->string, "text/plain") != 0)
				return true;
	return false;
}

void cbx_render_bundles(const struct cbx_render *r, struct cbx_buf *structured)
{
	size_t left = r->bundle_max;
	const cJSON *d;

	if (!has_more_than_plain(r->e->displays))
		return;
	cbx_json_write_key(structured, "displays");
	cJSON_ArrayForEach (d, r->e->displays) {
		_cleanup_json_ cJSON *bundle = bundle_of(d, &left);

		cbx_buf_addc(structured, d == r->e->displays->child ? '[' : ',');
		cbx_json_print_clean(structured, bundle);
	}
	cbx_buf_addc(structured, ']');
}
