/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: an ended execution becomes text, as much like a screen as possible, and images, in the order in
 * which they came, and the same as structured content. Everything in it came from a sandbox: each part is cut to a size
 * of its own, base64 and the first bytes of an image are checked before a client is asked to decode it, and the whole
 * is printed to see how long it is. When that is too long, the bundles of structured content are omitted first, then
 * images are, then the texts are halved, until it fits.
 */
#include <stdio.h>
#include <string.h>

#include "base/clean.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "render/internal.h"

#define NAME_CHARS    200
#define MESSAGE_CHARS 2000
#define SHORT	      500 /* bytes: most answers are not longer */
#define FILES_SHOWN   20 /* as content; structured content has all that the engine lists */

/* ---- text ---- */

cJSON *cbx_render_add_block(cJSON *content, const char *type)
{
	cJSON *block = cbx_json_new_obj();

	cbx_json_set_str(block, "type", type);
	cbx_json_push(content, block);
	return block;
}

void cbx_render_add_image(cJSON *content, const char *mime, const char *base64)
{
	cJSON *block = cbx_render_add_block(content, "image");

	cbx_json_set(block, "data", cJSON_CreateString(base64));
	cbx_json_set_str(block, "mimeType", mime);
}

void cbx_render_line(struct cbx_buf *b)
{
	if (b->len && b->data[b->len - 1] != '\n')
		cbx_buf_addc(b, '\n');
}

void cbx_render_flush(struct cbx_render *r)
{
	while (r->text.len && r->text.data[r->text.len - 1] == '\n')
		r->text.data[--r->text.len] = '\0';
	if (!r->text.len)
		return;
	cbx_json_set_str(cbx_render_add_block(r->content, "text"), "text", cbx_buf_str(&r->text));
	r->text.len = 0;
}

/* ---- files ---- */

/* As an image block; false: no room, or it is not what its name says. */
static bool add_written(struct cbx_render *r, const char *path)
{
	for (size_t i = 0; i < r->e->nimages; i++) {
		const struct cbx_render_image *m = &r->e->images[i];
		_cleanup_buf_ struct cbx_buf b64 = { 0 };

		if (strcmp(m->path, path) != 0 || m->bytes.len != m->size ||
		    !cbx_render_image_sound(m->mime, &m->bytes))
			continue;
		cbx_base64_encode(&b64, m->bytes.data, m->bytes.len);
		if (b64.len > r->image_max - r->image_used)
			continue;
		cbx_render_add_image(r->blocks, m->mime, b64.data);
		r->image_used += b64.len;
		return true;
	}
	return false;
}

static void add_link(struct cbx_render *r, const cJSON *file, const char *path)
{
	const char *slash = strrchr(path, '/');
	cJSON *block = cbx_render_add_block(r->blocks, "resource_link");

	cbx_json_set_str(block, "uri", cbx_json_text(file, "uri"));
	cbx_json_set_str(block, "name", slash ? slash + 1 : path);
	cbx_json_set_str(block, "description", path);
	cbx_json_set_str(block, "mimeType", cbx_json_text(file, "mime_type"));
	cbx_json_set_u64(block, "size", cbx_json_u64(file, "size"));
}

/* What the cell changed: the first few by name in the text, and as blocks; all in r->files. */
static void add_files(struct cbx_render *r)
{
	uint64_t more = cbx_json_u64(r->e->x, "files_omitted");
	size_t listed = 0;
	const cJSON *f;

	cJSON_ArrayForEach(f, cbx_json_member(r->e->x, "files")) {
		const char *path = cbx_json_str(f, "path"), *mime = cbx_json_str(f, "mime_type");
		char size[32];
		cJSON *copy;

		if (listed == r->files_max) {
			more++;
			continue;
		}
		copy = cJSON_Duplicate(f, 1);
		cbx_json_set_bool(copy, "sent", add_written(r, path));
		cbx_json_push(r->files, copy);
		if (listed++ >= FILES_SHOWN)
			continue;
		if (!cJSON_IsTrue(cbx_json_member(copy, "sent")) && r->e->structured)
			add_link(r, f, path);
		cbx_render_line(&r->text);
		cbx_format_size(cbx_json_u64(f, "size"), size);
		cbx_buf_adds(&r->text, "[file written: ");
		cbx_escape(&r->text, path);
		cbx_buf_addf(&r->text, ", %s, %s", size, mime);
		if (cbx_json_text(f, "link"))
			cbx_buf_addf(&r->text, "; for the user, until %s: %s", cbx_json_str(f, "link_expires"),
				     cbx_json_text(f, "link"));
		if (cbx_json_text(f, "not_kept")) {
			cbx_buf_adds(&r->text, "; not kept after the session: ");
			cbx_escape(&r->text, cbx_json_text(f, "not_kept"));
		}
		if (cbx_json_text(f, "not_uploaded")) {
			cbx_buf_adds(&r->text, "; not copied to the object store: ");
			cbx_escape(&r->text, cbx_json_text(f, "not_uploaded"));
		}
		cbx_buf_addc(&r->text, ']');
	}
	if (listed > FILES_SHOWN || more) {
		cbx_render_line(&r->text);
		cbx_buf_addf(&r->text, "[and %llu more files; list_files shows them]",
			     (unsigned long long)(more + listed - (listed > FILES_SHOWN ? FILES_SHOWN : listed)));
	}
	r->files_left = more;
}

/* ---- the whole ---- */

static const char running[] = "The cell is still running. Call get_execution with this execution_id (and wait) to "
			      "follow it, or interrupt to stop it.";

static const char command[] = "The command is still running. Call get_execution with this execution_id (and wait) to "
			      "follow it, or interrupt to stop it.";

static const char queued[] = "The cell has not started yet: the cells of a session run one after another. Call "
			     "get_execution with this execution_id (and wait) to follow it, or interrupt to "
			     "drop it.";

/* A cell that waits for its turn is on its way, too. */
static bool is_running(const cJSON *x)
{
	const char *status = cbx_json_str(x, "status");

	return strcmp(status, "running") == 0 || strcmp(status, "queued") == 0;
}

static const char *where_it_is(const cJSON *x)
{
	if (cbx_json_member(x, "argv"))
		return command;
	return strcmp(cbx_json_str(x, "status"), "queued") == 0 ? queued : running;
}

/* Where in the output the n-th display was made; without that it was behind all of it. */
static size_t place_of(const cJSON *places, int n, size_t from, size_t end)
{
	const cJSON *v = cJSON_GetArrayItem(places, n);
	uint64_t at = end;

	if (cJSON_IsNumber(v))
		at = (uint64_t)v->valuedouble;
	return at < from ? from : at > end ? end : (size_t)at;
}

/* What was printed and shown, in turn. */
static void build_output(struct cbx_render *r)
{
	const cJSON *omitted = cbx_json_member(r->e->x, "omitted");
	const cJSON *places = cbx_json_member(r->e->x, "display_places"), *d;
	const char *output = cbx_json_str(r->e->x, "output"), *where = cbx_json_text(omitted, "where");
	uint64_t before = cbx_json_u64(omitted, "bytes");
	size_t from = 0, end = strlen(output), bounds[CBX_DISPLAYS_MAX], n = 0, at = 0;
	_cleanup_buf_ struct cbx_buf screen = { 0 };
	struct cbx_render_cut cut;

	cJSON_ArrayForEach(d, r->e->displays) {
		size_t to = n < CBX_DISPLAYS_MAX ? place_of(places, (int)n, from, end) : end;
		_cleanup_free_ char *part = strndup(output + from, to - from);

		if (part)
			cbx_render_screen(&screen, part);
		if (n < CBX_DISPLAYS_MAX)
			bounds[n++] = screen.len;
		from = to;
	}
	cbx_render_screen(&screen, output + from);
	cut = cbx_render_cut_plan(cbx_buf_str(&screen), r->text_max);
	r->value_left = r->value_max;
	n = 0;
	cJSON_ArrayForEach(d, r->e->displays) {
		size_t to = n < CBX_DISPLAYS_MAX ? bounds[n++] : screen.len;

		cbx_render_cut_part(&r->text, cbx_buf_str(&screen), &cut, at, to, before, where);
		cbx_render_display(r, d);
		at = to;
	}
	cbx_render_cut_part(&r->text, cbx_buf_str(&screen), &cut, at, screen.len, before, where);
	if (cut.tail > cut.head || omitted) {
		cbx_render_line(&r->text);
		cbx_buf_addf(&r->text, "[get_execution with execution_id %llu and output_from 0 pages through it]\n",
			     (unsigned long long)cbx_json_u64(r->e->x, "execution_id"));
	}
}

static void build_text(struct cbx_render *r)
{
	const cJSON *error = cbx_json_member(r->e->x, "error");
	const char *traceback = cbx_json_text(error, "traceback");
	const char *message = cbx_json_text(r->e->x, "message");

	if (r->e->notice)
		cbx_buf_addf(&r->text, "[%s]\n", r->e->notice);
	build_output(r);
	if (error) {
		cbx_render_line(&r->text);
		if (traceback && traceback[0]) {
			cbx_render_cut(&r->text, traceback, r->value_max, 0, NULL);
		} else {
			cbx_render_cut(&r->text, cbx_json_str(error, "name"), NAME_CHARS, 0, NULL);
			cbx_buf_adds(&r->text, ": ");
			cbx_render_cut(&r->text, cbx_json_str(error, "value"), r->value_max, 0, NULL);
		}
	}
	if (message) {
		cbx_render_line(&r->text);
		cbx_buf_addc(&r->text, '[');
		cbx_render_cut(&r->text, message, MESSAGE_CHARS, 0, NULL);
		cbx_buf_addc(&r->text, ']');
	}
	add_files(r);
	if (is_running(r->e->x)) {
		cbx_render_line(&r->text);
		cbx_buf_addf(&r->text, "[%s]", where_it_is(r->e->x));
	}
	while (r->text.len && r->text.data[r->text.len - 1] == '\n')
		r->text.data[--r->text.len] = '\0';
	if (!r->text.len && !r->content->child)
		cbx_buf_adds(&r->text, "(no output)");
	if (is_running(r->e->x) || r->e->name_session)
		cbx_render_line(&r->text);
	if (is_running(r->e->x))
		cbx_buf_addf(&r->text, "[session_id: %s, execution_id: %llu]", r->e->session_id,
			     (unsigned long long)cbx_json_u64(r->e->x, "execution_id"));
	else if (r->e->name_session)
		cbx_buf_addf(&r->text, "[session_id: %s]", r->e->session_id);
}

static size_t write_cut(struct cbx_buf *out, const char *key, const char *value, size_t max, uint64_t before,
			const char *where)
{
	_cleanup_buf_ struct cbx_buf b = { 0 };
	size_t gone;

	if (!value)
		return 0;
	gone = cbx_render_cut(&b, value, max, before, where);
	cbx_json_write_str(out, key, cbx_buf_str(&b));
	return gone;
}

static void write_same(struct cbx_buf *out, const cJSON *from, const char *const *keys)
{
	for (; *keys; keys++) {
		const cJSON *v = cbx_json_member(from, *keys);

		if (v && !cJSON_IsNull(v))
			cbx_json_write(out, *keys, v);
	}
}

static void write_error(struct cbx_buf *out, const struct cbx_render *r)
{
	const cJSON *error = cbx_json_member(r->e->x, "error");

	if (!error)
		return;
	cbx_json_write_key(out, "error");
	cbx_buf_addc(out, '{');
	write_cut(out, "name", cbx_json_str(error, "name"), NAME_CHARS, 0, NULL);
	write_cut(out, "value", cbx_json_str(error, "value"), r->value_max, 0, NULL);
	write_cut(out, "traceback", cbx_json_str(error, "traceback"), r->value_max, 0, NULL);
	cbx_buf_addc(out, '}');
}

static void write_structured(struct cbx_buf *out, const struct cbx_render *r)
{
	static const char *const first[] = { "session_id", "execution_id", "execution_count", NULL };
	static const char *const last[] = { "exit_code", "state_kept", "duration_ms", "usage", NULL };
	const cJSON *x = r->e->x, *omitted = cbx_json_member(x, "omitted");
	const char *printed = cbx_json_str(x, "stdout"), *warned = cbx_json_str(x, "stderr");
	const char *where = cbx_json_text(omitted, "where");
	uint64_t gone = cbx_json_u64(omitted, "bytes"), of_printed, gone_here;

	cbx_buf_addc(out, '{');
	cbx_json_write_str(out, "status", is_running(x) ? "running" : cbx_json_text(x, "status"));
	write_same(out, x, first);
	/* What is missing already is counted with the longer of the two. */
	of_printed = strlen(printed) >= strlen(warned) ? gone : 0;
	gone_here = write_cut(out, "stdout", printed, r->text_max, of_printed, where);
	gone_here += write_cut(out, "stderr", warned, r->text_max, gone - of_printed, where);
	write_cut(out, "result", cbx_json_text(x, "result"), r->value_max, 0, NULL);
	write_error(out, r);
	write_cut(out, "message", is_running(x) ? where_it_is(x) : cbx_json_text(x, "message"), MESSAGE_CHARS, 0, NULL);
	cbx_json_write_str(out, "notice", r->e->notice);
	write_same(out, x, last);
	if (gone + gone_here) {
		cbx_json_write_key(out, "omitted");
		cbx_buf_addc(out, '{');
		cbx_json_write_u64(out, "bytes", gone + gone_here);
		cbx_json_write_str(out, "file", cbx_json_text(omitted, "file"));
		cbx_json_write_str(out, "where", where);
		cbx_buf_addc(out, '}');
	}
	cbx_render_bundles(r, out);
	cbx_json_write(out, "images", r->images);
	cbx_json_write(out, "files", r->files);
	if (r->files_left)
		cbx_json_write_u64(out, "files_omitted", r->files_left);
	cbx_buf_addc(out, '}');
}

static void print_once(struct cbx_buf *out, struct cbx_render *r)
{
	_cleanup_json_ cJSON *content = cbx_json_new_arr(), *images = cbx_json_new_arr();
	_cleanup_json_ cJSON *files = cbx_json_new_arr(), *blocks = cbx_json_new_arr();
	const char *status = cbx_json_text(r->e->x, "status");
	cJSON *block;

	r->image_used = 0;
	r->html_left = CBX_HTML_MAX;
	r->text.len = 0;
	r->content = content;
	r->images = images;
	r->files = files;
	r->blocks = blocks;
	build_text(r);
	cbx_render_flush(r);
	while ((block = cJSON_DetachItemFromArray(blocks, 0)))
		cbx_json_push(content, block);
	out->len = 0;
	cbx_buf_reserve(out, SHORT);
	cbx_buf_addc(out, '{');
	cbx_json_write(out, "content", content);
	if (r->e->structured) {
		cbx_json_write_key(out, "structuredContent");
		write_structured(out, r);
	}
	cbx_json_write_key(out, "isError");
	cbx_buf_adds(out, status && strcmp(status, "killed") == 0 ? "true}" : "false}");
	r->content = r->images = r->files = r->blocks = NULL;
}

void cbx_render_execution(struct cbx_buf *out, const struct cbx_render_execution *e)
{
	struct cbx_render r = { .e = e,
				.text_max = CBX_TEXT_CHARS,
				.value_max = CBX_VALUE_CHARS,
				.image_max = e->room,
				.bundle_max = CBX_BUNDLES_MAX,
				.files_max = CBX_CHANGES_MAX };

	for (;;) {
		size_t over;

		print_once(out, &r);
		if (out->len <= e->room || r.text_max < 32)
			break;
		over = out->len - e->room;
		if (r.bundle_max && e->displays && e->displays->child) {
			r.bundle_max = 0;
		} else if (r.image_used) {
			r.image_max = r.image_used > over ? r.image_used - over : 0;
		} else {
			r.text_max /= 2;
			r.value_max /= 2;
			r.files_max /= 2;
		}
	}
	cbx_buf_release(&r.text);
}
